package autotune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Runner verifies and times candidates for one computation and shape on one GPU.
type Runner interface {
	// Verify runs a candidate at a batch size, and holds its tokens against the reference's. The error says why it must not
	// be used; where the tokens are wrong, errors.Is finds ErrTokens, and where nothing more can be measured, ErrGPU.
	Verify(ctx context.Context, c Candidate, batch int) error
	// Time times candidates at a batch size: in each of a number of passes, every candidate once. times[i][p] is what
	// candidate i took in pass p, in microseconds a launch.
	Time(ctx context.Context, list []Candidate, batch, passes int) (times [][]float64, err error)
}

// ErrTokens marks a verification that failed for wrong tokens, and not for want of something.
var ErrTokens = errors.New("wrong tokens")

// ErrGPU marks an error after which the GPU can run nothing more in this process.
var ErrGPU = errors.New("the GPU can run nothing more")

// ErrNoCandidate says that no candidate of a bucket passed verification.
var ErrNoCandidate = errors.New("autotune: no candidate passed verification")

// Passes of a search: each round doubles them, and a round that drops nobody ends the search once it has had the last.
const (
	firstPasses = 5
	lastPasses  = 40
	maxRounds   = 8
)

// Measurement is what a search found about one candidate.
type Measurement struct {
	Candidate Candidate
	// Microseconds is the median of a launch's time, Spread the median absolute deviation, both in microseconds and over the
	// passes of the last round that the candidate was in.
	Microseconds, Spread float64
	// Round is that round, from 1 on, and Passes its number of passes; 0 for a candidate that was not timed.
	Round, Passes int
	// Err says why the candidate did not pass verification.
	Err error
}

// Result is what a search found.
type Result struct {
	// Measured has every candidate, in the fixed order.
	Measured []Measurement
	// Best is the index of the winner, or of the best so far where the search was cut short; -1 if there is none.
	Best int
	// Baseline is the index of the first candidate that passed verification, which stays in every round: the default tile,
	// unless that failed; -1 if there is none.
	Baseline int
}

// Winner returns the winner's measurement.
func (r *Result) Winner() *Measurement { return &r.Measured[r.Best] }

// Rejected lists what did not pass verification.
func (r *Result) Rejected() []Measurement {
	var out []Measurement
	for _, m := range r.Measured {
		if m.Err != nil {
			out = append(out, m)
		}
	}
	return out
}

// Search finds the fastest candidate at a batch size. Every candidate is verified first; one that fails never wins, and
// the search goes on without it. Then come rounds of interleaved timing, each with twice the passes of the one before:
// the better half stays, with whatever ties with the best (see tied), and the baseline, so that the gain over it is
// measured in the same passes. The winner is, of those that tie with the best of the last round, the first in the order
// given. An error, such as ctx's, cuts the search short; the result then holds what was measured before.
func Search(ctx context.Context, r Runner, candidates []Candidate, batch int) (*Result, error) {
	return search(ctx, r, candidates, batch, newMeter(nil))
}

func search(ctx context.Context, r Runner, candidates []Candidate, batch int, m *meter) (*Result, error) {
	s := &searching{runner: r, batch: batch, meter: m, Result: Result{Best: -1, Baseline: -1}}
	for _, c := range candidates {
		s.Measured = append(s.Measured, Measurement{Candidate: c})
	}
	field, err := s.verify(ctx)
	for passes, more := firstPasses, true; err == nil && more; passes = min(2*passes, lastPasses) {
		field, more, err = s.round(ctx, field, passes)
	}
	return &s.Result, err
}

// searching is a search under way. A field is a list of indices of candidates, in the fixed order.
type searching struct {
	Result
	runner Runner
	batch  int
	meter  *meter
	rounds int
}

