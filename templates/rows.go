package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// changeRows makes shared memory hold the rows of the item's column tile: where it differs from the one before, the
// finished rows' keys go out to global memory and the new rows' constants are computed. Past the last item it branches to
// finish.
func (c *samplers) changeRows(column ptx.B32, past ptx.Pred, finish *ptx.Label) {
	f := c.f
	same, fresh, ready := f.Pred("same_rows"), f.Pred("first_rows"), f.Label("rows_ready")
	f.SetpU32(ptx.EQ, same, column, c.column)
	f.Bra(ready).If(same)
	prepare := f.Label("prepare_rows")
	f.SetpU32(ptx.EQ, fresh, c.column, ptx.Imm(noColumn))
	f.Bra(prepare).If(fresh)
	f.Comment("All warps are done with the old rows: their best keys go out.")
	if c.leave != nil {
		c.leave()
	}
	c.sync()
	c.eachRow(c.thread, c.plan.Pipeline.Samplers, c.column, "publish_row", c.publishRow)
	f.Place(prepare)
	f.Bra(finish).If(past)
	f.MovB32(c.column, column)
	f.MovB32(c.fresh, ptx.Imm(1))
	if c.collecting() {
		c.beginLists()
	}
	c.beginEdits()
	c.eachRow(c.thread, c.plan.Pipeline.Samplers, c.column, "prepare_row", c.prepareRow)
	switch {
	case c.collecting():
		c.agreeOnLists()
	case !c.editing():
		c.sync()
	}
	if c.editing() {
		c.agreeOnEdits()
	}
	f.Place(ready)
}

// eachRow runs body for a thread's share of the rows of a column tile: the row's place in the tile and in the batch.
func (k *skeleton) eachRow(thread ptx.B32, threads int, column ptx.B32, name string, body func(inTile, row ptx.B32)) {
	f := k.f
	inTile, row, out := f.B32("row_in_tile"), f.B32("batch_row"), f.Pred("out")
	end := f.Label(name + "_end")
	f.MovB32(inTile, thread)
	loop := f.Here(name)
	f.SetpU32(ptx.GE, out, inTile, ptx.Imm(k.t.N))
	f.Bra(end).If(out)
	f.MadLoU32(row, column, ptx.Imm(k.t.N), inTile)
	body(inTile, row)
	f.AddU32(inTile, inTile, ptx.Imm(threads))
	f.Bra(loop)
	f.Place(end)
}

// at returns the address register of a row's record of the given size.
func (k *skeleton) at(row ptx.B32, size int) ptx.B32 {
	r := k.f.B32()
	k.f.MadLoU32(r, row, ptx.Imm(size), k.smem)
	return r
}

// perRow returns the address of a row's value of the given size.
func (k *skeleton) perRow(base ptx.B64, row, stride ptx.B32, size int) ptx.B64 {
	return rowAt(k.f, base, row, stride, size)
}

// publishRow joins a row's best of this CTA with those of the others.
func (c *samplers) publishRow(inTile, row ptx.B32) {
	if c.ranking() {
		c.publishRank(inTile, row)
		return
	}
	f := c.f
	key, addr := f.B64("key"), f.B64()
	f.LdSharedB64(key, c.at(inTile, 8).Off(c.plan.Storage.Keys))
	f.MadWideU32(addr, row, ptx.Imm(8), c.keys)
	active := f.Pred("active")
	f.SetpU32(ptx.LT, active, row, c.batch)
	f.RedGlobalMaxU64(addr, key, ptx.RelaxedGPU).If(active)
	if c.summing() {
		c.publishSums(inTile, row, key, active)
		c.eachSecond(func(s *samplers) { s.publishSums(inTile, row, key, active) })
	}
}

// rowRecord is what the epilogue loads for a row of the tile: alpha and tau, the score that a token must reach, and a cap on
// what it is held to reach. The cap is NaN, which caps nothing, or -inf for a row that is settled: past the batch, or failed.
type rowRecord struct{ alpha, tau, threshold, cap ptx.F32 }

// Offsets in a record.
const (
	recordThreshold = 8
	recordCap       = 12
)

