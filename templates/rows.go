package templates

import (
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
	c.sync()
	c.eachRow(c.column, "publish_row", c.publishRow)
	f.Place(prepare)
	f.Bra(finish).If(past)
	f.MovB32(c.column, column)
	c.eachRow(c.column, "prepare_row", c.prepareRow)
	c.sync()
	f.Place(ready)
}

// eachRow runs body for the thread's share of the rows of a column tile: the row's place in the tile and in the batch.
func (c *samplers) eachRow(column ptx.B32, name string, body func(inTile, row ptx.B32)) {
	f := c.f
	inTile, row, out := f.B32("row_in_tile"), f.B32("batch_row"), f.Pred("out")
	end := f.Label(name + "_end")
	f.MovB32(inTile, c.thread)
	loop := f.Here(name)
	f.SetpU32(ptx.GE, out, inTile, ptx.Imm(c.t.N))
	f.Bra(end).If(out)
	f.MadLoU32(row, column, ptx.Imm(c.t.N), inTile)
	body(inTile, row)
	f.AddU32(inTile, inTile, ptx.Imm(c.plan.Pipeline.Samplers))
	f.Bra(loop)
	f.Place(end)
}

// at returns the address register of a row's record of the given size.
func (c *samplers) at(row ptx.B32, size int) ptx.B32 {
	r := c.f.B32()
	c.f.MadLoU32(r, row, ptx.Imm(size), c.smem)
	return r
}

// publishRow joins a row's best of this CTA with those of the others.
func (c *samplers) publishRow(inTile, row ptx.B32) {
	f := c.f
	key, addr := f.B64("key"), f.B64()
	f.LdSharedB64(key, c.at(inTile, 8).Off(c.plan.Storage.Keys))
	f.MadWideU32(addr, row, ptx.Imm(8), c.keys)
	active := f.Pred("active")
	f.SetpU32(ptx.LT, active, row, c.batch)
	f.RedGlobalMaxU64(addr, key, ptx.RelaxedGPU).If(active)
}

// prepareRow computes a row's constants and empties its key. Rows past the batch get the key of +inf, which no score of
// theirs passes.
func (c *samplers) prepareRow(inTile, row ptx.B32) {
	f := c.f
	high, low := f.B32("key_high"), f.B32("key_low")
	f.MovB32(high, ptx.Imm(keyInf))
	f.MovB32(low, ptx.Imm(0))
	idle, store := f.Pred("idle"), f.Label("store_row")
	var noise rowNoise
	var alpha, tau ptx.F32
	if c.c.Sampler == ir.Gumbel {
		noise = rowNoise{f.B32("n0"), f.B32("n1"), f.B32("n2"), f.B32("n3")}
		for _, r := range []ptx.B32{noise.s2, noise.p, noise.q, noise.r} {
			f.MovB32(r, ptx.Imm(0))
		}
	}
	if c.c.Chain.Temperature {
		alpha, tau = f.F32("alpha"), f.F32("tau")
		f.MovF32(alpha, ptx.F32Imm(0))
		f.MovF32(tau, ptx.F32Imm(0))
	}
	f.SetpU32(ptx.GE, idle, row, c.batch)
	f.Bra(store).If(idle)
	f.MovB32(high, ptx.Imm(keyEmpty))
	if c.c.Sampler == ir.Gumbel {
		c.rowNoise(row, noise)
	}
	if c.c.Chain.Temperature {
		c.rowTemperature(row, alpha, tau, high, low)
	}
	f.Place(store)
	c.storeRow(inTile, high, low, noise, alpha, tau)
}

func (c *samplers) storeRow(inTile, high, low ptx.B32, noise rowNoise, alpha, tau ptx.F32) {
	f, s := c.f, c.plan.Storage
	f.StSharedV2B32(c.at(inTile, 8).Off(s.Keys), []ptx.B32{low, high})
	if c.c.Sampler == ir.Gumbel {
		f.StSharedV4B32(c.at(inTile, 16).Off(s.Noise), []ptx.B32{noise.s2, noise.p, noise.q, noise.r})
	}
	if c.c.Chain.Temperature {
		f.StSharedV2F32(c.at(inTile, 8).Off(s.Scale), []ptx.F32{alpha, tau})
	}
}