// verify returns the field of those that passed.
func (s *searching) verify(ctx context.Context) (field []int, err error) {
	for i := range s.Measured {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m := &s.Measured[i]
		stop := s.meter.begin(verifying, 1)
		m.Err = s.runner.Verify(ctx, m.Candidate, s.batch)
		stop()
		if err := ctx.Err(); err != nil {
			m.Err = nil
			return nil, err
		}
		if errors.Is(m.Err, ErrGPU) {
			return nil, fmt.Errorf("%s: %w", m.Candidate, m.Err)
		}
		if m.Err == nil {
			field = append(field, i)
		}
	}
	if len(field) == 0 {
		return nil, s.none()
	}
	s.Baseline = field[0]
	return field, nil
}

// none says why there is no candidate, in the words of the first that failed.
func (s *searching) none() error {
	if len(s.Measured) == 0 {
		return fmt.Errorf("%w: there is none", ErrNoCandidate)
	}
	return fmt.Errorf("%w: %s: %w", ErrNoCandidate, s.Measured[0].Candidate, s.Measured[0].Err)
}

// round times a field and returns those that stay in, and whether another round can tell more.
func (s *searching) round(ctx context.Context, field []int, passes int) (stay []int, more bool, err error) {
	list := make([]Candidate, len(field))
	for i, f := range field {
		list[i] = s.Measured[f].Candidate
	}
	s.meter.plan(timing, plannedPasses(len(field), passes))
	stop := s.meter.begin(timing, len(field)*passes)
	times, err := s.runner.Time(ctx, list, s.batch, passes)
	stop()
	if err != nil {
		return nil, false, err
	}
	if err := checkTimes(times, len(list), passes); err != nil {
		return nil, false, err
	}
	s.rounds++
	for i, f := range field {
		m := &s.Measured[f]
		m.Microseconds, m.Spread, m.Round, m.Passes = median(times[i]), spread(times[i]), s.rounds, passes
	}
	stay = s.settle(field, times)
	settled := len(stay) == len(field) && passes == lastPasses
	return stay, !settled && len(field) > 1 && s.rounds < maxRounds, nil
}

// settle finds the best of a round so far, and who stays in: the better half, whoever ties with the best, the baseline.
func (s *searching) settle(field []int, times [][]float64) (stay []int) {
	ranks := make([]int, len(field)) // positions in field, best first
	for i := range ranks {
		ranks[i] = i
	}
	slices.SortStableFunc(ranks, func(a, b int) int {
		return cmp.Compare(s.Measured[field[a]].Microseconds, s.Measured[field[b]].Microseconds)
	})
	half := ranks[:betterHalf(len(ranks))]
	s.Best = -1
	for i, f := range field {
		ties := tied(times[i], times[ranks[0]])
		if ties && s.Best < 0 {
			s.Best = f
		}
		if ties || f == s.Baseline || slices.Contains(half, i) {
			stay = append(stay, f)
		}
	}
	return stay
}

// betterHalf is how many of a field stay in by rank: two to the end, so that the last round compares.
func betterHalf(field int) int { return max((field+1)/2, min(field, 2)) }

// checkTimes holds a Runner to its word.
func checkTimes(times [][]float64, candidates, passes int) error {
	if len(times) != candidates {
		return fmt.Errorf("autotune: BUG: times of %d candidates, want %d", len(times), candidates)
	}
	for _, t := range times {
		if len(t) != passes {
			return fmt.Errorf("autotune: BUG: times of %d passes, want %d", len(t), passes)
		}
		for _, us := range t {
			if !(us > 0) {
				return fmt.Errorf("autotune: BUG: a launch took %v microseconds", us)
			}
		}
	}
	return nil
}

// plannedPasses predicts how many timed passes a field of a size will take, this round's included, all candidates
// together: halving down to the baseline and one other.
func plannedPasses(field, passes int) (total int) {
	for rounds := 1; ; rounds++ {
		total += field * passes
		half := betterHalf(field)
		if half == field && passes == lastPasses || field == 1 || rounds == maxRounds {
			return total
		}
		field, passes = half, min(2*passes, lastPasses)
	}
}
