package model

import (
	"encoding/binary"
	"fmt"
	"math"
)

// BF16FromFloat32s rounds src into dst (bf16 bits), ties to even. The slices must be of one length.
func BF16FromFloat32s(dst []uint16, src []float32) {
	mustMatch(len(dst), len(src))
	for i, f := range src {
		dst[i] = uint16(FromFloat32(f))
	}
}

// BF16FromFloat64s rounds src into dst (bf16 bits) in one rounding, ties to even. The slices must be of one length.
func BF16FromFloat64s(dst []uint16, src []float64) {
	mustMatch(len(dst), len(src))
	for i, f := range src {
		dst[i] = uint16(FromFloat64(f))
	}
}

// BF16FromFloat16s rounds binary16 bits into dst (bf16 bits), ties to even. The slices must be of one length, and may
// be the same slice.
func BF16FromFloat16s(dst, src []uint16) {
	mustMatch(len(dst), len(src))
	for i, h := range src {
		dst[i] = uint16(FromFloat16(h))
	}
}

// Float32sFromBF16 widens bf16 bits exactly. The slices must be of one length.
func Float32sFromBF16(dst []float32, src []uint16) {
	mustMatch(len(dst), len(src))
	for i, b := range src {
		dst[i] = BF16(b).Float32()
	}
}

func mustMatch(dst, src int) {
	if dst != src {
		panic(fmt.Sprintf("model: conversion of %d values into %d", src, dst))
	}
}

// NonFinite counts the values of a read that are not finite numbers once they are bf16.
type NonFinite struct {
	NaN      int64 // NaN in the source
	Inf      int64 // infinite in the source
	Overflow int64 // finite in the source, infinite in bf16
}

// Any says whether there is anything that is not finite.
func (c NonFinite) Any() bool { return c != NonFinite{} }

func (c *NonFinite) add(o NonFinite) {
	c.NaN += o.NaN
	c.Inf += o.Inf
	c.Overflow += o.Overflow
}

// countSource counts what is not finite in little-endian values of dt. The exponent mask is enough for NaN and Inf;
// overflow exists only where the source has more mantissa than bf16 and at least its exponent range.
func countSource(dt DType, src []byte) (c NonFinite) {
	switch dt {
	case BF16Type:
		for ; len(src) >= 2; src = src[2:] {
			c.bits16(binary.LittleEndian.Uint16(src), 0x7f80)
		}
	case F16:
		for ; len(src) >= 2; src = src[2:] {
			c.bits16(binary.LittleEndian.Uint16(src), 0x7c00)
		}
	case F32:
		for ; len(src) >= 4; src = src[4:] {
			f := math.Float32frombits(binary.LittleEndian.Uint32(src))
			c.value(float64(f), FromFloat32(f))
		}
	case F64:
		for ; len(src) >= 8; src = src[8:] {
			f := math.Float64frombits(binary.LittleEndian.Uint64(src))
			c.value(f, FromFloat64(f))
		}
	}
	return c
}

func (c *NonFinite) bits16(b, expMask uint16) {
	switch m := b & 0x7fff; {
	case m > expMask:
		c.NaN++
	case m == expMask:
		c.Inf++
	}
}

func (c *NonFinite) value(f float64, r BF16) {
	switch {
	case !r.IsNaN() && !r.IsInf():
	case r.IsNaN():
		c.NaN++
	case math.IsInf(f, 0):
		c.Inf++
	default:
		c.Overflow++
	}
}

// decodeBF16 rounds little-endian values of a convertible dt into dst; len(src) is len(dst) times the size of dt.
func decodeBF16(dt DType, dst []uint16, src []byte) {
	switch dt {
	case BF16Type:
		for i := range dst {
			dst[i] = binary.LittleEndian.Uint16(src[2*i:])
		}
	case F16:
		for i := range dst {
			dst[i] = uint16(FromFloat16(binary.LittleEndian.Uint16(src[2*i:])))
		}
	case F32:
		for i := range dst {
			dst[i] = uint16(FromFloat32(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))))
		}
	case F64:
		for i := range dst {
			dst[i] = uint16(FromFloat64(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))))
		}
	default:
		panic("BUG: decodeBF16 of " + string(dt))
	}
}

// decodeF32 is decodeBF16 into float32: exact but for F64, which rounds to nearest.
func decodeF32(dt DType, dst []float32, src []byte) {
	switch dt {
	case BF16Type:
		for i := range dst {
			dst[i] = BF16(binary.LittleEndian.Uint16(src[2*i:])).Float32()
		}
	case F16:
		for i := range dst {
			dst[i] = F16ToFloat32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case F64:
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
		}
	default:
		panic("BUG: decodeF32 of " + string(dt))
	}
}
