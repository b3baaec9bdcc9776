package templates

import (
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// How rows that are listed come to their bounds: CTAs mark their tokens (collect.go), warps take the bounds that the marks prove, a
// row each at a time, and publish them where bests are exchanged.

// beginService has warps begin with different rows. CTAs that serve the same row must not be neighbours, which finish their
// first tiles early or late together.
func (c *samplers) beginService(warp ptx.B32) {
	f := c.f
	c.served, c.early = f.B32("served"), f.B32("early")
	c.lists = f.Pred("any_list")
	if c.addsSome() {
		c.adds = f.Pred("any_mass")
	}
	if c.surveying() {
		c.surveys = f.Pred("any_survey")
	}
	f.MovB32(c.early, ptx.Imm(1))
	c.spreadService(warp)
}

// spreadService gives the warp the row that it serves first.
func (c *samplers) spreadService(warp ptx.B32) {
	f, cta := c.f, c.f.B32("cta")
	f.MovB32(cta, ptx.CtaidX)
	f.MadLoU32(c.served, cta, ptx.Imm(c.plan.Pipeline.Samplers/warpSize), warp)
	f.MulLoU32(c.served, c.served, imm(f, markFactor))
	f.ShrU32(c.served, c.served, ptx.Imm(8))
}

// awaitTries is how often a CTA looks whether three in four have marked their first tiles: for as long as the other warpgroup
// multiplies anyway, where warpgroups take turns, and else for no longer than the ring bridges. The marks of few CTAs give a bound
// that much of a tile reaches.
func (c *samplers) awaitTries() int {
	if c.t.PingPong {
		return 48
	}
	return 8
}

// awaitMarks has the CTA wait in its first tile for the marks of the others, but not for long: they only filter.
func (c *samplers) awaitMarks() {
	f := c.f
	skip, late, first := f.Label("marks_awaited"), f.Pred("not_early"), f.Pred("is_first")
	if !c.collecting() || !c.tops() { // whose rows all have marks of the likeliest tokens
		f.Bra(skip).IfNot(c.lists)
	}
	f.SetpU32(ptx.EQ, late, c.early, ptx.Imm(0))
	f.Bra(skip).If(late)
	f.MovB32(c.early, ptx.Imm(0))
	waited := f.Label("waited")
	f.SetpU32(ptx.NE, first, c.thread, ptx.Imm(0))
	f.Bra(waited).If(first)
	arrivals := loadPointer(f, c.sig.arrivals, "arrivals")
	f.RedGlobalAddU32(arrivals, ptx.Imm(1), ptx.RelaxedGPU)
	ctas, target, tries, here, again := f.B32("ctas"), f.B32("target"), f.B32("tries"), f.B32("arrived"), f.Pred("again")
	f.MovB32(ctas, ptx.NctaidX)
	f.MulLoU32(target, ctas, ptx.Imm(3))
	f.ShrU32(target, target, ptx.Imm(2))
	f.MovB32(tries, ptx.Imm(c.awaitTries()))
	loop := f.Here("await_marks")
	f.LdGlobalB32(here, arrivals, ptx.RelaxedGPU)
	f.SubU32(tries, tries, ptx.Imm(1))
	f.SetpU32(ptx.LT, again, here, target)
	f.SetpAndU32(ptx.NE, again, tries, ptx.Imm(0), again)
	f.Bra(loop).If(again)
	f.Place(waited)
	c.teamSync()
	f.Place(skip)
}

// serveTries is how often a warp looks for a bound in the rows' first tile, before it goes on without.
const serveTries = 8

// serveFirst is serveMarks for the rows' first tile, when the other CTAs are about to mark theirs.
func (c *samplers) serveFirst() { c.serve(serveTries) }

// serveRows has the warp take the bounds of one row from its marks, another row for each tile. Those of lists are served between the rows'
// first tile, in which they are once it is marked (seedBests), and their last, behind which no CTA has much use for them. Of the
// likeliest tokens alone all tiles serve: without the first and the last 16 rows take 4% longer (docs/NOTES.md, section 23).
func (c *samplers) serveRows() {
	if !c.collecting() {
		c.serveTops(1)
		return
	}
	f, serves := c.f, c.f.Pred("serves")
	f.NotPred(serves, c.final)
	f.SetpAndU32(ptx.EQ, serves, c.fresh, ptx.Imm(0), serves)
	c.where(serves, "not_served", func() {
		c.serve(1)
		c.serveTops(1)
	})
}

func (c *samplers) serve(tries int) {
	f := c.f
	column, row, idle := c.servedRow()
	if c.tops() { // whose marks of the same row are served next
		f.SubU32(c.served, c.served, ptx.Imm(1))
	}
	marks, none, done := c.listMarks(column), f.Pred("no_list"), f.Label("served")
	f.SetpOrU32(ptx.EQ, none, marks, ptx.Imm(0), idle)
	f.Bra(done).If(none)
	left, found, again := f.B32("tries"), f.Pred("bounded"), f.Pred("again")
	f.MovB32(left, ptx.Imm(tries))
	loop := f.Here("serve_row")
	least := c.boundOf(column, row, marks)
	f.SetpU32(ptx.NE, found, least, ptx.Imm(0))
	f.SubU32(left, left, ptx.Imm(1))
	if tries > 1 {
		f.SetpU32(ptx.NE, again, left, ptx.Imm(0))
		f.SetpAndU32(ptx.EQ, again, least, ptx.Imm(0), again)
		f.Bra(loop).If(again)
	}
	key, zero, addr, first := f.B64("key"), imm(f, 0), f.B64(), f.Pred("first_lane")
	f.MovPackB64(key, zero, least)
	f.MadWideU32(addr, row, ptx.Imm(8), c.keys)
	f.SetpAndU32(ptx.EQ, first, c.lane, ptx.Imm(0), found)
	f.RedGlobalMaxU64(addr, key, ptx.RelaxedGPU).If(first)
	f.Place(done)
}

// servedTurns is of how many turns a row gets one at least, of a warp's or of different warps': where rows are few, a grid of warps
// would crowd around their marks.
const servedTurns = 32

// servedRow is the row that the warp serves next: its column of the tile, and its place in the batch. Of a warp that is idle this turn
// it is any.
func (c *samplers) servedRow() (column, row ptx.B32, idle ptx.Pred) {
	f := c.f
	here, start, turns, whole := f.B32("rows_here"), f.B32(), f.B32("turns"), f.B32()
	f.MulLoU32(start, c.column, ptx.Imm(c.t.N))
	f.SubU32(here, c.batch, start)
	f.MinU32(here, here, ptx.Imm(c.t.N))
	past := f.Pred("past_batch") // a column tile of a cluster that splits the batch may have no rows
	f.SetpU32(ptx.GE, past, start, c.batch)
	f.MovB32(here, ptx.Imm(1)).If(past)
	f.MovB32(turns, ptx.NctaidX)
	f.MulLoU32(turns, turns, ptx.Imm(c.plan.Pipeline.Samplers/warpSize))
	f.MinU32(turns, turns, ptx.Imm(servedTurns))
	f.MaxU32(turns, turns, here)
	column, row, idle = f.B32("served_column"), f.B32("served_row"), f.Pred("idle_turn")
	f.DivU32(whole, c.served, turns)
	f.MulLoU32(whole, whole, turns)
	f.SubU32(column, c.served, whole)
	f.SetpU32(ptx.GE, idle, column, here)
	f.MovB32(column, ptx.Imm(0)).If(idle)
	f.AddU32(row, start, column)
	f.AddU32(c.served, c.served, ptx.Imm(1))
	return column, row, idle
}

// boundOf is the largest bound that a row's marks prove, in every lane; 0 for none. It is cut off a little below the mark that proves
// it where they are few enough to be searched. Of a few draws there is a mark a lane.
func (c *samplers) boundOf(column, row, marks ptx.B32) ptx.B32 {
	f := c.f
	bound, wanted, more, done := f.B32("proven_bound"), f.B32("wanted"), f.Pred("more_marks"), f.Label("bound_found")
	f.LdSharedB32(wanted, c.at(column, 16).Off(c.plan.Storage.Lists+12))
	for _, each := range []int{1, boundMarksLane} {
		next := f.Label("many_marks")
		f.SetpU32(ptx.GT, more, marks, ptx.Imm(warpSize*each))
		f.Bra(next).If(more)
		c.searchBound(bound, c.laneMarks(row, marks, each), wanted)
		f.Bra(done)
		f.Place(next)
	}
	f.MovB32(bound, c.leastMark(row, marks))
	f.Place(done)
	return bound
}

// laneMarks loads a lane's share of a row's marks, up to so many, 0 where there are no more.
func (c *samplers) laneMarks(row, marks ptx.B32, each int) (own []ptx.B32) {
	f := c.f
	base, index := f.B64("row_marks"), f.B32()
	f.MadLoU32(index, row, ptx.Imm(manifest.RowMarks), c.lane)
	f.MadWideU32(base, index, ptx.Imm(4), loadPointer(f, c.sig.marks, "marks"))
	for i := range each {
		at, there, mark := f.B32(), f.Pred("there"), f.B32("mark")
		f.AddU32(at, c.lane, ptx.Imm(warpSize*i))
		f.SetpU32(ptx.LT, there, at, marks)
		f.MovB32(mark, ptx.Imm(0))
		f.LdGlobalB32(mark, base.Off(4*warpSize*i), ptx.RelaxedGPU).If(there)
		own = append(own, mark)
	}
	return own
}

// searchBound finds the largest number of boundBits bits that as many marks reach as are wanted, bit by bit.
func (c *samplers) searchBound(bound ptx.B32, marks []ptx.B32, wanted ptx.B32) {
	f := c.f
	bit, next, reached, all, enough, more := f.B32("bit"), f.B32("next_bound"), f.B32("reached"), f.B32("reached_all"), f.Pred("enough"), f.Pred("more_bits")
	f.MovB32(bound, ptx.Imm(0))
	f.MovB32(bit, imm(f, 1<<31))
	loop := f.Here("search_bound")
	f.OrB32(next, bound, bit)
	f.MovB32(reached, ptx.Imm(0))
	for _, m := range marks {
		here := f.Pred("reaches")
		f.SetpU32(ptx.GE, here, m, next)
		f.AddU32(reached, reached, ptx.Imm(1)).If(here)
	}
	f.ReduxSyncAddU32(all, reached, ptx.Imm(fullWarp))
	f.SetpU32(ptx.GE, enough, all, wanted)
	f.MovB32(bound, next).If(enough)
	f.ShrU32(bit, bit, ptx.Imm(1))
	f.SetpU32(ptx.GE, more, bit, ptx.Imm(1<<(32-boundBits)))
	f.Bra(loop).If(more)
}

// boundBits are the bits of a bound that are searched for: 13 of the mantissa.
const boundBits = 22

// leastMark is the least of a row's marks, in every lane.
func (c *samplers) leastMark(row, marks ptx.B32) ptx.B32 {
	f := c.f
	least, at, out, index, addr, x := f.B32("least_mark"), f.B32("mark"), f.Pred("out"), f.B32(), f.B64(), f.B32()
	f.MovB32(least, ptx.Imm(0xFFFFFFFF))
	f.MovB32(at, c.lane)
	marksAt := loadPointer(f, c.sig.marks, "marks")
	done := f.Label("marks_read")
	loop := f.Here("read_mark")
	f.SetpU32(ptx.GE, out, at, marks)
	f.Bra(done).If(out)
	f.MadLoU32(index, row, ptx.Imm(manifest.RowMarks), at)
	f.MadWideU32(addr, index, ptx.Imm(4), marksAt)
	f.LdGlobalB32(x, addr, ptx.RelaxedGPU)
	f.MinU32(least, least, x)
	f.AddU32(at, at, ptx.Imm(warpSize))
	f.Bra(loop)
	f.Place(done)
	f.BarWarpSync(ptx.Imm(fullWarp))
	for step := warpSize / 2; step > 0; step /= 2 {
		other := f.B32()
		f.ShflSyncBflyB32(other, least, ptx.Imm(step), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
		f.MinU32(least, least, other)
	}
	return least
}

// awaitBounds looks a few times more for the bounds of rows that have none: without one, all of a row's first tile would be
// listed.
func (c *samplers) awaitBounds(bests []sharedBest) {
	f := c.f
	for i, b := range bests {
		column, marks := f.B32("column"), f.B32("list_marks")
		f.AddU32(column, c.member, ptx.Imm(i*c.plan.Pipeline.Team))
		f.MovB32(marks, ptx.Imm(0))
		f.LdSharedB32(marks, c.at(column, 16).Off(c.plan.Storage.Lists)).If(b.active)
		tries, wanting, settled := f.B32("tries"), f.Pred("wanting"), f.Label("bound_settled")
		f.MovB32(tries, ptx.Imm(serveTries))
		loop := f.Here("await_bound")
		f.SetpU64(ptx.EQ, wanting, b.global, ptx.Imm(0))
		f.SetpAndU32(ptx.NE, wanting, marks, ptx.Imm(0), wanting)
		f.SetpAndU32(ptx.NE, wanting, tries, ptx.Imm(0), wanting)
		f.Bra(settled).IfNot(wanting)
		f.LdGlobalB64(b.global, b.addr, ptx.RelaxedGPU)
		f.SubU32(tries, tries, ptx.Imm(1))
		f.Bra(loop)
		f.Place(settled)
	}
}
