package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// Rows that truncation narrows are not sampled here: their likeliest tokens are collected in a list, from which another kernel
// draws (resolve.go). A token is listed where its logit reaches the row's bound, which is known to be reached by as many tokens
// as matter: each row has a few times that many marks, tokens belong to marks by a hash of their ids, and a mark holds the largest
// logit that was seen of its tokens. So the n-th largest mark is reached by n tokens, all different.
//
// To the scan such a row is one whose scores have no noise: alpha is 1, tau 0, and its threshold is the bound. The bound is
// exchanged as other rows' bests are: as a key with a low word of 0.

// collects reports whether a computation has lists.
func collects(c ir.Computation) bool { return c.Truncation.Any() && c.Sampler == ir.Gumbel }

func (c *skeleton) collecting() bool { return collects(c.c) }

// addCollection declares what rows are collected in.
func (s *params) addCollection(c ir.Computation, o Options) {
	s.marks = s.pointer(ParamMarks, "u32", "batch x 1024", "workspace")
	s.counts = s.pointer(ParamCounts, "u32", "batch", "workspace")
	s.arrivals = s.pointer(ParamArrivals, "u32", "1", "workspace")
	s.candidates = s.pointer(ParamCandidates, "u32", "batch x 8192 x 4", "scratch")
	s.bounds = s.pointer(ParamBounds, "u32", "batch", "scratch")
	if o.Further {
		s.states, s.open = s.openRows()
		s.pivots, s.bins = s.surveyed()
	} else if addsUp(c) {
		s.masses = s.pointer(ParamMasses, "f32", "batch x 2", "scratch")
	}
}

// The addresses are read from the parameters where they are used: to keep them all would take too many registers.
func (c *samplers) filtersOf(row ptx.B32) filter {
	return loadFilters(c.f, c.sig.filters, c.c.Truncation).of(c.f, row, c.vocab)
}

// rowList is what a row's record keeps besides: the row's marks, or 0 where it has no list, and its true (alpha, tau).
type rowList struct {
	marks, wanted ptx.B32
	alpha, tau    ptx.F32
	openRow       // of further passes
}

func (c *samplers) emptyList() rowList {
	l := rowList{marks: c.f.B32("list_marks"), wanted: c.f.B32("list_wanted"), alpha: c.f.F32("true_alpha"), tau: c.f.F32("true_tau")}
	c.f.MovB32(l.marks, ptx.Imm(0))
	c.f.MovB32(l.wanted, ptx.Imm(0))
	c.f.MovF32(l.alpha, ptx.F32Imm(0))
	c.f.MovF32(l.tau, ptx.F32Imm(0))
	if c.options.Further {
		l.openRow = openRow{c.f.B32("mode"), c.f.B32("old_bound"), c.f.B32("top"), c.f.B32("scale"), c.f.B64("floor"), c.f.B32("passes")}
		for _, r := range []ptx.B32{l.mode, l.bound, l.top, l.scale, l.passes} {
			c.f.MovB32(r, ptx.Imm(0))
		}
		c.f.MovB64(l.floor, ptx.Imm(0))
	}
	return l
}

// narrow makes the record of a row that is narrowed one without noise. It returns what the row's sums divide by. At T = 0 no
// filter matters.
func (c *samplers) narrow(row ptx.B32, r *rowRecord, l rowList, high, low ptx.B32) ptx.F32 {
	f := c.f
	if !c.c.Chain.Temperature {
		f.MovF32(r.alpha, ptx.F32Imm(1))
		f.MovF32(r.tau, ptx.F32Imm(1))
	}
	d, open, bad, on := c.filtersOf(row), f.Pred("open"), f.Pred("bad_filter"), f.Pred("listed_row")
	f.SetpU32(ptx.EQ, open, high, ptx.Imm(keyEmpty))
	f.AndPred(bad, open, d.bad)
	f.MovB32(high, ptx.Imm(keyFailed)).If(bad)
	f.MovB32(low, ptx.Imm(int64(ir.StatusBadParameter))).If(bad)
	f.SetpAndU32(ptx.EQ, on, high, ptx.Imm(keyEmpty), d.narrows)
	f.SetpAndF32(ptx.GT, on, r.tau, ptx.F32Imm(0), on)
	f.MovB32(l.marks, d.marks).If(on)
	f.MovB32(l.wanted, d.wanted).If(on)
	if !c.options.Further {
		f.OrPred(c.lists, c.lists, on)
	}
	if c.summing() { // top-k takes its mass from the list
		needs := f.Pred("needs_mass")
		f.SetpAndU32(ptx.EQ, needs, d.k, ptx.Imm(0), on)
		f.AndPred(needs, needs, d.byP)
		f.OrPred(c.adds, c.adds, needs)
	}
	f.MovF32(l.alpha, r.alpha)
	f.MovF32(l.tau, r.tau)
	f.MovF32(r.alpha, ptx.F32Imm(1)).If(on)
	f.MovF32(r.tau, ptx.F32Imm(0)).If(on)
	if c.options.Further {
		c.reopen(row, r, l, high, low)
		f.SetpOrU32(ptx.NE, c.lists, l.marks, ptx.Imm(0), c.lists)
		return r.tau
	}
	sumTau := f.F32("sum_tau")
	f.SelpF32(sumTau, c.filterTemperature(row), l.tau, on)
	return sumTau
}

