//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/tiling"
)

// problem is a random head with parameters for every transform.
type problem struct {
	v, d, n int
	w, h    []uint16
	rows    Rows
}

func newProblem(rng *rand.Rand, v, d, n int) *problem {
	p := &problem{v: v, d: d, n: n, w: normals(rng, v*d, 0.3), h: normals(rng, n*d, 1)}
	words := (v + 31) / 32
	p.rows = Rows{Seeds: make([]uint64, n), Positions: make([]uint64, n), Temperature: make([]float32, n),
		Bias: make([]float32, n*v), Mask: make([]uint32, n*words), Draw: 3, StreamTag: 25}
	for i := range n {
		p.rows.Seeds[i], p.rows.Positions[i] = rng.Uint64(), rng.Uint64()
		p.rows.Temperature[i] = []float32{0, 0.5, 1, 2.5}[i%4]
	}
	for i := range p.rows.Bias {
		p.rows.Bias[i] = float32(rng.NormFloat64())
	}
	for i := range p.rows.Mask {
		p.rows.Mask[i] = rng.Uint32() | rng.Uint32()
	}
	return p
}

// rowsFor keeps of the problem's parameters what a spec takes.
func (p *problem) rowsFor(s Spec) Rows {
	r := p.rows
	if !s.Sampler.Random() {
		r.Seeds, r.Positions, r.Draw, r.StreamTag = nil, nil, 0, 0
	}
	if !s.Chain.Temperature {
		r.Temperature = nil
	}
	if !s.Chain.Mask {
		r.Mask = nil
	}
	if s.ListLogProbs {
		r.ListIDs = [][]int32{{0, 7, 7, int32(p.v - 1), int32(p.v / 2)}}
	}
	switch s.Chain.Bias {
	case ir.BiasNone:
		r.Bias = nil
	case ir.BiasVector:
		r.Bias = r.Bias[:p.v]
	}
	return r
}

func (p *problem) sample(t *testing.T, dev *Device, spec Spec) *Result {
	t.Helper()
	head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: p.w, Hidden: p.d}, Vocab: p.v, Hidden: p.d})
	require.NoError(t, err)
	defer head.Close()
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	defer plan.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := plan.Sample(ctx, p.h, p.rowsFor(spec))
	require.NoError(t, err)
	return res
}

func mustChain(t *testing.T, s string) ir.Chain {
	c, err := ir.ParseChain(s)
	require.NoError(t, err)
	return c
}

// TestGPUSmall runs every transform and both cluster shapes at a size that compute-sanitizer gets through, and holds the
// result against the CPU's.
func TestGPUSmall(t *testing.T) {
	dev := gpu(t)
	cpu, err := Open(CPU)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tile := range []string{"m192n8k64s4c1", "m192n16k64s4c1", "m64n32k64s4c1", "m128n64k64s3c2", "m128n256k64s3c2"} {
		for _, chain := range []string{"none", "temperature", "softcap=30,bias,mask,temperature", "scale=0.5,bias=rows,mask"} {
			p := newProblem(rng, 401, 72, 19)
			for _, spec := range []Spec{{Score: true}, {Score: true, LogSumExp: true, Sampler: ir.Grouped}, {LogProb: ir.RawLogProb},
				{LogProb: ir.ProcessedLogProb, LogSumExp: true}, {LogProb: ir.TemperatureLogProb, Sampler: ir.Grouped, ListLogProbs: true},
				{LogProb: ir.ProcessedLogProb, ListLogProbs: true, TopN: 20}, {LogProb: ir.RawLogProb, TopN: 7, Rank: true}, {LogProb: ir.TemperatureLogProb, TopN: 20, Sampler: ir.Greedy}} {
				spec.Chain = mustChain(t, chain)
				spec.Tile, err = tiling.ParseTile(tile)
				require.NoError(t, err)
				sameResult(t, p.sample(t, cpu, spec), p.sample(t, dev, spec), fmt.Sprintf("%s %s %s", tile, spec.Sampler, chain))
			}
		}
	}
}

