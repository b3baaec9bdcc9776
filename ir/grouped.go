package ir

import "math"

// The grouped sampler draws one exponential for each block of 16 aligned ids (docs/noise.md). A block's score is the largest
// score without noise, top, plus tau times the logarithm of its mass, S, over its exponential; the token of the block that
// wins is the winner of a race inside the block, by bits that the block's exponential does not depend on.

// BlockTokens is the ids of a block of the noise. The first is a multiple of it.
const BlockTokens = 16

// BlockTerm is the graph of one token's share of its block's mass, exp((base - top)/tau): inputs InBase, InTop and, with a
// temperature, InTau. It is exactly 1 where base is top, infinite or not.
func BlockTerm(c Computation) *Graph {
	b := newBuilder()
	base, top := b.input(InBase), b.input(InTop)
	d := b.op(OpAdd, base, b.op(OpMul, top, b.f(-1)))
	if c.Chain.Temperature {
		d = b.op(OpMul, d, b.inverse(b.input(InTau)))
	}
	e := b.op(OpEx2, b.op(OpMul, d, b.f(math.Log2E)))
	return Optimize(b.finish(b.op(OpSelect, b.op(OpLess, base, top), e, b.f(1))))
}

// inverseScale keeps 1/tau among the normal numbers wherever tau is one of float32, subnormal or not.
const inverseScale = 64

// inverse builds 1/tau for tau from 0 to 1: the largest float32 where the quotient is past it.
func (b *builder) inverse(tau *Node) *Node {
	up := b.f(pow2(inverseScale))
	q := b.op(OpMul, b.op(OpRcp, b.op(OpMul, tau, up)), up)
	largest := b.f(math.MaxFloat32)
	return b.op(OpSelect, b.op(OpLess, q, largest), q, largest)
}

// BlockScore is the graph of a block's score, top + tau (log S - log E): inputs InMass, InTop, InBlockHigh, InBlockLow and,
// with a temperature, InTau.
func BlockScore(c Computation) *Graph {
	b := newBuilder()
	return Optimize(b.finish(b.noisy(c, b.input(InTop), blockNoise(b))))
}

// BlockNoise is the graph of log S - log E alone: inputs InMass, InBlockHigh and InBlockLow.
func BlockNoise() *Graph {
	b := newBuilder()
	return Optimize(b.finish(blockNoise(b)))
}

// blockNoise takes one logarithm of the quotient, not two: where the two nearly cancel, their errors would not.
func blockNoise(b *builder) *Node {
	q := b.op(OpMul, b.input(InMass), b.op(OpRcp, exponential2(b, InBlockHigh, InBlockLow)))
	return b.op(OpFma, b.op(OpLg2, q), b.f(math.Ln2), b.f(float32(-math.Ln2*math.Log2(math.Ln2))))
}

// Race is the graph of what a token of a block competes by against the block's others, base - tau log e(x): inputs InBase,
// InHigh, InLow and, with a temperature, InTau.
func Race(c Computation) *Graph {
	b := newBuilder()
	return Optimize(b.finish(b.noisy(c, b.input(InBase), minusLog(b, exponential2(b, InHigh, InLow)))))
}

// noisy adds noise to a score without it: times tau, if there is a temperature.
func (b *builder) noisy(c Computation, s, noise *Node) *Node {
	if c.Chain.Temperature {
		return b.op(OpFma, b.input(InTau), noise, s)
	}
	return b.op(OpAdd, s, noise)
}

// minusLog builds -log E from E2 = E / ln2.
func minusLog(b *builder, e2 *Node) *Node {
	return b.op(OpFma, b.op(OpLg2, e2), b.f(-math.Ln2), b.f(float32(-math.Ln2*math.Log2(math.Ln2))))
}

// groupedFloor builds a lower bound of blockNoise's float32 result for any mass, from 1 on: -log E is log 16 less than the
// noise of the block's first token for the sampler that draws token by token.
func groupedFloor(b *builder) *Node { return floorLess(b, logBlock) }

// What MeanFloor takes off: of the base for the roundings of the mean, and of the noise for those of a block's mass and, where
// scores lie close together beside their size, for what rounding does to each of them.
const (
	meanSlack  = 1.0 / (1 << 19)
	meanMargin = 0.01
	// LeastMeanTau is the least tau above 0 for which MeanFloor holds: below, a unit in the last place of a subnormal logit may be
	// more than the margin.
	LeastMeanTau = 0x1p-100
)

// MeanFloor is the graph of a lower bound of BlockScore like Floor, much nearer to it: from the Base of the mean of the block's 16
// logits, added up in float32 in any order. By Jensen's inequality log(sum of exp(a/tau)) is at least log 16 + mean(a)/tau, which for
// normal logits is half a unit short, where the largest of them alone is one and a half short.
func MeanFloor(c Computation) *Graph {
	b := newBuilder()
	mean := b.input(InBase)
	mean = b.op(OpFma, b.op(OpAbs, mean), b.f(-meanSlack), mean)
	noise := func(b *builder) *Node { return floorLess(b, meanMargin) }
	return Optimize(b.finish(b.boundOf(c.Normalize(), noise, mean)))
}
