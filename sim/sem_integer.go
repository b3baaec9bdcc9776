package sim

import (
	"math"
	"math/bits"

	"github.com/fsgen/fsgen/internal/isa"
)

// width is an integer type: operands are extended to 64 bits by it, results cut.
type width struct {
	bits   int
	signed bool
}

func widthOf(t isa.Type) width { return width{t.Bits(), t.Kind() == isa.KindSigned} }

// ext extends a value of the type to 64 bits.
func (t width) ext(v uint64) uint64 {
	n := 64 - t.bits
	if t.signed {
		return uint64(int64(v<<n) >> n)
	}
	return v << n >> n
}

func (t width) cut(v uint64) uint64 { return v & mask(t.bits) }

// bounds are the least and the largest value, as extended bits.
func (t width) bounds() (lo, hi uint64) {
	if t.signed {
		return uint64(int64(-1) << (t.bits - 1)), mask(t.bits - 1)
	}
	return 0, mask(t.bits)
}

func (t width) less(a, b uint64) bool {
	if t.signed {
		return int64(a) < int64(b)
	}
	return a < b
}

// int2 computes on extended operands.
type int2 func(t width, a, b uint64) uint64

// high is the upper half of a product (PTX ISA, "mul": .hi).
func high(t width, a, b uint64) uint64 {
	if t.bits < 64 {
		p := a * b
		if t.signed {
			return uint64(int64(p) >> t.bits)
		}
		return p >> t.bits
	}
	hi, _ := bits.Mul64(a, b)
	if t.signed {
		hi -= b&uint64(int64(a)>>63) + a&uint64(int64(b)>>63)
	}
	return hi
}

// divide follows the GPU where the manual leaves the result open: all ones for a division by zero.
func divide(t width, a, b uint64) uint64 {
	switch {
	case b == 0:
		return math.MaxUint64
	case t.signed && b == math.MaxUint64:
		return -a
	case t.signed:
		return uint64(int64(a) / int64(b))
	}
	return a / b
}

func remainder(t width, a, b uint64) uint64 {
	switch {
	case b == 0:
		return a
	case t.signed && b == math.MaxUint64:
		return 0
	case t.signed:
		return uint64(int64(a) % int64(b))
	}
	return a % b
}

func least(t width, a, b uint64) uint64 {
	if t.less(b, a) {
		return b
	}
	return a
}

func most(t width, a, b uint64) uint64 {
	if t.less(a, b) {
		return b
	}
	return a
}

// saturated clamps the sum of two 32-bit values, which 64 bits hold.
func saturated(t width, v uint64) uint64 {
	lo, hi := t.bounds()
	if int64(v) < int64(lo) {
		return lo
	}
	if int64(v) > int64(hi) {
		return hi
	}
	return v
}

func magnitude(t width, a, _ uint64) uint64 {
	if int64(a) < 0 {
		return -a
	}
	return a
}

// ints2 makes the builder of d = f(a, b).
func ints2(f int2) builder {
	return func(a *asm) exec {
		t := widthOf(a.typ(0))
		return a.binary(func(x, y uint64) uint64 { return t.cut(f(t, t.ext(x), t.ext(y))) })
	}
}

func ints1(f int2) builder {
	return func(a *asm) exec {
		t := widthOf(a.typ(0))
		return a.unary(func(x uint64) uint64 { return t.cut(f(t, t.ext(x), 0)) })
	}
}

// byKind picks a builder by whether the instruction's type is a float.
func byKind(integer, float builder) builder {
	return func(a *asm) exec {
		switch a.typ(0).Kind() {
		case isa.KindFloat, isa.KindPacked:
			return float(a)
		}
		return integer(a)
	}
}

func sum(_ width, a, b uint64) uint64        { return a + b }
func difference(_ width, a, b uint64) uint64 { return a - b }
func low(_ width, a, b uint64) uint64        { return a * b }

// half picks the half of a product that the form names.
func (a *asm) half() int2 {
	if a.form.Has("hi") || a.form.Has("hi.cc") {
		return high
	}
	return low
}

func buildMul(a *asm) exec { return ints2(a.half())(a) }

func buildMad(a *asm) exec {
	t, f := widthOf(a.typ(0)), a.half()
	return a.ternary(func(x, y, z uint64) uint64 { return t.cut(f(t, t.ext(x), t.ext(y)) + z) })
}

