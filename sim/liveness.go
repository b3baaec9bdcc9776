package sim

import (
	"math/bits"
	"slices"

	"github.com/fsgen/fsgen/internal/isa"
)

// regSet is a set of registers by slot.
type regSet []uint64

func (s regSet) add(r slot)    { s[r/64] |= 1 << (r % 64) }
func (s regSet) remove(r slot) { s[r/64] &^= 1 << (r % 64) }

// join adds a set and reports whether that changed anything.
func (s regSet) join(t regSet) bool {
	changed := false
	for i, v := range t {
		if v&^s[i] != 0 {
			s[i] |= v
			changed = true
		}
	}
	return changed
}

// measure counts, for each op, the 32-bit registers that hold values still needed there: what a thread needs at least,
// however well ptxas allots them. It is backward data flow over virtual registers; constants and addresses that ptxas would
// compute again are counted too, so that the figure is near, not exact.
func (p *Program) measure() {
	words := (p.regs + 63) / 64
	all, live := make(regSet, len(p.ops)*words), make(regSet, words)
	in := make([]regSet, len(p.ops))
	for i := range in {
		in[i] = all[i*words:][:words]
	}
	for changed := true; changed; {
		changed = false
		for i := len(p.ops) - 1; i >= 0; i-- {
			p.liveBefore(live, i, in)
			changed = in[i].join(live) || changed
		}
	}
	for i := range p.ops {
		p.liveAfter(live, i, in)
		p.ops[i].live = max(p.weight(in[i]), p.weight(live))
	}
}

// liveAfter makes a set what the successors need.
func (p *Program) liveAfter(live regSet, i int, in []regSet) {
	o := &p.ops[i]
	clear(live)
	ends := o.in == nil || o.in.Form.Effects()&isa.End != 0 && o.guard < 0
	if !ends && i+1 < len(in) {
		copy(live, in[i+1])
	}
	for _, t := range o.targets {
		live.join(in[t])
	}
}

// liveBefore makes a set what an op and its successors need.
func (p *Program) liveBefore(live regSet, i int, in []regSet) {
	o := &p.ops[i]
	p.liveAfter(live, i, in)
	if o.guard < 0 {
		for _, r := range o.writes {
			live.remove(r)
		}
	}
	for _, list := range [2][]slot{o.reads, o.held} {
		for _, r := range list {
			live.add(r)
		}
	}
}

// weight is the 32-bit registers that a set takes; predicates have registers of their own.
func (p *Program) weight(s regSet) int {
	n := 0
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			n += p.weights[i*64+bits.TrailingZeros64(word)]
		}
	}
	return n
}

// weightOf is the 32-bit registers that a register of a class takes.
func weightOf(c isa.Class) int {
	switch c.Bits() {
	case 1:
		return 0
	case 64:
		return 2
	}
	return 1
}

// sharesRegisters reports whether the kernel uses setmaxnreg.
func (p *Program) sharesRegisters() bool {
	return slices.ContainsFunc(p.ops, func(o op) bool { return o.in != nil && o.in.Form.Row.Go == "Setmaxnreg" })
}
