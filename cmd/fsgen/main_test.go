package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets scripts and tests run this very binary as fsgen.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"fsgen": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			// No GPU, so that every machine gives the same; no cache or ptxas of the user's.
			e.Setenv("FSGEN_CUDA_LIB", filepath.Join(e.WorkDir, "no-libcuda.so"))
			e.Setenv("FSGEN_CACHE_DIR", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("GORACE", "atexit_sleep_ms=0") // a second for each of hundreds of processes
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Getuid() == 0, nil
			case "race":
				return raceEnabled, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fails": cmdFails, "npy": cmdNpy, "weights": cmdWeights, "cut": cmdCut, "patch": cmdPatch, "listing": cmdListing,
		},
	})
}

// cmdFails is "fails CODE PATTERN ARG...": fsgen ends with the code, prints nothing, and one line to standard error that
// matches.
func cmdFails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fails CODE PATTERN ARG...")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec("fsgen", args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	if want, _ := strconv.Atoi(args[0]); code != want {
		ts.Fatalf("exit code %d, want %d: %s", code, want, ts.ReadFile("stderr"))
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("a failing run printed %q", out)
	}
	text := ts.ReadFile("stderr")
	if !strings.HasPrefix(text, "fsgen: ") || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("want one line, got %q", text)
	}
	if text = strings.TrimSuffix(text, "\n"); !regexp.MustCompile(args[1]).MatchString(text) {
		ts.Fatalf("%q does not match %q", text, args[1])
	}
}

// cmdListing is "listing DIR NAME...": the directory has exactly these files, hidden ones too.
func cmdListing(ts *testscript.TestScript, _ bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names, " "), strings.Join(args[1:], " "); got != want {
		ts.Fatalf("%s holds %q, want %q", args[0], got, want)
	}
}

// runIn runs a command line inside the test's process.
func runIn(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, &env{stdout: &out, stderr: &errs}, args)
	return code, out.String(), errs.String()
}

// scripted is a command that gives an error, for the exit codes that a healthy machine does not show.
func scripted(t *testing.T, err error) {
	saved := registry
	t.Cleanup(func() { registry = saved })
	setup := func(*pflag.FlagSet) func(context.Context, *env, []string) error {
		return func(_ context.Context, e *env, _ []string) error {
			e.note("a note")
			fmt.Fprintln(e.stdout, "a report")
			return err
		}
	}
	registry = []*command{{name: "scripted", setup: setup}}
}

func TestVerificationFailureKeepsReportAndNotes(t *testing.T) {
	scripted(t, errVerify)
	code, out, errs := runIn(t.Context(), "scripted")
	assert.Equal(t, exitVerify, code)
	assert.Equal(t, "a report\n", out)
	assert.Equal(t, "fsgen: a note\n", errs)
}

func TestErrorIsOneLineWithoutNotes(t *testing.T) {
	scripted(t, errors.New("ptxas said:\nline 7: \x1b[31mbad"))
	code, _, errs := runIn(t.Context(), "scripted")
	assert.Equal(t, exitFailure, code)
	assert.Equal(t, "fsgen: ptxas said: ...\n", errs)

	scripted(t, errors.New("file a\rb\x1b[2J"))
	_, _, errs = runIn(t.Context(), "scripted")
	assert.Equal(t, "fsgen: file a?b?[2J\n", errs)
}

func TestFailingOutputIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"version"}, {"help", "emit"}, {"completion", "bash"}, {"models"}, {"models", "--json"}, {"tiles"},
		{"doctor"}, {"sample", "--device", "cpu"}, {"emit", "--vocab", "10", "--hidden", "8", "-o", "-"}} {
		var errs bytes.Buffer
		code := run(t.Context(), &env{stdout: fullDisk{}, stderr: &errs}, args)
		assert.Equal(t, exitFailure, code, args)
		assert.Contains(t, errs.String(), "standard output: no space left", args)
	}
}

// fullDisk is an output that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// cancelOnWrite ends a context at the first output: work is under way then.
type cancelOnWrite struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (c *cancelOnWrite) Write(p []byte) (int, error) {
	c.cancel()
	return c.Buffer.Write(p)
}

func TestCancelledWorkSaysInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	errs := &cancelOnWrite{cancel: cancel}
	var out bytes.Buffer
	code := run(ctx, &env{stdout: &out, stderr: errs, terminal: true}, []string{"verify", "--device", "cpu"})
	assert.Equal(t, exitFailure, code)
	assert.True(t, strings.HasSuffix(errs.String(), "fsgen: interrupted\n"), "%q", errs.String())
	assert.Empty(t, out.String())

	dir := filepath.Join(t.TempDir(), "k")
	for _, args := range [][]string{{"emit", "--vocab", "10", "--hidden", "8", "-o", dir}, {"sample", "--device", "cpu"}} {
		code, stdout, _ := runIn(ctx, args...)
		assert.Equal(t, exitFailure, code, args)
		assert.Empty(t, stdout, args)
	}
	assert.NoDirExists(t, dir)
}

func TestInterruptSignal(t *testing.T) {
	cmd := exec.Command("fsgen", "verify", "--suite", "full")
	cmd.Env = append(os.Environ(), "FSGEN_CUDA_LIB=/nowhere.so")
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	first := make([]byte, 1)
	_, err = errs.Read(first) // the note on the device: signals are handled by now
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	var rest bytes.Buffer
	_, err = rest.ReadFrom(errs)
	require.NoError(t, err)
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	assert.Equal(t, exitFailure, exit.ExitCode())
	assert.True(t, strings.HasSuffix(rest.String(), "fsgen: interrupted\n"), "%q", rest.String())
}

// Every type of flag has its rule in words.
func TestValueRulesKnowEveryType(t *testing.T) {
	for _, c := range commands() {
		flags, _ := c.flagSet(&env{})
		flags.VisitAll(func(f *pflag.Flag) {
			if kind := f.Value.Type(); kind != "string" {
				assert.Contains(t, valueRules, kind, "%s --%s", c.name, f.Name)
			}
		})
	}
}
