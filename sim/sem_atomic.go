package sim

import (
	"math/bits"

	"github.com/fsgen/fsgen/internal/isa"
)

// update computes what memory becomes from what it was and the operands.
type update func(t width, old, b, c uint64) uint64

// updates are the operations of atom and red (PTX ISA, "atom").
var updates = map[string]update{
	"and":  func(_ width, old, b, _ uint64) uint64 { return old & b },
	"or":   func(_ width, old, b, _ uint64) uint64 { return old | b },
	"xor":  func(_ width, old, b, _ uint64) uint64 { return old ^ b },
	"add":  func(_ width, old, b, _ uint64) uint64 { return old + b },
	"exch": func(_ width, _, b, _ uint64) uint64 { return b },
	"min":  func(t width, old, b, _ uint64) uint64 { return least(t, t.ext(old), t.ext(b)) },
	"max":  func(t width, old, b, _ uint64) uint64 { return most(t, t.ext(old), t.ext(b)) },
	"inc": func(_ width, old, b, _ uint64) uint64 {
		if old >= b {
			return 0
		}
		return old + 1
	},
	"dec": func(_ width, old, b, _ uint64) uint64 {
		if old == 0 || old > b {
			return b
		}
		return old - 1
	},
	"cas": func(_ width, old, b, c uint64) uint64 {
		if old == b {
			return c
		}
		return old
	},
}

// updateOf is the operation of a form on the bits of its type.
func (a *asm) updateOf(t isa.Type) update {
	for name, f := range updates {
		if !a.form.Has(name) {
			continue
		}
		switch {
		case name == "add" && t == isa.F32:
			return func(_ width, old, b, _ uint64) uint64 { return bits32(f32(old) + f32(b)) }
		case name == "add" && t == isa.F64:
			return func(_ width, old, b, _ uint64) uint64 { return bits64(f64(old) + f64(b)) }
		}
		return f
	}
	a.refuse("no atomic operation")
	return nil
}

// buildAtomic makes an atomic instruction: first is the place of its address operand, 1 if it has a result before.
func buildAtomic(first int) builder {
	return func(a *asm) exec {
		d, c := slot(-1), slot(-1)
		if first == 1 {
			d = a.dst(0)
		}
		space, x, b := a.spaceOf(first), a.addr(first), a.src(first+1)
		if i := a.index("c"); i >= 0 {
			c = a.src(i)
		}
		a.hint()
		typ := a.typ(first + 1)
		t, f := widthOf(typ), a.updateOf(typ)
		do := func(s *step) {
			for m := s.m; m != 0; m &= m - 1 {
				s.atom(bits.TrailingZeros32(m), space, x, t, f, d, b, c)
			}
		}
		return func(s *step) {
			if s.touchesGlobal(space, x) {
				s.later(do)
				return
			}
			s.w.cta.cluster.progress++
			do(s)
		}
	}
}

// atom does one lane's atomic.
func (s *step) atom(l int, space isa.Space, x address, t width, f update, d, b, c slot) {
	n := t.bits / 8
	addr := x.of(s.w, l)
	if s.read(space, l, addr, n, n) == nil {
		return
	}
	data := s.write(space, l, addr, n, n)
	if data == nil {
		return
	}
	r := s.w.r
	old, third := load(data, n), uint64(0)
	if c >= 0 {
		third = r[c][l]
	}
	store(data, n, f(t, old, r[b][l], third))
	if d >= 0 {
		r[d][l] = old
	}
}

var atomicSemantics = map[string]builder{"Atom": buildAtomic(1), "Red": buildAtomic(0)}
