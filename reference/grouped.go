package reference

import (
	"math"
	"math/bits"
)

// logBlock is log 16: what the mass of a block is at most past that of its likeliest token.
const logBlock = 4 * math.Ln2

// addGrouped adds the block as one candidate: its log-mass with one Gumbel of its own. The mass is at most 16 times that of
// its likeliest token, so the score is at most what that token would have under a noise of log 16 - log E: the bound of
// addRandom, with the same room for rounding.
func (w *row) addGrouped(b *best, g *group) {
	x, _ := w.state.Block(g.first)
	if g.top == negInf || w.loses(b, g.top, blockBound[bits.LeadingZeros64(x)]) {
		return
	}
	logE := math.Log(Exponential(x))
	if w.loses(b, g.top, above(float32(logBlock-logE))) {
		return
	}
	own := w.ownBits(g.first)
	b.add(candidate{w.blockScore(g, logE), w.race(g, &own)})
}

// blockScore is what a block with the exponential E has in the race of the blocks.
func (w *row) blockScore(g *group, logE float64) float32 {
	return w.addNoise(g.top, float32(w.logMass(g)-logE))
}

// logMass is log S, the block's mass over that of its likeliest token: from 0 to log 16.
func (w *row) logMass(g *group) float64 {
	top, sum := w.scaled(g.top), 0.0
	for i, z := range g.z[:g.n] {
		if g.live>>i&1 == 0 {
			continue
		}
		if a := w.scaled(z); a == top {
			sum++ // whatever the temperature, and for infinities too
		} else {
			sum += math.Exp((float64(a) - float64(top)) * w.inverseTau())
		}
	}
	return math.Log(sum)
}

// inverseTau is 1/tau, or the largest float32 where a float32 could not hold it.
func (w *row) inverseTau() float64 { return min(1/float64(w.tau), math.MaxFloat32) }

// ownBits returns the bits of the tokens of the block that begins at first.
func (w *row) ownBits(first int) (own [blockTokens]uint64) {
	for i := range pairBit {
		own[i], own[i+pairBit] = w.state.Pair(first + i)
	}
	return own
}

// race draws a token of the block: the Gumbel-max of its tokens, by their own bits.
func (w *row) race(g *group, own *[blockTokens]uint64) int32 {
	won := candidate{negInf, -1}
	for i, z := range g.z[:g.n] {
		if g.live>>i&1 == 0 {
			continue
		}
		c := candidate{w.addNoise(z, float32(-math.Log(Exponential(own[i])))), int32(g.first + i)}
		if c.score > negInf && c.beats(won) {
			won = c
		}
	}
	return won.id
}
