package ir

import (
	"math"
	"math/bits"
)

// WeightName names the definition of the weights (docs/truncation.md).
const WeightName = "exp2-fixed-v1"

// The weight of a token is its probability over that of the row's likeliest token, as an integer: sums are exact, whatever
// their order, so that every device finds the same nucleus from the same logits. Only operations that IEEE 754 defines to
// the last bit are used: no library's exponential, and none of the hardware's.

// Coefficients of (2^f - 1)/f for |f| <= 1/2: minimax in relative error of 2^f, 2e-9.
var powerCoefficients = []float32{0.69314718246, 0.24022647738, 0.055503323674, 0.0096184369177, 0.0013398875017, 0.0001535336196}

const log2e = float32(math.Log2E)

// A temperature below counts as this one, so that it and its reciprocal are normal numbers.
const minWeightTemperature = 0x1p-126

// WeightScale is log2(e)/T in float32, by which a difference of logits becomes octaves: the reciprocal is rounded, then
// the product. T = 0 counts as 1.
func WeightScale(t float32) float32 {
	if t == 0 {
		t = 1
	}
	t = max(t, minWeightTemperature)
	return float32(float32(1/t) * log2e)
}

// weightBits is the place of the binary point of a weight before it is scaled to the vocabulary.
const weightBits = 62

// MaxWeight is the weight of a row's likeliest token: the largest power of two of which a vocabulary's sum stays below 2^62.
func MaxWeight(vocab int) uint64 { return 1 << (weightBits - bits.Len(uint(vocab))) }

// minOctaves is the exponent from which on every weight is 0.
const minOctaves = -64

// Weight returns the weight of a token with logit z in a row whose largest logit of an allowed token is top, z <= top.
// scale is WeightScale of the temperature.
func Weight(z, top, scale float32, vocab int) uint64 {
	if z == top {
		return MaxWeight(vocab) // infinities too
	}
	x := float32(float32(z-top) * scale)
	if !(x > minOctaves) {
		return 0
	}
	n := float32(math.RoundToEven(float64(x)))
	y := power(x - n)
	m := uint64(uint32(y*(1<<30))) << 32 // exact: y is below 1.42 and has 24 bits
	shift := bits.Len(uint(vocab)) - int(n)
	return (m + 1<<(shift-1)) >> shift
}

// power is 2^f for |f| <= 1/2: Horner's rule, one rounding a step, the last coefficient being 1.
func power(f float32) float32 {
	last := len(powerCoefficients) - 1
	p := powerCoefficients[last]
	for i := last - 1; i >= 0; i-- {
		p = Fma32(p, f, powerCoefficients[i])
	}
	return Fma32(p, f, 1)
}

// Power2 is the graph of 2^f for |f| <= 1/2, input InFraction: the only part of a weight that is not integer arithmetic,
// one subtraction and one product.
func Power2() *Graph {
	b := newBuilder()
	f := b.input(InFraction)
	return Optimize(b.finish(b.op(OpFma, b.horner(f, powerCoefficients), f, b.f(1))))
}
