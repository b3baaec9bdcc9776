package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

func degenerateTruncation() []item {
	return list([]check{
		{"filters at the borders of what they keep", "D6", plantedFilters},
		{"equal logits under top-k", "D6", equalUnderTopK},
		{"filters that are off", "D12", filtersOff},
		{"masks that leave fewer tokens than k", "D5", fewerThanK},
		{"rows of all filters, alone and together", "D13", mixedFilters},
		{"bad filters are refused", "D8", badFilters},
	})
}

// allFilters takes every parameter that a row's candidates depend on.
func allFilters() sampler.Spec { return truncated("bias=rows,mask,temperature", "top-k,top-p,min-p") }

// keptCase is a row and the tokens that its filters keep.
type keptCase struct {
	z          []float32
	k          int32
	p, minP, t float32
	kept       []int
}

// logs are the logits of probabilities, each rounded to float32.
func logs(prob ...float64) []float32 {
	out := make([]float32, len(prob))
	for v, p := range prob {
		out[v] = float32(math.Log(p))
	}
	return out
}

// keptCases have every filter end at a tie, at the border of a token's mass, and where a set would be empty.
var keptCases = []keptCase{
	{logs(0.4, 0.3, 0.3), 2, 1, 0, 1, []int{0, 1}},
	{[]float32{1, 2, 2, 2, 3}, 3, 1, 0, 1, []int{1, 2, 4}},
	{zeros(8), 5, 1, 0, 1, span(0, 5)},
	{logs(0.3, 0.1, 0.1, 0.5), 0, 0.8, 0, 1, []int{0, 3}},
	{logs(0.5, 0.25, 0.25), 0, 0.75, 0, 1, []int{0, 1}},
	{zeros(4), 0, 0.5, 0, 1, []int{0, 1}},
	{zeros(4), 0, 0.50001, 0, 1, []int{0, 1, 2}},
	{logs(0.3, 0.1, 0.1, 0.5), 0, 0, 0, 1, []int{3}},
	{logs(0.3, 0.1, 0.1, 0.5), 0, 1e-30, 0, 2, []int{3}},
	{logs(0.2, 0.3, 0.5), 0, 0.9999999, 0, 1, []int{0, 1, 2}},
	{logs(0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1), 3, 0.8, 0, 1, []int{0, 1}}, // of what top-k left
	{logs(0.4, 0.3, 0.3), 1, 0.8, 0, 0.01, []int{0}},
	{logs(0.5, 0.25, 0.125, 0.125), 0, 1, 0.5, 1, []int{0, 1}},
	{logs(0.25, 0.5, 0.125, 0.125), 3, 0.7, 0.6, 1, []int{1}},
	{[]float32{1, 2, 2}, 0, 1, 1, 1, []int{1, 2}},
	{[]float32{7}, 5, 0.5, 0.5, 1, []int{0}},
	{with(zeros(100), 30, 57), 7, 0.5, 0, 1, []int{57}},                       // a peaked row
	{[]float32{1, inf32, 2, inf32}, 2, 1, 0, 1, []int{1}},                     // of infinite logits the first
	{[]float32{-inf32, 0, 0, -inf32, 0, 1e-3}, 3, 1, 0, 1, []int{1, 2, 5}},    // what is at -inf is no candidate
	{[]float32{0, float32(math.Copysign(0, -1)), 0}, 2, 1, 0, 1, []int{0, 1}}, // zeros are equal
}

// keptVocab is the vocabulary of planted filters: few enough tokens for a kernel to list all of them, so that it knows their mass
// exactly.
const keptVocab = 130

// plantedFilters draws from rows of which the tokens kept are known without a reference: no other comes out, and each of them does
// where there are seeds enough to see tokens of a tenth of the mass.
func plantedFilters(ctx context.Context, p *probe) error {
	seeds := 60
	if p.sim {
		seeds = 3
	}
	pr := plant(allFilters(), zeros(keptVocab)).repeat(seeds * len(keptCases))
	var bias []float32
	var masks [][]int
	for _, c := range keptCases {
		for range seeds {
			row := zeros(keptVocab)
			copy(row, c.z)
			bias, masks = append(bias, row...), append(masks, span(0, len(c.z)))
			r := &pr.rows
			r.TopK, r.TopP, r.MinP, r.Temperature = append(r.TopK, c.k), append(r.TopP, c.p), append(r.MinP, c.minP), append(r.Temperature, c.t)
		}
	}
	pr.rows.Bias = bias
	got, err := p.verify(ctx, pr.allow(masks...))
	if err != nil {
		return err
	}
	for i, c := range keptCases {
		if err := c.holds(got.Tokens[i*seeds:][:seeds], !p.sim); err != nil {
			return fmt.Errorf("case %d: k %d, p %v, min-p %v at T=%v: %w", i, c.k, c.p, c.minP, c.t, err)
		}
	}
	return nil
}

