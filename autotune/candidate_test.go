package autotune

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/tiling"
)

func TestCandidateText(t *testing.T) {
	for _, b := range []int{1, 64, 256} {
		for _, c := range bucketOf(t, b).Candidates {
			back, err := ParseCandidate(c.String())
			require.NoError(t, err)
			assert.Equal(t, c, back)
		}
	}
	for _, bad := range []string{"", "m128", "m128n16k64s12c1@", "m128n16k64s12c1@0", "m128n16k64s12c1@-1", "m128n16k64s12c1@1e3",
		"m128n16k64s12c1@07", "m128n16k64s12c1@65537", "m128n16k64s12c1@1@1", " m128n16k64s12c1", "@132"} {
		_, err := ParseCandidate(bad)
		assert.Error(t, err, bad)
	}
}

func TestCandidatesCanRunAndStandInOrder(t *testing.T) {
	for _, a := range arch.All() {
		for _, sampler := range []ir.Sampler{ir.Gumbel, ir.Greedy} {
			c := ir.Computation{Chain: ir.Chain{Temperature: true, Mask: true}, Sampler: sampler}
			for _, n := range tiling.Widths(a, 256) {
				list := Candidates(a, c, n)
				first, err := tiling.Default(a, c, n)
				require.NoError(t, err)
				require.NotEmpty(t, list)
				assert.Equal(t, Candidate{Tile: first.Tile}, list[0], "the default stands first")
				seen := map[Candidate]bool{}
				for _, x := range list {
					assert.False(t, seen[x], "%s twice", x)
					seen[x] = true
					_, err := tiling.NewPlan(a, x.Tile, c.Normalize())
					assert.NoError(t, err)
				}
				assert.Equal(t, list, Candidates(a, c, n), "the order is fixed")
			}
		}
	}
}

func TestGrid(t *testing.T) {
	one := manifest.Grid{TileM: 128, TileN: 16, Cluster: 1}
	two := manifest.Grid{TileM: 128, TileN: 16, Cluster: 2}
	for _, c := range []struct {
		g                            manifest.Grid
		vocab, batch, resident, ctas int
		want                         int
	}{
		{one, 128 * 1002, 16, 132, 0, 132}, // the rule
		{one, 128 * 1002, 16, 132, 132, 132},
		{one, 128 * 1002, 16, 132, 120, 120},
		{one, 128 * 1002, 16, 100, 132, 100}, // a smaller part of the GPU
		{one, 128 * 5, 16, 132, 132, 5},      // no CTA without work
		{one, 128 * 5, 17, 132, 132, 10},     // two column tiles
		{two, 128 * 1002, 16, 132, 131, 130}, // whole clusters
		{two, 128 * 1002, 16, 132, 1, 2},
		{two, 128 * 3, 16, 132, 132, 4},
		{one, 128, 0, 132, 132, 0},
		{one, 128, 0, 132, 0, 0},
	} {
		assert.Equal(t, c.want, Grid(c.g, c.vocab, c.batch, c.resident, c.ctas), "%+v", c)
	}
}
