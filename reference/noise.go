package reference

import "math"

// NoiseName is the name of the noise defined here, in docs/noise.md.
const NoiseName = "philox-v1"

// The key of the per-element calls: the first fractional digits of pi.
const (
	elementKey0 = 0x243F6A88
	elementKey1 = 0x85A308D3
)

// pairBit is the bit of a token id in which the two tokens of one Philox call differ.
const pairBit = 8

// RowState is what the noise of one row depends on.
type RowState struct {
	s0, s1, s2 uint32
}

// Row mixes a row's seed, position, draw index and stream tag.
func Row(seed, position uint64, draw, tag uint32) RowState {
	s := Philox(
		[4]uint32{uint32(position), uint32(position >> 32), draw, tag},
		[2]uint32{uint32(seed), uint32(seed >> 32)})
	return RowState{s[0], s[1], s[2]}
}

// Words returns the three mixed words.
func (r RowState) Words() [3]uint32 { return [3]uint32{r.s0, r.s1, r.s2} }

// Bits returns the 64 random bits of a token.
func (r RowState) Bits(id int) uint64 {
	low, high := r.Pair(id)
	if id&pairBit != 0 {
		return high
	}
	return low
}

// Pair returns the random bits of two tokens: of id with bit 3 clear and of id with bit 3 set.
func (r RowState) Pair(id int) (low, high uint64) {
	w0, w1, w2, w3 := philox(uint32(id)&^pairBit, r.s0, r.s1, r.s2, elementKey0, elementKey1)
	return uint64(w1)<<32 | uint64(w0), uint64(w3)<<32 | uint64(w2)
}

// Uniform returns w = (x + 1/2) / 2^64 and 1 - w, each with full relative precision; neither is ever 0, though the one
// near 1 may round to 1.
func Uniform(x uint64) (w, complement float64) {
	return math.Ldexp(float64(x)+0.5, -64), math.Ldexp(float64(^x)+0.5, -64)
}

// Exponential returns E = -log(1-w), accurate to a few units of 2^-53 for every x.
func Exponential(x uint64) float64 {
	w, complement := Uniform(x)
	if x < 1<<63 {
		return -math.Log1p(-w)
	}
	return -math.Log(complement)
}

// Gumbel returns the noise g = -log E of 64 random bits: between -3.81 (x = 2^64-1) and 45.06 (x = 0), finite and
// never rising with x.
func Gumbel(x uint64) float64 { return -math.Log(Exponential(x)) }
