package ptx

import (
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
)

// Func is a kernel (.entry) or a function without parameters (.func). It is also the builder: the constructors in
// zconstructors.go are its methods and append to its body.
type Func struct {
	Name    string
	Kernel  bool
	Visible bool
	Params  []*Var

	// Performance directives; zero values are not printed.
	ReqThreads      [3]int // .reqntid
	MaxThreads      [3]int // .maxntid
	MinCTAs         int    // .minnctapersm
	MaxRegs         int    // .maxnreg
	ReqCluster      [3]int // .reqnctapercluster
	ExplicitCluster bool   // .explicitcluster
	MaxClusterRank  int    // .maxclusterrank

	Regs []*Reg
	Vars []*Var
	Body []Stmt

	m      *Module
	names  names
	count  [isa.NumClasses]int
	placed map[*Label]bool
	pos    where
}

// Stmt is a statement of a function: *Instr, *Label (its place), *Table, Pragma or Comment.
type Stmt interface{ stmt() }

// Pragma is a .pragma directive: advice to ptxas about what follows.
type Pragma string

func (Pragma) stmt() {}
func (*Instr) stmt() {}
func (*Label) stmt() {}
func (*Table) stmt() {}

// Entry adds a kernel and returns its builder.
func (m *Module) Entry(name string) *Func { return m.addFunc(name, true) }

// Function adds a function without parameters, for Call.
func (m *Module) Function(name string) *Func { return m.addFunc(name, false) }

func (m *Module) addFunc(name string, kernel bool) *Func {
	f := &Func{Name: name, Kernel: kernel, Visible: kernel, m: m, placed: map[*Label]bool{}, pos: here(2)}
	f.names.outer = &m.names
	if reason := m.names.declare(name); reason != "" {
		f.fail(&Error{Fault: BadName, Pos: f.pos.String(), Reason: reason})
	}
	m.Items = append(m.Items, f)
	return f
}

func (f *Func) fail(e *Error) {
	e.Func, e.Target = f.Name, f.m.Target
	f.m.errs.add(e)
}

// Module returns the module that holds the function.
func (f *Func) Module() *Module { return f.m }

// Reqntid fixes the CTA's shape (.reqntid).
func (f *Func) Reqntid(x, y, z int) { f.ReqThreads = [3]int{x, y, z} }

// Maxntid bounds the CTA's shape (.maxntid).
func (f *Func) Maxntid(x, y, z int) { f.MaxThreads = [3]int{x, y, z} }

// Reqnctapercluster fixes the cluster's shape (.explicitcluster and .reqnctapercluster).
func (f *Func) Reqnctapercluster(x, y, z int) {
	f.ReqCluster, f.ExplicitCluster = [3]int{x, y, z}, true
}

// Maxnreg bounds the registers of a thread (.maxnreg).
func (f *Func) Maxnreg(n int) { f.MaxRegs = n }

// Minnctapersm asks for a number of CTAs on a multiprocessor at least (.minnctapersm).
func (f *Func) Minnctapersm(n int) { f.MinCTAs = n }

// minVersion returns the lowest PTX version that has the function's directives and instructions.
func (f *Func) minVersion() arch.Version {
	v := arch.V(1, 0)
	for _, d := range f.directives() {
		v = v.Max(d.row.Min)
	}
	for _, s := range f.Body {
		if in, ok := s.(*Instr); ok {
			v = v.Max(in.minVersion())
		}
	}
	if f.paramBytes() > isa.SmallParams {
		v = v.Max(isa.LargeParams.Min)
	}
	return v
}

// paramBytes is the size of the parameter buffer.
func (f *Func) paramBytes() int {
	n := 0
	for _, p := range f.Params {
		n = max(n, p.Offset+p.Size())
	}
	return n
}

// layoutParams gives each parameter its offset: the next that its alignment allows.
func (f *Func) layoutParams() {
	off := 0
	for _, p := range f.Params {
		a := max(p.Alignment(), 1)
		off = (off + a - 1) / a * a
		p.Offset = off
		off += p.Size()
	}
}

