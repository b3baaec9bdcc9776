//go:build !race

package sampler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// shardCase is something that ranks compute together.
type shardCase struct {
	spec Spec
	rows func(rng *rand.Rand, vocab, n int) Rows
}

// seeded are rows with a seed each, and temperatures of all sorts.
func seeded(rng *rand.Rand, n int) (r Rows) {
	for i := range n {
		r.Seeds, r.Positions = append(r.Seeds, rng.Uint64()), append(r.Positions, uint64(i))
		r.Temperature = append(r.Temperature, []float32{1, 0, 0.3, 2.5, 0.7}[rng.IntN(5)])
	}
	return r
}

func masked(rng *rand.Rand, vocab, n int) Rows {
	r := seeded(rng, n)
	r.Mask, r.Bias = make([]uint32, n*((vocab+31)/32)), make([]float32, vocab)
	for i := range r.Mask {
		r.Mask[i] = rng.Uint32()
	}
	clear(r.Mask[:len(r.Mask)/n]) // a row with nothing
	for i := range r.Bias {
		r.Bias[i] = float32(rng.NormFloat64())
	}
	return r
}

func penalised(rng *rand.Rand, vocab, n int) Rows {
	r := seeded(rng, n)
	r.Repetition, r.Presence = []float32{1.3}, []float32{0.2}
	for range n {
		var counts []ir.TokenCount
		var bias []ir.TokenBias
		for id := rng.IntN(9); id < vocab; id += 1 + rng.IntN(vocab/9) {
			counts, bias = append(counts, ir.TokenCount{ID: int32(id), Count: uint32(1 + rng.IntN(3))}), append(bias, ir.TokenBias{ID: int32(vocab - 1 - id), Value: 2})
		}
		r.CountLists, r.BiasLists, r.BanIDs = append(r.CountLists, counts), append(r.BiasLists, bias), append(r.BanIDs, []int32{int32(rng.IntN(vocab)), 0})
	}
	return r
}

// odd are rows that end as few do: a NaN, nothing but -inf, several of +inf, and scores that are all equal or negative, whose best are
// in several shards.
func odd(_ *rand.Rand, vocab, n int) (r Rows) {
	r.Bias = make([]float32, n*vocab)
	row := func(i int) []float32 { return r.Bias[i%n*vocab:][:vocab] }
	inf := float32(math.Inf(1))
	row(0)[vocab-1], row(0)[3] = float32(math.NaN()), inf
	for id := range vocab {
		row(1)[id] = -inf
		row(2)[id] = []float32{-1e30, -1e30, -2e30}[id%3] // whatever the logits
		row(3)[id] = -1e9 - float32(id%7)
	}
	row(4)[vocab-2], row(4)[60], row(4)[61] = inf, inf, inf
	return r
}

// narrowed are rows of all filters, some of which have none.
func narrowed(rng *rand.Rand, _, n int) Rows {
	r := seeded(rng, n)
	for i := range n {
		r.TopK = append(r.TopK, []int32{40, 1, 0, 5}[i%4])
		r.TopP, r.MinP = append(r.TopP, []float32{0.9, 0.5, 1}[i%4%3]), append(r.MinP, []float32{0, 0, 0, 0.05}[i%4])
	}
	return r
}

// several are rows that draw up to as many tokens as their plan has room for.
func several(rng *rand.Rand, _, n int) Rows {
	r := seeded(rng, n)
	for i := range n {
		r.DrawCounts = append(r.DrawCounts, int32(1+i%8))
	}
	return r
}

// listing adds to rows lists of ids of all lengths, some longer than a round of the exchange.
func listing(more func(rng *rand.Rand, vocab, n int) Rows) func(rng *rand.Rand, vocab, n int) Rows {
	return func(rng *rand.Rand, vocab, n int) Rows {
		r := more(rng, vocab, n)
		for i := range n {
			list := []int32{int32(vocab - 1), 0}
			for range []int{0, 7, 150}[i%3] {
				list = append(list, int32(rng.IntN(vocab)))
			}
			r.ListIDs = append(r.ListIDs, list)
		}
		return r
	}
}

