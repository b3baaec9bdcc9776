package ptx

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
	"github.com/fsgen/fsgen/internal/ptxas"
)

// allForms lists every form of the table that a test must see: each combination of the alternatives that decide operand
// types, each value of an enumeration or count, and on top of each combination every option alone.
func allForms() []isa.Form {
	var out []isa.Form
	for _, row := range isa.Table {
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
		for _, f := range base {
			out = append(out, f)
			out = append(out, withOptions(f)...)
		}
	}
	return out
}

// withOptions adds each optional modifier alone.
func withOptions(f isa.Form) []isa.Form {
	var out []isa.Form
	for i, slot := range f.Row.Slots {
		for j := range slot.Alts {
			if slot.Mode == isa.Option {
				g := f
				g.Sel[i] = uint8(j + 1)
				out = append(out, g)
			}
		}
	}
	return out
}

// bench is a function whose registers and variables give every form its operands.
type bench struct {
	m      *Module
	f      *Func
	regs   map[isa.Class][]*Reg
	vars   map[isa.Space]*Var
	after  *Label
	table  *Table
	callee *Func
}

func newBench(target arch.Target) *bench {
	m := NewModule(target)
	b := &bench{m: m, regs: map[isa.Class][]*Reg{}, vars: map[isa.Space]*Var{}}
	b.vars[isa.Shared] = m.ExternShared("smem", 1024).v.Var
	b.vars[isa.Const] = m.Const("table", Data{U32: []uint32{1, 2, 3, 4}}).v.Var
	b.vars[isa.Global] = m.Global("words", Data{Type: isa.U64, Len: 64}).v.Var
	b.callee = m.Function("callee")
	b.callee.Ret()
	f := m.Entry("forms")
	b.f = f
	b.vars[isa.Param] = f.ParamTensorMap("map").v.Var
	b.vars[isa.Local] = f.Local("stack", 16, 64).v.Var
	for c, n := range map[isa.Class]int{isa.ClassPred: 4, isa.Class16: 8, isa.Class32: 130, isa.Class64: 8, isa.ClassF32: 130, isa.ClassF64: 8} {
		b.regs[c] = f.regs(c, "x"+c.String()+"_", n)
	}
	b.after = f.Label("after")
	b.table = f.Branchtargets("targets", b.after)
	return b
}

// instr gives a form operands: registers, or constants where they are allowed and imm says so; optional operands if all.
func (b *bench) instr(form isa.Form, imm, all bool) *Instr {
	in := &Instr{Form: form, f: b.f, Args: make([]Operand, len(form.Row.Args))}
	next := map[isa.Class]int{}
	for i := range form.Row.Args {
		a := &form.Row.Args[i]
		may, must := form.Wants(a)
		if must || all && may {
			in.Args[i] = b.operand(form, a, next, imm)
		}
	}
	return in
}

func (b *bench) operand(form isa.Form, a *isa.Arg, next map[isa.Class]int, imm bool) Operand {
	switch a.Role {
	case isa.Immediate:
		if len(a.Set) > 0 {
			return Imm(a.Set[len(a.Set)-1])
		}
		return Imm(a.Lo)
	case isa.Address:
		return Mem{b.base(form.Space(a), next, imm), 16}
	case isa.Tensor:
		t := TensorMem{Map: Mem{b.base(a.Space, next, false), 0}}
		for range form.Len(a) {
			t.Coords = append(t.Coords, b.scalar(form, a, next, imm))
		}
		return t
	case isa.LabelRef:
		return b.after
	case isa.TableRef:
		return b.table
	case isa.VarRef:
		return VarRef{Var: b.vars[isa.Shared], Off: 4}
	case isa.FuncRef:
		return FuncRef{b.callee.Name}
	case isa.Sink:
		return Sink{}
	}
	n := form.Len(a)
	if n == 0 {
		return b.scalar(form, a, next, imm)
	}
	var v Vec
	for range n {
		v = append(v, b.scalar(form, a, next, imm))
	}
	return v
}

func (b *bench) base(s isa.Space, next map[isa.Class]int, variable bool) Operand {
	if v := b.vars[s]; v != nil && (variable || s == isa.Param) {
		return VarRef{Var: v}
	}
	lo, _ := s.AddressBits()
	if lo == 32 && s != isa.Local && s != isa.Const {
		return b.take(isa.Class32, next)
	}
	return b.take(isa.Class64, next)
}

