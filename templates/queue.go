package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

const (
	warpSize = 32
	fullWarp = 0xFFFFFFFF
	// entryBytes is a candidate that waits: its logit, its id, its column of the tile, and its logit before edits where that matters.
	entryBytes = 16
)

// drain queues the tokens of a group that reach their rows' thresholds, and scores what waits: 32 at a time, and in the end
// what is left. All branches are the warp's as a whole.
func (c *samplers) drain(g group, hit ptx.Pred, elements []scanned) {
	f := c.f
	any, none := f.Pred("any"), f.Label("no_hit")
	check, push, settled := f.Label("check_queue"), f.Label("push_hits"), f.Label("group_done")
	if c.options.Exhaustive {
		f.SetpB32(ptx.EQ, hit, c.lane, c.lane)
	}
	pending, need := f.B32("pending"), f.B32("need")
	f.MovB32(pending, ptx.Imm(0))
	f.VoteSyncAnyPred(any, hit, ptx.Imm(fullWarp))
	f.Bra(none).IfNot(any)
	hits := c.hitBits(g, elements)
	f.ReduxSyncOrB32(pending, hits, ptx.Imm(fullWarp))
	only := f.Pred("only_beyond")
	f.SetpU32(ptx.EQ, only, pending, ptx.Imm(0))
	f.Bra(check).If(only)

	f.Place(push)
	c.push(g, elements, hits, pending)
	f.Place(check)
	few, more := f.Pred("few"), f.Pred("more")
	f.SetpU32(ptx.NE, more, pending, ptx.Imm(0))
	c.needed(need, g)
	f.MovB32(need, ptx.Imm(warpSize)).If(more)
	f.SetpU32(ptx.LT, few, c.count, need)
	again := f.Label("hits_left")
	f.Bra(again).If(few)
	c.refine()
	f.Bra(check)
	f.Place(again)
	f.Bra(push).If(more)
	f.Bra(settled)
	f.Place(none)
	c.needed(need, g)
	f.SetpU32(ptx.GE, more, c.count, need)
	f.Bra(check).If(more)
	f.Place(settled)
}

// needed sets how many candidates must wait before they are scored: a warpful, or in the rows' last group any.
func (c *samplers) needed(need ptx.B32, g group) {
	f, last := c.f, c.final
	if g.last != nil {
		last = f.Pred("rows_end")
		f.AndPred(last, c.final, *g.last)
	}
	f.SelpB32(need, ptx.Imm(1), ptx.Imm(warpSize), last)
}

// hitBits returns a bit for each of the thread's tokens that may reach its row's threshold, in order.
func (c *samplers) hitBits(g group, elements []scanned) ptx.B32 {
	f, tops := c.f, c.topReaches(g)
	hits, bit := f.B32("hits"), 0
	f.MovB32(hits, ptx.Imm(0))
	for i := range elements {
		e := &elements[i]
		for j, base := range e.bases {
			t, p := e.tokens[j], f.Pred("reaches")
			if c.options.Exhaustive {
				f.SetpB32(ptx.EQ, p, c.lane, c.lane)
			} else {
				f.SetpF32(ptx.GEU, p, c.bounded(e, base), e.record.threshold)
				c.eitherTopOf(p, e, tops, i, j)
			}
			f.SetpAndF32(ptx.EQ, p, t.pad, ptx.F32Imm(0), p) // beyond the tile anything may stand, NaN too
			f.OrB32(hits, hits, ptx.Imm(1<<bit)).If(p)
			bit++
		}
	}
	return hits
}

// push takes the lowest token that any lane has pending, and queues those of the lanes that have it.
func (c *samplers) push(g group, elements []scanned, hits, pending ptx.B32) {
	f := c.f
	index, z, id, column := f.B32("pending_index"), f.F32("z"), f.B32("token"), f.B32("column")
	takeLowest(f, index, pending)
	c.pickToken(elements, index, z, id, column)
	f.AddU32(column, column, g.columns)
	f.AddU32(id, id, g.id)

	mine, p := f.B32(), f.Pred("mine")
	f.ShrU32(mine, hits, index)
	f.AndB32(mine, mine, ptx.Imm(1))
	f.SetpU32(ptx.NE, p, mine, ptx.Imm(0))
	c.enqueue(z, z, id, column, p)
}

