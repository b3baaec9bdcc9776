package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// tile is what the epilogue knows of the current tile: the thread's two tokens, the second 8 further, and their inputs.
type tile struct {
	tokenInputs
	pads []ptx.F32
}

// newTile computes ids and starts the loads that depend on the tile alone, before the products hide their latency.
func (c *consumer) newTile(row ptx.B32) *tile {
	f := c.f
	t := &tile{}
	ids, valid := []ptx.B32{f.B32("token_low"), f.B32("token_high")}, []ptx.Pred{f.Pred("valid_low"), f.Pred("valid_high")}
	f.AddU32(ids[0], row, c.rowInTile)
	f.AddU32(ids[1], ids[0], ptx.Imm(8))
	for i := range ids {
		f.SetpU32(ptx.LT, valid[i], ids[i], c.vocab)
		t.pads = append(t.pads, c.padOf(valid[i]))
	}
	t.tokenInputs = c.startTile(ids, valid)
	return t
}

// padOf returns what keeps a token past the vocabulary from counting: -inf, or 0.
func (c *samplers) padOf(valid ptx.Pred) ptx.F32 {
	pad, out := c.f.F32("pad"), c.f.F32()
	c.f.MovB32(out, ptx.Imm(floatMinusInf))
	c.f.SelpF32(pad, ptx.F32Imm(0), out, valid)
	return pad
}

// perGroup is the accumulators of a thread in 16 columns.
const perGroup = 8

// epilogue samples from the accumulators.
func (c *consumer) epilogue(t *tile) {
	c.f.Comment("Epilogue: transform, bound and compare.")
	c.seedBests(func(body func(g group)) { c.eachGroup(t, "floor_group", body) })
	c.eachGroup(t, "epilogue_group", c.compare)
}

// eachGroup runs body for groups of 16 columns. Accumulators cannot be indexed, and one body for each would be thousands of
// instructions, more than the instruction caches like: groups are picked by an indirect branch and share one body. Warps
// start at different groups, so that a row's best, once one of them finds it, serves the others.
func (c *consumer) eachGroup(t *tile, name string, body func(g group)) {
	f := c.f
	groups := len(c.acc) / perGroup
	if groups <= 1 {
		body(c.groupOf(t, c.acc, c.colInN, c.codeAddress(), nil))
		return
	}
	at, left, last := f.B32("group"), f.B32("groups_left"), f.Pred("last_group")
	z, columns, codes := f.NewF32s("z", perGroup), f.B32("columns"), f.B32("codes_addr")
	f.MulLoU32(at, c.warp, ptx.Imm(groups))
	f.DivU32(at, at, ptx.Imm(c.plan.Pipeline.Samplers/warpSize))
	f.MadLoU32(columns, at, ptx.Imm(tiling.CodeGroup), c.colInN)
	f.MadLoU32(codes, at, ptx.Imm(c.codeRun()), c.codeAddress())
	f.MovB32(left, ptx.Imm(groups))
	head, picked := f.Here(name), f.Label(name+"_picked")
	c.pickGroup(at, z, picked)
	f.Place(picked)
	f.SubU32(left, left, ptx.Imm(1))
	f.SetpU32(ptx.EQ, last, left, ptx.Imm(0))
	body(c.groupOf(t, z, columns, codes, &last))

	wrap, more := f.Pred("wrap"), f.Pred("more")
	f.AddU32(at, at, ptx.Imm(1))
	f.AddU32(columns, columns, ptx.Imm(tiling.CodeGroup))
	f.AddU32(codes, codes, ptx.Imm(c.codeRun()))
	f.SetpU32(ptx.EQ, wrap, at, ptx.Imm(groups))
	f.MovB32(at, ptx.Imm(0)).If(wrap)
	f.SubU32(columns, columns, ptx.Imm(groups*tiling.CodeGroup)).If(wrap)
	f.SubU32(codes, codes, ptx.Imm(groups*c.codeRun())).If(wrap)
	f.SetpU32(ptx.NE, more, left, ptx.Imm(0))
	f.Bra(head).If(more)
}

// pickGroup moves the accumulators of a group to z.
func (c *consumer) pickGroup(group ptx.B32, z []ptx.F32, body *ptx.Label) {
	f := c.f
	var labels []*ptx.Label
	for range len(c.acc) / perGroup {
		labels = append(labels, f.Label("pick"))
	}
	f.BrxIdx(group, f.Branchtargets("picks", labels...))
	for g, label := range labels {
		f.Place(label)
		for i := range z {
			f.MovF32(z[i], c.acc[g*perGroup+i])
		}
		if g < len(labels)-1 {
			f.Bra(body)
		}
	}
}

// codeAddress is the address register of the thread's words in the first group, short of the storage's offset.
func (c *consumer) codeAddress() ptx.B32 {
	word := c.f.B32()
	c.f.AndB32(word, c.lane, ptx.Imm(3))
	c.f.MadLoU32(word, c.warp, ptx.Imm(4), word)
	return c.at(word, wordBytes)
}

// groupOf is blocks of 8 columns: z holds, for each, the two tokens' logits in two adjacent columns.
func (c *consumer) groupOf(t *tile, z []ptx.F32, columns, codes ptx.B32, last *ptx.Pred) group {
	f := c.f
	words := f.NewB32s("code_words", 2)
	if c.c.Sampler == ir.Gumbel {
		f.LdSharedV2B32(words, codes.Off(c.plan.Storage.Codes))
	}
	place := func(i int) int { return 8*(i/2) + i%2 }
	return group{columns: columns, id: t.ids[0], elements: len(z) / 2, place: place, last: last, gather: func(i int) element {
		at := 4*(i/2) + i%2
		e := element{offset: place(i), tokens: []candidate{
			{in: newInputs(z[at]), pad: t.pads[0]}, {in: newInputs(z[at+2]), pad: t.pads[1], below: 8}}}
		c.rowInputs(&t.tokenInputs, e.tokens, columns, place(i), c.maskBit[:])
		if c.c.Sampler == ir.Gumbel {
			e.code, e.place = codeValue(f, words[0], i), byteOf(f, words[1], i)
		}
		return e
	}}
}