// beginLists is ahead of the records of a tile's rows, agreeOnLists the barrier behind them.
func (c *samplers) beginLists() {
	c.f.SetpU32(ptx.NE, c.lists, c.lane, c.lane)
	if c.summing() {
		c.f.SetpU32(ptx.NE, c.adds, c.lane, c.lane)
	}
	if c.options.Further {
		c.f.SetpU32(ptx.NE, c.surveys, c.lane, c.lane)
	}
}

func (c *samplers) agreeOnLists() {
	threads := ptx.Threads(ptx.Imm(c.plan.Pipeline.Samplers))
	c.f.BarRedOrPred(c.lists, ptx.Imm(1), c.lists, threads)
	if c.summing() {
		c.f.BarRedOrPred(c.adds, ptx.Imm(1), c.adds, threads)
	}
	if c.options.Further {
		c.f.BarRedOrPred(c.surveys, ptx.Imm(1), c.surveys, threads)
	}
}

// whereAdding runs body unless no row of the tile needs its mass.
func (c *samplers) whereAdding(body func()) {
	if !c.collecting() || !c.summing() {
		body()
		return
	}
	skip := c.f.Label("no_mass")
	c.f.Bra(skip).IfNot(c.adds)
	body()
	c.f.Place(skip)
}

// filterTemperature is the temperature of the distribution that a row's filters see.
func (c *samplers) filterTemperature(row ptx.B32) ptx.F32 {
	if !c.c.Truncation.TemperatureLast {
		return c.temperatureOf(row)
	}
	one := c.f.F32("one")
	c.f.MovF32(one, ptx.F32Imm(1))
	return one
}

// listTau is what the sums of a row divide by, tau unless the row is narrowed; t is its temperature.
func (c *samplers) listTau(row ptx.B32, t, tau ptx.F32) ptx.F32 {
	f := c.f
	d, on, sumTau := c.filtersOf(row), f.Pred("listed_row"), f.F32("sum_tau")
	f.SetpAndF32(ptx.GT, on, t, ptx.F32Imm(0), d.narrows)
	f.SelpF32(sumTau, c.filterTemperature(row), tau, on)
	return sumTau
}

func (c *samplers) storeList(inTile ptx.B32, l rowList) {
	alpha, tau := c.f.B32(), c.f.B32()
	c.f.MovB32(alpha, l.alpha)
	c.f.MovB32(tau, l.tau)
	c.f.StSharedV4B32(c.at(inTile, 16).Off(c.plan.Storage.Lists), []ptx.B32{l.marks, alpha, tau, l.wanted})
	if c.options.Further {
		c.storeFurther(inTile, l)
	}
}

// listMarks loads the marks of a column of the tile: 0 where its row has no list.
func (c *samplers) listMarks(column ptx.B32) ptx.B32 {
	marks := c.f.B32("list_marks")
	c.f.LdSharedB32(marks, c.at(column, 16).Off(c.plan.Storage.Lists))
	return marks
}

// trueScale loads a column's true (alpha, tau).
func (c *samplers) trueScale(column ptx.B32) (alpha, tau ptx.F32) {
	f, bits := c.f, c.f.NewB32s("list", 4)
	f.LdSharedV4B32(bits, c.at(column, 16).Off(c.plan.Storage.Lists))
	alpha, tau = f.F32("alpha"), f.F32("tau")
	f.MovB32(alpha, bits[1])
	f.MovB32(tau, bits[2])
	return alpha, tau
}

// batchRow is the row of a column of the tile.
func (c *samplers) batchRow(column ptx.B32) ptx.B32 {
	row := c.f.B32("batch_row")
	c.f.MadLoU32(row, c.column, ptx.Imm(c.t.N), column)
	return row
}

// markFactor spreads ids: 2^32 over the golden ratio.
const markFactor = 0x9E3779B1

