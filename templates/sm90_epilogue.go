package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// tile is what the epilogue knows of the current tile: the thread's two tokens and their inputs.
type tile struct {
	id    [2]ptx.B32  // token ids; the second is 8 further
	valid [2]ptx.Pred // the id is in the vocabulary
	pair  pairNoise
	bias  [2]ptx.F32 // of a bias vector
	// biasAddr points into row 0 of a bias matrix, maskAddr to the mask word in row 0; hasMask says that the word exists.
	biasAddr, maskAddr ptx.B64
	hasMask            ptx.Pred
}

// newTile computes ids and starts the loads that depend on the tile alone, before the products hide their latency.
func (c *consumer) newTile(row ptx.B32) *tile {
	f := c.f
	t := &tile{id: [2]ptx.B32{f.B32("token_low"), f.B32("token_high")}, valid: [2]ptx.Pred{f.Pred("valid_low"), f.Pred("valid_high")}}
	f.AddU32(t.id[0], row, c.rowInM)
	f.AddU32(t.id[1], t.id[0], ptx.Imm(8))
	for i := range t.id {
		f.SetpU32(ptx.LT, t.valid[i], t.id[i], c.vocab)
	}
	if c.c.Sampler == ir.Gumbel {
		t.pair = pairState(f, t.id[0])
	}
	if c.c.Chain.Bias != ir.BiasNone {
		t.biasAddr = f.B64("bias_addr")
		f.MadWideU32(t.biasAddr, t.id[0], ptx.Imm(4), c.biasBase)
	}
	if c.c.Chain.Bias == ir.BiasVector {
		for i := range t.bias {
			t.bias[i] = c.guardedLoad(t.biasAddr.Off(32*i), t.valid[i], "bias")
		}
	}
	if c.c.Chain.Mask {
		word := f.B32("mask_word_index")
		f.ShrU32(word, t.id[0], ptx.Imm(5))
		t.hasMask, t.maskAddr = f.Pred("has_mask"), f.B64("mask_addr")
		f.SetpU32(ptx.LT, t.hasMask, word, c.maskWords)
		f.MadWideU32(t.maskAddr, word, ptx.Imm(4), c.maskBase)
	}
	return t
}

// guardedLoad loads a float where the predicate holds, else gives 0.
func (c *consumer) guardedLoad(addr ptx.GlobalAddr, p ptx.Pred, name string) ptx.F32 {
	r := c.f.F32(name)
	c.f.MovF32(r, ptx.F32Imm(0))
	c.f.LdGlobalF32(r, addr).If(p)
	return r
}

// epilogue samples from the accumulators. They cannot be indexed, and one body for each would be thousands of
// instructions, more than the instruction caches like: groups of 16 columns are picked by an indirect branch and share
// one body.
func (c *consumer) epilogue(t *tile) {
	f := c.f
	f.Comment("Epilogue: transform, perturb and compare.")
	const perGroup = 8 // accumulators of 16 columns
	groups := len(c.acc) / perGroup
	if groups <= 1 {
		c.body(t, c.acc, c.colInN)
		return
	}
	group, z := f.B32("group"), f.NewF32s("z", perGroup)
	columns := f.B32("columns")
	f.MovB32(group, ptx.Imm(0))
	f.MovB32(columns, c.colInN)
	var labels []*ptx.Label
	for range groups {
		labels = append(labels, f.Label("pick"))
	}
	table := f.Branchtargets("picks", labels...)
	head, body := f.Here("epilogue_group"), f.Label("epilogue_body")
	f.BrxIdx(group, table)
	for g, label := range labels {
		f.Place(label)
		for i := range z {
			f.MovF32(z[i], c.acc[g*perGroup+i])
		}
		if g < groups-1 {
			f.Bra(body)
		}
	}
	f.Place(body)
	c.body(t, z, columns)
	f.AddU32(group, group, ptx.Imm(1))
	f.AddU32(columns, columns, ptx.Imm(16))
	more := f.Pred("more")
	f.SetpU32(ptx.LT, more, group, ptx.Imm(groups))
	f.Bra(head).If(more)
}

// element is one row (a column of the tile) of the group: the inputs of the thread's two tokens.
type element struct {
	in    [2]inputs
	state tokenState
}

