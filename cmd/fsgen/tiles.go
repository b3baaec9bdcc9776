package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/bench"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

var tilesCommand = &command{
	name: "tiles", args: "--arch ARCH --batch N", short: "list the tiles for a batch size with the resources of each and what it may take (b: the cluster splits the batch, p: ping-pong; registers: the limit of a thread that samples; limits: tokens are passed over by their logits alone)",
	examples: "  fsgen tiles --arch sm_100 --batch 64\n  fsgen tiles --model qwen3-8b --weights packed --batch 256\n  fsgen tiles --model qwen3-8b --batch 64 --draws with-replacement\n",
	setup:    setupTiles,
}

// tilesRequest says of which computation the tiles are, and for what work.
type tilesRequest struct {
	target
	computed
	arch, weights string
	batch         int
}

func setupTiles(f *pflag.FlagSet) func(context.Context, *env, []string) error {
	var o tilesRequest
	o.target.flags(f)
	f.StringVar(&o.arch, "arch", "sm_90", "architecture")
	f.IntVar(&o.batch, "batch", 16, "batch size")
	o.computed.flags(f, chainUsage, truncationUsage)
	o.drawsFlag(f)
	f.StringVar(&o.weights, "weights", bench.RowMajor, "layout of the weights")
	return func(_ context.Context, e *env, args []string) error {
		if err := noArgs("tiles", args); err != nil {
			return err
		}
		return o.run(e)
	}
}

// run lists the tiles for a computation under a transform chain.
func (o *tilesRequest) run(e *env) error {
	a, err := arch.Lookup(o.arch)
	if err != nil {
		return usagef("--arch: %s", reason(err))
	}
	c, err := o.computation()
	if err != nil {
		return err
	}
	w, own, err := o.work()
	if err != nil {
		return err
	}
	c.Chain = withOwn(e, c.Chain, own)
	if err := templates.Supports(c); err != nil {
		return usagef("tiles: %s", reason(err))
	}
	plans, rejects := tiling.Candidates(a, c, w.Batch)
	chosen, err := tiling.Default(a, c, w)
	if err != nil {
		return err
	}
	if e.json {
		return tilesJSON(e, w, plans, rejects, chosen.Tile)
	}
	return tilesTable(e, w, plans, rejects, chosen.Tile)
}

// work is what the tiles are ranked for, a usual head without a model, and what the model itself does to its logits.
func (o *tilesRequest) work() (w tiling.Work, own ir.Chain, err error) {
	if o.batch < 1 || o.batch > maxBatch {
		return w, own, usagef("--batch is %d: want 1 to %d", o.batch, maxBatch)
	}
	layout, err := manifest.ParseLayout(o.weights)
	if err != nil {
		return w, own, usagef("--weights: %v", err)
	}
	w = tiling.Work{Batch: o.batch, Packed: layout == manifest.Packed}
	if o.model != "" || o.changed("vocab") || o.changed("hidden") {
		w.Shape, own, err = o.resolve()
	}
	return w, own, err
}

func tilesTable(e *env, work tiling.Work, plans []*tiling.Plan, rejects []*tiling.Reject, chosen tiling.Tile) error {
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TILE\tTHREADS\tREGISTERS\tSTAGES\tSHARED\tTENSOR COLUMNS\tLIMITS\tESTIMATE\t")
	for _, p := range plans {
		mark, limits := "", "no"
		if p.Tile == chosen {
			mark = "default"
		}
		if p.Limited() {
			limits = "yes"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d of %d\t%d of %d\t%s\t%.1f us\t%s\n", p.Tile, p.Pipeline.Threads, p.Pipeline.ConsumerRegisters, p.Tile.Stages,
			p.Storage.Total, p.Arch.MaxSharedPerCTA, p.Tensor.Alloc, p.Arch.TMEMColumns, limits, p.Cost(work).Total, mark)
	}
	for _, r := range rejects {
		fmt.Fprintf(w, "%s\trejected: %s\n", r.Tile, r.Reason)
	}
	return w.Flush()
}

// tilesJSON prints the table's columns, a tile a line.
func tilesJSON(e *env, work tiling.Work, plans []*tiling.Plan, rejects []*tiling.Reject, chosen tiling.Tile) error {
	var lines []map[string]any
	for _, p := range plans {
		lines = append(lines, map[string]any{"tile": p.Tile.String(), "default": p.Tile == chosen, "threads": p.Pipeline.Threads,
			"registers": p.Pipeline.ConsumerRegisters, "stages": p.Tile.Stages, "shared_bytes": p.Storage.Total, "shared_limit": p.Arch.MaxSharedPerCTA,
			"tensor_columns": p.Tensor.Alloc, "tensor_columns_limit": p.Arch.TMEMColumns, "limits": p.Limited(), "estimate": p.Cost(work)})
	}
	for _, r := range rejects {
		lines = append(lines, map[string]any{"tile": r.Tile.String(), "rejected": r.Reason})
	}
	return printLines(e, lines)
}
