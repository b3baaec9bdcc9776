package reference

import "math"

// NoiseName is the name of the noise defined here, in docs/noise.md.
const NoiseName = "philox-v2"

// The key of the calls for blocks and tokens: the first fractional digits of pi.
const (
	elementKey0 = 0x243F6A88
	elementKey1 = 0x85A308D3
)

// pairBit is the bit of a token id in which the two tokens of one Philox call differ.
const pairBit = 8

// A block is 16 aligned token ids. The counters of blocks begin where those of tokens end.
const (
	blockTokens  = 16
	blockCounter = 1 << 31
)

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

// Block returns the random bits of the block of a token: those of the block's smallest exponential, and the place from 0
// to 15 of the token that has it.
func (r RowState) Block(id int) (x uint64, place int) {
	w0, w1, w2, _ := philox(blockCounter+uint32(id/blockTokens), r.s0, r.s1, r.s2, elementKey0, elementKey1)
	return uint64(w1)<<32 | uint64(w0), int(w2 >> 28)
}

// Token returns the token's own 64 random bits.
func (r RowState) Token(id int) uint64 {
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

// Bits returns all random bits on which the noise of a token depends.
func (r RowState) Bits(id int) Bits {
	x, place := r.Block(id)
	return Bits{Block: x, Token: r.Token(id), First: id%blockTokens == place}
}

// Bits are the random bits of one token's noise.
type Bits struct {
	Block uint64 // those of the smallest exponential of the token's block
	Token uint64 // the token's own
	First bool   // the token has the smallest exponential of its block; then Token plays no part
}

// Exponential returns E, a standard exponential: the block's smallest where the token has it, else the smallest and, by
// the memorylessness of the exponential, one more.
func (x Bits) Exponential() float64 {
	least := leastOf(x.Block)
	if x.First {
		return least
	}
	return least + Exponential(x.Token)
}

// Gumbel returns the noise g = -log E: finite, between -3.87 (all bits set) and 47.84 (none set, the first), accurate to
// a few units of 2^-53, and never rising with Block or Token.
func (x Bits) Gumbel() float64 { return -math.Log(x.Exponential()) }

// leastOf returns M, the smallest of a block's 16 exponentials. The quotient is exact.
func leastOf(x uint64) float64 { return Exponential(x) / blockTokens }

// Uniform returns w = (x + 1/2) / 2^64 and 1 - w, each with full relative precision; neither is ever 0, though the one
// near 1 may round to 1.
func Uniform(x uint64) (w, complement float64) {
	return math.Ldexp(float64(x)+0.5, -64), math.Ldexp(float64(^x)+0.5, -64)
}

// Exponential returns e(x) = -log(1-w), accurate to a few units of 2^-53 for every x and never falling with x.
func Exponential(x uint64) float64 {
	w, complement := Uniform(x)
	if x < 1<<63 {
		return -math.Log1p(-w)
	}
	return -math.Log(complement)
}
