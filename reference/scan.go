package reference

import (
	"math"
	"math/bits"
)

// blockBound holds, for random bits of a block with i leading zeros, a number no smaller than the noise of any token of
// that block: w >= 2^-(i+1) and E >= M > w/16, so g < (i+5) ln 2. It is rounded up to float32 with room for the error of
// the float64 logarithms.
var blockBound = func() (bound [65]float32) {
	for i := range bound {
		g := float32(float64(i+5) * math.Ln2 * (1 + 1e-12))
		bound[i] = above(g)
	}
	return bound
}()

// above is the next float32.
func above(x float32) float32 { return math.Nextafter32(x, float32(math.Inf(1))) }

// group is up to 16 neighbouring tokens on their way through the epilogue: the part of one block of the noise that is scanned.
type group struct {
	first int
	n     int
	z     [blockTokens]float32
	live  uint32  // bit i: token first+i is allowed and its z is not NaN
	top   float32 // the largest z of the live tokens; -inf without one
}

// scan adds tokens first, first+1, ... with raw logits y to the row's best. Only in a shard may first be no multiple of 16.
func (w *row) scan(b *best, first int, y []float32) {
	if w.badT || w.badParameter {
		return
	}
	var g group
	for base := 0; base < len(y); base += g.n {
		w.logits(b, &g, first+base, y[base:min(base+blockTokens-(first+base)%blockTokens, len(y))])
		if w.weighs {
			w.weigh(b, &g)
		}
		switch {
		case g.live == 0:
		case w.greedy:
			w.addGreedy(b, &g)
		case w.noise != nil:
			w.addInjected(b, &g)
		case w.grouped:
			w.addGrouped(b, &g)
		default:
			w.addRandom(b, &g)
		}
	}
}

// logits fills the group with the z of tokens first, first+1, ...; a NaN among the allowed is noted.
func (w *row) logits(b *best, g *group, first int, y []float32) {
	z := g.z[:copy(g.z[:], y)]
	if w.transforms() {
		for i, l := range z {
			z[i] = w.transform(l, first+i)
		}
	}
	g.first, g.n, g.live, g.top = first, len(z), w.allowedOf(first, len(z)), negInf
	for i, l := range z {
		if l > g.top && g.live>>i&1 == 1 {
			g.top = l
		}
		if l != l && g.live>>i&1 == 1 {
			b.nan = true
			g.live &^= 1 << i
		}
	}
}

func (w *row) addGreedy(b *best, g *group) {
	for i, z := range g.z[:g.n] {
		if g.live>>i&1 == 1 {
			b.add(candidate{z, int32(g.first + i)})
		}
	}
}

func (w *row) addInjected(b *best, g *group) {
	for i, z := range g.z[:g.n] {
		if g.live>>i&1 == 0 {
			continue
		}
		s := w.addNoise(z, w.noise[g.first+i])
		if s != s {
			b.nan = true
			continue
		}
		b.add(candidate{s, int32(g.first + i)})
	}
}

// addRandom adds the tokens that the block's draw does not rule out. The score never falls as z or the noise rises,
// rounding included, so tokens lose whatever their own bits are where their score under a bound of the block's noise lies
// below the runner-up's.
func (w *row) addRandom(b *best, g *group) {
	x, place := w.state.Block(g.first)
	place -= g.first % blockTokens
	if w.loses(b, g.top, blockBound[bits.LeadingZeros64(x)]) {
		return
	}
	least, first, bound := blockNoise(x)
	if w.loses(b, g.top, bound) {
		return
	}
	for i, z := range g.z[:g.n] {
		switch {
		case g.live>>i&1 == 0 || w.loses(b, z, bound):
		case i == place:
			b.add(candidate{w.addNoise(z, first), int32(g.first + i)})
		default:
			noise := -math.Log(least + Exponential(w.state.Token(g.first+i)))
			b.add(candidate{w.addNoise(z, float32(noise)), int32(g.first + i)})
		}
	}
}

// blockNoise returns M of a block, the noise of its first, and a bound on the noise of the others: M + e(x) >= M, rounded
// too, and the error of the logarithm is far below the step to the next float32.
func blockNoise(x uint64) (least float64, first, bound float32) {
	least = leastOf(x)
	first = float32(-math.Log(least))
	return least, first, above(first)
}

// loses reports whether a logit of at most z with a noise of at most bound is known to lose to the row's two best.
func (w *row) loses(b *best, z, bound float32) bool {
	return !w.noSkip && w.addNoise(z, bound) < b.second.score
}
