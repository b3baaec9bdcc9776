package sim

import (
	"maps"
	"math/bits"
)

// semantics holds the builder of every row of the instruction table, by the first part of its constructors' names
// (isa.Row.Go): rows that share it differ in types and modifiers only, which the builder reads from the form.
var semantics = joined(
	integerSemantics, carrySemantics, floatSemantics, logicSemantics, compareSemantics, moveSemantics,
	memorySemantics, atomicSemantics, flowSemantics, barrierSemantics, warpSemantics, mbarrierSemantics, fenceSemantics,
	bulkSemantics, copySemantics, matrixSemantics, wgmmaSemantics, tcgen05Semantics, miscSemantics,
)

func joined(parts ...map[string]builder) map[string]builder {
	out := map[string]builder{}
	for _, p := range parts {
		maps.Copy(out, p)
	}
	return out
}

// fn1 to fn3 compute one lane's result from the bits of its operands.
type (
	fn1 func(a uint64) uint64
	fn2 func(a, b uint64) uint64
	fn3 func(a, b, c uint64) uint64
)

// unary, binary and ternary make d = f(a...), operands in the order of the row.
func (a *asm) unary(f fn1) exec {
	d, x := a.dst(0), a.src(1)
	return func(s *step) {
		rd, rx := &s.w.r[d], &s.w.r[x]
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			rd[l] = f(rx[l])
		}
	}
}

func (a *asm) binary(f fn2) exec {
	d, x, y := a.dst(0), a.src(1), a.src(2)
	return func(s *step) {
		rd, rx, ry := &s.w.r[d], &s.w.r[x], &s.w.r[y]
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			rd[l] = f(rx[l], ry[l])
		}
	}
}

func (a *asm) ternary(f fn3) exec {
	d, x, y, z := a.dst(0), a.src(1), a.src(2), a.src(3)
	return func(s *step) {
		rd, rx, ry, rz := &s.w.r[d], &s.w.r[x], &s.w.r[y], &s.w.r[z]
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			rd[l] = f(rx[l], ry[l], rz[l])
		}
	}
}

// nothing is the semantics of hints.
func nothing(*asm) exec { return func(*step) {} }
