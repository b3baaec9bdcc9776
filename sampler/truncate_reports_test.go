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
)

// reportsUnderTruncation are the reports that are tried of rows that filters narrow, of those that draw several tokens, and of rows of
// both kinds; some of rows that take further passes.
var reportsUnderTruncation = []struct {
	ir.Truncation
	kind   ir.Draws
	chain  ir.Chain
	mode   ir.LogProb
	n      int
	rank   bool
	listed bool
	slots  bool
	vocab  int
	spread float64
}{
	{ir.Truncation{TopK: true, TopP: true}, ir.SingleDraw, ir.Chain{Temperature: true}, ir.ProcessedLogProb, 20, true, true, false, 630, 0.5},
	{ir.Truncation{TopK: true, MinP: true}, ir.SingleDraw, ir.Chain{Temperature: true, Mask: true, Bias: ir.BiasMatrix}, ir.RawLogProb, 5, true, true, true, 500, 1},
	{ir.Truncation{TopP: true}, ir.SingleDraw, ir.Chain{Temperature: true}, ir.TemperatureLogProb, 20, false, true, false, 520, 0.5},
	{ir.Truncation{TopK: true, TopP: true, MinP: true, TemperatureLast: true}, ir.SingleDraw, ir.Chain{Temperature: true, Mask: true}, ir.ProcessedLogProb, 7, true, true, true, 490, 2},
	{ir.Truncation{TopP: true, MinP: true}, ir.SingleDraw, ir.Chain{Temperature: true}, ir.ProcessedLogProb, 20, true, true, false, 2300, 0.2},
	{ir.Truncation{TopP: true}, ir.WithReplacement, ir.Chain{Temperature: true}, ir.ProcessedLogProb, 3, true, true, false, 2001, 0.1},
	{ir.Truncation{TopK: true}, ir.WithoutReplacement, ir.Chain{Temperature: true}, ir.RawLogProb, 20, true, true, true, 600, 1},
	{ir.Truncation{}, ir.WithReplacement, ir.Chain{Temperature: true, Mask: true}, ir.ProcessedLogProb, 4, true, true, false, 550, 1},
}

// What kernels report of rows that filters narrow, or that draw several tokens, is what the reference reports: the likeliest tokens
// and the ranks of those that are kept, or of all, and the log-probabilities of lists, among them tokens on both sides of the cut.
func TestReportsUnderTruncation(t *testing.T) {
	for i, c := range reportsUnderTruncation {
		rng := rand.New(rand.NewPCG(uint64(i), 13))
		const hidden, n = 8, 5
		w, h := make([]uint16, c.vocab*hidden), make([]uint16, n*hidden)
		for i := range w {
			w[i] = bf16(rng.NormFloat64() * c.spread)
		}
		for i := range h {
			h[i] = bf16(rng.NormFloat64())
		}
		rows := filterRows(rng, c.Truncation, n, c.vocab, c.chain.Temperature)
		spec := sampler.Spec{Chain: c.chain, Truncation: c.Truncation, LogProb: c.mode, Rank: c.rank, TopN: ir.MaxTopN, Slots: c.slots, MaxBatch: n}
		if spec.Draws = c.kind; c.kind != ir.SingleDraw {
			spec.MaxDraws, rows.DrawCounts = 4, []int32{4, 1, 3, 2, 4}
		}
		for b := range n {
			if c.chain.Mask {
				rows.Mask = append(rows.Mask, maskRow(rng, (c.vocab+31)/32, c.vocab, []int{c.vocab, 40, c.vocab, 0, 1}[b])...)
			}
			if c.slots {
				rows.SlotCount, rows.Slots = n, append(rows.Slots, int32((3*b+1)%n))
			}
			if c.vocab > 1000 && c.TopP {
				rows.TopP[b] = []float32{0.9, 0.5, 0.1, 0.95, 1}[b]
			}
		}
		for range n * c.vocab {
			if c.chain.Bias == ir.BiasMatrix {
				rows.Bias = append(rows.Bias, float32(rng.NormFloat64()))
			}
		}
		weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: c.vocab, Hidden: hidden}
		likeliest := sampler.SampleOne(t, "cpu", weights, spec, h, rows).TopIDs
		if spec.TopN, spec.ListLogProbs = c.n, c.listed; c.listed {
			rows.ListIDs = make([][]int32, n)
			for b := range n {
				slot := b
				if c.slots {
					slot = int(rows.Slots[b])
				}
				rows.ListIDs[slot] = []int32{0, int32(c.vocab - 1), int32(rng.IntN(c.vocab)), int32(rng.IntN(c.vocab))}
				for _, id := range likeliest[ir.MaxTopN*b:][:ir.MaxTopN] {
					rows.ListIDs[slot] = append(rows.ListIDs[slot], max(id, 0))
				}
			}
		}
		want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
		device := []string{"sim:sm_90", "sim:sm_100"}[i%2]
		t.Run(fmt.Sprint(device, c.Items(), c.kind, c.mode, c.vocab), func(t *testing.T) {
			got := sampler.SampleOne(t, device, weights, spec, h, rows)
			require.Equal(t, want.Status, got.Status)
			require.Equal(t, want.Tokens, got.Tokens)
			require.Equal(t, want.Draws, got.Draws)
			require.Equal(t, want.Ranks, got.Ranks)
			require.Equal(t, want.TopIDs, got.TopIDs)
			sameLogProbs(t, want.LogProbs, got.LogProbs)
			sameLogProbs(t, want.TopLogProbs, got.TopLogProbs)
			for b := range want.ListLogProbs {
				sameLogProbs(t, want.ListLogProbs[b], got.ListLogProbs[b])
			}
		})
	}
}

// sameLogProbs is near, and for those of nothing too.
func sameLogProbs(t *testing.T, want, got []float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, x := range want {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), -1) {
			require.Equal(t, fmt.Sprint(x), fmt.Sprint(got[i]), "place %d: %v for %v", i, got, want)
			continue
		}
		near(t, want[i:i+1], got[i:i+1])
	}
}