// mark raises the mark of a token to its logit, where p holds. Tokens v and v+8, which a thread of sm_90 has at once, have the
// same mark.
func (c *samplers) mark(column, row, id, marks, bits ptx.B32, p ptx.Pred) {
	f := c.f
	hash, slot, addr := f.B32(), f.B32("mark"), f.B64("mark_addr")
	f.AndB32(hash, id, ptx.Imm(0xFFFFFFF7))
	f.MulLoU32(hash, hash, imm(f, markFactor))
	c.salted(column, hash)
	f.MulHiU32(slot, hash, marks)
	f.MadLoU32(slot, row, ptx.Imm(manifest.RowMarks), slot)
	f.MadWideU32(addr, slot, ptx.Imm(4), loadPointer(f, c.sig.marks, "marks"))
	f.RedGlobalMaxU32(addr, bits, ptx.RelaxedGPU).If(p)
}

// markFloor marks the largest logit of an element of a row that has a list, which has no floor.
func (c *samplers) markFloor(g group, i int, e *scanned, least ptx.F32, known ptx.Pred) {
	f := c.f
	column, id, some := f.B32("column"), f.B32("token"), f.Pred("has_mark")
	f.AddU32(column, g.columns, ptx.Imm(g.place(i)))
	marks, top, floored := c.listMarks(column), c.top(e), known
	if c.options.Further {
		floored = f.Pred("has_floor")
		f.AndPred(floored, known, known)
	}
	f.SetpAndU32(ptx.EQ, known, marks, ptx.Imm(0), known)
	f.SetpF32(ptx.GT, some, top, ptx.F32Imm(math.Inf(-1))) // false for NaN
	f.SetpAndU32(ptx.NE, some, marks, ptx.Imm(0), some)
	f.AddU32(id, g.id, ptx.Imm(int64(e.tokens[0].below)))
	if c.options.Further {
		top, some = c.floorOf(column, top, least, some, floored)
	}
	c.mark(column, c.batchRow(column), id, marks, scoreBits(f, top), some)
}

