package sim

import (
	"math"

	"github.com/fsgen/fsgen/internal/isa"
)

// mods are the modifiers of a floating-point instruction.
type mods struct {
	mode           rounding
	ftz, sat, relu bool
	nan, abs       bool
}

func (a *asm) mods() mods {
	f := a.form
	m := mods{ftz: f.Has("ftz"), sat: f.Has("sat"), relu: f.Has("relu"), nan: f.Has("NaN"), abs: f.Has("xorsign.abs")}
	for text, mode := range map[string]rounding{"rz": toZero, "rm": toMinus, "rp": toPlus} {
		if f.Has(text) {
			m.mode = mode
		}
	}
	return m
}

func (m mods) in(x uint64) float32 {
	if m.ftz {
		return flush32(f32(x))
	}
	return f32(x)
}

func (m mods) out(x float32) uint64 {
	if m.ftz {
		x = flush32(x)
	}
	if m.sat {
		x = saturate(x)
	}
	return bits32(x)
}

// arith is an operation of up to three operands at each precision.
type arith struct {
	n      int
	adds   bool // a + b rather than a * b
	single func(a, b, c float32, mode rounding) float32
	double func(a, b, c float64, mode rounding) float64
}

var (
	addition = arith{2, true, func(a, b, _ float32, m rounding) float32 { return add32(a, b, m) },
		func(a, b, _ float64, m rounding) float64 { return add64(a, b, m) }}
	subtraction = arith{2, false, func(a, b, _ float32, m rounding) float32 { return add32(a, -b, m) },
		func(a, b, _ float64, m rounding) float64 { return add64(a, -b, m) }}
	product2 = arith{2, false, func(a, b, _ float32, m rounding) float32 { return mul32(a, b, m) },
		func(a, b, _ float64, m rounding) float64 { return mul64(a, b, m) }}
	fused    = arith{3, false, fma32, fma64}
	quotient = arith{2, false, func(a, b, _ float32, m rounding) float32 { return div32(a, b, m) },
		func(a, b, _ float64, m rounding) float64 { return div64(a, b, m) }}
	reciprocal = arith{1, false, func(a, _, _ float32, m rounding) float32 { return div32(1, a, m) },
		func(a, _, _ float64, m rounding) float64 { return div64(1, a, m) }}
	root = arith{1, false, func(a, _, _ float32, m rounding) float32 { return sqrt32(a, m) },
		func(a, _, _ float64, m rounding) float64 { return sqrt64(a, m) }}
)

// build makes the closure for the type of the form.
func (f arith) build(a *asm) exec {
	m := a.mods()
	var lane fn3
	switch t := a.typ(0); t {
	case isa.F32:
		lane = func(x, y, z uint64) uint64 { return m.out(f.single(m.in(x), m.in(y), m.in(z), m.mode)) }
	case isa.F64:
		lane = func(x, y, z uint64) uint64 { return bits64(f.double(f64(x), f64(y), f64(z), m.mode)) }
	case isa.F32x2:
		lane = func(x, y, z uint64) uint64 {
			lo := m.out(f.single(m.in(x), m.in(y), m.in(z), m.mode))
			return lo | m.out(f.single(m.in(x>>32), m.in(y>>32), m.in(z>>32), m.mode))<<32
		}
	case isa.F16, isa.BF16, isa.F16x2, isa.BF16x2:
		lane = f.halves(t, m)
	default:
		a.refuse("type %s", t)
	}
	switch f.n {
	case 1:
		return a.unary(func(x uint64) uint64 { return lane(x, 0, 0) })
	case 2:
		return a.binary(func(x, y uint64) uint64 { return lane(x, y, 0) })
	}
	return a.ternary(lane)
}

// formatOf is the 16-bit format of a type and the number of values in it.
func formatOf(t isa.Type) (half, int) {
	h := f16
	if t == isa.BF16 || t == isa.BF16x2 {
		h = bf16
	}
	return h, t.Bits() / 16
}

// eachHalf applies f to each 16-bit part.
func eachHalf(n int, x, y, z uint64, f func(x, y, z uint64) uint64) uint64 {
	out := uint64(0)
	for i := range n {
		s := 16 * i
		out |= f(x>>s&0xffff, y>>s&0xffff, z>>s&0xffff) << s
	}
	return out
}

// halves computes in float64, rounded to odd, so that the last rounding is the only one.
func (f arith) halves(t isa.Type, m mods) fn3 {
	h, n := formatOf(t)
	one := func(x, y, z uint64) uint64 {
		a, b, c := m.half(h, x), m.half(h, y), m.half(h, z)
		v := a * b
		switch f.n {
		case 3:
			v = odd(twoSum(v, c))
		case 2:
			if f.adds {
				v = odd(twoSum(a, b))
			}
		}
		return m.outHalf(h, v)
	}
	return func(x, y, z uint64) uint64 { return eachHalf(n, x, y, z, one) }
}

func (m mods) half(h half, v uint64) float64 {
	if m.ftz && v>>h.mantissa&(1<<(15-h.mantissa)-1) == 0 {
		v &= 0x8000
	}
	return h.wide(v)
}

func (m mods) outHalf(h half, v float64) uint64 {
	switch {
	case m.sat:
		v = saturate(v)
	case m.relu && v < 0:
		v = 0
	}
	out := h.narrow(v, toNearest)
	if m.ftz && out>>h.mantissa&(1<<(15-h.mantissa)-1) == 0 {
		out &= 0x8000
	}
	return out
}

