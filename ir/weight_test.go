package ir

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Weights are within 2^-21 of the exponential, past what the exponent's own rounding does, and half a unit of their scale.
func TestWeightsAreExponentials(t *testing.T) {
	rng, worst := rand.New(rand.NewPCG(3, 4)), 0.0
	for range 200_000 {
		vocab, temperature := 1+rng.IntN(1<<rng.IntN(30)), float32(math.Exp(2*rng.NormFloat64()))
		top := float32(10 * rng.NormFloat64())
		z := top - float32(math.Exp(3*rng.NormFloat64()))
		octaves := (float64(z) - float64(top)) / float64(temperature) * math.Log2E
		want := math.Exp2(octaves) * float64(MaxWeight(vocab))
		err := math.Abs(float64(Weight(z, top, WeightScale(temperature), vocab)) - want)
		allowed := want*0x1p-22*(1+2*math.Abs(octaves)) + 0.5
		worst = max(worst, err/allowed)
	}
	t.Logf("worst error %.2f of the bound", worst)
	require.LessOrEqual(t, worst, 1.0)
}

func TestWeightsAtTheEnds(t *testing.T) {
	inf, e := float32(math.Inf(1)), WeightScale(1)
	for _, vocab := range []int{1, 2, 3, 1000, 131072, 151936, MaxVocab} {
		top := MaxWeight(vocab)
		require.Equal(t, top, Weight(0, 0, e, vocab))
		require.Equal(t, top, Weight(inf, inf, e, vocab))
		require.Equal(t, top, Weight(0, 1e-45, e, vocab), "denormal gap")
		require.Zero(t, Weight(3, inf, e, vocab))
		require.Zero(t, Weight(float32(math.Inf(-1)), 3, e, vocab))
		require.Zero(t, Weight(-3e38, 3e38, e, vocab))
		require.Zero(t, Weight(-100, 0, e, vocab))
		require.Less(t, float64(top)*float64(vocab), 0x1p62)
		require.GreaterOrEqual(t, float64(top)*float64(vocab), 0x1p60)
	}
	require.Equal(t, WeightScale(1), WeightScale(0))
	require.Equal(t, float32(math.Log2E), WeightScale(1))
	for _, temperature := range []float32{1e-45, 1e-38, MaxTemperature} {
		require.False(t, math.IsInf(float64(WeightScale(temperature)), 0))
		require.Greater(t, WeightScale(temperature), float32(1e-38), "a normal number")
	}
	require.Zero(t, Weight(0, 1e-30, WeightScale(1e-45), 1000))
	require.Equal(t, MaxWeight(1000), Weight(0, 1, WeightScale(MaxTemperature), 1000))
	require.EqualValues(t, 1, Weight(-31, 0, 1, MaxVocab), "a weight of the last place")
	require.EqualValues(t, 1, Weight(-32, 0, 1, MaxVocab), "half a place rounds up")
	require.Zero(t, Weight(-32.01, 0, 1, MaxVocab))
}

// The graph that kernels are made from is the polynomial of the weights.
func TestPower2Graph(t *testing.T) {
	g := Power2()
	for f := float32(-0.5); f <= 0.5; f += 0x1p-11 {
		require.Equal(t, power(f), Eval(g, Values{F: map[Input]float32{InFraction: f}}), f)
		require.InEpsilon(t, math.Exp2(float64(f)), power(f), 0x1p-23)
	}
}

func TestNucleusTarget(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 100_000 {
		total, p := rng.Uint64()>>(2+rng.IntN(60))|1, rng.Float32()
		if rng.IntN(2) == 0 {
			p = 1 - float32(math.Ldexp(float64(1+rng.IntN(1<<12)), -24))
		}
		q := new(big.Int).SetUint64(uint64(math.Floor(float64(p) * 0x1p32)))
		tail := new(big.Int).Sub(big.NewInt(1<<32), q)
		tail.Add(tail, new(big.Int).Rsh(tail, 20)).Add(tail, big.NewInt(128))
		dropped := tail.Mul(tail, new(big.Int).SetUint64(total))
		want := new(big.Int).Sub(new(big.Int).SetUint64(total), dropped.Rsh(dropped, 32))
		if want.Sign() <= 0 {
			want.SetInt64(1)
		}
		require.Equal(t, want.Uint64(), NucleusTarget(total, p), "%d %v", total, p)
	}
	for _, p := range []float32{0, 1e-45, 1e-30, 1e-9} {
		require.EqualValues(t, 1, NucleusTarget(1<<61, p))
	}
	for _, vocab := range []uint64{2, 100, 131072, 151936, 1 << 20} { // all equal: half of them, rounded up
		w := MaxWeight(int(vocab))
		require.Equal(t, (vocab+1)/2, (NucleusTarget(vocab*w, 0.5)+w-1)/w, vocab)
	}
}

func TestMinPThreshold(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 10_000 {
		p, vocab := rng.Float32()*float32(math.Exp2(-float64(rng.IntN(70)))), 1+rng.IntN(MaxVocab)
		exact := new(big.Rat).Mul(new(big.Rat).SetFloat64(float64(p)), new(big.Rat).SetInt(new(big.Int).SetUint64(MaxWeight(vocab))))
		want := new(big.Int).Add(exact.Num(), new(big.Int).Sub(exact.Denom(), big.NewInt(1)))
		require.Equal(t, want.Div(want, exact.Denom()).Uint64(), MinPThreshold(p, vocab))
	}
	require.Equal(t, MaxWeight(1000), MinPThreshold(1, 1000))
	require.EqualValues(t, 1, MinPThreshold(1e-45, 1000))
}

func TestRepeatPoint(t *testing.T) {
	const total = 1<<61 + 12345
	require.Zero(t, RepeatPoint(0, total))
	require.EqualValues(t, total-1, RepeatPoint(math.MaxUint64, total))
	high, _ := bits.Mul64(0x123456789abcdef0, total)
	require.Equal(t, high, RepeatPoint(0x123456789abcdef0, total))
}
