//go:build !fsgen_nocuda

package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// What is reported of rows of every filter, and of rows that draw several tokens among them, on a vocabulary of full size: the
// likeliest tokens, ranks and listed log-probabilities are the reference's, whichever pass decides the rows. Logits are exact: a hidden
// state is a unit vector.
func TestGPUReportsUnderTruncation(t *testing.T) {
	dev := gpu(t)
	cpu, err := Open(CPU)
	require.NoError(t, err)
	defer cpu.Close()
	const vocab, hidden, n = 151936, 64, 24
	rng := rand.New(rand.NewPCG(25, 26))
	for i, spread := range []float64{0.2, 1, 4} {
		source := Matrix{Data: normals(rng, vocab*hidden, spread), Hidden: hidden}
		h := make([]uint16, n*hidden)
		for b := range n {
			h[b*hidden+b%hidden] = 0x3F80 // 1 in bf16
		}
		for _, spec := range []Spec{
			{Truncation: ir.Truncation{TopK: true, TopP: true}, LogProb: ir.ProcessedLogProb, TopN: ir.MaxTopN, Rank: true, ListLogProbs: true},
			{Truncation: ir.Truncation{TopK: true, MinP: true}, LogProb: ir.RawLogProb, TopN: 5, Rank: true, ListLogProbs: true},
			{Truncation: ir.Truncation{TopP: true}, LogProb: ir.TemperatureLogProb, TopN: ir.MaxTopN, ListLogProbs: true},
			{Truncation: ir.Truncation{TopP: true, MinP: true}, LogProb: ir.ProcessedLogProb, TopN: 3, Rank: true, ListLogProbs: true, Draws: ir.WithReplacement},
			{LogProb: ir.ProcessedLogProb, TopN: 3, Rank: true, ListLogProbs: true, Draws: ir.WithoutReplacement},
		} {
			rows := narrowedRows(rng, spec.Truncation, n)
			if spec.Draws != ir.SingleDraw {
				spec.MaxDraws = 8
			}
			spec.Chain.Temperature, spec.MaxBatch = true, n
			for range n {
				rows.ListIDs = append(rows.ListIDs, []int32{0, vocab - 1, int32(rng.IntN(vocab)), int32(rng.IntN(vocab))})
			}
			first := sampleFiltered(t, cpu, source, vocab, hidden, RowMajor, spec, h, rows)
			for b := range n { // of tokens that are kept, too
				rows.ListIDs[b] = append(rows.ListIDs[b], max(first.Tokens[b], 0), max(first.TopIDs[b*spec.TopN], 0), max(first.TopIDs[(b+1)*spec.TopN-1], 0))
			}
			want := sampleFiltered(t, cpu, source, vocab, hidden, RowMajor, spec, h, rows)
			got := sampleFiltered(t, dev, source, vocab, hidden, []Layout{Packed, RowMajor}[i%2], spec, h, rows)
			require.Equal(t, want.Status, got.Status)
			require.Equal(t, want.Tokens, got.Tokens)
			require.Equal(t, want.Draws, got.Draws)
			require.Equal(t, want.Ranks, got.Ranks)
			require.Equal(t, want.TopIDs, got.TopIDs)
			for k, x := range want.TopLogProbs {
				nearLogProb(t, x, got.TopLogProbs[k], 2e-5, "spread %v, %v %s: place %d", spread, spec.Truncation.Items(), spec.LogProb, k)
			}
			for b, list := range want.ListLogProbs {
				for k, x := range list {
					nearLogProb(t, x, got.ListLogProbs[b][k], 1e-4, "spread %v, %v %s: row %d, id %d", spread, spec.Truncation.Items(), spec.LogProb, b, rows.ListIDs[b][k])
				}
			}
			passes := slices.Sorted(slices.Values(got.Passes))
			t.Logf("spread %3.1f %v %s: passes: median %d, most %d", spread, spec.Truncation.Items(), spec.LogProb, passes[n/2], passes[n-1])
		}
	}
}
