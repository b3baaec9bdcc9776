package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// The rank of a row's token is 1 plus the number of tokens before it, which nobody knows as long as the token is not: a further pass
// over the weights counts them, by a kernel of the same skeleton that samples nothing. The first kernel notes the token's own logit in
// the mode's distribution instead of its score without noise, and leaves the token's key and a rank of 1.

// ranking reports whether the kernel counts.
func (c *skeleton) ranking() bool { return c.options.Ranks }

// addRankKeys declares the keys that the first kernel leaves, and the ranks.
func (s *params) addRankKeys() {
	s.rankKeys = s.pointer(ParamRankKeys, "u64", "batch", "scratch")
	s.ranks = s.pointer(ParamRanks, "i32", "batch", "write")
}

// notKeyed is the key of a row without a token: no token is before it.
const notKeyed = -1

// notedScore is what is noted of a token (logprob.go): its score without noise as it is added up, or its logit where ranks are asked for.
func (c *samplers) notedScore(in inputs) ptx.F32 {
	if c.c.Rank {
		return lower(c.f, c.likeliest.logit, in)
	}
	return c.summedScore(in)
}

// summedOf turns what was noted of a row's token into its score without noise.
func (c *samplers) summedOf(row ptx.B32, z ptx.F32) ptx.F32 {
	if !c.c.Rank || !c.scaledSums() {
		return z
	}
	f, alpha, tau, base := c.f, c.f.F32("alpha"), c.f.F32("tau"), c.f.F32("token_base")
	splitTemperature(f, c.temperatureOf(row), f.Pred("above_one"), alpha, tau)
	f.MulF32(base, z, alpha, ptx.RN)
	return base
}

// writeRankKey leaves the key of a row's token.
func (c *samplers) writeRankKey(row, id ptx.B32, z ptx.F32, first ptx.Pred) {
	if !c.c.Rank {
		return
	}
	key, addr := c.f.B64("rank_key"), c.f.B64()
	rankKey(c.f, key, z, id)
	c.f.MadWideU32(addr, row, ptx.Imm(8), loadPointer(c.f, c.sig.rankKeys, "rank_keys"))
	c.f.StGlobalB64(addr, key).If(first)
}

// writeFirstRank writes what a row's rank is before anything is counted: 1, or 0 without a token. Who wants no ranks gives no address.
func (c *samplers) writeFirstRank(row ptx.B32, ok ptx.Pred) {
	if !c.c.Rank || c.options.Further {
		return
	}
	f, none, key, addr, rank, wanted := c.f, c.f.Pred("no_token"), c.f.B64("rank_key"), c.f.B64(), c.f.B32("rank"), c.f.Pred("wanted")
	f.NotPred(none, ok)
	f.MovB64(key, ptx.Imm(notKeyed))
	f.MadWideU32(addr, row, ptx.Imm(8), loadPointer(f, c.sig.rankKeys, "rank_keys"))
	f.StGlobalB64(addr, key).If(none)
	ranks := loadPointer(f, c.sig.ranks, "ranks")
	f.SelpB32(rank, ptx.Imm(1), ptx.Imm(0), ok)
	f.SetpU64(ptx.NE, wanted, ranks, ptx.Imm(0))
	f.StGlobalB32(rowAddr(f, ranks, row), rank).If(wanted)
}

// prepareRank brings the key of a row's token to shared memory, and empties the row's count.
func (c *samplers) prepareRank(inTile, row ptx.B32) {
	f, active, key, addr := c.f, c.f.Pred("active"), c.f.B64("rank_key"), c.f.B64()
	f.SetpU32(ptx.LT, active, row, c.batch)
	f.MovB64(key, ptx.Imm(notKeyed))
	f.MadWideU32(addr, row, ptx.Imm(8), loadPointer(f, c.sig.rankKeys, "rank_keys"))
	f.LdGlobalB64(key, addr).If(active)
	c.prepareRankEdits(row, key)
	f.StSharedB64(c.at(inTile, 8).Off(c.plan.Storage.Keys), key)
	f.StSharedB32(c.at(inTile, 16).Off(c.plan.Storage.Rows), ptx.Imm(0))
	if c.keepsSlots() {
		slot := f.B32("kept_slot")
		f.MovB32(slot, imm(f, noSlot))
		f.LdGlobalB32(slot, rowAddr(f, c.slots, row)).If(active)
		f.StSharedB32(c.at(inTile, slotBytes).Off(c.plan.Storage.Slots), slot)
	}
}

