//go:build !race

package sampler_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/tiling"
)

// Batches that fill no tile, one and a part of the next, on wide tiles of every kind, whose rings have more stages than an item and fewer,
// sample what the reference does, also beside a row of no numbers.
func TestBatchesOfWideTiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	for device, tiles := range map[string][]string{
		"sim:sm_90":  {"m128n64k64s4c1p", "m192n96k64s3c2p", "m128n128k64s3c2p", "m128n128k64s3c2bp", "m64n80k64s5c1", "m192n48k64s4c1p", "m128n96k64s4c2bp", "m64n192k64s3c1", "m128n256k64s3c2"},
		"sim:sm_100": {"m128n128k64s3c2", "m128n64k64s4c1", "m128n256k64s3c1"},
	} {
		for _, name := range tiles {
			tile, err := tiling.ParseTile(name)
			require.NoError(t, err)
			for range 3 {
				vocab, hidden, n := 1+rng.IntN(1200), 8*(1+rng.IntN(60)), 1+rng.IntN(tile.Width()+40)
				layout := []sampler.Layout{sampler.Packed, sampler.RowMajor}[rng.IntN(2)]
				t.Run(fmt.Sprintf("%s %s V=%d D=%d B=%d %s", device, name, vocab, hidden, n, layout), func(t *testing.T) {
					w, h := make([]uint16, vocab*hidden), make([]uint16, n*hidden)
					for i := range w {
						w[i] = bf16(float64(rng.IntN(9) - 4))
					}
					for i := range h {
						h[i] = bf16(float64(rng.IntN(5)-2) / 8)
					}
					var rows sampler.Rows
					for range n {
						rows.Seeds, rows.Positions = append(rows.Seeds, rng.Uint64()), append(rows.Positions, rng.Uint64())
						rows.Temperature = append(rows.Temperature, []float32{1, 0, 0.5, 2}[rng.IntN(4)])
					}
					if rng.IntN(4) == 0 {
						h[rng.IntN(n)*hidden] = 0x7FC0
					}
					weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden}
					spec := sampler.Spec{MaxBatch: n, LogSumExp: rng.IntN(2) == 0}
					spec.Chain.Temperature = true
					if rng.IntN(3) == 0 {
						spec.Sampler = ir.Grouped
					}
					want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
					spec.Tile, weights.Layout = tile, layout
					got := sampler.SampleOne(t, device, weights, spec, h, rows)
					require.Equal(t, want.Status, got.Status)
					require.Equal(t, want.Tokens, got.Tokens)
				})
			}
		}
	}
}
