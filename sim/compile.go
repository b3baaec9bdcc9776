package sim

import (
	"fmt"
	"math"
	"strings"

	"github.com/fsgen/fsgen/internal/isa"
	"github.com/fsgen/fsgen/ptx"
)

// compiler turns the functions of a module into one list of ops.
type compiler struct {
	*Program
	slot   map[*ptx.Reg]slot
	at     map[*ptx.Label]int32
	starts map[string]int32
}

// compile compiles the entry and the functions that it may call.
func (p *Program) compile(mod *ptx.Module) error {
	c := &compiler{Program: p, slot: map[*ptx.Reg]slot{}, at: map[*ptx.Label]int32{}, starts: map[string]int32{}}
	funcs := []*ptx.Func{p.entry}
	for _, f := range mod.Funcs() {
		if !f.Kernel {
			funcs = append(funcs, f)
		}
	}
	pc := int32(0)
	for _, f := range funcs {
		c.starts[f.Name] = pc
		for _, r := range f.Regs {
			c.slot[r] = slot(len(p.names))
			p.names = append(p.names, r.Name)
			p.weights = append(p.weights, weightOf(r.Class))
		}
		for _, s := range f.Body {
			switch s := s.(type) {
			case *ptx.Label:
				c.at[s] = pc
			case *ptx.Instr:
				pc++
			}
		}
		pc++ // the return at the end
	}
	p.slots = len(p.names)
	p.regs = p.slots
	for _, f := range funcs {
		for _, in := range f.Instrs() {
			o, err := c.instr(in)
			if err != nil {
				return fmt.Errorf("sim: line %d: %s: %w", lineOf(in), in, err)
			}
			p.ops = append(p.ops, o)
		}
		p.ops = append(p.ops, op{run: doRet, guard: -1, in: nil})
	}
	p.measure()
	p.shares = p.sharesRegisters()
	return nil
}

// instr compiles one instruction by its row's semantics.
func (c *compiler) instr(in *ptx.Instr) (o op, err error) {
	build := semantics[in.Form.Row.Go]
	if build == nil {
		return o, fmt.Errorf("the simulator has no semantics for %s", in.Form.Row.ID)
	}
	o = op{in: in, line: lineOf(in), guard: -1, negate: in.Negate, mask: -1}
	if in.Guard != nil {
		o.guard = c.slot[in.Guard]
	}
	if in.Form.Effects()&isa.Converge != 0 {
		o.sync = syncWarp
	}
	o.strong = isStrong(in.Form)
	a := &asm{c: c, in: in, form: in.Form, o: &o}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(unsupported)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	o.run = build(a)
	if o.guard >= 0 {
		o.reads = append(o.reads, o.guard)
	}
	return o, nil
}

// isStrong reports whether a memory access is a strong operation (PTX ISA, "Strong and weak operations").
func isStrong(f isa.Form) bool {
	if f.Effects()&isa.Atomic != 0 || f.Has("volatile") {
		return true
	}
	for i := range f.Row.Slots {
		if alt := f.Alt(i); alt != nil {
			switch order, _, _ := strings.Cut(alt.Text, "."); order {
			case "relaxed", "acquire", "release":
				return true
			}
		}
	}
	return false
}

// unsupported is the panic by which a builder refuses an instruction.
type unsupported string

func (u unsupported) Error() string { return string(u) }

// asm gives the builder of one instruction its operands.
type asm struct {
	c    *compiler
	in   *ptx.Instr
	form isa.Form
	o    *op
}

// builder makes the closure of an instruction.
type builder func(a *asm) exec

func (a *asm) refuse(format string, args ...any) { panic(unsupported(fmt.Sprintf(format, args...))) }

// has reports whether operand i is there.
func (a *asm) has(i int) bool { return i < len(a.in.Args) && a.in.Args[i] != nil }

// index finds an operand by its name in the table; -1 if it was left out.
func (a *asm) index(name string) int {
	for i := range a.form.Row.Args {
		if a.form.Row.Args[i].Name == name && a.in.Args[i] != nil {
			return i
		}
	}
	return -1
}

// typ is the type of operand i.
func (a *asm) typ(i int) isa.Type { return a.form.Type(a.form.Row.Args[i].Type) }

// src is the slot of a scalar operand that is read.
func (a *asm) src(i int) slot { return a.source(a.in.Args[i], a.typ(i)) }

func (a *asm) source(x ptx.Operand, t isa.Type) slot {
	switch x := x.(type) {
	case *ptx.Reg:
		s := a.c.slot[x]
		a.o.reads = append(a.o.reads, s)
		return s
	case ptx.Special:
		return a.c.special(x.Row)
	case ptx.Imm, ptx.F32Imm, ptx.F64Imm:
		return a.c.constant(constant(x, t))
	}
	a.refuse("operand %T cannot be read", x)
	return 0
}

