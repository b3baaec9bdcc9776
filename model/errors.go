package model

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of failure, for errors.Is. Every error about a file wraps exactly one of them.
var (
	ErrMalformed   = errors.New("malformed")    // the bytes break the format's rules
	ErrUnsupported = errors.New("unsupported")  // well-formed, but not something this package reads
	ErrMissing     = errors.New("missing")      // a file, key or tensor that is needed is not there
	ErrMismatch    = errors.New("mismatch")     // two sources disagree, such as config.json and the weights
	ErrAmbiguous   = errors.New("ambiguous")    // several answers are possible, and choosing would be guessing
	ErrRange       = errors.New("out of range") // a value or an index lies outside what its type or tensor allows
	ErrIO          = errors.New("i/o")          // the operating system failed the read or the write; the cause is wrapped
)

// FileError says in one line which file broke which rule with which value.
type FileError struct {
	File  string // path as the caller gave it
	Kind  error  // one of the Err... kinds
	Rule  string // what is required, or what was found
	Value string // the offending value, shortened to one line
	Err   error  // a cause from below, such as an I/O error; may be nil
}

// Error is one line: file: rule: value.
func (e *FileError) Error() string {
	var b strings.Builder
	b.WriteString(oneLine(e.File, 400))
	b.WriteString(": ")
	b.WriteString(e.Rule)
	if e.Value != "" {
		b.WriteString(": ")
		b.WriteString(e.Value)
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(oneLine(e.Err.Error(), 200))
	}
	return b.String()
}

// Unwrap gives the kind and the cause to errors.Is and errors.As.
func (e *FileError) Unwrap() []error {
	if e.Err != nil {
		return []error{e.Kind, e.Err}
	}
	return []error{e.Kind}
}

// fail builds a FileError. The value is formatted with args and cut to one short line, since it may come from a
// hostile file.
func fail(kind error, file, rule, format string, args ...any) *FileError {
	return &FileError{File: file, Kind: kind, Rule: rule, Value: oneLine(fmt.Sprintf(format, args...), 300)}
}

// failIO wraps an error of the operating system.
func failIO(file, doing string, err error) *FileError {
	return &FileError{File: file, Kind: ErrIO, Rule: doing, Err: err}
}

// failOpen tells "not there" from "cannot be read".
func failOpen(file string, err error) *FileError {
	return &FileError{File: file, Kind: ErrMissing, Rule: "cannot open", Err: trimPathError(err)}
}

// oneLine replaces what would break a line or a terminal and cuts s to about max bytes.
func oneLine(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
	if len(s) <= max {
		return s
	}
	cut := max
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
