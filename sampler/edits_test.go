//go:build !race

package sampler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/tiling"
)

var inf = float32(math.Inf(1))

// someIDs draws ids without repeats, in no order, the borders of tiles and of the vocabulary among them.
func someIDs(rng *rand.Rand, n, vocab int) (ids []int32) {
	seen := map[int32]bool{}
	for _, id := range []int{0, vocab - 1, 15, 16, 31, 32, 63, 64, 127, 128, 191, 192} {
		if rng.IntN(3) == 0 && id < vocab {
			seen[int32(id)] = true
		}
	}
	for len(seen) < min(n, vocab) {
		seen[int32(rng.IntN(vocab))] = true
	}
	for id := range seen {
		ids = append(ids, id)
	}
	return ids
}

// editRows makes rows with lists of every kind and size, all, few and none of them in a row.
func editRows(rng *rand.Rand, spec sampler.Spec, sets, vocab int) (r sampler.Rows) {
	c := spec.Chain
	sizes := []int{0, 1, 2, 5, 30, vocab / 3, vocab}
	size := func() int { return sizes[rng.IntN(len(sizes))] }
	values := []float32{0, 1, -1, 3, -5, 0.001, 40, -inf}
	for i := range sets {
		if c.Temperature {
			r.Temperature = append(r.Temperature, []float32{0, 0.5, 1, 2}[rng.IntN(4)])
		}
		var bias []ir.TokenBias
		var counts []ir.TokenCount
		if i%4 != 3 {
			for _, id := range someIDs(rng, size(), vocab) {
				bias = append(bias, ir.TokenBias{ID: id, Value: values[rng.IntN(len(values))]})
			}
			for _, id := range someIDs(rng, size(), vocab) {
				counts = append(counts, ir.TokenCount{ID: id, Count: uint32(rng.IntN(4)) | uint32(rng.IntN(2))<<31})
			}
		}
		if c.Bias == ir.BiasSparse {
			r.BiasLists = append(r.BiasLists, bias)
		}
		if c.Penalties {
			r.CountLists = append(r.CountLists, counts)
			r.Repetition = append(r.Repetition, []float32{1, 1.5, 0.5, 1e30}[rng.IntN(4)])
			r.Frequency = append(r.Frequency, []float32{0, 0.25, -1}[rng.IntN(3)])
			r.Presence = append(r.Presence, []float32{0, 0.5, -2}[rng.IntN(3)])
		}
		if c.IDs {
			var allow, ban []int32
			if i%3 == 0 {
				allow = append([]int32{}, someIDs(rng, size(), vocab)...)
			}
			if i%2 == 0 {
				ban = someIDs(rng, size()/2, vocab)
			}
			r.AllowIDs, r.BanIDs = append(r.AllowIDs, allow), append(r.BanIDs, ban)
		}
		if spec.Sampler.Random() {
			r.Seeds, r.Positions = append(r.Seeds, rng.Uint64()), append(r.Positions, rng.Uint64())
		}
		if spec.Truncation.TopK {
			r.TopK = append(r.TopK, int32(rng.IntN(12)))
		}
		if spec.Truncation.TopP {
			r.TopP = append(r.TopP, []float32{0.5, 0.9, 1}[rng.IntN(3)])
		}
		if spec.Truncation.MinP {
			r.MinP = append(r.MinP, []float32{0, 0.1}[rng.IntN(2)])
		}
	}
	addDense(rng, c, &r, sets, vocab)
	return r
}

// addDense adds what the chain takes beside edits.
func addDense(rng *rand.Rand, c ir.Chain, r *sampler.Rows, sets, vocab int) {
	if c.Mask {
		for range sets * ((vocab + 31) / 32) {
			r.Mask = append(r.Mask, rng.Uint32()|rng.Uint32())
		}
	}
	biases := map[ir.Bias]int{ir.BiasVector: vocab, ir.BiasMatrix: sets * vocab}[c.Bias]
	for range biases {
		r.Bias = append(r.Bias, float32(rng.NormFloat64()))
	}
}

