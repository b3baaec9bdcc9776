package verify

import (
	"slices"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/tiling"
)

// tiles are all that can run a spec at any batch size up to a limit, in the order of tiling.Candidates; none for a device
// without tiles.
func tiles(name string, spec sampler.Spec, batch int) []tiling.Tile {
	a, err := arch.Lookup(name)
	if err != nil {
		return nil
	}
	var out []tiling.Tile
	for n := 1; n <= batch; n++ {
		plans, _ := tiling.Candidates(a, spec.Computation().Normalize(), n)
		for _, p := range plans {
			if !slices.Contains(out, p.Tile) {
				out = append(out, p.Tile)
			}
		}
	}
	return out
}
