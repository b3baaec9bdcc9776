package ir

import "math"

// Coefficients of (tanh(x)/x - 1)/x^2 in x^2 for |x| < 0.6: minimax, 9e-8 of the term.
var tanhCoefficients = []float32{-0.33333330335, 0.13332915592, -0.0538739803, 0.0211110987, -0.0062693133}

// tanhSmall is where the polynomial hands over to the exponential.
const tanhSmall = 0.6

// tanh builds tanh x: a polynomial near 0, where 1 - 2/(1+e^2x) cancels, and the exponential beyond. An infinite x
// gives 1 with its sign, a NaN gives NaN.
func (b *builder) tanh(x *Node) *Node {
	square := b.op(OpMul, x, x)
	small := b.op(OpFma, b.op(OpMul, x, square), b.horner(square, tanhCoefficients), x)
	mag := b.op(OpAbs, x)
	e := b.op(OpEx2, b.op(OpMul, mag, b.f(2*math.Log2E)))
	large := b.op(OpFma, b.op(OpRcp, b.op(OpAdd, e, b.f(1))), b.f(-2), b.f(1))
	return b.op(OpSelect, b.op(OpLess, mag, b.f(tanhSmall)), small, b.op(OpCopysign, large, x))
}

// logit builds the transformed logit before mask and temperature.
func (b *builder) logit(c Chain) *Node {
	z := b.input(InLogit)
	if c.Scale != 0 {
		z = b.op(OpMul, z, b.f(c.Scale))
	}
	if c.Softcap != 0 {
		z = b.op(OpMul, b.tanh(b.op(OpMul, z, b.f(1/c.Softcap))), b.f(c.Softcap))
	}
	if c.Bias != BiasNone && !c.BiasLast {
		z = b.op(OpAdd, z, b.input(InBias))
	}
	if c.Penalties {
		z = b.penalized(z)
	}
	if c.BiasLast {
		z = b.op(OpAdd, z, b.input(InBias))
	}
	return z
}

// Score is the graph from one accumulator to the score that is compared (package comment). A masked token scores -inf
// whatever its logit is; a NaN logit scores NaN. Grouped scores blocks instead: BlockScore.
func Score(c Computation) *Graph {
	c = c.Normalize()
	b := newBuilder()
	s := b.logit(c.Chain)
	if c.Sampler == Gumbel {
		g := noise(b)
		if c.RowScales() {
			s = b.op(OpFma, b.input(InTau), g, b.op(OpMul, s, b.input(InAlpha)))
		} else {
			s = b.op(OpAdd, s, g)
		}
	}
	return Optimize(b.finish(b.masked(c.Chain, s)))
}

// Logit is the graph of the transformed logit z, before mask and temperature: what truncation orders tokens by.
func Logit(c Computation) *Graph {
	b := newBuilder()
	return Optimize(b.finish(b.logit(c.Normalize().Chain)))
}

// Base is the graph of a score without its noise, plus InPad: 0, or -inf for a token that does not count.
func Base(c Computation) *Graph {
	c = c.Normalize()
	b := newBuilder()
	s := b.logit(c.Chain)
	if c.Sampler.Random() && c.RowScales() {
		s = b.op(OpFma, s, b.input(InAlpha), b.input(InPad))
	} else {
		s = b.op(OpAdd, s, b.input(InPad))
	}
	return Optimize(b.finish(b.masked(c.Chain, s)))
}

// Counted is the graph of Base for a token that counts and is allowed: the same number by what Score computes on its way.
func Counted(c Computation) *Graph {
	c = c.Normalize()
	b := newBuilder()
	s := b.logit(c.Chain)
	if c.Sampler.Random() && c.Chain.Temperature {
		s = b.op(OpMul, s, b.input(InAlpha))
	}
	return Optimize(b.finish(s))
}

// Bound is the graph of an upper bound of Score, or of BlockScore: from the largest Base of some tokens of one block, InBase, and the code that
// bounds their noise. Rounding is monotone and no temperature is negative, so that the float32 results keep the order: what
// the bound does not let reach a threshold, the scores do not reach. A NaN base has a NaN bound. Without noise it is InBase
// itself.
func Bound(c Computation) *Graph { return bound(c, noiseCeiling) }

// Floor is the graph of a lower bound of Score in the same way, from the Base of the token that has the least exponential of
// its block; for Grouped, of BlockScore from that of any token.
func Floor(c Computation) *Graph {
	if c.Sampler == Grouped {
		return bound(c, groupedFloor)
	}
	return bound(c, noiseFloor)
}

func bound(c Computation, noise func(*builder) *Node) *Graph {
	b := newBuilder()
	return Optimize(b.finish(b.boundOf(c.Normalize(), noise, b.input(InBase))))
}

// boundOf adds a bound of the noise, as much of it as the row has, to base.
func (b *builder) boundOf(c Computation, noise func(*builder) *Node, base *Node) *Node {
	switch {
	case !c.Sampler.Random():
		return base
	case c.RowScales():
		return b.op(OpFma, b.input(InTau), noise(b), base)
	}
	return b.op(OpAdd, base, noise(b))
}

// masked gives a token that is not allowed -inf.
func (b *builder) masked(c Chain, s *Node) *Node {
	if !c.Mask && !c.IDs {
		return s
	}
	return b.op(OpSelect, b.input(InAllowed), s, b.f(float32(math.Inf(-1))))
}
