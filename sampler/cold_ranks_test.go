package sampler

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
)

// Ranks of the cpu come to the log-sum-exps of one device below where log2(e)/T is past float32, too.
func TestSumsOfColdRowsOfRanks(t *testing.T) {
	for _, c := range []struct{ first, step float32 }{{1, 0x1p-7}, {1e-38, 1e-39}, {1e-37, 1e-38}, {-1e-38, 1e-39}, {2e-36, 2e-37}} {
		w, hidden := coldHead(1300, c.first, c.step)
		last := w.Source.(Matrix).Data[1299*w.Hidden:]
		last[0] = bf16Bits(c.first + c.step)
		spec := Spec{Chain: ir.Chain{Temperature: true}, LogSumExp: true, MaxBatch: len(coldTemperatures)}
		want := sampleOne(t, CPU, w, spec, hidden, coldRows())
		g, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{CPU, CPU, CPU}})
		require.NoError(t, err)
		head, err := g.LoadHead(t.Context(), w, nil)
		require.NoError(t, err)
		plan, err := head.Plan(t.Context(), spec)
		require.NoError(t, err)
		got, err := plan.Sample(t.Context(), hidden, coldRows())
		require.NoError(t, err)
		require.NoError(t, g.Close())
		require.Equal(t, want.Tokens, got.Tokens)
		for b, x := range want.LogSumExp {
			bound := reference.SummationBound(w.Vocab, float64(x))
			if x != got.LogSumExp[b] {
				assert.InDelta(t, x, got.LogSumExp[b], bound, fmt.Sprintf("%v by %v, T = %v", c.first, c.step, coldTemperatures[b]))
			}
		}
	}
}