func (b *bench) take(c isa.Class, next map[isa.Class]int) *Reg {
	r := b.regs[c][next[c]%len(b.regs[c])]
	next[c]++
	return r
}

func (b *bench) scalar(form isa.Form, a *isa.Arg, next map[isa.Class]int, imm bool) Operand {
	t := form.Type(a.Type)
	if imm && a.Role == isa.Src && !a.NoImm {
		switch {
		case t == isa.F32:
			return F32Imm(0.5)
		case t == isa.F64:
			return F64Imm(0.5)
		case len(a.Set) > 0:
			return Imm(a.Set[0])
		case t.Kind() != isa.KindPred && t.Kind() != isa.KindPacked:
			return Imm(max(a.Mult, 1))
		}
	}
	r := b.take(t.Class(), next)
	if imm && a.Not {
		return Not{r}
	}
	return r
}

// text prints a module that holds the instructions, one a line, and tells the line of each.
func (b *bench) text(v arch.Version, list []*Instr) (text string, lines map[int]*Instr) {
	b.f.Body = []Stmt{b.table, &Instr{Form: isa.Form{Row: isa.ByID("Exit")}, f: b.f}} // dead code compiles fast
	b.m.Pinned = v
	for _, in := range list {
		b.f.Body = append(b.f.Body, in)
	}
	b.f.Body = append(b.f.Body, b.after, &Instr{Form: isa.Form{Row: isa.ByID("Ret")}, f: b.f})
	text = b.m.String()
	lines = map[int]*Instr{}
	n := 0
	for i, line := range strings.Split(text, "\n") {
		if n < len(list) && strings.TrimSpace(line) == list[n].padded() {
			lines[i+1] = list[n]
			n++
		}
	}
	if n != len(list) {
		panic("BUG: lines not found: " + list[n].padded())
	}
	return text, lines
}

func (in *Instr) padded() string {
	var s strings.Builder
	in.write(&s, opWidth)
	return s.String()
}

var errorLine = regexp.MustCompile(`line (\d+); (?:error|fatal) +: (.*)`)

// refused runs ptxas and returns what it says of each instruction it refuses. A syntax error stops ptxas, so the line is taken
// out and the rest tried again.
func (b *bench) refused(t *testing.T, tool ptxas.Tool, v arch.Version, list []*Instr) map[*Instr]string {
	t.Helper()
	out := map[*Instr]string{}
	for len(list) > 0 {
		text, lines := b.text(v, list)
		_, err := tool.Assemble(context.Background(), text, b.m.Target, ptxas.Options{Args: []string{"-O1"}})
		if err == nil {
			return out
		}
		var e *ptxas.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		bad := 0
		for _, m := range errorLine.FindAllStringSubmatch(e.Log, -1) {
			n, _ := strconv.Atoi(m[1])
			if in := lines[n]; in != nil {
				out[in] = m[2]
				bad++
			}
		}
		if bad == 0 {
			t.Fatalf("%s, PTX %s: ptxas refuses no instruction in particular:\n%s", b.m.Target, v, e.Log[max(0, len(e.Log)-1000):])
		}
		var rest []*Instr
		for _, in := range list {
			if out[in] == "" {
				rest = append(rest, in)
			}
		}
		list = rest
	}
	return out
}

func formTargets() []arch.Target {
	return []arch.Target{{SM: 80}, {SM: 90}, {SM: 90, Variant: 'a'}, {SM: 100, Variant: 'a'}, {SM: 100, Variant: 'f'}}
}

// manualAsksMore lists rows for which ptxas is more lenient than the manual; the table follows the manual, since the
// driver's compiler may be older than this ptxas.
var manualAsksMore = map[string]bool{
	"FenceScCTA": true, // fence.acquire and fence.release: PTX 8.6, sm_90
	"CpAsyncCA":  true, // .shared::cta: PTX 7.8
	"CpAsyncCG":  true,
}

// variants gives a form its operands in three ways: registers; constants and variables; and the optional operands too.
func (b *bench) variants(form isa.Form) []*Instr {
	return []*Instr{b.instr(form, false, false), b.instr(form, true, false), b.instr(form, true, true)}
}

