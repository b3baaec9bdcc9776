package tiling

import (
	"cmp"
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
				if p, r := fam.deepest(a, c, t); p != nil {
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
func (fam family) deepest(a arch.Arch, c ir.Computation, t Tile) (*Plan, *Reject) {
	const most, least = 12, 3
	t.Stages = most
	if p := fam.deepestOf(a, t, c.Normalize()); p != nil && p.Tile.Stages >= least {
		return p, nil
	}
	t.Stages = least
	p, err := NewPlan(a, t, c) // which says why
	if err != nil {
		return nil, err.(*Reject)
	}
	return p, nil
}

// Default returns the tile for some work without measuring: of the narrowest width that holds the batch the family's own shape,
// with the deepest ring that fits, unless the model of costs puts another candidate ahead of it by more than the model errs.
// Of heads smaller or larger than those that it was held against the model is not asked.
func Default(a arch.Arch, c ir.Computation, w Work) (*Plan, error) {
	fam, ok := families[a.Name]
	if !ok {
		return nil, &Reject{Tile{}, "there is no skeleton for " + a.Name}
	}
	w = w.normalize()
	own, r := fam.deepest(a, c, fam.tileFor(c, fam.widthsFor(w.Batch)[0]))
	if own == nil {
		return nil, r
	}
	if size := w.Shape.Vocab * w.Shape.Hidden; size < costLeast || size > costMost {
		return own, nil
	}
	plans, _ := Candidates(a, c, w.Batch)
	if first := cheapest(plans, w); first.Cost(w).Total < own.Cost(w).Total*(1-costError) {
		return first, nil
	}
	return own, nil
}

// tileFor is the family's own tile of a width for a computation.
func (fam family) tileFor(c ir.Computation, n int) Tile {
	t := fam.tile(n)
	if fam.lists != nil && c.Collects() {
		return fam.lists(t, c)
	}
	return t
}

// costError is by how much the model has to put a tile ahead of the family's own for it to be taken unmeasured: about what the
// model errs by (cost_test.go). costTie is what it cannot tell apart at all. costLeast and costMost are the weights of the smallest
// and the largest head whose tiles were measured.
const (
	costError = 0.05
	costTie   = 0.005
	costLeast = 32000 * 1024
	costMost  = 151936 * 5120
)

// cheapest returns the plan with the least cost, or the first that ties with it.
func cheapest(plans []*Plan, w Work) *Plan {
	least := Ranked(plans, w)[0].Cost(w).Total
	return plans[slices.IndexFunc(plans, func(p *Plan) bool { return p.Cost(w).Total <= least*(1+costTie) })]
}

// Ranked orders plans by what they are expected to cost, those that cost the same as they were.
func Ranked(plans []*Plan, w Work) []*Plan {
	costs := make(map[*Plan]float64, len(plans))
	for _, p := range plans {
		costs[p] = p.Cost(w).Total
	}
	return slices.SortedStableFunc(slices.Values(plans), func(a, b *Plan) int { return cmp.Compare(costs[a], costs[b]) })
}
