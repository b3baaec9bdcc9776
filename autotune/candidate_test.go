package autotune

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
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
				r := gen.Request{Arch: a, Computation: c, Shape: ir.Shape{Vocab: 32000, Hidden: 1024}, Batch: n}
				list := Candidates(r)
				first, err := tiling.Default(a, c, r.Work())
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
				assert.Equal(t, list, Candidates(r), "the order is fixed")
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

// exhausted is a bucket that was measured with every candidate.
type exhausted struct {
	request gen.Request
	winner  Candidate
}

// readExhausted reads testdata/exhaustive.txt: vocabulary, hidden size, layout, batch and what won on an H200, the winners of
// tiling/testdata/measured.tsv.
func readExhausted(t *testing.T) (list []exhausted) {
	t.Helper()
	text, err := os.ReadFile("testdata/exhaustive.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		x := exhausted{request: gen.Request{Arch: arch.SM90, Computation: ir.Computation{Chain: ir.Chain{Temperature: true}}}}
		var winner string
		r := &x.request
		_, err := fmt.Sscan(line, &r.Shape.Vocab, &r.Shape.Hidden, &r.Options.Weights, &r.Batch, &winner)
		require.NoError(t, err, line)
		x.winner, err = ParseCandidate(winner)
		require.NoError(t, err)
		list = append(list, x)
	}
	return list
}

// TestShortlistKeepsTheWinners holds that nothing that won against every candidate would have been left unmeasured.
func TestShortlistKeepsTheWinners(t *testing.T) {
	short, all := 0, 0
	list := readExhausted(t)
	assert.Len(t, list, 33)
	for _, b := range list {
		some, every := Shortlist(b.request), Candidates(b.request)
		assert.Equal(t, every[0], some[0], "the default stands first")
		assert.GreaterOrEqual(t, len(some), shortLeast)
		assert.LessOrEqual(t, len(some), shortMost+1)
		assert.Contains(t, some, b.winner, "V=%d D=%d batch %d", b.request.Shape.Vocab, b.request.Shape.Hidden, b.request.Batch)
		rank, of := Rank(b.request, b.winner)
		assert.Positive(t, rank, "%s", b.winner)
		assert.Len(t, every, of)
		short, all = short+plannedPasses(len(some), firstPasses), all+plannedPasses(len(every), firstPasses)
	}
	t.Logf("%d passes in place of %d", short, all)
	assert.Less(t, float64(short), 0.5*float64(all))
}

func TestShortlistIsPartOfTheCandidates(t *testing.T) {
	for _, a := range arch.All() {
		for _, n := range tiling.Widths(a, 256) {
			r := gen.Request{Arch: a, Shape: ir.Shape{Vocab: 32000, Hidden: 1024}, Batch: n}
			all := Candidates(r)
			at := 0
			for _, c := range Shortlist(r) {
				i := slices.Index(all, c)
				require.GreaterOrEqual(t, i, at, "%s in the fixed order", c)
				at = i
			}
		}
	}
	rank, of := Rank(gen.Request{Arch: arch.SM90, Batch: 16}, Candidate{Tile: tiling.Tile{M: 1}})
	assert.Zero(t, rank, "no tile of the bucket")
	assert.Positive(t, of)
}
