package ptx

import (
	"fmt"
	"strings"

	"github.com/fsgen/fsgen/internal/isa"
)

// Instr is an instruction of a function.
type Instr struct {
	Form isa.Form
	// Args holds one operand for each operand of the row, nil where an optional one was left out.
	Args []Operand
	// Guard is the predicate register under which the instruction executes, or nil; Negate inverts it.
	Guard  *Reg
	Negate bool
	// Note is the comment at the end of the line.
	Note string

	f   *Func
	pos where
}

// If makes the instruction execute only where p is true.
func (in *Instr) If(p Pred) *Instr { return in.guard(p, false) }

// IfNot makes the instruction execute only where p is false.
func (in *Instr) IfNot(p Pred) *Instr { return in.guard(p, true) }

func (in *Instr) guard(p Pred, negate bool) *Instr {
	if p.r == nil {
		in.fail(BadOperand, "the guard is a predicate register that was never made")
	}
	in.Guard, in.Negate = p.r, negate
	return in
}

// Comment writes a note at the end of the instruction's line.
func (in *Instr) Comment(format string, args ...any) *Instr {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	in.Note = cleanComment(strings.Join(commentLines(format), " "))
	return in
}

// Pos returns the author's file:line, or line:column if the instruction was parsed, or "".
func (in *Instr) Pos() string { return in.pos.String() }

// String returns the instruction as printed, without its comment.
func (in *Instr) String() string {
	var b strings.Builder
	in.write(&b, 0)
	return b.String()
}

func (in *Instr) fail(kind Fault, reason string) {
	in.f.fail(&Error{Fault: kind, Pos: in.pos.String(), Instr: in.String(), Reason: reason, Form: in.Form.Syntax()})
}

// emit appends an instruction: the form that a constructor fixed, plus what the options add. Operands come in the order of
// the row, without those that options bring.
func (f *Func) emit(row *isa.Row, sel isa.Sel, opts []Option, args ...argument) *Instr {
	in := &Instr{Form: isa.Form{Row: row, Sel: sel}, f: f, pos: here(2)}
	var set optionSet
	for _, o := range opts {
		if o != nil {
			o.apply(&set)
		}
	}
	form, bad := set.sel(in.Form)
	in.Form = form
	in.place(args, &set)
	in.count()
	f.Body = append(f.Body, in)
	if bad != "" {
		in.fail(BadModifier, fmt.Sprintf("modifier .%s is not among those of the form, or is given twice", bad))
		return in
	}
	in.check(&set)
	return in
}

// place puts the arguments and the options' operands where the row has them.
func (in *Instr) place(args []argument, set *optionSet) {
	in.Args = make([]Operand, len(in.Form.Row.Args))
	next := 0
	for i := range in.Form.Row.Args {
		a := &in.Form.Row.Args[i]
		switch {
		case a.Role == isa.Sink:
			in.Args[i] = Sink{}
		case a.If != "" || a.Opt:
			in.Args[i] = set.take(a.Name)
		default:
			if next >= len(args) {
				panic("BUG: ptx: constructor of " + in.Form.Row.ID + " passes too few operands")
			}
			if args[next] != nil {
				in.Args[i] = args[next].operand()
			}
			next++
		}
	}
}

func (s *optionSet) take(arg string) Operand {
	for i, o := range s.operands {
		if o.arg == arg {
			s.operands = append(s.operands[:i], s.operands[i+1:]...)
			return o.x
		}
	}
	return nil
}

// count makes the choice of each slot that follows from the length of a vector operand.
func (in *Instr) count() {
	for i, slot := range in.Form.Row.Slots {
		if slot.Mode == isa.Counts && in.Form.Sel[i] == 0 {
			in.Form.Sel[i] = in.countedAlt(i, slot)
		}
	}
}

func (in *Instr) countedAlt(slot int, s isa.Slot) uint8 {
	for k := range in.Form.Row.Args {
		a := &in.Form.Row.Args[k]
		if a.LenSlot != slot+1 {
			continue
		}
		n := vectorLen(in.Args[k])
		for j, alt := range s.Alts {
			if alt.N*a.Len/max(a.LenDiv, 1) == n {
				return uint8(j + 1)
			}
		}
	}
	return 0
}

func vectorLen(x Operand) int {
	switch x := x.(type) {
	case Vec:
		return len(x)
	case TensorMem:
		return len(x.Coords)
	}
	return 0
}

// check reports every mistake in the instruction to the module.
func (in *Instr) check(set *optionSet) {
	for _, o := range set.operands {
		in.fail(BadOperand, fmt.Sprintf("the form has no optional operand %q", o.arg))
	}
	in.faults(in.fail)
	if e := in.refusal(in.f.m.Target, in.f.m.Pinned); e != nil {
		e.Pos, e.Instr = in.pos.String(), in.String()
		in.f.fail(e)
	}
}