// body handles blocks of 8 columns: z holds, for each, the two tokens' logits in two adjacent columns. Only a bound of
// each score is compared with the row's best; where any in the warp reaches it, the scores are computed in full.
func (c *consumer) body(t *tile, z []ptx.F32, columns ptx.B32) {
	f, s := c.f, c.plan.Storage
	keys := c.at(columns, 8)
	hit := f.Pred("hit")
	var elements []element
	for block := range len(z) / 4 {
		// Two adjacent rows' keys: only the high words, the scores, are compared.
		words := f.NewB32s("best", 4)
		f.LdSharedV4B32(words, keys.Off(s.Keys+64*block))
		for q := range 2 {
			e := c.element(t, z[4*block+q], z[4*block+2+q], columns, 8*block+q)
			threshold := scoreThreshold(f, words[2*q+1])
			for i := range e.in {
				bound := lower(f, c.bound, e.in[i])
				c.either(hit, ptx.GEU, bound, threshold, len(elements) == 0 && i == 0)
			}
			elements = append(elements, e)
		}
	}
	any, skip := f.Pred("any"), f.Label("no_hit")
	if c.options.Exhaustive {
		f.SetpB32(ptx.EQ, hit, c.lane, c.lane)
	}
	f.VoteSyncAnyPred(any, hit, ptx.Imm(0xFFFFFFFF))
	f.Bra(skip).IfNot(any)
	c.update(t, elements, columns)
	f.Place(skip)
}

// either sets p, or leaves it set, if a compares with b.
func (c *consumer) either(p ptx.Pred, cmp ptx.Cmp, a, b ptx.F32, first bool) {
	if first {
		c.f.SetpF32(cmp, p, a, b)
	} else {
		c.f.SetpOrF32(cmp, p, a, b, p)
	}
}

// element gathers the inputs of the thread's two tokens for one row: column `offset` past the thread's first.
func (c *consumer) element(t *tile, low, high ptx.F32, columns ptx.B32, offset int) element {
	var e element
	in := &e.in
	for i, z := range []ptx.F32{low, high} {
		in[i] = inputs{f: map[ir.Input]ptx.F32{ir.InLogit: z}, u: map[ir.Input]ptx.B32{}, p: map[ir.Input]ptx.Pred{}}
	}
	c.rowInputs(t, in, columns, offset)
	c.noiseInputs(t, &e, columns, offset)
	return e
}

// scores computes the two scores of an element in full.
func (c *consumer) scores(e element) (s [2]ptx.F32) {
	if c.c.Sampler == ir.Gumbel {
		low := e.state.low(c.f)
		for i := range e.in {
			e.in[i].u[ir.InLow] = low[i]
		}
	}
	for i := range s {
		s[i] = lower(c.f, c.score, e.in[i])
	}
	return s
}

// noiseInputs loads a row's noise words and temperature from shared memory and draws the high halves of the random bits.
func (c *consumer) noiseInputs(t *tile, e *element, columns ptx.B32, offset int) {
	f, s, in := c.f, c.plan.Storage, &e.in
	if c.c.Chain.Temperature {
		pair := f.NewF32s("scale", 2)
		f.LdSharedV2F32(pair, c.at(columns, 8).Off(s.Scale+8*offset))
		for i := range in {
			in[i].f[ir.InAlpha], in[i].f[ir.InTau] = pair[0], pair[1]
		}
	}
	if c.c.Sampler == ir.Gumbel {
		row := f.NewB32s("noise", 4)
		f.LdSharedV4B32(row, c.at(columns, 16).Off(s.Noise+16*offset))
		e.state = tokenRounds(f, rowNoise{row[0], row[1], row[2], row[3]}, t.pair)
		for i, high := range e.state.high(f) {
			in[i].u[ir.InHigh] = high
		}
	}
}

// rowInputs loads what depends on row and token: mask bits and bias.
func (c *consumer) rowInputs(t *tile, in *[2]inputs, columns ptx.B32, offset int) {
	f := c.f
	if c.c.Chain.Bias == ir.BiasVector {
		for i := range in {
			in[i].f[ir.InBias] = t.bias[i]
		}
	}
	if c.c.Chain.Bias != ir.BiasMatrix && !c.c.Chain.Mask {
		return
	}
	row, active := f.B32("batch_row"), f.Pred("active")
	f.MadLoU32(row, c.column, ptx.Imm(c.t.N), columns)
	f.AddU32(row, row, ptx.Imm(offset))
	f.SetpU32(ptx.LT, active, row, c.batch)
	if c.c.Chain.Bias == ir.BiasMatrix {
		addr := f.B64()
		f.MadWideU32(addr, row, c.biasStride, t.biasAddr)
		for i := range in {
			p := f.Pred()
			f.AndPred(p, active, t.valid[i])
			in[i].f[ir.InBias] = c.guardedLoad(addr.Off(32*i), p, "bias")
		}
	}
	if c.c.Chain.Mask {
		c.maskInputs(t, in, row, active)
	}
}

