package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// codeLayout says which noise a warp draws for a tile: that of the blocks of 16 tokens that its lanes hold, for the columns
// that it samples. For every block and row there is a code that bounds the noise of the block (ir.NoiseCode), which rules
// out nearly all tokens, and the place of the block's first token; both come in words of a byte for each of four columns,
// or of the two that a thread has of a narrow tile, side by side.
//
// Word i of a block is of the columns of group i/4, from step (i mod 4) on, past these by offsets.
type codeLayout struct {
	blocks  int // of a warp
	between int // from one of its blocks to the next
	groups  int // of 16 columns that a warp samples
	stride  int // columns from one of its groups to the next
	step    int
	offsets []int
}

// wordBytes is a word of codes and a word of places, groupWords the words of a block in 16 columns.
const (
	wordBytes  = tiling.CodeWordBytes
	groupWords = tiling.GroupWords
)

// run is the words of one block.
func (l codeLayout) run() int { return groupWords * l.groups }

// drawCodes draws the noise of a warp's share of a tile: block is the first one's number, first its first column. It is
// cheap enough to be done by the warps that sample, while the tensor core is at their last products or, where warpgroups take turns, at
// the other's; a warp of its own would disturb the products all the time (docs/NOTES.md).
func (c *samplers) drawCodes(l codeLayout, block, first ptx.B32) {
	if !c.c.Sampler.Random() {
		return
	}
	f := c.f
	f.BarWarpSync(ptx.Imm(fullWarp)) // the codes of the tile before have been read
	c.eachWord("draw_word", "codes_drawn", func(word ptx.B32) {
		addr := c.wordAddress(word)
		f.StSharedV2B32(addr.Off(c.plan.Storage.Codes), c.codeWords(l, word, block, first))
	})
	f.BarWarpSync(ptx.Imm(fullWarp))
}

// eachWord runs body for the words of codes that the warp has of a tile, one a lane at a time.
func (c *samplers) eachWord(name, done string, body func(word ptx.B32)) {
	f := c.f
	word, past, end := f.B32("word"), f.Pred("past"), f.Label(done)
	f.MovB32(word, c.lane)
	loop := f.Here(name)
	f.SetpU32(ptx.GE, past, word, ptx.Imm(c.plan.Pipeline.CodeWords))
	f.Bra(end).If(past)
	body(word)
	f.AddU32(word, word, ptx.Imm(warpSize))
	f.Bra(loop)
	f.Place(end)
}

// wordAddress is the address register of one of the warp's words, short of the storage's offset.
func (c *samplers) wordAddress(word ptx.B32) ptx.B32 {
	addr := c.f.B32("code_addr")
	c.f.MadLoU32(addr, word, ptx.Imm(wordBytes), c.codes)
	return addr
}

// placeOf returns the place of a block's first token; samplers that score blocks as a whole have no use for it.
func (c *samplers) placeOf(word ptx.B32, i int) ptx.B32 {
	if c.c.Sampler != ir.Gumbel {
		return ptx.B32{}
	}
	return byteOf(c.f, word, i)
}

// wordPlace is the block of a word, and its first column.
func (c *samplers) wordPlace(l codeLayout, word, firstBlock, firstColumn ptx.B32) (block, column ptx.B32) {
	f, group := c.f, ptx.B32{}
	block, group, column = f.B32("block"), f.B32("group"), f.B32("first_column")
	f.OrB32(block, firstBlock, imm(f, blockBit))
	f.MovB32(group, word)
	if l.blocks > 1 {
		index, words := f.B32(), f.B32()
		divideBy(f, index, word, l.run())
		f.MulLoU32(words, index, ptx.Imm(l.run()))
		f.SubU32(group, word, words)
		f.MadLoU32(block, index, ptx.Imm(l.between), block)
	}
	f.AndB32(column, group, ptx.Imm(groupWords-1))
	f.MadLoU32(column, column, ptx.Imm(l.step), firstColumn)
	f.ShrU32(group, group, ptx.Imm(2))
	f.MadLoU32(column, group, ptx.Imm(l.stride), column)
	f.MinU32(column, column, ptx.Imm(c.t.N-1-l.offsets[len(l.offsets)-1])) // a last group that the tile cuts
	return block, column
}

// codeWords draws one word of codes and the word of places beside it.
func (c *samplers) codeWords(l codeLayout, word, firstBlock, firstColumn ptx.B32) []ptx.B32 {
	f := c.f
	block, column := c.wordPlace(l, word, firstBlock, firstColumn)
	records, pair := c.at(column, 16), pairState(f, block)
	var codes, places []ptx.B32
	for _, offset := range l.offsets {
		state := c.tokens(records.Off(c.plan.Storage.Noise+16*offset), pair)
		codes = append(codes, codeOf(f, state.high(f)[0]))
		if c.c.Sampler == ir.Gumbel {
			places = append(places, state.first(f))
		}
	}
	if places == nil {
		return []ptx.B32{packCodes(f, codes), imm(f, 0)}
	}
	return []ptx.B32{packCodes(f, codes), packCodes(f, places)}
}

// tokens runs the call of a pair of tokens, or of a block, for the row whose constants lie at an address.
func (c *samplers) tokens(constants ptx.SharedAddr, pair pairNoise) tokenState {
	row := c.f.NewB32s("noise", 4)
	c.f.LdSharedV4B32(row, constants)
	return tokenRounds(c.f, rowNoise{row[0], row[1], row[2], row[3]}, pair)
}
