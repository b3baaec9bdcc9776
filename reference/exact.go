package reference

import (
	"math"

	"github.com/fsgen/fsgen/ir"
)

// Budgets of the approximations that a kernel may make (design section 3; ir's tests hold the graphs to them).
const (
	noiseBudget   = 0x1p-20 // of 1 + |g|
	softcapBudget = 0x1p-20 // of |z|
	alphaBudget   = 0x1p-22 // of alpha = 1/T
)

// ScoreOf returns the score of one token as it is compared (z alpha + g tau; for a grouped sampler, that of the token's
// block), in float64 and without the rounding of float32, and a bound on how far a correct kernel's float32 score may lie from it: accumulation in any order, one
// rounding an operation, and the error budgets of softcap, 1/T and noise. The bound is 0 only where nothing rounds.
// A masked token scores -inf. Row and token must be in range and the request valid.
func (r *Request) ScoreOf(b, token int) (score, bound float64) {
	w := r.row(b)
	if w.badT {
		return math.NaN(), 0
	}
	if !w.allowed(token) {
		return math.Inf(-1), 0
	}
	s := r.exactScore(&w, b, token)
	return s.value, s.err
}

func (r *Request) exactScore(w *row, b, token int) bounded {
	if w.grouped {
		return r.exactBlock(w, b, token)
	}
	z := w.exactLogit(r.exactRaw(b, token), token)
	if w.greedy {
		return z
	}
	return w.withNoise(w.exactScaled(z), w.exactNoise(token))
}

// exactRaw is the raw logit y.
func (r *Request) exactRaw(b, token int) bounded {
	if r.Logits != nil {
		return bounded{float64(r.logits(b)[token]), 0}
	}
	return dotBound(r.hidden(b), r.weights(token))
}

// exactLogit is z before the temperature.
func (w *row) exactLogit(y bounded, token int) bounded {
	if w.chain.Scale != 0 {
		y = y.times(float64(w.chain.Scale))
	}
	if c := float64(w.chain.Softcap); c != 0 {
		z := c * math.Tanh(y.value/c)
		// The slope of the softcap is at most 1.
		y = bounded{z, y.err}.approximated(softcapBudget * math.Abs(z)).rounded()
	}
	if !w.chain.BiasLast {
		y = w.exactBiased(y, token)
	}
	if w.chain.Penalties {
		y = w.exactPenalized(y, token)
	}
	if w.chain.BiasLast {
		y = w.exactBiased(y, token)
	}
	return y
}

func (w *row) exactBiased(z bounded, token int) bounded {
	if w.bias != nil {
		return z.plus(bounded{float64(w.bias[token]), 0})
	}
	if x, ok := w.biases[int32(token)]; ok {
		return z.plus(bounded{float64(x), 0})
	}
	return z
}

// exactPenalized is the penalties; an error may lie on the other side of 0, where the slope is another.
func (w *row) exactPenalized(z bounded, token int) bounded {
	count := w.count(token)
	if count == 0 {
		return z
	}
	times, factor := count&ir.CountOutput, float64(w.penalty.Repetition)
	inverse := float64(1 / w.penalty.Repetition)
	steepest := max(factor, inverse)
	if z.value > 0 {
		factor = inverse
	}
	z = bounded{z.value * factor, z.err * steepest}.rounded()
	z = bounded{z.value - float64(w.penalty.Frequency)*float64(float32(times)), z.err}.rounded()
	if times > 0 {
		z = z.plus(bounded{-float64(w.penalty.Presence), 0})
	}
	return z
}

// exactScaled is alpha z.
func (w *row) exactScaled(z bounded) bounded {
	if w.alpha == 1 {
		return z
	}
	exact := z.value / float64(w.t)
	return bounded{exact, z.err / float64(w.t)}.approximated(alphaBudget * math.Abs(exact)).rounded()
}

func (w *row) exactNoise(token int) bounded {
	if w.noise != nil {
		return bounded{float64(w.noise[token]), 0}
	}
	g := w.state.Bits(token).Gumbel()
	return bounded{g, noiseBudget * (1 + math.Abs(g))}
}

// withNoise adds tau g.
func (w *row) withNoise(z, g bounded) bounded {
	tau := float64(w.tau)
	return bounded{z.value + tau*g.value, z.err + tau*g.err}.rounded()
}

// ReportedScoreOf is ScoreOf in the units of Result.Scores: z/T + g (the block's log-mass + g where grouped), or z for a
// greedy row.
func (r *Request) ReportedScoreOf(b, token int) (score, bound float64) {
	w := r.row(b)
	score, bound = r.ScoreOf(b, token)
	if w.greedy || w.t >= 1 || w.badT || math.IsInf(score, 0) {
		return score, bound
	}
	t := float64(w.t)
	x := bounded{score / t, bound / t}.approximated(alphaBudget * math.Abs(score/t)).rounded()
	return x.value, x.err
}
