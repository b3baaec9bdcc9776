package ptx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fsgen/fsgen/internal/isa"
)

// faults checks the operands and modifiers of an instruction against its row. It knows nothing of the function around it.
func (in *Instr) faults(report func(Fault, string)) {
	if !in.Form.Complete() {
		report(BadModifier, in.incomplete())
		return
	}
	for i := range in.Form.Row.Args {
		a := &in.Form.Row.Args[i]
		may, must := in.Form.Wants(a)
		switch {
		case in.Args[i] == nil && must:
			report(BadOperand, fmt.Sprintf("operand %s is missing", a.Name))
		case in.Args[i] != nil && !may:
			report(BadOperand, fmt.Sprintf("operand %s needs the modifier .%s", a.Name, a.If))
		case in.Args[i] != nil:
			if reason := checkArg(in.Form, a, in.Args[i]); reason != "" {
				report(BadOperand, fmt.Sprintf("operand %s: %s", a.Name, reason))
			}
		}
	}
}

// incomplete says why the modifiers do not make a form.
func (in *Instr) incomplete() string {
	row := in.Form.Row
	for i, slot := range row.Slots {
		if in.Form.Sel[i] != 0 || slot.Mode == isa.Option {
			continue
		}
		var accepted []string
		for _, alt := range slot.Alts {
			accepted = append(accepted, "."+alt.Text)
		}
		if slot.Mode == isa.Counts {
			return fmt.Sprintf("the length of the vector operand fits none of %s", strings.Join(accepted, " "))
		}
		return fmt.Sprintf("a modifier is missing or unknown; accepted: %s", strings.Join(accepted, " "))
	}
	for _, x := range row.Excl {
		if p, q := in.Form.Alt(x[0]), in.Form.Alt(x[1]); p != nil && q != nil {
			return fmt.Sprintf("modifiers .%s and .%s exclude each other", p.Text, q.Text)
		}
	}
	return "the modifiers do not make a form"
}

// argCheckers checks an operand by its role.
var argCheckers = [...]func(isa.Form, *isa.Arg, Operand) string{
	isa.Dst:       checkValue,
	isa.Src:       checkValue,
	isa.DstSrc:    checkValue,
	isa.Immediate: checkImmediate,
	isa.Address:   checkAddress,
	isa.Tensor:    checkTensor,
	isa.LabelRef:  checkKind[*Label]("a label"),
	isa.TableRef:  checkKind[*Table]("a table of branch targets"),
	isa.VarRef:    checkVarRef,
	isa.FuncRef:   checkKind[FuncRef]("a function"),
	isa.Sink:      checkKind[Sink]("_"),
}

func checkArg(f isa.Form, a *isa.Arg, x Operand) string { return argCheckers[a.Role](f, a, x) }

func checkKind[T Operand](want string) func(isa.Form, *isa.Arg, Operand) string {
	return func(_ isa.Form, _ *isa.Arg, x Operand) string {
		if _, ok := x.(T); !ok {
			return fmt.Sprintf("got %s, want %s", describe(x), want)
		}
		return ""
	}
}

func checkValue(f isa.Form, a *isa.Arg, x Operand) string {
	t := f.Type(a.Type)
	n := f.Len(a)
	vec, isVec := x.(Vec)
	if n == 0 {
		if isVec {
			return fmt.Sprintf("got a vector, want one %s", t)
		}
		return checkScalar(a, t, x)
	}
	if !isVec || len(vec) != n {
		return fmt.Sprintf("got %s, want a vector of %d %s", describe(x), n, t)
	}
	for i, e := range vec {
		if reason := checkScalar(a, t, e); reason != "" {
			return fmt.Sprintf("element %d: %s", i, reason)
		}
	}
	return ""
}

func checkScalar(a *isa.Arg, t isa.Type, x Operand) string {
	switch x := x.(type) {
	case *Reg:
		if !t.Holds(x.Class, a.Wider) {
			return fmt.Sprintf("got %s, want %s", describe(x), t)
		}
		return ""
	case Not:
		if !a.Not || x.Reg.Class != isa.ClassPred {
			return fmt.Sprintf("got %s, want %s that is not negated", describe(x), t)
		}
		return ""
	case Imm:
		if a.Role != isa.Src || a.NoImm || t.Kind() == isa.KindFloat || t.Kind() == isa.KindPred {
			return fmt.Sprintf("got the constant %d, want a register of type %s", int64(x), t)
		}
		if reason := checkChoice(a, int64(x)); reason != "" {
			return reason
		}
		return checkRange(t, int64(x))
	case F32Imm, F64Imm:
		if a.Role != isa.Src || a.NoImm || !floatFits(t, x) {
			return fmt.Sprintf("got %s, want %s", describe(x), t)
		}
		return ""
	case Special:
		if !a.Special {
			return fmt.Sprintf("special register %s can only be read by mov", x.Row.Text)
		}
		if !t.Holds(x.Row.Type.Class(), false) {
			return fmt.Sprintf("special register %s is %s, want %s", x.Row.Text, x.Row.Type, t)
		}
		return ""
	}
	return fmt.Sprintf("got %s, want %s", describe(x), t)
}

