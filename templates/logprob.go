package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// The log-probability of a row's token takes its score without noise, which its key does not have: the noise has been added.
// So each warp notes, for each of its rows, the last of its own tokens that the row's key has stood for: its id and its score
// without noise in the mode's distribution (Storage.Winners). A key only rises, so that whichever warp had the last best has
// noted that token last. What a warp notes is ordered by its barriers, and nobody else writes there.

// winnerBytes is an id and a score.
const winnerBytes = 8

// noID is that of no token.
const noID = 0xFFFFFFFF

// summedScore is the score without noise as it is added up, of a token that counts.
func (c *samplers) summedScore(in inputs) ptx.F32 { return lower(c.f, c.sum.counted, in) }

// noteToken notes a lane's token if the row's key, which it raised, is still its own: of a warp's lanes that raise a row's
// key at once only the last one's is. The whole warp is there.
func (c *samplers) noteToken(column ptx.B32, key ptx.B64, raised ptx.Pred, id ptx.B32, z ptx.F32) {
	f := c.f
	stands, low, high := f.Pred("stands"), f.B32(), f.B32()
	f.SetpAndU64(ptx.EQ, stands, key, c.keyNow(column), raised)
	f.MovUnpackB64(low, high, key)
	f.SetpAndU32(ptx.NE, stands, high, imm(f, keyFailed), stands) // which several tokens of a row may have
	c.note(column, id, z, stands)
}

// keyNow is a row's key after the whole warp has raised it.
func (c *samplers) keyNow(column ptx.B32) ptx.B64 {
	now := c.f.B64("key_now")
	c.f.BarWarpSync(ptx.Imm(fullWarp)) // what another lane noted before goes before, too
	c.f.LdSharedB64(now, c.at(column, 8).Off(c.plan.Storage.Keys), ptx.RelaxedCTA)
	return now
}

func (c *samplers) note(column, id ptx.B32, z ptx.F32, p ptx.Pred) {
	f := c.f
	at, bits := f.B32("winner_addr"), f.B32()
	f.MadLoU32(at, column, ptx.Imm(winnerBytes), c.queue)
	f.MovB32(bits, z)
	f.StSharedV2B32(at.Off(c.plan.Storage.Winners), []ptx.B32{id, bits}).If(p)
}

// noteBlock is noteToken for blocks: the lane that has the token that its block is sampled by notes it. key is the block's, the
// same in all its lanes, and the block's id is that token's.
func (c *samplers) noteBlock(t blockTokens, key ptx.B64, id ptx.B32, scores []ptx.F32) {
	f := c.f
	now, best, some := c.keyNow(t.column), f.Pred("best_block"), f.Pred("some_key")
	f.SetpU64(ptx.NE, some, key, ptx.Imm(0))
	f.SetpAndU64(ptx.EQ, best, key, now, some)
	low, high := f.B32(), f.B32()
	f.MovUnpackB64(low, high, key)
	f.SetpAndU32(ptx.NE, best, high, imm(f, keyFailed), best) // which several blocks of a row may have
	for i, z := range scores {
		mine, is := f.B32(), f.Pred("has_winner")
		f.AddU32(mine, t.id, ptx.Imm(int64(t.tokens[i].below)))
		f.SetpAndU32(ptx.EQ, is, mine, id, best)
		c.note(t.column, id, z, is)
	}
}

// summedScores are the scores of a block's tokens as they are added up.
func (c *samplers) summedScores(t blockTokens, bases []ptx.F32, row rowRecord) (scores []ptx.F32) {
	if !c.sumsApart() {
		return bases
	}
	for _, z := range t.logits {
		in := newInputs(z)
		in.f[ir.InAlpha] = row.alpha
		scores = append(scores, c.summedScore(in))
	}
	return scores
}

// clearWinners forgets what warps noted of a row.
func (c *samplers) clearWinners(inTile ptx.B32) {
	if !c.logProbs() {
		return
	}
	at, none := c.at(inTile, winnerBytes), []ptx.B32{imm(c.f, noID), imm(c.f, floatNaN)}
	for warp := range c.warps() {
		c.f.StSharedV2B32(at.Off(c.plan.Storage.Winners+c.plan.Storage.Own*warp), none)
	}
}

// warps is the warps that sample.
func (c *samplers) warps() int { return c.plan.Pipeline.Samplers / warpSize }

