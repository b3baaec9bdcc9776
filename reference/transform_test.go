package reference

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// greedyScores returns each token's z by allowing one token a row.
func greedyScores(t *testing.T, chain string, logits, bias []float32) []float32 {
	n := len(logits)
	r := flat(n, logits)
	r.Computation = ir.Computation{Chain: mustChain(t, chain), Sampler: ir.Greedy}
	r.Computation.Chain.Mask = true
	r.Bias = bias
	r.MaskWords, r.MaskStride, r.Mask = 1, 1, make([]uint32, n)
	for v := range n {
		r.Mask[v] = 1 << v
	}
	return sample(t, r).Scores
}

// Case D17: each transform is applied once and in its place.
func TestTransforms(t *testing.T) {
	logits := []float32{60, 30, 0, -60}
	tanh := func(x float64) float32 { return float32(30 * math.Tanh(x/30)) }
	require.Equal(t, []float32{tanh(60), tanh(30), 0, tanh(-60)}, greedyScores(t, "softcap=30", logits, nil))
	require.Equal(t, []float32{3.75, 1.875, 0, -3.75}, greedyScores(t, "scale=0.0625", logits, nil))
	require.Equal(t, []float32{tanh(3.75), tanh(1.875), 0, tanh(-3.75)},
		greedyScores(t, "scale=0.0625,softcap=30", logits, nil), "scale before softcap")
	require.Equal(t, []float32{tanh(60) + 7, tanh(30) - 2, 0.5, tanh(-60)},
		greedyScores(t, "softcap=30,bias", logits, []float32{7, -2, 0.5, 0}), "bias after softcap")
	require.Equal(t, []float32{30, -30, 30}, greedyScores(t, "softcap=30", []float32{inf(), negInf, 3e38}, nil))
}

// The score of a row: z/T + g, in every range of T.
func TestReportedScore(t *testing.T) {
	logits := normals(300, 3, 8)
	for _, temperature := range []float32{0, 0.001, 0.5, 1, 2, 100} {
		r := withTemperature(flat(40, logits), temperature)
		res := sample(t, r)
		for b, token := range res.Tokens {
			z := float64(logits[token])
			want := z
			if temperature > 0 {
				want = z/float64(temperature) + Row(r.Seeds[b], 0, 0, 0).Bits(int(token)).Gumbel()
			}
			require.InDelta(t, want, res.Scores[b], 3e-7*(math.Abs(want)+50), "T=%v", temperature)
			score, bound := r.ReportedScoreOf(b, int(token))
			require.InDelta(t, want, score, 1e-12*(1+math.Abs(want)), "T=%v", temperature)
			require.LessOrEqual(t, math.Abs(float64(res.Scores[b])-score), bound, "T=%v", temperature)
		}
	}
	r := flat(40, logits)
	require.Equal(t, sample(t, withTemperature(flat(40, logits), 1)), sample(t, r), "T = 1 is no temperature")
}

// Case D2: the bias reaches greedy and sampled rows, as a vector and as a matrix.
func TestBias(t *testing.T) {
	const vocab = 500
	logits := normals(vocab, 1, 4)
	for _, sampler := range []ir.Sampler{ir.Greedy, ir.Gumbel} {
		r := planted(2, logits, 4)
		r.Computation.Sampler = sampler
		top := sample(t, r).Tokens
		r.Computation.Chain.Bias, r.Bias = ir.BiasVector, make([]float32, vocab)
		require.Equal(t, top, sample(t, r).Tokens)
		r.Bias[top[0]] = -100
		r.Bias[123] = 50
		require.Equal(t, []int32{123, 123}, sample(t, r).Tokens)
		r.Computation.Chain.Bias, r.BiasStride = ir.BiasMatrix, vocab+10
		r.Bias = make([]float32, 2*vocab+10)
		r.Bias[vocab+10+321] = 50
		require.Equal(t, []int32{top[0], 321}, sample(t, r).Tokens)
	}
}

// Injected noise decides alone where the logits are equal (J9).
func TestInjectedNoise(t *testing.T) {
	const vocab = 100
	r := flat(2, make([]float32, vocab))
	r.Seeds, r.Positions = nil, nil
	r.Noise = make([]float32, 2*vocab)
	r.Noise[33], r.Noise[vocab+99] = 1, 0.5
	res := sample(t, r)
	require.Equal(t, []int32{33, 99}, res.Tokens)
	require.Equal(t, []float32{1, 0.5}, res.Scores)
}

// bigFMA is x*y + z in 256 bits, rounded once.
func bigFMA(x, y, z float32) float32 {
	p := new(big.Float).Mul(bigFloat(float64(x)), bigFloat(float64(y)))
	s, _ := p.Add(p, bigFloat(float64(z))).Float32()
	return s
}

// fma32 against exact arithmetic, most of all near halfway points of float32, where rounding twice goes wrong.
func TestFMA(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	number := func(bits, exponent int) float32 {
		m := float64(rng.IntN(1<<bits)) + 1
		return float32(math.Ldexp(math.Copysign(m, rng.Float64()-0.5), exponent))
	}
	for range 200_000 {
		x, y, z := number(1+rng.IntN(12), -rng.IntN(40)), number(1+rng.IntN(24), -rng.IntN(40)), number(24, -rng.IntN(20))
		require.Equal(t, bigFMA(x, y, z), fma32(x, y, z), "%x %x %x", x, y, z)
	}
	twice := 0
	for range 1000 {
		// 137283 * 62571 = 2^33 + 1: the product is a hair more than half of z's last place, too fine a hair for float64.
		x, y, z := float32(137283), number(1, 0)*float32(math.Ldexp(62571, -34-rng.IntN(2))), number(23, 0)
		z += float32(math.Copysign(1<<23, float64(z)))
		want := bigFMA(x, y, z)
		require.Equal(t, want, fma32(x, y, z), "%x %x %x", x, y, z)
		if float32(float64(x)*float64(y)+float64(z)) != want {
			twice++
		}
	}
	require.NotZero(t, twice, "the cases in which rounding twice goes wrong")
	require.True(t, math.IsInf(float64(fma32(0, 5, negInf)), -1))
	require.True(t, math.IsInf(float64(fma32(3e38, 3e38, 0)), 1))
	x := fma32(nan(), 1, 1)
	require.True(t, x != x)
}
