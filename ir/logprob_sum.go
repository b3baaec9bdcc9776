package ir

import "math"

// A kernel's log-probability is that of one token in a pair of a reference and a sum (LogSum). Tokens of +inf count there, as
// InfiniteOctaves above the largest float32: more than any other token may stand above its reference, so that their number is
// told from the sum, and each of n has the probability 1/n.

// InfiniteOctaves is the exponent of a token of +inf in sums that give log-probabilities. A sum whose reference is the
// largest float32 has one if it is above infiniteMass: of others each adds at most 1, and there are fewer than 2^31.
const (
	InfiniteOctaves = SumLimit + 1
	infiniteMass    = 1 << SumLimit
)

// far is how many octaves below its reference a token's power is not brought to the sum's any more: its logarithm is then
// large enough for that of the sum to be taken by itself.
const far = -64

// LogProbLeast is the magnitude under which a kernel's log-probability is 0: it is the rounding of sums, and a token of
// probability 1 has exactly 0.
const LogProbLeast = 0x1p-21

// LogProbability is the graph of a token's log-probability, in nats: inputs InBase, its score without noise in the mode's
// distribution, the pair InLargest and InMass, InTop, which is (base - largest)/tau, and, with a temperature, InScale. It is
// never above 0, and -inf for a finite token beside infinite ones.
//
// With 2^x = exp((base - largest)/tau) it is -log(mass / 2^x): the sum is brought to the token's power before the logarithm is
// taken, since those of both would be large and nearly equal where the token is likely. Far below, x may be past float32 where
// the quotient is not.
func LogProbability(c Computation) *Graph {
	b := newBuilder()
	base, mass, inf := b.input(InBase), b.input(InMass), b.f(float32(math.Inf(1)))
	x := b.octaves(c.Summed(), base, b.input(InLargest))
	x = b.op(OpSelect, b.op(OpLess, base, inf), x, b.f(InfiniteOctaves))
	odds := b.op(OpMul, mass, b.op(OpEx2, b.op(OpMul, x, b.f(-1))))
	near := b.op(OpMul, b.op(OpLg2, odds), b.f(-math.Ln2))
	apart := b.op(OpFma, b.op(OpLg2, mass), b.f(-math.Ln2), b.input(InTop))
	log := b.op(OpSelect, b.op(OpLess, x, b.f(far)), apart, near)
	log = b.op(OpSelect, b.op(OpLess, base, inf), b.whereInfinite(b.f(float32(math.Inf(-1))), log), log)
	return Optimize(b.finish(b.op(OpSelect, b.op(OpLess, log, b.f(-LogProbLeast)), log, b.f(0))))
}

// whereInfinite is one value for a pair with tokens of +inf, and the other for any other pair.
func (b *builder) whereInfinite(yes, no *Node) *Node {
	some := b.op(OpSelect, b.op(OpLess, b.f(infiniteMass), b.input(InMass)), yes, no)
	return b.op(OpSelect, b.op(OpLess, b.input(InLargest), b.f(math.MaxFloat32)), no, some)
}

// KeptLogProbability is the graph of a kept token's log-probability, in nats: inputs InTop, how far its logit lies below the row's
// largest over the temperature, and InMass, the sum over the kept tokens of powers of that, of which the largest is 1. It is never
// above 0, and both of its terms are: nothing cancels.
func KeptLogProbability() *Graph {
	b := newBuilder()
	log := b.op(OpFma, b.op(OpLg2, b.input(InMass)), b.f(-math.Ln2), b.input(InTop))
	return Optimize(b.finish(b.op(OpSelect, b.op(OpLess, log, b.f(-LogProbLeast)), log, b.f(0))))
}
