package templates

import (
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// lanesGroup is the columns that a thread takes from tensor memory at a time.
const lanesGroup = 16

// tensorSampler is a thread that samples from tensor memory: it owns one lane, that is one token of the tile.
type tensorSampler struct {
	*samplers
	k       *sm100
	quarter ptx.B32 // lanes 32 quarter and up of tensor memory are this warp's
	first   ptx.B32 // the warp's first column
	layout  codeLayout
	words   ptx.B32 // address of the words of the thread's block, short of the storage's offset
	maskBit ptx.B32
	tensor  ptx.B32 // address of the warp's lanes
}

// sampler emits the warps that sample.
func (k *sm100) sampler() {
	f := k.f
	f.Comment("Samplers: transform, sample.")
	c := &tensorSampler{samplers: &samplers{skeleton: k.skeleton, blocks: sm100Blocks, sums: sums{lanes: sm100SumLanes}}, k: k}
	c.coordinates()
	c.layout = sm100Codes(k.plan)
	c.begin()
	c.sums.apart = true
	c.samplers.beginSums(c.quarter, lanesGroup, func(element ptx.B32) ptx.B32 { return element })
	c.threadCodes()
	b := k.newRing(0)
	c.eachItem("sample_item", func(s span) {
		t := c.newTile(s)
		c.locate(s)
		shared, tops := c.publishBests(), c.newTops()
		c.serveRows()
		c.fetchBests(shared)
		c.fetchTops(tops)
		c.drawTile(s.row)
		slot := k.bufferAt(b.stage)
		k.wait(slot.Off(k.fullTile(0)), b.phase, "wait_tile_full")
		f.Tcgen05FenceAfterThreadSync()
		c.adoptBests(shared)
		c.adoptTops(tops)
		if c.editing() {
			c.edit(c.logits(s, t, b.stage), func() {
				if c.keepsUnedited() && c.summing() {
					c.sumGroups(t, b.stage)
				}
			})
		}
		c.epilogue(t, b.stage)
		f.Tcgen05FenceBeforeThreadSync()
		leader := f.Pred("leader")
		f.SetpU32(ptx.EQ, leader, c.lane, ptx.Imm(0))
		f.BarWarpSync(ptx.Imm(0xFFFFFFFF))
		f.MbarrierArrive(slot.Off(k.emptyTile(0))).If(leader)
		k.nextBuffer(b)
	}, nil)
}

func (c *tensorSampler) coordinates() {
	f := c.f
	c.thread, c.quarter, c.first = f.B32("sampler_thread"), f.B32("quarter"), f.B32("first_column")
	f.SubU32(c.thread, c.tid, ptx.Imm(32*samplerWarp))
	f.AndB32(c.quarter, c.k.warp, ptx.Imm(3))
	f.ShrU32(c.first, c.thread, ptx.Imm(7))
	f.MulLoU32(c.first, c.first, ptx.Imm(lanesGroup))
	c.tensor = f.B32("warp_lanes")
	f.ShlB32(c.tensor, c.quarter, ptx.Imm(21)) // lanes in the high half of an address, 32 of them a warp
	f.AddU32(c.tensor, c.tensor, c.k.tensor)
	c.rowInTile = f.B32("row_in_tile")
	f.MadLoU32(c.rowInTile, c.quarter, ptx.Imm(32), c.lane)
	if c.c.Chain.Mask {
		c.maskBit = f.B32("mask_bit")
		f.MovB32(c.maskBit, ptx.Imm(1))
		f.ShlB32(c.maskBit, c.maskBit, c.lane)
	}
}

// sm100Codes is what a warp draws: its 32 rows are two blocks, and a thread has all columns of the warp's groups.
func sm100Codes(p *tiling.Plan) codeLayout {
	share := p.Pipeline.Samplers / 128
	return codeLayout{blocks: 2, between: 1, groups: (p.Tile.N/lanesGroup + share - 1) / share, stride: lanesGroup * share, step: 4,
		offsets: []int{0, 1, 2, 3}}
}

// threadCodes finds the words of the thread's block among those of the warp.
func (c *tensorSampler) threadCodes() {
	f := c.f
	c.words = f.B32("block_in_warp")
	f.ShrU32(c.words, c.lane, ptx.Imm(4))
	f.MadLoU32(c.words, c.words, ptx.Imm(wordBytes*c.layout.run()), c.codes)
}

// drawTile draws the noise of the warp's 32 rows of the tile.
func (c *tensorSampler) drawTile(row ptx.B32) {
	block := c.f.B32("warp_block")
	c.f.MadLoU32(block, c.quarter, ptx.Imm(warpSize), row)
	c.f.ShrU32(block, block, ptx.Imm(4))
	c.drawCodes(c.layout, block, c.first)
}

// laneTile is what the thread knows of the current tile.
type laneTile struct {
	tokenInputs
	pad ptx.F32
}

func (c *tensorSampler) newTile(s span) *laneTile {
	f := c.f
	id, valid := f.B32("token"), f.Pred("valid")
	f.AddU32(id, c.rowInTile, s.row)
	f.SetpU32(ptx.LT, valid, id, s.end)
	c.notBefore(valid, id)
	return &laneTile{c.startTile([]ptx.B32{id}, []ptx.Pred{valid}), c.padOf(valid)}
}

// epilogue samples from one accumulator.
func (c *tensorSampler) epilogue(t *laneTile, buffer ptx.B32) {
	c.f.Comment("Epilogue: transform, bound and compare.")
	if c.ranking() {
		c.eachGroup(t, buffer, "rank_group", c.countAhead)
		return
	}
	c.seedBests(func() { c.eachGroup(t, buffer, "floor_group", c.seed) })
	if c.summing() && !c.keepsUnedited() {
		c.whereAdding(func() { c.sumGroups(t, buffer) })
	}
	c.sumSecond(t, buffer)
	c.whereSurveying(func() { c.eachGroup(t, buffer, "survey_group", c.survey) })
	c.eachGroup(t, buffer, "epilogue_group", c.compare)
}

// sumGroups adds the tile up in a pass of its own: with what the comparison keeps of 16 columns there are not registers enough.
func (c *tensorSampler) sumGroups(t *laneTile, buffer ptx.B32) {
	c.eachGroup(t, buffer, "sum_group", func(g group) { c.addUpAll(g, c.scanSums(g)) })
}

// eachGroup runs body for groups of columns; two warps that share lanes take turns.
func (c *tensorSampler) eachGroup(t *laneTile, buffer ptx.B32, name string, body func(g group)) {
	c.visitGroups(t, buffer, name, body, nil)
}

// visitGroups is eachGroup, with something to do with the address and the logits of a group after body, if not nil.
func (c *tensorSampler) visitGroups(t *laneTile, buffer ptx.B32, name string, body func(g group), after func(at ptx.B32, raw []ptx.B32)) {
	f := c.f
	step := lanesGroup * c.plan.Pipeline.Samplers / 128
	columns, next, last := f.B32("columns"), f.B32("next_columns"), f.Pred("last_group")
	address, codes := f.B32("tensor_column"), f.B32("codes_addr")
	f.MovB32(columns, c.first)
	f.MadLoU32(address, buffer, ptx.Imm(c.t.N), c.tensor)
	f.AddU32(address, address, c.first)
	f.MovB32(codes, c.words)
	head := f.Here(name)
	raw := f.NewB32s("raw", lanesGroup)
	f.Tcgen05Ld32x32b(raw, address)
	f.Tcgen05WaitLd()
	f.AddU32(next, columns, ptx.Imm(step))
	f.SetpU32(ptx.GE, last, next, ptx.Imm(c.t.N))
	body(c.groupOf(t, raw, columns, codes, &last))
	if after != nil {
		after(address, raw)
	}
	f.MovB32(columns, next)
	f.AddU32(address, address, ptx.Imm(step))
	f.AddU32(codes, codes, ptx.Imm(codeRun))
	f.Bra(head).IfNot(last)
}

// groupOf is the thread's token against 16 rows.
func (c *tensorSampler) groupOf(t *laneTile, raw []ptx.B32, columns, codes ptx.B32, last *ptx.Pred) group {
	f := c.f
	words := append(f.NewB32s("code_words", 4), f.NewB32s("code_words", 4)...)
	if c.c.Sampler.Random() {
		f.LdSharedV4B32(words[:4], codes.Off(c.plan.Storage.Codes))
		f.LdSharedV4B32(words[4:], codes.Off(c.plan.Storage.Codes+16))
	}
	place := func(i int) int { return i }
	return group{columns: columns, id: t.ids[0], elements: len(raw), place: place, last: last, gather: func(g *group, i int) element {
		z := f.F32("z")
		f.MovB32(z, raw[i])
		e := element{offset: i, tokens: []candidate{{in: newInputs(z), pad: t.pad}}}
		if g.bare {
			return e
		}
		c.rowInputs(&t.tokenInputs, e.tokens, columns, i, []ptx.B32{c.maskBit})
		if c.c.Sampler.Random() {
			e.code = codeValue(f, words[i/4*2], i%4)
			e.place = c.placeOf(words[i/4*2+1], i%4)
		}
		return e
	}}
}