// denseCounts turns lists of counts to counts of all tokens.
func denseCounts(r sampler.Rows, vocab int) sampler.Rows {
	r.Counts = make([]uint32, len(r.CountLists)*vocab)
	for i, list := range r.CountLists {
		for _, e := range list {
			r.Counts[i*vocab+int(e.ID)] = e.Count
		}
	}
	r.CountLists = nil
	return r
}

func chainOf(t *testing.T, text string) ir.Chain {
	c, err := ir.ParseChain(text)
	require.NoError(t, err)
	return c
}

// slotted has rows find their sets of parameters by slots.
func slotted(rng *rand.Rand, r sampler.Rows, n int) sampler.Rows {
	r.SlotCount = max(len(r.Seeds), len(r.Repetition))
	for range n {
		r.Slots = append(r.Slots, int32(rng.IntN(r.SlotCount)))
	}
	return r
}

// editCases are the chains that edit, with what they meet: every sampler, what is reported, tiles of one product and of three.
var editCases = []struct {
	chain string
	vocab int
	batch int
	spec  sampler.Spec
	dense bool
	tiles [2]string // of sm_90 and sm_100; "" is the default
}{
	{chain: "bias=sparse,temperature", vocab: 700, batch: 7},
	{chain: "penalties,temperature", vocab: 391, batch: 5},
	{chain: "penalties,temperature", vocab: 391, batch: 67, dense: true},
	{chain: "ids,temperature", vocab: 700, batch: 17},
	{chain: "bias=sparse,penalties,ids", vocab: 200, batch: 40, spec: sampler.Spec{Sampler: ir.Greedy}},
	{chain: "softcap=3,scale=0.5,bias=sparse,penalties,bias-last,ids,mask,temperature", vocab: 500, batch: 20, spec: sampler.Spec{LogSumExp: true, LogProb: ir.ProcessedLogProb}},
	{chain: "softcap=3,bias=rows,penalties,ids,mask,temperature", vocab: 333, batch: 9, spec: sampler.Spec{Slots: true}, dense: true},
	{chain: "bias,penalties,bias-last,ids,temperature", vocab: 450, batch: 64, spec: sampler.Spec{LogSumExp: true}},
	{chain: "bias=sparse,penalties,ids,temperature", vocab: 450, batch: 66, spec: sampler.Spec{Sampler: ir.Grouped, LogProb: ir.ProcessedLogProb}},
	{chain: "softcap=3,bias=sparse,penalties,ids,temperature", vocab: 420, batch: 8, spec: sampler.Spec{LogProb: ir.RawLogProb}},
	{chain: "bias=sparse,penalties,ids,mask,temperature", vocab: 420, batch: 66, spec: sampler.Spec{LogProb: ir.TemperatureLogProb, Slots: true}, dense: true},
	{chain: "bias=sparse,penalties,ids", vocab: 300, batch: 18, spec: sampler.Spec{Sampler: ir.Greedy, LogProb: ir.RawLogProb}},
	{chain: "bias=sparse,penalties,ids,temperature", vocab: 450, batch: 9, spec: sampler.Spec{Truncation: ir.Truncation{TopK: true, TopP: true}}},
	{chain: "softcap=3,penalties,ids,mask,temperature", vocab: 450, batch: 5, spec: sampler.Spec{Truncation: ir.Truncation{TopP: true, MinP: true}}},
	{chain: "bias=sparse,penalties,ids,temperature", vocab: 300, batch: 6, spec: sampler.Spec{Draws: ir.WithReplacement, MaxDraws: 5}},
	{chain: "softcap=3,penalties,ids,mask", vocab: 300, batch: 6, spec: sampler.Spec{Draws: ir.WithoutReplacement, MaxDraws: 5}, dense: true},
	{chain: "softcap=3,bias=sparse,penalties,ids,temperature", vocab: 410, batch: 6, spec: sampler.Spec{Truncation: ir.Truncation{TopK: true, TopP: true}, LogProb: ir.RawLogProb, Rank: true, ListLogProbs: true}},
	{chain: "penalties,ids,mask,temperature", vocab: 2700, batch: 3, spec: sampler.Spec{Truncation: ir.Truncation{TopP: true, MinP: true}, Draws: ir.WithReplacement, MaxDraws: 4, LogProb: ir.TemperatureLogProb}, dense: true},
	{chain: "penalties,temperature", vocab: 300, batch: 9, spec: sampler.Spec{LogProb: ir.RawLogProb, LogSumExp: true, Rank: true}},
	{chain: "scale=0.5,bias=rows,penalties,bias-last,ids,mask,temperature", vocab: 320, batch: 7, spec: sampler.Spec{LogProb: ir.ProcessedLogProb, Rank: true, TopN: 4, ListLogProbs: true, Slots: true}},
	{chain: "softcap=3,bias=sparse,penalties,ids,temperature", vocab: 700, batch: 130, tiles: [2]string{"m128n128k64s4c2bp", "m128n128k64s3c2b"}},
	{chain: "bias=sparse,penalties,ids,mask,temperature", vocab: 700, batch: 40, tiles: [2]string{"m64n144k64s4c1", "m128n32k64s4c2"}, dense: true},
}

