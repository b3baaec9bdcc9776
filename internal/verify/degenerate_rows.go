package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

var (
	noToken = want{ir.NoToken, ir.StatusNaN}
	empty   = want{ir.NoToken, ir.StatusEmpty}
)

func nanRow(ctx context.Context, p *probe) error {
	for _, v := range []int{1, 7, 999, 1000, 8192, 20000, 151936} {
		const rows, bad = 8, 3
		pr := p.random(p.weights(v, 8), ir.Shape{Vocab: v, Hidden: 8}, rows, p.noisy("temperature"), false)
		for b := range rows {
			pr.rows.Temperature[b] = float32(b / 2 % 2)
		}
		for k := range 8 {
			pr.hidden[bad*8+k] = 0x7fc0
		}
		err := p.with(ctx, pr, func(s *session) error {
			got, err := p.verifyOn(ctx, s, pr)
			if err != nil {
				return err
			}
			others := every(rows, bad)
			base, err := s.sample(ctx, pr.pick(others))
			if err != nil {
				return err
			}
			if got.Tokens[bad] != ir.NoToken || got.Status[bad] != ir.StatusNaN {
				return fmt.Errorf("at V=%d: the NaN row has token %d (%s)", v, got.Tokens[bad], got.Status[bad])
			}
			return without(got, base, others)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// without compares the rows of a result that are named with a run of them alone.
func without(got, base *sampler.Result, rows []int) error {
	for j, b := range rows {
		if err := sameRow(base, j, got, b); err != nil {
			return fmt.Errorf("without its neighbour: %w", err)
		}
	}
	return nil
}

func nonFinite(ctx context.Context, p *probe) error {
	const v = 4096
	base := with(zeros(v), 3, 100)
	var biases [][]float32
	var wants []want
	add := func(w want, bias []float32) {
		biases, wants = append(biases, bias), append(wants, w)
	}
	for _, at := range []int{0, 2047, 4095} {
		add(noToken, with(zeros(v), nan32, at))
		add(ok(at), with(zeros(v), inf32, at))
		add(noToken, with(with(zeros(v), nan32, at), inf32, 77))
		add(noToken, with(with(zeros(v), inf32, at), nan32, 2048))
	}
	add(ok(9), with(zeros(v), inf32, 4000, 9))
	add(ok(5), with(with(zeros(v), -inf32, every(v, 5)...), 1, 5))
	add(empty, with(zeros(v), -inf32, every(v)...))
	for _, t := range []float32{0, 1, 0.25, 4} {
		pr := plant(p.noisy("bias=rows,temperature"), base).repeat(len(biases)).biased(biases...).at(t)
		got, err := p.verify(ctx, pr)
		if err == nil {
			err = expect(got, wants...)
		}
		if err != nil {
			return fmt.Errorf("at T=%v: %w", t, err)
		}
	}
	return nil
}

// infiniteWeights has rows that all read the same columns, so that no 0 meets an infinity.
func infiniteWeights(ctx context.Context, p *probe) error {
	const v = 300
	for _, c := range []struct {
		level float32
		at    []int
		want  want
	}{
		{inf32, []int{299, 17}, ok(17)}, {-inf32, every(v, 8), ok(8)}, {-inf32, every(v), empty}, {nan32, []int{128}, noToken},
	} {
		for _, spec := range []sampler.Spec{p.noisy("none"), p.greedy("none"), p.noisy("softcap=30")} {
			got, err := p.verify(ctx, plant(spec, with(zeros(v), c.level, c.at...)).repeat(5))
			// Capped, an infinite logit is an ordinary one.
			if err == nil && (spec.Chain.Softcap == 0 || c.want == noToken) {
				err = expect(got, slices.Repeat([]want{c.want}, 5)...)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func emptyRow(ctx context.Context, p *probe) error {
	const rows, bad, v = 16, 5, 3001
	for _, spec := range []sampler.Spec{p.noisy("mask,temperature"), p.greedy("mask")} {
		pr := p.random(p.weights(v, 64), ir.Shape{Vocab: v, Hidden: 64}, rows, spec, false)
		pr.rows.MaskWords = 0
		masks := make([][]int, rows)
		for b := range masks {
			if b != bad {
				masks[b] = every(v, b, 2*b)
			}
		}
		pr.allow(masks...)
		err := p.with(ctx, pr, func(s *session) error {
			got, err := p.verifyOn(ctx, s, pr)
			if err != nil {
				return err
			}
			if got.Tokens[bad] != ir.NoToken || got.Status[bad] != ir.StatusEmpty {
				return fmt.Errorf("the empty row has token %d (%s)", got.Tokens[bad], got.Status[bad])
			}
			base, err := s.sample(ctx, pr.pick(every(rows, bad)))
			if err != nil {
				return err
			}
			return without(got, base, every(rows, bad))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// nanAt is a batch with a NaN at position b of row b, across tile borders.
func nanAt(v int) (biases [][]float32, temps []float32) {
	for b := range v {
		biases, temps = append(biases, with(zeros(v), nan32, b)), append(temps, float32(b%3))
	}
	return biases, temps
}

func nanEverywhere(ctx context.Context, p *probe) error {
	for _, v := range []int{129, 193, 257} {
		biases, temps := nanAt(v)
		pr := plant(p.noisy("bias=rows,temperature"), with(zeros(v), 2, v/2)).repeat(v).biased(biases...).at(temps...)
		got, err := p.verify(ctx, pr)
		if err == nil {
			err = expect(got, slices.Repeat([]want{noToken}, v)...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func maskedNaN(ctx context.Context, p *probe) error {
	const v = 129
	biases, temps := nanAt(v)
	masks := make([][]int, v)
	for b := range masks {
		masks[b] = every(v, b)
	}
	pr := plant(p.noisy("bias=rows,mask,temperature"), with(zeros(v), 2, 64)).repeat(v).biased(biases...).allow(masks...).at(temps...)
	got, err := p.verify(ctx, pr)
	if err != nil {
		return err
	}
	for b, token := range got.Tokens {
		if got.Status[b] != ir.StatusOK || int(token) == b {
			return fmt.Errorf("row %d: token %d (%s) where only %d is masked", b, token, got.Status[b], b)
		}
	}
	return nil
}
