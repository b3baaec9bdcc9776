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
	for _, n := range widthsFor(batch) {
		for _, m := range []int{128, 192, 64} {
			for _, cluster := range []int{1, 2} {
				if p, r := deepest(a, c, Tile{M: m, N: n, K: stageK, Cluster: cluster}); p != nil {
					plans = append(plans, p)
				} else {
					rejects = append(rejects, r)
				}
			}
		}
	}
	return plans, rejects
}

// widthsFor returns the two narrowest widths that hold the batch, or the widest.
func widthsFor(batch int) []int {
	for i, n := range widths {
		if batch <= n {
			return widths[i:min(i+2, len(widths))]
		}
	}
	return widths[len(widths)-1:]
}

// Widths lists the tile widths N that serve batches up to a size: every one below the first that holds it, and that one.
func Widths(batch int) []int {
	for i, n := range widths {
		if batch <= n {
			return slices.Clone(widths[:i+1])
		}
	}
	return slices.Clone(widths)
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

// Default returns the tile for a batch size without measuring: the narrowest width that holds the batch; 192 rows while
// three consumer warpgroups have the registers for it, since fewer, larger items pay fewer epilogues; from N = 128 on 128
// rows and a cluster of two, since the hidden states' traffic then rivals that of the weights (docs/NOTES.md).
func Default(a arch.Arch, c ir.Computation, batch int) (*Plan, error) {
	t := Tile{M: 192, N: widthsFor(max(batch, 1))[0], K: stageK, Cluster: 1}
	switch {
	case t.N >= 128:
		t.M, t.Cluster = 128, 2
	case t.N > 64:
		t.M = 128
	}
	p, r := deepest(a, c, t)
	if p == nil {
		return nil, r
	}
	return p, nil
}
