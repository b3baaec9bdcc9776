//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"errors"
	"fmt"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

// packer packs row-major weights in the GPU's memory into a head of its own.
type packer struct {
	head   *cudaHead
	mod    *driver.Module
	fn     *driver.Function
	stream *driver.Stream
}

// newPacker allocates the packed head and loads the kernel.
func (d *cudaDevice) newPacker(ctx context.Context, shape ir.Shape) (p *packer, err error) {
	p = &packer{head: &cudaHead{dev: d, shape: shape, layout: Packed, ld: alignedLD(shape.Hidden)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close(), p.head.close())
		}
	}()
	if p.head.buf, err = d.ctx.Alloc(uint64(manifest.PackedBytes(shape.Vocab, shape.Hidden))); err != nil {
		return p, fmt.Errorf("%d x %d packed weights: %w", shape.Vocab, shape.Hidden, err)
	}
	p.head.ptr = p.head.buf.Ptr()
	k, err := templates.Pack(d.arch)
	if err != nil {
		return p, err
	}
	if p.mod, err = d.load(ctx, []byte(k.Module.String())); err != nil {
		return p, err
	}
	if p.fn, err = p.mod.Function(templates.PackEntry); err != nil {
		return p, err
	}
	p.stream, err = d.ctx.NewStream()
	return p, err
}

// close frees all but the head.
func (p *packer) close() error {
	var errs []error
	if p.stream != nil {
		errs = append(errs, p.stream.Close())
	}
	if p.mod != nil {
		errs = append(errs, p.mod.Close())
	}
	return errors.Join(errs...)
}

// pack packs n rows from device memory, ld values apart, and waits. first is a multiple of PackedRows.
func (p *packer) pack(ctx context.Context, source driver.DevicePtr, ld, first, n int) error {
	_, tall := manifest.PackedPanels(p.head.shape.Vocab, p.head.shape.Hidden)
	params, err := driver.NewParams(8, 4, 4, 4, 8, 4)
	if err != nil {
		return err
	}
	params.SetPtr(0, source)
	params.SetUint32(1, uint32(2*ld))
	params.SetUint32(2, uint32(n))
	params.SetUint32(3, uint32(p.head.shape.Hidden))
	params.SetPtr(4, p.head.ptr+driver.DevicePtr(first)*manifest.PackedRowBytes)
	params.SetUint32(5, uint32(tall))
	cfg := driver.LaunchConfig{Grid: driver.Dim3{X: uint32(8 * p.head.dev.sms()), Y: 1, Z: 1},
		Block: driver.Dim3{X: templates.PackThreads, Y: 1, Z: 1}}
	if err := p.stream.Launch(p.fn, cfg, params); err != nil {
		return err
	}
	return p.stream.Synchronize(ctx)
}

// loadPacked copies an LM head to the GPU, a piece at a time, and packs it there: no more than a piece lies there twice.
func (d *cudaDevice) loadPacked(ctx context.Context, w Weights) (_ headBackend, err error) {
	p, err := d.newPacker(ctx, ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden})
	if err != nil {
		return nil, err
	}
	var staging *driver.Buffer
	err = p.head.eachChunk(ctx, w, manifest.PackedRows, func(first, n int, rows []uint16) error {
		if staging == nil { // the first piece is the largest
			if staging, err = d.ctx.Alloc(uint64(2 * len(rows))); err != nil {
				return err
			}
		}
		if err := staging.Upload(0, asBytes(rows)); err != nil {
			return err
		}
		return p.pack(ctx, staging.Ptr(), p.head.ld, first, n)
	})
	if staging != nil {
		err = errors.Join(err, staging.Close())
	}
	if err = errors.Join(err, p.close()); err != nil {
		return nil, errors.Join(err, p.head.close())
	}
	return p.head, nil
}

// packedCopy packs the head's weights into a new head.
func (h *cudaHead) packedCopy() (*cudaHead, error) {
	ctx := context.Background()
	p, err := h.dev.newPacker(ctx, h.shape)
	if err != nil {
		return nil, err
	}
	err = errors.Join(p.pack(ctx, h.ptr, h.ld, 0, h.shape.Vocab), p.close())
	if err != nil {
		return nil, errors.Join(err, p.head.close())
	}
	return p.head, nil
}
