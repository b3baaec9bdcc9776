package ptx

import (
	"github.com/fsgen/fsgen/internal/isa"
)

// block is a run of instructions that control enters at the first and leaves at the last.
type block struct {
	instrs []*Instr
	next   []int // blocks that may follow
	falls  bool  // control may run past the last instruction into the next block in the text

	in bitset // what may have been written when the block is entered; nil if control never gets there
}

// blocks splits a body into blocks and links them.
func blocks(f *Func) []*block {
	at := map[*Label]int{}
	list := []*block{{}}
	last := func() *block { return list[len(list)-1] }
	for _, s := range f.Body {
		switch s := s.(type) {
		case *Label:
			if len(last().instrs) > 0 {
				list = append(list, &block{})
			}
			at[s] = len(list) - 1
		case *Instr:
			last().instrs = append(last().instrs, s)
			if s.Form.Effects()&(isa.Jump|isa.End) != 0 {
				list = append(list, &block{})
			}
		}
	}
	for i, b := range list {
		b.link(i, at)
	}
	return list
}

// link finds what may follow a block.
func (b *block) link(i int, at map[*Label]int) {
	b.falls = true
	if n := len(b.instrs); n > 0 {
		in := b.instrs[n-1]
		for _, l := range in.targets() {
			b.next = append(b.next, at[l])
		}
		b.falls = in.Form.Effects()&isa.End == 0 || in.Guard != nil
	}
	if b.falls {
		b.next = append(b.next, i+1)
	}
}

// targets lists the labels that an instruction may jump to.
func (in *Instr) targets() []*Label {
	for _, x := range in.Args {
		switch x := x.(type) {
		case *Label:
			return []*Label{x}
		case *Table:
			return x.Targets
		}
	}
	return nil
}

// bitset is a set of small integers.
type bitset []uint64

func (s bitset) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s bitset) set(i int)      { s[i/64] |= 1 << (i % 64) }

// merge adds t and reports whether s grew.
func (s bitset) merge(t bitset) bool {
	grew := false
	for i, w := range t {
		grew = grew || w&^s[i] != 0
		s[i] |= w
	}
	return grew
}

// flow follows control from the entry: it reports registers read where no path has written them, and control that runs past the
// end. A guarded write counts as a write. The carry flag counts as a register.
func (v *verifier) flow(f *Func) {
	list := blocks(f)
	number := map[*Reg]int{}
	for i, r := range f.Regs {
		number[r] = i + 1 // 0 is the carry flag
	}
	list[0].in = make(bitset, len(f.Regs)/64+1)
	work := []int{0}
	for len(work) > 0 {
		b := list[work[len(work)-1]]
		work = work[:len(work)-1]
		out := append(bitset(nil), b.in...)
		for _, in := range b.instrs {
			in.writes(number, out)
		}
		for _, n := range b.next {
			if n == len(list) {
				continue
			}
			if next := list[n]; next.in == nil {
				next.in = append(bitset(nil), out...)
				work = append(work, n)
			} else if next.in.merge(out) {
				work = append(work, n)
			}
		}
	}
	v.report(f, list, number)
}

func (v *verifier) report(f *Func, list []*block, number map[*Reg]int) {
	told := map[*Reg]bool{}
	for i, b := range list {
		if b.in == nil {
			continue
		}
		known := append(bitset(nil), b.in...)
		for _, in := range b.instrs {
			in.reads(func(r *Reg) {
				if !known.has(number[r]) && !told[r] {
					told[r] = true
					v.instr(in, Undefined, "register %s is read, but no path from the entry writes it before", r.Name)
				}
			})
			if in.Form.Effects()&isa.ReadCC != 0 && !known.has(0) {
				v.instr(in, Undefined, "the carry flag is read, but no path from the entry writes it before")
			}
			in.writes(number, known)
		}
		if b.falls && i+1 == len(list) {
			v.add(&Error{Fault: Unended, Pos: f.pos.String(), Reason: "control runs past the end: a ret or exit is missing"})
		}
	}
}

// writes adds the registers that an instruction writes.
func (in *Instr) writes(number map[*Reg]int, out bitset) {
	for i := range in.Args {
		if role := in.Form.Row.Args[i].Role; role == isa.Dst || role == isa.DstSrc {
			eachReg(in.Args[i], func(r *Reg) { out.set(number[r]) })
		}
	}
	if in.Form.Effects()&isa.WriteCC != 0 {
		out.set(0)
	}
}

// reads visits the registers that an instruction reads. The accumulator of an instruction that may overwrite it (wgmma with
// scale-d false) is not among them: whether it is read is known only when it runs.
func (in *Instr) reads(visit func(*Reg)) {
	if in.Guard != nil {
		visit(in.Guard)
	}
	for i, x := range in.Args {
		if role := in.Form.Row.Args[i].Role; role != isa.Dst && role != isa.DstSrc {
			eachReg(x, visit)
		}
	}
}

// eachReg visits the registers inside an operand.
func eachReg(x Operand, visit func(*Reg)) {
	switch x := x.(type) {
	case *Reg:
		visit(x)
	case Not:
		visit(x.Reg)
	case Mem:
		eachReg(x.Base, visit)
	case Vec:
		for _, e := range x {
			eachReg(e, visit)
		}
	case TensorMem:
		eachReg(x.Map, visit)
		eachReg(x.Coords, visit)
	}
}
