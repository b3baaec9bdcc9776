package tiling

import (
	"slices"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
)

// widths are the tile widths tried, in order.
var widths = []int{8, 16, 32, 64, 96, 128, 192, 256}

// Candidates lists every tile that can run a computation at a batch size, in a fixed order: the narrowest N that holds
// the batch (or 256) and the next, M, cluster, then the deepest ring that fits. The rejected ones come with reasons.
func Candidates(a arch.Arch, c ir.Computation, batch int) (plans []*Plan, rejects []*Reject) {
	fam, ok := families[a.Name]
	if !ok {
		return nil, nil
	}
	for _, n := range fam.widthsFor(batch) {
		for _, m := range fam.rows {
			for _, t := range fam.shapes(m, n) {
				if p, r := deepest(a, c, t); p != nil {
					plans = append(plans, p)
				} else {
					rejects = append(rejects, r)
				}
			}
		}
	}
	return plans, rejects
}

// shapes are the ways to cover M weights rows and a width: alone, in a cluster, and from splitWidth on in one that splits
// the batch; and the same with warpgroups that take turns.
func (fam family) shapes(m, width int) []Tile {
	t := []Tile{{M: m, N: width, K: stageK, Cluster: 1}, {M: m, N: width, K: stageK, Cluster: 2}}
	if fam.splitWidth > 0 && width >= fam.splitWidth {
		t = append(t, Tile{M: m, N: width / 2, K: stageK, Cluster: 2, Split: true})
	}
	if fam.pingPong && width > 8 {
		for _, one := range slices.Clone(t) {
			one.PingPong = true
			t = append(t, one)
		}
	}
	return t
}

// widthsFor returns the two narrowest widths that hold the batch, or the widest.
func (fam family) widthsFor(batch int) []int {
	for i, n := range widths {
		if batch <= n && n >= fam.minWidth {
			return widths[i:min(i+2, len(widths))]
		}
	}
	return widths[len(widths)-1:]
}

// Widths lists the tile widths N that serve batches up to a size on an architecture: every one below the first that holds
// it, and that one.
func Widths(a arch.Arch, batch int) []int {
	least := families[a.Name].minWidth
	var out []int
	for _, n := range widths {
		if n >= least {
			out = append(out, n)
		}
		if batch <= n && n >= least {
			break
		}
	}
	return out
}

// deepest finds the most stages, up to 12, with which a tile fits; past that a deeper ring hides no more latency.
func deepest(a arch.Arch, c ir.Computation, t Tile) (*Plan, *Reject) {
	var last *Reject
	for t.Stages = 12; t.Stages >= 3; t.Stages-- {
		p, err := NewPlan(a, t, c)
		if err == nil {
			return p, nil
		}
		last = err.(*Reject)
	}
	return nil, last
}

// Default returns the tile for a batch size without measuring: the narrowest width that holds the batch, in the family's
// own shape, with the deepest ring that fits.
func Default(a arch.Arch, c ir.Computation, batch int) (*Plan, error) {
	fam, ok := families[a.Name]
	if !ok {
		return nil, &Reject{Tile{}, "there is no skeleton for " + a.Name}
	}
	p, r := deepest(a, c, fam.tile(fam.widthsFor(max(batch, 1))[0]))
	if p == nil {
		return nil, r
	}
	return p, nil
}