// beginService has warps begin with different rows. CTAs that serve the same row must not be neighbours, which finish their
// first tiles early or late together.
func (c *samplers) beginService(warp ptx.B32) {
	f := c.f
	c.served, c.early = f.B32("served"), f.B32("early")
	c.lists = f.Pred("any_list")
	if c.summing() {
		c.adds = f.Pred("any_mass")
	}
	if c.options.Further {
		c.surveys = f.Pred("any_survey")
	}
	f.MovB32(c.early, ptx.Imm(1))
	cta := f.B32("cta")
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
	f.Bra(skip).IfNot(c.lists)
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

// serveMarks has the warp take the bound of one row from its marks, another row for each tile.
func (c *samplers) serveMarks() {
	if c.collecting() {
		c.serve(1)
	}
}

func (c *samplers) serve(tries int) {
	f := c.f
	column, row := c.servedRow()
	marks, none, done := c.listMarks(column), f.Pred("no_list"), f.Label("served")
	f.SetpU32(ptx.EQ, none, marks, ptx.Imm(0))
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

// servedRow is the row that the warp serves next: its column of the tile, and its place in the batch.
func (c *samplers) servedRow() (column, row ptx.B32) {
	f := c.f
	here, start, whole := f.B32("rows_here"), f.B32(), f.B32()
	f.MulLoU32(start, c.column, ptx.Imm(c.t.N))
	f.SubU32(here, c.batch, start)
	f.MinU32(here, here, ptx.Imm(c.t.N))
	past := f.Pred("past_batch") // a column tile of a cluster that splits the batch may have no rows
	f.SetpU32(ptx.GE, past, start, c.batch)
	f.MovB32(here, ptx.Imm(1)).If(past)
	column, row = f.B32("served_column"), f.B32("served_row")
	f.DivU32(whole, c.served, here)
	f.MulLoU32(whole, whole, here)
	f.SubU32(column, c.served, whole)
	f.AddU32(row, start, column)
	f.AddU32(c.served, c.served, ptx.Imm(1))
	return column, row
}

// boundOf is the largest bound that a row's marks prove, in every lane; 0 for none. It is cut off a little below the mark that proves
// it where they are few enough to be searched.
func (c *samplers) boundOf(column, row, marks ptx.B32) ptx.B32 {
	f := c.f
	bound, few, many, done := f.B32("proven_bound"), f.Pred("few_marks"), f.Label("many_marks"), f.Label("bound_found")
	f.SetpU32(ptx.LE, few, marks, ptx.Imm(boundMarks))
	f.Bra(many).IfNot(few)
	wanted := f.B32("wanted")
	f.LdSharedB32(wanted, c.at(column, 16).Off(c.plan.Storage.Lists+12))
	c.searchBound(bound, c.laneMarks(row, marks), wanted)
	f.Bra(done)
	f.Place(many)
	f.MovB32(bound, c.leastMark(row, marks))
	f.Place(done)
	return bound
}

// laneMarks loads a lane's share of a row's marks, 0 where there are no more.
func (c *samplers) laneMarks(row, marks ptx.B32) (own [boundMarksLane]ptx.B32) {
	f := c.f
	base, index := f.B64("row_marks"), f.B32()
	f.MadLoU32(index, row, ptx.Imm(manifest.RowMarks), c.lane)
	f.MadWideU32(base, index, ptx.Imm(4), loadPointer(f, c.sig.marks, "marks"))
	for i := range own {
		at, there := f.B32(), f.Pred("there")
		own[i] = f.B32("mark")
		f.AddU32(at, c.lane, ptx.Imm(warpSize*i))
		f.SetpU32(ptx.LT, there, at, marks)
		f.MovB32(own[i], ptx.Imm(0))
		f.LdGlobalB32(own[i], base.Off(4*warpSize*i), ptx.RelaxedGPU).If(there)
	}
	return own
}

// searchBound finds the largest number of boundBits bits that as many marks reach as are wanted, bit by bit.
func (c *samplers) searchBound(bound ptx.B32, marks [boundMarksLane]ptx.B32, wanted ptx.B32) {
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

// collect lists a token whose row has a list, if it reaches the bound, and raises its mark. It returns the key that is left to
// commit: none for such a row, unless the token fails it.
func (c *samplers) collect(column, id ptx.B32, in inputs, score ptx.F32, key ptx.B64) ptx.B64 {
	f := c.f
	marks, z, threshold := c.listMarks(column), lower(f, c.logit, in), f.F32("bound")
	f.LdSharedF32(threshold, c.at(column, 16).Off(c.plan.Storage.Rows+recordThreshold), ptx.RelaxedCTA)
	low, high, listed, fails := f.B32(), f.B32(), f.Pred("listed"), f.Pred("fails")
	f.MovUnpackB64(low, high, key)
	f.SetpU32(ptx.NE, listed, marks, ptx.Imm(0))
	f.SetpAndU32(ptx.NE, fails, high, imm(f, keyFailed), listed)
	left := f.B64("key_left")
	f.SelpB64(left, ptx.Imm(0), key, fails) // not failing
	f.SetpAndU32(ptx.NE, listed, high, ptx.Imm(keyEmpty), fails)
	by := c.listedBy(column, id, z, score, listed)
	f.SetpAndF32(ptx.GEU, listed, by, threshold, listed)
	row := c.batchRow(column)
	c.list(row, id, z, score, listed)
	c.mark(column, row, id, marks, scoreBits(f, by), listed)
	return left
}

// list appends a token to its row's list. A list that is full goes on counting.
func (c *samplers) list(row, id ptx.B32, z, score ptx.F32, listed ptx.Pred) {
	f := c.f
	at, count, addr, room := f.B32("list_place"), f.B64(), f.B64("candidate_addr"), f.Pred("room")
	f.MovB32(at, ptx.Imm(0))
	f.MadWideU32(count, row, ptx.Imm(4), loadPointer(f, c.sig.counts, "counts"))
	f.AtomGlobalAddU32(at, count, ptx.Imm(1), ptx.RelaxedGPU).If(listed)
	f.SetpAndU32(ptx.LT, room, at, ptx.Imm(manifest.RowCandidates), listed)
	index, zBits, scoreWord := f.B32(), f.B32(), f.B32()
	f.MadLoU32(index, row, ptx.Imm(manifest.RowCandidates), at)
	f.MadWideU32(addr, index, ptx.Imm(manifest.CandidateBytes), loadPointer(f, c.sig.candidates, "candidates"))
	f.MovB32(zBits, z)
	f.MovB32(scoreWord, score)
	f.StGlobalV4B32(addr, []ptx.B32{zBits, id, scoreWord, id}).If(room)
}

// writeMass leaves a row's sums for the kernel that draws from its list.
func (c *samplers) writeMass(row ptx.B32, total pair, first ptx.Pred) {
	f, addr := c.f, c.f.B64()
	f.MadWideU32(addr, row, ptx.Imm(8), loadPointer(f, c.sig.masses, "masses"))
	f.StGlobalV2F32(addr, []ptx.F32{total.largest, total.sum}).If(first)
}
