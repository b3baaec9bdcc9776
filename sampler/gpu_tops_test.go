//go:build !fsgen_nocuda

package sampler

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// TestGPUTops holds the likeliest tokens and ranks over a whole vocabulary to the CPU's: of logits that are spread out, equal, and rising from
// tile to tile, which takes further passes. Logits that a float32 hardly tells apart may come in another order: those here are exact.
func TestGPUTops(t *testing.T) {
	dev := gpu(t)
	cpu, err := Open(CPU)
	require.NoError(t, err)
	const v, d = 151936, 64
	for name, spread := range map[string]func(rng *rand.Rand, i int) float32{
		"spread": func(rng *rand.Rand, i int) float32 { return float32(rng.IntN(1<<7)) / 8 },
		"equal":  func(*rand.Rand, int) float32 { return 1 },
		"rising": func(_ *rand.Rand, i int) float32 { return float32(i/d*(1<<7)/v) + 1 },
	} {
		for _, n := range []int{1, 16, 64, 200} {
			rng := rand.New(rand.NewPCG(31, uint64(n)))
			p := &problem{v: v, d: d, n: n, w: make([]uint16, v*d), h: make([]uint16, n*d)}
			for i := range p.w {
				p.w[i] = bf16Bits(spread(rng, i))
			}
			for i := range p.h {
				p.h[i] = bf16Bits(float32(rng.IntN(8)) / 8) // products and sums are exact
			}
			for range n {
				p.rows.Seeds, p.rows.Positions = append(p.rows.Seeds, rng.Uint64()), append(p.rows.Positions, rng.Uint64())
				p.rows.Temperature = append(p.rows.Temperature, []float32{0, 0.5, 1, 2.5}[rng.IntN(4)])
			}
			for _, mode := range []ir.LogProb{ir.RawLogProb, ir.ProcessedLogProb} {
				spec := Spec{Chain: ir.Chain{Temperature: true}, LogProb: mode, TopN: ir.MaxTopN, Rank: true, MaxBatch: n}
				want, got := p.sampleLists(t, cpu, RowMajor, spec), p.sampleLists(t, dev, Packed, spec)
				require.Equal(t, want.TopIDs, got.TopIDs, "%s, B = %d", name, n)
				require.Equal(t, want.Ranks, got.Ranks, "%s, B = %d", name, n)
				for i, x := range want.TopLogProbs {
					nearLogProb(t, x, got.TopLogProbs[i], 1e-4, "%s, B = %d, place %d", name, n, i)
				}
			}
		}
	}
}

// mostForTops is what a launch that finds the 20 likeliest tokens may take over one of the plain kernel.
const mostForTops = 1.10

// TestGPUTopsCostLittle times them up to 64 rows.
func TestGPUTopsCostLittle(t *testing.T) {
	if os.Getenv("FSGEN_TIME") == "" {
		t.Skip("set FSGEN_TIME=1 to time")
	}
	timedOverPlain(t, mostForTops, func(int) []Spec {
		return []Spec{{LogProb: ir.RawLogProb, TopN: 20}, {LogProb: ir.ProcessedLogProb, TopN: 20}}
	})
}
