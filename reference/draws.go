package reference

import (
	"math/bits"

	"github.com/fsgen/fsgen/ir"
)

// repeatCounter is the first Philox counter of the repeats (docs/draws.md).
const repeatCounter = 3 << 30

// Repeat returns the 64 random bits that decide whether draw j, from 2 on, repeats a token.
func (r RowState) Repeat(j int) uint64 {
	w0, w1, _, _ := philox(repeatCounter+uint32(j), r.s0, r.s1, r.s2, elementKey0, elementKey1)
	return uint64(w1)<<32 | uint64(w0)
}

// draw fills tokens with a row's draws, and scores where there are any.
func (w *row) draw(c ir.Computation, kept []candidate, vocab int, tokens []int32, scores []float32) {
	order := w.scored(kept)
	if c.Draws == ir.WithReplacement {
		w.redraw(kept, order, vocab, tokens)
		return
	}
	for i, o := range order[:min(len(order), len(tokens))] {
		tokens[i], scores[i] = o.id, w.reported(o.score)
	}
}

// scored are the candidates with their scores under the row's noise, in order: the order of draws without replacement.
func (w *row) scored(kept []candidate) []candidate {
	var order []candidate
	for _, c := range kept {
		s := c.score
		switch {
		case w.greedy:
		case w.noise != nil:
			s = w.addNoise(s, w.noise[c.id])
		default:
			s = w.addNoise(s, float32(w.state.Bits(int(c.id)).Gumbel()))
		}
		if s > negInf {
			order = append(order, candidate{s, c.id})
		}
	}
	return ranked(order)
}

// redraw fills tokens with independent draws: draw j repeats a token seen, with the chance that the tokens seen have
// together, or takes the next of the order, whose law is that of the others.
func (w *row) redraw(kept, order []candidate, vocab int, tokens []int32) {
	weigh := weightsAt(w.t, kept[0].score, vocab)
	total, weight := uint64(0), map[int32]uint64{}
	for _, c := range kept {
		weight[c.id] = weigh.of(c.score)
		total += weight[c.id]
	}
	seen := 1
	for j := range tokens {
		if j == 0 || w.greedy {
			tokens[j] = order[0].id
			continue
		}
		point, _ := bits.Mul64(w.state.Repeat(j+1), total)
		i, mass := 0, uint64(0)
		for ; i < seen; i++ {
			if mass += weight[order[i].id]; point < mass {
				break
			}
		}
		if i == len(order) {
			i-- // what has no score has no chance
		}
		tokens[j] = order[i].id
		seen = max(seen, i+1)
	}
}

// scoresOf is where the scores of a row's draws go.
func (res *Result) scoresOf(b int, c ir.Computation) []float32 {
	if res.DrawScores == nil {
		return nil
	}
	return res.DrawScores[b*c.MaxDraws:][:c.MaxDraws]
}
