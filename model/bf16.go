package model

import "math"

// BF16 is a bfloat16 number: the upper 16 bits of a float32 (1 sign, 8 exponent, 7 mantissa bits).
type BF16 uint16

// bf16Quiet is the mantissa bit that makes a NaN quiet.
const bf16Quiet = 0x0040

// FromFloat32 rounds to the nearest bf16, ties to even. Values past the largest finite bf16 by half a step or more
// become infinite, as in hardware. A NaN stays a NaN with its sign and upper payload, made quiet: truncating alone
// could turn a NaN with a low payload into an infinity.
func FromFloat32(f float32) BF16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return BF16(b>>16) | bf16Quiet
	}
	return BF16((b + 0x7fff + b>>16&1) >> 16)
}

// FromFloat64 rounds to the nearest bf16, ties to even, in one rounding. Going through float32 with its own rounding
// to nearest could round twice; the intermediate is therefore rounded to odd, which keeps every tie visible.
func FromFloat64(f float64) BF16 {
	return FromFloat32(toOdd32(f))
}

// toOdd32 truncates to float32 and sets the last bit if anything was lost. Overflow stays finite-and-odd, which the
// next rounding takes to infinity.
func toOdd32(f float64) float32 {
	near := float32(f)
	if float64(near) == f || f != f {
		return near
	}
	b := math.Float32bits(near)
	if math.Abs(float64(near)) > math.Abs(f) {
		b-- // one step towards zero; an infinity becomes the largest finite value
	}
	return math.Float32frombits(b | 1)
}

// Float32 is the exact value.
func (x BF16) Float32() float32 { return math.Float32frombits(uint32(x) << 16) }

// IsNaN says whether x is a NaN of either sign.
func (x BF16) IsNaN() bool { return x&0x7fff > 0x7f80 }

// IsInf says whether x is an infinity of either sign.
func (x BF16) IsInf() bool { return x&0x7fff == 0x7f80 }

// F16ToFloat32 is the exact value of IEEE binary16 bits, subnormals included; a NaN is made quiet and keeps its
// payload.
func F16ToFloat32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h >> 10 & 0x1f)
	man := uint32(h & 0x3ff)
	switch {
	case exp == 0x1f && man != 0:
		return math.Float32frombits(sign | 0x7fc00000 | man<<13)
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
	}
	// Zero and subnormals are man * 2^-24, exact in float32.
	v := float32(man) * 0x1p-24
	return math.Float32frombits(math.Float32bits(v) | sign)
}

// FromFloat16 rounds binary16 bits to the nearest bf16, ties to even. bf16 has the wider exponent, so nothing
// overflows.
func FromFloat16(h uint16) BF16 { return FromFloat32(F16ToFloat32(h)) }
