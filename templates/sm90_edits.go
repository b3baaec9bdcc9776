package templates

import (
	"github.com/fsgen/fsgen/ptx"
)

// blockColumns is the columns that wgmma deals to the lanes at a time: two to each.
const blockColumns = 8

// logits gives edits the accumulators. A warp has 16 tokens of each product, two of them each eight of its lanes.
func (c *consumer) logits(s span, t tiles) *logits {
	f := c.f
	low, high := f.B32("place_low"), f.B32("place_high")
	f.ShrU32(low, c.lane, ptx.Imm(2))
	f.AddU32(high, low, ptx.Imm(8))
	return &logits{
		tokens: 16, runs: c.products(), places: []ptx.B32{low, high},
		first: func(run ptx.B32) ptx.B32 {
			first := f.B32("first_token")
			f.MadLoU32(first, c.warp, ptx.Imm(16), s.row)
			if c.products() > 1 {
				f.MadLoU32(first, run, ptx.Imm(productRows), first)
			}
			return first
		},
		change: c.changeColumn,
		drop:   c.dropColumns90,
		all:    func(body func(g group) []element) { c.rewriteGroups(t, body) },
	}
}

// accumulatorsOf are the two of a column's logits that lanes have which have the column; pair counts the columns of a lane.
func (c *consumer) accumulatorsOf(pair int) (low, high ptx.F32) {
	at := pair/2*4 + pair%2
	return c.acc[at], c.acc[at+2]
}

// changeColumn changes a column's accumulators. They cannot be indexed: one indirect branch finds them, another puts them back.
func (c *consumer) changeColumn(run, column ptx.B32, body func(z []ptx.F32, mine ptx.Pred)) {
	f := c.f
	pair, odd, owner, mine := f.B32("pair"), f.B32(), f.B32(), f.Pred("has_column")
	f.ShrU32(pair, column, ptx.Imm(3))
	f.AndB32(odd, column, ptx.Imm(1))
	f.MadLoU32(pair, pair, ptx.Imm(2), odd)
	if c.products() > 1 {
		f.MadLoU32(pair, run, ptx.Imm(c.t.N/4), pair)
	}
	f.AndB32(owner, column, ptx.Imm(6))
	f.SetpU32(ptx.EQ, mine, owner, c.colInN)
	z := f.NewF32s("z", 2)
	c.byPair(pair, "get", func(low, high ptx.F32) {
		f.MovF32(z[0], low)
		f.MovF32(z[1], high)
	})
	body(z, mine)
	c.byPair(pair, "put", func(low, high ptx.F32) {
		f.MovF32(low, z[0])
		f.MovF32(high, z[1])
	})
}

// byPair runs what body emits for the accumulators of a pair.
func (c *consumer) byPair(pair ptx.B32, name string, body func(low, high ptx.F32)) {
	var bodies []func()
	for i := range len(c.acc) / 2 {
		bodies = append(bodies, func() { body(c.accumulatorsOf(i)) })
	}
	c.choose(pair, name, bodies)
}

// choose runs one of several bodies, by its number.
func (c *samplers) choose(index ptx.B32, name string, bodies []func()) {
	f, done := c.f, c.f.Label(name+"_done")
	var labels []*ptx.Label
	for range bodies {
		labels = append(labels, f.Label(name))
	}
	f.BrxIdx(index, f.Branchtargets(name+"s", labels...))
	for i, label := range labels {
		f.Place(label)
		bodies[i]()
		if i < len(labels)-1 {
			f.Bra(done)
		}
	}
	f.Place(done)
}

// dropColumns90 makes columns -inf: straight code for each 32 of them.
func (c *consumer) dropColumns90(run, from, columns ptx.B32) {
	f := c.f
	mine, block, blocks := f.B32("own_columns"), f.B32("column_block"), (c.t.N+warpSize-1)/warpSize
	f.ShrU32(mine, columns, c.colInN)
	f.ShrU32(block, from, ptx.Imm(5))
	if c.products() > 1 {
		f.MadLoU32(block, run, ptx.Imm(blocks), block)
	}
	out, perBlock := minusInf(f), min(c.t.N, warpSize)/blockColumns*2
	var bodies []func()
	for b := range blocks * c.products() {
		bodies = append(bodies, func() {
			product, across := b/blocks, b%blocks
			first := product*c.t.N/4 + across*perBlock
			for i := range min(perBlock, (product+1)*c.t.N/4-first) {
				bit, dropped := f.B32(), f.Pred("dropped")
				f.AndB32(bit, mine, ptx.Imm(1<<(i/2*blockColumns+i%2)))
				f.SetpU32(ptx.NE, dropped, bit, ptx.Imm(0))
				low, high := c.accumulatorsOf(first + i)
				f.MovF32(low, out).If(dropped)
				f.MovF32(high, out).If(dropped)
			}
		})
	}
	if len(bodies) == 1 {
		bodies[0]()
		return
	}
	c.choose(block, "drop", bodies)
}

// rewriteGroups runs body for every group of the tile, and puts back what it makes of the group's accumulators, in their registers.
func (c *consumer) rewriteGroups(t tiles, body func(g group) []element) {
	groups := len(c.acc) / perGroup
	if groups <= 1 {
		body(c.groupOf(t.at(0), c.acc, c.colInN, c.codeAddress()))
		return
	}
	every := c.f.B32("groups")
	c.f.MovB32(every, ptx.Imm(1<<groups-1))
	c.visitGroups(t, every, "edit_group", func(g group) { body(g) }, func(at ptx.B32, z []ptx.F32) {
		var bodies []func()
		for g := range groups {
			bodies = append(bodies, func() {
				for i := range z {
					c.f.MovF32(c.acc[g*perGroup+i], z[i])
				}
			})
		}
		c.choose(at, "put_group", bodies)
	})
}
