package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// Rows that truncation narrows are not sampled here: their likeliest tokens are collected in a list, from which another kernel
// draws (resolve.go). A token is listed where its logit reaches the row's bound, which is known to be reached by as many tokens
// as matter: each row has a few times that many marks, blocks of 16 tokens belong to marks by a hash, and a mark holds the largest
// logit that was seen of its tokens. So the n-th largest mark is reached by n tokens, all different.
//
// To the scan such a row is one whose scores have no noise: alpha is 1, tau 0, and its threshold is the bound. The bound is
// exchanged as other rows' bests are: as a key with a low word of 0.

// collecting reports whether the kernel has lists.
func (c *skeleton) collecting() bool { return c.c.Collects() }

// addCollection declares what rows are collected in.
func (s *params) addCollection(c ir.Computation, o Options) {
	s.marks = s.pointer(ParamMarks, "u32", "batch x 1024", "workspace")
	s.counts = s.pointer(ParamCounts, "u32", "batch", "workspace")
	s.arrivals = s.pointer(ParamArrivals, "u32", "1", "workspace")
	s.candidates = s.pointer(ParamCandidates, "u32", "batch x 8192 x 4", "scratch")
	s.bounds = s.pointer(ParamBounds, "u32", "batch", "scratch")
	if o.Further {
		s.states, s.open = s.openRows()
		if surveys(c) {
			s.pivots, s.bins = s.surveyed(c)
		}
	} else if keepsMass(c) {
		if c.FindsPeaks() {
			s.peaks = s.pointer(ParamPeaks, "u32", "batch", "workspace")
		}
		s.masses = s.pointer(ParamMasses, "f32", "batch x 2", "scratch")
		if _, two := c.SecondSum(); two {
			s.secondMasses = s.pointer(ParamSecondMasses, "f32", "batch x 2", "scratch")
		}
	}
}

// The addresses are read from the parameters where they are used: to keep them all would take too many registers.
func (c *samplers) filtersOf(s rowSlot) filter {
	return loadFilters(c.f, c.sig.filters, c.c.Truncation).of(c.f, s, c.vocab)
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
		l.openRow = openRow{c.f.B32("mode"), c.f.B32("old_bound"), c.f.B32("top"), c.f.B32("scale"), c.f.B64("floor"), c.f.B32("passes"), c.f.B32("ids")}
		for _, r := range []ptx.B32{l.mode, l.bound, l.top, l.scale, l.passes, l.ids} {
			c.f.MovB32(r, ptx.Imm(0))
		}
		c.f.MovB64(l.floor, ptx.Imm(0))
	}
	return l
}

// narrow makes the record of a row that is narrowed one without noise. It returns what the row's sums divide by. At T = 0 no
// filter matters. Its parameters are in the given slot, which is there.
func (c *samplers) narrow(row, slot ptx.B32, r *rowRecord, l rowList, high, low ptx.B32) ptx.F32 {
	f := c.f
	if !c.c.Chain.Temperature {
		f.MovF32(r.alpha, ptx.F32Imm(1))
		f.MovF32(r.tau, ptx.F32Imm(1))
	}
	d, open, bad, on := c.filtersOf(rowSlot{index: slot}), f.Pred("open"), f.Pred("bad_filter"), f.Pred("listed_row")
	f.SetpU32(ptx.EQ, open, high, ptx.Imm(keyEmpty))
	var n ptx.B32
	var several ptx.Pred
	if c.several() {
		var off ptx.Pred
		n, several, off = c.sig.several.several(f, rowSlot{index: slot})
		f.OrPred(d.bad, d.bad, off)
	}
	f.AndPred(bad, open, d.bad)
	f.MovB32(high, ptx.Imm(keyFailed)).If(bad)
	f.MovB32(low, ptx.Imm(int64(ir.StatusBadParameter))).If(bad)
	f.SetpAndU32(ptx.EQ, on, high, ptx.Imm(keyEmpty), d.narrows)
	switch {
	case c.several():
		c.listEither(l, r.tau, high, d.narrows, on, several, n)
	case !listsCold(c.c):
		f.SetpAndF32(ptx.GT, on, r.tau, ptx.F32Imm(0), on)
	}
	f.MovB32(l.marks, d.marks).If(on)
	f.MovB32(l.wanted, d.wanted).If(on)
	if !c.options.Further {
		f.OrPred(c.lists, c.lists, on)
	}
	c.wantSums(d, high, on)
	f.MovF32(l.alpha, r.alpha)
	f.MovF32(l.tau, r.tau)
	f.MovF32(r.alpha, ptx.F32Imm(1)).If(on)
	f.MovF32(r.tau, ptx.F32Imm(0)).If(on)
	if c.options.Further {
		c.reopen(row, r, l, high, low)
		if c.c.Truncation.MinP {
			c.markListed(l, d)
		}
		f.SetpOrU32(ptx.NE, c.lists, l.marks, ptx.Imm(0), c.lists)
		return r.tau
	}
	sumTau := f.F32("sum_tau")
	f.SelpF32(sumTau, c.listTemperature(row), l.tau, on)
	return sumTau
}

