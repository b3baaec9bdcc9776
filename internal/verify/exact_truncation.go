package verify

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fsgen/fsgen/sampler"
)

// filtered is one row's filters, and the distribution that they leave of one.
type filtered struct {
	filters    string
	k          int32
	p, minP, t float64
}

var filteredRows = []filtered{
	{"top-k", 7, 1, 0, 1},
	{"top-p", 0, 0.8, 0, 0.7},
	{"min-p", 0, 1, 0.07, 1},
	{"top-k,top-p,min-p", 20, 0.93, 0.02, 1.5},
	{"top-k,top-p,temperature-last", 20, 0.75, 0, 2.5},
}

// spec plans for such rows.
func (f filtered) spec() sampler.Spec {
	s := truncated("temperature", f.filters)
	s.Score, s.MaxBatch = false, 256
	return s
}

// on gives a problem these filters.
func (f filtered) on(pr *problem) *problem {
	t := pr.spec.Truncation
	if t.TopK {
		pr.rows.TopK = []int32{f.k}
	}
	if t.TopP {
		pr.rows.TopP = []float32{float32(f.p)}
	}
	if t.MinP {
		pr.rows.MinP = []float32{float32(f.minP)}
	}
	return pr.at(float32(f.t))
}

// distribution is what the filters leave of the softmax of some logits, in float64: the filters' words, in as many lines.
func (f filtered) distribution(logits []float64, temperatureLast bool) []float64 {
	scaled := func(t float64) (out []float64) {
		for _, l := range logits {
			out = append(out, l/t)
		}
		return out
	}
	seen, order := distribution(scaled(f.t)), span(0, len(logits))
	if temperatureLast {
		seen = distribution(logits)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	if f.k > 0 {
		order = order[:min(int(f.k), len(order))]
	}
	total, mass := 0.0, 0.0
	for _, v := range order {
		total += seen[v]
	}
	left := slices.Repeat([]float64{math.Inf(-1)}, len(logits))
	for _, v := range order {
		if (f.p >= 1 || mass < f.p*total) && seen[v] >= f.minP*seen[order[0]] {
			left[v] = logits[v] / f.t
		}
		mass += seen[v]
	}
	return distribution(left)
}

// truncatedSoftmax draws from a small vocabulary under each filter and under several.
func truncatedSoftmax(ctx context.Context, p *probe) error {
	for _, f := range filteredRows {
		logits, exact := p.levels(2)
		pr := f.on(plantOne(f.spec(), logits))
		prob := f.distribution(exact, pr.spec.Truncation.TemperatureLast)
		if err := p.follows(ctx, fmt.Sprintf("%s at T=%v", f.filters, f.t), pr, prob); err != nil {
			return err
		}
	}
	return nil
}

// truncatedAmongMany spreads the few likely tokens over a vocabulary of many that are not, so that lists have their bounds and cut
// off nearly all of them. Tokens that are not kept share a cell of no probability.
func truncatedAmongMany(ctx context.Context, p *probe) error {
	v := p.size(151936, 2003)
	for _, f := range []filtered{filteredRows[0], filteredRows[3]} {
		levels, exact := p.levels(2)
		at := p.rng.Perm(v)[:smallVocab]
		slices.Sort(at)
		row, cellOf := slices.Repeat([]float32{-30}, v), map[int32]int{}
		for i, id := range at {
			row[id], cellOf[int32(id)] = levels[i], i
		}
		pr := f.on(plantOne(f.spec(), row))
		cells := newCells(f.filters+" among many", append(f.distribution(exact, false), 0))
		err := p.draws(ctx, pr, p.share(10, 20), func(worker int) func(token int32) {
			return func(token int32) {
				i, likely := cellOf[token]
				if !likely {
					i = smallVocab
				}
				cells[worker].add(i)
			}
		})
		if err != nil {
			return err
		}
		if err := p.judge(cells.result()); err != nil {
			return err
		}
	}
	return nil
}
