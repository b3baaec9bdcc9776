package ptx

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/isa"
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
)

var faultNames = [...]string{BadOperand: "operand", BadModifier: "modifier", BadTarget: "target", BadVersion: "version",
	BadName: "name", BadBranch: "branch", BadModule: "module", Undefined: "undefined register", Unended: "unended function"}

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

// where remembers the stack above a constructor, to be read only if there is something to report.
type where [6]uintptr

func here(skip int) where {
	var w where
	runtime.Callers(skip+2, w[:])
	return w
}

// String returns the first frame outside this package as file:line.
func (w where) String() string {
	n := 0
	for n < len(w) && w[n] != 0 {
		n++
	}
	if n == 0 {
		return ""
	}
	frames := runtime.CallersFrames(w[:n])
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

// allowed checks a form against a target and, if pinned is not zero, against a PTX version.
func allowed(f isa.Form, target arch.Target, pinned arch.Version) (Fault, string, arch.Req) {
	if req, ok := f.Allows(target); !ok {
		return BadTarget, fmt.Sprintf("%s needs %s; the module's target is %s", f, req, target), req
	}
	if min := f.MinVersion(); pinned != (arch.Version{}) && pinned.Less(min) {
		return BadVersion, fmt.Sprintf("%s needs PTX %s; the module is pinned to %s", f, min, pinned), arch.Req{}
	}
	return 0, "", arch.Req{}
}
