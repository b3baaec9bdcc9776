package reference

import (
	"math"
	"math/bits"
)

// gumbelBound holds, for 64 random bits with i leading zeros, a number no smaller than their noise: w >= 2^-(i+1) and
// E > w, so g < (i+1) ln 2. It is rounded up to float32 with room for the error of the float64 logarithms.
var gumbelBound = func() (bound [65]float32) {
	for i := range bound {
		g := float32(float64(i+1) * math.Ln2 * (1 + 1e-12))
		bound[i] = math.Nextafter32(g, float32(math.Inf(1)))
	}
	return bound
}()

// scan adds tokens first, first+1, ... with raw logits y to the row's best. first is a multiple of 16.
func (w *row) scan(b *best, first int, y []float32) {
	if w.badT {
		return
	}
	if w.greedy || w.noise != nil {
		for i, l := range y {
			w.scanGiven(b, first+i, l)
		}
		return
	}
	for base := 0; base < len(y); base += 2 * pairBit {
		for i := base; i < min(base+pairBit, len(y)); i++ {
			low, high := w.state.Pair(first + i)
			w.scanRandom(b, first+i, y[i], low)
			if j := i + pairBit; j < len(y) {
				w.scanRandom(b, first+j, y[j], high)
			}
		}
	}
}

// scanGiven adds one token that needs no random bits.
func (w *row) scanGiven(b *best, v int, y float32) {
	z, ok := w.logit(b, v, y)
	if !ok {
		return
	}
	if !w.greedy {
		z = w.addNoise(z, w.noise[v])
		b.nan = b.nan || z != z
	}
	b.add(candidate{z, int32(v)})
}

// scanRandom adds one token with its random bits x. The score never falls as the noise rises, rounding included, so a
// token whose score under gumbelBound lies below the runner-up loses whatever its noise is.
func (w *row) scanRandom(b *best, v int, y float32, x uint64) {
	z, ok := w.logit(b, v, y)
	if !ok {
		return
	}
	if !w.noSkip && w.addNoise(z, gumbelBound[bits.LeadingZeros64(x)]) < b.second.score {
		return
	}
	b.add(candidate{w.addNoise(z, float32(Gumbel(x))), int32(v)})
}

// logit returns an allowed token's z; it reports false where there is nothing to add: the token is masked, or NaN,
// which it notes.
func (w *row) logit(b *best, v int, y float32) (float32, bool) {
	if w.chain.Mask && !w.allowed(v) {
		return 0, false
	}
	z := w.transform(y, v)
	if z != z {
		b.nan = true
		return 0, false
	}
	return z, true
}