// holds compares tokens drawn with those kept, all of which are to be seen where all is set.
func (c keptCase) holds(tokens []int32, all bool) error {
	for _, token := range tokens {
		if !slices.Contains(c.kept, int(token)) {
			return fmt.Errorf("token %d, where %v are kept", token, c.kept)
		}
	}
	for _, v := range c.kept {
		if all && !slices.Contains(tokens, int32(v)) {
			return fmt.Errorf("token %d of %v has not come out in %d draws", v, c.kept, len(tokens))
		}
	}
	return nil
}

// equalUnderTopK has all logits equal, so that ids alone decide, and two maxima far apart.
func equalUnderTopK(ctx context.Context, p *probe) error {
	v, rows := 5003, 64
	if p.sim { // which lists every token of such rows
		v, rows = 1100, 7
	}
	spec := truncated("none", "top-k")
	flat := plant(spec, zeros(v)).repeat(rows)
	ks := []int32{1, 2, 5, 31, 100, 257, 1000, ir.MaxTopK}
	for b := range flat.batch {
		flat.rows.TopK = append(flat.rows.TopK, ks[b%len(ks)])
	}
	got, err := p.verify(ctx, flat)
	if err != nil {
		return err
	}
	for b, token := range got.Tokens {
		if token < 0 || token >= flat.rows.TopK[b] {
			return fmt.Errorf("row %d: token %d under k = %d", b, token, flat.rows.TopK[b])
		}
	}
	pair := plant(spec, with(zeros(v), 1, 70, v-13)).repeat(rows)
	pair.rows.TopK = []int32{1}
	if got, err = p.verify(ctx, pair); err != nil {
		return err
	}
	return expect(got, slices.Repeat([]want{ok(70)}, pair.batch)...)
}

// filtersOff compares rows whose filters are off, in every way, with a plan that has none: the same tokens, the same scores.
func filtersOff(ctx context.Context, p *probe) error {
	sizes := []int{1, 5, 2000}
	if p.sim {
		sizes = sizes[1:2]
	}
	for _, v := range sizes {
		ks := []int32{-1, 0, int32(v), int32(v) + 1, int32(v) + 7, 1 << 30, math.MaxInt32, math.MinInt32}
		if v > 1 && v <= ir.MaxTopK {
			ks = append(ks, ir.MaxTopK, ir.MaxTopK+1)
		}
		plain := p.random(p.weights(v, 24), ir.Shape{Vocab: v, Hidden: 24}, 3*len(ks), gumbel("temperature"), false)
		base, err := p.verify(ctx, plain)
		if err != nil {
			return err
		}
		off := *plain
		off.spec = truncated("temperature", "top-k,top-p,min-p")
		for b := range off.batch {
			r := &off.rows
			r.TopK, r.TopP, r.MinP = append(r.TopK, ks[b%len(ks)]), append(r.TopP, []float32{1, 2, inf32}[p.rng.IntN(3)]), append(r.MinP, 0)
		}
		got, err := p.verify(ctx, &off)
		if err != nil {
			return err
		}
		if err := sameRows(got, base, span(0, off.batch)); err != nil {
			return fmt.Errorf("%s: filters that are off: %w", &off, err)
		}
	}
	return nil
}

