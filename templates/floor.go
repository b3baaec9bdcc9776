package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// seedBests gives the rows a best to start from, when they see their first tile: without one everything would be a
// candidate. The token that has its block's least exponential has a score that is known from below, and a row's largest such
// floor, over the tiles of all CTAs, is near its final best. seed raises keys to the floors of the tile.
//
// A floor stands in a key as a score whose low word is 0, below that of any id with the same score: the row's true best is
// at least its floor, so that no floor is a result.
func (c *samplers) seedBests(seed func()) {
	f := c.f
	seen, stale := f.Label("rows_seen"), f.Pred("rows_stale")
	f.SetpU32(ptx.EQ, stale, c.fresh, ptx.Imm(0))
	f.Bra(seen).If(stale)
	f.Comment("First tile of these rows: floors of the scores of the blocks' first tokens.")
	seed()
	c.teamSync()
	if c.collecting() {
		c.awaitMarks()
		c.serveFirst()
	}
	if c.tops() {
		if !c.collecting() {
			c.awaitMarks()
		}
		c.serveTops(serveTries)
	}
	bests, tops := c.publishBests(), c.newTops()
	c.fetchBests(bests)
	c.fetchTops(tops)
	c.awaitTops(tops)
	if c.collecting() {
		c.awaitBounds(bests)
	}
	c.adoptBests(bests)
	c.adoptTops(tops)
	c.teamSync()
	f.Place(seen)
}

// seed marks and raises keys by a group.
func (c *samplers) seed(g group) {
	c.markTops(g)
	c.floors(g)
}

// floors raises the keys of a group's rows to the floors that the thread's tokens give.
func (c *samplers) floors(g group) {
	f := c.f
	var marks floorMarks
	if c.collecting() {
		marks = c.newFloorMarks()
	}
	elements := c.scan(g)
	for i, e := range elements {
		base, first := c.firstOf(&e)
		in := inputs{f: map[ir.Input]ptx.F32{ir.InBase: base, ir.InTau: e.record.tau, ir.InCode: e.code}}
		least := lower(f, c.floor, in)
		known := f.Pred("known")
		f.SetpAndF32(ptx.GT, known, least, ptx.F32Imm(math.Inf(-1)), first) // false for NaN
		if c.collecting() {
			c.addFloor(marks, g, i, &e, least, known)
			if i+1 == len(elements) || (i+1)%c.blocks.lanes() == 0 {
				c.markFloors(marks, g.id)
			}
		}
		key, column := c.floorKey(least, known), f.B32("column")
		f.AddU32(column, g.columns, ptx.Imm(g.place(i)))
		c.commit(column, key)
	}
}

// floorKey is the key of a floor that is known, and the empty one otherwise.
func (c *samplers) floorKey(least ptx.F32, known ptx.Pred) ptx.B64 {
	f := c.f
	high, zero, key := scoreBits(f, least), f.B32(), f.B64("key")
	f.MovB32(zero, ptx.Imm(0))
	f.SelpB32(high, high, ptx.Imm(keyEmpty), known)
	f.MovPackB64(key, zero, high)
	return key
}

// firstOf returns the score without noise of the element's token that is its block's first, and whether there is one whose
// code has a floor. Without noise any token serves: that at place 0. A block that is scored as a whole scores at least what any
// of its tokens gives.
func (c *samplers) firstOf(e *scanned) (base ptx.F32, found ptx.Pred) {
	f := c.f
	coded := f.Pred("coded")
	place := e.place
	if c.c.Sampler.Random() {
		f.SetpF32(ptx.GE, coded, e.code, ptx.F32Imm(128+ir.FloorCode))
	} else {
		f.SetpB32(ptx.EQ, coded, c.lane, c.lane)
		place = imm(f, 0)
	}
	if c.c.Sampler == ir.Grouped {
		return c.top(e), coded
	}
	mine := f.B32("place_in_block")
	f.AndB32(mine, c.rowInTile, ptx.Imm(15))
	for i, t := range e.tokens {
		is := f.Pred("is_first")
		f.AddU32(mine, mine, ptx.Imm(int64(t.below))) // tokens stand in the order of their ids
		f.SetpAndU32(ptx.EQ, is, place, mine, coded)
		if i == 0 {
			base, found = e.bases[0], is
			continue
		}
		chosen, either := f.F32(), f.Pred("has_first")
		f.SelpF32(chosen, e.bases[i], base, is)
		f.OrPred(either, found, is)
		base, found = chosen, either
	}
	return base, found
}
