package tune

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sampler"
)

// smallShape is the problem that the reference solves: several tiles of the tallest kind in a cluster of two and a part of
// one, and more columns than the deepest ring holds, with a part of a stage at the end.
var smallShape = ir.Shape{Vocab: 1205, Hidden: 840}

// oracle knows the reference's answer to a small problem.
type oracle struct {
	in  *inputs
	req *reference.Request
	res *reference.Result
	lse []float64 // bounds of the log-sum-exp, where the computation asks for it
}

// newOracle asks the reference. One hidden state is NaN, which must cost its own row the token and no other.
func newOracle(ctx context.Context, c ir.Computation, batch int) (*oracle, error) {
	in := newInputs(c, smallShape, batch)
	if batch > 2 {
		in.hidden[2*smallShape.Hidden+5] = 0x7fc0
	}
	o := &oracle{in: in, req: &reference.Request{
		H: in.hidden, W: smallWeights().rows(smallShape.Vocab), Batch: batch, Shape: smallShape, Computation: c,
		Seeds: in.rows.Seeds, Positions: in.rows.Positions, Temperature: in.rows.Temperature, Bias: in.rows.Bias, Mask: in.rows.Mask,
	}}
	if c.Chain.Bias == ir.BiasMatrix {
		o.req.BiasStride = smallShape.Vocab
	}
	if c.Chain.Mask {
		o.req.MaskStride, o.req.MaskWords = maskWords(smallShape), maskWords(smallShape)
	}
	var err error
	if o.res, err = reference.Sample(ctx, o.req); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	if c.LogSumExp {
		o.lse = o.req.LogSumExpBounds(o.res)
	}
	return o, nil
}

func smallWeights() matrix { return newWeights(smallShape.Hidden, 1<<18) }

// judge holds a result to the reference's: every status equal, every token and log-sum-exp too, unless float32 cannot tell it
// from the reference's.
func (o *oracle) judge(got *sampler.Result) error {
	if err := complete(got, o.in.batch); err != nil {
		return err
	}
	if len(got.LogSumExp) != len(o.res.LogSumExp) {
		return fmt.Errorf("%w: %d log-sum-exps for %d rows", autotune.ErrTokens, len(got.LogSumExp), o.in.batch)
	}
	var faults []error
	for b, token := range got.Tokens {
		if got.Status[b] != o.res.Status[b] {
			faults = append(faults, fmt.Errorf("row %d: status %s, want %s", b, got.Status[b], o.res.Status[b]))
		} else if err := o.req.Explain(o.res, b, token); err != nil {
			faults = append(faults, err)
		} else if o.lse != nil {
			faults = append(faults, o.res.ExplainLogSumExp(b, o.lse[b], got.LogSumExp[b]))
		}
	}
	return wrong("against the reference", slices.DeleteFunc(faults, func(err error) bool { return err == nil }))
}

// same holds a result to that of another kernel on the same inputs, bit for bit but for the log-sum-exp, which each kernel sums
// in an order of its own.
func same(want, got *sampler.Result) error {
	if err := complete(got, len(want.Tokens)); err != nil {
		return err
	}
	var faults []error
	for b, token := range got.Tokens {
		switch {
		case token != want.Tokens[b] || got.Status[b] != want.Status[b]:
			faults = append(faults, fmt.Errorf("row %d: token %d (%s), want %d (%s)", b, token, got.Status[b], want.Tokens[b], want.Status[b]))
		case want.Scores != nil && math.Float32bits(got.Scores[b]) != math.Float32bits(want.Scores[b]):
			faults = append(faults, fmt.Errorf("row %d: score %v of token %d, want %v", b, got.Scores[b], token, want.Scores[b]))
		}
	}
	return wrong("against the default tile", faults)
}

func complete(got *sampler.Result, rows int) error {
	if len(got.Tokens) != rows || len(got.Status) != rows {
		return fmt.Errorf("%w: %d tokens and %d statuses for %d rows", autotune.ErrTokens, len(got.Tokens), len(got.Status), rows)
	}
	return nil
}

// wrong makes one error of faults.
func wrong(what string, faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w %s in %d rows, the first: %w", autotune.ErrTokens, what, len(faults), faults[0])
}
