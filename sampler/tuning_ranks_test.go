package sampler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/tiling"
)

// rankKernels are the tiles of a rank's buckets.
func rankKernels(t *testing.T, spec Spec, shape ir.Shape, chosen *rankTiles) (tiles []string) {
	t.Helper()
	spec.shard, spec.chosen = ir.ShardExchange, chosen
	list, err := spec.buckets(arch.SM90, shape, RowMajor, nil)
	require.NoError(t, err)
	for _, b := range list {
		require.Equal(t, "exchange", b.Artifact.Manifest.Shard)
		tiles = append(tiles, b.Artifact.Manifest.Tile.Name)
	}
	return tiles
}

// TestRanksTakeWhatRank0Chose: rank 0 looks up a plain kernel of the largest shard's shape, on its part of the GPU, and all ranks take its
// tile, whatever their own shards are.
func TestRanksTakeWhatRank0Chose(t *testing.T) {
	whole := ir.Shape{Vocab: 1000, Hidden: 64}
	work := ShardShape(whole, []ir.Span{{Start: 0, Count: 40}, {Start: 40, Count: 960}})
	require.Equal(t, ir.Shape{Vocab: 968, Hidden: 64}, work, "with the rows ahead of it")
	require.Equal(t, ir.Shape{Vocab: 1, Hidden: 64}, ShardShape(whole, []ir.Span{{}}))
	spec := Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: 30}
	tu := tunedFor(t, spec, work, 16, "m64n32k64s5c2@2")
	own := spec
	own.shard = ir.ShardExchange
	choose := func(s Spec, t *tuner, work ir.Shape) *rankTiles {
		c, err := s.chooseForRanks(arch.SM90, work, RowMajor, t)
		if err != nil {
			panic(err)
		}
		return c
	}
	plain := choose(own, nil, work)
	got := choose(own, tu, work)
	require.Equal(t, &rankTiles{"sm_90", []string{plain.Tiles[0], "m64n32k64s5c2@2", plain.Tiles[2]}}, got)
	require.Equal(t, plain, choose(own, tu.part(2), work), "on a part of the GPU it was not measured")
	four := *tu
	four.gpu.Multiprocessors *= 3
	require.Equal(t, got, choose(own, four.part(3), work), "but on a GPU of which the part is as large")
	require.NotContains(t, choose(own, tu, whole).Tiles, "m64n32k64s5c2@2", "nor of another shape")
	untuned := own
	untuned.Tuning = Untuned
	require.Equal(t, plain, choose(untuned, tu, work))

	data, err := got.encode()
	require.NoError(t, err)
	back, err := decodeTiles(data)
	require.NoError(t, err)
	require.Equal(t, got, back)
	for _, vocab := range []int{40, 960} {
		require.Equal(t, "m64n32k64s5c2", rankKernels(t, spec, ir.Shape{Vocab: vocab, Hidden: 64}, back)[1])
	}
	require.Equal(t, rankKernels(t, spec, work, nil), rankKernels(t, spec, work, &rankTiles{"sm_100", got.Tiles}), "rank 0's GPU is of another architecture")
	own.chosen = &rankTiles{"sm_90", got.Tiles[:2]}
	_, err = own.buckets(arch.SM90, work, RowMajor, nil)
	require.ErrorContains(t, err, "rank 0 chose 2 tiles for a plan that has 3 here")
	_, err = decodeTiles([]byte("?"))
	require.Error(t, err)
	own.Tile = tiling.Tile{M: 64}
	require.Nil(t, choose(own, tu, work), "a tile that is asked for is taken")
}
