package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
)

// exact judges the distribution of many tokens. A statistic that is beyond |z| = 4, as one is by chance in some 400 runs, is
// judged once more on other data, and fails if it is again: one false alarm in 100,000 runs. The CPU takes smaller vocabularies, so that 2e6 draws take minutes.
func exact(*run) []item {
	return append(both(list([]check{
		{"equal logits", "A10", uniform},
		{"halves and tenths at equal logits", "A10", halves},
		{"rare tokens", "A5", rareTokens},
		{"two halves of unequal weight", "A9", unequalHalves},
		{"rows with seeds 0, 1, 2, ...", "A11", pairsOfRows},
		{"draws of one step", "A11", pairsOfDraws},
		{"consecutive positions", "A11", consecutivePositions},
		{"consecutive seeds", "A11", consecutiveSeeds},
		{"seeds that differ a little", "A11", closeSeeds},
		{"softmax at several temperatures", "", softmax},
		{"a masked distribution", "A8", maskedSoftmax},
		{"scale, softcap and bias", "D17", transformed},
	})), list([]check{
		{"softmax of the tokens that filters keep", "D6", truncatedSoftmax},
		{"softmax of the tokens kept among many", "D6", truncatedAmongMany},
		{"independent draws of a row", "", independentDraws},
		{"distinct draws of a row", "", distinctDraws},
	})...)
}

// size picks a number for a GPU or for a CPU.
func (p *probe) size(gpu, cpu int) int {
	if p.gpu {
		return gpu
	}
	return cpu
}

// share is a part of the run's draws: one in so many on a GPU, or on a CPU.
func (p *probe) share(gpu, cpu int64) int64 {
	if p.gpu {
		return max(1, p.o.Draws/gpu)
	}
	return max(1, p.o.Draws/cpu)
}

// flat is a row of equal logits: hidden states of 0 before random weights.
func (p *probe) flat(vocab int) *problem {
	const d = 8
	pr := &problem{shape: ir.Shape{Vocab: vocab, Hidden: d}, spec: p.plain("none"), batch: 1, w: p.weights(vocab, d), hidden: make([]uint16, d)}
	pr.rows.Seeds, pr.rows.Positions = []uint64{p.rng.Uint64()}, []uint64{0}
	return pr
}

func uniform(ctx context.Context, p *probe) error {
	v := p.size(151936, 401)
	runs := newCells("buckets of 256", slices.Repeat([]float64{0}, 256))
	for i := range runs[0].prob {
		runs[0].prob[i] = float64(bucketStart(i+1, v)-bucketStart(i, v)) / float64(v)
	}
	parts := make([]*stats.Uniform, streams)
	err := p.draws(ctx, p.flat(v), p.o.Draws, func(worker int) func(token int32) {
		parts[worker] = stats.NewUniform(v)
		return func(token int32) {
			parts[worker].Add(token)
			runs[worker].add(int(token) * 256 / v)
		}
	})
	if err != nil {
		return err
	}
	for _, part := range parts[1:] {
		parts[0].Merge(part)
	}
	return p.judge(append(parts[0].Results(), runs.result())...)
}

// bucketStart is the first v with v*256/vocab = i.
func bucketStart(i, vocab int) int { return (i*vocab + 255) / 256 }

func halves(ctx context.Context, p *probe) error {
	v := p.size(131072, 1024)
	tenth := (v + 9) / 10
	cells := newCells("halves", []float64{0.5, 0.5})
	tenths := newCells("first tenth", []float64{float64(tenth) / float64(v), 1 - float64(tenth)/float64(v)})
	err := p.draws(ctx, p.flat(v), p.share(50, 10), func(worker int) func(token int32) {
		return func(token int32) {
			cells[worker].add(int(token) * 2 / v)
			tenths[worker].add(cell(int(token) >= tenth))
		}
	})
	if err != nil {
		return err
	}
	return p.judge(cells.binomial(0), tenths.binomial(0))
}

func cell(second bool) int {
	if second {
		return 1
	}
	return 0
}

// rareTokens has one token far above all others, which a noise of few bits could never let win.
func rareTokens(ctx context.Context, p *probe) error {
	type tail struct {
		vocab int
		gap   float32
	}
	tails := []tail{{262145, 20.5}, {129280, 18}, {129280, 20}}
	if !p.gpu {
		tails = []tail{{16385, 19}}
	}
	for _, c := range tails {
		pr := plantOne(p.plain("none"), with(zeros(c.vocab), c.gap, 0))
		weight := float64(c.vocab-1) * math.Exp(-float64(c.gap))
		name := fmt.Sprintf("tail of V=%d at gap %v", c.vocab, c.gap)
		cells := newCells(name, []float64{1 / (1 + weight), weight / (1 + weight)})
		err := p.draws(ctx, pr, p.share(50, 10), func(worker int) func(token int32) {
			return func(token int32) { cells[worker].add(cell(token > 0)) }
		})
		if err != nil {
			return err
		}
		if err := p.judge(cells.binomial(1)); err != nil {
			return err
		}
	}
	return nil
}

func unequalHalves(ctx context.Context, p *probe) error {
	v := p.size(1<<18, 1<<11)
	level := widen(bf16(math.Ln2))
	pr := plantOne(p.plain("none"), with(zeros(v), float32(level), span(0, v/2)...))
	upper := 1 / (1 + math.Exp(level))
	cells := newCells("upper half of weight 1 beside 2", []float64{1 - upper, upper})
	err := p.draws(ctx, pr, p.share(100, 20), func(worker int) func(token int32) {
		return func(token int32) { cells[worker].add(int(token) * 2 / v) }
	})
	if err != nil {
		return err
	}
	return p.judge(cells.binomial(1))
}