// specials reads every special register.
func (b *bench) specials() []*Instr {
	var out []*Instr
	for i := range isa.Specials {
		sp := &isa.Specials[i]
		want := map[isa.Class]isa.Type{isa.ClassPred: isa.Pred, isa.Class32: isa.B32, isa.Class64: isa.B64}[sp.Type.Class()]
		form := isa.Form{Row: isa.ByID("MovPred")}
		for j, alt := range form.Row.Slots[0].Alts {
			if alt.Type == want {
				form.Sel[0] = uint8(j + 1)
			}
		}
		in := b.instr(form, false, false)
		in.Args[1] = Special{sp}
		out = append(out, in)
	}
	return out
}

// batch is a set of instructions that one run of ptxas takes: one PTX version, and not both CTA groups of tcgen05.
type batch struct {
	arch.Version
	pair bool
}

func TestFormsAssemble(t *testing.T) {
	tool := ptxas.ForTest(t)
	forms := allForms()
	for _, target := range formTargets() {
		t.Run(target.String(), func(t *testing.T) {
			b := newBench(target)
			b.f.Reqntid(128, 1, 1)
			good, bad := map[batch][]*Instr{}, map[batch][]*Instr{}
			floor := isa.TargetVersion(target)
			all := b.specials()
			for _, form := range forms {
				if form.Complete() {
					all = append(all, b.variants(form)...)
				}
			}
			for _, in := range all {
				v := batch{in.minVersion().Max(floor), strings.Contains(in.Form.String(), "cta_group::2")}
				if e := in.refusal(target, arch.Version{}); e != nil {
					bad[v] = append(bad[v], in)
					continue
				}
				good[v] = append(good[v], in)
				if prev, ok := versionBefore(v.Version); ok && !prev.Less(floor) {
					bad[batch{prev, v.pair}] = append(bad[batch{prev, v.pair}], in)
				}
			}
			for v, list := range good {
				for in, msg := range b.refused(t, tool, v.Version, list) {
					t.Errorf("PTX %s refuses %s: %s", v.Version, in.short(), msg)
				}
			}
			for v, list := range bad {
				no := b.refused(t, tool, v.Version, list)
				for _, in := range list {
					if no[in] == "" && !manualAsksMore[in.Form.Row.ID] {
						t.Errorf("PTX %s accepts %s", v.Version, in.short())
					}
				}
			}
		})
	}
}

func (in *Instr) short() string {
	s := in.String()
	if len(s) > 160 {
		s = s[:160] + "..."
	}
	return fmt.Sprintf("%s [%s]", s, in.Form.Row.ID)
}

// ptxMinors lists the PTX versions that exist, from the first that the oldest tested target has: 7.0 to 7.8 and 8.0 to 9.0.
func ptxVersions() []arch.Version {
	var out []arch.Version
	for i := 70; i <= 90; i++ {
		if i != 79 && i != 89 {
			out = append(out, arch.V(i/10, i%10))
		}
	}
	return out
}

func versionBefore(v arch.Version) (arch.Version, bool) {
	list := ptxVersions()
	for i, w := range list {
		if w == v && i > 0 {
			return list[i-1], true
		}
	}
	return arch.Version{}, false
}

// TestFormsGuarded feeds the forms without options through ptxas under a predicate. It accepts them all, so the table has no
// column for it: whether a guard on a convergent instruction is uniform cannot be seen from the text.
func TestFormsGuarded(t *testing.T) {
	tool := ptxas.ForTest(t)
	for _, target := range []arch.Target{arch.SM90.Target, {SM: 100, Variant: 'a'}} {
		b := newBench(target)
		b.f.Reqntid(128, 1, 1)
		var list []*Instr
		for _, row := range isa.Table {
			for _, c := range row.Constructors() {
				in := b.instr(firstForm(c.Form), false, false)
				in.Guard, in.Negate = b.regs[isa.ClassPred][3], len(list)%2 == 0
				if in.refusal(target, arch.Version{}) == nil {
					list = append(list, in)
				}
			}
		}
		no := b.refused(t, tool, arch.V(9, 0), list)
		for _, in := range list {
			if no[in] != "" {
				t.Errorf("%s: %s", in.short(), no[in])
			}
		}
	}
}

