package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/sampler"
)

// Options says what to run.
type Options struct {
	// Suite is one of Suites; "" means quick.
	Suite string
	// Sampler, where not empty, leaves only the checks of one sampler; those that compare several are the default's.
	Sampler string
	// Match, where not empty, is a regular expression that leaves only the checks whose names it matches.
	Match string
	// Seed makes all random data and all samples; the same seed repeats a run exactly.
	Seed uint64
	// Draws is how many tokens the largest statistic takes, the others in proportion; 0 means 1e8 on a GPU, 2e6 on the CPU.
	Draws int64
	// Jobs is how many checks run at a time; 0 means half the processors on a GPU, up to 8, and 1 elsewhere. Ranks take one at a time.
	// What the checks find does not depend on it; where the device fails, which of those that ran had to do with it is not known.
	Jobs int
	// Progress, where not nil, hears how many checks are done and what runs now.
	Progress func(done, total int, what string)
	// Done, where not nil, hears of every check, in the order of the suite, when it and those before have been made; at the end of a
	// run that was cut short, of all that have been made. Of both functions one is called at a time.
	Done func(Check)
}

// NoChecksError says that a suite has none of what is asked for.
type NoChecksError struct{ Suite, Sampler, Match, Device string }

func (e *NoChecksError) Error() string {
	which := ""
	if e.Sampler != "" {
		which += " of the sampler " + e.Sampler
	}
	if e.Match != "" {
		which += fmt.Sprintf(" that %q matches", e.Match)
	}
	return fmt.Sprintf("verify: suite %s has no checks%s for %s", e.Suite, which, e.Device)
}

// Check is what one check found.
type Check struct {
	Name string `json:"name"`
	// Case is the case from the field that the check holds, such as "B2"; often none.
	Case string `json:"case,omitempty"`
	// Rows is how many sampled rows were compared or counted.
	Rows int `json:"rows"`
	// NearTies is how many of them differ from the reference within what float32 can tell.
	NearTies int `json:"near_ties"`
	// Undecided is how many rows a device left without a token, as it may: top-p or min-p kept more tokens than it can list.
	Undecided int `json:"undecided,omitempty"`
	// Detail says what was wrong, or what was measured.
	Detail string `json:"detail,omitempty"`
	OK     bool   `json:"ok"`
	// Skipped says that the ranks of a group do not do what the check is about: it neither passed nor failed.
	Skipped bool `json:"skipped,omitempty"`
	// Stat is the statistic furthest from its expectation; an infinite z is written as the largest finite one.
	Stat    *stats.Result `json:"stat,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns"`
}

// Report is the result of a suite.
type Report struct {
	Suite  string  `json:"suite"`
	Device string  `json:"device"`
	Seed   uint64  `json:"seed"`
	Checks []Check `json:"checks"`
	Passed int     `json:"passed"`
	Failed int     `json:"failed"`
	// Skipped counts the checks of what ranks do not do; Ranks are those of a group, 0 for a device.
	Skipped int `json:"skipped,omitempty"`
	Ranks   int `json:"ranks,omitempty"`
}

// suite makes the checks of a run.
type suite struct {
	name  string
	items func(r *run) []item
}

var suites = []suite{
	{"quick", quick},
	{"exact", exact},
	{"degenerate", degenerate},
	{"invariance", invariance},
	{"full", full},
}

// Suites lists the names of the suites.
func Suites() []string {
	var names []string
	for _, s := range suites {
		names = append(names, s.name)
	}
	return names
}

// Run runs a suite on a device. A wrong answer is a failed check of the report; the error is for what kept the suite from
// running to its end: an unknown suite, a cancelled context, a device that has become useless. The report then holds the
// checks up to there.
func Run(ctx context.Context, dev *sampler.Device, o Options) (*Report, error) {
	return runOn(ctx, device{dev}, o)
}

// RunGroup is Run on the ranks of a group. Checks of what ranks do not do are skipped.
func RunGroup(ctx context.Context, g *sampler.Group, o Options) (*Report, error) {
	rep, err := runOn(ctx, deviceGroup{g}, o)
	if rep != nil {
		rep.Ranks = g.World()
	}
	return rep, err
}

func runOn(ctx context.Context, dev target, o Options) (*Report, error) {
	if o.Suite == "" {
		o.Suite = "quick"
	}
	for _, s := range suites {
		if s.name == o.Suite {
			return newRun(dev, o).do(ctx, s)
		}
	}
	return nil, fmt.Errorf("verify: unknown suite %q: want one of %v", o.Suite, Suites())
}
