package tiling

import (
	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
)

// wgmmaM is the rows of one warpgroup's product (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
const wgmmaM = 64

// sm90 has one to three consumer warpgroups of 64 rows, and accumulators in registers.
var sm90 = family{
	rows: []int{128, 192, 64}, minWidth: 8, splitWidth: 192, pingPong: true,
	rowRule:  "M is 64, 128 or 192: 64 for each of one to three consumer warpgroups",
	pipeline: sm90Pipeline,
	tile:     sm90Tile,
	lists:    sm90Lists,
}

// sm90Lists is the shape for rows that are listed. In its first tile a CTA waits for the marks of the others: turns of two warpgroups
// hide that, also at widths where they pay for nothing else. Where the likeliest tokens are listed too, or two
// distributions are added up, there are not registers enough for 192 rows of 64 columns. Where tokens are added up and the rows' largest
// logits found, there are, but sampling a last tile takes so long, which nothing hides, that 128 rows are faster.
func sm90Lists(t Tile, c ir.Computation) Tile {
	if t.N <= 16 {
		t.N, t.PingPong = 16, true
	}
	if _, two := c.SecondSum(); t.N == 64 && (c.TopN > 0 || two || c.FindsPeaks()) {
		t.M = 128
	}
	return t
}

// sm90Tile is the shape that was fastest, or within 1.5% of it, on an H200 at hidden sizes from 2,048 on (docs/NOTES.md). Turns
// of two warpgroups pay from N = 32 on; up to 96 columns of a CTA they have the registers for 192 rows. From N = 96 on two
// CTAs share the hidden states, whose traffic then rivals that of the weights, and from 192 on they split the batch instead
// and share the weights.
func sm90Tile(n int) Tile {
	switch {
	case n > 192:
		return Tile{M: 128, N: n / 2, K: stageK, Cluster: 2, Split: true, PingPong: true}
	case n == 192:
		return Tile{M: 192, N: n / 2, K: stageK, Cluster: 2, Split: true, PingPong: true}
	case n >= 128:
		return Tile{M: 128, N: n, K: stageK, Cluster: 2, PingPong: true}
	case n > 64:
		return Tile{M: 192, N: n, K: stageK, Cluster: 2, PingPong: true}
	case n > 16:
		return Tile{M: 192, N: n, K: stageK, Cluster: 1, PingPong: true}
	}
	return Tile{M: 128, N: n, K: stageK, Cluster: 1}
}

// pingPongers are the warpgroups that take turns.
const pingPongers = 2

// sm90Warps are the warps beside the consumers: one produces.
const sm90Warps = 1

// registerShares are what setmaxnreg gives a thread beside the consumers, and a consumer, for two and three consumer
// warpgroups: multiples of 8 whose sum over the warps of a scheduler is no more than an even share's.
var registerShares = map[int][2]int{2: {40, 232}, 3: {32, 160}}

// sm90Pipeline gives all threads the same registers where that will do. A wide tile's consumers need more: then the warps
// behind them are filled up to a warpgroup, which setmaxnreg works on.
func sm90Pipeline(a arch.Arch, t Tile) Pipeline {
	n, high := t.M/wgmmaM, 1 // warpgroups, and products of 64 rows of each
	if t.PingPong {
		n, high = pingPongers, n
	}
	p := Pipeline{
		Consumers: n, Samplers: warpgroup * n, Team: warpgroup * n,
		Accumulators:  high * t.N / 2,
		CodeWords:     high * GroupWords * codeGroups(t), // a warp's 16 rows are one block
		SumSets:       4 * n,                             // each warp has all columns of its rows
		EmptyArrivals: 4 * n * t.Cluster,                 // one a consumer warp of every CTA in the cluster
	}
	if t.PingPong {
		p.Team, p.EmptyArrivals = warpgroup, 4*t.Cluster // of the one that has the tile
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
