package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
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

// noted is what a warp of this CTA has noted of the token that a row's key names: NaN if none has, since another CTA had the token.
func (c *samplers) noted(inTile ptx.B32, key ptx.B64) ptx.B32 {
	f := c.f
	low, high, id, z := f.B32("key_low"), f.B32("key_high"), f.B32("best_id"), imm(c.f, floatNaN)
	f.MovUnpackB64(low, high, key)
	f.NotB32(id, low)
	at := c.at(inTile, winnerBytes)
	for warp := range c.warps() {
		have, is := f.NewB32s("noted", 2), f.Pred("is_best")
		f.LdSharedV2B32(have, at.Off(c.plan.Storage.Winners+c.plan.Storage.Own*warp))
		f.SetpB32(ptx.EQ, is, have[0], id)
		f.SelpB32(z, have[1], z, is)
	}
	return z
}

// found is a row's token: the id that its key names, and what the CTA that had it has noted, NaN if the key names none.
type found struct {
	id ptx.B32
	z  ptx.F32
}

// seek loads the token of a row, from the place of the CTA that had it.
func (c *samplers) seek(row ptx.B32) *found {
	if !c.logProbs() {
		return nil
	}
	f := c.f
	key, low, high, addr := f.B64("key"), f.B32("key_low"), f.B32("key_high"), f.B64()
	s, there := &found{f.B32("token"), f.F32("token_score")}, f.Pred("names_token")
	f.MadWideU32(addr, row, ptx.Imm(8), c.keys)
	f.LdGlobalB64(key, addr, ptx.RelaxedGPU)
	f.MovUnpackB64(low, high, key)
	f.NotB32(s.id, low)
	dealt := c.rowOf(there, s.id)
	f.MovB32(s.z, ptx.Imm(floatNaN))
	f.LdGlobalF32(s.z, c.notedAddr(row, c.ctaOf(row, dealt))).If(there)
	return s
}

// notedAddr is where a CTA leaves what it has noted of a row: behind the partial sums of all rows.
func (c *samplers) notedAddr(row, cta ptx.B32) ptx.B64 {
	f := c.f
	index, ctas, addr := f.B32(), f.B32("ctas"), f.B64("noted_addr")
	f.MovB32(ctas, ptx.NctaidX)
	f.MadLoU32(index, row, ctas, cta)
	f.MadWideU32(addr, index, ptx.Imm(manifest.NotedBytes), c.partials)
	f.MulLoU32(ctas, ctas, c.batch)
	pairs := f.B64()
	f.MulWideU32(pairs, ctas, ptx.Imm(manifest.PairBytes))
	f.AddU64(addr, addr, pairs)
	return addr
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