func (f *Func) param(p *Var) Param {
	p.Space, p.pos = isa.Param, here(2)
	f.declareName(p.Name, p.pos)
	f.Params = append(f.Params, p)
	f.layoutParams()
	return Param{VarRef{Var: p}}
}

func (f *Func) declareName(name string, pos where) {
	if reason := f.names.declare(name); reason != "" {
		f.fail(&Error{Fault: BadName, Pos: pos.String(), Reason: reason})
	}
}

// ParamU32 adds a 32-bit integer parameter.
func (f *Func) ParamU32(name string) Param {
	return f.param(&Var{Name: name, Type: isa.U32, Len: Scalar})
}

// ParamU64 adds a 64-bit integer or pointer parameter.
func (f *Func) ParamU64(name string) Param {
	return f.param(&Var{Name: name, Type: isa.U64, Len: Scalar})
}

// ParamF32 adds a single-precision parameter.
func (f *Func) ParamF32(name string) Param {
	return f.param(&Var{Name: name, Type: isa.F32, Len: Scalar})
}

// ParamBytes adds a parameter of opaque bytes.
func (f *Func) ParamBytes(name string, align, size int) Param {
	return f.param(&Var{Name: name, Type: isa.B8, Align: align, Len: size})
}

// ParamTensorMap adds a tensor map passed by value: 128 bytes, aligned to 64.
func (f *Func) ParamTensorMap(name string) Param {
	return f.param(&Var{Name: name, Type: isa.B8, Align: 64, Len: 128})
}

// Shared declares static shared memory of the function, in bytes.
func (f *Func) Shared(name string, align, bytes int) SharedVar {
	return SharedVar{VarRef{Var: f.variable(name, isa.Shared, align, bytes)}}
}

// Local declares local memory of each thread, in bytes.
func (f *Func) Local(name string, align, bytes int) LocalVar {
	return LocalVar{VarRef{Var: f.variable(name, isa.Local, align, bytes)}}
}

func (f *Func) variable(name string, space isa.Space, align, bytes int) *Var {
	v := &Var{Name: name, Space: space, Type: isa.B8, Align: align, Len: bytes, pos: here(2)}
	f.declareName(name, v.pos)
	f.Vars = append(f.Vars, v)
	return v
}

// reg makes a register whose name comes from a hint, or an anonymous one for the hint "".
func (f *Func) reg(c isa.Class, hint []string) *Reg {
	r := &Reg{Class: c}
	if len(hint) == 0 || hint[0] == "" {
		for {
			r.Name = fmt.Sprintf("%%%s%d", c.Prefix(), f.count[c])
			f.count[c]++
			if f.names.free(r.Name) {
				break
			}
		}
		f.names.declare(r.Name)
	} else {
		r.Name = f.names.fresh("%" + cleanName(hint[0]))
	}
	f.Regs = append(f.Regs, r)
	return r
}

// regs makes n registers name0..name(n-1) that are declared as a range.
func (f *Func) regs(c isa.Class, hint string, n int) []*Reg {
	base := cleanName(hint)
	for try := 0; ; try++ {
		prefix := "%" + base
		if try > 0 {
			prefix = fmt.Sprintf("%%%s_%d_", base, try)
		}
		free := true
		for i := 0; i < n && free; i++ {
			free = f.names.free(fmt.Sprintf("%s%d", prefix, i))
		}
		if !free {
			continue
		}
		out := make([]*Reg, n)
		for i := range out {
			out[i] = &Reg{Name: fmt.Sprintf("%s%d", prefix, i), Class: c}
			f.names.declare(out[i].Name)
		}
		f.Regs = append(f.Regs, out...)
		return out
	}
}

// Pred makes a fresh predicate register; its name contains the hint, if there is one.
func (f *Func) Pred(hint ...string) Pred { return Pred{f.reg(isa.ClassPred, hint)} }

// B16 makes a fresh 16-bit register; its name contains the hint, if there is one.
func (f *Func) B16(hint ...string) B16 { return B16{f.reg(isa.Class16, hint)} }

// B32 makes a fresh 32-bit register; its name contains the hint, if there is one.
func (f *Func) B32(hint ...string) B32 { return B32{f.reg(isa.Class32, hint)} }

