package sampler

import (
	"context"
	"slices"

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
	if err := p.open.enter(); err != nil {
		return nil, err
	}
	defer p.open.leave()
	b, err := newBatch(p.spec, p.shape, hidden, rows)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if b.rows == 0 {
		return &Result{Tokens: []int32{}, Status: []ir.Status{}}, nil
	}
	res, err := p.b.sample(ctx, b)
	if err != nil {
		return nil, err
	}
	res.complete(p.spec, b)
	return res, nil
}

// complete fills in what no device reports: that rows took one pass, where nobody says otherwise, and their seeds.
func (r *Result) complete(spec Spec, b *batch) {
	if r.Passes == nil {
		r.Passes = slices.Repeat([]int32{1}, b.rows)
	}
	if spec.Sampler.Random() && b.rows > 0 {
		r.Seeds = b.rowSeeds()
	}
}

// rowSeeds are the seeds by rows.
func (b *batch) rowSeeds() []uint64 {
	out := make([]uint64, b.rows)
	for i := range out {
		slot := i
		if b.params.Slots != nil {
			slot = int(b.params.Slots[i])
		}
		out[i] = b.seeds[min(slot, len(b.seeds)-1)]
	}
	return out
}

// Close closes the plan's launchers, and frees it.
func (p *Plan) Close() error { return p.open.close() }
