//go:build !fsgen_nocuda

package sampler

import (
	"fmt"
	"sync"

	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/manifest"
)

// DeviceArgs are the arguments of one launch, all in the GPU's memory: what they point to may change between replays of
// a captured graph. Addresses are plain integers. Arrays hold one value a row, or one for all where One... is set.
type DeviceArgs struct {
	Batch int
	// Hidden is [Batch, hidden] in bf16, a multiple of 16 bytes, rows HiddenLD values apart (a multiple of 8; 0 means the
	// hidden size).
	Hidden   uint64
	HiddenLD int

	Seeds, Positions     uint64 // u64
	OneSeed, OnePosition bool
	Draw, StreamTag      uint32

	Temperature    uint64 // f32; a negative, NaN or infinite T fails its row
	OneTemperature bool

	Bias       uint64 // f32, [V] or [Batch, BiasStride]
	BiasStride int

	Mask       uint64 // u32 words; rows MaskStride words apart (0: one mask for all), MaskWords of them count
	MaskStride int
	MaskWords  int

	Tokens, Status uint64 // i32, out
	Scores         uint64 // f32, out
	LogSumExp      uint64 // f32, out
}

// Launcher launches a plan's kernels on streams of the caller's. It owns the workspace, so that launches of one Launcher
// must be ordered one after the other (one stream, or streams that wait); take one Launcher for each that is not.
type Launcher struct {
	mu     sync.Mutex
	plan   *cudaPlan
	space  *driver.Buffer
	rows   int // that the workspace holds
	params []*driver.Params
	kernel *cudaKernel // of the launch under way
	hidden driver.TensorMapSpec
}

// ticketBytes keeps the ticket in a cache line of its own, ahead of the keys.
const ticketBytes = 256

func (l *Launcher) ticket() driver.DevicePtr   { return l.space.Ptr() }
func (l *Launcher) keys() driver.DevicePtr     { return l.space.Ptr() + ticketBytes }
func (l *Launcher) partials() driver.DevicePtr { return l.keys() + driver.DevicePtr(8*l.rows) }

func (p *cudaPlan) newLauncher(rows int) (*Launcher, error) {
	l := &Launcher{plan: p}
	for _, k := range p.list {
		params, err := driver.NewParams(k.m.ParamSizes()...)
		if err != nil {
			return nil, err
		}
		l.params = append(l.params, params)
	}
	return l, l.grow(rows)
}

// grow makes the workspace hold a number of rows: ticket and keys, zeroed, and the scratch of the partial sums behind them.
func (l *Launcher) grow(rows int) error {
	if rows <= l.rows {
		return nil
	}
	zeroed := ticketBytes + 8*rows
	space, err := l.plan.head.dev.ctx.Alloc(uint64(zeroed + l.plan.partialsBytes(rows)))
	if err != nil {
		return err
	}
	if err := space.Upload(0, make([]byte, zeroed)); err != nil {
		space.Close()
		return err
	}
	if l.space != nil {
		l.space.Close()
	}
	l.space, l.rows = space, rows
	return nil
}

// Reset zeroes the workspace after a launch that was cut short. Nothing may be running on it.
func (l *Launcher) Reset() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.space.Upload(0, make([]byte, l.space.Size()))
}

// Close frees the workspace. Nothing may be running on it.
func (l *Launcher) Close() error { return l.space.Close() }

// NewLauncher makes a launcher for batches of up to rows rows.
func (p *Plan) NewLauncher(rows int) (*Launcher, error) {
	c, ok := p.b.(*cudaPlan)
	if !ok {
		return nil, &InputError{"device", "device launches need a cuda device", nil}
	}
	if rows < 1 {
		return nil, &InputError{"rows", "want 1 or more", rows}
	}
	if err := p.open.enter(); err != nil {
		return nil, err
	}
	defer p.open.leave()
	return c.newLauncher(rows)
}

// Launch enqueues one launch on a stream (a CUstream as an integer, 0 for the default stream). It allocates nothing and
// waits for nothing, and may be captured in a graph. A batch of 0 launches nothing.
func (l *Launcher) Launch(stream uintptr, a *DeviceArgs) error {
	if a.Batch == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(a); err != nil {
		return err
	}
	i := l.plan.widths.choose(a.Batch)
	k, params := l.plan.list[i], l.params[i]
	l.kernel = k
	for j, set := range k.setters {
		if err := set(l, params, j, a); err != nil {
			return err
		}
	}
	ctas := autotune.Grid(k.m.Launch.Grid, l.plan.head.shape.Vocab, a.Batch, k.resident, k.ctas)
	return k.fn.LaunchOn(stream, k.config(ctas), params)
}

func (l *Launcher) check(a *DeviceArgs) error {
	if a.Batch < 0 || a.Batch > l.rows {
		return &InputError{"batch", fmt.Sprintf("the launcher holds %d rows", l.rows), a.Batch}
	}
	if a.HiddenLD == 0 {
		a.HiddenLD = l.plan.head.shape.Hidden
	}
	if err := checkRows("hidden states", a.Hidden, a.HiddenLD, l.plan.head.shape.Hidden); err != nil {
		return err
	}
	if err := checkStride("bias stride", a.BiasStride); err != nil {
		return err
	}
	if err := checkStride("mask stride", a.MaskStride); err != nil {
		return err
	}
	c := l.plan.spec.Chain
	if c.Mask && (a.MaskWords < 0 || a.MaskStride != 0 && a.MaskStride < a.MaskWords) {
		return &InputError{"mask stride", "want 0 or the words of a row", a.MaskStride}
	}
	return nil
}

// maxStride keeps a row's distance in bytes within the kernels' 32 bits.
const maxStride = 1<<30 - 1

func checkStride(field string, stride int) error {
	if stride < 0 || stride > maxStride {
		return &InputError{field, fmt.Sprintf("want 0 to %d elements", maxStride), stride}
	}
	return nil
}

// encode makes a tensor map of a bf16 matrix [rows, hidden] at an address, with the box that a kernel wants. It fills in
// spec, which the driver's call keeps from the stack: launches bring their own, and allocate nothing.
func (h *cudaHead) encode(spec *driver.TensorMapSpec, m *manifest.Map, addr driver.DevicePtr, rows, ld int) (driver.TensorMap, error) {
	*spec = driver.TensorMapSpec{
		Type: driver.BFloat16, Rank: 2, Address: addr,
		Dims:    [5]uint64{uint64(h.shape.Hidden), uint64(rows)},
		Strides: [4]uint64{uint64(ld) * 2},
		Box:     [5]uint32{m.Box[0], m.Box[1]},
		Swizzle: driver.Swizzle128B, L2Promotion: l2Promotion(m),
	}
	return h.dev.ctx.EncodeTiled(spec)
}

func l2Promotion(m *manifest.Map) driver.L2Promotion {
	switch m.L2Promote {
	case 64:
		return driver.L2Promotion64B
	case 128:
		return driver.L2Promotion128B
	case 256:
		return driver.L2Promotion256B
	}
	return driver.L2PromotionNone
}
