package verify

import (
	"context"
	"fmt"
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// sumsRepeat samples batches again after others have left their partial sums in the workspace: each time in another order
// of the CTAs, with the same bits.
func sumsRepeat(ctx context.Context, p *probe) error {
	for _, spec := range []sampler.Spec{p.noisy(everyTransform), p.greedy("none"), {Chain: chain("temperature"), LogSumExp: true}} {
		if err := p.fixed(ctx, 1601, 48, spec, func(in *invariant) error { return in.repeats(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

func (in *invariant) repeats(ctx context.Context) error {
	seen := map[int][]float32{} // by batch size
	for _, n := range []int{mostRows, 1, 1, 17, 17, 130, 130, mostRows, mostRows, 17} {
		got, err := in.sums(ctx, span(mostRows-n, n))
		if err != nil {
			return err
		}
		if seen[n] != nil && !sameFloats(seen[n], got) {
			return fmt.Errorf("%s: log-sum-exps of %d rows differ when they are taken again", in.pr, n)
		}
		seen[n] = got
	}
	return nil
}

// sums takes the log-sum-exps of some rows.
func (in *invariant) sums(ctx context.Context, idx []int) ([]float32, error) {
	got, err := in.s.sample(ctx, in.pr.pick(idx))
	if err != nil {
		return nil, err
	}
	in.Rows += len(idx)
	if err := sameSums(got, in.base, idx, in.pr.shape.Vocab); err != nil {
		return nil, fmt.Errorf("%s, %d rows: %w", in.pr, len(idx), err)
	}
	return got.LogSumExp, nil
}

func sameFloats(a, b []float32) bool {
	if len(a) != len(b) || len(a) == 0 {
		return false
	}
	for i := range a {
		if !sameBits(a[i], b[i]) {
			return false
		}
	}
	return true
}

// sumLevels are rows whose sums go wrong if a tile, a lane or a change of the largest is forgotten: all equal, rising, falling,
// one token far above, one far below, none but the last.
func sumLevels(v int) [][]float32 {
	rising, falling := zeros(v), zeros(v)
	for i := range v {
		rising[i], falling[i] = 16*float32(i)/float32(v), -200*float32(i)/float32(v)
	}
	return [][]float32{
		zeros(v), rising, falling, with(zeros(v), 100, v/3), with(zeros(v), -100, v/2), with(with(zeros(v), -inf32, every(v, v-1)...), 3, v-1),
		with(zeros(v), inf32, v/2),
	}
}

// plantedSums holds the log-sum-exps of exact logits to what float32 can tell, under every sampler and in every tile.
func plantedSums(ctx context.Context, p *probe) error {
	specs := []sampler.Spec{
		{Chain: chain("temperature"), Sampler: ir.Grouped, LogSumExp: true}, {Chain: chain("temperature"), LogSumExp: true},
		{Sampler: ir.Greedy, LogSumExp: true}, {Chain: chain("bias=rows,mask"), LogSumExp: true},
	}
	for _, v := range []int{1, 15, 129, 1000, 5003} {
		for _, spec := range specs {
			for _, t := range []float32{1, 0, 0.3, 5} {
				if t != 1 && !spec.Chain.Temperature {
					continue
				}
				if err := p.plantedSum(ctx, v, spec, t); err != nil {
					return err
				}
			}
		}
	}
	return p.sumsOfTiles(ctx)
}

// plantedSum brings the levels in as biases, so that infinities stay in their rows.
func (p *probe) plantedSum(ctx context.Context, v int, spec sampler.Spec, t float32) error {
	levels := sumLevels(v)
	plain := len(levels) - 2 // rows without an infinity
	if spec.Chain.Bias == ir.BiasNone {
		pr := plant(spec, levels[:plain]...)
		if spec.Chain.Temperature {
			pr.at(t)
		}
		_, err := p.verify(ctx, pr)
		return err
	}
	pr := plant(spec, zeros(v)).repeat(len(levels)).biased(levels...).allow(every(v))
	got, err := p.verify(ctx, pr)
	if err != nil {
		return err
	}
	if want := math.Log(float64(v)); v > 1 && abs(float64(got.LogSumExp[0])-want) > 1e-5*(1+want) {
		return fmt.Errorf("log-sum-exp %v of %d zeros", got.LogSumExp[0], v)
	}
	return nil
}

// sumsOfTiles takes every tile of the device, where it has any.
func (p *probe) sumsOfTiles(ctx context.Context) error {
	spec := sampler.Spec{Chain: chain("temperature"), Sampler: ir.Grouped, LogSumExp: true}
	for _, tile := range tiles(p.info.Arch, spec, mostRows) {
		pr := plant(spec, sumLevels(1601)[:5]...).at(1)
		pr.spec.Tile = tile
		if _, err := p.verify(ctx, pr); err != nil {
			return err
		}
	}
	return nil
}