// prepareRankEdits notes whether a row with a token is edited: the first kernel has checked by what.
func (c *samplers) prepareRankEdits(row ptx.B32, key ptx.B64) {
	if !c.editing() {
		return
	}
	f, none, skip, high, low := c.f, c.f.Pred("no_token"), c.f.Label("rank_edits_noted"), c.f.B32("key_high"), c.f.B32("key_low")
	f.SetpU64(ptx.EQ, none, key, ptx.Imm(notKeyed))
	f.Bra(skip).If(none)
	f.MovB32(high, ptx.Imm(keyEmpty))
	f.MovB32(low, ptx.Imm(0))
	c.prepareEdits(c.slotOf(row).index, high, low)
	f.Place(skip)
}

// publishRank adds what the CTA has counted of a row to the row's rank.
func (c *samplers) publishRank(inTile, row ptx.B32) {
	f, count, some := c.f, c.f.B32("count"), c.f.Pred("has_count")
	f.LdSharedB32(count, c.at(inTile, 16).Off(c.plan.Storage.Rows))
	f.SetpU32(ptx.LT, some, row, c.batch)
	f.SetpAndU32(ptx.NE, some, count, ptx.Imm(0), some)
	f.RedGlobalAddU32(rowAddr(f, loadPointer(f, c.sig.ranks, "ranks"), row), count, ptx.RelaxedGPU).If(some)
}

// countAhead counts the tokens of a group that are before those of their rows. As a rule there are none.
func (c *samplers) countAhead(g group) {
	f := c.f
	var counts []ptx.B32
	all, some, done := f.B32("counts"), f.Pred("any_ahead"), f.Label("counted")
	f.MovB32(all, ptx.Imm(0))
	for i := range g.elements {
		counts = append(counts, c.aheadOf(g, i))
		f.OrB32(all, all, counts[i])
	}
	f.SetpU32(ptx.NE, some, all, ptx.Imm(0))
	f.VoteSyncAnyPred(some, some, ptx.Imm(fullWarp))
	f.Bra(done).IfNot(some)
	rest, first, old := f.B32(), f.Pred("first_lane"), f.B32()
	together := 0
	for _, step := range c.sums.lanes {
		together |= step
	}
	f.AndB32(rest, c.lane, ptx.Imm(together))
	f.SetpU32(ptx.EQ, first, rest, ptx.Imm(0))
	for i, count := range counts {
		for _, step := range c.sums.lanes {
			other := f.B32()
			f.ShflSyncBflyB32(other, count, ptx.Imm(step), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
			f.AddU32(count, count, other)
		}
		column := f.B32("column")
		f.AddU32(column, g.columns, ptx.Imm(g.place(i)))
		f.AtomSharedAddU32(old, c.at(column, 16).Off(c.plan.Storage.Rows), count, ptx.RelaxedCTA).If(first)
	}
	f.Place(done)
}

// aheadOf is how many of the thread's tokens of element i are before the row's token: larger, or equal and of a lower id.
func (c *samplers) aheadOf(g group, i int) ptx.B32 {
	f, count, column, key := c.f, c.f.B32("ahead"), c.f.B32("column"), c.f.B64("rank_key")
	f.AddU32(column, g.columns, ptx.Imm(g.place(i)))
	f.LdSharedB64(key, c.at(column, 8).Off(c.plan.Storage.Keys))
	low, high, last := f.B32(), f.B32(), f.B32("token_id")
	f.MovUnpackB64(low, high, key)
	f.NotB32(last, low)
	mine := scoreThreshold(f, high) // NaN where there is no token
	f.MovB32(count, ptx.Imm(0))
	for _, t := range g.gather(&g, i).tokens {
		t.in.f[ir.InPad] = t.pad
		z, larger, equal, id := lower(f, c.base, t.in), f.Pred("larger"), f.Pred("equal"), f.B32("token")
		f.AddU32(id, g.id, ptx.Imm(int64(t.below)))
		f.SetpU32(ptx.LT, equal, id, last)
		f.SetpAndF32(ptx.EQ, equal, z, mine, equal)
		f.SetpOrF32(ptx.GT, larger, z, mine, equal)
		f.AddU32(count, count, ptx.Imm(1)).If(larger)
	}
	return count
}
