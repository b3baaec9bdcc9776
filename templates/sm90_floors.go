package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// Floors of a row come from one number of each block (seedBests): the logit of the token that is first, which one of eight lanes holds, or
// where blocks are scored as a whole their mean. A look at all tokens, group by group, is 190 instructions a group. Where there is room
// for limits there is room for those numbers, as long as there are no limits yet: so lanes put them there, and the warp works out the
// floors of a block and row a lane, as it does limits.

// floorsByLanes reports whether floors are worked out so.
func (c *samplers) floorsByLanes() bool { return c.limited() && !c.collecting() }

// floorsOfBlocks raises the keys of the rows to the floors of the warp's blocks of a tile.
func (c *consumer) floorsOfBlocks(s span) {
	f := c.f
	if c.c.Sampler == ir.Grouped {
		c.storeMeans()
	} else {
		c.storeFirsts()
	}
	f.BarWarpSync(ptx.Imm(fullWarp))
	c.eachWord("floor_word", "floors_known", func(word ptx.B32) {
		block, column := c.wordPlace(c.layout, word, c.warpBlock(s.row), imm(f, 0))
		packed, logits := f.NewB32s("code_words", 2), f.NewF32s("block_logit", len(c.layout.offsets))
		f.LdSharedV2B32(packed, c.wordAddress(word).Off(c.plan.Storage.Codes))
		f.LdSharedV4F32(logits, c.limitAddress(word).Off(c.plan.Storage.Limits))
		f.ShlB32(block, block, ptx.Imm(blockShift)) // which drops what marks it a block
		for i, offset := range c.layout.offsets {
			in, last := f.B32("floor_column"), f.B32("last_token")
			f.AddU32(in, column, ptx.Imm(offset))
			if c.c.Sampler == ir.Grouped {
				f.OrB32(last, block, ptx.Imm(tiling.BlockRows-1))
			} else {
				f.OrB32(last, block, byteOf(f, packed[1], i))
			}
			c.floorOfBlock(s, in, last, logits[i], codeValue(f, packed[0], i))
		}
	})
}

// floorOfBlock raises the key of a column's row to the floor that a block gives, if the last token that it is of counts.
func (c *consumer) floorOfBlock(s span, column, last ptx.B32, logit, code ptx.F32) {
	f, counts, zero := c.f, c.f.Pred("counts"), c.f.F32()
	f.SetpU32(ptx.LT, counts, last, s.end)
	c.notBefore(counts, last)
	f.SetpAndF32(ptx.GE, counts, code, ptx.F32Imm(128+ir.FloorCode), counts)
	f.MovF32(zero, ptx.F32Imm(0))
	record, in := c.loadRecord(c.at(column, 16).Off(c.plan.Storage.Rows)), newInputs(logit)
	in.f[ir.InAlpha], in.f[ir.InPad] = record.alpha, zero
	least := lower(f, c.blockFloor, inputs{f: map[ir.Input]ptx.F32{ir.InBase: lower(f, c.base, in), ir.InTau: record.tau, ir.InCode: code}})
	known := f.Pred("known")
	f.SetpAndF32(ptx.GT, known, least, ptx.F32Imm(math.Inf(-1)), counts) // false for NaN
	if c.c.Sampler == ir.Grouped {
		c.meansHold(known, least, record.tau)
	}
	c.commit(column, c.floorKey(least, known))
}

// meansHold clears p where a mean is no floor: past float32, which its sum may be where no logit is, or under a temperature so low that
// logits have too few digits beside it (ir.MeanFloor). A temperature of 0 has no noise, and floors.
func (c *consumer) meansHold(p ptx.Pred, least, tau ptx.F32) {
	f := c.f
	f.SetpAndF32(ptx.LT, p, least, ptx.F32Imm(math.Inf(1)), p)
	if !c.c.RowScales() {
		return
	}
	low, warm := f.Pred("too_low"), f.Pred("warm")
	f.SetpF32(ptx.GT, warm, tau, ptx.F32Imm(0))
	f.SetpAndF32(ptx.LT, low, tau, ptx.F32Imm(ir.LeastMeanTau), warm)
	f.NotPred(low, low)
	f.AndPred(p, p, low)
}

// storeFirsts has the lanes put the logits of the first tokens that they hold where limits will be.
func (c *consumer) storeFirsts() {
	f, rows := c.f, [2]ptx.B32{c.f.B32("row_in_block"), c.f.B32("row_in_block")}
	f.AndB32(rows[0], c.rowInTile, ptx.Imm(tiling.BlockRows-1))
	f.AddU32(rows[1], rows[0], ptx.Imm(tiling.BlockRows/2))
	codes := c.codeAddress()
	c.eachOwnWord(func(g int, at func(byte int) ptx.SharedAddr, z []ptx.F32) {
		places := f.B32("places")
		f.LdSharedB32(places, codes.Off(c.plan.Storage.Codes+g*codeRun+wordBytes/2))
		for i := range perGroup / 2 {
			place, token := byteOf(f, places, i), firstToken(i)
			for half, row := range rows {
				first := f.Pred("is_first")
				f.SetpU32(ptx.EQ, first, place, row)
				f.StSharedF32(at(4*i), z[token+2*half]).If(first)
			}
		}
	})
}

// storeMeans has the lanes add up the logits of each block and row, and the first of its lanes put the mean there.
func (c *consumer) storeMeans() {
	f, first := c.f, c.f.Pred("is_first")
	f.SetpU32(ptx.LT, first, c.lane, ptx.Imm(groupWords))
	plus := func(d, x, y ptx.F32) { f.AddF32(d, x, y, ptx.RN) }
	c.eachOwnWord(func(_ int, at func(byte int) ptx.SharedAddr, z []ptx.F32) {
		var means []ptx.F32
		for i := range perGroup / 2 {
			sum, mean := f.F32("block_sum"), f.F32("block_mean")
			f.AddF32(sum, z[firstToken(i)], z[firstToken(i)+2], ptx.RN)
			f.MulF32(mean, c.blocks.across(f, sum, plus), ptx.F32Imm(1.0/tiling.BlockRows), ptx.RN)
			means = append(means, mean)
		}
		f.StSharedV4F32(at(0), means).If(first)
	})
}

// firstToken is the accumulator of the thread's first token in the i-th column that it has of a group; the second is 2 further.
func firstToken(i int) int { return 4*(i/2) + i%2 }

// eachOwnWord runs body for every group of 16 columns: the address of what the thread's columns have where limits are, and its logits.
func (c *consumer) eachOwnWord(body func(g int, at func(byte int) ptx.SharedAddr, z []ptx.F32)) {
	f, lane := c.f, c.f.B32()
	f.AndB32(lane, c.lane, ptx.Imm(groupWords-1))
	first := c.limitAddress(lane)
	for g := range len(c.acc) / perGroup {
		at := func(byte int) ptx.SharedAddr {
			return first.Off(c.plan.Storage.Limits + g*groupWords*tiling.LimitWordBytes + byte)
		}
		body(g, at, c.acc[g*perGroup:(g+1)*perGroup])
	}
}
