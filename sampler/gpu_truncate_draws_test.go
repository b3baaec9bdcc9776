//go:build !fsgen_nocuda

package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// Several draws of rows of every filter, and of rows of none among them, on a vocabulary of full size: what the GPU draws, and tells of
// the first tokens, is the reference's, at spreads of logits from flat rows, whose nuclei take further passes, to peaked ones.
func TestGPUDrawsUnderTruncation(t *testing.T) {
	dev := gpu(t)
	cpu, err := Open(CPU)
	require.NoError(t, err)
	defer cpu.Close()
	const vocab, hidden, n = 151936, 64, 24
	rng := rand.New(rand.NewPCG(23, 24))
	for i, spread := range []float64{0.2, 1, 2.5, 6} {
		source := Matrix{Data: normals(rng, vocab*hidden, spread/math.Sqrt(hidden)), Hidden: hidden}
		h := normals(rng, n*hidden, 1)
		for j, spec := range []Spec{
			{Truncation: ir.Truncation{TopK: true, TopP: true}, Draws: ir.WithReplacement},
			{Truncation: ir.Truncation{TopP: true}, Draws: ir.WithoutReplacement, LogProb: ir.TemperatureLogProb, LogSumExp: true},
			{Truncation: ir.Truncation{TopK: true, TopP: true, MinP: true, TemperatureLast: true}, Draws: ir.WithReplacement, LogProb: ir.ProcessedLogProb},
			{Truncation: ir.Truncation{MinP: true}, Draws: ir.WithoutReplacement, LogProb: ir.RawLogProb},
			{Draws: ir.WithReplacement, LogProb: ir.ProcessedLogProb, LogSumExp: true},
			{Truncation: ir.Truncation{TopP: true}, Draws: ir.WithReplacement, LogProb: ir.RawLogProb},
		} {
			rows := narrowedRows(rng, spec.Truncation, n)
			for range n {
				rows.DrawCounts = append(rows.DrawCounts, drawCounts[rng.IntN(len(drawCounts))])
			}
			if spec.Slots = (i+j)%2 == 0; spec.Slots {
				rows.SlotCount = n
				for b := range n {
					rows.Slots = append(rows.Slots, int32((5*b+3)%n))
				}
			}
			spec.Chain.Temperature, spec.MaxDraws, spec.Score, spec.MaxBatch = true, ir.MaxDraws, true, n
			want := sampleFiltered(t, cpu, source, vocab, hidden, RowMajor, spec, h, rows)
			got := sampleFiltered(t, dev, source, vocab, hidden, []Layout{Packed, RowMajor}[i%2], spec, h, rows)
			require.Equal(t, want.Status, got.Status)
			require.Equal(t, want.Tokens, got.Tokens)
			require.Equal(t, want.Draws, got.Draws)
			for k, s := range got.DrawScores {
				require.InDelta(t, want.DrawScores[k], s, 1e-4*(1+math.Abs(float64(s))))
			}
			for b, x := range want.LogProbs {
				nearLogProb(t, x, got.LogProbs[b], 2e-5, "spread %v, %v %s %s: row %d", spread, spec.Truncation.Items(), spec.Draws, spec.LogProb, b)
			}
			passes := slices.Sorted(slices.Values(got.Passes))
			t.Logf("spread %3.1f %v %s: passes: median %d, 90%% %d, most %d", spread, spec.Truncation.Items(), spec.Draws, passes[n/2], passes[n*9/10], passes[n-1])
		}
	}
}
