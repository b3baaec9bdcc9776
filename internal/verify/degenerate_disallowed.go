package verify

import (
	"context"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// Log-probabilities of the model's own distribution are of all tokens, those too that a row may not draw. There a NaN counts as -inf,
// and +inf takes the mass from every finite logit.

// disallowedExtremes has weights that make NaN and infinite logits of tokens that masks or lists keep every row from.
func disallowedExtremes(ctx context.Context, p *probe) error {
	return p.disallowed(ctx, p.disallowing())
}

// disallowedBesideSums has them where a second sum, that of the log-sum-exp or of top-p, is of the tokens that rows may draw.
func disallowedBesideSums(ctx context.Context, p *probe) error {
	summed := p.noisy("mask,temperature")
	summed.LogProb, summed.LogSumExp = ir.RawLogProb, true
	specs := []sampler.Spec{summed}
	if p.kind.sampler == ir.Gumbel {
		listed, narrowed := summed, truncated("mask,temperature", "top-p")
		listed.Chain, narrowed.LogProb = chain("ids,temperature"), ir.RawLogProb
		specs = append(specs, listed, narrowed)
	}
	return p.disallowed(ctx, specs)
}

// disallowing are specs with log-probabilities of every mode, of every sampler, and what is reported beside them as far as kernels do so.
func (p *probe) disallowing() (specs []sampler.Spec) {
	for _, mode := range []ir.LogProb{ir.RawLogProb, ir.TemperatureLogProb, ir.ProcessedLogProb} {
		masked, listed := p.noisy("mask,temperature"), p.noisy("ids,temperature")
		masked.LogProb, masked.LogSumExp, masked.ListLogProbs = mode, false, true
		listed.LogProb, listed.LogSumExp, listed.ListLogProbs = mode, false, true
		if masked.Sampler != ir.Grouped {
			masked.TopN, masked.Rank = 5, true
		}
		specs = append(specs, masked)
		if masked.Sampler != ir.Grouped || mode == ir.ProcessedLogProb {
			specs = append(specs, listed)
		}
	}
	if p.kind.sampler == ir.Gumbel {
		greedy := p.greedy("mask")
		greedy.LogProb = ir.RawLogProb
		specs = append(specs, greedy)
	}
	return specs
}

// disallowed compares rows with the reference in which tokens that no row may draw have NaN and infinite logits.
func (p *probe) disallowed(ctx context.Context, specs []sampler.Spec) error {
	const v = 1001
	plain := with(zeros(v), 2, 64, 700)
	nans := with(plain, nan32, 3, 70, 71, 500, v-1)
	for _, spec := range specs {
		cases := [][]float32{with(nans, -inf32, 4, 900)}
		if spec.Chain.Mask && spec.LogProb != ir.ProcessedLogProb {
			cases = append(cases, with(nans, inf32, 5, 901))
		}
		for _, levels := range cases {
			if _, err := p.verify(ctx, disallowedRows(spec, plain, levels)); err != nil {
				return err
			}
		}
	}
	return nil
}

// disallowedRows is a problem of rows with the same logits, which may draw what is plain in them, less some tokens of each row.
func disallowedRows(spec sampler.Spec, plain, levels []float32) *problem {
	const rows = 3
	pr, v := plant(spec, levels).repeat(rows), len(levels)
	if spec.Chain.Temperature {
		pr.at(1, 0, 0.5)
	}
	if spec.Truncation.TopP {
		pr.rows.TopP = []float32{1, 0.5, 0.99}
	}
	allowed := make([][]int, rows)
	for b := range allowed {
		for id := range v {
			if levels[id] == plain[id] && id%(b+2) != 1 {
				allowed[b] = append(allowed[b], id)
			}
		}
	}
	if spec.Chain.Mask {
		pr.allow(allowed...)
	} else {
		pr.rows.BanIDs = [][]int32{others(v, allowed[0]), nil, {0, 64}}
		pr.rows.AllowIDs = [][]int32{nil, ids32(allowed[1]), ids32(allowed[2])}
	}
	if spec.ListLogProbs {
		pr.rows.ListIDs = [][]int32{{0, 3, 64}, {2, 5, 900}, {int32(v - 1)}}
	}
	return pr
}

func ids32(ids []int) (out []int32) {
	for _, id := range ids {
		out = append(out, int32(id))
	}
	return out
}

// others are the ids below n that are not among some.
func others(n int, ids []int) []int32 { return ids32(every(n, ids...)) }