func sameResult(t *testing.T, want, got *Result, what string) {
	t.Helper()
	require.Equal(t, want.Tokens, got.Tokens, what)
	require.Equal(t, want.Status, got.Status, what)
	for i := range want.Scores {
		require.InDelta(t, want.Scores[i], got.Scores[i], 1e-3, what)
	}
	require.Len(t, got.LogSumExp, len(want.LogSumExp), what)
	for i := range want.LogSumExp {
		require.InDelta(t, want.LogSumExp[i], got.LogSumExp[i], 1e-3, what)
	}
	require.Len(t, got.LogProbs, len(want.LogProbs), what)
	for i := range want.LogProbs {
		require.InDelta(t, want.LogProbs[i], got.LogProbs[i], 1e-3, what)
	}
	require.Equal(t, want.TopIDs, got.TopIDs, what)
	require.Equal(t, want.Ranks, got.Ranks, what)
	for i, x := range want.TopLogProbs {
		nearLogProb(t, x, got.TopLogProbs[i], 1e-3, "%s", what)
	}
	require.Len(t, got.ListLogProbs, len(want.ListLogProbs), what)
	for i, list := range want.ListLogProbs {
		for j, x := range list {
			nearLogProb(t, x, got.ListLogProbs[i][j], 1e-3, "%s", what)
		}
	}
}

// launched is a plan with everything on the device, for tests of the launch path.
type launched struct {
	*problem
	launcher *Launcher
	args     *DeviceArgs
	ctx      *driver.Context
	stream   *driver.Stream
}

func newLaunched(t *testing.T, dev *Device, p *problem) *launched {
	return newLaunchedSpec(t, dev, p, Spec{Chain: ir.Chain{Temperature: true}})
}

// withSums is a spec whose kernels have every output and workspace that there is.
var withSums = Spec{Chain: ir.Chain{Temperature: true}, Sampler: ir.Grouped, Score: true, LogSumExp: true, LogProb: ir.ProcessedLogProb}

func newLaunchedSpec(t *testing.T, dev *Device, p *problem, spec Spec) *launched {
	spec.MaxBatch = p.n
	head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: p.w, Hidden: p.d}, Vocab: p.v, Hidden: p.d})
	require.NoError(t, err)
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	l, err := plan.NewLauncher(p.n)
	require.NoError(t, err)
	ctx := dev.b.(*cudaDevice).ctx
	stream, err := ctx.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { stream.Close(); l.Close(); plan.Close(); head.Close() })
	poison := make([]uint32, p.n)
	for i := range poison {
		poison[i] = 0xDEADBEEF
	}
	return &launched{p, l, &DeviceArgs{Batch: p.n, Hidden: upload(t, dev, p.h), Seeds: upload(t, dev, p.rows.Seeds),
		Positions: upload(t, dev, p.rows.Positions), Temperature: upload(t, dev, p.rows.Temperature),
		Tokens: upload(t, dev, poison), Status: upload(t, dev, poison), Scores: upload(t, dev, poison),
		LogSumExp: upload(t, dev, poison), LogProbs: upload(t, dev, poison)}, ctx, stream}
}

func (l *launched) tokens(t *testing.T) []uint32 { return l.words(t, l.args.Tokens) }

// words waits and reads an output.
func (l *launched) words(t *testing.T, at uint64) []uint32 {
	require.NoError(t, l.stream.Synchronize(context.Background()))
	raw, out := make([]byte, 4*l.n), make([]uint32, l.n)
	require.NoError(t, l.ctx.CopyFromDevice(raw, driver.DevicePtr(at)))
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return out
}

// TestGPUGraphReplay: a graph captured once, replayed with new positions in the same memory, gives what eager launches do.
func TestGPUGraphReplay(t *testing.T) {
	dev := gpu(t)
	l := newLaunched(t, dev, newProblem(rand.New(rand.NewPCG(3, 4)), 3000, 64, 13))
	graph, err := l.stream.Capture(func() error { return l.launcher.Launch(l.stream.Handle(), l.args) })
	require.NoError(t, err)
	defer graph.Close()
	exec, err := graph.Instantiate()
	require.NoError(t, err)
	defer exec.Close()
	distinct := map[uint32]bool{}
	for step := range 1000 {
		pos := make([]uint64, l.n)
		for i := range pos {
			pos[i] = uint64(step*100 + i)
		}
		require.NoError(t, l.ctx.CopyToDevice(driver.DevicePtr(l.args.Positions), asBytes(pos)))
		require.NoError(t, exec.Launch(l.stream))
		replayed := l.tokens(t)
		require.NoError(t, l.launcher.Launch(l.stream.Handle(), l.args))
		require.Equal(t, l.tokens(t), replayed, "step %d", step)
		distinct[replayed[1]] = true
	}
	require.Greater(t, len(distinct), 20, "the noise moves with the position")
}

