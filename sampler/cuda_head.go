//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"fmt"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
)

// cudaHead is an LM head in a GPU's memory: rows of bf16, ld values apart.
type cudaHead struct {
	dev   *cudaDevice
	shape ir.Shape
	ptr   driver.DevicePtr
	ld    int            // of row-major weights
	buf   *driver.Buffer // nil for memory that belongs to somebody else

	layout Layout
	span   *ir.Span // of a shard; nil for all of the vocabulary
}

// shard makes the head one of some ids of a vocabulary.
func (h *cudaHead) shard(vocab int, span ir.Span) { h.shape.Vocab, h.span = vocab, &span }

// rows is the rows of the weights, of a packed shard with those ahead of its first; those of a shard of no ids are one.
func (h *cudaHead) rows() int {
	if h.span != nil && h.layout == RowMajor {
		return max(h.span.Count, 1)
	}
	return workOf(h.shape, h.span).Vocab
}

// uploadBytes bounds how much of the weights is staged at a time, in bytes.
const uploadBytes = 64 << 20

func (d *cudaDevice) loadHead(ctx context.Context, w Weights) (headBackend, error) {
	if w.Layout == Packed {
		return d.loadPacked(ctx, w)
	}
	ld := alignedLD(w.Hidden)
	buf, err := d.ctx.Alloc(uint64(w.Vocab) * uint64(ld) * 2)
	if err != nil {
		return nil, fmt.Errorf("%d x %d weights: %w", w.Vocab, w.Hidden, err)
	}
	h := &cudaHead{dev: d, shape: ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden}, ptr: buf.Ptr(), ld: ld, buf: buf, layout: RowMajor}
	err = h.eachChunk(ctx, w, 1, func(first, _ int, rows []uint16) error {
		return buf.Upload(uint64(first)*uint64(ld)*2, asBytes(rows))
	})
	if err != nil {
		buf.Close()
		return nil, err
	}
	return h, nil
}

// eachChunk reads the weights, a multiple of some rows at a time, ld values apart.
func (h *cudaHead) eachChunk(ctx context.Context, w Weights, multiple int, f func(first, n int, rows []uint16) error) error {
	rows := max(1, min((w.Vocab+multiple-1)/multiple, uploadBytes/(2*h.ld*multiple))) * multiple
	chunk, padded := make([]uint16, rows*w.Hidden), []uint16(nil)
	if h.ld != w.Hidden {
		padded = make([]uint16, rows*h.ld)
	}
	for first := 0; first < w.Vocab; first += rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(rows, w.Vocab-first)
		if err := w.Source.ReadRows(ctx, chunk[:n*w.Hidden], first, n); err != nil {
			return err
		}
		src := chunk[:n*w.Hidden]
		if padded != nil {
			src = pad(padded[:n*h.ld], src, w.Hidden, h.ld)
		}
		if err := f(first, n, src); err != nil {
			return err
		}
	}
	return nil
}

func (h *cudaHead) close() error {
	if h.buf == nil {
		return nil
	}
	return h.buf.Close()
}

// DeviceWeights are an LM head that already lies in a GPU's memory; it is read, never written, and not freed.
type DeviceWeights struct {
	// Ptr is the device address of W [Vocab, Hidden] in bf16, a multiple of 16. What writes them must be done: WrapHead packs
	// them at once, and launches may read them ahead of the kernel before (see Spec.SerialLaunch).
	Ptr uint64
	// LD is the distance from row to row in values, a multiple of 8; 0 means Hidden.
	LD     int
	Vocab  int
	Hidden int
	// Layout is the layout that the head shall have, RowMajor if empty. For Packed a packed copy is made, and the weights at
	// Ptr are no longer needed afterwards.
	Layout Layout
}

// WrapHead makes a head of row-major weights that lie in the memory of this device: over them, without a copy, or a packed
// copy of its own.
func (d *Device) WrapHead(w DeviceWeights) (*Head, error) {
	if err := d.open.enter(); err != nil {
		return nil, err
	}
	defer d.open.leave()
	c, ok := d.b.(*cudaDevice)
	if !ok {
		return nil, &InputError{"device", "device memory needs a cuda device", d.Info().Name}
	}
	shape := ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden}
	if err := shape.Validate(); err != nil {
		return nil, refuse("head's shape", err)
	}
	if w.LD == 0 {
		w.LD = w.Hidden
	}
	if err := checkRows("weights", w.Ptr, w.LD, w.Hidden); err != nil {
		return nil, err
	}
	layout, err := manifest.ParseLayout(string(w.Layout))
	if err != nil {
		return nil, &InputError{"weights layout", "want rowmajor or packed", string(w.Layout)}
	}
	h := &cudaHead{dev: c, shape: shape, ptr: driver.DevicePtr(w.Ptr), ld: w.LD, layout: layout}
	if layout == Packed {
		if h, err = h.packedCopy(); err != nil {
			return nil, err
		}
	}
	return d.newHead(h, shape), nil
}

// checkRows holds a foreign matrix to what TMA asks.
func checkRows(field string, ptr uint64, ld, hidden int) error {
	switch {
	case ptr == 0 || ptr%gen.RowAlignment != 0:
		return &InputError{field + " address", "want a multiple of 16 bytes", fmt.Sprintf("%#x", ptr)}
	case ld < hidden:
		return &InputError{field + " leading dimension", fmt.Sprintf("want %d or more", hidden), ld}
	case ld*2%gen.RowAlignment != 0:
		return &InputError{field + " leading dimension", "want a multiple of 8: rows start at multiples of 16 bytes", ld}
	}
	return nil
}

func (h *cudaHead) plan(ctx context.Context, spec Spec) (planBackend, error) {
	buckets, err := spec.buckets(h.dev.arch, workOf(h.shape, h.span), h.layout, h.dev.tunings)
	if err != nil {
		return nil, err
	}
	return newCUDAPlan(ctx, h, spec, buckets)
}