// preparedRow is what is computed for a row of the tile before it is stored; what a computation has no use for is not set.
type preparedRow struct {
	rowRecord
	high, low ptx.B32 // of its key
	noise     []ptx.B32
	scale     ptx.F32
	// secondScale is that in the second distribution (second_sum.go).
	secondScale ptx.F32
	list        rowList
	top         ptx.B64
	slot        ptx.B32
}

// settledRow is a row that no token reaches: past the batch, or failed.
func (c *samplers) settledRow() preparedRow {
	f := c.f
	p := preparedRow{high: f.B32("key_high"), low: f.B32("key_low")}
	f.MovB32(p.high, ptx.Imm(keyEmpty))
	f.MovB32(p.low, ptx.Imm(0))
	p.rowRecord = rowRecord{f.F32("alpha"), f.F32("tau"), f.F32("threshold"), f.F32("cap")}
	f.MovF32(p.alpha, ptx.F32Imm(0))
	f.MovF32(p.tau, ptx.F32Imm(0))
	f.MovB32(p.threshold, ptx.Imm(floatInf))
	f.MovB32(p.cap, ptx.Imm(floatMinusInf))
	p.noise = f.NewB32s("row_noise", 4)
	for _, n := range p.noise {
		f.MovB32(n, ptx.Imm(0))
	}
	if c.scaledSums() {
		p.scale = f.F32("scale")
		f.MovF32(p.scale, ptx.F32Imm(0))
	}
	c.eachSecond(func(*samplers) {
		p.secondScale = f.F32("second_scale")
		f.MovF32(p.secondScale, ptx.F32Imm(0))
	})
	if c.collecting() {
		p.list = c.emptyList()
	}
	if c.tops() {
		p.top = f.B64("first_bound")
		f.MovB64(p.top, ptx.Imm(noTop))
	}
	if c.c.Slots {
		p.slot = f.B32("kept_slot")
		f.MovB32(p.slot, imm(f, noSlot))
	}
	return p
}

// prepareRow computes a row's record and empties its key.
func (c *samplers) prepareRow(inTile, row ptx.B32) {
	if c.ranking() {
		c.prepareRank(inTile, row)
		return
	}
	f, p := c.f, c.settledRow()
	idle, store := f.Pred("idle"), f.Label("store_row")
	f.SetpU32(ptx.GE, idle, row, c.batch)
	f.Bra(store).If(idle)
	place := c.findSlot(row, p.high, p.low, p.slot, store)
	if c.c.Sampler.Random() {
		c.rowConstants(place, p.noise)
	}
	if c.c.Chain.Temperature {
		c.rowTemperature(place, p.alpha, p.tau, p.high, p.low)
	}
	c.prepareEdits(place, p.high, p.low)
	sumTau := p.tau
	switch {
	case c.several() && !c.c.Truncation.Any():
		c.listDraws(row, place, &p.rowRecord, p.list, p.high, p.low)
	case c.collecting():
		sumTau = c.narrow(row, place, &p.rowRecord, p.list, p.high, p.low)
	}
	open := f.Pred("open")
	f.SetpU32(ptx.EQ, open, p.high, ptx.Imm(keyEmpty))
	f.MovB32(p.threshold, ptx.Imm(c.openThreshold())).If(open)
	f.MovB32(p.cap, ptx.Imm(floatNaN)).If(open)
	if c.options.Further {
		c.rebound(&p.rowRecord, p.list, p.high, open)
	}
	if c.tops() {
		c.firstTop(row, p.top, open)
	}
	if c.scaledSums() {
		f.MovF32(p.scale, c.rowScale(c.sumTau(sumTau))).If(open)
	}
	c.secondScale(row, &p, open)
	f.Place(store)
	c.storeRow(inTile, p)
}

