package tiling

import "github.com/fsgen/fsgen/arch"

// wgmmaM is the rows of one warpgroup's product (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
const wgmmaM = 64

// sm90 has one to three consumer warpgroups of 64 rows, and accumulators in registers.
var sm90 = family{
	rows: []int{128, 192, 64}, minWidth: 8, splitWidth: 192,
	rowRule:  "M is 64, 128 or 192: 64 for each of one to three consumer warpgroups",
	pipeline: sm90Pipeline,
	tile:     sm90Tile,
}

// sm90Tile takes 192 rows while three consumer warpgroups have the registers for it, since fewer, larger items pay fewer
// epilogues; from N = 128 on 128 rows and a cluster of two, since the hidden states' traffic then rivals that of the
// weights; and from N = 192 on the cluster splits the batch instead, so that 192 rows fit again (docs/NOTES.md).
func sm90Tile(n int) Tile {
	switch {
	case n >= 192:
		return Tile{M: 192, N: n / 2, K: stageK, Cluster: 2, Split: true}
	case n >= 128:
		return Tile{M: 128, N: n, K: stageK, Cluster: 2}
	case n > 64:
		return Tile{M: 128, N: n, K: stageK, Cluster: 1}
	}
	return Tile{M: 192, N: n, K: stageK, Cluster: 1}
}

// sm90Warps are the warps beside the consumers: one produces.
const sm90Warps = 1

// registerShares are what setmaxnreg gives a thread beside the consumers, and a consumer, for two and three consumer
// warpgroups: multiples of 8 whose sum over the warps of a scheduler is no more than an even share's.
var registerShares = map[int][2]int{2: {40, 232}, 3: {32, 160}}

// sm90Pipeline gives all threads the same registers where that will do. A wide tile's consumers need more: then the warps
// behind them are filled up to a warpgroup, which setmaxnreg works on.
func sm90Pipeline(a arch.Arch, t Tile) Pipeline {
	n := t.M / wgmmaM
	p := Pipeline{
		Consumers: n, Samplers: warpgroup * n,
		Accumulators:  t.N / 2,
		CodeWords:     groupWords * codeGroups(t), // a warp's 16 rows are one block
		SumSets:       4 * n,                      // each warp has all columns of its rows
		EmptyArrivals: 4 * n * t.Cluster,          // one a consumer warp of every CTA in the cluster
	}
	p.Threads = warpgroup*n + warpThreads*sm90Warps
	p.LaunchRegisters = evenShare(a, p.Threads)
	p.ConsumerRegisters = p.LaunchRegisters
	if share, ok := registerShares[n]; ok && p.Accumulators+epilogueRegisters > p.LaunchRegisters {
		p.Threads = warpgroup * (n + 1)
		p.LaunchRegisters = evenShare(a, p.Threads)
		p.ProducerRegisters, p.ConsumerRegisters = share[0], share[1]
	}
	return p
}
