package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

var minusZero = float32(math.Copysign(0, -1))

// randomZeros is a row of zeros of both signs.
func (p *probe) randomZeros(n int) []float32 {
	row := zeros(n)
	for v := range row {
		if p.rng.IntN(2) == 0 {
			row[v] = minusZero
		}
	}
	return row
}

// signedZeros has logits of both zeros. A sum of products is +0; a scale of -1 makes -0 of it, and a bias of +0 or -0
// then +0 or -0.
func signedZeros(ctx context.Context, p *probe) error {
	for _, v := range []int{2, 129, 5000, 131073} {
		minus := with(zeros(v), minusZero, every(v)...)
		biases := [][]float32{with(p.randomZeros(v), minusZero, 0), with(zeros(v), minusZero, 0), with(minus, 0, 0), with(p.randomZeros(v), -1, 0), minus}
		wants := []want{ok(0), ok(0), ok(0), ok(1), ok(0)}
		for _, pr := range []*problem{
			plant(p.greedy("scale=-1,bias=rows"), zeros(v)), plant(p.noisy("scale=-1,bias=rows,temperature"), zeros(v)).at(0),
			plant(p.greedy("softcap=5,scale=-1,bias=rows"), zeros(v)),
		} {
			got, err := p.verify(ctx, pr.repeat(len(biases)).biased(biases...))
			if err == nil {
				err = expect(got, wants...)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// tiePairs are places of two equal maxima in one lane, warp, tile, cluster, and far apart.
func tiePairs(p *probe, v int) [][]int {
	pairs := [][]int{{0, 8}, {1, 2}, {7, 8}, {15, 16}, {3, 35}, {63, 64}, {127, 128}, {191, 192}, {128, 256}, {10, 200}, {300, 5000}, {0, v - 1}, {v - 2, v - 1}}
	for len(pairs) < plantedHidden {
		a := p.rng.IntN(v - 1)
		pairs = append(pairs, []int{a, a + 1 + p.rng.IntN(min(v-a-1, 1<<p.rng.IntN(17)))})
	}
	return pairs
}

func equalMaxima(ctx context.Context, p *probe) error {
	const v = 131073
	var levels, biases [][]float32
	var wants []want
	for _, pair := range tiePairs(p, v) {
		levels = append(levels, with(p.randomZeros(v), 1, pair...))
		biases = append(biases, with(zeros(v), inf32, pair...))
		wants = append(wants, ok(pair[0]))
	}
	problems := []*problem{plant(p.greedy("none"), levels...), plant(p.noisy("temperature"), levels...).at(0)}
	// +inf ties whatever the noise is.
	problems = append(problems, plant(p.noisy("bias=rows"), levels[:16]...).biased(biases[:16]...))
	for _, pr := range problems {
		got, err := p.verify(ctx, pr)
		if err == nil {
			err = expect(got, wants[:pr.batch]...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func tinyTemperatures(ctx context.Context, p *probe) error {
	temps := []float32{1e-38, 1e-30, 1e-6, 1e-5, 1e-4, 0.1, 0.5, 0}
	big := []float32{3e38, 2e38, 1}
	for _, levels := range [][]float32{big, slices.Repeat(big, 50)} {
		pr := plant(p.noisy("temperature"), levels).repeat(len(temps)).at(temps...)
		got, err := p.verify(ctx, pr)
		if err != nil {
			return err
		}
		for b, token := range got.Tokens {
			if token%3 != 0 {
				return fmt.Errorf("at T=%v: token %d of logits 3e38, 2e38, 1", temps[b], token)
			}
		}
	}
	pr := plant(p.noisy("temperature"), append([]float32{11.06, 2.9}, zeros(998)...)).repeat(64).at(1e-5)
	got, err := p.verify(ctx, pr)
	if err == nil {
		err = expect(got, slices.Repeat([]want{ok(0)}, 64)...)
	}
	return err
}

// largeTemperatures divides logits that are further apart than float32 reaches, with filters that see them divided and others that do not.
func largeTemperatures(ctx context.Context, p *probe) error {
	temps := []float32{2, 1e10, 1e30, 0x1p99, 0x1.8p99, ir.MaxTemperature}
	for _, levels := range [][]float32{{3e38, -3e38, 0, 1e31}, {-3e38, -3.3e38}, {1e30, -1e30, 0}, {1e32, 0}} {
		for _, filters := range []string{"", "top-p", "top-k,top-p,temperature-last"} {
			pr := plant(sampler.Spec{Chain: ir.Chain{Temperature: true}, Score: true}, slices.Repeat(levels, 500/len(levels)))
			if filters != "" {
				pr.spec = truncated("temperature", filters)
			}
			pr.spec.LogSumExp = true
			pr = pr.repeat(len(temps)).at(temps...)
			if pr.spec.Truncation.TopP {
				pr.rows.TopP = []float32{0.3}
			}
			if pr.spec.Truncation.TopK {
				pr.rows.TopK = []int32{200}
			}
			if _, err := p.verify(ctx, pr); err != nil {
				return fmt.Errorf("%v, filters %q: %w", levels, filters, err)
			}
		}
	}
	return nil
}

func mixedGreedy(ctx context.Context, p *probe) error {
	pr := plant(p.noisy("mask,temperature"), []float32{1, 1, 0}).repeat(3).at(0, 1, 0).allow([]int{1, 2}, []int{0, 1, 2}, []int{0, 1, 2})
	return p.with(ctx, pr, func(s *session) error {
		got, err := p.verifyOn(ctx, s, pr)
		if err != nil {
			return err
		}
		if got.Tokens[0] != 1 || got.Tokens[2] != 0 {
			return fmt.Errorf("greedy rows have tokens %d and %d, want 1 and 0", got.Tokens[0], got.Tokens[2])
		}
		for b := range 3 {
			alone, err := s.sample(ctx, pr.pick([]int{b}))
			if err != nil {
				return err
			}
			if err := sameRow(alone, 0, got, b); err != nil {
				return err
			}
		}
		return nil
	})
}

func biasWorks(ctx context.Context, p *probe) error {
	const v, best, other = 1000, 321, 777
	levels := with(with(zeros(v), 4, best), 3, 500)
	bias := with(with(zeros(v), -100, best), 5, other)
	for _, c := range []struct {
		spec sampler.Spec
		t    []float32
	}{{p.greedy("bias"), nil}, {p.greedy("bias=rows"), nil}, {p.noisy("bias,temperature"), []float32{0}}, {p.noisy("bias=rows,temperature"), []float32{0.01}}} {
		pr := plant(c.spec, levels).repeat(20).biased(bias).at(c.t...)
		if c.spec.Chain.Bias == chain("bias=rows").Bias {
			pr.rows.Bias = slices.Repeat(bias, 20)
		}
		got, err := p.verify(ctx, pr)
		if err == nil {
			err = expect(got, slices.Repeat([]want{ok(other)}, 20)...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func appliedOnce(ctx context.Context, p *probe) error {
	levels := []float32{60, 30, 0, -60}
	rows := [][]float32{levels, with(levels, -100, 0), with(levels, -100, 0, 1), with(levels, -100, 0, 1, 2)}
	for _, c := range []struct {
		spec  sampler.Spec
		score func(y float64) float64
	}{
		{p.greedy("softcap=30"), func(y float64) float64 { return 30 * math.Tanh(y/30) }},
		{p.greedy("scale=0.0625"), func(y float64) float64 { return y / 16 }},
		{p.greedy("scale=0.0625,softcap=30"), func(y float64) float64 { return 30 * math.Tanh(y/16/30) }},
		{p.greedy("none"), func(y float64) float64 { return y }},
	} {
		got, err := p.verify(ctx, plant(c.spec, rows...))
		if err == nil {
			err = expect(got, ok(0), ok(1), ok(2), ok(3))
		}
		if err != nil {
			return err
		}
		for b, s := range got.Scores {
			if want := c.score(float64(levels[b])); abs(float64(s)-want) > 1e-5*(1+abs(want)) {
				return fmt.Errorf("%s: score %v of logit %v, want %v", c.spec.Chain, s, levels[b], want)
			}
		}
	}
	return nil
}
