package reference

import "math"

// exactBlock is the compared score of a token's block: log-mass of its allowed tokens, times tau, plus the block's Gumbel.
// The mass moves by no more than the logits do: it is taken with all of them at their upper and at their lower ends.
func (r *Request) exactBlock(w *row, b, token int) bounded {
	var a []bounded
	first := token &^ (blockTokens - 1)
	for v := first; v < min(first+blockTokens, r.Shape.Vocab); v++ {
		if w.allowed(v) {
			a = append(a, r.exactMember(w, b, v))
		}
	}
	tau := float64(w.tau)
	top, logS := logMassAt(a, 0, tau)
	if math.IsInf(top, 0) {
		return bounded{top, 0}
	}
	x, _ := w.state.Block(first)
	logE := math.Log(Exponential(x))
	mass := top + tau*logS
	err := tau * noiseBudget * (2 + math.Abs(logS) + math.Abs(logE))
	if 1/tau > math.MaxFloat32 {
		err += tau * logBlock // its mass is that of another temperature
	}
	moved := 0.0
	for _, end := range []float64{-1, 1} {
		t, s := logMassAt(a, end, tau)
		moved = max(moved, math.Abs(t+tau*s-mass))
	}
	return bounded{mass - tau*logE, moved + err}.rounded()
}

// exactMember is alpha z of a token of a block; what is infinite is so exactly.
func (r *Request) exactMember(w *row, b, token int) bounded {
	a := w.exactScaled(w.exactLogit(r.exactRaw(b, token), token))
	if math.IsInf(a.value, 0) {
		a.err = 0
	}
	return a
}

// logMassAt returns the largest of some numbers, each moved by its error times end, and the logarithm of the mass over that
// of the largest.
func logMassAt(a []bounded, end, tau float64) (top, logS float64) {
	top = math.Inf(-1)
	for _, x := range a {
		top = max(top, x.value+end*x.err)
	}
	sum := 0.0
	for _, x := range a {
		if v := x.value + end*x.err; v == top {
			sum++
		} else {
			sum += math.Exp((v - top) / tau)
		}
	}
	return top, math.Log(sum)
}

// exactRace is what a token has in the race inside its block.
func (r *Request) exactRace(w *row, b, token int) bounded {
	logE := math.Log(Exponential(w.state.Token(token)))
	return w.withNoise(r.exactMember(w, b, token), bounded{-logE, noiseBudget * (1 + math.Abs(logE))})
}

// outraced says why a token cannot win the race inside its block; "" where it may.
func (r *Request) outraced(w *row, b, token int) string {
	got := r.exactRace(w, b, token)
	first := token &^ (blockTokens - 1)
	for v := first; v < min(first+blockTokens, r.Shape.Vocab); v++ {
		if v == token || !w.allowed(v) {
			continue
		}
		if reason := got.below(r.exactRace(w, b, v), token, v); reason != "" {
			return "inside its block: " + reason
		}
	}
	return ""
}
