package sampler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/tiling"
)

// Every way to walk the vocabulary gives the same tokens and log-probabilities: low tiles at its end, clusters, warpgroups that take turns, more
// columns than one, rings deeper than an item.
func TestSimulatedTiles(t *testing.T) {
	for arch, tiles := range map[string][]string{
		"sm_90": {"m192n32k64s7c1", "m128n16k64s11c1", "m64n64k64s3c2", "m192n32k64s5c2b", "m128n32k64s4c1p", "m128n64k64s6c2p",
			"m128n32k64s5c2bp", "m64n64k64s3c1p", "m192n32k64s7c1p", "m192n16k64s4c1p"},
		"sm_100": {"m128n32k64s5c1", "m128n64k64s4c2"},
	} {
		dev, err := Open("sim:" + arch)
		require.NoError(t, err)
		defer dev.Close()
		for i, shape := range [][3]int{{700, 832, 40}, {2600, 200, 70}, {200, 456, 20}} { // low tiles, several columns, low tiles alone
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for _, layout := range []Layout{Packed, RowMajor} {
				if raceEnabled { // what is raced over is the simulator, which has tests of its own
					tiles = tiles[:1]
				}
				for _, name := range tiles {
					checkTile(t, arch, dev, rng, shape, layout, name)
				}
			}
		}
	}
}

// The same where the vocabulary leaves any number of rows for the last turns of the simulator's CTAs, the hidden size any number of stages about
// those of the ring, and the batch any column.
func TestSimulatedTilesOfAnyShape(t *testing.T) {
	dev, err := Open("sim:sm_90")
	require.NoError(t, err)
	defer dev.Close()
	rng := rand.New(rand.NewPCG(2, 3))
	pick := func(list ...int) int { return list[rng.IntN(len(list))] }
	names := []string{"m128n8k64s4c1", "m192n32k64s3c1p", "m128n64k64s3c2p", "m128n32k64s3c2bp", "m192n32k64s3c2b", "m64n32k64s3c1"}
	for i := range 48 {
		name := names[i%len(names)]
		tile, err := tiling.ParseTile(name)
		require.NoError(t, err)
		turn := tile.M * simCTAs
		if tile.Split {
			turn /= tile.Cluster
		}
		v := pick(turn, 2*turn, turn+turn/2, turn/4, 2*turn+rng.IntN(turn), rng.IntN(turn)) + rng.IntN(5) - 2
		d := 64*(tile.Stages+rng.IntN(4)-1) - pick(0, rng.IntN(64))
		batch := pick(tile.Width(), 1+rng.IntN(tile.Width()), tile.Width()+1+rng.IntN(8))
		checkTile(t, "sm_90", dev, rng, [3]int{max(v, 1), d, batch}, []Layout{Packed, RowMajor}[rng.IntN(2)], name)
	}
}

func checkTile(t *testing.T, arch string, dev *Device, rng *rand.Rand, shape [3]int, layout Layout, name string) {
	v, d, batch := shape[0], shape[1], shape[2]
	what := fmt.Sprintf("%v %s %s %s", shape, arch, layout, name)
	tile, err := tiling.ParseTile(name)
	require.NoError(t, err, what)
	w, hidden := normals(rng, v*d, 0.05), normals(rng, batch*d, 1)
	seeds := make([]uint64, batch)
	for i := range seeds {
		seeds[i] = rng.Uint64()
	}
	kind := ir.Gumbel
	if layout == Packed {
		kind = ir.Grouped
	}
	var want *Result
	cpu, err := Open("cpu")
	require.NoError(t, err)
	defer cpu.Close()
	for _, run := range []struct {
		dev  *Device
		tile tiling.Tile
	}{{cpu, tiling.Tile{}}, {dev, tile}} {
		head, err := run.dev.LoadHead(t.Context(), Weights{Source: pooledRows{w, d}, Vocab: v, Hidden: d, Layout: layout})
		require.NoError(t, err, what)
		plan, err := head.Plan(t.Context(), Spec{Chain: ir.Chain{Temperature: true}, Sampler: kind, LogProb: ir.ProcessedLogProb, MaxBatch: batch, Tile: run.tile})
		require.NoError(t, err, what)
		temps := make([]float32, batch)
		for i := range temps {
			temps[i] = float32(i%4) / 2
			if i%8 == 4 {
				temps[i] = float32(math.Copysign(0, -1)) // greedy like 0
			}
		}
		r, err := plan.Sample(t.Context(), hidden, Rows{Seeds: seeds, Positions: []uint64{5}, Temperature: temps})
		require.NoError(t, err, what)
		if want == nil {
			want = r
		}
		require.Equal(t, want.Tokens, r.Tokens, what)
		for i, x := range want.LogProbs { // which the CTA that had the token has noted
			nearLogProb(t, x, r.LogProbs[i], 1e-5, "%s: row %d", what, i)
		}
		require.NoError(t, plan.Close())
		require.NoError(t, head.Close())
	}
}
