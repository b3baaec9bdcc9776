package ir

import "math"

// NoiseName names the definition of the noise in manifests and results (docs/noise.md).
const NoiseName = "philox-v2"

// Coefficients of -log2(1-t)/t for 0 < t < 1/8: minimax in relative error, 1.4e-8.
var log1pCoefficients = []float32{1.4426950603, 0.7213398265, 0.4813823958, 0.3501446492, 0.3792401524}

// smallTail is where the polynomial takes over from lg2: below it 1-t loses the digits of t.
const smallTail = 0.125

// blockIDs is how many aligned ids share a block's draw.
const blockIDs = 16

// noise builds g = -log E for the exponential E of a token (docs/noise.md): the least of its block's, M = e(xb)/16 of the
// block's bits, and for all tokens but the one that has it, M + e(x) of the token's own bits. Exponentials are base 2 here,
// e2 = e / ln2, so that the last line folds both changes of base into one multiply-add: g = -ln2 (log2 E2 + log2 ln2).
func noise(b *builder) *Node {
	least := b.op(OpMul, exponential2(b, InBlockHigh, InBlockLow), b.f(1.0/blockIDs))
	other := b.op(OpAdd, least, exponential2(b, InHigh, InLow))
	return minusLog(b, b.op(OpSelect, b.input(InFirst), least, other))
}

// exponential2 builds -log2(1-w) with w = (x + 1/2) / 2^64 for the 64 random bits x. With t = min(w, 1-w), formed from the
// bits of x or of ^x, both tails keep full relative precision: for small w, -log2(1-w) comes from a polynomial in t; for w
// near 1, log(1-w) = log t.
func exponential2(b *builder, inHigh, inLow Input) *Node {
	high, low := b.input(inHigh), b.input(inLow)
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
	return b.op(OpSelect, b.op(OpLess, b.f(1-smallTail), q), series, e2)
}

func pow2(e int) float32 { return float32(math.Ldexp(1, e)) }

// Noise is the graph of the Gumbel noise alone: inputs InHigh, InLow, InBlockHigh, InBlockLow and InFirst.
func Noise() *Graph {
	b := newBuilder()
	return Optimize(b.finish(noise(b)))
}

// Codes of the noise. A code is one byte for the high word h of a block's random bits: quarters of an octave, counted down
// from 2^32, of the largest power-of-two-and-quarters not above h. Noise falls as h grows, so that a code bounds the noise of
// all tokens of the block. A code serves as the float32 whose bits are CodeFloat with the code in bits 16 to 23: 128+c for
// c < 128, which every h > 0 has, and 510 for 255, which stands for h = 0.
const (
	CodeFloat    = 0x43000000
	CodeMantissa = 21  // bits of a float32 below two of its mantissa
	CodeTop      = 635 // exponent and two mantissa bits of the largest float32 below 2^32
	CodeLargest  = 255
)

// NoiseCode returns the code of a high word.
func NoiseCode(high uint32) uint8 {
	bits := math.Float32bits(float32(high))
	if float64(math.Float32frombits(bits)) > float64(high) {
		bits-- // toward zero
	}
	return uint8(min(CodeTop-int(bits>>CodeMantissa), CodeLargest))
}

// CodeValue returns the float32 that stands for a code.
func CodeValue(code uint8) float32 { return math.Float32frombits(CodeFloat | uint32(code)<<16) }

// boundMargin lifts bounds over every rounding: the noise's own error of 2^-20 (1+|g|), at most 2.6e-5 where the high word
// is not 0, and the multiply-add's, 1.9e-6.
const boundMargin = 1.0 / (1 << 14)

// codeStep is what one code is worth.
const codeStep = math.Ln2 / 4

// logBlock lifts the noise of one exponential to that of the least of a block's: log 16.
const logBlock = 4 * math.Ln2

// noiseCeiling builds an upper bound of noise's float32 result from a code: E >= M = e(xb)/16 and e(xb) >= w >= h/2^32, so
// g <= log 16 + 32 ln2 - ln h, and log2 h >= e + m/4 for h >= 2^e (1 + m/4), that is g <= log 16 + ln2/4 (c+1). For h = 0 it is
// 69, above the largest noise, 65 ln2 + log 16 = 47.8.
func noiseCeiling(b *builder) *Node {
	return b.op(OpFma, b.input(InCode), b.f(codeStep), b.f(float32(logBlock-127*codeStep+boundMargin)))
}

// NoiseCeiling is the graph of the noise's upper bound alone: input InCode.
func NoiseCeiling() *Graph {
	b := newBuilder()
	return Optimize(b.finish(noiseCeiling(b)))
}

// Codes for which noiseFloor holds are FloorCode and up. It takes codes past floorTop for floorTop: noise grows with them.
const (
	FloorCode = 4
	floorTop  = 99
)

// floorSlack is what a block's least exponential may be past its ceiling's: the rest of the code's quarter octave, 0.1733, the
// bend of log2 inside an octave, 0.0861 ln2, e(x) over w at a half, 0.3267, w's low words at the last code, 1/107, and
// roundings.
const floorSlack = 0.5734

// noiseFloor builds a lower bound of noise's float32 result, for the token that has its block's least exponential.
func noiseFloor(b *builder) *Node { return floorLess(b, 0) }

func floorLess(b *builder, less float64) *Node {
	top := b.f(128 + floorTop)
	code := b.input(InCode)
	code = b.op(OpSelect, b.op(OpLess, code, top), code, top)
	return b.op(OpFma, code, b.f(codeStep), b.f(float32(logBlock-127*codeStep-floorSlack-less)))
}

// NoiseFloor is the graph of the lower bound of the noise of a block's first token alone: input InCode, from FloorCode on.
func NoiseFloor() *Graph {
	b := newBuilder()
	return Optimize(b.finish(noiseFloor(b)))
}
