package autotune

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
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

// Candidates lists the candidates of a batch bucket in their fixed order: the default tile first, then every other that
// can run the computation, each with the grid that its manifest asks for.
func Candidates(a arch.Arch, c ir.Computation, bucket int) []Candidate {
	c = c.Normalize()
	var tiles []tiling.Tile
	if p, err := tiling.Default(a, c, bucket); err == nil {
		tiles = append(tiles, p.Tile)
	}
	plans, _ := tiling.Candidates(a, c, bucket)
	for _, p := range plans {
		if !slices.Contains(tiles, p.Tile) {
			tiles = append(tiles, p.Tile)
		}
	}
	var out []Candidate
	for _, t := range tiles {
		out = append(out, Candidate{Tile: t})
	}
	return out
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
