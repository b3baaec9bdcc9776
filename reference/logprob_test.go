package reference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

var modes = []ir.LogProb{ir.RawLogProb, ir.TemperatureLogProb, ir.ProcessedLogProb}

// reporting is a request that asks for all that a mode has.
func reporting(mode ir.LogProb, topN int, r *Request, ids ...int32) *Request {
	c := &r.Computation
	c.LogProb, c.Rank, c.TopN, c.Listed = mode, true, topN, true
	r.ListIDs = [][]int32{ids}
	return r
}

// Case E1.
func TestModesOfLogProbs(t *testing.T) {
	for i, want := range []float64{-0.4402, -0.1451, -0.1269} {
		r := truncated(flat(1, []float32{1, 0, -1, -2}), 0, .9, 0)
		res := sample(t, reporting(modes[i], 4, withTemperature(r, .5), 0, 1, 2))
		require.InDelta(t, want, res.Listed[0][0], 5e-5)
		exact := []float64{1 / (1 + math.Exp(-1) + math.Exp(-2) + math.Exp(-3)), 1 / (1 + math.Exp(-2) + math.Exp(-4) + math.Exp(-6)), 1 / (1 + math.Exp(-2))}
		require.InDelta(t, math.Log(exact[i]), res.Listed[0][0], 1e-7)
		require.Equal(t, res.Listed[0][0], res.TopLogProbs[0])
		if modes[i] == ir.ProcessedLogProb {
			require.Equal(t, negInf, res.Listed[0][2], "cut off")
			require.Equal(t, []int32{0, 1, -1, -1}, res.TopIDs)
			require.Equal(t, []float32{negInf, negInf}, res.TopLogProbs[2:])
		}
	}
}

// Case E2: a peaked row has exactly 0, and a row without a token NaN.
func TestLogProbsAtTheEnds(t *testing.T) {
	for _, mode := range modes {
		res := sample(t, reporting(mode, 2, flat(1, []float32{100, 0, -20}), 0, 1))
		require.Equal(t, []float32{0}, res.LogProbs)
		require.False(t, math.Signbit(float64(res.LogProbs[0])))
		require.Equal(t, []int32{1}, res.Ranks)
		require.Equal(t, float32(-100), res.Listed[0][1])

		bad := reporting(mode, 2, flat(3, nil), 0, 1)
		bad.Shape.Vocab, bad.Logits = 2, []float32{negInf, negInf, nan(), 1, 2, 1}
		got := sample(t, bad)
		for b := range 2 {
			require.NotEqual(t, ir.StatusOK, got.Status[b])
			require.True(t, got.LogProbs[b] != got.LogProbs[b] && got.Listed[b][0] != got.Listed[b][0] && got.TopLogProbs[2*b] != got.TopLogProbs[2*b])
			require.Zero(t, got.Ranks[b])
			require.EqualValues(t, ir.NoToken, got.TopIDs[2*b])
		}
		require.LessOrEqual(t, got.LogProbs[2], float32(0))

		two := sample(t, reporting(mode, 1, flat(1, []float32{inf(), 1, inf()}), 0, 1))
		require.Equal(t, []float32{float32(-math.Ln2), negInf}, two.Listed[0])
	}
	alone := sample(t, reporting(ir.ProcessedLogProb, 0, allowing(flat(1, []float32{5, -3, 5}), 1)))
	require.Equal(t, []float32{0}, alone.LogProbs, "one token is allowed")
	hidden := sample(t, reporting(ir.RawLogProb, 0, allowing(flat(1, []float32{nan(), -3, 5}), 1, 2), 0, 1))
	require.Equal(t, negInf, hidden.Listed[0][0], "a NaN that is not allowed")
	require.Less(t, hidden.Listed[0][1], float32(0))
}

// Case E5: results stand in their rows; and ranks and tops follow the order of the logits.
func TestLogProbsOfRows(t *testing.T) {
	logits := normals(400, 3, 9)
	for _, mode := range modes {
		r := reporting(mode, 20, withTemperature(flat(5, logits), .5, 1, 2, 0, 1))
		r.ListIDs = [][]int32{nil, {3, 9}, nil, {399}, nil}
		res := sample(t, r)
		for b := range 5 {
			require.Len(t, res.Listed[b], len(r.ListIDs[b]))
			temperature := float64(r.Temperature[b])
			if mode == ir.RawLogProb || temperature == 0 {
				temperature = 1
			}
			prob := softmax(logits, temperature)
			for i, id := range r.ListIDs[b] {
				require.InEpsilon(t, math.Log(prob[id]), res.Listed[b][i], 1e-6)
			}
			require.InEpsilon(t, math.Log(prob[res.Tokens[b]]), res.LogProbs[b], 1e-6)
			larger := 0
			for _, l := range logits {
				if l > logits[res.Tokens[b]] {
					larger++
				}
			}
			require.EqualValues(t, larger+1, res.Ranks[b])
			order := slices.Clone(logits)
			slices.Sort(order)
			for i, id := range res.TopIDs[20*b:][:20] {
				require.Equal(t, order[len(order)-1-i], logits[id])
				require.InEpsilon(t, math.Log(prob[id]), res.TopLogProbs[20*b+i], 1e-6)
			}
		}
	}
	ties := sample(t, reporting(ir.RawLogProb, 3, withTemperature(flat(1, []float32{1, 2, 1, 2}), 0), 0))
	require.Equal(t, []int32{1, 3, 0}, ties.TopIDs)
}

