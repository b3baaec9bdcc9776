package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// A row's floors come from one token of each block, the first (seedBests), which one of eight lanes holds; a look at all tokens, group by
// group, is 190 instructions a group. Where there is room for limits, there is room for the logits of the first tokens, as long as there
// are no limits yet: the lanes that hold them put them there, and the warp works out the floors of a block and row a lane, as it does limits.

// floorsByLanes reports whether floors are worked out so.
func (c *samplers) floorsByLanes() bool {
	return c.limited() && c.c.Sampler == ir.Gumbel && !c.collecting()
}

// floorsOfFirsts raises the keys of the rows to the floors of the warp's blocks of a tile.
func (c *consumer) floorsOfFirsts(s span) {
	f := c.f
	c.storeFirsts()
	f.BarWarpSync(ptx.Imm(fullWarp))
	c.eachWord("floor_word", "floors_known", func(word ptx.B32) {
		block, column := c.wordPlace(c.layout, word, c.warpBlock(s.row), imm(f, 0))
		packed, firsts, at := f.NewB32s("code_words", 2), f.NewF32s("firsts", len(c.layout.offsets)), f.B32("code_addr")
		f.MadLoU32(at, word, ptx.Imm(wordBytes), c.codes)
		f.LdSharedV2B32(packed, at.Off(c.plan.Storage.Codes))
		f.LdSharedV4F32(firsts, c.limitAddress(word).Off(c.plan.Storage.Limits))
		f.ShlB32(block, block, ptx.Imm(blockShift)) // which drops what marks it a block
		for i, offset := range c.layout.offsets {
			in := f.B32("floor_column")
			f.AddU32(in, column, ptx.Imm(offset))
			c.floorOfFirst(s, in, block, byteOf(f, packed[1], i), firsts[i], codeValue(f, packed[0], i))
		}
	})
}

// floorOfFirst raises the key of a column's row to the floor that the first token of a block gives.
func (c *consumer) floorOfFirst(s span, column, block, place ptx.B32, logit, code ptx.F32) {
	f, id, counts, zero := c.f, c.f.B32("first_token"), c.f.Pred("counts"), c.f.F32()
	f.OrB32(id, block, place)
	f.SetpU32(ptx.LT, counts, id, s.end)
	c.notBefore(counts, id)
	f.SetpAndF32(ptx.GE, counts, code, ptx.F32Imm(128+ir.FloorCode), counts)
	f.MovF32(zero, ptx.F32Imm(0))
	record, in := c.loadRecord(c.at(column, 16).Off(c.plan.Storage.Rows)), newInputs(logit)
	in.f[ir.InAlpha], in.f[ir.InPad] = record.alpha, zero
	least := lower(f, c.floor, inputs{f: map[ir.Input]ptx.F32{ir.InBase: lower(f, c.base, in), ir.InTau: record.tau, ir.InCode: code}})
	known := f.Pred("known")
	f.SetpAndF32(ptx.GT, known, least, ptx.F32Imm(math.Inf(-1)), counts) // false for NaN
	c.commit(column, c.floorKey(least, known))
}

// storeFirsts has the lanes put the logits of the first tokens that they hold where limits will be.
func (c *consumer) storeFirsts() {
	f, lane, rows := c.f, c.f.B32(), [2]ptx.B32{c.f.B32("row_in_block"), c.f.B32("row_in_block")}
	f.AndB32(lane, c.lane, ptx.Imm(groupWords-1))
	f.AndB32(rows[0], c.rowInTile, ptx.Imm(tiling.BlockRows-1))
	f.AddU32(rows[1], rows[0], ptx.Imm(tiling.BlockRows/2))
	codes, firsts := c.codeAddress(), c.limitAddress(lane)
	for g := range len(c.acc) / perGroup {
		z, places := c.acc[g*perGroup:(g+1)*perGroup], f.B32("places")
		f.LdSharedB32(places, codes.Off(c.plan.Storage.Codes+g*codeRun+wordBytes/2))
		for i := range perGroup / 2 {
			place, token := byteOf(f, places, i), 4*(i/2)+i%2 // as groupOf has them
			for half, row := range rows {
				first := f.Pred("is_first")
				f.SetpU32(ptx.EQ, first, place, row)
				f.StSharedF32(firsts.Off(c.plan.Storage.Limits+g*groupWords*tiling.LimitWordBytes+4*i), z[token+2*half]).If(first)
			}
		}
	}
}
