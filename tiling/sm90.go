package tiling

import "github.com/fsgen/fsgen/arch"

// wgmmaM is the rows of one warpgroup's product (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
const wgmmaM = 64

// sm90 has one to three consumer warpgroups of 64 rows, and accumulators in registers.
var sm90 = family{
	rows: []int{128, 192, 64}, minWidth: 8,
	rowRule:  "M is 64, 128 or 192: 64 for each of one to three consumer warpgroups",
	pipeline: sm90Pipeline,
	tile:     sm90Tile,
}

// sm90Tile takes 192 rows while three consumer warpgroups have the registers for it, since fewer, larger items pay fewer
// epilogues; from N = 128 on 128 rows and a cluster of two, since the hidden states' traffic then rivals that of the
// weights (docs/NOTES.md).
func sm90Tile(n int) Tile {
	switch {
	case n >= 128:
		return Tile{M: 128, N: n, K: stageK, Cluster: 2}
	case n > 64:
		return Tile{M: 128, N: n, K: stageK, Cluster: 1}
	}
	return Tile{M: 192, N: n, K: stageK, Cluster: 1}
}

// sm90Warps are the warps beside the consumers: one produces, one draws noise.
const sm90Warps = 2

// sm90Pipeline gives every thread the same registers: with the consumers' warpgroups first and two single warps behind them
// there are as many as a wide tile needs, and none has to be moved by setmaxnreg, which the driver's linker ignores.
func sm90Pipeline(a arch.Arch, t Tile) Pipeline {
	n := t.M / wgmmaM
	threads := warpgroup*n + 32*sm90Warps
	even := min(a.Registers/threads/a.RegisterUnit*a.RegisterUnit, a.MaxRegistersPerThread)
	return Pipeline{
		Consumers: n, Threads: threads, Samplers: warpgroup * n,
		Registers:     even,
		Accumulators:  t.N / 2,
		EmptyArrivals: 4 * n * t.Cluster, // one a consumer warp of every CTA in the cluster
	}
}
