package sim

import (
	"math/bits"

	"github.com/fsgen/fsgen/internal/isa"
)

// bitwise makes an operation on bits, cut to the type.
func bitwise(f fn2) builder {
	return func(a *asm) exec {
		n := mask(a.typ(0).Bits())
		return a.binary(func(x, y uint64) uint64 { return f(x, y) & n })
	}
}

func buildNot(a *asm) exec {
	n := mask(a.typ(0).Bits())
	return a.unary(func(x uint64) uint64 { return ^x & n })
}

// buildLop3 is any function of three bits, given as its value for (0xF0, 0xCC, 0xAA).
func buildLop3(a *asm) exec {
	lut := uint64(a.imm(4))
	f := func(x, y, z uint64) uint64 {
		out := uint64(0)
		for i := range 8 {
			if lut>>i&1 == 0 {
				continue
			}
			out |= pick1(x, i>>2) & pick1(y, i>>1&1) & pick1(z, i&1)
		}
		return out & mask(32)
	}
	if lut == 0x96 {
		f = func(x, y, z uint64) uint64 { return x ^ y ^ z }
	}
	return a.ternary(f)
}

func pick1(x uint64, bit int) uint64 {
	if bit == 1 {
		return x
	}
	return ^x
}

// buildShl and buildShr clamp the amount to the width.
func buildShl(a *asm) exec {
	t := widthOf(a.typ(0))
	return a.binary(func(x, y uint64) uint64 { return t.cut(x << min(y, 64)) })
}

func buildShr(a *asm) exec {
	t := widthOf(a.typ(0))
	return a.binary(func(x, y uint64) uint64 {
		if t.signed {
			return t.cut(uint64(int64(t.ext(x)) >> min(y, 63)))
		}
		return t.ext(x) >> min(y, 64)
	})
}

// buildShf shifts the pair b:a and takes its upper (.l) or lower (.r) half.
func buildShf(a *asm) exec {
	left, wrap := a.form.Has("l"), a.form.Has("wrap")
	return a.ternary(func(x, y, n uint64) uint64 {
		if wrap {
			n &= 31
		} else {
			n = min(n, 32)
		}
		pair := y<<32 | x
		if left {
			return pair << n >> 32 & mask(32)
		}
		return pair >> n & mask(32)
	})
}

// prmtModes are the selections that the special modes of prmt stand for, by the low bits of c.
var prmtModes = map[string][4]uint64{
	"f4e":  {0x3210, 0x4321, 0x5432, 0x6543},
	"b4e":  {0x5670, 0x6701, 0x7012, 0x0123},
	"rc8":  {0x0000, 0x1111, 0x2222, 0x3333},
	"ecl":  {0x3210, 0x3211, 0x3222, 0x3333},
	"ecr":  {0x0000, 0x1110, 0x2210, 0x3210},
	"rc16": {0x1010, 0x3232, 0x1010, 0x3232},
}

func buildPrmt(a *asm) exec {
	var special *[4]uint64
	for text, sel := range prmtModes {
		if a.form.Has(text) {
			special = &sel
		}
	}
	return a.ternary(func(x, y, c uint64) uint64 {
		if special != nil {
			c = special[c&3]
		}
		pair, out := y<<32|x, uint64(0)
		for i := range 4 {
			sel := c >> (4 * i)
			b := pair >> (8 * (sel & 7)) & 0xff
			if sel&8 != 0 { // replicate the sign
				b = uint64(int64(int8(b))>>7) & 0xff
			}
			out |= b << (8 * i)
		}
		return out
	})
}

var logicSemantics = map[string]builder{
	"And":  bitwise(func(x, y uint64) uint64 { return x & y }),
	"Or":   bitwise(func(x, y uint64) uint64 { return x | y }),
	"Xor":  bitwise(func(x, y uint64) uint64 { return x ^ y }),
	"Not":  buildNot,
	"Lop3": buildLop3,
	"Shf":  buildShf,
	"Shl":  buildShl,
	"Shr":  buildShr,
	"Prmt": buildPrmt,
}

// relation compares two values of one type.
type relation func(x, y uint64) bool

// order says how two values compare: less, equal, greater, or unordered.
type order uint8

const (
	less order = 1 << iota
	equal
	greater
	unordered
)

// relations are the comparison operators as the orders that satisfy them (PTX ISA, "setp").
var relations = map[string]order{
	"eq": equal, "ne": less | greater, "lt": less, "le": less | equal, "gt": greater, "ge": greater | equal,
	"lo": less, "ls": less | equal, "hi": greater, "hs": greater | equal,
	"equ": equal | unordered, "neu": less | greater | unordered, "ltu": less | unordered, "leu": less | equal | unordered,
	"gtu": greater | unordered, "geu": greater | equal | unordered, "num": less | equal | greater, "nan": unordered,
}

func orderOf[T int64 | uint64 | float64](x, y T) order {
	switch {
	case x < y:
		return less
	case x == y:
		return equal
	case x > y:
		return greater
	}
	return unordered
}

// relation is the comparison that a form names.
func (a *asm) relation(t isa.Type) relation {
	want := relations[a.form.Alt(0).Text]
	if want == 0 {
		a.refuse("comparison %s", a.form.Alt(0).Text)
	}
	m, n := a.mods(), widthOf(t)
	switch {
	case t == isa.F32:
		return func(x, y uint64) bool { return want&orderOf(float64(m.in(x)), float64(m.in(y))) != 0 }
	case t == isa.F64:
		return func(x, y uint64) bool { return want&orderOf(f64(x), f64(y)) != 0 }
	case n.signed:
		return func(x, y uint64) bool { return want&orderOf(int64(n.ext(x)), int64(n.ext(y))) != 0 }
	}
	return func(x, y uint64) bool { return want&orderOf(n.ext(x), n.ext(y)) != 0 }
}

// combiners join the comparison with a predicate.
var combiners = map[string]fn2{
	"and": func(x, y uint64) uint64 { return x & y },
	"or":  func(x, y uint64) uint64 { return x | y },
	"xor": func(x, y uint64) uint64 { return x ^ y },
}

func buildSetp(a *asm) exec {
	holds := a.relation(a.typ(1))
	if !a.has(3) {
		return a.binary(func(x, y uint64) uint64 { return b2u(holds(x, y)) })
	}
	join := combiners[a.form.Alt(1).Text]
	d, x, y := a.dst(0), a.src(1), a.src(2)
	c, flip := a.pred(3)
	return func(s *step) {
		r := s.w.r
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			r[d][l] = join(b2u(holds(r[x][l], r[y][l])), r[c][l]^flip)
		}
	}
}

func buildSetp2(a *asm) exec {
	holds := a.relation(a.typ(2))
	p, q, x, y := a.dst(0), a.dst(1), a.src(2), a.src(3)
	return func(s *step) {
		r := s.w.r
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			v := b2u(holds(r[x][l], r[y][l]))
			r[p][l], r[q][l] = v, v^1
		}
	}
}

func buildSelp(a *asm) exec {
	return a.ternary(func(x, y, p uint64) uint64 {
		if p&1 == 1 {
			return x
		}
		return y
	})
}

var compareSemantics = map[string]builder{"Setp": buildSetp, "Setp2": buildSetp2, "Selp": buildSelp}