var shardCases = map[string]shardCase{
	"greedy":  {Spec{Sampler: ir.Greedy, Score: true}, func(*rand.Rand, int, int) Rows { return Rows{} }},
	"gumbel":  {Spec{Chain: ir.Chain{Temperature: true, Mask: true, Bias: ir.BiasVector}, Score: true}, masked},
	"grouped": {Spec{Sampler: ir.Grouped, Chain: ir.Chain{Temperature: true}, Score: true, LogSumExp: true}, func(rng *rand.Rand, _, n int) Rows { return seeded(rng, n) }},
	"logprob": {Spec{Chain: ir.Chain{Temperature: true}, LogProb: ir.RawLogProb}, func(rng *rand.Rand, _, n int) Rows { return seeded(rng, n) }},
	"narrow":  {Spec{Chain: ir.Chain{Temperature: true}, Truncation: ir.Truncation{TopK: true, TopP: true, MinP: true}, Score: true, LogProb: ir.ProcessedLogProb}, narrowed},
	"draws":   {Spec{Chain: ir.Chain{Temperature: true}, Draws: ir.WithReplacement, MaxDraws: 8}, several},
	"beam":    {Spec{Chain: ir.Chain{Temperature: true}, Draws: ir.WithoutReplacement, MaxDraws: 8}, several},
	"odd":     {Spec{Sampler: ir.Greedy, Chain: ir.Chain{Bias: ir.BiasMatrix}, Score: true, LogSumExp: true}, odd},
	"reports": {Spec{Chain: ir.Chain{Temperature: true, Mask: true, Bias: ir.BiasVector}, LogProb: ir.ProcessedLogProb, TopN: 7, Rank: true, ListLogProbs: true}, listing(masked)},
	"model":   {Spec{Chain: ir.Chain{Temperature: true, Bias: ir.BiasVector, Mask: true}, LogProb: ir.RawLogProb, TopN: 20, Rank: true, ListLogProbs: true}, listing(masked)},
	"kept": {Spec{Chain: ir.Chain{Temperature: true}, Truncation: ir.Truncation{TopK: true, TopP: true, MinP: true}, LogProb: ir.ProcessedLogProb,
		TopN: 5, Rank: true, ListLogProbs: true}, listing(narrowed)},
	"listed edits": {Spec{Chain: ir.Chain{Temperature: true, Bias: ir.BiasSparse, Penalties: true, IDs: true}, LogProb: ir.ProcessedLogProb,
		Rank: true, ListLogProbs: true}, listing(penalised)},
	"edits": {Spec{Chain: ir.Chain{Temperature: true, Bias: ir.BiasSparse, Penalties: true, IDs: true}, LogSumExp: true, LogProb: ir.ProcessedLogProb}, penalised},
}

// shardSpans cut a vocabulary of some ids, with starts in the middle of whatever has a size.
func shardSpans(vocab int) [][]ir.Span {
	return [][]ir.Span{
		ir.EvenSpans(vocab, 2), ir.EvenSpans(vocab, 3),
		{{Start: 0, Count: 45}, {Start: 45, Count: vocab - 45}},
		{{Start: 0, Count: 1}, {Start: 1, Count: 0}, {Start: 1, Count: 170}, {Start: 171, Count: vocab - 171}},
	}
}

// TestShardsGiveTheWhole: whatever way a vocabulary is cut, and however records travel, rows come to the tokens, scores and statuses of
// one device, and to its sums as far as these are exact.
func TestShardsGiveTheWhole(t *testing.T) {
	const vocab, hidden, n = 403, 16, 5
	for name, c := range shardCases {
		rng := rand.New(rand.NewPCG(uint64(len(name)), 3))
		w, h := normals(rng, vocab*hidden, 0.5), normals(rng, n*hidden, 1)
		weights := Weights{Source: Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden}
		c.spec.MaxBatch = n
		rows := c.rows(rng, vocab, n)
		for _, device := range []string{CPU, "sim:sm_90", "sim:sm_100"} {
			if device == CPU && (c.spec.LogProb != ir.NoLogProb || c.spec.Computation().Collects()) {
				continue
			}
			if c.spec.Rank && device == []string{"sim:sm_90", "sim:sm_100"}[len(name)%2] { // reports take as long as all else
				continue
			}
			want := sampleGroup(t, GroupConfig{Devices: []string{device}}, weights, nil, c.spec, h, rows)
			for i, spans := range shardSpans(vocab) {
				if device != CPU && (i+len(name)+len(device))%4 != 0 { // simulators take a table each, of every case another
					continue
				}
				cfg := GroupConfig{Devices: make([]string, len(spans))}
				for i := range cfg.Devices {
					cfg.Devices[i] = device
				}
				if i%2 == 1 && !c.spec.Computation().Collects() && !c.spec.Rank {
					cfg.Transport = TransportHost
				}
				weights.Layout = []Layout{RowMajor, Packed}[i/2%2]
				if c.spec.Computation().ValidSpans(spans, vocab) != nil {
					continue
				}
				what := fmt.Sprintf("%s on %s, %s, %v", name, device, weights.Layout, spans)
				requireSame(t, want, sampleGroup(t, cfg, weights, spans, c.spec, h, rows), what)
			}
		}
	}
}

