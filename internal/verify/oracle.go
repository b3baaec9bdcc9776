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
	// sums are the bounds of the log-sum-exps, where the problem asks for them.
	sums []float64
	// logProbs are those of the log-probabilities.
	logProbs []float64
	// scores keeps the exact scores that were needed, by row and token.
	scores map[[2]int]bounded
}

// bounded is an exact number with how far a kernel's may lie from it.
type bounded struct{ value, bound float64 }

func ask(ctx context.Context, pr *problem) (*oracle, error) {
	req := pr.request()
	res, err := reference.Sample(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	o := &oracle{pr: pr, req: req, res: res, scores: map[[2]int]bounded{}}
	if pr.spec.LogSumExp {
		o.sums = req.LogSumExpBounds(res)
	}
	if pr.spec.LogProb != ir.NoLogProb {
		o.logProbs = req.LogProbBounds()
	}
	return o, nil
}

// mostFaults is how many wrong rows a failure lists.
const mostFaults = 4

// judge compares a device's result for the oracle's rows idx (nil: all, in order) and counts in c. Every status must be
// the reference's, every token the reference's or a near tie, every score and log-sum-exp within its bound.
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
	scores, sums, logProbs := 0, 0, 0
	if o.pr.spec.Score {
		scores = rows
	}
	if o.pr.spec.LogSumExp {
		sums = rows
	}
	if o.pr.spec.LogProb != ir.NoLogProb {
		logProbs = rows
	}
	if n := rows * o.pr.spec.TopN; len(got.TopIDs) != n || len(got.TopLogProbs) != n || o.pr.spec.Rank && len(got.Ranks) != rows || o.pr.spec.ListLogProbs && len(got.ListLogProbs) != rows {
		return fmt.Errorf("%s: %d likeliest tokens, %d ranks, %d lists for %d rows", o.pr, len(got.TopIDs), len(got.Ranks), len(got.ListLogProbs), rows)
	}
	if len(got.Tokens) != rows || len(got.Status) != rows || len(got.Scores) != scores || len(got.LogSumExp) != sums || len(got.LogProbs) != logProbs {
		return fmt.Errorf("%s: %d tokens, %d statuses, %d scores, %d log-sum-exps, %d log-probabilities for %d rows", o.pr, len(got.Tokens),
			len(got.Status), len(got.Scores), len(got.LogSumExp), len(got.LogProbs), rows)
	}
	return nil
}

func (o *oracle) row(c *Check, b, slot int, got *sampler.Result) error {
	token, status := got.Tokens[slot], got.Status[slot]
	if status == ir.StatusUndecided {
		return o.undecided(c, b, slot, got)
	}
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
		if err := o.score(b, token, got.Scores[slot]); err != nil {
			return err
		}
	}
	if o.pr.spec.LogSumExp {
		if err := o.res.ExplainLogSumExp(b, o.sums[b], got.LogSumExp[slot]); err != nil {
			return err
		}
	}
	if o.pr.spec.LogProb == ir.NoLogProb {
		return nil
	}
	if err := o.logProb(b, token, got.LogProbs[slot]); err != nil {
		return err
	}
	return o.reports(b, slot, token, got)
}

// What a kernel may leave undecided: a row that keeps more tokens than mostListed, which stay below the marks of a row's list, and
// one whose mass, in float32, leaves open where top-p cuts. massShare is above a kernel's margin, by what float32 made of logits.
const (
	mostListed = 100
	massShare  = 0x1p-13
)

// undecided holds a row that a device left undecided to having a reason.
func (o *oracle) undecided(c *Check, b, slot int, got *sampler.Result) error {
	token := got.Tokens[slot]
	if !o.pr.spec.Truncation.Any() || o.pr.cold(b) || token != ir.NoToken || o.res.Status[b] != ir.StatusOK {
		return fmt.Errorf("row %d: undecided (token %d), want %s (token %d)", b, token, o.res.Status[b], o.res.Tokens[b])
	}
	least, most, err := o.req.Kept(context.Background(), b, massShare)
	switch {
	case err != nil:
		return fmt.Errorf("reference: %w", err)
	case most <= mostListed && least == most:
		return fmt.Errorf("row %d: undecided, where the filters keep %d tokens (token %d)", b, most, o.res.Tokens[b])
	}
	c.Undecided++
	if o.pr.spec.Score {
		return o.score(b, token, got.Scores[slot])
	}
	return nil
}

