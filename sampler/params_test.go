package sampler

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// fullSpec asks for everything.
func fullSpec() Spec {
	return Spec{
		Chain:      ir.Chain{Bias: ir.BiasSparse, Penalties: true, IDs: true, Temperature: true},
		Truncation: ir.Truncation{TopK: true, TopP: true, MinP: true}, Draws: ir.WithReplacement, MaxDraws: 4,
		LogProb: ir.ProcessedLogProb, Rank: true, TopN: 3, ListLogProbs: true, Score: true, LogSumExp: true,
	}
}

// fullRows are parameters of two rows.
func fullRows() Rows {
	return Rows{
		Seeds: []uint64{1, 2}, Positions: []uint64{3}, Temperature: []float32{.7, 1},
		BiasLists: [][]ir.TokenBias{nil, {{ID: 3, Value: 1}}}, AllowIDs: [][]int32{nil, {1, 2, 3, 4, 5}}, BanIDs: [][]int32{{7}},
		Repetition: []float32{1.5}, Frequency: []float32{.1, 0}, Presence: []float32{0, .2}, CountLists: [][]ir.TokenCount{{{ID: 9, Count: 2}}, nil},
		TopK: []int32{0, 5}, TopP: []float32{.9}, MinP: []float32{0, .01}, DrawCounts: []int32{4, 2}, ListIDs: [][]int32{{1}, {2, 3}},
	}
}

// Every feature that no kernel has is refused when planning, by name, on devices that run kernels; the CPU does them all.
func TestKernelsRefuseWhatTheyLack(t *testing.T) {
	dev, err := Open("sim:sm_90")
	require.NoError(t, err)
	head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, 40*8), Hidden: 8}, Vocab: 40, Hidden: 8})
	require.NoError(t, err)
	for feature, spec := range map[ir.Feature]Spec{
		"the log-sum-exp beside log-probabilities and top-p of two other distributions":        {LogProb: ir.RawLogProb, LogSumExp: true, Truncation: ir.Truncation{TopP: true, TemperatureLast: true}, Chain: ir.Chain{Temperature: true, Mask: true}},
		"raw log-probabilities of edited logits with the grouped sampler":                      {Chain: ir.Chain{IDs: true}, Sampler: ir.Grouped, LogProb: ir.RawLogProb},
		"temperature log-probabilities beside lists of allowed or banned ids and a dense bias": {Chain: ir.Chain{IDs: true, Bias: ir.BiasVector}, LogProb: ir.TemperatureLogProb},
		"ranks with the grouped sampler":                                                       {LogProb: ir.RawLogProb, Rank: true, Sampler: ir.Grouped},
		"top log-probabilities with the grouped sampler":                                       {LogProb: ir.RawLogProb, TopN: 3, Sampler: ir.Grouped},
		"raw top log-probabilities of edited logits":                                           {LogProb: ir.RawLogProb, TopN: 2, Chain: ir.Chain{Penalties: true}},
	} {
		_, err := head.Plan(t.Context(), spec)
		var missing *UnsupportedError
		require.ErrorAs(t, err, &missing, feature)
		require.Equal(t, UnsupportedError{feature, "sim:sm_90", 0}, *missing)
		require.EqualError(t, err, "sampler: device sim:sm_90: no kernel does "+string(feature)+" yet; the cpu device does")
		cpuPlanFor(t, 40, 8, spec)
	}
	_, err = head.Plan(t.Context(), Spec{TopN: 3})
	require.ErrorContains(t, err, "want a mode")
}

