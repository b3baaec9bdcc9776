package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// tile is what the epilogue knows of the current tile: the thread's two tokens, the second 8 further, and their inputs.
type tile struct {
	tokenInputs
	pair pairNoise
}

// newTile computes ids and starts the loads that depend on the tile alone, before the products hide their latency.
func (c *consumer) newTile(row ptx.B32) *tile {
	f := c.f
	t := &tile{}
	ids, valid := []ptx.B32{f.B32("token_low"), f.B32("token_high")}, []ptx.Pred{f.Pred("valid_low"), f.Pred("valid_high")}
	f.AddU32(ids[0], row, c.rowInM)
	f.AddU32(ids[1], ids[0], ptx.Imm(8))
	for i := range ids {
		f.SetpU32(ptx.LT, valid[i], ids[i], c.vocab)
	}
	if c.c.Sampler == ir.Gumbel {
		t.pair = pairState(f, ids[0])
	}
	t.tokenInputs = c.startTile(ids, valid)
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
		{in: newInputs(low), id: t.ids[0], valid: t.valid[0]}, {in: newInputs(high), id: t.ids[1], valid: t.valid[1]}}}
	c.rowInputs(&t.tokenInputs, e.tokens, columns, offset, c.maskBit[:])
	c.scaleInputs(e.tokens, columns, offset)
	c.noiseInputs(t, &e, columns, offset)
	return e
}

// noiseInputs loads a row's noise words from shared memory and draws the high halves of the random bits.
func (c *consumer) noiseInputs(t *tile, e *element, columns ptx.B32, offset int) {
	if c.c.Sampler != ir.Gumbel {
		return
	}
	f, row := c.f, c.f.NewB32s("noise", 4)
	f.LdSharedV4B32(row, c.at(columns, 16).Off(c.plan.Storage.Noise+16*offset))
	state := tokenRounds(f, rowNoise{row[0], row[1], row[2], row[3]}, t.pair)
	for i, high := range state.high(f) {
		e.tokens[i].in.u[ir.InHigh] = high
	}
	e.low = func() []ptx.B32 { low := state.low(f); return low[:] }
}
