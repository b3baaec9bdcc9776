//go:build !fsgen_nocuda

package sampler

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// drawCounts are how many tokens random rows draw.
var drawCounts = []int32{1, 2, 5, 8, 32, 64}

// Rows of every number of draws on a vocabulary of full size: what the GPU draws is what the reference draws, and the test tells how
// many passes it took. Logits are exact: a hidden state is a unit vector.
func TestGPUDraws(t *testing.T) {
	dev := gpu(t)
	rng := rand.New(rand.NewPCG(21, 22))
	const vocab, hidden = 151936, 64
	for _, layout := range []Layout{Packed, RowMajor} {
		for _, spread := range []float64{0, 1, 4} {
			source := Matrix{Data: normals(rng, vocab*hidden, spread), Hidden: hidden}
			for _, kind := range []ir.Draws{ir.WithoutReplacement, ir.WithReplacement} {
				n := []int{1, 16, 40, 64, 130}[rng.IntN(5)]
				var rows Rows
				h := make([]uint16, n*hidden)
				for b := range n {
					h[b*hidden+b%hidden] = 0x3F80 // 1 in bf16
					rows.Seeds, rows.Positions = append(rows.Seeds, rng.Uint64()), append(rows.Positions, rng.Uint64())
					rows.Temperature = append(rows.Temperature, warm[rng.IntN(len(warm))])
					rows.DrawCounts = append(rows.DrawCounts, drawCounts[rng.IntN(len(drawCounts))])
				}
				spec := Spec{Chain: ir.Chain{Temperature: true}, Draws: kind, MaxDraws: ir.MaxDraws, Score: true, MaxBatch: n}
				got := sampleFiltered(t, dev, source, vocab, hidden, layout, spec, h, rows)
				cpu, err := Open(CPU)
				require.NoError(t, err)
				want := sampleFiltered(t, cpu, source, vocab, hidden, RowMajor, spec, h, rows)
				require.NoError(t, cpu.Close())
				require.Equal(t, want.Status, got.Status)
				require.Equal(t, want.Tokens, got.Tokens)
				require.Equal(t, want.Draws, got.Draws)
				for i, s := range got.DrawScores {
					require.InDelta(t, want.DrawScores[i], s, 1e-4*(1+math.Abs(float64(s))))
				}
				passes := slices.Sorted(slices.Values(got.Passes))
				t.Logf("%-8s spread %3.1f %s: %d rows, passes: median %d, 90%% %d, most %d", layout, spread, kind, n, passes[n/2], passes[n*9/10], passes[n-1])
			}
		}
	}
}

// mostOfDraws is what a launch of eight draws of each row may take over one of a single draw.
const mostOfDraws = 1.10

// TestGPUDrawsCostLittle holds both kinds to it, up to 64 rows, by medians of ratios of replays in turn.
func TestGPUDrawsCostLittle(t *testing.T) {
	if os.Getenv("FSGEN_TIME") == "" {
		t.Skip("set FSGEN_TIME=1 to time")
	}
	timedOverPlain(t, mostOfDraws, func(int) (specs []Spec) {
		for _, kind := range []ir.Draws{ir.WithoutReplacement, ir.WithReplacement} {
			specs = append(specs, Spec{Draws: kind, MaxDraws: 8})
		}
		return specs
	})
}
