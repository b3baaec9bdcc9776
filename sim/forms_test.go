package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// notModelled lists the mnemonics that the simulator refuses when a kernel is loaded. No kernel of ours has any, and their
// layouts could be checked against nothing. Everything else in the table has a semantics.
var notModelled = []string{
	"tcgen05.cp.", "tcgen05.shift.", "tcgen05.ld.sync.aligned.16x", "tcgen05.st.sync.aligned.16x",
	"tcgen05.mma.cta_group::1.kind::tf32", "tcgen05.mma.cta_group::2.kind::tf32",
	"tcgen05.mma.cta_group::1.kind::f8f6f4", "tcgen05.mma.cta_group::2.kind::f8f6f4",
}

// expected reports whether a form is refused on purpose.
func expected(f isa.Form) bool {
	if f.Row.ID == "Tcgen05MmaTMemF16" || f.Has("unpack::16b") { // A in tensor memory; 16-bit halves
		return true
	}
	return slices.ContainsFunc(notModelled, func(p string) bool { return strings.HasPrefix(f.String(), p) })
}

// formsOf lists a row's forms: every combination of the alternatives that are no options, and each option alone on top.
func formsOf(row *isa.Row) []isa.Form {
	base := []isa.Form{{Row: row}}
	for i, slot := range row.Slots {
		if slot.Mode == isa.Option {
			continue
		}
		var next []isa.Form
		for _, f := range base {
			for j := range slot.Alts {
				f.Sel[i] = uint8(j + 1)
				next = append(next, f)
			}
		}
		base = next
	}
	var out []isa.Form
	for _, f := range base {
		out = append(out, f)
		for i, slot := range row.Slots {
			for j := range slot.Alts {
				if slot.Mode == isa.Option {
					g := f
					g.Sel[i] = uint8(j + 1)
					out = append(out, g)
				}
			}
		}
	}
	return out
}

// bench compiles instructions outside a module.
type formBench struct {
	c     *compiler
	regs  map[isa.Class][]*ptx.Reg
	label *ptx.Label
}

func newFormBench() *formBench {
	p := &Program{consts: map[uint64]slot{}, specials: map[slot]*isa.Special{}, arch: arch.SM100, manifest: &manifest.Kernel{}}
	b := &formBench{c: &compiler{Program: p, slot: map[*ptx.Reg]slot{}, at: map[*ptx.Label]int32{}, starts: map[string]int32{"f": 0}},
		regs: map[isa.Class][]*ptx.Reg{}, label: &ptx.Label{Name: "l"}}
	b.c.at[b.label] = 0
	for c := isa.NoClass + 1; c < isa.NumClasses; c++ {
		for i := range 260 {
			r := &ptx.Reg{Name: fmt.Sprintf("%%%s%d", c.Prefix(), i), Class: c}
			b.regs[c] = append(b.regs[c], r)
			b.c.slot[r] = slot(len(p.names))
			p.names = append(p.names, r.Name)
		}
	}
	p.slots = len(p.names)
	return b
}

func (b *formBench) operand(f isa.Form, x *isa.Arg) ptx.Operand {
	wide := b.regs[isa.Class64][0]
	switch x.Role {
	case isa.Immediate:
		return ptx.Imm(max(x.Lo, 0))
	case isa.Address:
		return ptx.Mem{Base: wide, Off: 16}
	case isa.Tensor:
		return ptx.TensorMem{Map: ptx.Mem{Base: wide}, Coords: b.vector(f, x)}
	case isa.LabelRef:
		return b.label
	case isa.TableRef:
		return &ptx.Table{Name: "t", Targets: []*ptx.Label{b.label}}
	case isa.VarRef:
		return ptx.VarRef{Var: &ptx.Var{Name: "v", Space: isa.Shared, Type: isa.B8, Len: 64}}
	case isa.FuncRef:
		return ptx.FuncRef{Name: "f"}
	case isa.Sink:
		return ptx.Sink{}
	}
	if f.Len(x) > 0 {
		return b.vector(f, x)
	}
	return b.regs[f.Type(x.Type).Class()][0]
}

func (b *formBench) vector(f isa.Form, x *isa.Arg) ptx.Vec {
	var v ptx.Vec
	for i := range f.Len(x) {
		v = append(v, b.regs[f.Type(x.Type).Class()][i])
	}
	return v
}

func (b *formBench) instr(f isa.Form, all bool) *ptx.Instr {
	in := &ptx.Instr{Form: f, Args: make([]ptx.Operand, len(f.Row.Args))}
	for i := range f.Row.Args {
		x := &f.Row.Args[i]
		if may, must := f.Wants(x); must || all && may {
			in.Args[i] = b.operand(f, x)
		}
	}
	return in
}

// A form of the table without a semantics is a failure here, not a surprise in a run.
func TestEveryFormHasSemantics(t *testing.T) {
	b := newFormBench()
	for _, row := range isa.Table {
		for _, f := range formsOf(row) {
			for _, all := range []bool{false, true} {
				_, err := b.c.instr(b.instr(f, all))
				if expected(f) {
					require.Error(t, err, "%s is modelled after all", f)
				} else {
					require.NoError(t, err, "%s", f)
				}
			}
		}
	}
}

// A name in the semantics that no row has is a misspelling.
func TestSemanticsNameRows(t *testing.T) {
	rows := map[string]bool{}
	for _, r := range isa.Table {
		rows[r.Go] = true
	}
	for name := range semantics {
		require.True(t, rows[name], name)
	}
}
