package verify

import (
	"fmt"
	"math"

	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sampler"
)

// sameRow compares slot j of one result with slot b of another, bit for bit.
func sameRow(got *sampler.Result, j int, base *sampler.Result, b int) error {
	if j >= len(got.Tokens) || b >= len(base.Tokens) {
		return fmt.Errorf("slot %d of %d tokens against row %d of %d", j, len(got.Tokens), b, len(base.Tokens))
	}
	if got.Tokens[j] != base.Tokens[b] || got.Status[j] != base.Status[b] {
		return fmt.Errorf("row %d in slot %d: token %d (%s), elsewhere %d (%s)", b, j, got.Tokens[j], got.Status[j], base.Tokens[b], base.Status[b])
	}
	if got.Scores != nil && base.Scores != nil && !sameBits(got.Scores[j], base.Scores[b]) {
		return fmt.Errorf("row %d in slot %d: score %v (%#x), elsewhere %v (%#x)", b, j, got.Scores[j], math.Float32bits(got.Scores[j]),
			base.Scores[b], math.Float32bits(base.Scores[b]))
	}
	return nil
}

// sameSums compares the log-sum-exps of two runs on the same rows, slot j of got with slot idx[j] of base: the same logits,
// added up in other orders.
func sameSums(got, base *sampler.Result, idx []int, vocab int) error {
	if len(got.LogSumExp) != len(idx) || base.LogSumExp == nil {
		if len(got.LogSumExp) == 0 && base.LogSumExp == nil {
			return nil
		}
		return fmt.Errorf("%d log-sum-exps for %d rows", len(got.LogSumExp), len(idx))
	}
	for j, b := range idx {
		a, x := float64(got.LogSumExp[j]), float64(base.LogSumExp[b])
		if a != x && !(math.IsNaN(a) && math.IsNaN(x)) && !(abs(a-x) <= 2*reference.SummationBound(vocab, x)) {
			return fmt.Errorf("row %d in slot %d: log-sum-exp %v, elsewhere %v", b, j, a, x)
		}
	}
	return nil
}
