package model

import (
	"fmt"
	"math"
)

// Float32s gives the values as float32, row-major: f2 and bfloat16 exactly, f4 as is, f8 and integers rounded to
// nearest. A finite f8 past float32 is an error. u2 is refused: it is bf16 bits for BF16s and integers for Uint32s,
// and as a number it would be one of them by guess.
func (a *Array) Float32s() ([]float32, error) {
	get, err := a.floats()
	if err != nil {
		return nil, err
	}
	dst := make([]float32, a.Len())
	for i := range dst {
		v := get(i)
		dst[i] = float32(v)
		if math.IsInf(float64(dst[i]), 0) && !math.IsInf(v, 0) {
			return nil, a.outOfRange(i, v, "float32")
		}
	}
	return dst, nil
}

// BF16s gives the values as bf16 bits, row-major: bfloat16 and u2 as they are, f2, f4 and f8 rounded to nearest even
// in one rounding. A finite value past bf16 is an error, and so are integers other than u2.
func (a *Array) BF16s() ([]uint16, error) {
	dst := make([]uint16, a.Len())
	if a.kind == "bf" || a.kind == "u2" {
		for i := range dst {
			dst[i] = a.order.Uint16(a.data[2*i:])
		}
		return dst, nil
	}
	if a.kind[0] != 'f' {
		return nil, a.wrongType("want f2, f4, f8, bfloat16, or u2 with the bits of bf16")
	}
	get, err := a.floats()
	if err != nil {
		return nil, err
	}
	for i := range dst {
		v := get(i)
		b := FromFloat64(v)
		if b.IsInf() && !math.IsInf(v, 0) {
			return nil, a.outOfRange(i, v, "bf16")
		}
		dst[i] = uint16(b)
	}
	return dst, nil
}

// Int64s gives integers and booleans as int64; a larger u8 is an error, and so are floats.
func (a *Array) Int64s() ([]int64, error) {
	return integers[int64](a, "int64", math.MinInt64, math.MaxInt64)
}

// Uint64s gives integers and booleans as uint64; a negative value is an error, and so are floats.
func (a *Array) Uint64s() ([]uint64, error) {
	return integers[uint64](a, "uint64", 0, math.MaxUint64)
}

// Int32s gives integers and booleans as int32; a value outside is an error, and so are floats.
func (a *Array) Int32s() ([]int32, error) {
	return integers[int32](a, "int32", math.MinInt32, math.MaxInt32)
}

// Uint32s gives integers and booleans as uint32; a value outside is an error, and so are floats.
func (a *Array) Uint32s() ([]uint32, error) {
	return integers[uint32](a, "uint32", 0, math.MaxUint32)
}

// Words32 gives the 32-bit patterns of i4 or u4, as bit masks are kept in either. Other types are an error.
func (a *Array) Words32() ([]uint32, error) {
	if a.kind != "i4" && a.kind != "u4" {
		return nil, a.wrongType("words of bits must be i4 or u4")
	}
	dst := make([]uint32, a.Len())
	for i := range dst {
		dst[i] = a.order.Uint32(a.data[4*i:])
	}
	return dst, nil
}

// floats gives a getter that widens element i to float64.
func (a *Array) floats() (func(i int) float64, error) {
	switch a.kind {
	case "bf":
		return func(i int) float64 { return float64(BF16(a.order.Uint16(a.data[2*i:])).Float32()) }, nil
	case "f2":
		return func(i int) float64 { return float64(F16ToFloat32(a.order.Uint16(a.data[2*i:]))) }, nil
	case "f4":
		return func(i int) float64 { return float64(math.Float32frombits(a.order.Uint32(a.data[4*i:]))) }, nil
	case "f8":
		return func(i int) float64 { return math.Float64frombits(a.order.Uint64(a.data[8*i:])) }, nil
	case "u2":
		return nil, a.wrongType("want floating point or integers other than u2, which could be the bits of bf16")
	}
	return func(i int) float64 {
		v, neg := a.integer(i)
		if neg {
			return float64(int64(v))
		}
		return float64(v)
	}, nil
}

// integer is element i of an integer or boolean array: its value modulo 2^64, and whether it is negative.
func (a *Array) integer(i int) (v uint64, neg bool) {
	size := npySize[a.kind]
	p := a.data[i*size:]
	switch size {
	case 1:
		v = uint64(p[0])
	case 2:
		v = uint64(a.order.Uint16(p))
	case 4:
		v = uint64(a.order.Uint32(p))
	case 8:
		v = a.order.Uint64(p)
	}
	if a.kind[0] != 'i' {
		return v, false
	}
	shift := 64 - 8*size
	signed := int64(v<<shift) >> shift
	return uint64(signed), signed < 0
}

// integers converts with a range check; lo is the smallest value (0 or negative), hi the largest.
func integers[T int32 | int64 | uint32 | uint64](a *Array, to string, lo int64, hi uint64) ([]T, error) {
	if a.kind[0] == 'f' || a.kind == "bf" {
		return nil, a.wrongType("integers are needed here, not floats")
	}
	dst := make([]T, a.Len())
	for i := range dst {
		v, neg := a.integer(i)
		switch {
		case a.kind == "b1" && v > 1:
			return nil, fail(ErrMalformed, a.name, "a boolean is 0 or 1", "%s is %d", a.place(i), v)
		case neg && int64(v) < lo:
			return nil, a.outOfRange(i, int64(v), to)
		case !neg && v > hi:
			return nil, a.outOfRange(i, v, to)
		}
		dst[i] = T(v)
	}
	return dst, nil
}

func (a *Array) outOfRange(i int, v any, to string) error {
	return fail(ErrRange, a.name, "value must fit "+to, "%s is %v", a.place(i), v)
}

func (a *Array) wrongType(rule string) error {
	return fail(ErrUnsupported, a.name, rule, "%s", fmt.Sprintf("dtype %s", a.DType()))
}
