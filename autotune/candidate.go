package autotune

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/tiling"
)

// Candidate is one way to run a batch size.
type Candidate struct {
	Tile tiling.Tile
	// CTAs is the grid to launch, never more than the GPU holds at once or the work feeds; 0 leaves it to the manifest's
	// rule, which takes all of them.
	CTAs int
}

// String returns the candidate's name: the tile's, with the CTAs behind it where they are fixed, as in
// m128n16k64s12c1@132.
func (c Candidate) String() string {
	if c.CTAs == 0 {
		return c.Tile.String()
	}
	return fmt.Sprintf("%s@%d", c.Tile, c.CTAs)
}

// maxCTAs bounds the CTAs of a candidate that is read from a file, far above what a GPU holds.
const maxCTAs = 1 << 16

// ParseCandidate reads a candidate's name.
func ParseCandidate(s string) (Candidate, error) {
	name, ctas, fixed := strings.Cut(s, "@")
	tile, err := tiling.ParseTile(name)
	c := Candidate{Tile: tile}
	if err == nil && fixed {
		c.CTAs, err = strconv.Atoi(ctas)
	}
	if err != nil || c.CTAs < 0 || c.CTAs > maxCTAs || c.String() != s {
		return Candidate{}, fmt.Errorf("autotune: bad candidate %q: want a tile, or a tile and CTAs as in m128n64k64s8c1@132", s)
	}
	return c, nil
}

// Candidates lists the candidates of a bucket in their fixed order: the default tile first, then every other that can run the
// computation, each with the grid that its manifest asks for. r asks for the bucket's kernels: its Batch is the bucket.
func Candidates(r gen.Request) []Candidate {
	c := r.Computation.Normalize()
	var out []Candidate
	if p, err := tiling.Default(r.Arch, c, r.Work()); err == nil {
		out = append(out, Candidate{Tile: p.Tile})
	}
	plans, _ := tiling.Candidates(r.Arch, c, r.Batch)
	for _, p := range plans {
		if x := (Candidate{Tile: p.Tile}); !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// What a search measures of all candidates: those whose cost the model puts within shortMargin of the least, but at least
// shortLeast, whatever the model says, and at most shortMost: where memory decides, most candidates cost about the same. All
// winners that were found by measuring every candidate are among them (candidate_test.go).
const (
	shortMargin = 0.06
	shortLeast  = 6
	shortMost   = 10
)

// Shortlist lists the candidates of a bucket that are worth measuring, in the fixed order: the default tile, and those that the
// model of costs puts first (tiling.Plan.Cost).
func Shortlist(r gen.Request) []Candidate {
	ranked, costs := ranking(r)
	near := map[tiling.Tile]bool{}
	for i, p := range ranked {
		if i < shortLeast || i < shortMost && costs[i] <= costs[0]*(1+shortMargin) {
			near[p.Tile] = true
		}
	}
	all := Candidates(r)
	first := all[:min(1, len(all))]
	return slices.DeleteFunc(all, func(c Candidate) bool { return !near[c.Tile] && !slices.Contains(first, c) })
}

// ranking orders the plans of a bucket by their cost in the model.
func ranking(r gen.Request) (plans []*tiling.Plan, costs []float64) {
	plans, _ = tiling.Candidates(r.Arch, r.Computation.Normalize(), r.Batch)
	plans = tiling.Ranked(plans, r.Work())
	for _, p := range plans {
		costs = append(costs, p.Cost(r.Work()).Total)
	}
	return plans, costs
}

// Rank returns the place of a candidate's tile in the model's order, from 1 on, and how many tiles there are; 0 where the tile
// is none of them.
func Rank(r gen.Request, c Candidate) (rank, of int) {
	plans, _ := ranking(r)
	return 1 + slices.IndexFunc(plans, func(p *tiling.Plan) bool { return p.Tile == c.Tile }), len(plans)
}

// Grid returns the CTAs of a launch on a GPU that holds `resident` of them at once: those of a candidate, rounded down to
// whole clusters and held to what the GPU and the work allow, or, for 0, those of the grid's own rule.
func Grid(g manifest.Grid, vocab, batch, resident, ctas int) int {
	if ctas <= 0 {
		return g.CTAs(vocab, batch, resident)
	}
	fixed := max(min(ctas, resident)/g.Cluster, 1) * g.Cluster
	const endless = 1 << 30 // CTAs enough for a single wave
	return min(fixed, g.CTAs(vocab, batch, endless))
}
