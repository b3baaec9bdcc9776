package ir

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	processed     = Computation{Chain: Chain{Temperature: true}, LogProb: ProcessedLogProb}
	logProbGraph  = LogProbability(processed)
	cappedSum     = LogSum(processed)
	infinity, nan = float32(math.Inf(1)), float32(math.NaN())
)

// addCapped is add as kernels do it that give log-probabilities: tokens of +inf count as InfiniteOctaves.
func (s *runningSum) addCapped(base, scale float32) {
	capped := func() float32 {
		return min(Eval(numericGraph, Values{F: map[Input]float32{InBase: base, InLargest: s.largest, InScale: scale}}), InfiniteOctaves)
	}
	if capped() > SumLimit {
		top := min(base, math.MaxFloat32)
		s.largest, s.mass = top, s.rescaled(top, scale)
	}
	s.mass += Eval(powerGraph, Values{F: map[Input]float32{InExponent: capped()}})
}

// distributed joins the pairs of three sets of warps.
func distributed(scale float32, bases ...float32) runningSum {
	sums := []runningSum{emptySum, emptySum, emptySum}
	for i, base := range bases {
		sums[i%3].addCapped(base, scale)
	}
	return sums[0].join(sums[1], scale).join(sums[2], scale)
}

func (s runningSum) logProb(base, scale float32) float32 {
	return s.logProbAt(base, scale, math.Log2E/float64(scale))
}

func (s runningSum) logProbAt(base, scale float32, tau float64) float32 {
	return Eval(logProbGraph, Values{F: map[Input]float32{InBase: base, InLargest: s.largest, InMass: s.mass, InScale: scale,
		InTop: float32((float64(base) - float64(s.largest)) / tau)}})
}

// Log-probabilities are float64's within 2^-18, and 2^-21 of their size.
func TestLogProbability(t *testing.T) {
	rng, worst := rand.New(rand.NewPCG(9, 8)), 0.0
	for range 300 {
		tau := float32(math.Exp(-8 * rng.Float64()))
		scale := float32(math.Log2E / float64(tau))
		center, spread := float32(50*rng.NormFloat64()), math.Exp(4*rng.NormFloat64())*float64(tau)
		var bases []float32
		for range 1 + rng.IntN(1000) {
			bases = append(bases, center+float32(spread*rng.NormFloat64()))
		}
		sum, exact, top := distributed(scale, bases...), 0.0, math.Inf(-1)
		for _, base := range bases {
			top = max(top, float64(base))
		}
		octaves := func(base float32) float64 { return (float64(base) - top) * float64(scale) } // the temperature as it was rounded
		for _, base := range bases {
			exact += math.Exp2(octaves(base))
		}
		for _, base := range append(bases[:min(20, len(bases))], float32(top)) {
			want, got := (octaves(base)-math.Log2(exact))*math.Ln2, float64(sum.logProb(base, scale))
			require.LessOrEqual(t, got, 0.0)
			worst = max(worst, math.Abs(got-want)/(0x1p-18-0x1p-21*want))
		}
	}
	t.Logf("worst error: %.3g of the bound", worst)
	require.Less(t, worst, 1.0)
}

