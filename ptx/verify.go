package ptx

import (
	"fmt"
	"math/bits"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
)

// Verify checks a module before it leaves: what constructors checked one by one, and what can only be seen of the whole. It
// reports up to ten mistakes as [Errors]:
//
//   - names declared once, registers, labels, variables and functions declared where they are used;
//   - operands, modifiers, PTX version and target of every instruction against the table;
//   - directives, parameter layout, shared memory and initialisers within PTX's limits;
//   - registers (and the carry flag) that are read where no path has written them;
//   - control that runs past the end of a function.
//
// It cannot see whether a guard on a convergent instruction is uniform in its warp, nor anything else about values.
func Verify(m *Module) error {
	v := &verifier{target: m.Target, pinned: m.Pinned, vars: map[*Var]bool{}, funcs: map[string]*Func{}}
	v.errs = append(v.errs, m.errs...)
	if floor := isa.TargetVersion(m.Target); m.Pinned != (arch.Version{}) && m.Pinned.Less(floor) {
		v.add(&Error{Fault: BadVersion, Reason: fmt.Sprintf("target %s needs PTX %s; the module is pinned to %s", m.Target, floor, m.Pinned)})
	}
	top := names{}
	for _, it := range m.Items {
		switch it := it.(type) {
		case *Var:
			v.declare(&top, it.Name, it.pos)
			v.variable(it)
			v.vars[it] = true
		case *Func:
			v.declare(&top, it.Name, it.pos)
			v.funcs[it.Name] = it
		}
	}
	for _, f := range m.Funcs() {
		v.function(f, &top)
	}
	return v.errs.err()
}

type verifier struct {
	target arch.Target
	pinned arch.Version
	vars   map[*Var]bool // of the module
	funcs  map[string]*Func
	f      *Func
	errs   Errors
	seen   map[string]bool
}

// add keeps an error, unless the constructors reported the same.
func (v *verifier) add(e *Error) {
	if v.f != nil {
		e.Func = v.f.Name
	}
	e.Target = v.target
	if v.seen == nil {
		v.seen = map[string]bool{}
		for _, old := range v.errs {
			v.seen[old.Error()] = true
		}
	}
	if text := e.Error(); !v.seen[text] {
		v.seen[text] = true
		v.errs.add(e)
	}
}

func (v *verifier) instr(in *Instr, kind Fault, format string, args ...any) {
	v.add(&Error{Fault: kind, Pos: in.Pos(), Instr: in.String(), Reason: fmt.Sprintf(format, args...)})
}

func (v *verifier) declare(n *names, name string, pos where) {
	if reason := n.declare(name); reason != "" {
		v.add(&Error{Fault: BadName, Pos: pos.String(), Reason: reason})
	}
}

func (v *verifier) bad(pos where, format string, args ...any) {
	v.add(&Error{Fault: BadModule, Pos: pos.String(), Reason: fmt.Sprintf(format, args...)})
}

// maxStaticShared is the most static shared memory that ptxas lets one variable have, in bytes.
const maxStaticShared = 48 << 10

// variable checks a declaration at the top level, in a body, or among parameters.
func (v *verifier) variable(x *Var) {
	switch {
	case x.Align != 0 && bits.OnesCount(uint(x.Align)) != 1:
		v.bad(x.pos, "alignment %d of %s is no power of two", x.Align, x.Name)
	case x.Align != 0 && x.Align < x.Type.Bytes():
		v.bad(x.pos, "alignment %d of %s is less than that of its type, %d", x.Align, x.Name, x.Type.Bytes())
	case x.Len < Scalar || x.Len == 0 && !(x.Extern && x.Space == isa.Shared):
		v.bad(x.pos, "the extent of %s is missing: only .extern .shared arrays are open", x.Name)
	case x.Space == isa.Shared && !x.Extern && x.Size() > maxStaticShared:
		v.bad(x.pos, "%s has %d bytes; static shared memory ends at %d: use ExternShared", x.Name, x.Size(), maxStaticShared)
	case len(x.Init) > 0 && x.Space != isa.Global && x.Space != isa.Const:
		v.bad(x.pos, "%s lies in %s memory, which has no initialisers", x.Name, x.Space)
	case len(x.Init) > max(x.Len, 1):
		v.bad(x.pos, "%s has %d elements and %d initialisers", x.Name, x.Len, len(x.Init))
	}
	scalar := &isa.Arg{Name: x.Name, Role: isa.Src}
	for i, c := range x.Init {
		if reason := checkScalar(scalar, x.Type, c); reason != "" {
			v.bad(x.pos, "initialiser %d of %s: %s", i, x.Name, reason)
		}
	}
}

func (v *verifier) function(f *Func, top *names) {
	v.f = f
	defer func() { v.f = nil }()
	v.directives(f)
	v.params(f)
	s := v.symbols(f, top)
	for _, in := range f.Instrs() {
		v.instruction(in, s)
	}
	if len(v.errs) == 0 {
		v.flow(f)
	}
}

func (v *verifier) directives(f *Func) {
	for _, d := range f.directives() {
		if e := (gate{text(d.row.Text), d.row.Min, d.row.Req}).refusal(v.target, v.pinned); e != nil {
			e.Pos = f.pos.String()
			v.add(e)
		}
		for _, n := range d.values {
			if n < 1 {
				v.bad(f.pos, "%s has the value %d", d.row.Text, n)
			}
		}
	}
	for _, shape := range [][3]int{f.ReqThreads, f.MaxThreads} {
		if n := shape[0] * shape[1] * shape[2]; n > maxThreads {
			v.bad(f.pos, "a CTA of %v has %d threads; the limit is %d", shape, n, maxThreads)
		}
	}
	if c := f.ReqCluster; c[0]*c[1]*c[2] > maxCluster {
		v.bad(f.pos, "a cluster of %v has more than %d CTAs", c, maxCluster)
	}
}

