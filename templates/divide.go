package templates

import (
	"math/bits"

	"github.com/fsgen/fsgen/ptx"
)

// Division without a call. PTX's div.rn and rcp.rn become calls of a slow path, and where a compiler sees a call that it may
// not look into (the driver's linker, which gives the image that is cached), it runs every wgmma of the kernel one by one
// (ptxas C7509). So quotients of float32 are computed in float64, by Newton's iteration, and rounded once: a quotient of two
// 24-bit numbers is never so near the middle of two others that the last bits of a float64 matter.

// reciprocalStart minus the bits of a positive float64 is a reciprocal within 12 percent.
const reciprocalStart = 0x7FDE623822FC16E6

// reciprocal returns 1/t for a positive, finite t.
func reciprocal(f *ptx.Func, t ptx.F64) ptx.F64 {
	bits, start, y := f.B64(), f.B64(), f.F64("reciprocal")
	f.MovB64(bits, t)
	f.MovB64(start, ptx.Imm(reciprocalStart))
	f.SubU64(start, start, bits)
	f.MovB64(y, start)
	minusT := f.F64()
	f.NegF64(minusT, t)
	for range 5 { // 0.12^32 is far below 2^-53
		e, next := f.F64(), f.F64()
		f.FmaRnF64(e, minusT, y, ptx.F64Imm(1))
		f.FmaRnF64(next, e, y, y)
		y = next
	}
	return y
}

// quotient returns s/t, rounded to nearest, for a positive, finite t.
func quotient(f *ptx.Func, s, t ptx.F32) ptx.F32 {
	wideT, wideS := widen(f, t), widen(f, s)
	y := reciprocal(f, wideT)
	q, minusQ, rest, better := f.F64(), f.F64(), f.F64(), f.F64()
	f.MulF64(q, wideS, y, ptx.RN)
	f.NegF64(minusQ, q)
	f.FmaRnF64(rest, minusQ, wideT, wideS)
	f.FmaRnF64(better, rest, y, q)
	plain, d := f.Pred("plain"), f.F32("quotient")
	f.SetpF64(ptx.EQ, plain, better, better) // an infinite s has no rest
	f.SelpF64(better, better, q, plain)
	f.CvtRnF32F64(d, better)
	return d
}

func widen(f *ptx.Func, x ptx.F32) ptx.F64 {
	d := f.F64()
	f.CvtF64F32(d, x)
	return d
}

// divideBy sets d to x/n, rounded down. ptxas takes a power of two for a divisor like any other, and works out its reciprocal.
func divideBy(f *ptx.Func, d, x ptx.B32, n int) {
	if n&(n-1) == 0 {
		f.ShrU32(d, x, ptx.Imm(bits.TrailingZeros(uint(n))))
		return
	}
	f.DivU32(d, x, ptx.Imm(n))
}