// massNeeded reports whether a row that is listed needs the sum of its powers: top-k takes its mass from the list.
func massNeeded(f *ptx.Func, d filter, listed ptx.Pred) ptx.Pred {
	needs := f.Pred("needs_mass")
	f.SetpAndU32(ptx.EQ, needs, d.k, ptx.Imm(0), listed)
	f.AndPred(needs, needs, d.byP)
	return needs
}

// needsMass is massNeeded of any row.
func (c *samplers) needsMass(row ptx.B32) ptx.Pred {
	if c.several() && !c.c.Truncation.TopP {
		return c.drawsSeveral(row)
	}
	f, d, on := c.f, c.filtersOf(c.slotOf(row)), c.f.Pred("listed_row")
	f.AndPred(on, d.narrows, d.narrows)
	if c.c.Chain.Temperature && !mayListCold(c.c) {
		f.SetpAndF32(ptx.GT, on, c.temperatureOf(row), ptx.F32Imm(0), on)
	}
	needs := massNeeded(f, d, on)
	if c.several() {
		f.OrPred(needs, needs, c.drawsSeveral(row))
	}
	return needs
}

// listsCold reports whether rows at T = 0 have lists: their tokens need no filter, the log-probabilities among what filters keep do.
func listsCold(c ir.Computation) bool { return c.LogProb == ir.ProcessedLogProb }

// mayListCold reports whether any row at T = 0 that filters narrow has a list.
func mayListCold(c ir.Computation) bool { return listsCold(c) || c.Draws == ir.WithoutReplacement }

// wantSums notes whether the row is to be added up: for its mass, or for what is told of rows without a list.
func (c *samplers) wantSums(d filter, high ptx.B32, on ptx.Pred) {
	if !c.addsSome() {
		return
	}
	f := c.f
	if c.c.Truncation.TopP {
		f.OrPred(c.adds, c.adds, massNeeded(f, d, on))
	}
	if c.logProbs() && !c.addsAll() {
		tells, off := f.Pred("tells_sum"), f.Pred("no_list")
		f.NotPred(off, on)
		f.SetpAndU32(ptx.EQ, tells, high, ptx.Imm(keyEmpty), off)
		f.OrPred(c.adds, c.adds, tells)
	}
}

// tellsSum notes that a row that is open is to be added up, where no filter narrows any and log-probabilities are told.
func (c *samplers) tellsSum(high ptx.B32) {
	if c.logProbs() && !c.addsAll() {
		tells := c.f.Pred("tells_sum")
		c.f.SetpU32(ptx.EQ, tells, high, ptx.Imm(keyEmpty))
		c.f.OrPred(c.adds, c.adds, tells)
	}
}

// listEither has a row listed by its logits or by its scores, where filters narrow some rows and others draw several tokens: on is set
// for those that filters narrow.
func (c *samplers) listEither(l rowList, tau ptx.F32, high ptx.B32, narrows, on, several ptx.Pred, n ptx.B32) {
	f, open := c.f, c.f.Pred("open")
	f.SetpU32(ptx.EQ, open, high, ptx.Imm(keyEmpty))
	byLogit, byScore := listing(f, c.c, narrows, several, tau)
	f.AndPred(on, byLogit, open)
	f.AndPred(byScore, byScore, open)
	f.MovB32(l.marks, marksOf(f, n)).If(byScore)
	f.MovB32(l.wanted, n).If(byScore)
	if !c.options.Further {
		f.OrPred(c.lists, c.lists, byScore)
	}
	if c.addsSome() && c.c.Draws == ir.WithReplacement {
		f.OrPred(c.adds, c.adds, byScore)
	}
}

// addsSome reports whether rows are added up only where one of their tile is to be, in one distribution at least.
func (c *skeleton) addsSome() bool {
	second, two := c.whole.SecondSum()
	return c.summing() && (!c.addsAll() || two && c.collecting() && !second.LogSumExp)
}

