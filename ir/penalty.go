package ir

import (
	"errors"
	"math"
)

// A token's count is how often the row's output has had it, below 2^31, beside whether the prompt has.
const (
	// CountPrompt is the bit of tokens that stand in the prompt.
	CountPrompt uint32 = 1 << 31
	// CountOutput masks the count of the output.
	CountOutput = CountPrompt - 1
)

// Penalty is one row's penalties. With c the token's count:
//
//	z' = z / Repetition where z > 0, else z * Repetition   if prompt or output had the token
//	z" = z' - Frequency c - Presence [c > 0]
//
// in float32: a product by the rounded reciprocal for the quotient, one multiply-add for the frequency, one subtraction for
// the presence where c > 0. No penalty moves an infinite z, and none makes NaN.
type Penalty struct {
	Repetition, Frequency, Presence float32
}

// NoPenalty leaves every token alone.
var NoPenalty = Penalty{Repetition: 1}

// Bounds of repetition penalties: they and their reciprocals are normal numbers.
const (
	MinRepetition = 0x1p-126
	MaxRepetition = 0x1p126
)

// ValidRepetition reports a repetition penalty that has no meaning.
func ValidRepetition(r float32) error {
	if !(r >= MinRepetition && r <= MaxRepetition) {
		return errors.New("a number from 2^-126 to 2^126 (1 is off)")
	}
	return nil
}

// ValidPenalty reports a frequency or presence penalty that has no meaning.
func ValidPenalty(p float32) error {
	if math.IsNaN(float64(p)) || math.IsInf(float64(p), 0) {
		return errors.New("a finite number (0 is off)")
	}
	return nil
}

// penalized builds the logit after the penalties.
func (b *builder) penalized(z *Node) *Node {
	up, down := b.op(OpMul, z, b.input(InRepetition)), b.op(OpMul, z, b.input(InInverseRepetition))
	repeated := b.op(OpSelect, b.op(OpLess, b.f(0), z), down, up)
	z = b.op(OpSelect, b.input(InSeen), repeated, z)
	z = b.op(OpFma, b.op(OpMul, b.input(InFrequency), b.f(-1)), b.input(InCount), z)
	present := b.op(OpAdd, z, b.op(OpMul, b.input(InPresence), b.f(-1)))
	return b.op(OpSelect, b.op(OpLess, b.f(0), b.input(InCount)), present, z)
}
