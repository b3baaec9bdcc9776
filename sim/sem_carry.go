package sim

import "math/bits"

// carrySemantics is extended-precision arithmetic (PTX ISA, "Extended-Precision Arithmetic Instructions"): the carry flag is
// a register of each thread that only these touch.
var carrySemantics = map[string]builder{
	"AddCC":  buildCarryAdd(false, true),
	"Addc":   buildCarryAdd(true, false),
	"AddcCC": buildCarryAdd(true, true),
	"SubCC":  buildBorrow(false, true),
	"Subc":   buildBorrow(true, false),
	"SubcCC": buildBorrow(true, true),
	"MadCC":  buildCarryMad(false, true),
	"Madc":   buildCarryMad(true, false),
	"MadcCC": buildCarryMad(true, true),
}

// addCarry adds with carry in and out, at a width of 32 or 64 bits.
func addCarry(t width, a, b, in uint64) (sum, out uint64) {
	if t.bits == 64 {
		return bits.Add64(a, b, in)
	}
	sum = t.cut(a) + t.cut(b) + in
	return t.cut(sum), sum >> t.bits & 1
}

// carried makes d = f(lane) with the carry flag.
func (a *asm) carried(reads, writes bool, d slot, f func(w *warp, lane int, in uint64) (uint64, uint64)) exec {
	return func(s *step) {
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			in := uint64(0)
			if reads {
				in = s.w.carry[l]
			}
			v, out := f(s.w, l, in)
			s.w.r[d][l] = v
			if writes {
				s.w.carry[l] = out
			}
		}
	}
}

func buildCarryAdd(reads, writes bool) builder {
	return func(a *asm) exec {
		t, d, x, y := widthOf(a.typ(0)), a.dst(0), a.src(1), a.src(2)
		return a.carried(reads, writes, d, func(w *warp, l int, in uint64) (uint64, uint64) {
			return addCarry(t, w.r[x][l], w.r[y][l], in)
		})
	}
}

// buildBorrow subtracts: the flag holds the borrow.
func buildBorrow(reads, writes bool) builder {
	return func(a *asm) exec {
		t, d, x, y := widthOf(a.typ(0)), a.dst(0), a.src(1), a.src(2)
		return a.carried(reads, writes, d, func(w *warp, l int, in uint64) (uint64, uint64) {
			v, out := addCarry(t, w.r[x][l], t.cut(^w.r[y][l]), 1-in)
			return v, 1 - out
		})
	}
}

func buildCarryMad(reads, writes bool) builder {
	return func(a *asm) exec {
		t, f := widthOf(a.typ(0)), a.half()
		d, x, y, z := a.dst(0), a.src(1), a.src(2), a.src(3)
		return a.carried(reads, writes, d, func(w *warp, l int, in uint64) (uint64, uint64) {
			p := t.cut(f(t, t.ext(w.r[x][l]), t.ext(w.r[y][l])))
			return addCarry(t, p, w.r[z][l], in)
		})
	}
}
