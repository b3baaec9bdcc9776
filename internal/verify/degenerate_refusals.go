package verify

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// refused samples what must be refused by a typed error.
func refused(ctx context.Context, s *session, what string, hidden []uint16, rows sampler.Rows) error {
	_, err := s.plan.Sample(ctx, hidden, rows)
	var input *sampler.InputError
	if !errors.As(err, &input) {
		return fmt.Errorf("%s: error %v, want a *sampler.InputError", what, err)
	}
	if input.Field == "" || input.Rule == "" {
		return fmt.Errorf("%s: the error %q names no field or no rule", what, err)
	}
	return nil
}

func badTemperatures(ctx context.Context, p *probe) error {
	pr := plant(p.noisy("temperature"), zeros(100)).repeat(3)
	return p.with(ctx, pr, func(s *session) error {
		for _, bad := range []float32{-1, -1e-30, nan32, inf32, -inf32, math.MaxFloat32, math.Nextafter32(ir.MaxTemperature, inf32)} {
			for _, temps := range [][]float32{{bad}, {1, bad, 1}, {0, 0, bad}} {
				pr.rows.Temperature = temps
				if err := refused(ctx, s, fmt.Sprintf("temperatures %v", temps), pr.hidden, pr.rows); err != nil {
					return err
				}
			}
		}
		_, err := p.verifyOn(ctx, s, pr.at(1, 0, 0.5))
		return err
	})
}

// badArguments are changes to good arguments that make them bad ones.
var badArguments = []struct {
	name string
	f    func(r *sampler.Rows)
}{
	{"two seeds for three rows", func(r *sampler.Rows) { r.Seeds = r.Seeds[:2] }},
	{"four seeds for three rows", func(r *sampler.Rows) { r.Seeds = append(r.Seeds, 1) }},
	{"seeds without positions", func(r *sampler.Rows) { r.Positions = nil }},
	{"two positions", func(r *sampler.Rows) { r.Positions = []uint64{1, 2} }},
	{"unseeded too short", func(r *sampler.Rows) { r.Unseeded = []bool{true} }},
	{"seeds missing for a seeded row", func(r *sampler.Rows) { r.Seeds, r.Unseeded = nil, []bool{true, false, true} }},
	{"no temperature", func(r *sampler.Rows) { r.Temperature = nil }},
	{"two temperatures", func(r *sampler.Rows) { r.Temperature = r.Temperature[:2] }},
	{"no bias", func(r *sampler.Rows) { r.Bias = nil }},
	{"bias too short", func(r *sampler.Rows) { r.Bias = r.Bias[:len(r.Bias)-1] }},
	{"bias stride below V", func(r *sampler.Rows) { r.BiasStride = 99 }},
	{"bias stride past the bias", func(r *sampler.Rows) { r.BiasStride = 101 }},
	{"no mask", func(r *sampler.Rows) { r.Mask = nil }},
	{"mask of no whole rows", func(r *sampler.Rows) { r.Mask = r.Mask[:5] }},
	{"mask of two rows", func(r *sampler.Rows) { r.Mask = r.Mask[:8] }},
	{"negative mask words", func(r *sampler.Rows) { r.MaskWords = -4 }},
}

// idle are arguments that plans without a use for them must refuse.
var idle = []struct {
	name string
	spec sampler.Spec
	rows sampler.Rows
}{
	{"temperature", sampler.Spec{}, sampler.Rows{Temperature: []float32{1}}},
	{"bias", sampler.Spec{}, sampler.Rows{Bias: make([]float32, 100)}},
	{"bias stride", sampler.Spec{}, sampler.Rows{BiasStride: 100}},
	{"mask", sampler.Spec{}, sampler.Rows{Mask: make([]uint32, 4)}},
	{"mask words", sampler.Spec{}, sampler.Rows{MaskWords: 4}},
	{"greedy seeds", sampler.Spec{Sampler: ir.Greedy}, sampler.Rows{Seeds: []uint64{1}, Positions: []uint64{1}}},
	{"greedy draw", sampler.Spec{Sampler: ir.Greedy}, sampler.Rows{Draw: 1}},
	{"grouped mask", sampler.Spec{Sampler: ir.Grouped}, sampler.Rows{Mask: make([]uint32, 4)}},
}

func badInputs(ctx context.Context, p *probe) error {
	const v, d = 100, 64
	pr := p.random(p.weights(v, d), ir.Shape{Vocab: v, Hidden: d}, 3, p.noisy("bias=rows,mask,temperature"), false)
	pr.rows.MaskWords = 0
	pr.at(1, 0, 2).allow(every(v), every(v, 3), every(v, 4))
	err := p.with(ctx, pr, func(s *session) error {
		if _, err := p.verifyOn(ctx, s, pr); err != nil {
			return err
		}
		for _, f := range badArguments {
			rows := pr.rows
			f.f(&rows)
			if err := refused(ctx, s, f.name, pr.hidden, rows); err != nil {
				return err
			}
		}
		return refused(ctx, s, "hidden states of no whole rows", pr.hidden[:2*d+1], pr.rows)
	})
	if err != nil {
		return err
	}
	for _, c := range idle {
		pr := plant(c.spec, zeros(v))
		rows := c.rows
		if c.spec.Sampler.Random() {
			rows.Seeds, rows.Positions = pr.rows.Seeds, pr.rows.Positions
		}
		err := p.with(ctx, pr, func(s *session) error { return refused(ctx, s, "idle "+c.name, pr.hidden, rows) })
		if err != nil {
			return err
		}
	}
	return badHeads(ctx, p)
}

// badHeads have shapes that no device may take.
func badHeads(ctx context.Context, p *probe) error {
	source := sampler.Matrix{Data: make([]uint16, 640), Hidden: 64}
	for _, w := range []sampler.Weights{{Vocab: 10, Hidden: 64}, {Source: source, Vocab: 0, Hidden: 64}, {Source: source, Vocab: 10}, {Source: source, Vocab: -1, Hidden: 64}} {
		if h, err := p.dev.load(ctx, w); err == nil {
			return errors.Join(fmt.Errorf("a head of %d x %d was loaded", w.Vocab, w.Hidden), h.Close())
		}
	}
	return nil
}
