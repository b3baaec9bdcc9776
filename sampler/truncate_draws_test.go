//go:build !race

package sampler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// drawsUnderTruncation are the filters and reports that several draws are tried beside: on rows that a list decides, and on flat ones,
// whose nuclei are wider than one and take further passes.
var drawsUnderTruncation = []struct {
	ir.Truncation
	kind   ir.Draws
	chain  ir.Chain
	mode   ir.LogProb
	lse    bool
	slots  bool
	most   int
	vocab  int
	spread float64
}{
	{ir.Truncation{TopK: true, TopP: true}, ir.WithReplacement, ir.Chain{Temperature: true}, ir.NoLogProb, false, false, 64, 630, 0.5},
	{ir.Truncation{TopP: true}, ir.WithReplacement, ir.Chain{Temperature: true}, ir.TemperatureLogProb, true, false, 8, 2901, 0.1},
	{ir.Truncation{TopK: true, TopP: true, MinP: true, TemperatureLast: true}, ir.WithoutReplacement, ir.Chain{Temperature: true, Mask: true}, ir.ProcessedLogProb, false, true, 8, 490, 2},
	{ir.Truncation{TopP: true, MinP: true, TemperatureLast: true}, ir.WithReplacement, ir.Chain{Temperature: true}, ir.ProcessedLogProb, false, false, 16, 2900, 0.2},
	{ir.Truncation{TopK: true}, ir.WithoutReplacement, ir.Chain{Temperature: true}, ir.RawLogProb, false, false, 64, 600, 0.2},
	{ir.Truncation{TopP: true, MinP: true}, ir.WithoutReplacement, ir.Chain{Temperature: true}, ir.ProcessedLogProb, false, false, 64, 2902, 0.1},
	{ir.Truncation{MinP: true}, ir.WithReplacement, ir.Chain{Mask: true}, ir.NoLogProb, true, true, 16, 500, 0.5},
	{ir.Truncation{MinP: true}, ir.WithoutReplacement, ir.Chain{}, ir.RawLogProb, false, false, 40, 2900, 0.05},
	{ir.Truncation{}, ir.WithReplacement, ir.Chain{Temperature: true, Mask: true}, ir.ProcessedLogProb, true, true, 32, 700, 1},
	{ir.Truncation{TopP: true}, ir.WithReplacement, ir.Chain{Temperature: true}, ir.RawLogProb, false, false, 8, 480, 2},
	{ir.Truncation{TopP: true}, ir.WithoutReplacement, ir.Chain{Temperature: true, Mask: true}, ir.TemperatureLogProb, true, false, 8, 470, 1},
	{ir.Truncation{}, ir.WithoutReplacement, ir.Chain{Temperature: true}, ir.RawLogProb, false, true, 32, 400, 1},
}

// What kernels draw of rows that filters narrow is what the reference draws, with what it tells of their first tokens, in as many
// passes as it takes; and so where nothing narrows, beside reports and slots.
func TestDrawsUnderTruncation(t *testing.T) {
	for i, c := range drawsUnderTruncation {
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		const hidden = 8
		n := 7
		if c.vocab > 1000 {
			n = 3
		}
		w, h := make([]uint16, c.vocab*hidden), make([]uint16, n*hidden)
		for i := range w {
			w[i] = bf16(rng.NormFloat64() * c.spread)
		}
		for i := range h {
			h[i] = bf16(rng.NormFloat64())
		}
		rows := filterRows(rng, c.Truncation, n, c.vocab, c.chain.Temperature)
		for b := range n {
			rows.DrawCounts = append(rows.DrawCounts, []int32{1, 2, int32(c.most), int32(1 + rng.IntN(c.most))}[b%4])
			if c.chain.Mask {
				rows.Mask = append(rows.Mask, maskRow(rng, (c.vocab+31)/32, c.vocab, []int{c.vocab, 1, int(rows.DrawCounts[b]) - 1, 0, 40}[b%5])...)
			}
			if c.slots {
				rows.SlotCount, rows.Slots = n, append(rows.Slots, int32((3*b+1)%n))
			}
			if c.vocab > 1000 && b < 3 { // wide nuclei
				if c.TopP {
					rows.TopP[b] = []float32{0.95, 0.9, 0.6}[b]
				}
				if c.MinP {
					rows.MinP[b] = []float32{0.1, 0, 0.05}[b]
				}
				if c.chain.Temperature {
					rows.Temperature[b] = []float32{0.7, 1, 3}[b]
				}
			}
		}
		spec := sampler.Spec{Chain: c.chain, Truncation: c.Truncation, Draws: c.kind, MaxDraws: c.most, LogProb: c.mode, LogSumExp: c.lse, Slots: c.slots, Score: true, MaxBatch: n}
		weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: c.vocab, Hidden: hidden}
		want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
		device := []string{"sim:sm_90", "sim:sm_100"}[i%2]
		t.Run(fmt.Sprint(device, c.Items(), c.kind, c.mode, c.vocab), func(t *testing.T) {
			got := sampler.SampleOne(t, device, weights, spec, h, rows)
			requireDraws(t, want, got)
			near(t, want.LogProbs, got.LogProbs)
			near(t, want.LogSumExp, got.LogSumExp)
			if c.vocab > 1000 {
				require.Greater(t, slices.Max(got.Passes), int32(1), "such rows take further passes")
			}
		})
	}
}

// A flat tail that min-p drops has all of the largest scores: a row that draws lists nothing of it.
func TestMinPOfAFlatTail(t *testing.T) {
	const vocab, hidden = 9005, 8
	rows := sampler.Rows{Seeds: []uint64{1}, Positions: []uint64{1}, MinP: []float32{0.1}, Bias: make([]float32, vocab)}
	rows.Bias[5], rows.Bias[900], rows.Bias[901] = 3, 2.5, 1
	weights := sampler.Weights{Source: sampler.Matrix{Data: make([]uint16, vocab*hidden), Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	for i, kind := range []ir.Draws{ir.SingleDraw, ir.WithReplacement, ir.WithoutReplacement} {
		spec := sampler.Spec{Chain: ir.Chain{Bias: ir.BiasVector}, Truncation: ir.Truncation{MinP: true}, Draws: kind, MaxBatch: 1}
		if kind != ir.SingleDraw {
			spec.MaxDraws = 6
		}
		want := sampler.SampleOne(t, "cpu", weights, spec, make([]uint16, hidden), rows)
		got := sampler.SampleOne(t, []string{"sim:sm_90", "sim:sm_100"}[i%2], weights, spec, make([]uint16, hidden), rows)
		requireDraws(t, want, got)
		require.LessOrEqual(t, got.Passes[0], int32(4))
	}
}