func (c *consumer) maskInputs(t *tile, in *[2]inputs, row ptx.B32, active ptx.Pred) {
	f := c.f
	addr, word, there := f.B64(), f.B32("mask_word"), f.Pred()
	f.MadWideU32(addr, row, c.maskStride, t.maskAddr)
	f.AndPred(there, active, t.hasMask)
	f.MovB32(word, ptx.Imm(0))
	f.LdGlobalB32(word, addr).If(there)
	for i := range in {
		bit, allowed := f.B32(), f.Pred("allowed")
		f.AndB32(bit, word, c.maskBit[i])
		f.SetpB32(ptx.NE, allowed, bit, ptx.Imm(0))
		in[i].p[ir.InAllowed] = allowed
	}
}

// update computes the group's scores in full and joins them with the rows' keys in shared memory. The eight lanes that share a row first settle it
// among themselves by recursive halving: each exchange halves both the lanes of a row and the rows of a lane, so that one
// atomic a row and warp is left, however many scores beat the old key.
func (c *consumer) update(t *tile, elements []element, columns ptx.B32) {
	f := c.f
	keys := make([]ptx.B64, len(elements))
	for i, e := range elements {
		s := c.scores(e)
		low, high := scoreKey(f, s[0], t.id[0], t.valid[0]), scoreKey(f, s[1], t.id[1], t.valid[1])
		keys[i] = f.B64()
		f.MaxU64(keys[i], low, high)
	}
	// Lane bits 2 to 4 tell the lanes of a row apart; each halving gives one bit of the row's place to the lane.
	column, duplicate := f.B32("column"), 0
	f.MovB32(column, columns)
	for mask := 16; mask >= 4; mask /= 2 {
		if len(keys) == 1 {
			other := exchange(f, keys[0], mask)
			f.MaxU64(keys[0], keys[0], other)
			duplicate |= mask
			continue
		}
		keys = c.halve(keys, mask, column)
	}
	c.commit(keys[0], column, duplicate)
}

// halve keeps the half of the keys that the lane's bit names, joined with the same half of the lane across.
func (c *consumer) halve(keys []ptx.B64, mask int, column ptx.B32) []ptx.B64 {
	f := c.f
	bit, upper := f.B32(), f.Pred("upper")
	f.AndB32(bit, c.lane, ptx.Imm(mask))
	f.SetpB32(ptx.NE, upper, bit, ptx.Imm(0))
	half := len(keys) / 2
	kept := make([]ptx.B64, half)
	for i := range kept {
		sent := f.B64()
		kept[i] = f.B64()
		f.SelpB64(kept[i], keys[half+i], keys[i], upper)
		f.SelpB64(sent, keys[i], keys[half+i], upper)
		f.MaxU64(kept[i], kept[i], exchange(f, sent, mask))
	}
	// Elements stand two to a block of 8 columns: the upper half of four is 8 columns on, of two 1.
	step := 1
	if half == 2 {
		step = 8
	}
	f.AddU32(column, column, ptx.Imm(step)).If(upper)
	return kept
}

// commit raises a row's key, by one lane of those that hold it.
func (c *consumer) commit(key ptx.B64, column ptx.B32, duplicate int) {
	f := c.f
	addr := c.at(column, 8).Off(c.plan.Storage.Keys)
	old, bits, raise := f.B64("old"), f.B32(), f.Pred("raise")
	f.LdSharedB64(old, addr, ptx.RelaxedCTA)
	f.AndB32(bits, c.lane, ptx.Imm(duplicate))
	one := f.Pred()
	f.SetpB32(ptx.EQ, one, bits, ptx.Imm(0))
	f.SetpAndU64(ptx.GT, raise, key, old, one)
	f.RedSharedMaxU64(addr, key, ptx.RelaxedCTA).If(raise)
}
