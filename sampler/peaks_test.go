//go:build !race

// The race detector takes minutes over what lies in the simulator, which its own tests cover.

package sampler_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/tiling"
)

// Rows of repeated draws that the first pass leaves open are weighed by their largest logits, which it has found in another way for each
// kind of tile: in registers from tile to tile, or tile by tile. Of logits this far below 0 a sum in float32 says so little that many rows
// stay open, and their largest ones are so far apart that weights by another row's, by that of a row of weights that is not there,
// which is 0, or by one that is not the largest give other draws.
func TestPeaksOfTiles(t *testing.T) {
	const vocab, hidden, most = 300, 16, 64
	rng := rand.New(rand.NewPCG(31, 32))
	for _, c := range []struct {
		device, tile, chain string
		rows                int
	}{
		{"sim:sm_90", "m128n64k64s5c1p", "temperature", 40},
		{"sim:sm_90", "m128n64k64s5c2p", "scale=2,temperature", 64},
		{"sim:sm_90", "m64n32k64s5c1p", "scale=-1,temperature", 70},
		{"sim:sm_90", "m192n48k64s4c1p", "temperature", 60},
		{"sim:sm_90", "m192n32k64s4c1", "temperature", 20},
		{"sim:sm_90", "m128n16k64s5c1p", "temperature", 20},
		{"sim:sm_100", "m128n32k64s5c1", "temperature", 40},
		{"sim:sm_90", "m128n64k64s5c1p", "bias,temperature", 48},
	} {
		chain, err := ir.ParseChain(c.chain)
		require.NoError(t, err)
		tile, err := tiling.ParseTile(c.tile)
		require.NoError(t, err)
		w, h, r := make([]uint16, vocab*hidden), make([]uint16, c.rows*hidden), sampler.Rows{}
		up := math.Copysign(1, float64(chain.Scale))
		for v := range vocab {
			w[v*hidden] = bf16(-64 * up)
			w[v*hidden+1] = bf16(math.Round(min(3, max(-3, rng.NormFloat64()))*32) / 32)
		}
		for i := range hidden - 2 { // tokens in all parts of tiles, one of which is a row's largest by far
			w[(23*i+5)%vocab*hidden+i+2] = bf16(14 * up)
		}
		for b := range c.rows {
			h[b*hidden], h[b*hidden+1], h[b*hidden+2+b%(hidden-2)] = bf16(float64(100+2*b)), bf16(1), bf16(1)
			r.Seeds, r.Positions = append(r.Seeds, rng.Uint64()), append(r.Positions, rng.Uint64())
			r.DrawCounts, r.Temperature = append(r.DrawCounts, most), append(r.Temperature, 1.5)
		}
		if chain.Bias == ir.BiasVector {
			r.Bias = make([]float32, vocab)
			r.Bias[vocab-7] = 20
		}
		weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden}
		spec := sampler.Spec{Chain: chain, Draws: ir.WithReplacement, MaxDraws: most, MaxBatch: c.rows}
		want := sampler.SampleOne(t, "cpu", weights, spec, h, r)
		spec.Tile = tile
		got := sampler.SampleOne(t, c.device, weights, spec, h, r)
		require.Equal(t, want.Draws, got.Draws, "%s %s", c.tile, c.chain)
		open := 0
		for _, passes := range got.Passes {
			require.LessOrEqual(t, passes, int32(2))
			if passes == 2 {
				open++
			}
		}
		require.Greater(t, open, 1, "%s %s", c.tile, c.chain)
	}
}

// A sum in float32 says more of a row's draws the fewer additions have made it. One CTA that has all 136 tiles of a vocabulary leaves rows
// open that eight decide, and their draws are the same.
func TestRoundingOfSums(t *testing.T) {
	tile, err := tiling.ParseTile("m64n32k64s4c1")
	require.NoError(t, err)
	c := drawing{8700, 32, 0.5, "temperature", 64}
	weights, spec, h, rows := c.problem(t, rand.New(rand.NewPCG(5, 6)), ir.WithReplacement)
	rows.DrawCounts, rows.Temperature = []int32{int32(c.most)}, []float32{0.7}
	want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
	spec.Tile = tile
	open := map[int]int{}
	for _, ctas := range []int{1, 8} {
		spec.CTAs = ctas
		got := sampler.SampleOne(t, "sim:sm_90", weights, spec, h, rows)
		require.Equal(t, want.Draws, got.Draws, "%d CTAs", ctas)
		for _, passes := range got.Passes {
			open[ctas] += int(passes) - 1
		}
	}
	require.Less(t, open[8], open[1])
	require.Positive(t, open[8])
}
