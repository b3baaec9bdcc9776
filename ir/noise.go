package ir

import "math"

// NoiseName names the definition of the noise in manifests and results (docs/noise.md).
const NoiseName = "philox-v2"

// Coefficients of -log2(1-t)/t for 0 < t < 1/8: minimax in relative error, 1.4e-8.
var log1pCoefficients = []float32{1.4426950603, 0.7213398265, 0.4813823958, 0.3501446492, 0.3792401524}

// smallTail is where the polynomial takes over from lg2: below it 1-t loses the digits of t.
const smallTail = 0.125

// noise builds g = -log(-log1p(-w)) with w = (x + 1/2) / 2^64 for the 64 random bits x.
//
// With t = min(w, 1-w), formed from the bits of x or of ^x, both tails keep full relative precision: for small w,
// -log1p(-w) comes from a polynomial in t; for w near 1, log(1-w) = log t. Logarithms are base 2, so that the last line
// folds both changes of base into one multiply-add: g = -ln2 (log2 e2 + log2 ln2) for e2 = -log2(1-w).
func noise(b *builder) *Node {
	high, low := b.input(InHigh), b.input(InLow)
	flip := b.op(OpSar, high, b.u(31))
	upper := b.op(OpNegative, high)
	h := b.op(OpFloat, b.op(OpXor, high, flip))
	l := b.op(OpFloat, b.op(OpXor, low, flip))
	t := b.op(OpFma, h, b.f(pow2(-32)), b.op(OpFma, l, b.f(pow2(-64)), b.f(pow2(-65))))

	minusT := b.op(OpMul, t, b.f(-1))
	q := b.op(OpSelect, upper, t, b.op(OpAdd, b.f(1), minusT))
	e2 := b.op(OpMul, b.op(OpLg2, q), b.f(-1))
	series := b.op(OpMul, t, b.horner(t, log1pCoefficients))
	// q < 7/8 wherever lg2 is accurate enough; above, w < 1/8 and the series is.
	e2 = b.op(OpSelect, b.op(OpLess, b.f(1-smallTail), q), series, e2)
	return b.op(OpFma, b.op(OpLg2, e2), b.f(-math.Ln2), b.f(float32(-math.Ln2*math.Log2(math.Ln2))))
}

func pow2(e int) float32 { return float32(math.Ldexp(1, e)) }

// Noise is the graph of the Gumbel noise alone: inputs InHigh and InLow.
func Noise() *Graph {
	b := newBuilder()
	return Optimize(b.finish(noise(b)))
}

// boundMargin lifts noiseBound over every rounding: the noise's own error of 2^-20 (1+|g|), at most 2.3e-5 where the high
// word is not 0, the error of lg2 over 32 binades, 5.3e-6, and the last multiply-add's, 1.9e-6.
const boundMargin = 1.0 / (1 << 14)

// noiseBound builds an upper bound of noise's float32 result from the high word h alone: E = -log1p(-w) >= w >= h/2^32,
// so g <= 32 ln2 - ln h. For h = 0 it is +inf.
func noiseBound(b *builder) *Node {
	log := b.op(OpLg2, b.op(OpFloat, b.input(InHigh)))
	return b.op(OpFma, log, b.f(-math.Ln2), b.f(32*math.Ln2+boundMargin))
}

// NoiseBound is the graph of the noise's upper bound alone: input InHigh.
func NoiseBound() *Graph {
	b := newBuilder()
	return Optimize(b.finish(noiseBound(b)))
}
