package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/internal/verify"
	"github.com/fsgen/fsgen/sampler"
)

var verifyCommand = &command{
	name: "verify", args: "[--suite NAME] [--device D]", short: "check a device's kernels against the reference",
	examples: "  fsgen verify --device cuda --suite exact\n  fsgen verify --tp 4 --device cuda:0\n",
	setup: func(f *pflag.FlagSet) func(context.Context, *env, []string) error {
		suite := f.String("suite", "quick", "suite: "+strings.Join(verify.Suites(), ", "))
		device := f.String("device", sampler.Auto, "auto, cpu, cuda, cuda:N or sim:ARCH")
		seed := f.Uint64("seed", 1, "seed of the random data; the same seed repeats the run")
		draws := f.Int64("draws", 0, "draws of the statistics (the suite's own if 0)")
		var o ranks
		o.flags(f, false)
		kind := f.String("sampler", "", "only the checks of one sampler: gumbel, grouped or greedy")
		jobs := f.Int("jobs", 0, "checks at a time (if 0: half the processors on a GPU, up to 8, and else 1)")
		match := f.String("run", "", "only the checks whose names this regular expression matches")
		return func(ctx context.Context, e *env, args []string) error {
			if err := noArgs("verify", args); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			if o.n > 0 && *jobs > 1 {
				return usagef("--jobs: ranks take one check at a time")
			}
			return runVerify(ctx, e, *device, &o, verify.Options{Suite: *suite, Sampler: *kind, Match: *match, Seed: *seed, Draws: *draws, Jobs: *jobs})
		}
	},
}

// checkVerify refuses what is wrong on any device.
func checkVerify(device string, o verify.Options) error {
	if !slices.Contains(verify.Suites(), o.Suite) {
		return usagef("--suite: unknown suite %q%s: want one of %s", o.Suite, suggest(o.Suite, verify.Suites()), strings.Join(verify.Suites(), ", "))
	}
	if err := checkDevice(device); err != nil {
		return err
	}
	if o.Sampler != "" {
		if _, err := parseSampler(o.Sampler); err != nil {
			return err
		}
	}
	if _, err := regexp.Compile(o.Match); err != nil {
		return usagef("--run: %s", err)
	}
	if o.Draws < 0 {
		return usagef("--draws is %d: want 0 or more", o.Draws)
	}
	if o.Jobs < 0 {
		return usagef("--jobs is %d: want 0 or more", o.Jobs)
	}
	return nil
}

func runVerify(ctx context.Context, e *env, device string, shared *ranks, o verify.Options) error {
	if err := checkVerify(device, o); err != nil {
		return err
	}
	rep, err := verifyDevice(ctx, e, device, shared, o)
	if none := (*verify.NoChecksError)(nil); errors.As(err, &none) {
		return usagef("%v", err)
	}
	if err != nil {
		return err
	}
	if err := printReport(e, rep); err != nil {
		return err
	}
	if rep.Failed > 0 {
		return errVerify
	}
	return nil
}

// verifyDevice runs the suite on a device, or on ranks.
func verifyDevice(ctx context.Context, e *env, device string, shared *ranks, o verify.Options) (*verify.Report, error) {
	if shared.n > 0 {
		g, err := shared.open(ctx, e, device)
		if err != nil {
			return nil, err
		}
		defer g.Close()
		e.release()
		return runSuite(ctx, e, o, func(ctx context.Context, o verify.Options) (*verify.Report, error) { return verify.RunGroup(ctx, g, o) })
	}
	dev, err := openDevice(e, device)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	e.release()
	return runSuite(ctx, e, o, func(ctx context.Context, o verify.Options) (*verify.Report, error) { return verify.Run(ctx, dev, o) })
}

// runSuite shows progress where somebody looks. It ends where nobody reads what checks found.
func runSuite(ctx context.Context, e *env, o verify.Options, run func(context.Context, verify.Options) (*verify.Report, error)) (*verify.Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	line := e.status()
	defer line.clear()
	o.Progress = func(done, total int, what string) { line.set(fmt.Sprintf("%d/%d %s", done, total, what)) }
	if !e.json {
		o.Done = func(c verify.Check) {
			line.above(func() { // what runs meanwhile
				if err := printCheck(e, c); err != nil {
					cancel(err)
				}
			})
		}
	}
	rep, err := run(ctx, o)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return rep, err
}

// printCheck prints what a check found, as soon as it is done.
func printCheck(e *env, c verify.Check) error {
	mark := "ok  "
	switch {
	case c.Skipped:
		mark = "skip"
	case !c.OK:
		mark = "FAIL"
	}
	text := fmt.Sprintf("%s %s: %d rows, %d near ties", mark, c.Name, c.Rows, c.NearTies)
	if c.Undecided > 0 {
		text += fmt.Sprintf(", %d undecided", c.Undecided)
	}
	if c.Detail != "" {
		text += "; " + c.Detail
	}
	_, err := fmt.Fprintln(e.stdout, text)
	return err
}

func printReport(e *env, rep *verify.Report) error {
	if e.json {
		return json.NewEncoder(e.stdout).Encode(rep)
	}
	if rep.Skipped > 0 {
		fmt.Fprintf(e.stdout, "%d skipped, ", rep.Skipped)
	}
	fmt.Fprintf(e.stdout, "%d passed, %d failed (suite %s, device %s, seed %d)\n", rep.Passed, rep.Failed, rep.Suite, rep.Device, rep.Seed)
	return nil
}
