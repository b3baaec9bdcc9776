package reference

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// Float32 sums in other orders, with and without fused operations, stay within the bound; so does a tensor core that
// cuts off.
func TestDotBoundHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for range 3000 {
		n := 1 + rng.IntN(200)
		h, w := make([]uint16, n), make([]uint16, n)
		for k := range h {
			h[k] = toBF16(float32(rng.NormFloat64()) * float32(math.Exp2(float64(rng.IntN(12)))))
			w[k] = toBF16(float32(rng.NormFloat64()))
		}
		b := dotBound(h, w)
		exact := new(big.Float).SetPrec(300)
		for k := range h {
			exact.Add(exact, new(big.Float).Mul(bigFloat(float64(bf16(h[k]))), bigFloat(float64(bf16(w[k])))))
		}
		want, _ := exact.Float64()
		require.InDelta(t, want, b.value, 1e-13*math.Abs(want)+1e-9*b.err)
		for _, got := range []float32{sumForward(h, w), sumPairs(h, w), sumCut(h, w)} {
			require.LessOrEqual(t, math.Abs(float64(got)-b.value), b.err)
		}
	}
}

func sumForward(h, w []uint16) (y float32) {
	for k := range h {
		y += float32(bf16(h[k]) * bf16(w[k]))
	}
	return y
}

func sumPairs(h, w []uint16) float32 {
	if len(h) <= 2 {
		return sumForward(h, w)
	}
	m := len(h) / 2
	return sumPairs(h[m:], w[m:]) + sumPairs(h[:m], w[:m])
}

// sumCut adds 16 products and the accumulator at a time, each cut to 24 bits below the largest of them.
func sumCut(h, w []uint16) (y float32) {
	for first := 0; first < len(h); first += 16 {
		terms, largest := []float64{float64(y)}, math.Abs(float64(y))
		for k := first; k < min(first+16, len(h)); k++ {
			p := float64(bf16(h[k])) * float64(bf16(w[k]))
			terms, largest = append(terms, p), max(largest, math.Abs(p))
		}
		_, exp := math.Frexp(largest)
		sum := 0.0
		for _, x := range terms {
			sum += math.Trunc(math.Ldexp(x, 24-exp))
		}
		y = float32(math.Ldexp(sum, exp-24))
	}
	return y
}

func TestPlantedLogitsAreExact(t *testing.T) {
	r := planted(1, []float32{1.5, -3, 0, 1e30, 0.1}, 64)
	r.Computation.Sampler = ir.Greedy
	for v := range 5 {
		score, bound := r.ScoreOf(0, v)
		require.Equal(t, float64(bf16(r.W[v*64])), score)
		require.Zero(t, bound)
	}
}

// The reference's own float32 scores lie within the bound of the float64 ones.
func TestScoreOfHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for range 300 {
		r := randomRequest(1+rng.IntN(4), 1+rng.IntN(200), 1+rng.IntN(300))
		randomChain(rng, r)
		res := sample(t, r)
		for b := range r.Batch {
			for _, c := range []candidate{{res.Best[b], res.Tokens[b]}, {res.SecondScores[b], res.Second[b]}} {
				if c.id < 0 {
					continue
				}
				score, bound := r.ScoreOf(b, int(c.id))
				require.LessOrEqual(t, math.Abs(score-float64(c.score)), bound, "%+v", r.Computation)
				require.Less(t, bound, 1e-3*(1+math.Abs(score)+float64(r.Shape.Hidden)))
			}
		}
	}
}

func TestExplain(t *testing.T) {
	const vocab = 200
	logits := normals(vocab, 1, 1)
	logits[50], logits[60], logits[70] = 100, 100, 100+1e-5
	r := allowing(planted(1, logits, 8), 50, 60, 80)
	r.Computation.Sampler = ir.Greedy
	res := sample(t, r)
	require.EqualValues(t, 50, res.Tokens[0])
	require.NoError(t, r.Explain(res, 0, 50))
	for got, reason := range map[int32]string{
		60: "the scores are equal and the lower token wins", 80: "below", 70: "masked", vocab: "outside", -5: "outside",
		ir.NoToken: "has none",
	} {
		err := r.Explain(res, 0, got)
		var mismatch *MismatchError
		require.ErrorAs(t, err, &mismatch, "token %d", got)
		require.Contains(t, mismatch.Reason, reason)
		require.EqualValues(t, 50, mismatch.Want)
	}
}

// A token at -inf never wins, at any temperature.
func TestExplainKnowsMinusInfinity(t *testing.T) {
	for _, sampler := range []ir.Sampler{ir.Gumbel, ir.Grouped} {
		for _, temperature := range []float32{0, 0.5, 1, 3} {
			r := withTemperature(computing(ir.Computation{Sampler: sampler}, flat(1, []float32{1, negInf, 0})), temperature)
			require.Error(t, r.Explain(sample(t, r), 0, 1), "%s at T=%v", sampler, temperature)
		}
	}
}

