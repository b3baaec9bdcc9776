// Package stats holds the statistics by which samplers are judged. Every test statistic comes with a z: how many
// standard deviations of the standard normal its tail probability corresponds to. With fixed seeds a correct sampler
// stays within |z| < Limit once and for all.
//
// Accumulators take streams of 10^8 tokens and more: they hold counters only, and two of them merge into what one would
// have seen, so that each goroutine may have its own.
package stats

import (
	"errors"
	"fmt"
	"math"
)

// Limit is the |z| that no test with fixed seeds may pass.
const Limit = 4.5

// Result is one statistic of N observations.
type Result struct {
	Name      string
	N         int64
	Statistic float64
	// Z is the statistic's tail probability in standard deviations; 0 where there is nothing to judge.
	Z float64
	// TooFew says that so few observations tell nothing, where more would.
	TooFew bool `json:",omitempty"`
}

// String says it in one line.
func (r Result) String() string {
	return fmt.Sprintf("%s: n=%d statistic=%.6g z=%.2f", r.Name, r.N, r.Statistic, r.Z)
}

// Check returns the results whose |z| is not below limit (or is NaN) as one error; nil if there is none.
func Check(limit float64, results ...Result) error {
	var errs []error
	for _, r := range results {
		if !(math.Abs(r.Z) < limit) {
			errs = append(errs, fmt.Errorf("stats: %s, limit %.2f", r, limit))
		}
	}
	return errors.Join(errs...)
}
