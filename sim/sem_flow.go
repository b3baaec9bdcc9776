package sim

import (
	"math/bits"

	"github.com/fsgen/fsgen/ptx"
)

func buildBra(a *asm) exec {
	to, ok := a.c.at[a.in.Args[0].(*ptx.Label)]
	if !ok {
		a.refuse("the label is placed nowhere")
	}
	a.o.targets = []int32{to}
	return func(s *step) { s.w.split(s.g, s.m, to) }
}

// buildBrxIdx branches each lane to its own target.
func buildBrxIdx(a *asm) exec {
	x := a.src(0)
	var to []int32
	for _, l := range a.in.Args[1].(*ptx.Table).Targets {
		to = append(to, a.c.at[l])
	}
	a.o.targets = to
	return func(s *step) {
		var lanesOf = make(map[int32]uint32, 1)
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			i := s.w.r[x][l]
			if i >= uint64(len(to)) {
				s.find(OutOfBounds, l, "branch target %d of %d", i, len(to))
				i = 0
			}
			lanesOf[to[i]] |= 1 << l
		}
		for _, pc := range to { // in the order of the table: maps have none
			s.w.split(s.g, lanesOf[pc], pc)
			delete(lanesOf, pc)
		}
	}
}

func buildCall(a *asm) exec {
	to, ok := a.c.starts[a.in.Args[0].(ptx.FuncRef).Name]
	if !ok {
		a.refuse("the function is not in the module")
	}
	a.o.targets = []int32{to}
	return func(s *step) {
		back := s.g.pc
		s.w.split(s.g, s.m, -1)
		for _, g := range s.w.groups {
			if g.pc == -1 {
				g.pc = to
				g.stack = append(g.stack[:len(g.stack):len(g.stack)], back)
			}
		}
	}
}

// doRet returns from a function, or ends the threads of a kernel.
func doRet(s *step) {
	n := len(s.g.stack)
	if n == 0 {
		s.exit(s.m)
		return
	}
	back, m := s.g.stack[n-1], s.m
	s.w.split(s.g, m, back)
	for _, g := range s.w.groups {
		if g.mask&m != 0 {
			g.stack = g.stack[: n-1 : n-1]
		}
	}
}

var flowSemantics = map[string]builder{
	"Bra": buildBra, "BrxIdx": buildBrxIdx, "Call": buildCall,
	"Ret":  func(*asm) exec { return doRet },
	"Exit": func(*asm) exec { return func(s *step) { s.exit(s.m) } },
	"Trap": func(*asm) exec {
		return func(s *step) {
			s.find(Trapped, bits.TrailingZeros32(s.m), "the kernel traps")
			s.exit(s.m)
		}
	},
	"Brkpt": nothing,
}
