package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// The key of a row's best: high word the score in order-preserving form, low word ^id. Special high words:
const (
	keyEmpty    = 0          // nothing allowed yet
	keyMinusInf = 0x007FFFFF // -inf: never a winner
	keyInf      = 0xFF800000 // +inf
	keyFailed   = 0xFFFFFFFF // above every score; the low word is the status
)

// Bits of special float32 values.
const (
	floatInf      = 0x7F800000
	floatMinusInf = 0xFF800000
	floatLeast    = 0xFF7FFFFF
	floatNaN      = 0x7FFFFFFF
)

// scoreThreshold turns the high word of a key back into the score, for a comparison. keyEmpty and keyFailed become NaN,
// which an unordered comparison always passes.
func scoreThreshold(f *ptx.Func, high ptx.B32) ptx.F32 {
	sign, bits, s := f.B32(), f.B32(), f.F32("threshold")
	f.ShrS32(sign, high, ptx.Imm(31))
	f.Lop3B32(bits, high, sign, ptx.Imm(0x80000000), lut(func(a, b, c uint8) uint8 { return a ^ (^b | c) }))
	f.MovB32(s, bits)
	return s
}

// scoreKey makes the key of one score: keyEmpty unless the token counts and its score is above -inf.
func scoreKey(f *ptx.Func, s ptx.F32, id ptx.B32, counts ptx.Pred) ptx.B64 {
	high := scoreBits(f, s)
	low, isNaN, ok := f.B32(), f.Pred("is_nan"), f.Pred("counts")
	f.NotB32(low, id)
	f.SetpF32(ptx.NAN, isNaN, s, s)
	f.SelpB32(high, imm(f, keyFailed), high, isNaN)
	f.SelpB32(low, ptx.Imm(int64(ir.StatusNaN)), low, isNaN)
	f.SetpAndU32(ptx.GT, ok, high, ptx.Imm(keyMinusInf), counts)
	f.SelpB32(high, high, ptx.Imm(keyEmpty), ok)
	f.SelpB32(low, low, ptx.Imm(0), ok)
	key := f.B64("key")
	f.MovPackB64(key, low, high)
	return key
}

// rankKey makes the key of a value and an id that is known to count: the larger value is the larger key, and among equals the lower
// id.
func rankKey(f *ptx.Func, key ptx.B64, value ptx.F32, id ptx.B32) {
	low := f.B32()
	f.NotB32(low, id)
	f.MovPackB64(key, low, scoreBits(f, value))
}

// imm holds a constant in a register.
func imm(f *ptx.Func, x int64) ptx.B32 {
	r := f.B32()
	f.MovB32(r, ptx.Imm(x))
	return r
}

// scoreBits returns a score's bits in an order-preserving form: the high word of its key, unless it is NaN.
func scoreBits(f *ptx.Func, s ptx.F32) ptx.B32 {
	canonical, bits, sign, high := f.F32(), f.B32(), f.B32(), f.B32()
	f.AddF32(canonical, s, ptx.F32Imm(0), ptx.RN) // -0 becomes +0, so that both compare equal
	f.MovB32(bits, canonical)
	f.ShrS32(sign, bits, ptx.Imm(31))
	f.Lop3B32(high, bits, sign, ptx.Imm(0x80000000), lut(func(a, b, c uint8) uint8 { return a ^ (b | c) }))
	return high
}