// perRow loads one 8-byte or 4-byte value of a row.
func (c *samplers) perRow(base ptx.B64, row, stride ptx.B32, size int) ptx.B64 {
	index, addr := c.f.B32(), c.f.B64()
	c.f.MulLoU32(index, row, stride)
	c.f.MadWideU32(addr, index, ptx.Imm(size), base)
	return addr
}

func (c *samplers) rowNoise(row ptx.B32, out rowNoise) {
	f := c.f
	seed, position := f.NewB32s("seed", 2), f.NewB32s("position", 2)
	f.LdGlobalV2B32(seed, c.perRow(c.seeds, row, c.seedStride, 8))
	f.LdGlobalV2B32(position, c.perRow(c.positions, row, c.posStride, 8))
	n := rowState(f, [4]ptx.B32{position[0], position[1], c.draw, c.tagWord}, [2]ptx.B32{seed[0], seed[1]})
	f.MovB32(out.s2, n.s2)
	f.MovB32(out.p, n.p)
	f.MovB32(out.q, n.q)
	f.MovB32(out.r, n.r)
}

// rowTemperature turns T into (alpha, tau): (1, T) up to 1, (1/T, 1) above. T = 0 so leaves the bare logits: greedy. A T
// that is negative, NaN or infinite fails the row.
func (c *samplers) rowTemperature(row ptx.B32, alpha, tau ptx.F32, high, low ptx.B32) {
	f := c.f
	t, bad, above := f.F32("temperature"), f.Pred("not_plain"), f.Pred("above_one")
	f.LdGlobalF32(t, c.perRow(c.temps, row, c.tempStride, 4))
	f.SetpF32(ptx.GT, above, t, ptx.F32Imm(1))
	f.MovF32(tau, t)
	f.MovF32(tau, ptx.F32Imm(1)).If(above)
	f.MovF32(alpha, ptx.F32Imm(1))
	f.RcpRnF32(alpha, t).If(above)
	bits := f.B32()
	f.MovB32(bits, t)
	f.SetpU32(ptx.GE, bad, bits, ptx.Imm(0x7F800000)) // +inf, NaN and everything with a sign
	failed := f.Pred("bad_temperature")
	f.SetpAndU32(ptx.NE, failed, bits, ptx.Imm(0x80000000), bad)
	f.MovB32(high, ptx.Imm(keyFailed)).If(failed)
	f.MovB32(low, ptx.Imm(int64(ir.StatusBadTemperature))).If(failed)
}

// finish is the end of a CTA: the last one of the grid turns keys into tokens.
func (c *samplers) finish() {
	f := c.f
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
	f := c.f
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
	f.StGlobalB32(rowAddr(f, tokens, row), token)
	f.StGlobalB32(rowAddr(f, status, row), state)
	if c.c.Score {
		f.StGlobalF32(rowAddr(f, loadPointer(f, c.sig.scores, "scores"), row), c.finalScore(row, high, ok))
	}
	f.AddU32(row, row, ptx.Imm(c.plan.Pipeline.Samplers))
	f.Bra(loop)
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
	f := c.f
	s := scoreThreshold(f, high)
	if c.c.Chain.Temperature {
		t, scaled := f.F32("temperature"), f.Pred("scaled")
		f.LdGlobalF32(t, c.perRow(c.temps, row, c.tempStride, 4))
		f.SetpF32(ptx.GT, scaled, t, ptx.F32Imm(0))
		below := f.Pred("below_one")
		f.SetpAndF32(ptx.LT, below, t, ptx.F32Imm(1), scaled)
		f.DivRnF32(s, s, t).If(below)
	}
	d := f.F32("final_score")
	nan := f.F32()
	f.MovB32(nan, ptx.Imm(0x7FFFFFFF))
	f.SelpF32(d, s, nan, ok)
	return d
}