// beginLists is ahead of the records of a tile's rows, agreeOnLists the barrier behind them.
func (c *samplers) beginLists() {
	c.f.SetpU32(ptx.NE, c.lists, c.lane, c.lane)
	if c.addsSome() {
		c.f.SetpU32(ptx.NE, c.adds, c.lane, c.lane)
	}
	if c.surveying() {
		c.f.SetpU32(ptx.NE, c.surveys, c.lane, c.lane)
	}
}

func (c *samplers) agreeOnLists() {
	threads := ptx.Threads(ptx.Imm(c.plan.Pipeline.Samplers))
	c.f.BarRedOrPred(c.lists, ptx.Imm(1), c.lists, threads)
	if c.addsSome() {
		c.f.BarRedOrPred(c.adds, ptx.Imm(1), c.adds, threads)
	}
	if c.surveying() {
		c.f.BarRedOrPred(c.surveys, ptx.Imm(1), c.surveys, threads)
	}
}

// whereAdding runs body unless no row of the tile needs its mass.
func (c *samplers) whereAdding(body func()) {
	if c.addsAll() {
		body()
		return
	}
	c.where(c.adds, "no_mass", body)
}

// where runs body where p holds, which is the same in all threads. A vote tells ptxas so: else it takes the warps for divided from here
// on, and the addresses of the products out of uniform registers.
func (c *samplers) where(p ptx.Pred, otherwise string, body func()) {
	skip, any := c.f.Label(otherwise), c.f.Pred("any")
	c.f.VoteSyncAnyPred(any, p, ptx.Imm(fullWarp))
	c.f.Bra(skip).IfNot(any)
	body()
	c.f.Place(skip)
}

// tellsTempered reports whether the sums of all rows are told at their temperatures.
func tellsTempered(c ir.Computation) bool { return c.LogSumExp || c.LogProb == ir.TemperatureLogProb }

// listTemperature is what the sums of a row with a list divide by: the temperature of the distribution that its filters see, within
// the bounds that it has in weights, unless the sums are told.
func (c *samplers) listTemperature(row ptx.B32) ptx.F32 {
	if c.c.Truncation.TemperatureLast && !tellsTempered(c.c) {
		one := c.f.F32("one")
		c.f.MovF32(one, ptx.F32Imm(1))
		return one
	}
	t := c.temperatureOf(row)
	if mayListCold(c.c) {
		t = c.sumTau(t)
	}
	if !tellsTempered(c.c) {
		boundTemperature(c.f, t)
	}
	return t
}

