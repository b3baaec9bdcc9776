package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

var tilesCommand = &command{
	name: "tiles", args: "--arch ARCH --batch N", short: "list the tiles for a batch size with the resources of each (b: the cluster splits the batch, p: ping-pong)",
	examples: "  fsgen tiles --arch sm_100 --batch 64\n",
	setup: func(f *pflag.FlagSet) func(context.Context, *env, []string) error {
		archName := f.String("arch", "sm_90", "architecture")
		batch := f.Int("batch", 16, "batch size")
		transform := f.String("transform", "temperature", "transform chain, as for emit")
		sampler := f.String("sampler", "gumbel", samplerUsage)
		logSumExp := f.Bool("logsumexp", false, "of kernels that write the log-sum-exp too")
		return func(_ context.Context, e *env, args []string) error {
			if err := noArgs("tiles", args); err != nil {
				return err
			}
			kind, err := parseSampler(*sampler)
			if err != nil {
				return err
			}
			return runTiles(e, *archName, *batch, *transform, ir.Computation{Sampler: kind, LogSumExp: *logSumExp})
		}
	},
}

// runTiles lists the tiles for a computation under a transform chain.
func runTiles(e *env, archName string, batch int, transform string, c ir.Computation) error {
	a, err := arch.Lookup(archName)
	if err != nil {
		return usagef("--arch: %s", reason(err))
	}
	if c.Chain, err = ir.ParseChain(transform); err != nil {
		return usagef("--transform: %s", reason(err))
	}
	if err := templates.Supports(c); err != nil {
		return usagef("--transform: %s", reason(err))
	}
	if batch < 1 || batch > maxBatch {
		return usagef("--batch is %d: want 1 to %d", batch, maxBatch)
	}
	plans, rejects := tiling.Candidates(a, c, batch)
	chosen, err := tiling.Default(a, c, batch)
	if err != nil {
		return err
	}
	if e.json {
		return tilesJSON(e, a, plans, rejects, chosen.Tile)
	}
	return tilesTable(e, a, plans, rejects, chosen.Tile)
}

func tilesTable(e *env, a arch.Arch, plans []*tiling.Plan, rejects []*tiling.Reject, chosen tiling.Tile) error {
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TILE\tTHREADS\tREGISTERS\tSTAGES\tSHARED\tTENSOR COLUMNS\t")
	for _, p := range plans {
		mark := ""
		if p.Tile == chosen {
			mark = "default"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d of %d\t%d of %d\t%s\n", p.Tile, p.Pipeline.Threads, p.Pipeline.ConsumerRegisters, p.Tile.Stages,
			p.Storage.Total, a.MaxSharedPerCTA, p.Tensor.Alloc, a.TMEMColumns, mark)
	}
	for _, r := range rejects {
		fmt.Fprintf(w, "%s\trejected: %s\n", r.Tile, r.Reason)
	}
	return w.Flush()
}

// tilesJSON prints the table's columns, a tile a line.
func tilesJSON(e *env, a arch.Arch, plans []*tiling.Plan, rejects []*tiling.Reject, chosen tiling.Tile) error {
	enc := json.NewEncoder(e.stdout)
	for _, p := range plans {
		if err := enc.Encode(map[string]any{"tile": p.Tile.String(), "default": p.Tile == chosen, "threads": p.Pipeline.Threads,
			"registers": p.Pipeline.ConsumerRegisters, "stages": p.Tile.Stages, "shared_bytes": p.Storage.Total, "shared_limit": a.MaxSharedPerCTA,
			"tensor_columns": p.Tensor.Alloc, "tensor_columns_limit": a.TMEMColumns}); err != nil {
			return err
		}
	}
	for _, r := range rejects {
		if err := enc.Encode(map[string]any{"tile": r.Tile.String(), "rejected": r.Reason}); err != nil {
			return err
		}
	}
	return nil
}
