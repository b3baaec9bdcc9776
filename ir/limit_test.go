package ir

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// limited are computations whose rows have (alpha, tau), and such as have none.
var limited = []Computation{
	{Chain: Chain{Temperature: true}},
	{},
	{Chain: Chain{Temperature: true}, Sampler: Grouped},
	{Chain: Chain{Scale: 0.0625, Temperature: true}},
	{Chain: Chain{Scale: 13}},
	{Truncation: Truncation{TopK: true}},
}

// Limits are for computations whose Base rises with the logit and has nothing else of a token.
func TestLogitLimits(t *testing.T) {
	edited := Computation{Chain: Chain{Scale: -2, Softcap: 30, Bias: BiasMatrix, Penalties: true, IDs: true, Temperature: true}}
	for _, c := range append(limited, edited, Computation{Chain: Chain{Bias: BiasSparse}, LogProb: RawLogProb}) {
		require.True(t, c.LogitLimits(), "%+v", c)
		c.Chain = c.Chain.Unedited()
		for _, in := range Base(c).Inputs() {
			require.Contains(t, []Input{InLogit, InAlpha, InPad}, in, "%+v", c)
		}
	}
	edited.Chain.Mask = true
	for _, c := range []Computation{
		edited, {Chain: Chain{Scale: -1}}, {Chain: Chain{Softcap: 30}}, {Chain: Chain{Bias: BiasVector}}, {Chain: Chain{Bias: BiasMatrix}}, {Chain: Chain{Mask: true}},
		{Sampler: Greedy}, {LogProb: RawLogProb, TopN: 5}, // listed tokens reach bounds of their own
	} {
		require.False(t, c.LogitLimits(), "%+v", c)
	}
}

// limitCase is a row and a code.
type limitCase struct{ threshold, alpha, tau, code float32 }

func (l limitCase) values(logit float32) Values {
	return Values{F: map[Input]float32{InThreshold: l.threshold, InAlpha: l.alpha, InTau: l.tau, InCode: l.code, InLogit: logit, InPad: 0}}
}

// scalesOf is alpha and tau of a temperature.
func scalesOf(temperature float32) (alpha, tau float32) {
	if temperature > 1 {
		return 1 / temperature, 1
	}
	return 1, temperature
}

// eachLimitCase runs over rows of all temperatures, thresholds of all sizes and every code.
func eachLimitCase(f func(l limitCase)) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 400 {
		exponent := rng.Float64()*60 - 30
		l := limitCase{threshold: float32(rng.NormFloat64() * math.Exp2(exponent))}
		l.alpha, l.tau = scalesOf(float32(math.Exp2(rng.Float64()*130 - 30)))
		for code := range 256 {
			l.code = CodeValue(uint8(code))
			f(l)
		}
	}
}

// What the limit's own bound proves holds for every logit that does not pass it, and the proof is there but for rounding past float32.
func TestLimitsAreBelowTheThreshold(t *testing.T) {
	for _, c := range limited {
		limit, base, bound := Limit(c), Base(c), Bound(c)
		boundOf := func(l limitCase, logit float32) float32 {
			in := l.values(logit)
			in.F[InBase] = Eval(base, in)
			return Eval(bound, in)
		}
		eachLimitCase(func(l limitCase) {
			z := Eval(limit, l.values(0))
			if math.IsInf(float64(z), 0) { // past float32
				return
			}
			require.Less(t, boundOf(l, z), l.threshold, "%+v, %+v: limit %v", c, l, z)
			for _, logit := range []float32{math.Nextafter32(z, float32(math.Inf(-1))), z - 1, z - float32(math.Abs(float64(z)))*1e-7, 2*z - 1e6, float32(math.Inf(-1))} {
				if logit <= z {
					require.Less(t, boundOf(l, logit), l.threshold, "%+v, %+v: logit %v under the limit %v", c, l, logit, z)
				}
			}
		})
	}
}

// A limit is no further below what reaches the threshold than a hundred thousandth of what it is made of.
func TestLimitsAreClose(t *testing.T) {
	c := limited[0]
	limit, bound := Limit(c), Bound(c)
	eachLimitCase(func(l limitCase) {
		z, in := Eval(limit, l.values(0)), l.values(0)
		in.F[InBase] = 0
		noise := float64(Eval(bound, in))
		exact := (float64(l.threshold) - noise) / float64(l.alpha)
		terms := (math.Abs(float64(l.threshold)) + noise) / float64(l.alpha)
		if terms < math.MaxFloat32 {
			require.InDelta(t, exact, z, 1e-5*terms, "%+v", l)
		}
	})
}

// A row that everything reaches, or nothing, has no limit, or any.
func TestLimitsOfNoThreshold(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	z := Eval(Limit(limited[0]), limitCase{nan, 1, 1, CodeValue(100)}.values(0))
	require.True(t, z != z, "a NaN threshold: %v", z)
	require.Equal(t, inf, Eval(Limit(limited[0]), limitCase{inf, 1, 1, CodeValue(100)}.values(0)))
	require.Equal(t, inf, Eval(Limit(limited[0]), limitCase{inf, 0, 0, CodeValue(100)}.values(0)), "a settled row")
}