// B64 makes a fresh 64-bit register; its name contains the hint, if there is one.
func (f *Func) B64(hint ...string) B64 { return B64{f.reg(isa.Class64, hint)} }

// F32 makes a fresh single-precision register; its name contains the hint, if there is one.
func (f *Func) F32(hint ...string) F32 { return F32{f.reg(isa.ClassF32, hint)} }

// F64 makes a fresh double-precision register; its name contains the hint, if there is one.
func (f *Func) F64(hint ...string) F64 { return F64{f.reg(isa.ClassF64, hint)} }

// NewPreds makes n predicate registers hint0, hint1, ...
func (f *Func) NewPreds(hint string, n int) []Pred {
	return wrap(f.regs(isa.ClassPred, hint, n), func(r *Reg) Pred { return Pred{r} })
}

// NewB32s makes n 32-bit registers hint0, hint1, ...
func (f *Func) NewB32s(hint string, n int) []B32 {
	return wrap(f.regs(isa.Class32, hint, n), func(r *Reg) B32 { return B32{r} })
}

// NewB64s makes n 64-bit registers hint0, hint1, ...
func (f *Func) NewB64s(hint string, n int) []B64 {
	return wrap(f.regs(isa.Class64, hint, n), func(r *Reg) B64 { return B64{r} })
}

// NewF32s makes n single-precision registers hint0, hint1, ...: an accumulator.
func (f *Func) NewF32s(hint string, n int) []F32 {
	return wrap(f.regs(isa.ClassF32, hint, n), func(r *Reg) F32 { return F32{r} })
}

func wrap[T any](regs []*Reg, f func(*Reg) T) []T {
	out := make([]T, len(regs))
	for i, r := range regs {
		out[i] = f(r)
	}
	return out
}

// Label makes a label whose name is the hint, made unique. Place puts it.
func (f *Func) Label(hint string) *Label { return &Label{Name: f.names.fresh(cleanName(hint))} }

// Place puts a label before the next instruction.
func (f *Func) Place(l *Label) {
	switch {
	case l == nil:
		f.fail(&Error{Fault: BadBranch, Pos: here(1).String(), Reason: "the label was never made"})
		return
	case f.placed[l]:
		f.fail(&Error{Fault: BadBranch, Pos: here(1).String(), Reason: fmt.Sprintf("label %s is placed twice", l.Name)})
		return
	}
	f.placed[l] = true
	f.Body = append(f.Body, l)
}

// Here makes a label and places it: the head of a loop.
func (f *Func) Here(hint string) *Label {
	l := f.Label(hint)
	f.Place(l)
	return l
}

// Branchtargets declares a table of branch targets for BrxIdx (.branchtargets).
func (f *Func) Branchtargets(hint string, targets ...*Label) *Table {
	t := &Table{Name: f.names.fresh(cleanName(hint)), Targets: targets}
	if slices.Contains(targets, nil) {
		f.fail(&Error{Fault: BadBranch, Pos: here(1).String(), Reason: fmt.Sprintf("table %s has a target that was never made", t.Name)})
		t.Targets = nil
	}
	f.Body = append(f.Body, t)
	return t
}

// Comment adds a comment line before the next instruction.
func (f *Func) Comment(text string) {
	for _, line := range commentLines(text) {
		f.Body = append(f.Body, Comment(line))
	}
}

// Commentf adds a formatted comment line before the next instruction.
func (f *Func) Commentf(format string, args ...any) { f.Comment(fmt.Sprintf(format, args...)) }

// Pragma adds a .pragma directive before the next instruction.
func (f *Func) Pragma(text string) {
	if !validPragma(text) {
		f.fail(&Error{Fault: BadName, Pos: here(1).String(), Reason: fmt.Sprintf("pragma %q cannot be written between quotes", text)})
		return
	}
	f.Body = append(f.Body, Pragma(text))
}

// Instrs lists the instructions, in order.
func (f *Func) Instrs() []*Instr {
	var out []*Instr
	for _, s := range f.Body {
		if in, ok := s.(*Instr); ok {
			out = append(out, in)
		}
	}
	return out
}
