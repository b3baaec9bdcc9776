package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// fewTokens is so few that each pair and each triple of them can be counted.
const fewTokens = 6

// drawnRow is a row of few tokens among many that never come, drawn some times at a temperature, and their distribution: sd is that
// of their logits.
func (p *probe) drawnRow(kind ir.Draws, times int, t float32) (pr *problem, prob []float64) {
	spec := gumbel("temperature")
	spec.Draws, spec.MaxDraws, spec.MaxBatch = kind, times, 256
	row, exact := slices.Repeat([]float32{-1000}, smallVocab), make([]float64, fewTokens)
	for i := range exact {
		exact[i] = widen(bf16(float32(p.rng.NormFloat64())))
		row[i] = float32(exact[i])
		exact[i] /= float64(t)
	}
	return plantOne(spec, row).at(t), distribution(exact)
}

// tally is a way to count draws: a cell of each row's, of known probability.
type tally struct {
	name   string
	prob   []float64
	cellOf func(draws []int32) int
}

// drawn counts the same rows' draws in some ways.
func (p *probe) drawn(ctx context.Context, pr *problem, tallies ...tally) error {
	var all []cells
	for _, t := range tallies {
		all = append(all, newCells(t.name, t.prob))
	}
	err := p.results(ctx, pr, p.share(10, 8), func(stream int) func(*sampler.Result) {
		none := slices.Repeat([]int32{ir.NoToken}, pr.spec.MaxDraws)
		return func(got *sampler.Result) {
			for b := range got.Tokens {
				draws := none
				if at := b * len(none); at+len(none) <= len(got.Draws) {
					draws = got.Draws[at:][:len(none)]
				}
				for i, t := range tallies {
					all[i][stream].add(t.cellOf(draws))
				}
			}
		}
	})
	if err != nil {
		return err
	}
	var results []stats.Result
	for _, c := range all {
		results = append(results, c.result())
	}
	return p.judge(results...)
}

// numberOf reads some draws as digits; len(prob)-1 is the cell of those that cannot be.
func numberOf(draws ...int32) (n int) {
	for _, token := range draws {
		if token < 0 || token >= fewTokens {
			return -1
		}
		n = n*fewTokens + int(token)
	}
	return n
}

// independentDraws counts pairs of draws with replacement: the first and the third, the second and the last.
func independentDraws(ctx context.Context, p *probe) error {
	const times = 9
	for _, t := range []float32{0.5, 1, 2} {
		pr, prob := p.drawnRow(ir.WithReplacement, times, t)
		var pairs []float64
		for _, x := range prob {
			for _, y := range prob {
				pairs = append(pairs, x*y)
			}
		}
		pairs = append(pairs, 0)
		var tallies []tally
		for _, at := range [][2]int{{0, 2}, {1, times - 1}} {
			tallies = append(tallies, tally{fmt.Sprintf("draws %d and %d at T=%v", at[0]+1, at[1]+1, t), pairs, func(draws []int32) int {
				return lastIfNone(numberOf(draws[at[0]], draws[at[1]]), pairs)
			}})
		}
		if err := p.drawn(ctx, pr, tallies...); err != nil {
			return err
		}
	}
	return nil
}

// distinctDraws counts the first three draws without replacement, in order.
func distinctDraws(ctx context.Context, p *probe) error {
	for _, t := range []float32{0.7, 1.5} {
		pr, prob := p.drawnRow(ir.WithoutReplacement, 4, t)
		triples := make([]float64, fewTokens*fewTokens*fewTokens+1)
		for i, x := range prob {
			for j, y := range prob {
				for k, z := range prob {
					if i != j && j != k && i != k {
						triples[numberOf(int32(i), int32(j), int32(k))] = x * y / (1 - x) * z / (1 - x - y)
					}
				}
			}
		}
		err := p.drawn(ctx, pr, tally{fmt.Sprintf("three distinct draws at T=%v", t), triples, func(draws []int32) int {
			return lastIfNone(numberOf(draws[:3]...), triples)
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// lastIfNone is a cell, or for none the last, of no probability.
func lastIfNone(cell int, prob []float64) int {
	if cell < 0 {
		return len(prob) - 1
	}
	return cell
}
