package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fsgen/fsgen/ir"
)

// Layouts of the weights. Each is a contender of its own.
const (
	RowMajor = "rowmajor"
	Packed   = "packed"
)

// Ways of launching a kernel: as soon as the one before it lets it (programmatic dependent launch), which is what a plan
// does, or when that one has ended.
const (
	Overlap = "overlap"
	Serial  = "serial"
)

// Config says what to time.
type Config struct {
	// Model is a name for the shape, of letters, digits, '.', '_' and '-'.
	Model string
	Shape ir.Shape
	// Computation is what fsgen's kernels compute.
	Computation ir.Computation
	Batches     []int
	// Layouts are those of fsgen's weights; Peers are the other contenders: Cublas or none.
	Layouts, Peers []string
	// Launches are the ways in which kernels of ours are launched, each timed: Serial, Overlap or both.
	Launches []string
	Method   Method
	// Progress is told what is going on, and how much of it is done.
	Progress func(done, total int, what string)
}

// Names of what can be asked for.
var (
	LayoutNames = []string{RowMajor, Packed}
	PeerNames   = []string{Cublas}
	LaunchNames = []string{Overlap, Serial}
)

// DefaultMethod is long enough for a median within a percent, and too short for one contender to heat the GPU for the
// next: a replay of 20 launches over a head of 1.2 GB takes 6 ms.
var DefaultMethod = Method{Launches: 20, Replays: 21, WarmUps: 5}

// Check says what is wrong with a configuration, before any device is needed.
func (c *Config) Check() error {
	if err := c.Shape.Validate(); err != nil {
		return err
	}
	if err := c.Computation.Validate(); err != nil {
		return err
	}
	if err := c.checkBatches(); err != nil {
		return err
	}
	if err := checkNames("weights", c.Layouts, LayoutNames, 1); err != nil {
		return err
	}
	for _, layout := range c.Layouts {
		if err := supported(layout); err != nil {
			return err
		}
	}
	if err := checkNames("peers", c.Peers, PeerNames, 0); err != nil {
		return err
	}
	if err := checkNames("launch", c.Launches, LaunchNames, 1); err != nil {
		return err
	}
	return c.Method.check()
}

func (c *Config) checkBatches() error {
	if len(c.Batches) == 0 {
		return errors.New("no batch sizes")
	}
	for i, b := range c.Batches {
		if b < 1 {
			return fmt.Errorf("batch size %d: want 1 or more", b)
		}
		if slices.Contains(c.Batches[:i], b) {
			return fmt.Errorf("batch size %d is named twice", b)
		}
	}
	return nil
}

func checkNames(what string, names, from []string, least int) error {
	if len(names) < least {
		return fmt.Errorf("%s: want one of %s", what, strings.Join(from, ", "))
	}
	for i, name := range names {
		if !slices.Contains(from, name) {
			return fmt.Errorf("%s: unknown %q: want %s", what, name, choices(from, least))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("%s: %s is named twice", what, name)
		}
	}
	return nil
}

// choices names what can be asked for: of what need not be there, none too.
func choices(from []string, least int) string {
	if least == 0 {
		from = append(slices.Clone(from), "none")
	}
	return strings.Join(from, " or ")
}

// problem describes the computation in a report.
func (c *Config) problem() Problem {
	n := c.Computation.Normalize()
	p := Problem{Model: c.Model, Vocab: c.Shape.Vocab, Hidden: c.Shape.Hidden, Transform: n.Chain.String(), Sampler: n.Sampler.String(), LogSumExp: n.LogSumExp}
	if n.LogProb != ir.NoLogProb {
		p.LogProb = n.LogProb.String()
	}
	if n.Truncation.Any() {
		p.Truncation = n.Truncation.String()
	}
	return p
}