// Limits of the CUDA programming guide: threads of a CTA, and CTAs of a cluster where the kernel opts in.
const (
	maxThreads = 1024
	maxCluster = 16
)

// text is a name for a gate.
type text string

func (t text) String() string { return string(t) }

// params checks that parameters lie where their alignment puts them and that they fit.
func (v *verifier) params(f *Func) {
	off := 0
	for _, p := range f.Params {
		v.variable(p)
		a := max(p.Alignment(), 1)
		off = (off + a - 1) / a * a
		if p.Offset != off {
			v.bad(p.pos, "parameter %s is said to lie at %d; its place is %d", p.Name, p.Offset, off)
		}
		off += p.Size()
	}
	switch {
	case off > isa.MaxParams:
		v.bad(f.pos, "the parameters have %d bytes; the limit is %d", off, isa.MaxParams)
	case off > isa.SmallParams:
		g := gate{text(fmt.Sprintf("a kernel with more than %d bytes of parameters", isa.SmallParams)), isa.LargeParams.Min, isa.LargeParams.Req}
		if e := g.refusal(v.target, v.pinned); e != nil {
			e.Pos = f.pos.String()
			v.add(e)
		}
	}
}

// symbols is what a function declares.
type symbols struct {
	regs   map[*Reg]bool
	vars   map[*Var]bool
	labels map[*Label]bool
	tables map[*Table]bool
}

func (v *verifier) symbols(f *Func, top *names) symbols {
	s := symbols{map[*Reg]bool{}, map[*Var]bool{}, map[*Label]bool{}, map[*Table]bool{}}
	local := &names{outer: top}
	for _, p := range f.Params {
		v.declare(local, p.Name, p.pos)
		s.vars[p] = true
	}
	for _, r := range f.Regs {
		v.declare(local, r.Name, f.pos)
		s.regs[r] = true
	}
	for _, x := range f.Vars {
		v.declare(local, x.Name, x.pos)
		v.variable(x)
		s.vars[x] = true
	}
	for _, st := range f.Body {
		switch st := st.(type) {
		case *Label:
			v.declare(local, st.Name, f.pos)
			s.labels[st] = true
		case *Table:
			v.declare(local, st.Name, f.pos)
			s.tables[st] = true
		}
	}
	v.targets(f, s)
	return s
}

func (v *verifier) targets(f *Func, s symbols) {
	for t := range s.tables {
		if len(t.Targets) == 0 {
			v.add(&Error{Fault: BadBranch, Pos: f.pos.String(), Reason: fmt.Sprintf("table %s has no targets", t.Name)})
		}
	}
	for _, st := range f.Body {
		if t, ok := st.(*Table); ok {
			for _, l := range t.Targets {
				if !s.labels[l] {
					v.add(&Error{Fault: BadBranch, Pos: f.pos.String(), Reason: fmt.Sprintf("table %s names label %s, which is never placed", t.Name, l.Name)})
				}
			}
		}
	}
}

func (v *verifier) instruction(in *Instr, s symbols) {
	if len(in.Args) != len(in.Form.Row.Args) {
		v.instr(in, BadOperand, "the instruction has %d operands; its row has %d", len(in.Args), len(in.Form.Row.Args))
		return
	}
	in.faults(func(kind Fault, reason string) {
		v.add(&Error{Fault: kind, Pos: in.Pos(), Instr: in.String(), Reason: reason, Form: in.Form.Syntax()})
	})
	if e := in.refusal(v.target, v.pinned); e != nil {
		e.Pos, e.Instr = in.Pos(), in.String()
		v.add(e)
	}
	if g := in.Guard; g != nil && (!s.regs[g] || g.Class != isa.ClassPred) {
		v.instr(in, BadOperand, "guard %s is no predicate register of this function", g.Name)
	}
	for _, x := range in.Args {
		v.declared(in, x, s)
	}
}

// declared checks that what an operand names belongs to the function or the module.
func (v *verifier) declared(in *Instr, x Operand, s symbols) {
	switch x := x.(type) {
	case *Reg:
		if !s.regs[x] {
			v.instr(in, BadOperand, "register %s belongs to another function", x.Name)
		}
	case Not:
		v.declared(in, x.Reg, s)
	case VarRef:
		if !s.vars[x.Var] && !v.vars[x.Var] {
			v.instr(in, BadOperand, "variable %s is not declared in this function or module", x.Var.Name)
		}
	case Mem:
		v.declared(in, x.Base, s)
	case Vec:
		for _, e := range x {
			v.declared(in, e, s)
		}
	case TensorMem:
		v.declared(in, x.Map, s)
		v.declared(in, x.Coords, s)
	case *Label:
		if !s.labels[x] {
			v.instr(in, BadBranch, "label %s is never placed", x.Name)
		}
	case *Table:
		if !s.tables[x] {
			v.instr(in, BadBranch, "table %s is declared in another function", x.Name)
		}
	case FuncRef:
		if g := v.funcs[x.Name]; g == nil || g.Kernel {
			v.instr(in, BadBranch, "%s is no function that can be called", x.Name)
		}
	}
}
