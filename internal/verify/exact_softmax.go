package verify

import (
	"context"
	"fmt"
	"math"
)

// smallVocab is few enough tokens for each to be counted.
const smallVocab = 50

// distribution is softmax in float64.
func distribution(logits []float64) []float64 {
	largest, sum := math.Inf(-1), 0.0
	for _, l := range logits {
		largest = max(largest, l)
	}
	prob := make([]float64, len(logits))
	for i, l := range logits {
		prob[i] = math.Exp(l - largest)
		sum += prob[i]
	}
	for i := range prob {
		prob[i] /= sum
	}
	return prob
}

// levels are random logits, as bf16 holds them.
func (p *probe) levels(sd float32) ([]float32, []float64) {
	logits, exact := make([]float32, smallVocab), make([]float64, smallVocab)
	for i := range logits {
		exact[i] = widen(bf16(sd * float32(p.rng.NormFloat64())))
		logits[i] = float32(exact[i])
	}
	return logits, exact
}

// follows judges draws of a problem's first row against a distribution.
func (p *probe) follows(ctx context.Context, name string, pr *problem, prob []float64) error {
	cells := newCells(name, prob)
	err := p.draws(ctx, pr, p.share(10, 8), func(worker int) func(token int32) {
		return func(token int32) { cells[worker].add(int(token)) }
	})
	if err != nil {
		return err
	}
	return p.judge(cells.result())
}

func softmax(ctx context.Context, p *probe) error {
	logits, exact := p.levels(2)
	for _, t := range []float32{0.3, 0.7, 1, 2.5} {
		scaled := make([]float64, smallVocab)
		for i, l := range exact {
			scaled[i] = l / float64(t)
		}
		pr := plantOne(p.plain("temperature"), logits).at(t)
		if err := p.follows(ctx, fmt.Sprintf("softmax at T=%v", t), pr, distribution(scaled)); err != nil {
			return err
		}
	}
	return nil
}

func maskedSoftmax(ctx context.Context, p *probe) error {
	logits, exact := p.levels(2)
	var allowed []int
	for v := range exact {
		if v == 3 || p.rng.IntN(2) == 0 && v != 4 {
			allowed = append(allowed, v)
		} else {
			exact[v] = math.Inf(-1)
		}
	}
	pr := plantOne(p.plain("mask"), logits).allow(allowed)
	return p.follows(ctx, "softmax of the allowed", pr, distribution(exact))
}

func transformed(ctx context.Context, p *probe) error {
	logits, exact := p.levels(6)
	bias := p.floats(smallVocab)
	const scale, softcap, t = 0.5, 3, 0.8
	for v, l := range exact {
		exact[v] = (softcap*math.Tanh(scale*l/softcap) + float64(bias[v])) / t
	}
	spec := p.plain(fmt.Sprintf("scale=%v,softcap=%v,bias,temperature", scale, softcap))
	return p.follows(ctx, "softmax of the transformed", plantOne(spec, logits).biased(bias).at(t), distribution(exact))
}