// Case D17: one, two and no applications of the softcap differ.
func TestSoftcapInLogProbs(t *testing.T) {
	r := reporting(ir.RawLogProb, 0, flat(1, []float32{60, 30, 0, -60}), 0, 1, 2, 3)
	r.Computation.Chain = mustChain(t, "softcap=30")
	var capped []float32
	for _, l := range r.Logits {
		capped = append(capped, float32(30*math.Tanh(float64(l)/30)))
	}
	for v, p := range softmax(capped, 1) {
		require.InDelta(t, math.Log(p), sample(t, r).Listed[0][v], 3e-6)
	}
}

// Raw is the model's distribution, whatever the row asks for.
func TestRawLogProbsSeeTheModelAlone(t *testing.T) {
	plain := sample(t, reporting(ir.RawLogProb, 5, flat(4, normals(50, 1, 2)), 0, 1, 2, 3))
	r := reporting(ir.RawLogProb, 5, allowing(flat(4, normals(50, 1, 2)), 7, 8), 0, 1, 2, 3)
	r.Computation.Chain.Bias, r.Bias = ir.BiasVector, normals(50, 1, 3)
	got := sample(t, withTemperature(truncated(r, 1, 1, 0), .5))
	require.Equal(t, plain.Listed, got.Listed)
	require.Equal(t, plain.TopLogProbs, got.TopLogProbs)
}

// Log-probabilities of logits summed in other orders, and rounded to float32 on the way, lie within the bounds; and the bounds
// are no excuse for bf16.
func TestLogProbBounds(t *testing.T) {
	for _, mode := range modes {
		r := reporting(mode, 20, withTemperature(randomRequest(3, 2000, 64), .7), 1, 2, 3)
		r.Computation.Chain.Softcap = 20
		want, bounds := sample(t, r), r.LogProbBounds()
		for _, sum := range []func(h, w []uint16) float32{sumPairs, sumCut} {
			got := sample(t, otherwise(r, sum))
			for b := range r.Batch {
				for i, x := range want.Listed[b] {
					require.InDelta(t, x, got.Listed[b][i], bounds[b])
				}
			}
		}
		for _, bound := range bounds {
			require.Less(t, bound, 2e-3)
		}
	}
}

// Case E3: against float64 sums of the same bf16 inputs.
func TestLogProbsInFloat64(t *testing.T) {
	vocab, hidden := 4000, 512
	if heavy() {
		vocab, hidden = 151936, 4096
	}
	r := reporting(ir.RawLogProb, 0, randomRequest(1, vocab, hidden), 0, 17, int32(vocab-1))
	exact := make([]float32, vocab)
	var err float64
	for v := range exact {
		y := dotBound(r.hidden(0), r.weights(v))
		exact[v], err = float32(y.value), max(err, y.err)
	}
	prob := softmax(exact, 1)
	for i, id := range r.ListIDs[0] {
		require.InDelta(t, math.Log(prob[id]), sample(t, r).Listed[0][i], 2e-5+2*err)
	}
}

// What is reported beside them changes no token, score or log-sum-exp, bit for bit.
func TestReportsChangeNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 60 {
		r := randomRequest(1+rng.IntN(20), 1+rng.IntN(500), 8)
		randomChain(rng, r)
		want := sample(t, r)
		got := sample(t, reporting(ir.TemperatureLogProb, 3, r, 0))
		for b := range r.Batch {
			requireRow(t, want, b, got, b)
		}
		require.Equal(t, want.LogSumExp, got.LogSumExp)
	}
}

// Below the temperature whose reciprocal float32 has room for, differences of logits are over that one, but for tokens far from the first.
func TestSumsOfColdRows(t *testing.T) {
	const least = math.Log2E / math.MaxFloat32
	logits := []float32{3e-39, 0, -1e-30}
	s := 1 + math.Exp(-3e-39/least)
	for _, temperature := range []float32{4e-39, 1e-40, 1e-44, math.SmallestNonzeroFloat32} {
		for _, sampler := range []ir.Sampler{ir.Gumbel, ir.Grouped} {
			for _, mode := range modes[1:] {
				r := withTemperature(reporting(mode, 0, flat(1, logits), 0, 1, 2), temperature)
				r.Computation.Sampler, r.Computation.LogSumExp = sampler, true
				res := sample(t, r)
				for i, below := range []float64{0, -3e-39 / least, (-1e-30 - 3e-39) / float64(temperature)} {
					require.InEpsilon(t, below-math.Log(s), res.Listed[0][i], 1e-6, "token %d, T = %v", i, temperature)
				}
				require.InEpsilon(t, 3e-39/float64(temperature)+math.Log(s), res.LogSumExp[0], 1e-6)
			}
		}
		kept := reporting(ir.ProcessedLogProb, 0, truncated(flat(1, logits), 2, 1, 0), 1)
		require.InEpsilon(t, -3e-39/float64(temperature)-math.Log1p(math.Exp(-3e-39/float64(temperature))),
			sample(t, withTemperature(kept, temperature)).Listed[0][0], 1e-6, "what filters keep")
	}
}