func buildFloatAdd(a *asm) exec { return addition.build(a) }
func buildFloatSub(a *asm) exec { return subtraction.build(a) }
func buildFloatMul(a *asm) exec { return product2.build(a) }
func buildFloatDiv(a *asm) exec { return quotient.build(a) }

// signs works on the sign bit only, NaNs included.
func signs(f func(x, sign uint64) uint64) builder {
	return func(a *asm) exec {
		t, ftz := a.typ(0), a.form.Has("ftz")
		sign := uint64(1) << (t.Bits() - 1)
		return a.unary(func(x uint64) uint64 {
			if ftz {
				x = uint64(math.Float32bits(flush32(f32(x))))
			}
			return f(x, sign)
		})
	}
}

var (
	buildFloatAbs = signs(func(x, sign uint64) uint64 { return x &^ sign })
	buildFloatNeg = signs(func(x, sign uint64) uint64 { return x ^ sign })
)

// extreme is min or max (PTX ISA, "min", "max"): a NaN loses against a number unless .NaN says otherwise; -0 < +0.
func extreme(a, b float64, min_, nan bool) float64 {
	switch {
	case a != a && b != b, nan && (a != a || b != b):
		return math.NaN()
	case a != a:
		return b
	case b != b:
		return a
	case min_:
		return math.Min(a, b)
	}
	return math.Max(a, b)
}

func floatExtreme(min_ bool) builder {
	return func(a *asm) exec {
		m := a.mods()
		t := a.typ(0)
		if t.Kind() == isa.KindPacked {
			h, n := formatOf(t)
			return a.binary(func(x, y uint64) uint64 {
				return eachHalf(n, x, y, 0, func(x, y, _ uint64) uint64 {
					return m.outHalf(h, extreme(m.half(h, x), m.half(h, y), min_, m.nan))
				})
			})
		}
		if t == isa.F64 {
			return a.binary(func(x, y uint64) uint64 { return bits64(extreme(f64(x), f64(y), min_, false)) })
		}
		return a.binary(func(x, y uint64) uint64 {
			sign := (x ^ y) & 0x80000000
			if m.abs { // xorsign.abs
				x, y = x&0x7fffffff, y&0x7fffffff
			}
			v := m.out(float32(extreme(float64(m.in(x)), float64(m.in(y)), min_, m.nan)))
			if m.abs && v != quietNaN {
				v |= sign
			}
			return v
		})
	}
}

// approximate is an instruction whose result is only near the exact one: computed in float64 and rounded once, which is
// within every documented bound.
func approximate(f func(x float64) float64) builder {
	return func(a *asm) exec {
		m := a.mods()
		return a.unary(func(x uint64) uint64 { return m.out(float32(f(float64(m.in(x))))) })
	}
}

// exact2 has a known value where Exp2 of an integer may be off.
func exact2(x float64) float64 {
	if x == math.Trunc(x) && math.Abs(x) < 1000 {
		return math.Ldexp(1, int(x))
	}
	return math.Exp2(x)
}

func buildCopysign(a *asm) exec {
	sign := uint64(1) << (a.typ(0).Bits() - 1)
	return a.binary(func(x, y uint64) uint64 { return y&^sign | x&sign }) // the sign is that of a
}

// testps are the properties that testp asks of a value and the least normal one of its type.
var testps = map[string]func(x, least float64) bool{
	"finite":     func(x, _ float64) bool { return !math.IsInf(x, 0) && x == x },
	"infinite":   func(x, _ float64) bool { return math.IsInf(x, 0) },
	"number":     func(x, _ float64) bool { return x == x },
	"notanumber": func(x, _ float64) bool { return x != x },
	"normal":     func(x, least float64) bool { return math.Abs(x) >= least && !math.IsInf(x, 0) },
	"subnormal":  func(x, least float64) bool { return math.Abs(x) < least }, // zero too
}

func buildTestp(a *asm) exec {
	for text, f := range testps {
		if !a.form.Has(text) {
			continue
		}
		if a.typ(1) == isa.F64 {
			return a.unary(func(x uint64) uint64 { return b2u(f(f64(x), 0x1p-1022)) })
		}
		return a.unary(func(x uint64) uint64 { return b2u(f(float64(f32(x)), 0x1p-126)) })
	}
	a.refuse("the property")
	return nil
}

var floatSemantics = map[string]builder{
	"Fma":         fused.build,
	"FmaRn":       fused.build,
	"AddRn":       addition.build,
	"MulRn":       product2.build,
	"RcpApprox":   approximate(func(x float64) float64 { return 1 / x }),
	"Rcp":         reciprocal.build,
	"SqrtApprox":  approximate(math.Sqrt),
	"Sqrt":        root.build,
	"RsqrtApprox": approximate(func(x float64) float64 { return 1 / math.Sqrt(x) }),
	"SinApprox":   approximate(math.Sin),
	"CosApprox":   approximate(math.Cos),
	"Lg2Approx":   approximate(math.Log2),
	"Ex2Approx":   approximate(exact2),
	"TanhApprox":  approximate(math.Tanh),
	"Copysign":    buildCopysign,
	"Testp":       buildTestp,
}
