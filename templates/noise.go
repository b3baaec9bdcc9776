package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// noisers are the threads of the warp that draws noise ahead: while others multiply a tile, it draws that of its blocks, 16
// tokens each, and leaves for every block and row a code that bounds it (ir.NoiseCode) and the place of the block's first
// token. That rules out nearly all tokens. It keeps the rows' noise constants too.
type noisers struct {
	*skeleton
	layout codeLayout
	column ptx.B32 // column tile whose rows are in shared memory

	seeds, positions                     ptx.B64
	seedStride, posStride, draw, tagWord ptx.B32
}

// codeLayout says for which columns a word of codes stands: word t of a run is of block t/4 of the tile and of the columns
// step (t mod 4) + offsets. The word of the first tokens' places stands beside it.
type codeLayout struct {
	step    int
	offsets []int
}

// wordBytes is a word of codes and a word of places.
const wordBytes = 8

// codeRun is the bytes of the codes of 16 columns.
func (k *skeleton) codeRun() int { return wordBytes * 4 * k.t.M / tiling.BlockRows }

// noise emits the role, for the lanes of one warp.
func (k *skeleton) noise(layout codeLayout) {
	f, s := k.f, k.plan.Storage
	f.Comment("Noise: draw that of the next tile's blocks.")
	n := &noisers{skeleton: k, layout: layout, column: f.B32("rows_of")}
	f.MovB32(n.column, ptx.Imm(noColumn))
	n.loadParams()
	phase, item, past := f.B32("phase"), f.B32("item"), f.Pred("past")
	f.MovB32(phase, ptx.Imm(1)) // the first wait passes at once
	f.MovB32(item, k.first)
	loop := f.Here("noise_item")
	f.SetpU32(ptx.GE, past, item, k.work)
	f.Bra(k.done).If(past)
	column, row := k.item(item)
	k.wait(k.smem.Off(s.Drawn+8), phase, "wait_codes_read")
	n.changeRows(column)
	n.drawCodes(row)
	k.arriveWarp(k.smem.Off(s.Drawn))
	f.XorB32(phase, phase, ptx.Imm(1))
	f.AddU32(item, item, k.stride)
	f.Bra(loop)
}

// arriveWarp arrives once for the whole warp, after what its lanes did.
func (k *skeleton) arriveWarp(bar ptx.SharedAddr) {
	leader := k.f.Pred("leader")
	k.f.SetpU32(ptx.EQ, leader, k.lane, ptx.Imm(0))
	k.f.BarWarpSync(ptx.Imm(fullWarp))
	k.f.MbarrierArrive(bar).If(leader)
}

func (n *noisers) loadParams() {
	f, s := n.f, n.sig
	n.seeds, n.seedStride = loadPointer(f, s.seeds, "seeds"), loadU32(f, s.seedStride, "seed_stride")
	n.positions, n.posStride = loadPointer(f, s.positions, "positions"), loadU32(f, s.positionStride, "position_stride")
	n.draw, n.tagWord = loadU32(f, s.draw, "draw"), loadU32(f, s.tag, "stream_tag")
}

// changeRows computes the noise constants of the rows of a new column tile.
func (n *noisers) changeRows(column ptx.B32) {
	f := n.f
	same, ready := f.Pred("same_rows"), f.Label("noise_ready")
	f.SetpU32(ptx.EQ, same, column, n.column)
	f.Bra(ready).If(same)
	f.MovB32(n.column, column)
	n.eachRow(n.lane, warpSize, n.column, "noise_row", n.rowConstants)
	f.BarWarpSync(ptx.Imm(fullWarp))
	f.Place(ready)
}

