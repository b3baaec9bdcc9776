//go:build !fsgen_nocuda

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/closing"
	"github.com/fsgen/fsgen/internal/cublas"
)

// algorithms is how many of cuBLASLt's proposals are tried: a fair peer is the best cuBLAS has, not its first guess.
const algorithms = 8

// blas is cuBLASLt on the rig's device.
type blas struct {
	r         *rig
	lib       *cublas.Library
	handle    *cublas.Handle
	workspace *driver.Buffer
}

// openBLAS finds and starts cuBLASLt.
func (r *rig) openBLAS() (*blas, error) {
	b := &blas{r: r}
	var err error
	if b.lib, err = cublas.Open(); err != nil {
		return nil, err
	}
	if err := r.ctx.Do(func() error { b.handle, err = b.lib.Create(); return err }); err != nil {
		return nil, err
	}
	r.Keep(closer(func() error { return r.ctx.Do(b.handle.Close) }))
	b.workspace, err = alloc(r.ctx, &r.Scope, cublas.WorkspaceBytes)
	return b, err
}

// product is the logits of one batch size.
type product struct {
	b      *blas
	batch  int
	m      *cublas.Matmul
	logits *driver.Buffer
}

// contender makes the contender of a batch size: the fastest of the proposed algorithms, its logits looked at.
func (b *blas) contender(ctx context.Context, s *closing.Scope, batch int) (Contender, error) {
	p := &product{b: b, batch: batch}
	if err := p.open(s); err != nil {
		return Contender{}, err
	}
	var list []Contender
	var failed []error
	for i := range p.m.Algorithms() {
		c, err := p.try(ctx, s, i)
		switch {
		case errors.Is(err, driver.ErrPoisoned) || ctx.Err() != nil:
			return Contender{}, err
		case err != nil:
			failed = append(failed, err)
		default:
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return Contender{}, errors.Join(failed...)
	}
	return p.fastest(ctx, list)
}

// open makes the descriptors and the memory for the logits.
func (p *product) open(s *closing.Scope) (err error) {
	r := p.b.r
	if p.logits, err = alloc(r.ctx, s, 2*uint64(p.batch)*uint64(r.cfg.Shape.Vocab)); err != nil {
		return err
	}
	shape := cublas.Shape{Batch: p.batch, Vocab: r.cfg.Shape.Vocab, Hidden: r.cfg.Shape.Hidden, HiddenLD: r.ld, WeightsLD: r.ld}
	if err := r.ctx.Do(func() error { p.m, err = p.b.handle.NewMatmul(shape, algorithms); return err }); err != nil {
		return err
	}
	s.Keep(closer(func() error { return r.ctx.Do(p.m.Close) }))
	return nil
}

// try runs an algorithm once onto poison, outside any graph, since it may load code then, checks what it wrote and makes a
// contender of it.
func (p *product) try(ctx context.Context, s *closing.Scope, algorithm int) (Contender, error) {
	r := p.b.r
	args := cublas.Args{Hidden: r.inputs.hidden, Weights: uint64(r.weights.Ptr()), Logits: uint64(p.logits.Ptr()), Workspace: uint64(p.b.workspace.Ptr())}
	enqueue := func() error {
		return r.ctx.Do(func() error { return p.m.Enqueue(algorithm, r.stream.Handle(), args) })
	}
	if err := r.stream.MemsetD8(p.logits.Ptr(), 0xff, p.logits.Size()); err != nil { // NaN
		return Contender{}, err
	}
	if err := enqueue(); err != nil {
		return Contender{}, err
	}
	if err := r.stream.Synchronize(ctx); err != nil {
		return Contender{}, err
	}
	if err := r.data.checkLogits(p.batch, p.read); err != nil {
		return Contender{}, fmt.Errorf("algorithm %d: %w", algorithm, err)
	}
	return r.graph(s, Cublas, fmt.Sprintf("cublasLt %s, algorithm %d of %d", p.b.lib.Version(), algorithm, p.m.Algorithms()), enqueue)
}

func (p *product) read(row, token int) (uint16, error) {
	var b [2]byte
	err := p.logits.Download(b[:], 2*(uint64(row)*uint64(p.b.r.cfg.Shape.Vocab)+uint64(token)))
	return binary.LittleEndian.Uint16(b[:]), err
}

// fastest times the algorithms against each other.
func (p *product) fastest(ctx context.Context, list []Contender) (Contender, error) {
	few := Method{Launches: p.b.r.cfg.Method.Launches, Replays: 5, WarmUps: 1}
	series, err := Measure(ctx, list, few, Watch{})
	if err != nil {
		return Contender{}, err
	}
	best := 0
	for i := range series {
		if median(series[i].Times) < median(series[best].Times) {
			best = i
		}
	}
	return list[best], nil
}
