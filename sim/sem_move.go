package sim

import (
	"math"
	"math/bits"
	"strings"

	"github.com/fsgen/fsgen/internal/isa"
	"github.com/fsgen/fsgen/ptx"
)

// clocks are the special registers that change: they count instructions of the cluster.
var clocks = []string{"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}

func buildMov(a *asm) exec {
	if sp, ok := a.in.Args[1].(ptx.Special); ok {
		for _, c := range clocks {
			if sp.Row.Text == c {
				return a.clock(c)
			}
		}
	}
	return a.unary(func(x uint64) uint64 { return x })
}

func (a *asm) clock(name string) exec {
	d, shift := a.dst(0), 0
	if strings.HasSuffix(name, "_hi") {
		shift = 32
	}
	n := mask(a.typ(0).Bits())
	return func(s *step) {
		for m := s.m; m != 0; m &= m - 1 {
			s.w.r[d][bits.TrailingZeros32(m)] = uint64(s.w.cta.cluster.steps) >> shift & n
		}
	}
}

// buildMovVar takes the address of a variable in its own space; that of a parameter too (PTX ISA, "mov").
func buildMovVar(a *asm) exec {
	d := a.dst(0)
	c := a.c.constant(a.c.addressOf(a.in.Args[1].(ptx.VarRef)))
	return func(s *step) { copyLanes(s, d, c) }
}

func copyLanes(s *step, d, x slot) {
	rd, rx := &s.w.r[d], &s.w.r[x]
	for m := s.m; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		rd[l] = rx[l]
	}
}

func buildMovPack(a *asm) exec {
	d, parts := a.dst(0), a.srcs(1)
	n := a.typ(1).Bits()
	return func(s *step) {
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			v := uint64(0)
			for i, p := range parts {
				v |= s.w.r[p][l] & mask(n) << (i * n)
			}
			s.w.r[d][l] = v
		}
	}
}

func buildMovUnpack(a *asm) exec {
	parts, x := a.dsts(0), a.src(1)
	n := a.typ(0).Bits()
	return func(s *step) {
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			v := s.w.r[x][l]
			for i, p := range parts {
				if p >= 0 {
					s.w.r[p][l] = v >> (i * n) & mask(n)
				}
			}
		}
	}
}

// windows are where the spaces lie in the generic address space.
var windows = map[string]uint64{"shared": sharedWindow, "shared::cta": sharedWindow, "shared::cluster": sharedWindow,
	"local": localWindow, "param": paramWindow, "global": 0, "const": 0}

func (a *asm) window() uint64 { return windows[a.form.Alt(0).Text] }

func buildCvta(a *asm) exec {
	base := a.window()
	return a.unary(func(x uint64) uint64 { return x + base })
}

func buildCvtaTo(a *asm) exec {
	base := a.window()
	return a.unary(func(x uint64) uint64 { return x - base })
}

func buildIsspacep(a *asm) exec {
	base := a.window()
	return a.unary(func(x uint64) uint64 {
		if base == 0 {
			return b2u(x >= moduleBase && x < paramWindow)
		}
		return b2u(x&windowMask == base)
	})
}

// value is a converted number: an integer or a float.
type value struct {
	i uint64 // extended to 64 bits
	f float64
}

// buildCvt converts between types (PTX ISA, "cvt"): the source becomes a value, the destination rounds, saturates and cuts.
func buildCvt(a *asm) exec {
	d, t := a.typ(0), a.typ(1)
	if d == isa.F16x2 || d == isa.BF16x2 || d == isa.E4M3x2 || d == isa.E5M2x2 {
		return a.pairConversion(d)
	}
	read, write := a.reader(t), a.writer(d, t)
	return a.unary(func(x uint64) uint64 { return write(read(x)) })
}

func isFloat(t isa.Type) bool {
	return t.Kind() == isa.KindFloat || t.Kind() == isa.KindPacked
}

func (a *asm) reader(t isa.Type) func(x uint64) value {
	m, n := a.mods(), widthOf(t)
	switch {
	case t == isa.F32:
		return func(x uint64) value { return value{f: float64(m.in(x))} }
	case t == isa.F64:
		return func(x uint64) value { return value{f: f64(x)} }
	case isFloat(t):
		h, _ := formatOf(t)
		return func(x uint64) value { return value{f: h.wide(x & 0xffff)} }
	}
	return func(x uint64) value { return value{i: n.ext(x)} }
}

func (a *asm) writer(d, t isa.Type) func(v value) uint64 {
	m := a.mods()
	switch {
	case isFloat(d) && isFloat(t):
		round := a.roundInt()
		out := m.floatWriter(d)
		return func(v value) uint64 { return out(round(v.f)) }
	case isFloat(d):
		return m.fromInteger(d, t)
	case isFloat(t):
		round := a.roundInt()
		return func(v value) uint64 { return toInteger(widthOf(d), round(v.f)) }
	}
	return a.integerWriter(widthOf(d), widthOf(t))
}

// roundInt is the rounding to an integral value that a form asks for.
func (a *asm) roundInt() func(float64) float64 {
	for text, f := range map[string]func(float64) float64{"rni": math.RoundToEven, "rzi": math.Trunc, "rmi": math.Floor, "rpi": math.Ceil} {
		if a.form.Has(text) {
			return f
		}
	}
	return func(x float64) float64 { return x }
}

