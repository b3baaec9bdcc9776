package reference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// otherwise is a request with the logits that another order of summation gives.
func otherwise(r *Request, sum func(h, w []uint16) float32) *Request {
	out := *r
	out.H, out.W, out.Logits = nil, nil, nil
	for b := range r.Batch {
		for v := range r.Shape.Vocab {
			out.Logits = append(out.Logits, sum(r.hidden(b), r.weights(v)))
		}
	}
	return &out
}

// inPairs is a request of near ties: pairs of tokens that differ by the order of their weights alone, and so of summation.
func inPairs(rng *rand.Rand, batch, vocab int) *Request {
	r := randomRequest(batch, vocab, 64)
	for i := range r.H {
		r.H[i] = toBF16(1 + float32(i/64)/8) // the same in a row
	}
	for i := range r.W {
		r.W[i] = toBF16(float32(math.Ldexp(rng.NormFloat64(), -rng.IntN(16)))) // so far apart that sums round
	}
	for v := 1; v < vocab; v += 2 {
		copy(r.weights(v), r.weights(v-1))
		slices.Reverse(r.weights(v))
	}
	return r
}

// Whatever the order of summation, a truncated row's token is explained, and every token that is cut off for certain is not.
func TestExplainTruncated(t *testing.T) {
	rng, ties, refused := rand.New(rand.NewPCG(4, 4)), 0, 0
	for range 20 {
		r := inPairs(rng, 12, 10+rng.IntN(60))
		r.Computation.Sampler = []ir.Sampler{ir.Gumbel, ir.Greedy}[rng.IntN(2)]
		r = withTemperature(truncated(r, []int32{0, 2, 5, 20}[rng.IntN(4)], []float32{.3, .5, .9, 1}[rng.IntN(4)], []float32{0, .1, .5}[rng.IntN(3)]), .8)
		r.Seeds, r.Positions = r.Seeds[:12], []uint64{rng.Uint64()}
		want := sample(t, r)
		for _, sum := range []func(h, w []uint16) float32{sumPairs, sumCut} {
			got := sample(t, otherwise(r, sum))
			for b := range r.Batch {
				require.NoError(t, r.Explain(want, b, got.Tokens[b]))
				if got.Tokens[b] != want.Tokens[b] {
					ties++
				}
			}
		}
		w := r.row(0)
		d := r.boundary(&w, 0)
		for _, e := range d.all {
			require.False(t, d.dropped(e) != "" && d.kept(e))
			if d.dropped(e) != "" {
				require.ErrorContains(t, r.Explain(want, 0, e.id), "cut off")
				refused++
			}
		}
	}
	t.Logf("%d near ties, %d tokens refused", ties, refused)
	require.Positive(t, ties)
	require.Greater(t, refused, 200)
}

// Exact logits leave nothing open: what is kept is what may be kept.
func TestBoundaryOfExactLogits(t *testing.T) {
	for _, c := range []struct {
		k       int32
		p, minP float32
	}{{3, 1, 0}, {0, .9, 0}, {0, 1, .2}, {4, .7, .1}, {0, 0, 0}} {
		r := truncated(planted(1, []float32{1, 2, 2, 2, 3, -1, 0.5, negInf}, 8), c.k, c.p, c.minP)
		w := r.row(0)
		d := r.boundary(&w, 0)
		var may, must []int32
		for _, e := range d.all {
			if d.dropped(e) == "" {
				may = append(may, e.id)
			}
			if d.kept(e) {
				must = append(must, e.id)
			}
		}
		want := keptIDsOfWeights(r, 0)
		require.ElementsMatch(t, want, may, "%+v", c)
		require.ElementsMatch(t, want, must, "%+v", c)
	}
	r := truncated(planted(1, []float32{1, 2, 2, 2, 3}, 8), 2, 1, 0)
	res := sample(t, r)
	require.ErrorContains(t, r.Explain(res, 0, 2), "cut off by top-k: 2 tokens stand before it")
	require.Equal(t, ir.StatusOK, res.Status[0])
}