// listTau is what the sums of a row divide by, tau unless the row is narrowed; t is its temperature.
func (c *samplers) listTau(row ptx.B32, t, tau ptx.F32) ptx.F32 {
	f := c.f
	d, on, sumTau := c.filtersOf(c.slotOf(row)), f.Pred("listed_row"), f.F32("sum_tau")
	if mayListCold(c.c) { // the temperature of a row at T = 0 is 1 with a list and without
		f.AndPred(on, d.narrows, d.narrows)
	} else {
		f.SetpAndF32(ptx.GT, on, t, ptx.F32Imm(0), d.narrows)
	}
	f.SelpF32(sumTau, c.listTemperature(row), tau, on)
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

// blockShift turns the id of a token into its block's.
const blockShift = 4

// mark raises the mark of a token's block to the token's logit, where p holds. All tokens of a block have the same mark, so that a
// warp that has seen a whole block needs to raise it but once.
func (c *samplers) mark(column, row, id, marks, bits ptx.B32, p ptx.Pred) {
	f := c.f
	hash, slot, addr := f.B32(), f.B32("mark"), f.B64("mark_addr")
	f.ShrU32(hash, id, ptx.Imm(blockShift))
	f.MulLoU32(hash, hash, c.spread(column))
	f.MulHiU32(slot, hash, marks)
	f.MadLoU32(slot, row, ptx.Imm(manifest.RowMarks), slot)
	f.MadWideU32(addr, slot, ptx.Imm(4), loadPointer(f, c.sig.marks, "marks"))
	f.RedGlobalMaxU32(addr, bits, ptx.RelaxedGPU).If(p)
}

// floorMarks are the largest logits of the blocks of a group's columns, which the lanes of a block share out among themselves.
type floorMarks struct {
	place  ptx.B32 // of the lane in its block
	value  ptx.F32 // of the lane's own element
	column ptx.B32
}

func (c *samplers) newFloorMarks() floorMarks {
	m := floorMarks{c.blocks.place(c.f, c.lane), c.f.F32("block_top"), c.f.B32("block_column")}
	c.f.MovF32(m.value, ptx.F32Imm(math.Inf(-1)))
	c.f.MovB32(m.column, ptx.Imm(0))
	return m
}

// addFloor has the lanes of a block agree on the block's largest logit of element i, if the row has a list. Such a row has no
// floor.
func (c *samplers) addFloor(m floorMarks, g group, i int, e *scanned, least ptx.F32, known ptx.Pred) {
	f := c.f
	column, some, own, mine := f.B32("column"), f.Pred("has_mark"), f.F32("marked"), f.Pred("own_element")
	f.AddU32(column, g.columns, ptx.Imm(g.place(i)))
	marks, top, floored := c.listMarks(column), c.top(e), known
	if c.options.Further || c.several() {
		floored = f.Pred("has_floor")
		f.AndPred(floored, known, known)
	}
	f.SetpAndU32(ptx.EQ, known, marks, ptx.Imm(0), known)
	f.SetpF32(ptx.GT, some, top, ptx.F32Imm(math.Inf(-1))) // false for NaN
	f.SetpAndU32(ptx.NE, some, marks, ptx.Imm(0), some)
	switch {
	case c.options.Further:
		top, some = c.floorOf(column, top, least, some, floored)
	case c.several() && c.c.Truncation.Any():
		top, some = c.floorOfEither(e, top, least, some, floored)
	case c.several(): // listed by scores
		top = least
		f.AndPred(some, some, floored)
	}
	f.MovF32(own, ptx.F32Imm(math.Inf(-1)))
	f.MovF32(own, top).If(some)
	largest := c.blocks.across(f, own, c.larger)
	f.SetpU32(ptx.EQ, mine, m.place, ptx.Imm(i%c.blocks.lanes()))
	f.MovF32(m.value, largest).If(mine)
	f.MovB32(m.column, column).If(mine)
}

// floorOfEither is the largest logit of an element whose row is listed by logits, and else the floor of its score.
func (c *samplers) floorOfEither(e *scanned, top, least ptx.F32, some, floored ptx.Pred) (value ptx.F32, marked ptx.Pred) {
	f, byLogit := c.f, c.f.Pred("by_logit")
	value, marked = f.F32("marked"), f.Pred("marked")
	f.SetpF32(ptx.EQ, byLogit, e.record.tau, ptx.F32Imm(0))
	f.SelpF32(value, top, least, byLogit)
	f.OrPred(marked, floored, byLogit)
	f.AndPred(marked, marked, some)
	return value, marked
}

// markFloors raises the marks of what the lanes have come to. first is the block's, or one that has it.
func (c *samplers) markFloors(m floorMarks, first ptx.B32) {
	some := c.f.Pred("has_top")
	c.f.SetpF32(ptx.GT, some, m.value, ptx.F32Imm(math.Inf(-1)))
	c.mark(m.column, c.batchRow(m.column), first, c.listMarks(m.column), scoreBits(c.f, m.value), some)
	c.f.MovF32(m.value, ptx.F32Imm(math.Inf(-1)))
}

// collect lists a token whose row has a list, if it reaches the bound, and raises its mark. It returns the key that is left to
// commit: none for such a row, unless the token fails it.
func (c *samplers) collect(column, id ptx.B32, in inputs, unedited, score ptx.F32, key ptx.B64) ptx.B64 {
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
	c.list(row, id, z, score, c.listedSum(unedited, id), listed)
	c.mark(column, row, id, marks, scoreBits(f, by), listed)
	return left
}

// listedSum is what an entry ends with: the token's logit in the distribution of its log-probability where that is the model's, else
// the id once more. Rows with lists are added up with an alpha of 1.
func (c *samplers) listedSum(unedited ptx.F32, id ptx.B32) ptx.B32 {
	if !c.c.LogProb.OfModel() {
		return id
	}
	bare, one, bits := newInputs(unedited), c.f.F32("one"), c.f.B32("summed_score")
	c.f.MovF32(one, ptx.F32Imm(1))
	bare.f[ir.InAlpha] = one
	c.f.MovB32(bits, c.summedScore(bare))
	return bits
}

// list appends a token to its row's list. A list that is full goes on counting.
func (c *samplers) list(row, id ptx.B32, z, score ptx.F32, last ptx.B32, listed ptx.Pred) {
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
	f.StGlobalV4B32(addr, []ptx.B32{zBits, id, scoreWord, last}).If(room)
}

// writeMass leaves a row's sums for the kernel that draws from its list.
func (c *samplers) writeMass(row ptx.B32, total pair, first ptx.Pred) {
	f, addr := c.f, c.f.B64()
	f.MadWideU32(addr, row, ptx.Imm(8), loadPointer(f, c.sig.masses, "masses"))
	f.StGlobalV2F32(addr, []ptx.F32{total.largest, c.noteRounding(total.sum)}).If(first)
}
