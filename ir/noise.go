package ir

import "math"

// NoiseName names the definition of the noise in manifests and results (docs/noise.md).
const NoiseName = "philox-v1"

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

// Codes of the noise. A code is one byte for the high word h of a token's random bits: quarters of an octave, counted down
// from 2^32, of the largest power-of-two-and-quarters not above h. Noise falls as h grows, so that a code bounds it, and the
// largest of two codes bounds the noise of both tokens. A code serves as the float32 whose bits are CodeFloat with the code
// in bits 16 to 23: 128+c for c < 128, which every h > 0 has, and 510 for 255, which stands for h = 0.
const (
	CodeFloat    = 0x43000000
	CodeMantissa = 21  // bits of a float32 below two of its mantissa
	CodeTop      = 635 // exponent and two mantissa bits of the largest float32 below 2^32
	CodeLargest  = 255
)

// NoiseCode returns the code of a high word. The smaller of two words gives the code of both tokens.
func NoiseCode(high uint32) uint8 {
	bits := math.Float32bits(float32(high))
	if float64(math.Float32frombits(bits)) > float64(high) {
		bits-- // toward zero
	}
	return uint8(min(CodeTop-int(bits>>CodeMantissa), CodeLargest))
}

// CodeValue returns the float32 that stands for a code.
func CodeValue(code uint8) float32 { return math.Float32frombits(CodeFloat | uint32(code)<<16) }

// ceilingMargin lifts noiseCeiling over every rounding: the noise's own error of 2^-20 (1+|g|), at most 2.3e-5 where the
// high word is not 0, and the multiply-add's, 1.9e-6.
const ceilingMargin = 1.0 / (1 << 14)

// noiseCeiling builds an upper bound of noise's float32 result from a code: E = -log1p(-w) >= w >= h/2^32, so g <= 32 ln2 -
// ln h, and log2 h >= e + m/4 for h >= 2^e (1 + m/4), that is g <= ln2/4 (c+1). For h = 0 it is ln2/4 * 383 = 66, above the
// largest noise, 65 ln2 = 45.1.
func noiseCeiling(b *builder) *Node {
	const step = math.Ln2 / 4
	return b.op(OpFma, b.input(InCode), b.f(step), b.f(float32(-127*step+ceilingMargin)))
}

// NoiseCeiling is the graph of the noise's upper bound alone: input InCode.
func NoiseCeiling() *Graph {
	b := newBuilder()
	return Optimize(b.finish(noiseCeiling(b)))
}