func requireSame(t *testing.T, want, got *Result, what string) {
	t.Helper()
	require.Equal(t, want.Tokens, got.Tokens, what)
	require.Equal(t, want.Status, got.Status, what)
	require.Equal(t, want.Ranks, got.Ranks, what)
	require.Equal(t, want.TopIDs, got.TopIDs, what)
	require.Len(t, got.ListLogProbs, len(want.ListLogProbs), what)
	for _, x := range []struct{ want, got []float32 }{{want.LogSumExp, got.LogSumExp}, {want.LogProbs, got.LogProbs}, {want.TopLogProbs, got.TopLogProbs},
		{slices.Concat(want.ListLogProbs...), slices.Concat(got.ListLogProbs...)}} {
		require.Len(t, x.got, len(x.want), what)
		for i := range x.want {
			if !math.IsNaN(float64(x.want[i])) || !math.IsNaN(float64(x.got[i])) {
				if math.IsInf(float64(x.want[i]), -1) {
					require.Equal(t, x.want[i], x.got[i], "%s, number %d", what, i)
					continue
				}
				require.InDelta(t, x.want[i], x.got[i], 4e-6*(1+math.Abs(float64(x.want[i]))), "%s, row %d", what, i)
			}
		}
	}
	require.Equal(t, want.Draws, got.Draws, what)
	require.Len(t, got.Scores, len(want.Scores), what)
	for i := range want.Scores {
		require.Equal(t, math.Float32bits(want.Scores[i]), math.Float32bits(got.Scores[i]), "%s, row %d", what, i)
	}
}

func sampleGroup(t *testing.T, cfg GroupConfig, w Weights, spans []ir.Span, spec Spec, h []uint16, rows Rows) *Result {
	t.Helper()
	g, err := OpenGroup(t.Context(), cfg)
	require.NoError(t, err)
	defer g.Close()
	head, err := g.LoadHead(t.Context(), w, spans)
	require.NoError(t, err)
	defer head.Close()
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	defer plan.Close()
	first, err := plan.Sample(t.Context(), h, rows)
	require.NoError(t, err)
	if g.World() > 1 { // the other half of an inbox
		again, err := plan.Sample(t.Context(), h, rows)
		require.NoError(t, err)
		requireSame(t, first, again, "again")
	}
	return first
}

// TestShardsTakeFurtherPasses: rows that keep more than lists hold, or whose cut the first pass cannot tell, are decided by ranks as by one
// device: their surveys add up exactly.
func TestShardsTakeFurtherPasses(t *testing.T) {
	for i, c := range []struct {
		truncation ir.Truncation
		logProb    ir.LogProb
		draws      ir.Draws
		vocab      int
		spread     float64
		device     string
	}{
		{ir.Truncation{TopP: true, MinP: true}, ir.ProcessedLogProb, ir.SingleDraw, 2900, 0.2, "sim:sm_100"},
		{ir.Truncation{TopK: true}, ir.RawLogProb, ir.SingleDraw, 4000, 0, "sim:sm_90"}, // with reports, of a list that a rank cannot send as a whole
		{ir.Truncation{}, ir.NoLogProb, ir.WithReplacement, 12000, 0.2, "sim:sm_90"},
	} {
		const hidden = 8
		n := 2
		if c.draws != ir.SingleDraw { // some rows of a shard with fewer blocks than draws are open
			n = 8
		}
		rng := rand.New(rand.NewPCG(uint64(i), 12))
		w, h := normals(rng, c.vocab*hidden, c.spread), normals(rng, n*hidden, 1)
		weights := Weights{Source: Matrix{Data: w, Hidden: hidden}, Vocab: c.vocab, Hidden: hidden}
		rows := Rows{Positions: []uint64{4}}
		for seed := range n {
			rows.Seeds = append(rows.Seeds, uint64(seed+1))
		}
		if c.truncation.TopK {
			rows.TopK = []int32{700, 1}
		}
		if c.truncation.TopP {
			rows.TopP = []float32{0.99, 0.5}
		}
		if c.truncation.MinP {
			rows.MinP = []float32{0, 0.2}
		}
		spec := Spec{Truncation: c.truncation, LogProb: c.logProb, Score: true, Draws: c.draws, MaxBatch: n}
		if c.draws != ir.SingleDraw {
			spec.MaxDraws = 64
		}
		if c.logProb == ir.RawLogProb {
			spec.TopN, spec.Rank, spec.ListLogProbs, rows.ListIDs = 4, true, true, [][]int32{{0, 500, 501, 3999}}
		}
		want := sampleGroup(t, GroupConfig{Devices: []string{CPU}}, weights, nil, spec, h, rows)
		got := sampleGroup(t, GroupConfig{Devices: []string{c.device, c.device}}, weights, []ir.Span{{Start: 0, Count: 501}, {Start: 501, Count: c.vocab - 501}}, spec, h, rows)
		require.Equal(t, want.Tokens, got.Tokens, "%v", c)
		require.Equal(t, want.Status, got.Status, "%v", c)
		require.Equal(t, want.Draws, got.Draws, "%v", c)
		require.Greater(t, slices.Max(got.Passes), int32(1), "%v: %v", c, got.Passes)
		for i := range want.LogProbs {
			require.InDelta(t, want.LogProbs[i], got.LogProbs[i], 1e-5, "%v", c)
		}
		require.Equal(t, want.Ranks, got.Ranks, "%v", c)
		require.Equal(t, want.TopIDs, got.TopIDs, "%v", c)
		require.InDeltaSlice(t, slices.Concat(want.ListLogProbs...), slices.Concat(got.ListLogProbs...), 1e-5, "%v", c)
		t.Log(c, got.Passes)
	}
}