// Cases D1, D8 and D12, and whatever else no row can have: an *InputError that names it.
func TestParametersAreChecked(t *testing.T) {
	plan := cpuPlanFor(t, 2000, 8, fullSpec())
	bare, slotted := cpuPlanFor(t, 2000, 8, Spec{}), cpuPlanFor(t, 2000, 8, Spec{Slots: true})
	h, nan := make([]uint16, 16), float32(math.NaN())
	_, err := plan.Sample(t.Context(), h, fullRows())
	require.NoError(t, err)
	for want, change := range map[string]func(r *Rows){
		"sparse bias of row 1 is id 2000: want ids from 0 to 1999": func(r *Rows) { r.BiasLists = [][]ir.TokenBias{nil, {{ID: 2000}}} },
		"sparse bias of all rows is id -1":                         func(r *Rows) { r.BiasLists = [][]ir.TokenBias{{{ID: -1}}} },
		"sparse bias of row 0 is id 4: want every id once":         func(r *Rows) { r.BiasLists = [][]ir.TokenBias{{{ID: 4}, {ID: 4}}, nil} },
		"sparse bias is 3 values: want 1 or 2 values":              func(r *Rows) { r.BiasLists = make([][]ir.TokenBias, 3) },
		"allowed ids of row 1 is id 9999":                          func(r *Rows) { r.AllowIDs = [][]int32{nil, {9999}} },
		"banned ids of all rows is id -7":                          func(r *Rows) { r.BanIDs = [][]int32{{-7}} },
		"listed ids is 0 values":                                   func(r *Rows) { r.ListIDs = nil },
		"listed ids of row 0 is id 2000":                           func(r *Rows) { r.ListIDs = [][]int32{{2000}, nil} },
		"top-k of row 1 is 1025: want at most 1024":                func(r *Rows) { r.TopK = []int32{1, 1025} },
		"top-p of row 0 is -1: want 0 or more":                     func(r *Rows) { r.TopP = []float32{-1, 1} },
		"top-p of all rows is NaN":                                 func(r *Rows) { r.TopP = []float32{nan} },
		"min-p of row 1 is 1.5: want 0 (off) to 1":                 func(r *Rows) { r.MinP = []float32{0, 1.5} },
		"min-p is 0 values":                                        func(r *Rows) { r.MinP = nil },
		"repetition penalty of row 1 is 0: want a number from":     func(r *Rows) { r.Repetition = []float32{1, 0} },
		"frequency penalty of row 0 is NaN":                        func(r *Rows) { r.Frequency = []float32{nan, 0} },
		"presence penalty is 3 values":                             func(r *Rows) { r.Presence = []float32{0, 0, 0} },
		"number of draws of row 1 is 5: want 1 to 4":               func(r *Rows) { r.DrawCounts = []int32{1, 5} },
		"counts of row 0 is id 2000":                               func(r *Rows) { r.CountLists = [][]ir.TokenCount{{{ID: 2000}}, nil} },
		"counts: want them for every token, or lists":              func(r *Rows) { r.Counts = make([]uint32, 2000) },
		"counts is 3999 values: want [2000], or [2, 2000]":         func(r *Rows) { r.CountLists, r.Counts = nil, make([]uint32, 3999) },
		"count stride is 9: want 2000 or more":                     func(r *Rows) { r.CountLists, r.Counts, r.CountStride = nil, make([]uint32, 4000), 9 },
		"slots: the plan has none":                                 func(r *Rows) { r.Slots = []int32{0, 0} },
	} {
		r := fullRows()
		change(&r)
		_, err := plan.Sample(t.Context(), h, r)
		requireInputError(t, err, want)
	}
	for want, r := range map[string]Rows{
		"top-k: the plan has none": {TopK: []int32{1}}, "sparse bias: the plan has none": {BiasLists: [][]ir.TokenBias{nil}},
		"counts: the plan's transform has no penalties": {Counts: make([]uint32, 2000)}, "number of draws: the plan has none": {DrawCounts: []int32{1}},
	} {
		_, err := bare.Sample(t.Context(), h, r)
		requireInputError(t, err, want)
	}
	for want, r := range map[string]Rows{
		"slots is 1 values: want 2 values":   {Slots: []int32{0}, SlotCount: 2},
		"slot count is 0: want 1 to":         {Slots: []int32{0, 0}},
		"slot of row 1 is 2: want 0 to 1":    {Slots: []int32{1, 2}, SlotCount: 2},
		"slot of row 0 is -1":                {Slots: []int32{-1, 0}, SlotCount: 2},
		"seeds is 3 values: want 1 or 2 val": {Slots: []int32{0, 1}, SlotCount: 2, Seeds: []uint64{1, 2, 3}, Positions: []uint64{1}},
	} {
		_, err := slotted.Sample(t.Context(), h, r)
		requireInputError(t, err, want)
	}
}

