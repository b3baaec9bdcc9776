package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// logits gives edits tensor memory: a warp has 32 tokens, one a lane, and the columns of its groups.
func (c *tensorSampler) logits(s span, t *laneTile, buffer ptx.B32) *logits {
	f := c.f
	return &logits{
		tokens: warpSize, runs: 1, places: []ptx.B32{c.lane},
		first: func(ptx.B32) ptx.B32 {
			first := f.B32("first_token")
			f.MadLoU32(first, c.quarter, ptx.Imm(warpSize), s.row)
			return first
		},
		owns: c.ownsColumn,
		change: func(_, column ptx.B32, body func(z []ptx.F32, mine ptx.Pred)) {
			at, bits, z, mine := c.columnAt(buffer, column), f.NewB32s("bits", 1), f.NewF32s("z", 1), f.Pred("has_column")
			f.Tcgen05Ld32x32b(bits, at)
			f.Tcgen05WaitLd()
			f.MovB32(z[0], bits[0])
			f.SetpB32(ptx.EQ, mine, c.lane, c.lane)
			body(z, mine)
			f.MovB32(bits[0], z[0])
			f.Tcgen05St32x32b(at, bits)
			f.Tcgen05WaitSt()
		},
		drop: func(_, from, columns ptx.B32) {
			lane, more, out := f.B32("column_lane"), f.Pred("more"), []ptx.B32{imm(f, floatMinusInf)}
			next := f.Here("drop_column")
			takeLowest(f, lane, columns)
			f.Tcgen05St32x32b(c.columnAt(buffer, sum(f, from, lane)), out)
			f.SetpU32(ptx.NE, more, columns, ptx.Imm(0))
			f.Bra(next).If(more)
			f.Tcgen05WaitSt()
		},
		all: func(body func(g group) []element) { c.rewriteGroups(t, buffer, body) },
	}
}

// ownsColumn clears some where the column is of a group that another warp of the same lanes takes.
func (c *tensorSampler) ownsColumn(column ptx.B32, some ptx.Pred) {
	share := c.plan.Pipeline.Samplers / 128
	if share == 1 {
		return
	}
	f, owner, mine := c.f, c.f.B32("owner"), c.f.B32("own_group")
	f.AndB32(owner, column, ptx.Imm(lanesGroup*(share-1)))
	f.MovB32(mine, c.first)
	f.SetpAndU32(ptx.EQ, some, owner, mine, some)
}

// columnAt is the address of a column of the warp's lanes in an accumulator.
func (c *tensorSampler) columnAt(buffer, column ptx.B32) ptx.B32 {
	at := c.f.B32("tensor_column")
	c.f.MadLoU32(at, buffer, ptx.Imm(c.t.N), c.tensor)
	c.f.AddU32(at, at, column)
	return at
}

// rewriteGroups runs body for every group of the tile, and writes back what it makes of the group's logits.
func (c *tensorSampler) rewriteGroups(t *laneTile, buffer ptx.B32, body func(g group) []element) {
	f := c.f
	var elements []element
	c.visitGroups(t, buffer, "edit_group", func(g group) { elements = body(g) }, func(address ptx.B32, raw []ptx.B32) {
		for i, e := range elements {
			f.MovB32(raw[i], e.tokens[0].in.f[ir.InLogit])
		}
		f.Tcgen05St32x32b(address, raw)
		f.Tcgen05WaitSt()
	})
}
