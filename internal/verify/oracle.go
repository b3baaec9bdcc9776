package verify

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sampler"
)

// oracle is a problem with the reference's answer.
type oracle struct {
	pr  *problem
	req *reference.Request
	res *reference.Result
}

func ask(ctx context.Context, pr *problem) (*oracle, error) {
	req := pr.request()
	res, err := reference.Sample(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	return &oracle{pr, req, res}, nil
}

// mostFaults is how many wrong rows a failure lists.
const mostFaults = 4

// judge compares a device's result for the oracle's rows idx (nil: all, in order) and counts in c. Every status must be
// the reference's, every token the reference's or a near tie, every score within its bound.
func (o *oracle) judge(c *Check, idx []int, got *sampler.Result) error {
	if idx == nil {
		idx = span(0, o.pr.batch)
	}
	if err := o.complete(got, len(idx)); err != nil {
		return err
	}
	var faults []error
	for slot, b := range idx {
		c.Rows++
		if err := o.row(c, b, slot, got); err != nil {
			faults = append(faults, fmt.Errorf("slot %d of %d: %w", slot, len(idx), err))
		}
	}
	if n := len(faults); n > mostFaults {
		faults = append(faults[:mostFaults], fmt.Errorf("%d more rows are wrong", n-mostFaults))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("%s: %w", o.pr, err)
	}
	return nil
}

// complete reports a result that does not have one value a row.
func (o *oracle) complete(got *sampler.Result, rows int) error {
	scores := 0
	if o.pr.spec.Score {
		scores = rows
	}
	if len(got.Tokens) != rows || len(got.Status) != rows || len(got.Scores) != scores {
		return fmt.Errorf("%s: %d tokens, %d statuses, %d scores for %d rows", o.pr, len(got.Tokens), len(got.Status), len(got.Scores), rows)
	}
	return nil
}

func (o *oracle) row(c *Check, b, slot int, got *sampler.Result) error {
	token, status := got.Tokens[slot], got.Status[slot]
	if status != o.res.Status[b] {
		return fmt.Errorf("row %d: status %s (token %d), want %s (token %d)", b, status, token, o.res.Status[b], o.res.Tokens[b])
	}
	if err := o.req.Explain(o.res, b, token); err != nil {
		return err
	}
	if token != o.res.Tokens[b] {
		c.NearTies++
	}
	if o.pr.spec.Score {
		return o.score(b, token, got.Scores[slot])
	}
	return nil
}

// score holds a reported score to the exact one and its bound.
func (o *oracle) score(b int, token int32, got float32) error {
	if token == ir.NoToken {
		if got == got {
			return fmt.Errorf("row %d: score %v without a token, want NaN", b, got)
		}
		return nil
	}
	exact, bound := o.req.ReportedScoreOf(b, int(token))
	switch g := float64(got); {
	case g == exact:
		return nil
	case !math.IsInf(exact, 0) && abs(g-exact) <= bound:
		return nil
	case math.IsInf(g, 0) && math.Copysign(1, g)*exact+bound > math.MaxFloat32:
		return nil // beyond float32
	}
	return fmt.Errorf("row %d: score of token %d is %v, want %.9g within %.3g", b, token, got, exact, bound)
}

// String says which problem failed.
func (pr *problem) String() string {
	s := fmt.Sprintf("%s %s V=%d D=%d B=%d", pr.spec.Sampler, pr.spec.Chain, pr.shape.Vocab, pr.shape.Hidden, pr.batch)
	if pr.spec.Tile.M != 0 {
		s += " tile " + pr.spec.Tile.String()
	}
	if pr.spec.Exhaustive {
		s += " exhaustive"
	}
	return s
}
