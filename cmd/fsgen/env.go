package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// env is what a command runs in.
type env struct {
	stdout, stderr io.Writer
	terminal       bool // stderr is one: progress may show
	json           bool
	patience       time.Duration // how long work may take before progress shows

	held     []string // notes that wait for release
	released bool
}

// note tells the user something. Notes wait until the work begins, so that a command line that cannot be run gives one
// line, the error.
func (e *env) note(format string, args ...any) {
	e.held = append(e.held, "fsgen: "+fmt.Sprintf(format, args...)+"\n")
	if e.released {
		e.release()
	}
}

// release prints the notes so far, and from now on each as it comes.
func (e *env) release() {
	for _, line := range e.held {
		io.WriteString(e.stderr, line)
	}
	e.held, e.released = nil, true
}

// fail prints an error as one line.
func (e *env) fail(ctx context.Context, err error) {
	text := trimmed(err)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	fmt.Fprintf(e.stderr, "fsgen: %s\n", text)
}

// oneLine keeps an error to one line without control characters: a compiler's log follows in FSGEN_DUMP, not here.
func oneLine(err error) string {
	text, _, cut := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	if cut {
		text += " ..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, text)
}

// output remembers the first failure of writing, which fmt's callers drop: a full disk is a failure of the command.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err == nil {
		return n, nil
	}
	err = fmt.Errorf("standard output: %w", err)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// reason is an error without the name of the package that it comes from: what stands before it says where.
func reason(err error) string { return withoutPackage(err.Error()) }

func withoutPackage(text string) string {
	for _, p := range []string{"ir: ", "arch: ", "tiling: ", "sampler: ", "gen: ", "templates: ", "autotune: ", "cublas: "} {
		if rest, ok := strings.CutPrefix(text, p); ok {
			return rest
		}
	}
	return text
}

// trimmed is an error as people read it: one line, without the name of a package.
func trimmed(err error) string { return withoutPackage(oneLine(err)) }

// printLines prints JSON, an object a line.
func printLines[T any](e *env, list []T) error {
	enc := json.NewEncoder(e.stdout)
	for _, x := range list {
		if err := enc.Encode(x); err != nil {
			return err
		}
	}
	return nil
}