func (m mods) floatWriter(d isa.Type) func(x float64) uint64 {
	switch d {
	case isa.F32:
		return func(x float64) uint64 { return m.out(round32(x, m.mode)) }
	case isa.F64:
		return func(x float64) uint64 {
			if m.sat {
				x = saturate(x)
			}
			return bits64(x)
		}
	case isa.TF32: // 10 bits of mantissa, ties away (PTX ISA, "cvt": .rna)
		return func(x float64) uint64 {
			if x != x {
				return quietNaN
			}
			return (uint64(math.Float32bits(float32(x))) + 1<<12) &^ (1<<13 - 1) & mask(32)
		}
	}
	h, _ := formatOf(d)
	return func(x float64) uint64 {
		if m.relu && !(x > 0) && x == x {
			x = 0
		}
		if m.sat {
			x = saturate(x)
		}
		return h.narrow(x, m.mode)
	}
}

// fromInteger rounds an integer, which may have more bits than the float.
func (m mods) fromInteger(d, t isa.Type) func(v value) uint64 {
	signed := t.Kind() == isa.KindSigned
	out := m.floatWriter(d)
	return func(v value) uint64 {
		hi, lo := float64(v.i>>32)*0x1p32, float64(v.i&mask(32))
		if signed {
			hi = float64(int64(v.i)>>32) * 0x1p32
		}
		s, err := twoSum(hi, lo)
		if d == isa.F64 {
			return out(step64(s, err, m.mode))
		}
		return out(odd(s, err))
	}
}

// toInteger clamps, and makes a NaN 0 (of 64-bit types the sign bit, as the hardware does).
func toInteger(t width, x float64) uint64 {
	lo, hi := t.bounds()
	switch {
	case x != x && t.bits == 64:
		return 1 << 63
	case x != x:
		return 0
	case t.signed && x <= float64(int64(lo)), !t.signed && x <= 0:
		return t.cut(lo)
	case t.signed && x >= float64(int64(hi)), !t.signed && x >= float64(hi):
		return t.cut(hi)
	case t.signed:
		return t.cut(uint64(int64(x)))
	}
	return t.cut(uint64(x))
}

// integerWriter cuts or clamps, then extends to the register's width.
func (a *asm) integerWriter(d, t width) func(v value) uint64 {
	sat := strings.Contains(a.form.Row.Op, "sat")
	reg := width{a.dstBits(0), d.signed}
	lo, hi := d.bounds()
	return func(v value) uint64 {
		x := v.i
		if sat {
			switch {
			case t.signed && int64(x) < 0 && (!d.signed || int64(x) < int64(lo)):
				x = lo
			case (!t.signed || int64(x) >= 0) && x > hi:
				x = hi
			}
		}
		return reg.cut(d.ext(x))
	}
}

// pairConversion packs two floats: a in the upper half, b in the lower.
func (a *asm) pairConversion(d isa.Type) exec {
	m := a.mods()
	clamp := a.form.Has("satfinite")
	if d == isa.E4M3x2 || d == isa.E5M2x2 {
		out := fp8(d, m.relu)
		return a.binary(func(x, y uint64) uint64 { return out(f32(x))<<8 | out(f32(y)) })
	}
	h, _ := formatOf(d)
	out := m.floatWriter(d)
	one := func(x uint64) uint64 {
		v := out(float64(f32(x)))
		if inf := mask(15-h.mantissa) << h.mantissa; clamp && v&0x7fff == inf {
			v--
		}
		return v
	}
	return a.binary(func(x, y uint64) uint64 { return one(x)<<16 | one(y) })
}

// fp8 rounds to an 8-bit float, to the nearest even, clamped to the largest finite value.
func fp8(d isa.Type, relu bool) func(x float32) uint64 {
	mantissa, bias, largest := 3, 7, 448.0
	if d == isa.E5M2x2 {
		mantissa, bias, largest = 2, 15, 57344
	}
	return func(x float32) uint64 {
		v := float64(x)
		if v != v {
			return 0x7f
		}
		if relu && v < 0 {
			v = 0
		}
		sign := uint64(math.Float64bits(v)>>63) << 7
		v = min(math.Abs(v), largest)
		if v == 0 {
			return sign
		}
		_, e := math.Frexp(v)
		exp := max(e-1, 1-bias)
		n := uint64(math.RoundToEven(math.Ldexp(v, mantissa-exp)))
		if exp > 1-bias || n >= 1<<mantissa {
			n += uint64(exp+bias-1) << mantissa
		}
		return sign | n
	}
}

var moveSemantics = map[string]builder{
	"Mov": buildMov, "MovVar": buildMovVar, "MovPack": buildMovPack, "MovUnpack": buildMovUnpack,
	"MovPack4": buildMovPack, "MovUnpack4": buildMovUnpack, "Cvta": buildCvta, "CvtaTo": buildCvtaTo, "Isspacep": buildIsspacep,
	"Cvt": buildCvt, "CvtSat": buildCvt, "CvtRn": buildCvt, "CvtRna": buildCvt,
}