// fewerThanK masks all tokens but a few: none, one, one fewer than k, k and one more.
func fewerThanK(ctx context.Context, p *probe) error {
	const v, k, rows = 700, 20, 35
	pr := p.random(p.weights(v, 64), ir.Shape{Vocab: v, Hidden: 64}, rows, truncated("mask,temperature", "top-k,top-p"), false)
	pr.rows.MaskWords = 0
	pr.rows.TopK = []int32{k}
	var masks [][]int
	for b := range rows {
		n := []int{0, 1, k - 1, k, k + 1}[b%5]
		masks = append(masks, p.rng.Perm(v)[:n])
		pr.rows.TopP[b] = []float32{1, 0.9, 0.5}[b%3]
	}
	got, err := p.verify(ctx, pr.allow(masks...))
	if err != nil {
		return err
	}
	for b := range rows {
		switch w := (want{got.Tokens[b], got.Status[b]}); {
		case len(masks[b]) == 0 && w != empty:
			return fmt.Errorf("row %d has no token: %d (%s)", b, w.token, w.status)
		case len(masks[b]) == 1 && w != ok(masks[b][0]):
			return fmt.Errorf("row %d has token %d alone: %d (%s)", b, masks[b][0], w.token, w.status)
		case len(masks[b]) > 0 && w.status != ir.StatusOK:
			return fmt.Errorf("row %d of %d tokens: %s", b, len(masks[b]), w.status)
		}
	}
	return nil
}

// mixedFilters has rows of other filters, and rows that fail, in one batch.
func mixedFilters(ctx context.Context, p *probe) error {
	const v, d = 700, 64
	rows := 40
	if p.sim {
		rows = 16
	}
	pr := p.random(p.weights(v, d), ir.Shape{Vocab: v, Hidden: d}, rows, allFilters(), false)
	pr.rows.MaskWords = 0
	var masks [][]int
	for b := range pr.batch {
		r, i := &pr.rows, b%8
		r.TopK[b] = []int32{1, 0, 40, v, 7, 0, 40, 40}[i]
		r.TopP[b] = []float32{1, 1e-30, 0.9, 1, 0.5, 1, 0.9, 0.9}[i]
		r.MinP[b] = []float32{0, 0, 0, 0, 0.01, 1, 0, 0.1}[i]
		r.Temperature[b] = []float32{0, 1, 0.7, 2, 1, 1, 1, 3}[i]
		masks = append(masks, every(v))
		switch i {
		case 6:
			pr.rows.Bias[b*v+p.rng.IntN(v)] = nan32
		case 7:
			masks[b] = nil
		}
	}
	pr.allow(masks...)
	return p.with(ctx, pr, func(s *session) error {
		base, err := p.verifyOn(ctx, s, pr)
		if err != nil {
			return err
		}
		in := &invariant{p, pr, s, base}
		for b := range pr.batch {
			if err := in.same(ctx, []int{b}); err != nil {
				return err
			}
		}
		return in.same(ctx, p.rng.Perm(pr.batch))
	})
}

// badFilters are refused where the host sees them.
func badFilters(ctx context.Context, p *probe) error {
	const v = 2000
	pr := plant(truncated("none", "top-k,top-p,min-p"), zeros(v)).repeat(3)
	pr.rows.TopK, pr.rows.TopP, pr.rows.MinP = []int32{1, 0, v}, []float32{1, 0.5, 0}, []float32{0, 1, 0.5}
	err := p.with(ctx, pr, func(s *session) error {
		for _, f := range []struct {
			name string
			f    func(r *sampler.Rows)
		}{
			{"k of 1025", func(r *sampler.Rows) { r.TopK = []int32{1, ir.MaxTopK + 1, 1} }},
			{"k of V-1", func(r *sampler.Rows) { r.TopK = []int32{v - 1} }},
			{"no k", func(r *sampler.Rows) { r.TopK = nil }},
			{"two ks", func(r *sampler.Rows) { r.TopK = r.TopK[:2] }},
			{"p of -1", func(r *sampler.Rows) { r.TopP = []float32{-1} }},
			{"p of NaN", func(r *sampler.Rows) { r.TopP = []float32{1, 1, nan32} }},
			{"no p", func(r *sampler.Rows) { r.TopP = nil }},
			{"min-p of -1e-30", func(r *sampler.Rows) { r.MinP = []float32{0, -1e-30, 0} }},
			{"min-p of 1.5", func(r *sampler.Rows) { r.MinP = []float32{1.5} }},
			{"min-p of NaN", func(r *sampler.Rows) { r.MinP = []float32{nan32} }},
		} {
			rows := pr.rows
			f.f(&rows)
			if err := refused(ctx, s, f.name, pr.hidden, rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	plain := plant(gumbel("none"), zeros(100))
	plain.rows.TopK = []int32{3}
	return p.with(ctx, plain, func(s *session) error { return refused(ctx, s, "idle top-k", plain.hidden, plain.rows) })
}
