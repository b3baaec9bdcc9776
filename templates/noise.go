package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// noisers are the threads that draw the noise ahead: while others multiply a tile, they bound the noise of all its tokens
// and rows by a code of one byte for two tokens, which rules out nearly all of them (ir.NoiseCode). They keep the rows'
// noise constants too.
type noisers struct {
	*skeleton
	thread  ptx.B32 // among the threads that draw
	threads int
	layout  codeLayout
	column  ptx.B32 // column tile whose rows are in shared memory

	seeds, positions                     ptx.B64
	seedStride, posStride, draw, tagWord ptx.B32
}

// codeLayout says for which columns a word of codes stands. Words come in runs of 2M, one run for each 16 columns: word t is
// of the pair of tokens 16 (t/32) + t/4 mod 8, 8 apart, and of the columns step (t mod 4) + offsets.
type codeLayout struct {
	step    int
	offsets []int
}

// noise emits the role, for threads first and up.
func (k *skeleton) noise(first, threads int, layout codeLayout) {
	f, s := k.f, k.plan.Storage
	f.Comment("Noise: bound the noise of the next tile.")
	n := &noisers{skeleton: k, threads: threads, layout: layout, thread: f.B32("noise_thread"), column: f.B32("rows_of")}
	f.SubU32(n.thread, k.tid, ptx.Imm(first))
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
	k.f.BarWarpSync(ptx.Imm(0xFFFFFFFF))
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
	n.eachRow(n.thread, n.threads, n.column, "noise_row", n.rowConstants)
	f.BarSync(ptx.Imm(2), ptx.Threads(ptx.Imm(n.threads)))
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

// drawCodes writes the codes of one tile, a word at a time.
func (n *noisers) drawCodes(row ptx.B32) {
	f, run := n.f, 2*n.t.M
	word, columns, addr := f.B32("word"), f.B32("columns"), f.B32("code_addr")
	f.MovB32(word, n.thread)
	f.MovB32(columns, ptx.Imm(0))
	f.MadLoU32(addr, n.thread, ptx.Imm(4), n.smem)
	loop := f.Here("draw_word")
	f.StSharedB32(addr.Off(n.plan.Storage.Codes), n.word(row, word, columns))
	f.AddU32(addr, addr, ptx.Imm(4*n.threads))
	f.AddU32(word, word, ptx.Imm(n.threads))
	wrap, more := f.Pred("wrap"), f.Pred("more")
	f.SetpU32(ptx.GE, wrap, word, ptx.Imm(run))
	f.SubU32(word, word, ptx.Imm(run)).If(wrap)
	f.AddU32(columns, columns, ptx.Imm(tiling.CodeGroup)).If(wrap)
	f.SetpU32(ptx.LT, more, columns, ptx.Imm(n.t.N))
	f.Bra(loop).If(more)
}

// word draws the codes of one word.
func (n *noisers) word(row, word, columns ptx.B32) ptx.B32 {
	f := n.f
	id, low, first := f.B32("token"), f.B32(), f.B32("first_column")
	f.ShrU32(id, word, ptx.Imm(5))
	f.MadLoU32(id, id, ptx.Imm(16), row)
	f.ShrU32(low, word, ptx.Imm(2))
	f.AndB32(low, low, ptx.Imm(7))
	f.AddU32(id, id, low)
	f.AndB32(first, word, ptx.Imm(3))
	f.MadLoU32(first, first, ptx.Imm(n.layout.step), columns)
	records, pair := n.at(first, 16), pairState(f, id)
	var codes []ptx.B32
	for _, offset := range n.layout.offsets {
		high := n.tokens(records.Off(n.plan.Storage.Noise+16*offset), pair).high(f)
		least := f.B32("least_high")
		f.MinU32(least, high[0], high[1])
		codes = append(codes, codeOf(f, least))
	}
	return packCodes(f, codes)
}

// tokens runs the call of a pair of tokens for the row whose constants lie at an address.
func (k *skeleton) tokens(constants ptx.SharedAddr, pair pairNoise) tokenState {
	row := k.f.NewB32s("noise", 4)
	k.f.LdSharedV4B32(row, constants)
	return tokenRounds(k.f, rowNoise{row[0], row[1], row[2], row[3]}, pair)
}

// initNoiseBarriers initialises "drawn" (one arrival a warp that draws) and "read" (one a warp that samples).
func (k *skeleton) initNoiseBarriers(threads int) {
	if k.c.Sampler != ir.Gumbel {
		return
	}
	drawn := k.smem.Off(k.plan.Storage.Drawn)
	k.f.MbarrierInit(drawn, ptx.Imm(threads/32))
	k.f.MbarrierInit(k.smem.Off(k.plan.Storage.Drawn+8), ptx.Imm(k.plan.Pipeline.Samplers/32))
}