// enqueue has the tokens of the lanes where p holds wait: unedited are their logits before the edits.
func (c *samplers) enqueue(z, unedited ptx.F32, id, column ptx.B32, p ptx.Pred) {
	f, lanes := c.f, c.f.B32("lanes")
	f.VoteSyncBallotB32(lanes, p, ptx.Imm(fullWarp))
	before, addr, bits := f.B32(), f.B32("entry"), f.B32()
	f.MovB32(before, ptx.LanemaskLt)
	f.AndB32(before, before, lanes)
	f.PopcB32(before, before)
	f.AddU32(before, before, c.count)
	f.MadLoU32(addr, before, ptx.Imm(entryBytes), c.queue)
	f.MovB32(bits, z)
	entry := []ptx.B32{bits, id, column, column}
	if c.keepsUnedited() {
		entry[3] = f.B32()
		f.MovB32(entry[3], unedited)
	}
	f.StSharedV4B32(addr.Off(c.plan.Storage.Queue), entry).If(p)
	f.PopcB32(lanes, lanes)
	f.AddU32(c.count, c.count, lanes)
}

// takeLowest gets the place of the lowest bit that is set, and clears the bit.
func takeLowest(f *ptx.Func, place, bits ptx.B32) {
	f.BrevB32(place, bits)
	f.ClzB32(place, place)
	rest := f.B32()
	f.SubU32(rest, bits, ptx.Imm(1))
	f.AndB32(bits, bits, rest)
}

// pickToken gets the index-th token's logit and its place in the group, by an indirect branch.
func (c *samplers) pickToken(elements []scanned, index ptx.B32, z ptx.F32, below, offset ptx.B32) {
	f := c.f
	var labels []*ptx.Label
	var moves []func()
	for _, e := range elements {
		for _, t := range e.tokens {
			labels = append(labels, f.Label("token"))
			moves = append(moves, func() {
				f.MovF32(z, t.in.f[ir.InLogit])
				f.MovB32(below, ptx.Imm(int64(t.below)))
				f.MovB32(offset, ptx.Imm(int64(e.offset)))
			})
		}
	}
	picked := f.Label("picked")
	f.BrxIdx(index, f.Branchtargets("tokens", labels...))
	for i, label := range labels {
		f.Place(label)
		moves[i]()
		if i < len(labels)-1 {
			f.Bra(picked)
		}
	}
	f.Place(picked)
}

// refine scores the last candidates that wait, one a lane, and joins them with their rows' keys.
func (c *samplers) refine() {
	f := c.f
	n, active, addr := f.B32("taken"), f.Pred("has_candidate"), f.B32("entry")
	f.MinU32(n, c.count, ptx.Imm(warpSize))
	f.SetpU32(ptx.LT, active, c.lane, n)
	f.SubU32(c.count, c.count, n)
	f.AddU32(addr, c.count, c.lane)
	f.MadLoU32(addr, addr, ptx.Imm(entryBytes), c.queue)
	entry := f.NewB32s("candidate", 4)
	for _, r := range entry {
		f.MovB32(r, ptx.Imm(0))
	}
	f.BarWarpSync(ptx.Imm(fullWarp))
	f.LdSharedV4B32(entry, addr.Off(c.plan.Storage.Queue)).If(active)
	f.BarWarpSync(ptx.Imm(fullWarp))

	id, column, valid := entry[1], entry[2], f.Pred("valid")
	c.among(valid, id, active)
	z := f.F32("z")
	f.MovB32(z, entry[0])
	var in inputs
	if c.keepsUnedited() && c.surveying() {
		column, in = c.surveyTakenOut(column, id, func(column ptx.B32) inputs { return c.fullInputs(z, id, column, valid) }, valid)
	} else {
		in = c.fullInputs(z, id, column, valid)
	}
	score := lower(f, c.score, in)
	key := scoreKey(f, score, id, valid)
	if c.collecting() {
		unedited := in.f[ir.InLogit]
		if c.keepsUnedited() {
			unedited = f.F32("z_unedited")
			f.MovB32(unedited, entry[3])
		}
		key = c.collect(column, id, in, unedited, score, key)
	}
	c.listTop(column, id, in, valid)
	raised := c.commit(column, key)
	if c.logProbs() {
		if c.keepsUnedited() {
			in.f[ir.InLogit] = f.F32("z_unedited")
			f.MovB32(in.f[ir.InLogit], entry[3])
		}
		c.noteToken(column, key, raised, id, c.notedScore(in))
	}
}

