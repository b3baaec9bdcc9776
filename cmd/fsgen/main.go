// Command fsgen emits, runs and checks fused LM-head sampling kernels.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/sampler"
)

// Exit codes.
const (
	exitOK = iota
	exitFailure
	exitUsage
	exitNoGPU
	exitVerify
)

// usageError is a mistake in the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// errVerify says that a check failed; the report has been printed.
var errVerify = errors.New("verification failed")

// env is what a command runs in.
type env struct {
	stdout, stderr io.Writer
	terminal       bool // stderr is one: progress may show
	json           bool
}

// note writes a word to the user.
func (e *env) note(format string, args ...any) {
	fmt.Fprintf(e.stderr, "fsgen: "+format+"\n", args...)
}

// command is one subcommand.
type command struct {
	name     string
	args     string // of the usage line
	short    string
	examples string
	// setup declares flags and returns what runs.
	setup func(*pflag.FlagSet) func(ctx context.Context, e *env, args []string) error
}

// registry lists the commands in the order of the help text. It is filled in by init, since some commands speak of all.
var registry []*command

func init() {
	registry = []*command{emitCommand, sampleCommand, verifyCommand, tilesCommand, modelsCommand, doctorCommand, cacheCommand,
		versionCommand, completionCommand}
}

func commands() []*command { return registry }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, &env{stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal(os.Stderr)}, os.Args[1:])
	stop()
	os.Exit(code)
}

// run runs a command line and returns the exit code.
func run(ctx context.Context, e *env, args []string) int {
	err := dispatch(ctx, e, args)
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errVerify) {
		e.note("%s", oneLine(err))
	}
	var usage *usageError
	var noGPU *sampler.NoGPUError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &noGPU):
		return exitNoGPU
	case errors.Is(err, errVerify):
		return exitVerify
	}
	return exitFailure
}

// oneLine keeps an error to one line: a compiler's log follows in FSGEN_DUMP, not here.
func oneLine(err error) string {
	text, _, cut := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	if cut {
		text += " ..."
	}
	return text
}

func dispatch(ctx context.Context, e *env, args []string) error {
	if len(args) == 0 {
		return usagef("no command given: try fsgen help")
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "--help":
		return help(e, rest)
	case "--version":
		name = "version"
	}
	c := find(name)
	if c == nil {
		return usagef("unknown command %q%s: try fsgen help", name, suggest(name, commandNames()))
	}
	flags, runner := c.flagSet(e)
	if err := flags.Parse(rest); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return c.help(e)
		}
		return usagef("%s: %v%s", c.name, err, suggestFlag(err, flags))
	}
	return runner(ctx, e, flags.Args())
}

// flagSet declares the command's flags, with those that every command has.
func (c *command) flagSet(e *env) (*pflag.FlagSet, func(context.Context, *env, []string) error) {
	flags := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.SortFlags = false
	runner := c.setup(flags)
	flags.BoolVar(&e.json, "json", false, "print JSON")
	return flags, runner
}

func find(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return c
		}
	}
	return nil
}

func commandNames() []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return names
}

func noArgs(name string, args []string) error {
	if len(args) > 0 {
		return usagef("%s: unexpected argument %q", name, args[0])
	}
	return nil
}