func floatFits(t isa.Type, x Operand) bool {
	_, single := x.(F32Imm)
	if single {
		return t == isa.F32 || t == isa.B32
	}
	return t == isa.F64 || t == isa.B64
}

// checkRange accepts what fits the width as a signed or as an unsigned number.
func checkRange(t isa.Type, v int64) string {
	bits := t.Bits()
	if bits >= 64 || v >= -1<<(bits-1) && v < 1<<bits {
		return ""
	}
	return fmt.Sprintf("constant %d does not fit %s (%d to %d)", v, t, int64(-1)<<(bits-1), int64(1)<<bits-1)
}

// checkChoice applies what the table says of a constant besides its range.
func checkChoice(a *isa.Arg, v int64) string {
	switch {
	case len(a.Set) > 0 && !slices.Contains(a.Set, v):
		return fmt.Sprintf("got %d, want one of %v", v, a.Set)
	case a.Mult > 0 && v%a.Mult != 0:
		return fmt.Sprintf("got %d, want a multiple of %d", v, a.Mult)
	}
	return ""
}

func checkImmediate(_ isa.Form, a *isa.Arg, x Operand) string {
	i, ok := x.(Imm)
	v := int64(i)
	switch {
	case !ok:
		return fmt.Sprintf("got %s, want an integer constant", describe(x))
	case len(a.Set) == 0 && (v < a.Lo || v > a.Hi):
		return fmt.Sprintf("got %d, want %d to %d", v, a.Lo, a.Hi)
	}
	return checkChoice(a, v)
}

func checkAddress(f isa.Form, a *isa.Arg, x Operand) string {
	m, ok := x.(Mem)
	if !ok {
		return fmt.Sprintf("got %s, want an address", describe(x))
	}
	return checkMem(f.Space(a), m)
}

func checkMem(space isa.Space, m Mem) string {
	if m.Off < -1<<31 || m.Off >= 1<<31 {
		return fmt.Sprintf("offset %d does not fit 32 bits", m.Off)
	}
	switch base := m.Base.(type) {
	case *Reg:
		lo, hi := space.AddressBits()
		if bits := base.Class.Bits(); bits < lo || bits > hi || base.Class == isa.ClassF32 || base.Class == isa.ClassF64 {
			return fmt.Sprintf("register %s (%s) cannot hold a %s address", base.Name, base.Class, space)
		}
	case VarRef:
		if !space.Accepts(base.Var.Space) {
			return fmt.Sprintf("variable %s lies in %s memory; the address must be %s", base.Var.Name, base.Var.Space, space)
		}
	default:
		return "the address has no base"
	}
	return ""
}

func checkTensor(f isa.Form, a *isa.Arg, x Operand) string {
	t, ok := x.(TensorMem)
	if !ok {
		return fmt.Sprintf("got %s, want a tensor map and coordinates", describe(x))
	}
	if reason := checkMem(a.Space, t.Map); reason != "" {
		return reason
	}
	if n := f.Len(a); len(t.Coords) != n {
		return fmt.Sprintf("got %d coordinates, want %d", len(t.Coords), n)
	}
	scalar := isa.Arg{Name: a.Name, Role: isa.Src, Type: a.Type}
	for i, c := range t.Coords {
		if reason := checkScalar(&scalar, f.Type(a.Type), c); reason != "" {
			return fmt.Sprintf("coordinate %d: %s", i, reason)
		}
	}
	return ""
}

func checkVarRef(f isa.Form, _ *isa.Arg, x Operand) string {
	v, ok := x.(VarRef)
	if !ok {
		return fmt.Sprintf("got %s, want a variable", describe(x))
	}
	lo, _ := v.Var.Space.AddressBits()
	if t := f.Type(isa.T0); t.Bits() < lo {
		return fmt.Sprintf("variable %s lies in %s memory, whose addresses have %d bits", v.Var.Name, v.Var.Space, lo)
	}
	return ""
}

// describe names an operand for a message.
func describe(x Operand) string {
	var b strings.Builder
	switch x := x.(type) {
	case nil:
		return "a register or variable that was never made"
	case *Reg:
		return fmt.Sprintf("register %s (%s)", x.Name, x.Class)
	case *Label:
		return "label " + x.Name
	case Vec:
		return fmt.Sprintf("a vector of %d", len(x))
	case Imm:
		return fmt.Sprintf("the constant %d", int64(x))
	case VarRef:
		return "variable " + x.Var.Name
	}
	x.write(&b)
	return b.String()
}
