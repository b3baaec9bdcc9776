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

// body handles blocks of 8 columns: z holds, for each, the two tokens' logits in two adjacent columns.
func (c *consumer) body(t *tile, z []ptx.F32, columns ptx.B32) {
	place := func(i int) int { return 8*(i/2) + i%2 }
	c.compare(columns, len(z)/2, place, func(i int) element {
		at := 4*(i/2) + i%2
		return c.element(t, z[at], z[at+2], columns, place(i))
	}, []int{16, 8, 4})
}

// element gathers the inputs of the thread's two tokens for one row: column `offset` past the thread's first.
func (c *consumer) element(t *tile, low, high ptx.F32, columns ptx.B32, offset int) element {
	e := element{offset: offset, tokens: []candidate{
		{in: newInputs(low), id: t.id[0], valid: t.valid[0]}, {in: newInputs(high), id: t.id[1], valid: t.valid[1]}}}
	c.rowInputs(t, e.tokens, columns, offset)
	c.noiseInputs(t, &e, columns, offset)
	return e
}

// noiseInputs loads a row's noise words and temperature from shared memory and draws the high halves of the random bits.
func (c *consumer) noiseInputs(t *tile, e *element, columns ptx.B32, offset int) {
	f, s := c.f, c.plan.Storage
	if c.c.Chain.Temperature {
		pair := f.NewF32s("scale", 2)
		f.LdSharedV2F32(pair, c.at(columns, 8).Off(s.Scale+8*offset))
		for _, token := range e.tokens {
			token.in.f[ir.InAlpha], token.in.f[ir.InTau] = pair[0], pair[1]
		}
	}
	if c.c.Sampler == ir.Gumbel {
		row := f.NewB32s("noise", 4)
		f.LdSharedV4B32(row, c.at(columns, 16).Off(s.Noise+16*offset))
		state := tokenRounds(f, rowNoise{row[0], row[1], row[2], row[3]}, t.pair)
		for i, high := range state.high(f) {
			e.tokens[i].in.u[ir.InHigh] = high
		}
		e.low = func() []ptx.B32 { low := state.low(f); return low[:] }
	}
}

// rowInputs loads what depends on row and token: mask bits and bias.
func (c *consumer) rowInputs(t *tile, tokens []candidate, columns ptx.B32, offset int) {
	f := c.f
	if c.c.Chain.Bias == ir.BiasVector {
		for i := range tokens {
			tokens[i].in.f[ir.InBias] = t.bias[i]
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
		for i := range tokens {
			p := f.Pred()
			f.AndPred(p, active, t.valid[i])
			tokens[i].in.f[ir.InBias] = c.guardedLoad(addr.Off(32*i), p, "bias")
		}
	}
	if c.c.Chain.Mask {
		c.maskInputs(t, tokens, row, active)
	}
}

func (c *consumer) maskInputs(t *tile, tokens []candidate, row ptx.B32, active ptx.Pred) {
	f := c.f
	addr, word, there := f.B64(), f.B32("mask_word"), f.Pred()
	f.MadWideU32(addr, row, c.maskStride, t.maskAddr)
	f.AndPred(there, active, t.hasMask)
	f.MovB32(word, ptx.Imm(0))
	f.LdGlobalB32(word, addr).If(there)
	for i := range tokens {
		bit, allowed := f.B32(), f.Pred("allowed")
		f.AndB32(bit, word, c.maskBit[i])
		f.SetpB32(ptx.NE, allowed, bit, ptx.Imm(0))
		tokens[i].in.p[ir.InAllowed] = allowed
	}
}
