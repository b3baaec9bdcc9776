package ptx

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/fsgen/fsgen/arch"
)

// Fault says what kind of mistake an [Error] reports.
type Fault int

// The kinds of mistakes.
const (
	BadOperand  Fault = iota + 1 // an operand of the wrong class, width, space, count or range
	BadModifier                  // a modifier that the form lacks or that excludes another
	BadTarget                    // the module's target lacks the form
	BadVersion                   // the module's pinned PTX version lacks the form
	BadName                      // a name that is malformed, reserved or declared twice
	BadBranch                    // a label or table that is missing, placed twice, or out of place
	BadModule                    // a directive that does not fit
	Undefined                    // a register that is read but never written before
	Unended                      // control runs past the end of a function
	BadSyntax                    // text that is no PTX, or none that this package reads
)

var faultNames = [...]string{BadOperand: "operand", BadModifier: "modifier", BadTarget: "target", BadVersion: "version",
	BadName: "name", BadBranch: "branch", BadModule: "module", Undefined: "undefined register", Unended: "unended function",
	BadSyntax: "syntax"}

// String names the fault.
func (f Fault) String() string {
	if f <= 0 || int(f) >= len(faultNames) {
		return fmt.Sprintf("Fault(%d)", int(f))
	}
	return faultNames[f]
}

// Error is one mistake in a module.
type Error struct {
	Fault  Fault
	Pos    string // the author's file:line, or line:column of the parsed text; empty if neither is known
	Func   string // kernel or function, if the mistake lies in one
	Instr  string // the instruction as printed, if there is one
	Reason string
	Form   string      // the form that was meant, with its operands
	Req    arch.Req    // what the form asks of the target
	Target arch.Target // the module's target
}

// Error joins position, instruction, reason and what would be accepted.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("ptx: ")
	for _, part := range []string{e.Pos, e.Func, e.Instr} {
		if part != "" {
			b.WriteString(part)
			b.WriteString(": ")
		}
	}
	b.WriteString(e.Reason)
	if e.Form != "" {
		fmt.Fprintf(&b, " (form: %s)", e.Form)
	}
	return b.String()
}

// Errors is a list of mistakes, in order.
type Errors []*Error

// maxErrors is how many mistakes are collected before the rest is dropped.
const maxErrors = 10

// Error lists the mistakes, one a line.
func (l Errors) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find each *Error.
func (l Errors) Unwrap() []error {
	out := make([]error, len(l))
	for i, e := range l {
		out[i] = e
	}
	return out
}

// err returns nil for an empty list.
func (l Errors) err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

func (l *Errors) add(e *Error) {
	if len(*l) < maxErrors {
		*l = append(*l, e)
	}
}

// where is a position: the stack above a constructor, to be read only if there is something to report, or a place in parsed
// text.
type where struct {
	pcs       [5]uintptr
	line, col int32
}

func here(skip int) where {
	var w where
	runtime.Callers(skip+2, w.pcs[:])
	return w
}

// String returns line:column, or the first frame outside this package as file:line, or "".
func (w where) String() string {
	if w.line > 0 {
		return fmt.Sprintf("%d:%d", w.line, w.col)
	}
	n := 0
	for n < len(w.pcs) && w.pcs[n] != 0 {
		n++
	}
	if n == 0 {
		return ""
	}
	frames := runtime.CallersFrames(w.pcs[:n])
	for {
		f, more := frames.Next()
		if f.File != "" && (!strings.HasPrefix(f.Function, pkgPrefix) || strings.HasSuffix(f.File, "_test.go")) {
			return fmt.Sprintf("%s:%d", f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
		}
		if !more {
			return ""
		}
	}
}

const pkgPrefix = "github.com/fsgen/fsgen/ptx."

// gate is something that a target or PTX version may lack: a form, an operand, a special register, a directive.
type gate struct {
	name fmt.Stringer
	min  arch.Version
	req  arch.Req
}

// part names an optional operand of a form, or a special register that it reads.
type part struct {
	form fmt.Stringer
	what string
}

func (p part) String() string { return fmt.Sprintf("%s with %s", p.form, p.what) }

// gates lists what an instruction asks of its module.
func (in *Instr) gates(visit func(gate)) {
	row := in.Form.Row
	visit(gate{in.Form, row.Min, row.Req})
	for i := range row.Slots {
		if alt := in.Form.Alt(i); alt != nil {
			visit(gate{in.Form, alt.Min, alt.Req})
		}
	}
	for i, x := range in.Args {
		if sp, ok := x.(Special); ok {
			visit(gate{part{in.Form, sp.Row.Text}, sp.Row.Min, sp.Row.Req})
		}
		if a := &row.Args[i]; x != nil && a.Opt {
			visit(gate{part{in.Form, "operand " + a.Name}, a.Min, a.Req})
		}
	}
}

// refusal says why a module for target, pinned to a PTX version if that is not zero, may not hold what the gate guards.
func (g gate) refusal(target arch.Target, pinned arch.Version) *Error {
	if !g.req.Allows(target) {
		return &Error{Fault: BadTarget, Req: g.req,
			Reason: fmt.Sprintf("%s needs %s; the module's target is %s", g.name, g.req, target)}
	}
	if pinned != (arch.Version{}) && pinned.Less(g.min) {
		return &Error{Fault: BadVersion,
			Reason: fmt.Sprintf("%s needs PTX %s; the module is pinned to %s", g.name, g.min, pinned)}
	}
	return nil
}

// refusal returns the first gate that the module does not pass, or nil.
func (in *Instr) refusal(target arch.Target, pinned arch.Version) *Error {
	var first *Error
	in.gates(func(g gate) {
		if first == nil {
			first = g.refusal(target, pinned)
		}
	})
	return first
}

// minVersion returns the lowest PTX version that has the instruction.
func (in *Instr) minVersion() arch.Version {
	v := arch.V(1, 0)
	in.gates(func(g gate) { v = v.Max(g.min) })
	return v
}
