package sampler

import (
	"context"

	"github.com/fsgen/fsgen/ir"
)

// Plan samples rows for one head and spec.
type Plan struct {
	b     planBackend
	open  lifetime
	spec  Spec
	shape ir.Shape
}

// Spec returns what the plan computes.
func (p *Plan) Spec() Spec { return p.spec }

// Kernels names the kernels that the plan chooses from.
func (p *Plan) Kernels() []string { return p.b.kernels() }

// Sample draws one token for each row of hidden [B, D] (bf16). No rows is no error, and no work.
func (p *Plan) Sample(ctx context.Context, hidden []uint16, rows Rows) (*Result, error) {
	b, err := newBatch(p.spec, p.shape, hidden, rows)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := p.open.enter(); err != nil {
		return nil, err
	}
	defer p.open.leave()
	if b.rows == 0 {
		return &Result{Tokens: []int32{}, Status: []ir.Status{}}, nil
	}
	res, err := p.b.sample(ctx, b)
	if err != nil {
		return nil, err
	}
	if p.spec.Sampler.Random() {
		res.Seeds = spread(b.seeds, b.rows)
	}
	return res, nil
}

// spread copies one value to every row, or the values as they are.
func spread(v []uint64, rows int) []uint64 {
	out := make([]uint64, rows)
	for i := range out {
		out[i] = v[min(i, len(v)-1)]
	}
	return out
}

// Close frees the plan.
func (p *Plan) Close() error { return p.open.close(p.b.close) }
