package ir

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComputationsThatContradictThemselves(t *testing.T) {
	for text, c := range map[string]Computation{
		"bias-last":                         {Chain: Chain{BiasLast: true, Bias: BiasSparse}},
		"temperature-last":                  {Truncation: Truncation{TemperatureLast: true}},
		"grouped draws blocks":              {Sampler: Grouped, Truncation: Truncation{TopP: true}},
		"want a kind":                       {MaxDraws: 3},
		"unknown kind of draws":             {Draws: WithoutReplacement + 1, MaxDraws: 3},
		"want 1 to 64":                      {Draws: WithReplacement},
		"65: want 1 to 64":                  {Draws: WithReplacement, MaxDraws: 65},
		"want the gumbel sampler":           {Sampler: Greedy, Draws: WithoutReplacement, MaxDraws: 2},
		"unknown mode of log-probabilities": {LogProb: ProcessedLogProb + 1},
		"21: want 0 to 20":                  {LogProb: RawLogProb, TopN: 21},
		"want a mode":                       {Rank: true},
	} {
		require.ErrorContains(t, c.Validate(), text)
	}
	for _, c := range []Computation{{TopN: 1}, {Listed: true}, {LogProb: RawLogProb, TopN: -1}} {
		require.Error(t, c.Validate())
	}
}

func everything() Computation {
	return Computation{
		Chain:      Chain{Bias: BiasSparse, Penalties: true, BiasLast: true, IDs: true, Mask: true, Temperature: true},
		Truncation: Truncation{TopK: true, TopP: true, MinP: true, TemperatureLast: true},
		Draws:      WithReplacement, MaxDraws: MaxDraws, LogProb: ProcessedLogProb, Rank: true, TopN: MaxTopN, Listed: true, Slots: true,
	}
}

func TestFeatures(t *testing.T) {
	require.Empty(t, Computation{Chain: Chain{Scale: 2, Softcap: 3, Bias: BiasMatrix, Mask: true, Temperature: true}, Score: true,
		LogSumExp: true, Sampler: Grouped}.Features())
	c := everything()
	require.NoError(t, c.Validate())
	require.Len(t, c.Features(), 12)
	require.Equal(t, []Feature{FeatureTopP, FeatureSlots}, Computation{Truncation: Truncation{TopP: true}, Slots: true}.Features())
}

func TestExtras(t *testing.T) {
	require.Empty(t, Computation{Chain: everything().Chain, Score: true, LogSumExp: true}.Extras())
	require.Equal(t, "top-k,top-p,min-p,temperature-last,draws=with-replacement:64,logprob=processed,rank,top=20,listed,slots", everything().Extras())
	require.Equal(t, "min-p,draws=without-replacement:2", Computation{Truncation: Truncation{MinP: true}, Draws: WithoutReplacement, MaxDraws: 2}.Extras())
}

func TestLogProbNames(t *testing.T) {
	for _, m := range []LogProb{NoLogProb, RawLogProb, TemperatureLogProb, ProcessedLogProb} {
		got, err := ParseLogProb(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	_, err := ParseLogProb("cooked")
	require.ErrorContains(t, err, `unknown mode of log-probabilities "cooked": want raw, temperature or processed`)
}

func TestParameterRanges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for k, ok := range map[int]bool{-1: true, 0: true, 1: true, 1024: true, 1025: false, 1999: false, 2000: true, 1<<31 - 1: true} {
		require.Equal(t, ok, ValidTopK(k, 2000) == nil, k)
	}
	for _, c := range []struct {
		valid func(float32) error
		good  []float32
		bad   []float32
	}{
		{ValidTopP, []float32{0, 1e-45, 0.5, 1, 7}, []float32{-1, -1e-45, nan}},
		{ValidMinP, []float32{0, 1e-45, 1}, []float32{-1, 1.0000001, inf, nan}},
		{ValidRepetition, []float32{1, 1e-30, 1e30}, []float32{0, -1, 1e-40, inf, nan}},
		{ValidPenalty, []float32{0, -2, 2, 1e38}, []float32{inf, -inf, nan}},
	} {
		for _, x := range c.good {
			require.NoError(t, c.valid(x))
		}
		for _, x := range c.bad {
			require.Error(t, c.valid(x), x)
		}
	}
}

// Case D14 in the form that kernels are made from.
func TestPenaltyGraph(t *testing.T) {
	inf := float32(math.Inf(1))
	g := Score(Computation{Sampler: Greedy, Chain: Chain{Penalties: true}})
	eval := func(z, count float32, seen bool, p Penalty) float32 {
		return Eval(g, Values{F: map[Input]float32{InLogit: z, InCount: count, InRepetition: p.Repetition,
			InInverseRepetition: 1 / p.Repetition, InFrequency: p.Frequency, InPresence: p.Presence}, B: map[Input]bool{InSeen: seen}})
	}
	p := Penalty{1.5, 0.1, 0.5}
	require.InDelta(t, 2/1.5-0.5-0.3, eval(2, 3, true, p), 1e-6)
	require.InDelta(t, -3-0.5-0.3, eval(-2, 3, true, p), 1e-6)
	require.InDelta(t, -0.8, eval(0, 3, true, p), 1e-6)
	require.Equal(t, -inf, eval(-inf, 3, true, p))
	require.Equal(t, inf, eval(inf, 3, true, p))
	require.Equal(t, float32(3), eval(2, 0, true, Penalty{Repetition: 0.6666667, Presence: 1}), "seen in the prompt alone")
	require.Equal(t, float32(2), eval(2, 0, false, p), "never seen")
	require.Equal(t, float32(2), eval(2, 7, true, NoPenalty))
	require.Equal(t, inf, eval(inf, 1<<31, true, Penalty{1e30, 3e38, 3e38}))
	require.Equal(t, -inf, eval(-inf, 1<<31, true, Penalty{1e-30, -3e38, -3e38}))
}
