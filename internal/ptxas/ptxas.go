// Package ptxas runs NVIDIA's PTX assembler, the judge of what fsgen emits, and reads its report of registers, spills and
// memory. Nothing but tests and reports needs it: kernels are compiled by the driver.
package ptxas

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/nvtool"
)

// Tool is a ptxas binary.
type Tool struct{ Path string }

// ErrNotFound says that there is no ptxas here.
var ErrNotFound = nvtool.ErrNotFound

// Find looks for ptxas (nvtool.Find).
func Find() (Tool, error) {
	path, err := nvtool.Find("ptxas")
	return Tool{path}, err
}

// ForTest finds ptxas for a test, which is skipped where there is none, or fails if FSGEN_REQUIRE_PTXAS=1.
func ForTest(t nvtool.TB) Tool {
	t.Helper()
	return Tool{nvtool.ForTest(t, "ptxas")}
}

// versionTime is how long a program may take to say its version.
const versionTime = 10 * time.Second

var release = regexp.MustCompile(`(?s)^ptxas: NVIDIA .*\bV(\d+\.\d+\.\d+)`)

// Version asks ptxas for its version, as in "13.0.88". A program that is no ptxas is an error that says so.
func (t Tool) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, t.Path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s is no ptxas: --version: %w", t.Path, err)
	}
	m := release.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s is no ptxas: --version does not say so", t.Path)
	}
	return string(m[1]), nil
}

// Options change how ptxas runs; the zero value compiles as the driver would.
type Options struct {
	// Cubin, if not empty, is the file to write.
	Cubin string
	// Args are more arguments, such as "-O1".
	Args []string
}

// Result is what ptxas says of a module.
type Result struct {
	Kernels  []Kernel // kernels and functions, in the order of the report
	Warnings []string // warnings and performance advisories, without their prefix
	Log      string
}

// Kernel is what ptxas says of one kernel or function. Sizes are bytes, per thread except Shared.
type Kernel struct {
	Name        string
	Entry       bool // a kernel, with Registers, Barriers, Shared
	Registers   int
	Barriers    int
	Shared      int // static shared memory of the CTA, with what the system reserves
	Stack       int // stack frame: local variables and spills
	SpillStores int
	SpillLoads  int
}

// Kernel finds the report of a kernel by name, or returns nil.
func (r *Result) Kernel(name string) *Kernel {
	for i := range r.Kernels {
		if r.Kernels[i].Name == name {
			return &r.Kernels[i]
		}
	}
	return nil
}

// Error says that ptxas refused a module or could not run.
type Error struct {
	Target arch.Target
	Log    string
	Err    error
}

// Error names the target and repeats what ptxas said.
func (e *Error) Error() string {
	return fmt.Sprintf("ptxas: for %s: %v\n%s", e.Target, e.Err, strings.TrimSpace(e.Log))
}

// Unwrap returns the error of running the program.
func (e *Error) Unwrap() error { return e.Err }

// Assemble compiles a PTX text for a target. A refusal is an *Error with the log.
func (t Tool) Assemble(ctx context.Context, text string, target arch.Target, opts Options) (*Result, error) {
	out := opts.Cubin
	if out == "" {
		out = os.DevNull
	}
	args := []string{"-arch", target.String(), "-v", "--warn-on-spills", "--warn-on-local-memory-usage", "-o", out}
	args = append(append(args, opts.Args...), "-")
	cmd := exec.CommandContext(ctx, t.Path, args...)
	cmd.Stdin = strings.NewReader(text)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Run(); err != nil {
		return nil, &Error{Target: target, Log: log.String(), Err: err}
	}
	return parse(log.String()), nil
}

// parse reads the report. Lines it does not know are left in Log alone.
func parse(log string) *Result {
	r := &Result{Log: log}
	entry := map[string]bool{}
	current := -1
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		text, info := strings.CutPrefix(line, "ptxas info    : ")
		switch {
		case strings.HasPrefix(line, "ptxas warning"), info && strings.HasPrefix(text, "(C"):
			_, text, _ = strings.Cut(line, ": ")
			r.Warnings = append(r.Warnings, text)
		case strings.HasPrefix(text, "Compiling entry function "):
			entry[quoted(text)] = true
		case strings.HasPrefix(text, "Function properties for "):
			name := strings.TrimPrefix(text, "Function properties for ")
			r.Kernels = append(r.Kernels, Kernel{Name: name, Entry: entry[name]})
			current = len(r.Kernels) - 1
		case current >= 0:
			r.Kernels[current].read(text)
		}
	}
	return r
}

// quoted returns what stands between the first pair of apostrophes.
func quoted(s string) string {
	if parts := strings.SplitN(s, "'", 3); len(parts) == 3 {
		return parts[1]
	}
	return ""
}

// read takes "0 bytes stack frame, ..." and "Used 42 registers, used 1 barriers, 1024 bytes smem" apart.
func (k *Kernel) read(text string) {
	fields := map[string]*int{
		"registers": &k.Registers, "barriers": &k.Barriers, "bytes smem": &k.Shared,
		"bytes stack frame": &k.Stack, "bytes spill stores": &k.SpillStores, "bytes spill loads": &k.SpillLoads,
	}
	for part := range strings.SplitSeq(text, ", ") {
		part = strings.TrimPrefix(strings.TrimPrefix(part, "Used "), "used ")
		number, what, _ := strings.Cut(part, " ")
		if n, err := strconv.Atoi(number); err == nil && fields[what] != nil {
			*fields[what] = n
		}
	}
}
