package isa

import (
	"strings"

	"github.com/fsgen/fsgen/arch"
)

// Mode says how an author chooses among the alternatives of a slot.
type Mode uint8

// The modes.
const (
	Named  Mode = iota // each alternative has its own constructor
	Enum               // a typed parameter that leads the constructor's parameters
	Option             // may be left out; given as an option at the end of the call
	Counts             // follows from the length of a vector operand
)

// Alt is one alternative of a slot.
type Alt struct {
	Text   string // as printed, without the leading dot; may hold several dotted tokens; empty prints nothing
	GoID   string // part of the constructor's name, or the constant's name
	Hidden bool   // read and checked, but without a constructor or constant of its own
	Type   Type   // in a type slot: the type
	Space  Space  // in a space slot: the space
	N      int    // what it counts: elements of a vector, dimensions, columns
	Min    arch.Version
	Req    arch.Req
	Eff    Effect
}

// Slot is a place for a modifier.
type Slot struct {
	Mode  Mode
	Enum  string // Go type of the parameter, with Mode Enum; "int" passes Alt.N
	Param string // its name, if not that of the type
	Alts  []Alt
}

// MaxSlots is the largest number of slots in a row.
const MaxSlots = 10

// Sel holds the choice for each slot of a row: 0 for none, else 1 + the index of the alternative.
type Sel [MaxSlots]uint8

// Role is what an operand is to its instruction.
type Role uint8

// The roles.
const (
	Dst       Role = iota // register written
	Src                   // register read, or immediate
	DstSrc                // register read and written
	Immediate             // integer constant
	Address               // [base+offset]
	Tensor                // [tensor map, {coordinates}]
	LabelRef              // branch target
	TableRef              // name of a .branchtargets table
	VarRef                // name of a variable (+offset) taken as an address
	FuncRef               // name of a function
	Sink                  // the _ that drops a result
)

// Ref is the type of an operand: a fixed Type, or one that a type slot decides.
type Ref uint8

// The references to type slots.
const (
	T0    Ref = 64 + iota // the first type slot
	T1                    // the second type slot
	Wide0                 // twice the width of the first type slot
)

// Arg is an operand.
type Arg struct {
	Name  string // as in the manual
	Role  Role
	Type  Ref
	Space Space // of an address; NoSpace takes the space that a slot of the row chose

	// Len is the number of registers in a vector operand; 0 is no vector. With LenSlot set it is multiplied by the N of the
	// alternative chosen there, and divided by LenDiv.
	Len     int
	LenSlot int // 1 + the slot
	LenDiv  int
	Flat    bool // the constructor takes the registers of the vector one by one

	NoImm   bool   // only registers
	Special bool   // special registers too
	Wider   bool   // a register wider than the type will do
	Not     bool   // a predicate that may be negated
	Bar     bool   // printed after a | that joins it to the operand before
	Opt     bool   // may be left out
	If      string // present exactly if this modifier is

	Lo, Hi int64   // range of an immediate operand
	Mult   int64   // a constant is a multiple of it, if not 0
	Set    []int64 // a constant is one of these, if there are any

	// Min and Req are asked by an optional operand that is there.
	Min arch.Version
	Req arch.Req
}

// Row is one family of instruction forms.
type Row struct {
	Go    string // first part of the constructors' names
	Op    string // mnemonic: the modifiers that every form has
	Slots []Slot
	Args  []Arg
	// Excl lists pairs of slots that may not both be filled.
	Excl [][2]int
	Min  arch.Version
	Req  arch.Req
	Eff  Effect
	Sec  string // section of the PTX ISA manual

	ID string // name of the row: that of its first constructor
}

// Form is a row with an alternative chosen for each slot.
type Form struct {
	Row *Row
	Sel Sel
}

// Alt returns what was chosen for slot i, or nil.
func (f Form) Alt(i int) *Alt {
	if i >= len(f.Row.Slots) || f.Sel[i] == 0 {
		return nil
	}
	return &f.Row.Slots[i].Alts[f.Sel[i]-1]
}

// String returns the mnemonic with its modifiers, as printed.
func (f Form) String() string {
	var b strings.Builder
	f.Write(&b)
	return b.String()
}

// Write appends the mnemonic with its modifiers.
func (f Form) Write(b *strings.Builder) {
	b.WriteString(f.Row.Op)
	for i := range f.Row.Slots {
		if a := f.Alt(i); a != nil && a.Text != "" {
			b.WriteByte('.')
			b.WriteString(a.Text)
		}
	}
}

// Type resolves the type of an operand.
func (f Form) Type(r Ref) Type {
	if r < T0 {
		return Type(r)
	}
	want := 0
	if r == T1 {
		want = 1
	}
	for i := range f.Row.Slots {
		a := f.Alt(i)
		if a == nil || a.Type == None {
			continue
		}
		if want == 0 {
			if r == Wide0 {
				return a.Type.Wide()
			}
			return a.Type
		}
		want--
	}
	panic("BUG: isa: " + f.Row.ID + " refers to a type slot that it lacks")
}

// Space resolves the state space of an address operand.
func (f Form) Space(a *Arg) Space {
	if a.Space != NoSpace {
		return a.Space
	}
	for i := range f.Row.Slots {
		if alt := f.Alt(i); alt != nil && alt.Space != NoSpace {
			return alt.Space
		}
	}
	return Generic
}

// Len resolves the number of registers of a vector operand; 0 is no vector.
func (f Form) Len(a *Arg) int {
	if a.LenSlot == 0 {
		return a.Len
	}
	alt := f.Alt(a.LenSlot - 1)
	if alt == nil {
		return a.Len
	}
	return alt.N * a.Len / max(a.LenDiv, 1)
}

// Has reports whether the form has a modifier.
func (f Form) Has(text string) bool {
	for i := range f.Row.Slots {
		if a := f.Alt(i); a != nil && a.Text == text {
			return true
		}
	}
	return false
}

// Wants reports whether the form has the operand: must tells that it may not be left out.
func (f Form) Wants(a *Arg) (may, must bool) {
	if a.If != "" {
		has := f.Has(a.If)
		return has, has
	}
	return true, !a.Opt
}

// Effects returns what the form does.
func (f Form) Effects() Effect {
	e := f.Row.Eff
	for i := range f.Row.Slots {
		if a := f.Alt(i); a != nil {
			e |= a.Eff
		}
	}
	return e
}

// Complete reports whether the choice fits the row: every slot that is no option is filled and no exclusion is broken.
func (f Form) Complete() bool {
	for i, s := range f.Row.Slots {
		if f.Sel[i] == 0 && s.Mode != Option || int(f.Sel[i]) > len(s.Alts) {
			return false
		}
	}
	for _, x := range f.Row.Excl {
		if f.Sel[x[0]] != 0 && f.Sel[x[1]] != 0 {
			return false
		}
	}
	return true
}
