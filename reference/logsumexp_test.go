package reference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// logSumExp is the first row's, of the logits given.
func logSumExp(t *testing.T, r *Request) float64 {
	t.Helper()
	r.Computation.LogSumExp = true
	return float64(sample(t, r).LogSumExp[0])
}

func TestLogSumExp(t *testing.T) {
	for _, vocab := range []int{1, 15, 16, 17, 4096, 151936} {
		require.InDelta(t, math.Log(float64(vocab)), logSumExp(t, flat(1, make([]float32, vocab))), 1e-6)
	}
	logits := []float32{1000, 999, -3e38, negInf}
	lse := 1000 + math.Log1p(math.Exp(-1))
	require.InDelta(t, lse, logSumExp(t, flat(1, logits)), 1e-4)
	require.InDelta(t, lse, logSumExp(t, withTemperature(flat(1, logits), 0)), 1e-4, "T = 0 counts as 1")
	require.InDelta(t, 500+math.Log1p(math.Exp(-0.5)), logSumExp(t, withTemperature(flat(1, logits), 2)), 1e-4)
	require.InDelta(t, 4000+math.Log1p(math.Exp(-4)), logSumExp(t, withTemperature(flat(1, logits), 0.25)), 1e-3)
	require.Equal(t, 999.0, logSumExp(t, allowing(flat(1, logits), 1, 3)))
	require.Equal(t, math.Inf(1), logSumExp(t, flat(1, []float32{1, inf(), inf()})))
	require.Equal(t, math.Inf(1), logSumExp(t, withTemperature(flat(1, []float32{3e38, 0}), 1e-6)), "past float32")
	greedy := computing(ir.Computation{Sampler: ir.Greedy}, flat(1, logits))
	require.InDelta(t, lse, logSumExp(t, greedy), 1e-4)
	require.Nil(t, sample(t, flat(1, logits)).LogSumExp, "nobody asked")
}

// Rows without a token have no log-sum-exp.
func TestLogSumExpOfFailedRows(t *testing.T) {
	for _, r := range []*Request{
		flat(1, []float32{negInf, negInf}), flat(1, []float32{1, nan()}), allowing(flat(1, []float32{1, 2})),
		withTemperature(flat(1, []float32{1, 2}), -1),
	} {
		require.True(t, math.IsNaN(logSumExp(t, r)))
	}
	require.Equal(t, 1.0, logSumExp(t, allowing(flat(1, []float32{1, nan()}), 0)), "a masked NaN is not seen")
}

// The masses' sum is the same on any number of goroutines and in any batch (TestGoroutinesDoNotMatter,
// TestBatchAndSlotDoNotMatter); the samplers and what they skip have no part in it.
func TestLogSumExpIsTheSamplersBusiness(t *testing.T) {
	r := withTemperature(randomRequest(5, 9000, 24), 0.7, 1, 2, 1e-3, 30)
	var want []float32
	for _, s := range []ir.Sampler{ir.Gumbel, ir.Grouped} {
		for _, noSkip := range []bool{false, true} {
			r.Computation.Sampler, r.Computation.LogSumExp, r.NoSkip = s, true, noSkip
			got := sample(t, r).LogSumExp
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
		}
	}
}

// A kernel's way to the sum, in float32 and in an order of its own, stays within the bound.
func TestLogSumExpBoundsHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 4))
	for range draws(300, 3000) {
		r := randomRequest(1+rng.IntN(4), 1+rng.IntN(3000), 1+rng.IntN(300))
		randomChain(rng, r)
		r.Computation.LogSumExp = true
		res := sample(t, r)
		bounds := r.LogSumExpBounds(res)
		for b, bound := range bounds {
			got, want := roundedLogSumExp(rng, r, b), float64(res.LogSumExp[b])
			require.LessOrEqual(t, math.Abs(got-want), bound, "%+v", r.Computation)
			require.NoError(t, res.ExplainLogSumExp(b, bound, float32(want-bound/2)))
			require.ErrorContains(t, res.ExplainLogSumExp(b, bound, float32(want+2*bound)), "log-sum-exp")
			require.Error(t, res.ExplainLogSumExp(b, bound, nan()))
			require.Less(t, bound, 1e-3*(1+math.Abs(want)+float64(r.Shape.Hidden)))
		}
	}
}

// Planted logits leave no room for a token that is missing from the sum.
func TestLogSumExpBoundsAreTight(t *testing.T) {
	for _, vocab := range []int{1, 100, 5000, 151936} {
		r := planted(1, make([]float32, vocab), 8)
		r.Computation.LogSumExp = true
		missing := -math.Log1p(-float64(min(vocab-1, 64)) / float64(vocab))
		if bound := r.LogSumExpBounds(sample(t, r))[0]; vocab > 1 {
			require.Less(t, bound, missing/2, "V=%d: 64 tokens of %d", vocab, vocab)
		}
	}
}

// roundedLogSumExp sums in float32, in a random order, with logits summed forward.
func roundedLogSumExp(rng *rand.Rand, r *Request, b int) float64 {
	w := r.row(b)
	t, ids := float32(w.massTemperature()), rng.Perm(r.Shape.Vocab)
	var z []float32
	for _, v := range ids {
		if w.allowed(v) {
			y := r.exactRaw(b, v).value
			if r.Logits == nil {
				y = float64(sumPairs(r.hidden(b), r.weights(v)))
			}
			z = append(z, w.transform(float32(y), v))
		}
	}
	top, sum := slices.Max(z), float32(0)
	for _, x := range z {
		sum += float32(math.Exp(float64(float32((x - top) * (1 / t)))))
	}
	return float64(float32(top*(1/t)) + float32(math.Log(float64(sum))))
}