// TestFormsCompile compiles the forms without options in code that runs, one kernel a row: every row for sm_90a, and for sm_100a
// those that sm_90a lacks.
func TestFormsCompile(t *testing.T) {
	tool := ptxas.ForTest(t)
	for _, row := range isa.Table {
		target := arch.SM90.Target
		if !row.Req.Allows(target) {
			target = arch.Target{SM: 100, Variant: 'a'}
		}
		b := newBench(target)
		b.f.Reqntid(128, 1, 1)
		for _, c := range row.Constructors() {
			if in := b.instr(firstForm(c.Form), false, false); in.refusal(target, arch.Version{}) == nil {
				b.f.Body = append(b.f.Body, in)
			}
		}
		b.f.Place(b.after)
		b.f.Ret()
		if _, err := tool.Assemble(context.Background(), b.m.String(), target, ptxas.Options{}); err != nil {
			t.Errorf("%s: %.600v", row.ID, err)
		}
	}
}

// firstForm fills the open slots of a form with their first alternatives.
func firstForm(f isa.Form) isa.Form {
	for i, slot := range f.Row.Slots {
		if f.Sel[i] == 0 && slot.Mode != isa.Option {
			f.Sel[i] = 1
		}
	}
	return f
}

// accepts reports whether ptxas takes a kernel with a directive.
func accepts(t *testing.T, tool ptxas.Tool, v arch.Version, target arch.Target, directives string) bool {
	t.Helper()
	text := fmt.Sprintf(".version %s\n.target %s\n.address_size 64\n.visible .entry k()\n%s\n{ ret; }\n", v, target, directives)
	_, err := tool.Assemble(context.Background(), text, target, ptxas.Options{})
	return err == nil
}

// TestTargetVersions asks ptxas for the lowest PTX version of each target that the table knows.
func TestTargetVersions(t *testing.T) {
	tool := ptxas.ForTest(t)
	for _, target := range isa.Targets() {
		v := isa.TargetVersion(target)
		if !accepts(t, tool, v, target, "") {
			t.Errorf("ptxas refuses PTX %s for %s", v, target)
		}
		if prev, ok := versionBefore(v); ok && accepts(t, tool, prev, target, "") {
			t.Errorf("ptxas accepts PTX %s for %s", prev, target)
		}
	}
}

// TestDirectives asks ptxas for the lowest PTX version and target of each directive.
func TestDirectives(t *testing.T) {
	tool := ptxas.ForTest(t)
	with := map[string]string{".reqntid": " 32, 2, 1", ".maxntid": " 32, 1, 1", ".minnctapersm": " 1 .maxntid 32", ".maxnreg": " 64",
		".explicitcluster": " .reqnctapercluster 2", ".reqnctapercluster": " 2, 1, 1", ".maxclusterrank": " 2 .maxntid 32"}
	for text, values := range with {
		d := isa.DirectiveByText(text)
		for _, target := range []arch.Target{{SM: 80}, {SM: 90}} {
			v := d.Min.Max(isa.TargetVersion(target))
			if got, want := accepts(t, tool, v, target, text+values), d.Req.Allows(target); got != want {
				t.Errorf("%s, PTX %s, %s: ptxas says %v, the table %v", text, v, target, got, want)
			}
			if prev, ok := versionBefore(v); ok && !prev.Less(isa.TargetVersion(target)) && accepts(t, tool, prev, target, text+values) {
				t.Errorf("%s: ptxas accepts PTX %s", text, prev)
			}
		}
	}
}

// TestParameterLimits asks ptxas for the size of a kernel's parameters.
func TestParameterLimits(t *testing.T) {
	tool := ptxas.ForTest(t)
	for _, c := range []struct {
		v    arch.Version
		size int
		want bool
	}{{arch.V(8, 0), isa.SmallParams, true}, {arch.V(8, 0), isa.SmallParams + 4, false}, {isa.LargeParams.Min, isa.MaxParams, true},
		{isa.LargeParams.Min, isa.MaxParams + 4, false}} {
		text := fmt.Sprintf(".version %s\n.target sm_90\n.address_size 64\n.visible .entry k(.param .b8 a[%d])\n{ ret; }\n", c.v, c.size)
		_, err := tool.Assemble(context.Background(), text, arch.Target{SM: 90}, ptxas.Options{})
		m, perr := Parse(text)
		if perr != nil {
			t.Fatal(perr)
		}
		if m.Pinned = c.v; (err == nil) != c.want || (Verify(m) == nil) != c.want {
			t.Errorf("PTX %s, %d bytes: ptxas says %v, Verify says %v", c.v, c.size, err, Verify(m))
		}
	}
}