func requireInputError(t *testing.T, err error, want string) {
	t.Helper()
	var input *InputError
	require.ErrorAs(t, err, &input, want)
	require.ErrorContains(t, err, "sampler: "+want)
}

// A row's results are those that it has alone, in its place of every array, and rows find their parameters by their slots.
func TestEveryFeatureOnTheCPU(t *testing.T) {
	spec := fullSpec()
	plan := cpuPlanFor(t, 200, 8, spec)
	spec.Slots = true
	slotted := cpuPlanFor(t, 200, 8, spec)
	h := make([]uint16, 16)
	for i := range h {
		h[i] = 0x3f80
	}
	both, err := plan.Sample(t.Context(), h, fullRows())
	require.NoError(t, err)
	require.Len(t, both.Draws, 8)
	require.Equal(t, []int32{ir.NoToken, ir.NoToken}, both.Draws[6:], "row 1 wants two")
	require.Nil(t, both.DrawScores)
	require.Equal(t, []int32{1, 1}, both.Passes)
	require.Len(t, both.ListLogProbs[0], 1)
	require.Len(t, both.ListLogProbs[1], 2)
	for row := range 2 {
		require.Equal(t, both.Draws[4*row], both.Tokens[row])
		require.LessOrEqual(t, both.LogProbs[row], float32(0))
		if rank := int(both.Ranks[row]); rank <= 3 {
			require.Equal(t, both.LogProbs[row], both.TopLogProbs[3*row+rank-1])
		} else {
			require.LessOrEqual(t, both.LogProbs[row], both.TopLogProbs[3*row+2])
		}
		r := fullRows()
		r.Slots, r.SlotCount = []int32{int32(row)}, 2
		one, err := slotted.Sample(t.Context(), h[:8], r)
		require.NoError(t, err)
		require.Equal(t, both.Draws[4*row:][:4], one.Draws)
		require.Equal(t, both.TopIDs[3*row:][:3], one.TopIDs)
		require.Equal(t, both.ListLogProbs[row], one.ListLogProbs[0])
		require.Equal(t, both.Ranks[row], one.Ranks[0])
		require.Equal(t, both.Seeds[row], one.Seeds[0])
	}
	require.Contains(t, []int32{1, 2, 3, 4, 5}, both.Tokens[1], "allowed")
}

// Counts may be one vector for all rows, or rows of any stride.
func TestCountsOfAllShapes(t *testing.T) {
	plan := cpuPlanFor(t, 40, 8, Spec{Sampler: ir.Greedy, Chain: ir.Chain{Penalties: true}})
	h := make([]uint16, 16) // all logits 0: the first token that no penalty lowers
	r := Rows{Presence: []float32{1}, Counts: make([]uint32, 40)}
	r.Counts[0] = 1
	res, err := plan.Sample(t.Context(), h, r)
	require.NoError(t, err)
	require.Equal(t, []int32{1, 1}, res.Tokens)
	r.Counts, r.CountStride = make([]uint32, 90), 50
	r.Counts[50], r.Counts[51] = 1, 1
	res, err = plan.Sample(t.Context(), h, r)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 2}, res.Tokens)
}