// What kernels make of edited rows is what the reference makes of them.
func TestEditsOnSimulators(t *testing.T) {
	for i, x := range editCases {
		rng := rand.New(rand.NewPCG(uint64(i), 77))
		const hidden = 8
		spec := x.spec
		spec.Chain, spec.MaxBatch, spec.Score = chainOf(t, x.chain), x.batch, true
		w, h := make([]uint16, x.vocab*hidden), make([]uint16, x.batch*hidden)
		for i := range w {
			w[i] = bf16(rng.NormFloat64() * 0.5)
		}
		for i := range h {
			h[i] = bf16(rng.NormFloat64())
		}
		rows := editRows(rng, spec, x.batch, x.vocab)
		if x.dense {
			rows = denseCounts(rows, x.vocab)
		}
		if spec.ListLogProbs {
			for range x.batch {
				rows.ListIDs = append(rows.ListIDs, someIDs(rng, 20, x.vocab))
			}
		}
		if spec.Slots {
			rows = slotted(rng, rows, x.batch)
		}
		weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: x.vocab, Hidden: hidden}
		want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
		for j, device := range []string{"sim:sm_90", "sim:sm_100"} {
			t.Run(fmt.Sprint(i, x.chain, device), func(t *testing.T) {
				if x.tiles[j] != "" {
					var err error
					spec.Tile, err = tiling.ParseTile(x.tiles[j])
					require.NoError(t, err)
				}
				got := sampler.SampleOne(t, device, weights, spec, h, rows)
				require.Equal(t, want.Status, got.Status)
				require.Equal(t, want.Tokens, got.Tokens)
				require.Equal(t, want.Draws, got.Draws)
				same := func(want, got []float32) {
					require.Len(t, got, len(want))
					for b, x := range want {
						if math.IsInf(float64(x), 0) || math.IsNaN(float64(x)) {
							require.Equal(t, fmt.Sprint(x), fmt.Sprint(got[b]))
							continue
						}
						require.InDelta(t, x, got[b], 1e-4*(1+math.Abs(float64(x))), "row %d", b)
					}
				}
				same(want.Scores, got.Scores)
				same(want.LogSumExp, got.LogSumExp)
				same(want.LogProbs, got.LogProbs)
				require.Equal(t, want.Ranks, got.Ranks)
				require.Equal(t, want.TopIDs, got.TopIDs)
				same(want.TopLogProbs, got.TopLogProbs)
				for b := range want.ListLogProbs {
					same(want.ListLogProbs[b], got.ListLogProbs[b])
				}
			})
		}
	}
}