// storeRow leaves a row in shared memory.
func (c *samplers) storeRow(inTile ptx.B32, p preparedRow) {
	f := c.f
	if c.scaledSums() {
		f.StSharedF32(c.at(inTile, sumBytes).Off(c.plan.Storage.Scales), p.scale)
	}
	if c.summing() {
		c.emptySums(inTile)
		c.storeSecond(inTile, p)
	}
	if c.collecting() {
		c.storeList(inTile, p.list)
	}
	if c.keepsSlots() {
		f.StSharedB32(c.at(inTile, slotBytes).Off(c.plan.Storage.Slots), p.slot)
	}
	if c.tops() {
		c.storeTop(inTile, p.top, p.alpha)
	}
	c.clearWinners(inTile)
	f.StSharedV2B32(c.at(inTile, 8).Off(c.plan.Storage.Keys), []ptx.B32{p.low, p.high})
	f.StSharedV4F32(c.at(inTile, 16).Off(c.plan.Storage.Rows), []ptx.F32{p.alpha, p.tau, p.threshold, p.cap})
	if c.c.Sampler.Random() {
		f.StSharedV4B32(c.at(inTile, 16).Off(c.plan.Storage.Noise), p.noise)
	}
}

// openThreshold is what a row's threshold starts as: NaN, which everything reaches. Where blocks are scored as a whole it is the
// least finite number, which blocks without an allowed token do not reach: where few tokens are allowed these are nearly all.
// Whatever is finite does: no ceiling of the noise is below 0, and no noise is large enough to take a finite score to -inf.
func (c *samplers) openThreshold() int64 {
	if c.c.Sampler == ir.Grouped {
		return floatLeast
	}
	return floatNaN
}

// rowConstants computes the words that the calls of a row share, of the parameters in its place.
func (c *samplers) rowConstants(row ptx.B32, out []ptx.B32) {
	f := c.f
	seed, position := f.NewB32s("seed", 2), f.NewB32s("position", 2)
	f.LdGlobalV2B32(seed, c.perRow(c.seeds, row, c.seedStride, 8))
	f.LdGlobalV2B32(position, c.perRow(c.positions, row, c.posStride, 8))
	state := rowState(f, [4]ptx.B32{position[0], position[1], c.draw, c.tagWord}, [2]ptx.B32{seed[0], seed[1]})
	for i, r := range []ptx.B32{state.s2, state.p, state.q, state.r} {
		f.MovB32(out[i], r)
	}
}

// loadRecord loads the record at an address.
func (c *samplers) loadRecord(addr ptx.SharedAddr) rowRecord {
	w := c.f.NewF32s("record", 4)
	c.f.LdSharedV4F32(w, addr, ptx.RelaxedCTA)
	return rowRecord{w[0], w[1], w[2], w[3]}
}

// raise lets a row's record follow its key. A thread that is late may lower the threshold again: it only filters. Others read
// the record meanwhile, so that it is written by atomics.
func (c *samplers) raise(record ptx.B32, high ptx.B32, p ptx.Pred) {
	f := c.f
	threshold, failed := scoreThreshold(f, high), f.Pred("failed")
	f.SetpAndU32(ptx.EQ, failed, high, imm(f, keyFailed), p)
	f.MovB32(threshold, ptx.Imm(floatInf)).If(failed)
	at, bits, old := record.Off(c.plan.Storage.Rows), f.B32(), f.B32()
	f.MovB32(bits, threshold)
	f.AtomSharedExchB32(old, at.Off(recordThreshold), bits, ptx.RelaxedCTA).If(p)
	f.AtomSharedExchB32(old, at.Off(recordCap), imm(f, floatMinusInf), ptx.RelaxedCTA).If(failed)
}

// rowTemperature turns T into (alpha, tau): (1, T) up to 1, (1/T, 1) above. T = 0 so leaves the bare logits: greedy. A T
// that is negative, NaN or above ir.MaxTemperature fails the row.
func (c *samplers) rowTemperature(row ptx.B32, alpha, tau ptx.F32, high, low ptx.B32) {
	f := c.f
	t, bad, above := f.F32("temperature"), f.Pred("not_plain"), f.Pred("above_one")
	f.LdGlobalF32(t, c.perRow(c.temps, row, c.tempStride, 4))
	splitTemperature(f, t, above, alpha, tau)
	bits := f.B32()
	f.MovB32(bits, t)
	f.SetpU32(ptx.GT, bad, bits, ptx.Imm(int64(math.Float32bits(ir.MaxTemperature)))) // what is larger, NaN and everything with a sign
	failed := f.Pred("bad_temperature")
	f.SetpAndU32(ptx.NE, failed, bits, ptx.Imm(0x80000000), bad)
	f.MovB32(high, ptx.Imm(keyFailed)).If(failed)
	f.MovB32(low, ptx.Imm(int64(ir.StatusBadTemperature))).If(failed)
}