// TestShardsListTopsAgain: logits that rise with the ids keep one rank's bound too low for its list, and all ranks go over their shards again
// until it holds.
func TestShardsListTopsAgain(t *testing.T) {
	const vocab, hidden = 20000, 8
	w, h := make([]uint16, vocab*hidden), make([]uint16, hidden)
	h[0], h[1] = bf16Bits(1), bf16Bits(1)
	for v := range vocab {
		x := float32(v) / 128
		w[v*hidden] = bf16Bits(x)
		w[v*hidden+1] = bf16Bits(x - math.Float32frombits(uint32(w[v*hidden])<<16))
	}
	weights := Weights{Source: Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	spec, rows := Spec{LogProb: ir.RawLogProb, TopN: 20, Rank: true, MaxBatch: 1}, Rows{Seeds: []uint64{4}, Positions: []uint64{2}}
	want := sampleGroup(t, GroupConfig{Devices: []string{CPU}}, weights, nil, spec, h, rows)
	for _, first := range []int{1000, 500, 300, 2000} { // the order of CTAs has a say in it
		spans := []ir.Span{{Start: 0, Count: first}, {Start: first, Count: vocab - first}}
		got := sampleGroup(t, GroupConfig{Devices: []string{"sim:sm_100", "sim:sm_100"}}, weights, spans, spec, h, rows)
		require.Equal(t, want.Ranks, got.Ranks)
		require.Equal(t, want.TopIDs, got.TopIDs)
		require.InDeltaSlice(t, want.TopLogProbs, got.TopLogProbs, 1e-5)
		if got.Passes[0] > 2 { // one that counts, and one that lists again
			return
		}
	}
	t.Fatal("lists were long enough at once, whichever way the vocabulary was cut")
}

// TestGroupsTakeRowsInParts: what rows bring goes with them where a batch is more than records have room for.
func TestGroupsTakeRowsInParts(t *testing.T) {
	const n = 5
	rng := rand.New(rand.NewPCG(1, 2))
	rows := listing(narrowed)(rng, 90, n)
	for i := range int32(n) {
		rows.DrawCounts = append(rows.DrawCounts, i+1)
	}
	spec := Spec{Chain: ir.Chain{Temperature: true}, Truncation: ir.Truncation{TopK: true, TopP: true, MinP: true}, LogProb: ir.RawLogProb, ListLogProbs: true,
		Draws: ir.WithoutReplacement, MaxDraws: n}
	b, err := newBatch(spec, ir.Shape{Vocab: 90, Hidden: 8}, make([]uint16, 8*n), rows)
	require.NoError(t, err)
	p := b.part(2, 2)
	require.Equal(t, rows.Temperature[2:4], p.temp)
	require.Equal(t, rows.TopK[2:4], p.params.TopK)
	require.Equal(t, rows.TopP[2:4], p.params.TopP)
	require.Equal(t, rows.MinP[2:4], p.params.MinP)
	require.Equal(t, rows.ListIDs[2:4], p.params.ListIDs)
	require.Equal(t, rows.DrawCounts[2:4], p.drawCounts)
}
