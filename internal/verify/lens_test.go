package verify

import (
	"context"

	"github.com/fsgen/fsgen/sampler"
)

// lens is a target seen through a fault: any of its functions may be nil.
type lens struct {
	target
	info   func(sampler.Info) sampler.Info
	health func() error
	// weights changes what is loaded.
	weights func(w sampler.Weights) sampler.Weights
	// spec changes what is planned.
	spec func(s sampler.Spec) sampler.Spec
	// in changes the arguments of a call, out its result.
	in  func(p *lensPlan, hidden []uint16, r sampler.Rows) ([]uint16, sampler.Rows)
	out func(p *lensPlan, hidden []uint16, r sampler.Rows, res *sampler.Result)
	// sample replaces the call.
	sample func(p *lensPlan, hidden []uint16, r sampler.Rows) (*sampler.Result, error)
}

func (l *lens) Info() sampler.Info {
	if l.info != nil {
		return l.info(l.target.Info())
	}
	return l.target.Info()
}

func (l *lens) Healthy() error {
	if l.health != nil {
		return l.health()
	}
	return l.target.Healthy()
}

func (l *lens) load(ctx context.Context, w sampler.Weights) (head, error) {
	if l.weights != nil {
		w = l.weights(w)
	}
	h, err := l.target.load(ctx, w)
	if err != nil {
		return nil, err
	}
	return &lensHead{h, l, w}, nil
}

type lensHead struct {
	head
	l *lens
	w sampler.Weights
}

func (h *lensHead) plan(ctx context.Context, s sampler.Spec) (plan, error) {
	asked := s
	if h.l.spec != nil {
		s = h.l.spec(s)
	}
	p, err := h.head.plan(ctx, s)
	if err != nil {
		return nil, err
	}
	return &lensPlan{plan: p, l: h.l, w: h.w, spec: asked}, nil
}

// lensPlan knows its weights and the spec that it was asked for.
type lensPlan struct {
	plan
	l    *lens
	w    sampler.Weights
	spec sampler.Spec
	mixture
}

func (p *lensPlan) Sample(ctx context.Context, hidden []uint16, r sampler.Rows) (*sampler.Result, error) {
	if p.l.sample != nil {
		return p.l.sample(p, hidden, r)
	}
	given := r
	h := hidden
	if p.l.in != nil {
		h, r = p.l.in(p, hidden, r)
	}
	res, err := p.plan.Sample(ctx, h, r)
	if err == nil && p.l.out != nil {
		p.l.out(p, hidden, given, res)
	}
	return res, err
}

// problem is a call on the plan.
func (p *lensPlan) problem(hidden []uint16, r sampler.Rows) *problem {
	return &problem{
		w: p.w.Source.(sampler.Matrix).Data, batch: len(hidden) / p.w.Hidden, spec: p.spec, hidden: hidden, rows: r,
		shape: shapeOf(p.w),
	}
}