// Case E2, and infinite tokens, which share the mass.
func TestLogProbabilityAtTheEnds(t *testing.T) {
	e := float32(math.Log2E)
	one := func(token float32, bases ...float32) float32 { return distributed(e, bases...).logProb(token, e) }
	minusInf := -infinity
	require.Equal(t, float32(0), one(100, 0, 100, -20), "all the mass")
	require.False(t, math.Signbit(float64(one(100, 0, 100, -20))))
	require.Equal(t, float32(0), one(-7, minusInf, -7))
	require.Equal(t, float32(0), one(-3e38, -3e38))
	require.InDelta(t, -math.Ln2, one(5, 5, nan, 5), 1e-6, "NaN of a token that is not allowed does not count")
	require.InDelta(t, -1e4, one(-1e4, 0, -1e4), 1e-2)
	require.Equal(t, float32(0), one(infinity, 3, infinity, 1e38, minusInf))
	require.InDelta(t, -math.Log(3), one(infinity, 3, infinity, infinity, math.MaxFloat32, infinity), 1e-6)
	require.Equal(t, minusInf, one(3, 3, infinity), "finite beside infinite")
	require.Equal(t, minusInf, one(math.MaxFloat32, math.MaxFloat32, infinity))
	require.InDelta(t, -math.Ln2, one(math.MaxFloat32, math.MaxFloat32, math.MaxFloat32), 1e-6, "the largest float32 is finite")
	require.Equal(t, float32(0), distributed(math.MaxFloat32, 3, 2).logProb(3, math.MaxFloat32), "T far below 1")
	require.Equal(t, minusInf, distributed(math.MaxFloat32, 3, 2).logProbAt(2, math.MaxFloat32, 1e-40))
	require.InEpsilon(t, -1e37, distributed(math.MaxFloat32, 0, -1e-3).logProbAt(-1e-3, math.MaxFloat32, 1e-40), 1e-6, "though the scale is past float32")
}

// A sum that counts infinite tokens knows its log-sum-exp all the same.
func TestCappedLogSumExp(t *testing.T) {
	e := float32(math.Log2E)
	value := func(bases ...float32) float64 {
		s := distributed(e, bases...)
		return float64(Eval(cappedSum, Values{F: map[Input]float32{InTop: s.largest, InLargest: s.largest, InMass: s.mass}}))
	}
	require.Equal(t, math.Inf(1), value(3, infinity, -infinity))
	require.Equal(t, math.Inf(1), value(infinity, infinity, math.MaxFloat32))
	require.InDelta(t, math.MaxFloat32, value(math.MaxFloat32), 1e31)
	require.InDelta(t, 3+math.Log(2), value(3, 3, -infinity), 1e-6)
	require.Equal(t, math.Inf(-1), value(-infinity))
}

// What is added up is the mode's: nothing of a row's bias or mask unless the mode is processed.
func TestSummedChains(t *testing.T) {
	c := Computation{Chain: Chain{Scale: 2, Softcap: 30, Bias: BiasMatrix, Mask: true, Temperature: true}}
	require.Equal(t, c, c.Summed())
	require.False(t, c.Sums())
	for mode, want := range map[LogProb]Chain{
		RawLogProb: {Scale: 2, Softcap: 30}, TemperatureLogProb: {Scale: 2, Softcap: 30, Temperature: true}, ProcessedLogProb: c.Chain,
	} {
		c.LogProb = mode
		require.True(t, c.Sums())
		require.Equal(t, want, c.Summed().Chain)
		c.Sampler = Greedy
		require.False(t, c.Normalize().Summed().Chain.Temperature)
	}
}

// Where tokens that are not allowed are added up too, a NaN adds nothing under a cap, and what is no NaN adds what it always did. Past the
// vocabulary, where the cap is -inf, nothing adds anything anywhere.
func TestNaNCountsForNothing(t *testing.T) {
	for _, base := range []float32{nan, -infinity, -1e30, -70, 0, 20, 1e30, infinity} {
		for _, top := range []float32{InfiniteOctaves, -infinity} {
			in := Values{F: map[Input]float32{InBase: base, InScale: math.Log2E}}
			add := func(exponent, power *Graph) float32 {
				x := Eval(exponent, in)
				if x != x || x > top { // the smaller of NaN and a number is the number
					x = top
				}
				return Eval(power, Values{F: map[Input]float32{InExponent: x}})
			}
			want := add(exponentGraph, powerGraph)
			if base != base {
				want = 0
			}
			if math.IsInf(float64(top), -1) {
				require.Zero(t, add(exponentGraph, powerGraph), "%v past the vocabulary", base)
			}
			require.Equal(t, want, add(numericGraph, powerGraph), "%v under %v", base, top)
		}
	}
}
