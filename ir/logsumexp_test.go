package ir

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// runningSum is a pair as kernels keep it, by the graphs alone.
type runningSum struct{ largest, mass float32 }

var (
	exponentGraph, powerGraph  = Exponent(warm), Power()
	numericGraph               = NumericExponent(warm)
	rescaledGraph, logSumGraph = Rescaled(warm), LogSum(warm)
)

var emptySum = runningSum{-math.MaxFloat32, 0}

func octavesOf(base, largest, scale float32) float32 {
	return Eval(exponentGraph, Values{F: map[Input]float32{InBase: base, InLargest: largest, InScale: scale}})
}

func (s runningSum) rescaled(top, scale float32) float32 {
	return Eval(rescaledGraph, Values{F: map[Input]float32{InMass: s.mass, InLargest: s.largest, InTop: top, InScale: scale}})
}

func (s *runningSum) add(base, scale float32) {
	if octavesOf(base, s.largest, scale) > SumLimit {
		top := min(base, math.MaxFloat32)
		s.largest, s.mass = top, s.rescaled(top, scale)
	}
	s.mass += Eval(powerGraph, Values{F: map[Input]float32{InExponent: octavesOf(base, s.largest, scale)}})
}

func (s runningSum) join(t runningSum, scale float32) runningSum {
	top := max(s.largest, t.largest)
	return runningSum{top, s.rescaled(top, scale) + t.rescaled(top, scale)}
}

func (s runningSum) value(tau float32) float64 {
	return float64(Eval(logSumGraph, Values{F: map[Input]float32{InTop: float32(float64(s.largest) / float64(tau)), InMass: s.mass}}))
}

// Pairs of any order and any split come to the logarithm of the sum, as near as float32 can say.
func TestRunningSums(t *testing.T) {
	rng, worst := rand.New(rand.NewPCG(7, 8)), 0.0
	for range 300 {
		tau := float32(math.Exp(-8 * rng.Float64()))
		scale := float32(math.Log2E / float64(tau))
		center, spread := float32(50*rng.NormFloat64()), math.Exp(4*rng.NormFloat64())*float64(tau)
		sums, top, exact := []runningSum{emptySum, emptySum, emptySum}, math.Inf(-1), 0.0
		var bases []float32
		for i := range 1 + rng.IntN(1000) {
			base := center + float32(spread*rng.NormFloat64())
			if rng.IntN(50) == 0 {
				base = float32(math.Inf(-1)) // masked
			}
			bases, top = append(bases, base), max(top, float64(base))
			sums[i%3].add(base, scale)
		}
		for _, base := range bases {
			exact += math.Exp((float64(base) - top) / float64(tau))
		}
		want := top/float64(tau) + math.Log(exact)
		got := sums[0].join(sums[1], scale).join(sums[2], scale).value(tau)
		if math.IsInf(top, -1) {
			require.Equal(t, top, got)
			continue
		}
		worst = max(worst, math.Abs(got-want)/(1+math.Abs(want)))
	}
	t.Logf("worst error %.3g (1 + |lse|)", worst)
	require.Less(t, worst, 1e-6)
}

func TestRunningSumsAtTheEnds(t *testing.T) {
	inf := float32(math.Inf(1))
	sum := func(scale, tau float32, bases ...float32) float64 {
		s, other := emptySum, emptySum
		for _, base := range bases {
			s.add(base, scale)
		}
		require.Equal(t, s.join(other, scale), other.join(s, scale))
		return s.join(other, scale).value(tau)
	}
	e := float32(math.Log2E)
	require.Equal(t, math.Inf(-1), sum(e, 1))
	require.Equal(t, math.Inf(-1), sum(e, 1, -inf, -inf))
	require.InDelta(t, math.Log(2), sum(e, 1, -inf, 0, 0), 1e-6)
	require.Equal(t, math.Inf(1), sum(e, 1, 3, inf, 5, inf, -inf))
	require.Equal(t, math.Inf(1), sum(e, 1, inf, 1e38, -1e38))
	require.InDelta(t, 1e38, sum(e, 1, 1e38, -1e38), 1e31)
	require.InDelta(t, -1e38, sum(e, 1, -1e38, -2e38), 1e31)
	require.Equal(t, math.Inf(1), sum(math.MaxFloat32, 1e-40, 3, 2), "z/T past float32")
	require.Equal(t, math.Inf(-1), sum(math.MaxFloat32, 1e-40, -3, -2))
	require.InDelta(t, math.Log(3), sum(math.MaxFloat32, 1e-40, 0, 0, -1, 0), 1e-6)
	require.InDelta(t, 40+math.Log(1+1/math.E), sum(e, 1, -200, 39, 0, 40), 1e-5)
}

// What a token adds keeps 2^-20 of itself for every GPU that keeps to the manual, wherever it shows.
func TestPowerBudget(t *testing.T) {
	worst := 0.0
	for x := float32(-26); x <= SumLimit; x += 0.0137 {
		worstCases(powerGraph, Values{F: map[Input]float32{InExponent: x}}, func(p float64) {
			worst = max(worst, math.Abs(p/math.Exp2(float64(x))-1))
		})
	}
	require.Less(t, worst, 0x1p-20)
}