// splitTemperature sets alpha and tau by T; above says whether it is above 1.
func splitTemperature(f *ptx.Func, t ptx.F32, above ptx.Pred, alpha, tau ptx.F32) {
	f.SetpF32(ptx.GT, above, t, ptx.F32Imm(1))
	f.AddF32(tau, t, ptx.F32Imm(0), ptx.RN) // -0 is 0: 1/tau has a sign
	f.MovF32(tau, ptx.F32Imm(1)).If(above)
	f.MovF32(alpha, ptx.F32Imm(1))
	f.CvtRnF32F64(alpha, reciprocal(f, widen(f, t))).If(above)
}

// finish is the end of a CTA: the last one of the grid turns keys into tokens.
func (c *samplers) finish() {
	f := c.f
	if c.ranking() {
		f.Bra(c.done)
		return
	}
	f.Comment("Keys of this CTA are out; whoever takes the last ticket writes the results.")
	f.FenceAcqRelGPU()
	c.sync()
	notFirst, skip := f.Pred("not_first"), f.Label("ticket_taken")
	flag := c.smem.Off(c.plan.Storage.Flag)
	f.SetpU32(ptx.NE, notFirst, c.thread, ptx.Imm(0))
	f.Bra(skip).If(notFirst)
	ticket, last, ctas := loadPointer(f, c.sig.ticket, "ticket"), f.B32("last_ticket"), f.B32("taken")
	f.MovB32(last, ptx.NctaidX)
	f.SubU32(last, last, ptx.Imm(1))
	f.AtomGlobalIncU32(ctas, ticket, last, ptx.AcqRelGPU) // wraps to 0 after the last CTA
	isLast := f.Pred("is_last")
	f.SetpU32(ptx.EQ, isLast, ctas, last)
	f.SelpB32(ctas, ptx.Imm(1), ptx.Imm(0), isLast)
	f.StSharedB32(flag, ctas)
	f.Place(skip)
	c.sync()
	mine, other := f.B32("is_last_cta"), f.Pred("other_cta")
	f.LdSharedB32(mine, flag)
	f.SetpU32(ptx.EQ, other, mine, ptx.Imm(0))
	f.Bra(c.done).If(other)
	f.FenceAcqRelGPU()
	c.writeResults()
}

// writeResults turns every row's key into its token and status, and leaves the workspace zero.
func (c *samplers) writeResults() {
	if c.sharded() {
		c.settleShard()
		return
	}
	f := c.f
	if c.summing() {
		c.writeSums()
		c.eachSecond(func(s *samplers) { s.writeSums() })
	}
	if c.collecting() || c.tops() {
		first := f.Pred("is_first")
		f.SetpU32(ptx.EQ, first, c.thread, ptx.Imm(0))
		f.StGlobalB32(loadPointer(f, c.sig.arrivals, "arrivals"), ptx.Imm(0)).If(first)
	}
	tokens, status := loadPointer(f, c.sig.tokens, "tokens"), loadPointer(f, c.sig.status, "status")
	row, out := f.B32("batch_row"), f.Pred("out")
	f.MovB32(row, c.thread)
	loop := f.Here("write_row")
	f.SetpU32(ptx.GE, out, row, c.batch)
	f.Bra(c.done).If(out)
	key, addr := f.B64("key"), f.B64()
	f.MadWideU32(addr, row, ptx.Imm(8), c.keys)
	f.AtomGlobalExchB64(key, addr, ptx.Imm(0), ptx.RelaxedGPU)
	high, low := f.B32("key_high"), f.B32("key_low")
	f.MovUnpackB64(low, high, key)
	token, state, ok := c.decode(high, low)
	if c.collecting() {
		f.StGlobalB32(rowAddr(f, loadPointer(f, c.sig.bounds, "bounds"), row), high)
	}
	if !c.options.Further { // whose rows the resolving kernel writes
		f.StGlobalB32(rowAddr(f, tokens, row), token)
		f.StGlobalB32(rowAddr(f, status, row), state)
	}
	if c.c.Score && !c.options.Further {
		f.StGlobalF32(rowAddr(f, loadPointer(f, c.sig.scores, "scores"), row), c.finalScore(row, high, ok))
	}
	if c.c.LogSumExp && !c.options.Further {
		c.withdraw(c.sig.logSumExp, "lse", row, c.hasSum(high, ok))
	}
	if c.logProbs() {
		c.withdraw(c.sig.logProb, "logprob", row, ok)
	}
	c.writeFirstRank(row, ok)
	f.AddU32(row, row, ptx.Imm(c.plan.Pipeline.Samplers))
	f.Bra(loop)
}