// logProb holds a reported log-probability to the reference's for the token, which may be one of a near tie.
func (o *oracle) logProb(b int, token int32, got float32) error {
	want := o.res.LogProbs[b]
	if token != o.res.Tokens[b] {
		var err error
		if want, err = o.logProbOf(b, token); err != nil {
			return err
		}
	}
	switch far := abs(float64(got) - float64(want)); {
	case got == want || got != got && want != want:
		return nil
	case got <= 0 && far <= o.logProbs[b]:
		return nil
	case math.IsInf(float64(got), -1) && float64(want)-o.logProbs[b] < -math.MaxFloat32:
		return nil // beyond float32
	}
	if open, err := o.keptOpen(b, token, got); open || err != nil {
		return err
	}
	return fmt.Errorf("row %d: log-probability of token %d is %v, want %v within %.3g", b, token, got, want, o.logProbs[b])
}

// keptOpen reports whether float32 leaves open which of two sets of tokens a row keeps, and a log-probability is that of the other one:
// its top-p or min-p ends at a token.
func (o *oracle) keptOpen(b int, token int32, got float32) (bool, error) {
	if o.pr.spec.LogProb != ir.ProcessedLogProb || !(o.pr.spec.Truncation.TopP || o.pr.spec.Truncation.MinP) {
		return false, nil
	}
	for _, sign := range []float64{-1, 1} {
		share := float32(1 + sign*(o.logProbs[b]+0x1p-18))
		one := o.pr.pick([]int{b})
		one.rows.TopP, one.rows.MinP = shifted(one.rows.TopP, share), shifted(one.rows.MinP, share)
		want, err := logProbIn(one, token)
		if err != nil {
			return false, err
		}
		if got <= 0 && abs(float64(got)-float64(want)) <= o.logProbs[b] {
			return true, nil
		}
	}
	return false, nil
}

// shifted multiplies filters that are on, which stay on.
func shifted(filters []float32, share float32) (out []float32) {
	for _, p := range filters {
		if p < 1 {
			p = min(p*share, 1)
		}
		out = append(out, p)
	}
	return out
}

// logProbOf asks the reference for the log-probability of another token than a row's.
func (o *oracle) logProbOf(b int, token int32) (float32, error) {
	return logProbIn(o.pr.pick([]int{b}), token)
}

// logProbIn asks the reference for the log-probability of a token in a problem of one row.
func logProbIn(one *problem, token int32) (float32, error) {
	one.spec.ListLogProbs, one.rows.ListIDs = true, [][]int32{{token}}
	res, err := reference.Sample(context.Background(), one.request())
	if err != nil {
		return 0, fmt.Errorf("reference: %w", err)
	}
	return res.Listed[0][0], nil
}

// exact is the exact score of a token, as devices report it.
func (o *oracle) exact(b int, token int32) (score, bound float64) {
	key := [2]int{b, int(token)}
	x, ok := o.scores[key]
	if !ok {
		x.value, x.bound = o.req.ReportedScoreOf(b, int(token))
		o.scores[key] = x
	}
	return x.value, x.bound
}

// score holds a reported score to the exact one and its bound.
func (o *oracle) score(b int, token int32, got float32) error {
	if token == ir.NoToken {
		if got == got {
			return fmt.Errorf("row %d: score %v without a token, want NaN", b, got)
		}
		return nil
	}
	exact, bound := o.exact(b, token)
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
	if pr.spec.LogSumExp {
		s += " log-sum-exp"
	}
	if pr.spec.LogProb != ir.NoLogProb {
		s += " " + pr.spec.LogProb.String() + " log-probabilities"
	}
	if pr.spec.Slots {
		s += " slots"
	}
	if pr.spec.Truncation.Any() {
		s += " " + pr.spec.Truncation.String()
	}
	return s
}
