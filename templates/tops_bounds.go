package templates

import (
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// How the bounds of the likeliest tokens rise: a warp takes that of a row from the row's marks, another row for each tile, and
// publishes it; with every tile CTAs adopt what was published.

// serveTops has the warp look for the bound of one row, if need be a few times.
func (c *samplers) serveTops(tries int) {
	if !c.tops() {
		return
	}
	f := c.f
	column, row, idle := c.servedRow()
	bound, none, done := c.topBound(column), f.Pred("no_list"), f.Label("served")
	f.SetpOrU64(ptx.EQ, none, bound, ptx.Imm(noTop), idle)
	f.Bra(done).If(none)
	left, enough, again, found := f.B32("tries"), f.Pred("enough"), f.Pred("again"), f.Label("bound_proven")
	f.MovB32(left, ptx.Imm(tries))
	loop := f.Here("serve_row")
	marks := c.loadTopMarks(row)
	reached := c.countMarks(marks, func(p ptx.Pred, m ptx.B64) { f.SetpU64(ptx.GT, p, m, bound) })
	f.SetpU32(ptx.GE, enough, reached, ptx.Imm(c.c.TopN))
	f.Bra(found).If(enough)
	f.SubU32(left, left, ptx.Imm(1))
	f.SetpU32(ptx.NE, again, left, ptx.Imm(0))
	f.Bra(loop).If(again)
	f.Bra(done)
	f.Place(found)
	first := f.Pred("first_lane")
	f.SetpU32(ptx.EQ, first, c.lane, ptx.Imm(0))
	f.RedGlobalMaxU64(c.boundAddr(row), c.nthMark(marks), ptx.RelaxedGPU).If(first)
	f.Place(done)
}

// loadTopMarks loads a lane's share of a row's marks.
func (c *samplers) loadTopMarks(row ptx.B32) (marks [topMarksLane]ptx.B64) {
	f := c.f
	addr, index := f.B64("row_marks"), f.B32()
	f.MadLoU32(index, row, ptx.Imm(manifest.RowTopMarks), c.lane)
	f.MadWideU32(addr, index, ptx.Imm(8), loadPointer(f, c.sig.topMarks, "top_marks"))
	for i := range marks {
		marks[i] = f.B64("mark")
		f.LdGlobalB64(marks[i], addr.Off(8*warpSize*i), ptx.RelaxedGPU)
	}
	return marks
}

// countMarks counts the marks of all lanes for which a predicate holds.
func (c *samplers) countMarks(marks [topMarksLane]ptx.B64, test func(p ptx.Pred, m ptx.B64)) ptx.B32 {
	f := c.f
	own, all := f.B32(), f.B32("marks_counted")
	f.MovB32(own, ptx.Imm(0))
	for _, m := range marks {
		p := f.Pred("counts")
		test(p, m)
		f.AddU32(own, own, ptx.Imm(1)).If(p)
	}
	f.ReduxSyncAddU32(all, own, ptx.Imm(fullWarp))
	return all
}

// nthMark is the n-th largest mark, word by word: among those that have the high word of the n-th, the low word is that of as many
// as are left.
func (c *samplers) nthMark(marks [topMarksLane]ptx.B64) ptx.B64 {
	f := c.f
	var lows, highs [topMarksLane]ptx.B32
	for i, m := range marks {
		lows[i], highs[i] = f.B32("mark_low"), f.B32("mark_high")
		f.MovUnpackB64(lows[i], highs[i], m)
	}
	wanted, own, above := f.B32("wanted"), f.B32(), f.B32("marks_above")
	f.MovB32(wanted, ptx.Imm(c.c.TopN))
	high := c.searchWord(highs, wanted)
	f.MovB32(own, ptx.Imm(0))
	for i := range marks {
		higher, other := f.Pred("higher"), f.Pred("other_high")
		f.SetpU32(ptx.GT, higher, highs[i], high)
		f.AddU32(own, own, ptx.Imm(1)).If(higher)
		f.SetpU32(ptx.NE, other, highs[i], high)
		f.MovB32(lows[i], ptx.Imm(0)).If(other)
	}
	f.ReduxSyncAddU32(above, own, ptx.Imm(fullWarp))
	f.SubU32(wanted, wanted, above)
	key := f.B64("nth_mark")
	f.MovPackB64(key, c.searchWord(lows, wanted), high)
	return key
}

// searchWord finds the largest number that as many words of all lanes reach as are wanted, bit by bit.
func (c *samplers) searchWord(words [topMarksLane]ptx.B32, wanted ptx.B32) ptx.B32 {
	f := c.f
	word, bit, next, own, all, enough, more := f.B32("nth_word"), f.B32("bit"), f.B32("next_word"), f.B32(), f.B32("reached"), f.Pred("enough"), f.Pred("more_bits")
	f.MovB32(word, ptx.Imm(0))
	f.MovB32(bit, imm(f, 1<<31))
	loop := f.Here("search_word")
	f.OrB32(next, word, bit)
	f.MovB32(own, ptx.Imm(0))
	for _, w := range words {
		p := f.Pred("reaches")
		f.SetpU32(ptx.GE, p, w, next)
		f.AddU32(own, own, ptx.Imm(1)).If(p)
	}
	f.ReduxSyncAddU32(all, own, ptx.Imm(fullWarp))
	f.SetpU32(ptx.GE, enough, all, wanted)
	f.MovB32(word, next).If(enough)
	f.ShrU32(bit, bit, ptx.Imm(1))
	f.SetpU32(ptx.NE, more, bit, ptx.Imm(0))
	f.Bra(loop).If(more)
	return word
}

// sharedTop is one row's bound as a thread fetches it. Its column is computed once more where it is wanted: registers are few.
type sharedTop struct {
	first int // column of the first thread of the team
	bound ptx.B64
}

// column is that of the thread, and whether it has a row.
func (c *samplers) topColumn(t sharedTop) (column, row ptx.B32, active ptx.Pred) {
	f := c.f
	column, active = f.B32("column"), f.Pred("row_active")
	f.AddU32(column, c.member, ptx.Imm(t.first))
	row = c.batchRow(column)
	f.SetpU32(ptx.LT, active, column, ptx.Imm(c.t.N))
	f.SetpAndU32(ptx.LT, active, row, c.batch, active)
	return column, row, active
}

// boundAddr is where the row's bound is published.
func (c *samplers) boundAddr(row ptx.B32) ptx.B64 {
	addr := c.f.B64("bound_addr")
	c.f.MadWideU32(addr, row, ptx.Imm(boundBytes), loadPointer(c.f, c.sig.topBounds, "top_bounds"))
	return addr
}

// newTops are the rows whose bounds the thread exchanges.
func (c *samplers) newTops() (tops []sharedTop) {
	if !c.tops() {
		return nil
	}
	for first := 0; first < c.t.N; first += c.plan.Pipeline.Team {
		tops = append(tops, sharedTop{first, c.f.B64("global_bound")})
	}
	return tops
}

// fetchTops starts the loads of the bounds that warps anywhere have published.
func (c *samplers) fetchTops(tops []sharedTop) {
	for _, t := range tops {
		_, row, active := c.topColumn(t)
		c.f.MovB64(t.bound, ptx.Imm(0))
		c.f.LdGlobalB64(t.bound, c.boundAddr(row), ptx.RelaxedGPU).If(active)
	}
}

// awaitTops looks a few times more for the bounds of rows that have none, as awaitBounds does.
func (c *samplers) awaitTops(tops []sharedTop) {
	f := c.f
	for _, t := range tops {
		tries, wanting, settled := f.B32("tries"), f.Pred("wanting"), f.Label("bound_settled")
		_, row, active := c.topColumn(t)
		addr := c.boundAddr(row)
		f.MovB32(tries, ptx.Imm(serveTries))
		loop := f.Here("await_bound")
		f.SetpAndU64(ptx.EQ, wanting, t.bound, ptx.Imm(0), active)
		f.SetpAndU32(ptx.NE, wanting, tries, ptx.Imm(0), wanting)
		f.Bra(settled).IfNot(wanting)
		f.LdGlobalB64(t.bound, addr, ptx.RelaxedGPU)
		f.SubU32(tries, tries, ptx.Imm(1))
		f.Bra(loop)
		f.Place(settled)
	}
}

// adoptTops raises the bounds in shared memory to those that were fetched. A thread that is late may lower what tokens are compared
// with again: that only filters.
func (c *samplers) adoptTops(tops []sharedTop) {
	f := c.f
	for _, t := range tops {
		local, alpha, raise, bits, old := f.B64("local_bound"), f.F32("alpha"), f.Pred("raise"), f.B32(), f.B32()
		f.MovB64(local, ptx.Imm(noTop))
		f.MovF32(alpha, ptx.F32Imm(1))
		column, _, active := c.topColumn(t)
		at := c.at(column, boundBytes)
		f.LdSharedB64(local, at.Off(c.plan.Storage.Tops), ptx.RelaxedCTA).If(active)
		f.LdSharedF32(alpha, c.at(column, 16).Off(c.plan.Storage.Rows), ptx.RelaxedCTA).If(active)
		f.SetpU64(ptx.GT, raise, t.bound, local)
		f.RedSharedMaxU64(at.Off(c.plan.Storage.Tops), t.bound, ptx.RelaxedCTA).If(raise)
		f.MovB32(bits, c.reachOf(t.bound, alpha))
		f.AtomSharedExchB32(old, c.at(column, 4).Off(c.plan.Storage.Reaches), bits, ptx.RelaxedCTA).If(raise)
	}
}
