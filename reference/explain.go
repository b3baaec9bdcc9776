package reference

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/fsgen/fsgen/ir"
)

// MismatchError says that a row's token cannot come from a correct kernel.
type MismatchError struct {
	Row       int
	Got, Want int32
	// Reason places the difference: the scores and their bounds, or the rule broken.
	Reason string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("reference: row %d: token %d, want %d: %s", e.Row, e.Got, e.Want, e.Reason)
}

// Explain returns nil where got is the row's token, or where float32 cannot tell the two: both scores lie within
// their bounds of each other (ScoreOf). A token of a grouped sampler has to hold twice: its block against the two best
// blocks, and itself against every token of its block. One of a truncated row may be any that rounded logits may keep, and has to
// hold against those that they keep in any case. Anything else is a *MismatchError. res is the request's Result.
func (r *Request) Explain(res *Result, b int, got int32) error {
	want := res.Tokens[b]
	if got == want {
		return nil
	}
	reason := r.mismatch(want, b, got)
	if reason == "" && res.Second[b] >= 0 {
		reason = r.mismatch(res.Second[b], b, got)
	}
	if reason == "" {
		return nil
	}
	return &MismatchError{b, got, want, reason}
}

// mismatch says why got cannot beat want; "" where it may.
func (r *Request) mismatch(want int32, b int, got int32) string {
	switch {
	case got == want:
		return ""
	case want == ir.NoToken || got == ir.NoToken:
		return "a row either has a token or has none"
	case got < 0 || int(got) >= r.Shape.Vocab:
		return fmt.Sprintf("outside [0, %d)", r.Shape.Vocab)
	}
	w := r.row(b)
	if !w.allowed(int(got)) {
		return "masked"
	}
	if r.Computation.Truncation.Any() {
		return r.mismatchKept(b, got)
	}
	if !w.grouped {
		return r.exactScore(&w, b, int(got)).below(r.exactScore(&w, b, int(want)), int(got), int(want))
	}
	if got/blockTokens != want/blockTokens {
		if reason := r.exactBlock(&w, b, int(got)).below(r.exactBlock(&w, b, int(want)), int(got), int(want)); reason != "" {
			return "its block: " + reason
		}
	}
	return r.outraced(&w, b, int(got))
}

// below says why token id, of score x, cannot beat another, of score y; "" where it may.
func (x bounded) below(y bounded, id, other int) string {
	gap, bound := y.value-x.value, x.err+y.err
	if gap == 0 && bound == 0 || math.IsInf(y.value, 1) && math.IsInf(x.value, 1) {
		if id < other {
			return ""
		}
		return "the scores are equal and the lower token wins"
	}
	if gap <= bound && !math.IsInf(gap, 1) { // -inf is no near tie, whatever its bound
		return ""
	}
	return fmt.Sprintf("score %.9g below %.9g of token %d by %.3g, bound %.3g", x.value, y.value, other, gap, bound)
}

// maxMismatches is how many differences Check reports.
const maxMismatches = 10

// Check holds the tokens and statuses of another path against the reference: every status equal, every token equal or
// a near tie (Explain). Status may be nil. It returns the reference's result, how many rows were near ties, and the
// first ten differences joined.
func (r *Request) Check(ctx context.Context, tokens []int32, status []ir.Status) (res *Result, ties int, err error) {
	if err := exactLength("tokens", len(tokens), r.Batch); err != nil {
		return nil, 0, err
	}
	if status != nil {
		if err := exactLength("status", len(status), r.Batch); err != nil {
			return nil, 0, err
		}
	}
	if res, err = Sample(ctx, r); err != nil {
		return nil, 0, err
	}
	var found []error
	for b, got := range tokens {
		if status != nil && status[b] != res.Status[b] {
			found = append(found, fmt.Errorf("reference: row %d: status %s, want %s", b, status[b], res.Status[b]))
		} else if e := r.Explain(res, b, got); e != nil {
			found = append(found, e)
		} else if got != res.Tokens[b] {
			ties++
		}
	}
	if n := len(found); n > maxMismatches {
		found = append(found[:maxMismatches], fmt.Errorf("reference: %d more rows differ", n-maxMismatches))
	}
	return res, ties, errors.Join(found...)
}