func buildMulWide(a *asm) exec {
	t, d := widthOf(a.typ(1)), widthOf(a.typ(0))
	return a.binary(func(x, y uint64) uint64 { return d.cut(t.ext(x) * t.ext(y)) })
}

func buildMadWide(a *asm) exec {
	t, d := widthOf(a.typ(1)), widthOf(a.typ(0))
	return a.ternary(func(x, y, z uint64) uint64 { return d.cut(t.ext(x)*t.ext(y) + z) })
}

// counting makes d = f(a) where a has its own type and d is u32.
func counting(f func(t width, v uint64) uint64) builder {
	return func(a *asm) exec {
		t := widthOf(a.typ(1))
		return a.unary(func(x uint64) uint64 { return f(t, t.ext(x)) & mask(32) })
	}
}

func buildBfind(a *asm) exec {
	t, shift := widthOf(a.typ(1)), a.form.Has("shiftamt")
	return a.unary(func(x uint64) uint64 {
		v := t.ext(x)
		if t.signed && int64(v) < 0 {
			v = ^v
		}
		at := bits.Len64(v) - 1
		if shift && at >= 0 {
			at = t.bits - 1 - at
		}
		return uint64(at) & mask(32)
	})
}

// buildBfe extracts a bit field (PTX ISA, "bfe"): position and length are the low bytes of b and c.
func buildBfe(a *asm) exec {
	t := widthOf(a.typ(0))
	return a.ternary(func(x, y, z uint64) uint64 {
		pos, n := int(y&0xff), int(z&0xff)
		if n == 0 {
			return 0
		}
		sign := uint64(0)
		if t.signed {
			sign = x >> min(pos+n-1, t.bits-1) & 1
		}
		v := uint64(0)
		if pos < t.bits {
			v = t.cut(x) >> pos
		}
		have := max(t.bits-pos, 0)
		n = min(n, t.bits)
		v &= mask(min(n, have))
		if sign == 1 {
			v |= ^mask(min(n, have))
		}
		return t.cut(v)
	})
}

// buildBfi inserts the low bits of a into b.
func buildBfi(a *asm) exec {
	t := widthOf(a.typ(0))
	d, x, y, p, n := a.dst(0), a.src(1), a.src(2), a.src(3), a.src(4)
	return func(s *step) {
		r := s.w.r
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			pos, count := int(r[p][l]&0xff), int(r[n][l]&0xff)
			field := uint64(0)
			if pos < t.bits {
				field = t.cut(mask(min(count, 64)) << pos)
			}
			r[d][l] = r[y][l]&^field | r[x][l]<<min(pos, 63)&field
		}
	}
}

var integerSemantics = map[string]builder{
	"Add":     byKind(ints2(sum), buildFloatAdd),
	"Sub":     byKind(ints2(difference), buildFloatSub),
	"Mul":     byKind(buildMul, buildFloatMul),
	"AddSat":  ints2(func(t width, a, b uint64) uint64 { return saturated(t, a+b) }),
	"SubSat":  ints2(func(t width, a, b uint64) uint64 { return saturated(t, a-b) }),
	"MulWide": buildMulWide,
	"Mad":     buildMad,
	"MadWide": buildMadWide,
	"Div":     byKind(ints2(divide), buildFloatDiv),
	"Rem":     ints2(remainder),
	"Abs":     byKind(ints1(magnitude), buildFloatAbs),
	"Neg":     byKind(ints1(func(_ width, a, _ uint64) uint64 { return -a }), buildFloatNeg),
	"Min":     byKind(ints2(least), floatExtreme(true)),
	"Max":     byKind(ints2(most), floatExtreme(false)),
	"Popc":    counting(func(_ width, v uint64) uint64 { return uint64(bits.OnesCount64(v)) }),
	"Clz":     counting(func(t width, v uint64) uint64 { return uint64(bits.LeadingZeros64(v) - 64 + t.bits) }),
	"Bfind":   buildBfind,
	"Brev":    ints1(func(t width, a, _ uint64) uint64 { return bits.Reverse64(a) >> (64 - t.bits) }),
	"Bfe":     buildBfe,
	"Bfi":     buildBfi,
}
