package isa

import (
	"fmt"
	"strings"
)

// Syntax describes the form for messages: mnemonic, then each operand with what it may be, options in brackets.
func (f Form) Syntax() string {
	var parts []string
	for i := range f.Row.Args {
		a := &f.Row.Args[i]
		text := f.argSyntax(a)
		if a.Opt || a.If != "" {
			text = "[" + text + "]"
		}
		if a.Bar && len(parts) > 0 {
			parts[len(parts)-1] += "|" + text
			continue
		}
		parts = append(parts, text)
	}
	return strings.TrimSpace(f.mnemonicSyntax() + " " + strings.Join(parts, ", "))
}

// mnemonicSyntax writes chosen modifiers plainly and open ones as {.a .b}.
func (f Form) mnemonicSyntax() string {
	var b strings.Builder
	b.WriteString(f.Row.Op)
	for i, slot := range f.Row.Slots {
		if alt := f.Alt(i); alt != nil {
			if alt.Text != "" {
				b.WriteString("." + alt.Text)
			}
			continue
		}
		var open []string
		for _, alt := range slot.Alts {
			open = append(open, "."+alt.Text)
		}
		if len(open) > 8 {
			open = append(open[:7], "...")
		}
		b.WriteString("{" + strings.Join(open, " ") + "}")
	}
	return b.String()
}

func (f Form) argSyntax(a *Arg) string {
	switch a.Role {
	case Sink:
		return "_"
	case Address:
		return fmt.Sprintf("[%s: %s]", a.Name, f.Space(a))
	case Tensor:
		return "[" + a.Name + ", {coordinates}]"
	case LabelRef, TableRef, VarRef, FuncRef:
		return a.Name
	case Immediate:
		if len(a.Set) > 0 {
			return fmt.Sprintf("%s: one of %v", a.Name, a.Set)
		}
		return fmt.Sprintf("%s: %d..%d", a.Name, a.Lo, a.Hi)
	}
	text := a.Name + ": " + f.typeText(a.Type)
	switch n := f.Len(a); {
	case a.LenSlot > 0 && f.Sel[a.LenSlot-1] == 0 && a.LenDiv > 1:
		return fmt.Sprintf("{%s} x n/%d", text, a.LenDiv)
	case a.LenSlot > 0 && f.Sel[a.LenSlot-1] == 0:
		return fmt.Sprintf("{%s} x n", text)
	case n > 0:
		return fmt.Sprintf("{%s} x %d", text, n)
	}
	return text
}

// typeText names an operand's type, also where the type slot is still open.
func (f Form) typeText(r Ref) string {
	if r >= T0 && !f.typed(r) {
		return "type"
	}
	return f.Type(r).String()
}

func (f Form) typed(r Ref) bool {
	n := 0
	for i := range f.Row.Slots {
		if a := f.Alt(i); a != nil && a.Type != None {
			n++
		}
	}
	return r == T1 && n > 1 || r != T1 && n > 0
}