func TestGPULaunchAllocatesNothing(t *testing.T) {
	dev := gpu(t)
	p := newProblem(rand.New(rand.NewPCG(5, 6)), 3000, 64, 13)
	sums := newLaunchedSpec(t, dev, p, withSums)
	require.Zero(t, testing.AllocsPerRun(100, func() { require.NoError(t, sums.launcher.Launch(sums.stream.Handle(), sums.args)) }))
	sums.tokens(t)
	l := newLaunched(t, dev, p)
	launch := func() { require.NoError(t, l.launcher.Launch(l.stream.Handle(), l.args)) }
	require.Zero(t, testing.AllocsPerRun(100, launch))
	begin := time.Now()
	for range 200 {
		launch()
	}
	t.Logf("host time of a launch: %v", time.Since(begin)/200)
	l.tokens(t)
}

// TestGPUReset: a ticket that an aborted launch left behind is a reset away from right.
func TestGPUReset(t *testing.T) {
	dev := gpu(t)
	l := newLaunched(t, dev, newProblem(rand.New(rand.NewPCG(7, 8)), 3000, 64, 13))
	require.NoError(t, l.launcher.Launch(l.stream.Handle(), l.args))
	want := l.tokens(t)
	require.NoError(t, l.ctx.CopyToDevice(l.launcher.workspace(manifest.Ticket), asBytes([]uint32{5})))
	require.NoError(t, l.launcher.Reset())
	for range 1000 {
		require.NoError(t, l.launcher.Launch(l.stream.Handle(), l.args))
	}
	require.Equal(t, want, l.tokens(t))
}

// TestGPUSumsNeedNoClearing: log-sum-exps keep their bits whatever the scratch of the partial sums holds.
func TestGPUSumsNeedNoClearing(t *testing.T) {
	dev := gpu(t)
	l := newLaunchedSpec(t, dev, newProblem(rand.New(rand.NewPCG(7, 9)), 30000, 64, 13), withSums)
	scratch := make([]uint32, l.launcher.plan.partialsBytes(l.n)/4)
	require.NotEmpty(t, scratch)
	var want, wantLogProbs []uint32
	for _, bits := range []uint32{0, 0x7fc00000, 0x7f800000, 0xff800000, 0x42c80000} {
		for i := range scratch {
			scratch[i] = bits
		}
		require.NoError(t, l.ctx.CopyToDevice(l.launcher.partials(), asBytes(scratch)))
		require.NoError(t, l.launcher.Launch(l.stream.Handle(), l.args))
		got := l.words(t, l.args.LogSumExp)
		logProbs := l.words(t, l.args.LogProbs)
		if want == nil {
			want, wantLogProbs = got, logProbs
		}
		require.Equal(t, want, got, "scratch of %#x", bits)
		require.Equal(t, wantLogProbs, logProbs, "scratch of %#x", bits)
	}
	bad := *l.args
	bad.LogSumExp = 0
	var input *InputError
	require.ErrorAs(t, l.launcher.Launch(l.stream.Handle(), &bad), &input)
}

func TestGPUForeignMemoryIsChecked(t *testing.T) {
	dev := gpu(t)
	for _, w := range []DeviceWeights{
		{Ptr: 0, Vocab: 10, Hidden: 64}, {Ptr: 1 << 20 / 2 * 2, LD: 12, Vocab: 10, Hidden: 64}, {Ptr: 1<<20 + 8, Vocab: 10, Hidden: 64},
		{Ptr: 1 << 20, LD: 68, Vocab: 10, Hidden: 64}, {Ptr: 1 << 20, Vocab: 0, Hidden: 64}, {Ptr: 1 << 20, Vocab: 10, Hidden: 4100},
	} {
		_, err := dev.WrapHead(w)
		require.Error(t, err, "%+v", w)
	}
	l := newLaunched(t, dev, newProblem(rand.New(rand.NewPCG(9, 1)), 300, 64, 3))
	bad := *l.args
	bad.Hidden += 2
	var input *InputError
	require.ErrorAs(t, l.launcher.Launch(l.stream.Handle(), &bad), &input)
	bad = *l.args
	bad.Seeds = 0
	require.ErrorAs(t, l.launcher.Launch(l.stream.Handle(), &bad), &input)
}

// TestGPUPlantedFault writes past an allocation, so that a run under compute-sanitizer can show that the tool sees this
// process at all. It runs only where it is asked for by name.
func TestGPUPlantedFault(t *testing.T) {
	if os.Getenv("FSGEN_PLANT_FAULT") == "" {
		t.Skip("set FSGEN_PLANT_FAULT=1 under compute-sanitizer")
	}
	dev := gpu(t)
	l := newLaunched(t, dev, newProblem(rand.New(rand.NewPCG(9, 2)), 300, 64, 130))
	l.args.Tokens = upload(t, dev, make([]uint32, 4))
	require.NoError(t, l.launcher.Launch(l.stream.Handle(), l.args))
	if err := l.stream.Synchronize(context.Background()); err != nil {
		t.Log(err)
	}
}
