package tiling

import "github.com/fsgen/fsgen/arch"

// sm100 has one product of 128 rows a CTA, issued by one thread, and accumulators in tensor memory: 128 lanes, one a row,
// and a column for each column of the tile (PTX ISA, "Tensorcore 5th Generation Family Instructions"). N is a multiple
// of 16 at M = 128.
var sm100 = family{
	rows: []int{128}, minWidth: 16,
	rowRule:  "M is 128: the lanes of tensor memory",
	pipeline: sm100Pipeline,
	tensor:   sm100Tensor,
	tile: func(n int) Tile {
		t := Tile{M: 128, N: max(n, 16), K: stageK, Cluster: 1}
		if n >= 128 {
			t.Cluster = 2
		}
		return t
	},
}

// sm100Group is the columns that a thread takes from tensor memory at a time.
const sm100Group = 16

// sm100Pipeline has a warpgroup of one producer, one issuer and two idle warps, and one or two warpgroups that sample: a
// warp reaches a quarter of the lanes alone, and two share one's columns where there is more than a group of them.
func sm100Pipeline(a arch.Arch, t Tile) Pipeline {
	n := 1
	if t.N > sm100Group {
		n = 2
	}
	threads := warpgroup * (n + 1)
	even := evenShare(a, threads)
	return Pipeline{
		Consumers: n, Threads: threads, Samplers: warpgroup * n, Team: warpgroup * n,
		LaunchRegisters: even, ConsumerRegisters: even,
		Accumulators:  sm100Group,
		CodeWords:     2 * GroupWords * ((codeGroups(t) + n - 1) / n), // a warp's 32 rows are two blocks
		SumSets:       4,                                              // a quarter of the lanes each
		EmptyArrivals: t.Cluster,                                      // one commit of every CTA in the cluster
	}
}

func sm100Tensor(t Tile) Tensor {
	tensor := Tensor{Buffers: 2, Columns: 2 * t.N, Alloc: 32}
	for tensor.Alloc < tensor.Columns {
		tensor.Alloc *= 2
	}
	return tensor
}