// pred is a predicate that is read, with 1 to flip it.
func (a *asm) pred(i int) (slot, uint64) {
	if n, ok := a.in.Args[i].(ptx.Not); ok {
		return a.source(n.Reg, isa.Pred), 1
	}
	return a.src(i), 0
}

// dst is the slot of a scalar operand that is written; -1 for the sink.
func (a *asm) dst(i int) slot { return a.dest(a.in.Args[i]) }

func (a *asm) dest(x ptx.Operand) slot {
	r, ok := x.(*ptx.Reg)
	if !ok {
		return -1
	}
	s := a.c.slot[r]
	a.o.writes = append(a.o.writes, s)
	return s
}

// dstBits is the width of the register that operand i writes.
func (a *asm) dstBits(i int) int {
	x := a.in.Args[i]
	if v, ok := x.(ptx.Vec); ok && len(v) > 0 {
		x = v[0]
	}
	if r, ok := x.(*ptx.Reg); ok {
		return r.Class.Bits()
	}
	return 64
}

// srcs and dsts are the slots of an operand that is a vector, or a scalar taken as a vector of one.
func (a *asm) srcs(i int) []slot {
	v, ok := a.in.Args[i].(ptx.Vec)
	if !ok {
		return []slot{a.src(i)}
	}
	out := make([]slot, len(v))
	for j, x := range v {
		out[j] = a.source(x, a.typ(i))
	}
	return out
}

func (a *asm) dsts(i int) []slot {
	v, ok := a.in.Args[i].(ptx.Vec)
	if !ok {
		return []slot{a.dst(i)}
	}
	out := make([]slot, len(v))
	for j, x := range v {
		out[j] = a.dest(x)
	}
	return out
}

// raw lists the registers of a vector without counting them as read or written by the instruction itself.
func (a *asm) raw(i int) []slot {
	v, _ := a.in.Args[i].(ptx.Vec)
	out := make([]slot, len(v))
	for j, x := range v {
		out[j] = a.c.slot[x.(*ptx.Reg)]
	}
	a.o.held = append(a.o.held, out...)
	return out
}

// imm is an integer constant.
func (a *asm) imm(i int) int64 {
	n, ok := a.in.Args[i].(ptx.Imm)
	if !ok {
		a.refuse("operand %d is no constant", i)
	}
	return int64(n)
}

// address is a memory operand: the value of a slot plus an offset.
type address struct {
	base slot
	off  uint64
}

func (x address) of(w *warp, lane int) uint64 { return w.r[x.base][lane] + x.off }

// addr is the address operand i; a variable becomes its address in its own space.
func (a *asm) addr(i int) address {
	m, ok := a.in.Args[i].(ptx.Mem)
	if !ok {
		a.refuse("operand %d is no address", i)
	}
	return a.mem(m)
}

func (a *asm) mem(m ptx.Mem) address {
	if v, ok := m.Base.(ptx.VarRef); ok {
		return address{a.c.constant(a.c.addressOf(v) + uint64(m.Off)), 0}
	}
	return address{a.source(m.Base, isa.B64), uint64(m.Off)}
}

// addressOf is the address of a variable in its own state space.
func (c *compiler) addressOf(v ptx.VarRef) uint64 {
	base := uint64(0)
	switch v.Var.Space {
	case isa.Shared:
		base = uint64(c.static[v.Var])
	case isa.Local:
		base = uint64(c.local[v.Var])
	case isa.Global, isa.Const:
		base = c.data[v.Var]
	case isa.Param:
		base = uint64(v.Var.Offset)
	}
	return base + uint64(v.Off)
}

// constant is the slot that holds a constant in every lane.
func (c *compiler) constant(bits uint64) slot {
	s, ok := c.consts[bits]
	if !ok {
		s = slot(c.slots)
		c.consts[bits] = s
		c.slots++
	}
	return s
}

// special is the slot of a special register.
func (c *compiler) special(row *isa.Special) slot {
	for s, r := range c.specials {
		if r == row {
			return s
		}
	}
	s := slot(c.slots)
	c.specials[s] = row
	c.slots++
	return s
}

// constant returns the bits of a constant operand of a type.
func constant(x ptx.Operand, t isa.Type) uint64 {
	bits := uint64(0)
	switch x := x.(type) {
	case ptx.Imm:
		bits = uint64(x)
	case ptx.F32Imm:
		bits = uint64(math.Float32bits(float32(x)))
	case ptx.F64Imm:
		bits = math.Float64bits(float64(x))
	}
	return bits & mask(t.Bits())
}

// mask has the n low bits set.
func mask(n int) uint64 {
	if n >= 64 {
		return math.MaxUint64
	}
	return 1<<n - 1
}