// rowConstants computes a row's constants; rows past the batch get zeros.
func (n *noisers) rowConstants(inTile, row ptx.B32) {
	f := n.f
	out := []ptx.B32{f.B32("n0"), f.B32("n1"), f.B32("n2"), f.B32("n3")}
	for _, r := range out {
		f.MovB32(r, ptx.Imm(0))
	}
	idle, store := f.Pred("idle"), f.Label("store_noise")
	f.SetpU32(ptx.GE, idle, row, n.batch)
	f.Bra(store).If(idle)
	seed, position := f.NewB32s("seed", 2), f.NewB32s("position", 2)
	f.LdGlobalV2B32(seed, n.perRow(n.seeds, row, n.seedStride, 8))
	f.LdGlobalV2B32(position, n.perRow(n.positions, row, n.posStride, 8))
	state := rowState(f, [4]ptx.B32{position[0], position[1], n.draw, n.tagWord}, [2]ptx.B32{seed[0], seed[1]})
	for i, r := range []ptx.B32{state.s2, state.p, state.q, state.r} {
		f.MovB32(out[i], r)
	}
	f.Place(store)
	f.StSharedV4B32(n.at(inTile, 16).Off(n.plan.Storage.Noise), out)
}

// drawCodes draws one tile, a word at a time.
func (n *noisers) drawCodes(row ptx.B32) {
	f, run := n.f, 4*n.t.M/tiling.BlockRows
	words := run * ((n.t.N + tiling.CodeGroup - 1) / tiling.CodeGroup)
	at, word, columns, first := f.B32("word_of_tile"), f.B32("word"), f.B32("columns"), f.B32("first_block")
	f.MovB32(at, n.lane)
	f.ShrU32(first, row, ptx.Imm(4))
	f.OrB32(first, first, imm(f, blockBit))
	past, end := f.Pred("past"), f.Label("drawn")
	loop := f.Here("draw_word")
	f.SetpU32(ptx.GE, past, at, ptx.Imm(words))
	f.Bra(end).If(past)
	f.DivU32(columns, at, ptx.Imm(run))
	f.MulLoU32(word, columns, ptx.Imm(run))
	f.SubU32(word, at, word)
	f.MulLoU32(columns, columns, ptx.Imm(tiling.CodeGroup))
	f.StSharedV2B32(n.at(at, wordBytes).Off(n.plan.Storage.Codes), n.word(first, word, columns))
	f.AddU32(at, at, ptx.Imm(warpSize))
	f.Bra(loop)
	f.Place(end)
}

// word draws for one word: its codes and its places.
func (n *noisers) word(firstBlock, word, columns ptx.B32) []ptx.B32 {
	f := n.f
	block, first := f.B32("block"), f.B32("first_column")
	f.ShrU32(block, word, ptx.Imm(2))
	f.AddU32(block, block, firstBlock)
	f.AndB32(first, word, ptx.Imm(3))
	f.MadLoU32(first, first, ptx.Imm(n.layout.step), columns)
	records, pair := n.at(first, 16), pairState(f, block)
	var codes, places []ptx.B32
	for _, offset := range n.layout.offsets {
		state := n.tokens(records.Off(n.plan.Storage.Noise+16*offset), pair)
		codes = append(codes, codeOf(f, state.high(f)[0]))
		places = append(places, state.first(f))
	}
	return []ptx.B32{packCodes(f, codes), packCodes(f, places)}
}

// tokens runs the call of a pair of tokens, or of a block, for the row whose constants lie at an address.
func (k *skeleton) tokens(constants ptx.SharedAddr, pair pairNoise) tokenState {
	row := k.f.NewB32s("noise", 4)
	k.f.LdSharedV4B32(row, constants)
	return tokenRounds(k.f, rowNoise{row[0], row[1], row[2], row[3]}, pair)
}

// initNoiseBarriers initialises "drawn" (one arrival) and "read" (one a warp that samples).
func (k *skeleton) initNoiseBarriers() {
	if k.c.Sampler != ir.Gumbel {
		return
	}
	drawn := k.smem.Off(k.plan.Storage.Drawn)
	k.f.MbarrierInit(drawn, ptx.Imm(1))
	k.f.MbarrierInit(k.smem.Off(k.plan.Storage.Drawn+8), ptx.Imm(k.plan.Pipeline.Samplers/32))
}