// fullInputs are those of the score of one token for one row.
func (c *samplers) fullInputs(z ptx.F32, id, column ptx.B32, valid ptx.Pred) inputs {
	in := newInputs(z)
	t, tokens := c.startTile([]ptx.B32{id}, []ptx.Pred{valid}), []candidate{{in: in}}
	c.rowInputs(&t, tokens, column, 0, []ptx.B32{c.maskBitOf(id)})
	if c.c.Sampler.Random() {
		if c.collecting() {
			in.f[ir.InAlpha], in.f[ir.InTau] = c.trueScale(column)
		} else {
			r := c.loadRecord(c.at(column, 16).Off(c.plan.Storage.Rows))
			in.f[ir.InAlpha], in.f[ir.InTau] = r.alpha, r.tau
		}
		c.noiseInputs(in, id, column)
	}
	return in
}

// maskBitOf returns the bit of a token in its mask word.
func (c *samplers) maskBitOf(id ptx.B32) ptx.B32 {
	bit := c.f.B32("mask_bit")
	if c.c.Chain.Mask {
		place := c.f.B32()
		c.f.AndB32(place, id, ptx.Imm(31))
		c.f.MovB32(bit, ptx.Imm(1))
		c.f.ShlB32(bit, bit, place)
	}
	return bit
}

// noiseInputs draws the random bits of one token and of its block for one row.
func (c *samplers) noiseInputs(in inputs, id, column ptx.B32) {
	f := c.f
	constants := c.at(column, 16).Off(c.plan.Storage.Noise)
	pair, bit, upper := f.B32("pair"), f.B32(), f.Pred("upper_token")
	f.AndB32(bit, id, ptx.Imm(8))
	f.SetpU32(ptx.NE, upper, bit, ptx.Imm(0))
	f.SubU32(pair, id, bit)
	state := c.tokens(constants, pairState(f, pair))
	highs, lows := state.high(f), state.low(f)
	in.u[ir.InHigh], in.u[ir.InLow] = f.B32("high"), f.B32("low")
	f.SelpB32(in.u[ir.InHigh], highs[1], highs[0], upper)
	f.SelpB32(in.u[ir.InLow], lows[1], lows[0], upper)

	block, place := f.B32("block"), f.B32("place")
	f.ShrU32(block, id, ptx.Imm(4))
	f.OrB32(block, block, imm(f, blockBit))
	state = c.tokens(constants, pairState(f, block))
	in.u[ir.InBlockHigh], in.u[ir.InBlockLow] = state.high(f)[0], state.low(f)[0]
	f.AndB32(place, id, ptx.Imm(tiling.BlockRows-1))
	in.p[ir.InFirst] = f.Pred("is_first")
	f.SetpU32(ptx.EQ, in.p[ir.InFirst], place, state.first(f))
}

// commit raises a row's key and its threshold. It returns whether it found the key to be larger.
func (c *samplers) commit(column ptx.B32, key ptx.B64) ptx.Pred {
	f := c.f
	addr, record := c.at(column, 8).Off(c.plan.Storage.Keys), c.at(column, 16)
	old, raise := f.B64("old"), f.Pred("raise")
	f.LdSharedB64(old, addr, ptx.RelaxedCTA)
	f.SetpU64(ptx.GT, raise, key, old)
	f.AtomSharedMaxU64(old, addr, key, ptx.RelaxedCTA).If(raise)
	best, low, high := f.B64("best"), f.B32(), f.B32()
	f.MaxU64(best, key, old)
	f.MovUnpackB64(low, high, best)
	c.raise(record, high, raise)
	return raise
}
