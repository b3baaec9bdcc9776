package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

func TestBinomialKnownValues(t *testing.T) {
	// P(X >= 100 of 262144 at 65/262144), from the Poisson: far out but not absurd.
	r := Binomial("tail", 100, 200000, 65.5/200000)
	require.InDelta(t, 3.9, r.Z, 0.2)
	require.InDelta(t, 0, Binomial("even", 500, 1000, 0.5).Z, 1e-9)
	require.InDelta(t, (520-500)/math.Sqrt(250), Binomial("even", 520, 1000, 0.5).Z, 0.01)
	require.InDelta(t, -(520-500)/math.Sqrt(250), Binomial("even", 480, 1000, 0.5).Z, 0.01)
	require.Less(t, Binomial("none", 0, 200000, 65.5/200000).Z, -10.0)
	require.Greater(t, Binomial("all", 1000, 1000, 0.5).Z, 30.0)
	require.Zero(t, Binomial("no trials", 0, 0, 0.5).Z)
	require.True(t, math.IsInf(Binomial("impossible", 1, 10, 0).Z, 1))
	big := Binomial("many", 50_100_000, 100_000_000, 0.5)
	require.InDelta(t, 20, big.Z, 1e-9)
}

func TestChiSquaredMatchesItsDistribution(t *testing.T) {
	for _, z := range []float64{-3, -1, 0, 1, 3, 4.4} {
		for _, cells := range []int{2, 17, 65, 1001} {
			d := distuv.ChiSquared{K: float64(cells - 1)}
			x := d.Quantile(distuv.UnitNormal.CDF(z))
			require.InDelta(t, z, zOf(d.CDF(x), d.Survival(x)), 1e-3, "z %v cells %d", z, cells)
		}
	}
	r := ChiSquared("die", []int64{10, 20}, []float64{0.5, 0.5})
	require.InDelta(t, 100.0/30, r.Statistic, 1e-12)
	require.True(t, math.IsInf(ChiSquared("impossible", []int64{5, 1}, []float64{1, 0}).Z, 1))
	require.Zero(t, ChiSquared("too few", []int64{1, 2}, []float64{0.5, 0.5}).Z)
}

// fair feeds independent uniform tokens.
func fair(vocab, n int, seed uint64) *Uniform {
	u := NewUniform(vocab)
	rng := rand.New(rand.NewPCG(seed, 7))
	for range n {
		u.Add(rng.Int32N(int32(vocab)))
	}
	return u
}

func TestUniformPassesFairStreams(t *testing.T) {
	for _, vocab := range []int{1, 2, 17, 100, 151936, 50257} {
		require.NoError(t, Check(Limit, fair(vocab, 100_000, uint64(vocab)).Results()...), "vocab %d", vocab)
	}
	require.NoError(t, Check(Limit, NewUniform(10).Results()...), "nothing seen, nothing to judge")
}

func TestUniformSeesFaults(t *testing.T) {
	const vocab, n = 151936, 200_000
	for name, fault := range map[string]func(v int32) int32{
		"one lane of 128 never wins": func(v int32) int32 {
			if v%128 == 77 {
				return v - 1
			}
			return v
		},
		"low half favoured": func(v int32) int32 {
			if v%40 == 0 {
				return v / 2
			}
			return v
		},
		"outside": func(v int32) int32 { return v + 1 },
	} {
		u := NewUniform(vocab)
		rng := rand.New(rand.NewPCG(3, 4))
		for range n {
			u.Add(fault(rng.Int32N(vocab)))
		}
		require.Error(t, Check(Limit, u.Results()...), name)
	}
	u := NewUniform(vocab)
	rng := rand.New(rand.NewPCG(5, 6))
	for range n / 2 {
		v := rng.Int32N(vocab)
		u.Add(v)
		u.Add(v)
	}
	require.Error(t, Check(Limit, u.serial.Result()), "every draw twice")
}

func TestMergeIsConcatenation(t *testing.T) {
	a, b := fair(1000, 5000, 1), fair(1000, 7000, 2)
	one := fair(1000, 5000, 1)
	one.serial.started = false // a stream of its own
	rng := rand.New(rand.NewPCG(2, 7))
	for range 7000 {
		one.Add(rng.Int32N(1000))
	}
	a.Merge(b)
	require.Equal(t, one.Results(), a.Results())
}

func TestLargestDifference(t *testing.T) {
	const vocab = 131072
	rng := rand.New(rand.NewPCG(8, 9))
	tokens, shifted := make([]int32, 256), make([]int32, 256)
	base := rng.Int32N(vocab)
	for i := range tokens {
		tokens[i] = rng.Int32N(vocab)
		shifted[i] = (base + int32(i)) % vocab
	}
	r := LargestDifference("fair", tokens, vocab)
	require.LessOrEqual(t, r.Statistic, 8.0)
	require.NoError(t, Check(Limit, r))
	r = LargestDifference("shifted", shifted, vocab)
	require.Equal(t, 255.0, r.Statistic)
	require.Error(t, Check(Limit, r))
	// Nine pairs in one bin have about one chance in a million (case A11).
	require.Zero(t, LargestDifference("one row", tokens[:1], vocab).Z)
}

func TestCorrelation(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 11))
	a, b := make([]int32, 20000), make([]int32, 20000)
	for i := range a {
		a[i], b[i] = rng.Int32N(1000), rng.Int32N(1000)
	}
	require.NoError(t, Check(Limit, Correlation("independent", a, b, 1000), MeanIndex(a, 1000)))
	r := Correlation("equal", a, a, 1000)
	require.InDelta(t, 1, r.Statistic, 0.05)
	require.Error(t, Check(Limit, r))
}

func TestCheckRefusesNaN(t *testing.T) {
	require.Error(t, Check(Limit, Result{Name: "lost", Z: math.NaN()}))
	require.ErrorContains(t, Check(Limit, Never("masked tokens", 10, 1)), "masked tokens")
}
