package gen

import (
	"fmt"
	"strings"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/tiling"
)

// checkShared holds the shared memory of a launch to what the tile's plan stores there: a kernel with less of it writes past the end. Kernels
// of other generators, which may store other things, and those of which no plan can be made are left alone.
func (a *Artifact) checkShared() error {
	m := a.Manifest
	if m.Generator != generator {
		return nil
	}
	plan, err := a.plan()
	if err != nil {
		return nil
	}
	if need := plan.Storage.Total; m.Launch.SharedBytes < need {
		return &manifest.Error{Field: "launch.shared_bytes", Rule: fmt.Sprintf("the kernel stores %d there", need), Value: m.Launch.SharedBytes}
	}
	return nil
}

// Target is the architecture and the tile that the kernel is for.
func (a *Artifact) Target() (on arch.Arch, tile tiling.Tile, err error) {
	if on, err = arch.Lookup(a.Manifest.Arch); err != nil {
		return on, tile, err
	}
	tile, err = tiling.ParseTile(a.Manifest.Tile.Name)
	return on, tile, err
}

// plan makes the plan of the kernel's tile again.
func (a *Artifact) plan() (*tiling.Plan, error) {
	on, tile, err := a.Target()
	if err != nil {
		return nil, err
	}
	c, err := a.computation()
	if err != nil {
		return nil, err
	}
	return tiling.NewPlan(on, tile, c)
}

// computation is what the kernel computes, as far as its manifest says: that of further passes names no likeliest tokens.
func (a *Artifact) computation() (c ir.Computation, _ error) {
	m := a.Manifest
	c = ir.Computation{Score: a.Writes("score"), LogSumExp: a.Writes(manifest.LogSumExp), TopN: m.TopN,
		Rank: a.Writes("token") && a.Writes(manifest.Ranks), Listed: a.Writes(manifest.ListLogProbs), Slots: m.Param(manifest.Slots) != nil}
	filters, shard := strings.Join(m.Truncation, ","), strings.Replace(m.Shard, "shard", "records", 1)
	for _, read := range []func() error{
		func() (err error) { c.Chain, err = ir.ParseChain(m.Transform); return err },
		func() (err error) { c.Sampler, err = ir.ParseSampler(m.Sampler); return err },
		func() (err error) { c.Truncation, err = ir.ParseTruncation(filters); return err },
		func() (err error) { c.Draws, err = ir.ParseDraws(m.Draws); return err },
		func() (err error) { c.LogProb, err = ir.ParseLogProb(m.LogProbMode); return err },
		func() (err error) { c.Shard, err = ir.ParseShard(shard); return err },
	} {
		if err := read(); err != nil {
			return c, err
		}
	}
	return c, nil
}
