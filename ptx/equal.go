package ptx

import (
	"fmt"
	"slices"
	"strings"
)

// Diff compares two modules and describes the first difference, or returns "". Positions do not count, nor the order in which
// registers were made, nor the difference between a pinned PTX version and a computed one that is the same.
func Diff(a, b *Module) string {
	if a.Version() != b.Version() || a.Target != b.Target {
		return fmt.Sprintf("PTX %s for %s, PTX %s for %s", a.Version(), a.Target, b.Version(), b.Target)
	}
	return diffLists("item", a.Items, b.Items, diffItem)
}

func diffLists[T any](what string, a, b []T, diff func(a, b T) string) string {
	for i := range min(len(a), len(b)) {
		if d := diff(a[i], b[i]); d != "" {
			return fmt.Sprintf("%s %d: %s", what, i, d)
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d and %d of %s", len(a), len(b), what)
	}
	return ""
}

func diffItem(a, b Item) string {
	switch x := a.(type) {
	case *Var:
		if y, ok := b.(*Var); ok {
			return diffVar(x, y)
		}
	case *Func:
		if y, ok := b.(*Func); ok {
			return diffFunc(x, y)
		}
	case Comment:
		if x == b {
			return ""
		}
	}
	return fmt.Sprintf("%T %v, %T %v", a, a, b, b)
}

func diffVar(a, b *Var) string {
	var x, y strings.Builder
	a.write(&x, "")
	b.write(&y, "")
	if x.String() != y.String() || a.Offset != b.Offset {
		return fmt.Sprintf("%s at %d, %s at %d", x.String(), a.Offset, y.String(), b.Offset)
	}
	return ""
}

// signature is what Diff compares of a function besides its body.
func (f *Func) signature() string {
	regs := make([]string, len(f.Regs))
	for i, r := range f.Regs {
		regs[i] = r.Class.String() + r.Name
	}
	slices.Sort(regs)
	return fmt.Sprint(f.Name, f.Kernel, f.Visible, f.ReqThreads, f.MaxThreads, f.MinCTAs, f.MaxRegs, f.ReqCluster,
		f.ExplicitCluster, f.MaxClusterRank, regs)
}

func diffFunc(a, b *Func) string {
	if x, y := a.signature(), b.signature(); x != y {
		return fmt.Sprintf("%s, %s", x, y)
	}
	if d := diffLists("parameter", a.Params, b.Params, diffVar); d != "" {
		return d
	}
	if d := diffLists("variable", a.Vars, b.Vars, diffVar); d != "" {
		return d
	}
	return diffLists("statement", a.Body, b.Body, diffStmt)
}

func diffStmt(a, b Stmt) string {
	if x, y := describeStmt(a), describeStmt(b); x != y {
		return fmt.Sprintf("%s, %s", x, y)
	}
	return ""
}

// describeStmt writes all that a statement holds: an instruction with its row and the kinds of its operands.
func describeStmt(s Stmt) string {
	switch s := s.(type) {
	case *Instr:
		text := fmt.Sprintf("%s %v %s //%s", s.Form.Row.ID, s.Form.Sel, s, s.Note)
		for _, x := range s.Args {
			text += fmt.Sprintf(" %T", x)
		}
		return text
	case *Label:
		return "label " + s.Name
	case *Table:
		var b strings.Builder
		s.declare(&b)
		return b.String()
	}
	return fmt.Sprintf("%T %v", s, s)
}