// noted is the id that a row's key names, and what a warp of this CTA has noted of it: noID and NaN if none has, since another
// CTA had the token.
func (c *samplers) noted(inTile ptx.B32, key ptx.B64) []ptx.B32 {
	f := c.f
	low, high, id := f.B32("key_low"), f.B32("key_high"), f.B32("best_id")
	f.MovUnpackB64(low, high, key)
	f.NotB32(id, low)
	out := []ptx.B32{imm(f, noID), imm(f, floatNaN)}
	at := c.at(inTile, winnerBytes)
	for warp := range c.warps() {
		have, is := f.NewB32s("noted", 2), f.Pred("is_best")
		f.LdSharedV2B32(have, at.Off(c.plan.Storage.Winners+c.plan.Storage.Own*warp))
		f.SetpB32(ptx.EQ, is, have[0], id)
		for i := range out {
			f.SelpB32(out[i], have[i], out[i], is)
		}
	}
	return out
}

// found is a token that the last CTA looks for among the partial sums of a row: a lane has its score if it is among those
// that it joined.
type found struct {
	id, z ptx.B32
	here  ptx.Pred
}

// seek begins the search for a row's token.
func (c *samplers) seek(row ptx.B32) *found {
	if !c.logProbs() {
		return nil
	}
	f := c.f
	key, low, high, addr := f.B64("key"), f.B32("key_low"), f.B32("key_high"), f.B64()
	s := &found{f.B32("token"), f.B32("token_score"), f.Pred("found")}
	f.MadWideU32(addr, row, ptx.Imm(8), c.keys)
	f.LdGlobalB64(key, addr, ptx.RelaxedGPU)
	f.MovUnpackB64(low, high, key)
	f.NotB32(s.id, low)
	f.MovB32(s.z, ptx.Imm(floatNaN))
	f.SetpB32(ptx.NE, s.here, c.lane, c.lane)
	return s
}

// look looks at one CTA's record.
func (s *found) look(f *ptx.Func, id, z ptx.B32) {
	is := f.Pred("is_token")
	f.SetpB32(ptx.EQ, is, id, s.id)
	f.MovB32(s.z, z).If(is)
	f.OrPred(s.here, s.here, is)
}

// share gives the lanes of a row what one of them has found.
func (s *found) share(f *ptx.Func, lane ptx.B32, rowLanes int) ptx.F32 {
	lanes, first, mine, at, z := f.B32("finders"), f.B32(), f.B32("row_lanes"), f.B32("finder"), f.F32("token_score")
	f.VoteSyncBallotB32(lanes, s.here, ptx.Imm(fullWarp))
	f.AndB32(first, lane, ptx.Imm(warpSize-rowLanes))
	f.ShlB32(mine, imm(f, int64(1)<<rowLanes-1), first)
	f.AndB32(lanes, lanes, mine)
	f.BrevB32(at, lanes)
	f.ClzB32(at, at)
	none := f.Pred("none_found")
	f.SetpU32(ptx.EQ, none, lanes, ptx.Imm(0))
	f.MovB32(at, first).If(none) // who has found nothing has NaN
	f.ShflSyncIdxB32(z, s.z, at, ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
	return z
}

// writeLogProb writes the log-probability of a row's token, whatever the row's status.
func (c *samplers) writeLogProb(row ptx.B32, total pair, tau, scale, z ptx.F32, first ptx.Pred) {
	log := c.logProbOf(total, tau, scale, z)
	c.f.StGlobalF32(rowAddr(c.f, loadPointer(c.f, c.sig.logProb, "logprob"), row), log).If(first)
}

// logProbOf is the log-probability of a token by its score without noise and its row's sums.
func (c *samplers) logProbOf(total pair, tau, scale, z ptx.F32) ptx.F32 {
	f := c.f
	above := f.F32("above_reference")
	f.SubF32(above, z, total.largest, ptx.RN)
	if c.scaledSums() {
		above = quotient(f, above, tau)
	}
	return lower(f, c.sum.logProb, inputs{f: map[ir.Input]ptx.F32{
		ir.InBase: z, ir.InLargest: total.largest, ir.InMass: total.sum, ir.InScale: scale, ir.InTop: above}})
}

// loadNoted loads a CTA's pair of a row and the token beside it, where there is one.
func (c *samplers) loadNoted(p pair, addr ptx.B64, there ptx.Pred) (record []ptx.B32) {
	f := c.f
	record = f.NewB32s("partial", 4)
	f.MovB32(record[0], p.largest)
	f.MovB32(record[1], p.sum)
	f.MovB32(record[2], ptx.Imm(noID))
	f.MovB32(record[3], ptx.Imm(floatNaN))
	f.LdGlobalV4B32(record, addr).If(there)
	return record
}

// lookAt takes the pair of a record that was loaded, and looks at the token.
func (s *found) lookAt(f *ptx.Func, p pair, record []ptx.B32) {
	f.MovB32(p.largest, record[0])
	f.MovB32(p.sum, record[1])
	s.look(f, record[2], record[3])
}
