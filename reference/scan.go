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

// group is up to 16 neighbouring tokens on their way through the epilogue; first is a multiple of 16.
type group struct {
	first int
	n     int
	z     [tileTokens]float32
	live  uint32 // bit i: token first+i is allowed and its z is not NaN
}

// scan adds tokens first, first+1, ... with raw logits y to the row's best. first is a multiple of 16.
func (w *row) scan(b *best, first int, y []float32) {
	if w.badT {
		return
	}
	var g group
	for base := 0; base < len(y); base += tileTokens {
		w.logits(b, &g, first+base, y[base:min(base+tileTokens, len(y))])
		switch {
		case g.live == 0:
		case w.greedy:
			w.addGreedy(b, &g)
		case w.noise != nil:
			w.addInjected(b, &g)
		default:
			w.addRandom(b, &g)
		}
	}
}

// logits fills the group with the z of tokens first, first+1, ...; a NaN among the allowed is noted.
func (w *row) logits(b *best, g *group, first int, y []float32) {
	g.first, g.n, g.live = first, len(y), 0
	for i, l := range y {
		if w.chain.Mask && !w.allowed(first+i) {
			continue
		}
		z := w.transform(l, first+i)
		if z != z {
			b.nan = true
			continue
		}
		g.z[i] = z
		g.live |= 1 << i
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

func (w *row) addRandom(b *best, g *group) {
	for i := range pairBit {
		pair := g.live >> i & (1 | 1<<pairBit)
		if pair == 0 {
			continue
		}
		low, high := w.state.Pair(g.first + i)
		if pair&1 != 0 {
			w.addBits(b, g, i, low)
		}
		if pair>>pairBit != 0 {
			w.addBits(b, g, i+pairBit, high)
		}
	}
}

// addBits adds one token with its random bits x. The score never falls as the noise rises, rounding included, so a
// token whose score under gumbelBound lies below the runner-up's loses whatever its noise is.
func (w *row) addBits(b *best, g *group, i int, x uint64) {
	z := g.z[i]
	if !w.noSkip && w.addNoise(z, gumbelBound[bits.LeadingZeros64(x)]) < b.second.score {
		return
	}
	b.add(candidate{w.addNoise(z, float32(Gumbel(x))), int32(g.first + i)})
}
