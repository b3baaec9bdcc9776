package templates

import (
	"math/bits"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// groupedGraphs are what the grouped sampler computes beside the bounds.
type groupedGraphs struct {
	term, block, race *ir.Graph
}

// blockLanes says which lanes of a warp hold the tokens of a block, for one element: those whose numbers differ in some bits
// alone, which count the block's tokens from its first on. The other bits tell the blocks of a warp apart.
type blockLanes struct {
	within int // bits of a lane's number that differ inside a block
	apart  int // the others
}

var (
	// wgmma deals a column's 16 rows to eight lanes, two each, eight apart; four columns to a warp.
	sm90Blocks = blockLanes{within: 0b11100, apart: 0b00011}
	// A lane of tensor memory is a row; a warp has two blocks of the same column.
	sm100Blocks = blockLanes{within: 0b01111, apart: 0b10000}
)

// steps are the distances over which the lanes of a block exchange values, to have all met in the end.
func (b blockLanes) steps() (steps []int) {
	for s := 1; s < warpSize; s <<= 1 {
		if b.within&s != 0 {
			steps = append(steps, s)
		}
	}
	return steps
}

// lanes is how many lanes hold a block.
func (b blockLanes) lanes() int { return 1 << bits.OnesCount(uint(b.within)) }

// place returns a lane's place in its block.
func (b blockLanes) place(f *ptx.Func, lane ptx.B32) ptx.B32 {
	place := f.B32("place")
	f.AndB32(place, lane, ptx.Imm(int64(b.within)))
	if shift := bits.TrailingZeros(uint(b.within)); shift > 0 {
		f.ShrU32(place, place, ptx.Imm(int64(shift)))
	}
	return place
}

// members returns the lanes of the thread's own block, a bit each.
func (b blockLanes) members(f *ptx.Func, lane ptx.B32) ptx.B32 {
	first, members, base := f.B32(), f.B32("members"), int64(0)
	for l := range warpSize {
		if l&^b.within == 0 {
			base |= 1 << l
		}
	}
	f.AndB32(first, lane, ptx.Imm(int64(b.apart)))
	f.ShlB32(members, imm(f, base), first)
	return members
}

// across joins a value over the lanes of a block: all of them get the same bits, since every step is symmetric.
func (b blockLanes) across(f *ptx.Func, x ptx.F32, join func(d, x, y ptx.F32)) ptx.F32 {
	for _, step := range b.steps() {
		other, d := f.F32(), f.F32()
		f.ShflSyncBflyB32(other, x, ptx.Imm(int64(step)), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
		join(d, x, other)
		x = d
	}
	return x
}

// compareBlocks holds a group against the rows' bests, block by block. Where the bound of any of a warp's tokens reaches its
// row's threshold, the warp scores the blocks of that element at once, each by the lanes that hold its tokens: nothing waits.
// All branches are the warp's as a whole.
func (c *samplers) compareBlocks(g group) {
	f := c.f
	hit, elements := f.Pred("hit"), c.scanOnce(g)
	any, done := f.Pred("any"), f.Label("group_done")
	if c.options.Exhaustive {
		f.SetpB32(ptx.EQ, hit, c.lane, c.lane)
	} else {
		c.reaches(hit, elements, nil)
	}
	f.VoteSyncAnyPred(any, hit, ptx.Imm(fullWarp))
	f.Bra(done).IfNot(any)
	hits, pending := c.elementBits(elements), f.B32("pending")
	f.ReduxSyncOrB32(pending, hits, ptx.Imm(fullWarp))

	c.eachElement(g, elements, hits, pending)
	f.Place(done)
}

// eachElement scores the blocks of the elements whose bits are pending, one at a time; it uses the bits up.
func (c *samplers) eachElement(g group, elements []scanned, hits, pending ptx.B32) {
	f := c.f
	index, column := f.B32("pending_index"), f.B32("column")
	bases, logits := f.NewF32s("base", len(elements[0].tokens)), c.noLogits(len(elements[0].tokens))
	again := f.Here("score_element")
	takeLowest(f, index, pending)
	c.pickElement(elements, index, bases, logits, column)
	f.AddU32(column, column, g.columns)
	mine, reached, lanes := f.B32(), f.Pred("mine"), f.B32("lanes")
	f.ShrU32(mine, hits, index)
	f.AndB32(mine, mine, ptx.Imm(1))
	f.SetpU32(ptx.NE, reached, mine, ptx.Imm(0))
	f.VoteSyncBallotB32(lanes, reached, ptx.Imm(fullWarp))
	c.scoreBlocks(blockTokens{g.id, bases, logits, elements[0].tokens, column, lanes})
	more := f.Pred("more")
	f.SetpU32(ptx.NE, more, pending, ptx.Imm(0))
	f.Bra(again).If(more)
}

// elementBits returns a bit for each element whose bound, by the thread's own tokens, reaches its row's threshold.
func (c *samplers) elementBits(elements []scanned) ptx.B32 {
	f := c.f
	hits := f.B32("hits")
	if c.options.Exhaustive {
		f.MovB32(hits, ptx.Imm(1<<len(elements)-1))
		return hits
	}
	f.MovB32(hits, ptx.Imm(0))
	for i := range elements {
		p := f.Pred("reaches")
		c.reaches(p, elements[i:i+1], nil)
		f.OrB32(hits, hits, ptx.Imm(1<<i)).If(p)
	}
	return hits
}

// noLogits are registers for the logits of an element's tokens, where they are added up by other scores than bases.
func (c *samplers) noLogits(n int) []ptx.F32 {
	if !c.logProbs() || !c.sumsApart() {
		return nil
	}
	return c.f.NewF32s("logit", n)
}

// pickElement gets the scores without noise of the index-th element's tokens, their logits if there are registers for them,
// and its place in the group, by an indirect branch.
func (c *samplers) pickElement(elements []scanned, index ptx.B32, bases, logits []ptx.F32, place ptx.B32) {
	f := c.f
	var labels []*ptx.Label
	for range elements {
		labels = append(labels, f.Label("element"))
	}
	picked := f.Label("element_picked")
	f.BrxIdx(index, f.Branchtargets("elements", labels...))
	for i, e := range elements {
		f.Place(labels[i])
		for j := range bases {
			f.MovF32(bases[j], e.bases[j])
		}
		for j := range logits {
			f.MovF32(logits[j], e.tokens[j].in.f[ir.InLogit])
		}
		f.MovB32(place, ptx.Imm(int64(e.offset)))
		if i < len(elements)-1 {
			f.Bra(picked)
		}
	}
	f.Place(picked)
}

// blockTokens are the tokens that a warp's lanes hold of one element.
type blockTokens struct {
	id      ptx.B32   // the thread's first token
	bases   []ptx.F32 // the thread's scores without noise
	logits  []ptx.F32 // and its logits (noLogits)
	tokens  []candidate
	column  ptx.B32 // of the tile
	reached ptx.B32 // the lanes whose bounds reach their rows' thresholds
}

// scoreBlocks scores the blocks of an element and joins those that reach their rows' thresholds with the rows' keys. Most do
// not, since the bound takes a block's 16 tokens for equals: the race for the token waits until one does.
func (c *samplers) scoreBlocks(t blockTokens) {
	f, b := c.f, c.blocks
	row := c.loadRecord(c.at(t.column, 16).Off(c.plan.Storage.Rows))
	bases := c.ofVocabulary(t)
	score := c.blockScore(t, bases, row)

	members, counts, any, next := b.members(f, c.lane), f.Pred("counts"), f.Pred("any"), f.Label("element_done")
	f.AndB32(t.reached, t.reached, members)
	f.SetpU32(ptx.NE, counts, t.reached, ptx.Imm(0))
	if !c.options.Exhaustive {
		f.SetpAndF32(ptx.GEU, counts, score, row.threshold, counts)
	}
	f.VoteSyncAnyPred(any, counts, ptx.Imm(fullWarp))
	f.Bra(next).IfNot(any)
	id := c.winner(t, bases, row, members)
	leads := f.Pred("leads")
	f.SetpAndU32(ptx.EQ, leads, b.place(f, c.lane), ptx.Imm(0), counts)
	c.commit(t.column, scoreKey(f, score, id, leads))
	if c.logProbs() {
		c.noteBlock(t, scoreKey(f, score, id, counts), id, c.summedScores(t, bases, row))
	}
	f.Place(next)
}

// ofVocabulary makes the scores of tokens past the vocabulary -inf: with infinite hidden states they may be NaN.
func (c *samplers) ofVocabulary(t blockTokens) (bases []ptx.F32) {
	f := c.f
	out := f.F32()
	f.MovB32(out, ptx.Imm(floatMinusInf))
	for i, base := range t.bases {
		valid, kept := f.Pred("valid"), f.F32("base")
		f.SetpF32(ptx.EQ, valid, t.tokens[i].pad, ptx.F32Imm(0))
		f.SelpF32(kept, base, out, valid)
		bases = append(bases, kept)
	}
	return bases
}

// blockScore computes the score of the thread's block, the same bits in all its lanes. It is NaN if that of a token is.
func (c *samplers) blockScore(t blockTokens, bases []ptx.F32, row rowRecord) ptx.F32 {
	f, b := c.f, c.blocks
	larger := func(d, x, y ptx.F32) { f.MaxF32(d, x, y, ptx.NaN) }
	plus := func(d, x, y ptx.F32) { f.AddF32(d, x, y, ptx.RN) }
	top := b.across(f, joined(f, "top", bases, larger), larger)
	var terms []ptx.F32
	for _, base := range bases {
		terms = append(terms, lower(f, c.grouped.term, inputs{f: map[ir.Input]ptx.F32{ir.InBase: base, ir.InTop: top, ir.InTau: row.tau}}))
	}
	mass := b.across(f, joined(f, "mass", terms, plus), plus)

	block := f.B32("block")
	f.ShrU32(block, t.id, ptx.Imm(4))
	f.OrB32(block, block, imm(f, blockBit))
	draw := c.tokens(c.at(t.column, 16).Off(c.plan.Storage.Noise), pairState(f, block))
	return lower(f, c.grouped.block, inputs{
		f: map[ir.Input]ptx.F32{ir.InMass: mass, ir.InTop: top, ir.InTau: row.tau},
		u: map[ir.Input]ptx.B32{ir.InBlockHigh: draw.high(f)[0], ir.InBlockLow: draw.low(f)[0]}})
}

// winner returns the token of the thread's block that the block is sampled by: the lowest of those with the largest value in
// the race.
func (c *samplers) winner(t blockTokens, bases []ptx.F32, row rowRecord, members ptx.B32) ptx.B32 {
	f, b := c.f, c.blocks
	values := c.race(t, bases, row)
	best := b.across(f, joined(f, "best", values, c.larger), c.larger)
	// Tokens of a lane are eight places apart, so that the first ones of all lanes come before the second ones.
	id, ids := f.B32("winner"), f.B32("block_first")
	f.AndB32(ids, t.id, ptx.Imm(0xFFFFFFF0))
	for i := len(values) - 1; i >= 0; i-- {
		lanes, at := c.lowest(values[i], best, members)
		f.AddU32(at, at, ids)
		if i == len(values)-1 {
			f.AddU32(id, at, ptx.Imm(int64(t.tokens[i].below)))
			continue
		}
		some := f.Pred("some")
		f.SetpU32(ptx.NE, some, lanes, ptx.Imm(0))
		f.AddU32(id, at, ptx.Imm(int64(t.tokens[i].below))).If(some)
	}
	return id
}

// lowest finds those of some lanes that have the best value, and the place of the lowest in its block.
func (c *samplers) lowest(value, best ptx.F32, members ptx.B32) (lanes, place ptx.B32) {
	f := c.f
	wins, at := f.Pred("wins"), f.B32()
	lanes = f.B32("lanes")
	f.SetpF32(ptx.EQ, wins, value, best)
	f.VoteSyncBallotB32(lanes, wins, ptx.Imm(fullWarp))
	f.AndB32(lanes, lanes, members)
	f.BrevB32(at, lanes)
	f.ClzB32(at, at)
	return lanes, c.blocks.place(f, at)
}

// joined joins a thread's own values, from the first on.
func joined(f *ptx.Func, name string, values []ptx.F32, join func(d, x, y ptx.F32)) ptx.F32 {
	all := values[0]
	for _, v := range values[1:] {
		d := f.F32(name)
		join(d, all, v)
		all = d
	}
	return all
}

// larger joins by the larger; of a NaN and a number it is the number.
func (c *samplers) larger(d, x, y ptx.F32) { c.f.MaxF32(d, x, y) }

// race draws the thread's tokens and computes what they compete by.
func (c *samplers) race(t blockTokens, bases []ptx.F32, row rowRecord) (values []ptx.F32) {
	f, pair := c.f, t.id
	var upper ptx.Pred
	if len(bases) == 1 { // the thread has one token of the pair
		bit := f.B32()
		pair, upper = f.B32("pair"), f.Pred("upper_token")
		f.AndB32(bit, t.id, ptx.Imm(8))
		f.SetpU32(ptx.NE, upper, bit, ptx.Imm(0))
		f.SubU32(pair, t.id, bit)
	}
	draw := c.tokens(c.at(t.column, 16).Off(c.plan.Storage.Noise), pairState(f, pair))
	high, low := draw.high(f), draw.low(f)
	if len(bases) == 1 {
		f.MovB32(high[0], high[1]).If(upper)
		f.MovB32(low[0], low[1]).If(upper)
	}
	for i, base := range bases {
		values = append(values, lower(f, c.grouped.race, inputs{
			f: map[ir.Input]ptx.F32{ir.InBase: base, ir.InTau: row.tau},
			u: map[ir.Input]ptx.B32{ir.InHigh: high[i], ir.InLow: low[i]}}))
	}
	return values
}
