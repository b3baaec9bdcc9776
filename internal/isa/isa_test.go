package isa

import (
	"go/token"
	"strings"
	"testing"

	"github.com/fsgen/fsgen/arch"
)

// TestRows holds every row against the rules that the readers of the table rely on.
func TestRows(t *testing.T) {
	names := map[string]string{}
	for _, r := range Table {
		if r.Sec == "" || r.Min == (arch.Version{}) {
			t.Errorf("%s: section or version is missing", r.ID)
		}
		if !Reserved(firstWord(r.Op)) {
			t.Errorf("%s: mnemonic %s is not among the reserved words", r.ID, r.Op)
		}
		for _, c := range r.Constructors() {
			if old := names[c.Name]; old != "" {
				t.Errorf("%s belongs to rows %s and %s", c.Name, old, r.ID)
			}
			names[c.Name] = r.ID
			if !token.IsIdentifier(c.Name) || !token.IsExported(c.Name) {
				t.Errorf("%s is no exported identifier", c.Name)
			}
			checkTypes(t, c)
		}
		checkSlots(t, r)
		checkArgs(t, r)
	}
	if len(names) < 1000 {
		t.Errorf("only %d constructors", len(names))
	}
}

// checkTypes resolves the type of every operand once the named slots are chosen.
func checkTypes(t *testing.T, c Constructor) {
	for i := range c.Form.Row.Args {
		a := &c.Form.Row.Args[i]
		if a.Type >= T0 && !c.Form.typed(a.Type) {
			t.Errorf("%s: the type of operand %s stays open", c.Name, a.Name)
			continue
		}
		if typ := c.Form.Type(a.Type); typ == None && (a.Role == Dst || a.Role == Src || a.Role == DstSrc) {
			t.Errorf("%s: operand %s has no type", c.Name, a.Name)
		}
		if a.Role == Address && c.Form.Space(a) == NoSpace {
			t.Errorf("%s: operand %s has no space", c.Name, a.Name)
		}
	}
}

func checkSlots(t *testing.T, r *Row) {
	for i, s := range r.Slots {
		seen := map[string]bool{}
		for _, a := range s.Alts {
			if seen[a.Text] {
				t.Errorf("%s: slot %d has .%s twice", r.ID, i, a.Text)
			}
			seen[a.Text] = true
			if a.Text == "" && s.Mode == Option {
				t.Errorf("%s: slot %d has an option that prints nothing", r.ID, i)
			}
		}
	}
	for _, x := range r.Excl {
		for _, i := range x {
			if i >= len(r.Slots) || r.Slots[i].Mode != Option {
				t.Errorf("%s: exclusion %v names no option", r.ID, x)
			}
		}
	}
}

func checkArgs(t *testing.T, r *Row) {
	const touches = Load | Store | Atomic | Barrier | Fence | Keep | Async
	for _, a := range r.Args {
		if a.If != "" && !hasAlt(r, a.If) {
			t.Errorf("%s: operand %s depends on .%s, which the row lacks", r.ID, a.Name, a.If)
		}
		if a.LenSlot > len(r.Slots) {
			t.Errorf("%s: operand %s counts a slot that the row lacks", r.ID, a.Name)
		}
		if (a.Role == Address || a.Role == Tensor) && r.Eff&touches == 0 {
			t.Errorf("%s: has an address and no effect", r.ID)
		}
		if a.Role == LabelRef && r.Eff&Jump == 0 {
			t.Errorf("%s: names a label and does not jump", r.ID)
		}
	}
}

func hasAlt(r *Row, text string) bool {
	for _, s := range r.Slots {
		for _, a := range s.Alts {
			if a.Text == text {
				return true
			}
		}
	}
	return false
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		t     Type
		c     Class
		wider bool
		want  bool
	}{
		{U32, Class32, false, true}, {U32, ClassF32, false, false}, {U32, Class64, false, false}, {U32, Class64, true, true},
		{B32, ClassF32, false, true}, {F32, Class32, false, true}, {F32, ClassF32, false, true}, {F32, ClassF64, true, false},
		{F64, Class64, false, true}, {B64, ClassF64, false, true}, {U8, Class16, true, true}, {U8, Class32, true, true},
		{U8, ClassF32, true, false}, {BF16, Class16, false, true}, {BF16, Class32, false, false}, {Pred, ClassPred, false, true},
		{Pred, Class32, true, false}, {B32, ClassPred, true, false}, {U32, Class16, true, false}, {BF16x2, Class32, false, true},
	} {
		if got := c.t.Holds(c.c, c.wider); got != c.want {
			t.Errorf("%s in a %s register (wider %v): %v", c.t, c.c, c.wider, got)
		}
	}
}

func TestTypes(t *testing.T) {
	if U32.Wide() != U64 || S16.Wide() != S32 || S64.Wide() != None {
		t.Error("Wide")
	}
	for u := None + 1; u < NumTypes; u++ {
		if back, ok := ParseType(u.String()); !ok || back != u || u.Class() == NoClass {
			t.Errorf("%s", u)
		}
	}
	if _, ok := ParseType(""); ok {
		t.Error("the empty type parses")
	}
}

func TestSyntax(t *testing.T) {
	for id, want := range map[string]string{
		"SetpF32":              "setp{.eq .ne .lt .le .gt .ge .equ ...}{.ftz}.f32 p: pred, a: f32, b: f32",
		"ShflSyncPredUpB32":    "shfl.sync.up.b32 d: b32|p: pred, a: b32, b: u32, c: u32, membermask: u32",
		"WgmmaMmaAsyncF32BF16": "wgmma.mma_async.sync.aligned{.m64n8k16 .m64n16k16",
		"MbarrierArrive":       "_, [addr: shared], [count: u32]",
		"SetmaxnregInc":        "setmaxnreg.inc.sync.aligned.u32 imm-reg-count: 24..256",
	} {
		var got string
		for _, c := range ByID(id).Constructors() {
			if c.Name == id {
				got = c.Form.Syntax()
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s", id, got)
		}
	}
}

func TestReserved(t *testing.T) {
	for name, want := range map[string]bool{"add": true, "%tid": true, "%pm3": true, "%envreg31": true, "%pm": false, "%tile": false,
		"loop": false, "WARP_SZ": true} {
		if Reserved(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	for _, s := range Specials {
		if !Reserved(firstWord(s.Text)) {
			t.Errorf("%s may be declared", s.Text)
		}
	}
}