// hasSum reports whether a row has a log-sum-exp: with a list it has, unless it has failed (noSum).
func (c *samplers) hasSum(high ptx.B32, ok ptx.Pred) ptx.Pred {
	if !c.collecting() {
		return ok
	}
	has := c.f.Pred("has_sum")
	c.f.SetpU32(ptx.NE, has, high, imm(c.f, keyFailed))
	return has
}

// withdraw makes a row's number NaN if the row has no token.
func (c *samplers) withdraw(out ptx.Param, name string, row ptx.B32, ok ptx.Pred) {
	nan := c.f.F32()
	c.f.MovB32(nan, ptx.Imm(floatNaN))
	c.f.StGlobalF32(rowAddr(c.f, loadPointer(c.f, out, name), row), nan).IfNot(ok)
}

func rowAddr(f *ptx.Func, base ptx.B64, row ptx.B32) ptx.B64 {
	d := f.B64()
	f.MadWideU32(d, row, ptx.Imm(4), base)
	return d
}

// decode splits a key into token and status.
func (c *samplers) decode(high, low ptx.B32) (token, state ptx.B32, ok ptx.Pred) {
	f := c.f
	empty, failed := f.Pred("empty"), f.Pred("failed")
	token, state, ok = f.B32("token"), f.B32("row_status"), f.Pred("ok")
	f.SetpU32(ptx.EQ, empty, high, ptx.Imm(keyEmpty))
	f.SetpU32(ptx.EQ, failed, high, imm(f, keyFailed))
	f.NotB32(token, low)
	f.MovB32(state, ptx.Imm(int64(ir.StatusOK)))
	f.MovB32(state, ptx.Imm(int64(ir.StatusEmpty))).If(empty)
	f.MovB32(state, low).If(failed)
	f.SetpU32(ptx.EQ, ok, state, ptx.Imm(int64(ir.StatusOK)))
	f.MovB32(token, ptx.Imm(ir.NoToken)).IfNot(ok)
	return token, state, ok
}

// finalScore is z/T + g of the winner: the compared score is T times that for T below 1. Rows without a token get NaN.
func (c *samplers) finalScore(row, high ptx.B32, ok ptx.Pred) ptx.F32 {
	return c.finalScoreAt(func() ptx.F32 { return c.temperatureOf(row) }, high, ok)
}

// finalScoreAt is finalScore of a row with a temperature, where the chain has one.
func (c *samplers) finalScoreAt(temperature func() ptx.F32, high ptx.B32, ok ptx.Pred) ptx.F32 {
	f := c.f
	s := scoreThreshold(f, high)
	if c.c.Chain.Temperature {
		t, scaled := temperature(), f.Pred("scaled")
		f.SetpF32(ptx.GT, scaled, t, ptx.F32Imm(0))
		below := f.Pred("below_one")
		f.SetpAndF32(ptx.LT, below, t, ptx.F32Imm(1), scaled)
		f.MovF32(s, quotient(f, s, t)).If(below)
	}
	d := f.F32("final_score")
	nan := f.F32()
	f.MovB32(nan, ptx.Imm(0x7FFFFFFF))
	f.SelpF32(d, s, nan, ok)
	return d
}
