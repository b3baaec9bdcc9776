// Command fsgen emits, runs and checks fused LM-head sampling kernels.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/templates"
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

// command is one subcommand.
type command struct {
	name     string
	args     string // of the usage line
	short    string
	examples string
	noJSON   bool // what it prints is neither data nor a report
	// setup declares flags and returns what runs.
	setup func(*pflag.FlagSet) func(ctx context.Context, e *env, args []string) error
}

// registry lists the commands in the order of the help text. It is filled in by init, since some commands speak of all.
var registry []*command

func init() {
	registry = []*command{emitCommand, sampleCommand, verifyCommand, benchCommand, tuneCommand, tilesCommand, modelsCommand, doctorCommand, cacheCommand,
		versionCommand, completionCommand}
}

func commands() []*command { return registry }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first Ctrl-C asks, the second ends the process
	code := run(ctx, &env{stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal(os.Stderr), patience: patience}, os.Args[1:])
	stop()
	os.Exit(code)
}

// run runs a command line and returns the exit code.
func run(ctx context.Context, e *env, args []string) int {
	out := &output{w: e.stdout}
	e.stdout = out
	err := dispatch(ctx, e, args)
	if err == nil {
		err = out.err
	}
	if err == nil || errors.Is(err, errVerify) {
		e.release()
	}
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errVerify) {
		e.fail(ctx, err)
	}
	var noGPU *sampler.NoGPUError
	switch {
	case isUsage(err):
		return exitUsage
	case errors.As(err, &noGPU):
		return exitNoGPU
	case errors.Is(err, errVerify):
		return exitVerify
	}
	return exitFailure
}

// isUsage reports whether flags were wrong: each by itself, or together, as where no kernel does what they ask for.
func isUsage(err error) bool {
	var usage *usageError
	var lacking *sampler.UnsupportedError
	var missing *templates.UnsupportedError
	return errors.As(err, &usage) || errors.As(err, &lacking) || errors.As(err, &missing)
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
		return c.parseError(err, flags)
	}
	if err := c.checkFlags(flags); err != nil {
		return err
	}
	return runner(ctx, e, flags.Args())
}

// valueRules say which values the types of flags take.
var valueRules = map[string]string{
	"bool": "true or false", "int": "an integer of 64 bits", "int64": "an integer of 64 bits", "uint32": "an integer from 0 to 4294967295",
	"uint64": "an integer from 0 to 18446744073709551615", "float32": "a number that fits float32",
	"int32Slice": "ids from 0 to 2147483647, as in 1,2,3",
}

// parseError is what pflag refuses, with the rule for a value that it cannot read.
func (c *command) parseError(err error, flags *pflag.FlagSet) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return usagef("%s: %v%s", c.name, err, suggestFlag(err, flags))
	}
	f := bad.GetFlag()
	if bad.GetValue() == "" {
		return c.emptyFlag(f)
	}
	return usagef("%s: --%s is %q: want %s", c.name, f.Name, bad.GetValue(), valueRules[f.Value.Type()])
}

func (c *command) emptyFlag(f *pflag.Flag) error {
	return usagef("%s: --%s is empty: want a value, or leave it out", c.name, f.Name)
}

// flagSet declares the command's flags, with those that every command has.
func (c *command) flagSet(e *env) (*pflag.FlagSet, func(context.Context, *env, []string) error) {
	flags := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.SortFlags = false
	runner := c.setup(flags)
	if !c.noJSON {
		flags.BoolVar(&e.json, "json", false, "print JSON, a line for each of several")
	}
	return flags, runner
}

// checkFlags refuses flags whose value is empty: nearly always a shell variable that was not set.
func (c *command) checkFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = c.emptyFlag(f)
		}
	})
	return err
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
