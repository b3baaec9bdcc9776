package ptx

import (
	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
)

// Module is a PTX module: what one .ptx file holds.
type Module struct {
	Target arch.Target
	// Pinned is the PTX version to print; zero means the lowest that holds the module (see Version).
	Pinned arch.Version
	Items  []Item // in the order of the text

	names names
	errs  Errors
}

// Item is something at the top level of a module: Comment, *Var or *Func.
type Item interface{ item() }

// Comment is a line of text after //.
type Comment string

func (Comment) item() {}
func (Comment) stmt() {}
func (*Var) item()    {}
func (*Func) item()   {}

// NewModule makes an empty module.
func NewModule(target arch.Target) *Module { return &Module{Target: target} }

// Err returns the mistakes that constructors and declarations have met, up to ten ([Errors]), or nil. [Verify] finds more.
func (m *Module) Err() error { return m.errs.err() }

// Comment adds a comment line.
func (m *Module) Comment(text string) {
	for _, line := range commentLines(text) {
		m.Items = append(m.Items, Comment(line))
	}
}

// Funcs lists the kernels and functions, in order.
func (m *Module) Funcs() []*Func {
	var out []*Func
	for _, it := range m.Items {
		if f, ok := it.(*Func); ok {
			out = append(out, f)
		}
	}
	return out
}

// Entries lists the kernels, in order.
func (m *Module) Entries() []*Func {
	var out []*Func
	for _, f := range m.Funcs() {
		if f.Kernel {
			out = append(out, f)
		}
	}
	return out
}

// Vars lists the variables at the top level, in order.
func (m *Module) Vars() []*Var {
	var out []*Var
	for _, it := range m.Items {
		if v, ok := it.(*Var); ok {
			out = append(out, v)
		}
	}
	return out
}

// Func finds a kernel or function by its name, or returns nil.
func (m *Module) Func(name string) *Func {
	for _, f := range m.Funcs() {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Version returns the PTX version of the module: the pinned one, else the lowest that has its target, directives and
// instructions.
func (m *Module) Version() arch.Version {
	if m.Pinned != (arch.Version{}) {
		return m.Pinned
	}
	v := isa.TargetVersion(m.Target)
	for _, f := range m.Funcs() {
		v = v.Max(f.minVersion())
	}
	return v
}

// Var is a variable, or a parameter of a kernel.
type Var struct {
	Name   string
	Space  isa.Space
	Type   isa.Type // of an element
	Align  int      // in bytes; 0 means that of the type
	Len    int      // number of elements of an array; Scalar if it is no array; 0 if the extent is open: name[]
	Init   []Operand
	Extern bool
	Vis    bool // .visible

	// Offset is the parameter's byte offset in the parameter buffer.
	Offset int

	pos where
}

// Scalar is the Len of a variable that is no array.
const Scalar = -1

// Size returns the size in bytes; 0 for an open array.
func (v *Var) Size() int {
	if v.Len == Scalar {
		return v.Type.Bytes()
	}
	return v.Type.Bytes() * v.Len
}

// Alignment returns the alignment in bytes.
func (v *Var) Alignment() int { return max(v.Align, v.Type.Bytes()) }

// Data describes a variable to be declared.
type Data struct {
	Type  isa.Type // of an element; B8 if not given
	Align int      // in bytes
	Len   int      // elements; taken from the initialiser if 0
	U32   []uint32 // initialisers, at most one of them
	U64   []uint64
	F32   []float32
	Bytes []byte
}

// ExternShared declares the dynamic shared memory: .extern .shared .align N .b8 name[].
func (m *Module) ExternShared(name string, align int) SharedVar {
	v := m.declare(&Var{Name: name, Space: isa.Shared, Type: isa.B8, Align: align, Extern: true, pos: here(1)})
	return SharedVar{VarRef{Var: v}}
}

// Shared declares static shared memory of a number of bytes.
func (m *Module) Shared(name string, align, bytes int) SharedVar {
	v := m.declare(&Var{Name: name, Space: isa.Shared, Type: isa.B8, Align: align, Len: bytes, pos: here(1)})
	return SharedVar{VarRef{Var: v}}
}

// Global declares a variable in global memory, visible to the host.
func (m *Module) Global(name string, d Data) GlobalVar {
	v := d.variable(name, isa.Global)
	v.Vis, v.pos = true, here(1)
	return GlobalVar{VarRef{Var: m.declare(v)}}
}

// Const declares a table in constant memory.
func (m *Module) Const(name string, d Data) ConstVar {
	v := d.variable(name, isa.Const)
	v.pos = here(1)
	return ConstVar{VarRef{Var: m.declare(v)}}
}

func (m *Module) declare(v *Var) *Var {
	if reason := m.names.declare(v.Name); reason != "" {
		m.errs.add(&Error{Fault: BadName, Pos: v.pos.String(), Reason: reason})
	}
	m.Items = append(m.Items, v)
	return v
}

func (d Data) variable(name string, space isa.Space) *Var {
	v := &Var{Name: name, Space: space, Type: d.Type, Align: d.Align, Len: d.Len}
	initial := func(t isa.Type, n int, at func(int) Operand) {
		if v.Type == isa.None {
			v.Type = t
		}
		for i := range n {
			v.Init = append(v.Init, at(i))
		}
	}
	initial(isa.U32, len(d.U32), func(i int) Operand { return Imm(d.U32[i]) })
	initial(isa.U64, len(d.U64), func(i int) Operand { return Imm(d.U64[i]) })
	initial(isa.F32, len(d.F32), func(i int) Operand { return F32Imm(d.F32[i]) })
	initial(isa.B8, len(d.Bytes), func(i int) Operand { return Imm(d.Bytes[i]) })
	if v.Type == isa.None {
		v.Type = isa.B8
	}
	if v.Len == 0 {
		v.Len = len(v.Init)
	}
	return v
}