// Two scores closer than the noise may be off are a tie; the next token is not.
func TestExplainNearTie(t *testing.T) {
	r := flat(1, []float32{0, 0, 0})
	r.Computation.Chain.Bias, r.Bias = ir.BiasVector, make([]float32, 3)
	g := make([]float64, 3)
	for v := range g {
		g[v] = Row(0, 0, 0, 0).Bits(v).Gumbel()
	}
	r.Bias = []float32{float32(5 - g[0]), float32(5 + 1e-6 - g[1]), float32(4.99 - g[2])}
	res := sample(t, r)
	require.EqualValues(t, 1, res.Tokens[0])
	require.NoError(t, r.Explain(res, 0, 0))
	require.Error(t, r.Explain(res, 0, 2))
}

// nearTieOfBlocks is a grouped row of two blocks whose scores differ by the gap, the lower block first; the bias makes the
// logits, which float32 then holds.
func nearTieOfBlocks(gap float64) *Request {
	const vocab = 48
	r := computing(ir.Computation{Sampler: ir.Grouped}, flat(1, make([]float32, vocab)))
	for block, lead := range []float64{0, gap, -3} {
		x, _ := Row(0, 0, 0, 0).Block(16 * block)
		for v := 16 * block; v < 16*block+16; v++ {
			r.Logits[v] = float32(lead + math.Log(Exponential(x)))
		}
	}
	return r
}

// Blocks closer than their noise may be off are a tie, and then the token has to be the one of its own block.
func TestExplainGroupedBlocks(t *testing.T) {
	r := nearTieOfBlocks(1e-6)
	res := sample(t, r)
	require.EqualValues(t, 1, res.Tokens[0]/16)
	require.EqualValues(t, 0, res.Second[0]/16, "the runner-up is the other block's")
	require.NoError(t, r.Explain(res, 0, res.Second[0]))
	for v := range int32(48) {
		if v == res.Tokens[0] || v == res.Second[0] {
			continue
		}
		want := "inside its block"
		if v >= 32 {
			want = "its block: score"
		}
		require.ErrorContains(t, r.Explain(res, 0, v), want, "token %d", v)
	}
	r = nearTieOfBlocks(1e-3)
	res = sample(t, r)
	require.ErrorContains(t, r.Explain(res, 0, res.Second[0]), "its block: score")
}

// So are tokens of a block, in the race that they hold among themselves.
func TestExplainGroupedTokens(t *testing.T) {
	for _, c := range []struct {
		gap float64
		tie bool
	}{{1e-6, true}, {1e-3, false}} {
		r := computing(ir.Computation{Sampler: ir.Grouped}, flat(1, make([]float32, 16)))
		for v := range r.Logits {
			r.Logits[v] = float32(math.Log(Exponential(Row(0, 0, 0, 0).Token(v))) - 1)
		}
		r.Logits[9] += 1
		r.Logits[4] += float32(1 - c.gap)
		res := sample(t, r)
		require.EqualValues(t, 9, res.Tokens[0])
		require.EqualValues(t, ir.NoToken, res.Second[0], "there is no other block")
		require.Equal(t, c.tie, r.Explain(res, 0, 4) == nil)
		require.ErrorContains(t, r.Explain(res, 0, 5), "inside its block: score")
	}
}

// Infinite logits tie whatever the noise is; masked tokens and ids of no token are wrong.
func TestExplainGroupedRules(t *testing.T) {
	logits := normals(40, 1, 1)
	logits[20], logits[21], logits[35] = inf(), inf(), inf()
	for _, temperature := range []float32{0.5, 1, 4} {
		r := withTemperature(computing(ir.Computation{Sampler: ir.Grouped}, flat(1, logits)), temperature)
		allowing(r, 1, 20, 21, 22, 35)
		res := sample(t, r)
		require.EqualValues(t, 20, res.Tokens[0])
		score, bound := r.ReportedScoreOf(0, 20)
		require.True(t, math.IsInf(score, 1))
		require.Zero(t, bound)
		for got, reason := range map[int32]string{
			21: "the lower token wins", 35: "the lower token wins", 22: "inside its block", 1: "its block: score", 2: "masked", 40: "outside",
			ir.NoToken: "has none",
		} {
			require.ErrorContains(t, r.Explain(res, 0, got), reason, "token %d", got)
		}
	}
}

func TestCheck(t *testing.T) {
	r := randomRequest(20, 300, 16)
	want := sample(t, r)
	res, ties, err := r.Check(t.Context(), want.Tokens, want.Status)
	require.NoError(t, err)
	require.Zero(t, ties)
	require.Equal(t, want, res)
	wrong := make([]int32, 20)
	for b := range wrong {
		wrong[b] = (want.Tokens[b] + 150) % 300
	}
	_, _, err = r.Check(t.Context(), wrong, nil)
	require.ErrorContains(t, err, "10 more rows differ")
	status := append([]ir.Status(nil), want.Status...)
	status[4] = ir.StatusNaN
	_, _, err = r.Check(t.Context(), want.Tokens, status)
	require.EqualError(t, err, "reference: row 4: status nan, want ok")
	_, _, err = r.Check(t.Context(), want.Tokens[1:], nil)
	require.Error(t, err)
}