// Case C10: every parameter of a call is honoured: the result depends on it.
func TestEveryParameterCounts(t *testing.T) {
	spec := fullSpec()
	spec.Slots, spec.Chain.Mask = true, true
	plan := cpuPlanFor(t, 200, 8, spec)
	h := make([]uint16, 6*8)
	for i := range h {
		h[i] = 0x3f80
	}
	base := func() Rows {
		r := fullRows()
		r.Slots, r.SlotCount, r.Mask = []int32{0, 0, 0, 1, 1, 1}, 2, []uint32{1<<32 - 1, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1, 255}
		r.DrawCounts, r.CountLists = []int32{4}, [][]ir.TokenCount{nil, {{ID: 3, Count: 1 | ir.CountPrompt}}}
		return r
	}
	want, err := plan.Sample(t.Context(), h, base())
	require.NoError(t, err)
	again, err := plan.Sample(t.Context(), h, base())
	require.NoError(t, err)
	require.Equal(t, want, again)
	for name, change := range map[string]func(r *Rows){
		"seeds":       func(r *Rows) { r.Seeds = []uint64{1, 99} },
		"positions":   func(r *Rows) { r.Positions = []uint64{4} },
		"draw":        func(r *Rows) { r.Draw = 1 },
		"stream tag":  func(r *Rows) { r.StreamTag = ir.StreamUser },
		"temperature": func(r *Rows) { r.Temperature = []float32{2, 1} },
		"bias":        func(r *Rows) { r.BiasLists = [][]ir.TokenBias{nil, {{ID: 3, Value: 2}}} },
		"allowed":     func(r *Rows) { r.AllowIDs = [][]int32{nil, {1, 2, 3, 4}} },
		"banned":      func(r *Rows) { r.BanIDs = [][]int32{nil, {3}} },
		"mask":        func(r *Rows) { r.Mask, r.MaskWords = []uint32{0b10110}, 1 },
		"repetition":  func(r *Rows) { r.Repetition = []float32{3} },
		"frequency":   func(r *Rows) { r.Frequency = []float32{2} },
		"presence":    func(r *Rows) { r.Presence = []float32{2} },
		"counts":      func(r *Rows) { r.CountLists = nil },
		"top-k":       func(r *Rows) { r.TopK = []int32{0, 2} },
		"top-p":       func(r *Rows) { r.TopP = []float32{.3} },
		"min-p":       func(r *Rows) { r.MinP = []float32{0, .9} },
		"draws":       func(r *Rows) { r.DrawCounts = []int32{3} },
		"listed":      func(r *Rows) { r.ListIDs = [][]int32{{1}, {3, 2}} },
		"slots":       func(r *Rows) { r.Slots = []int32{0, 0, 0, 0, 1, 1} },
	} {
		r := base()
		change(&r)
		got, err := plan.Sample(t.Context(), h, r)
		require.NoError(t, err, name)
		got.Seeds = want.Seeds // which say nothing of what was drawn
		require.NotEqual(t, want, got, name)
	}
}

// Empty slices are none, on every device.
func TestEmptySlicesAreNone(t *testing.T) {
	const v, d = 200, 8
	w, h := make([]uint16, v*d), make([]uint16, 2*d)
	for i := range w {
		w[i] = bf16Bits(float32(i*i%31) / 8)
	}
	for i := range h {
		h[i] = bf16Bits(float32(i%5) / 4)
	}
	none := Rows{Seeds: []uint64{1, 2}, Positions: []uint64{3}}
	empty := none
	empty.BiasLists, empty.AllowIDs, empty.BanIDs, empty.CountLists = [][]ir.TokenBias{}, [][]int32{}, [][]int32{}, [][]ir.TokenCount{}
	empty.Repetition, empty.Frequency, empty.Presence, empty.Counts = []float32{}, []float32{}, []float32{}, []uint32{}
	draws := none
	draws.DrawCounts = []int32{}
	for name, c := range map[string]struct {
		spec  Spec
		empty Rows
	}{
		"edits": {Spec{Chain: ir.Chain{Bias: ir.BiasSparse, Penalties: true, IDs: true}, MaxBatch: 2}, empty},
		"draws": {Spec{Draws: ir.WithReplacement, MaxDraws: 3, MaxBatch: 2}, draws},
	} {
		for _, device := range []string{CPU, "sim:sm_90", "sim:sm_100"} {
			dev, err := Open(device)
			require.NoError(t, err)
			head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: d}, Vocab: v, Hidden: d})
			require.NoError(t, err)
			plan, err := head.Plan(t.Context(), c.spec)
			require.NoError(t, err)
			want, err := plan.Sample(t.Context(), h, none)
			require.NoError(t, err)
			got, err := plan.Sample(t.Context(), h, c.empty)
			require.NoError(t, err, "%s on %s", name, device)
			require.Equal(t, want.Tokens, got.Tokens)
			require.Equal(t, want.Draws, got.Draws)
		}
	}
}
