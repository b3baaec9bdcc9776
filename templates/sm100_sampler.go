package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// lanesGroup is the columns that a thread takes from tensor memory at a time.
const lanesGroup = 16

// tensorSampler is a thread that samples from tensor memory: it owns one lane, that is one token of the tile.
type tensorSampler struct {
	*samplers
	k       *sm100
	quarter ptx.B32  // lanes 32 quarter and up of tensor memory are this warp's
	first   ptx.B32  // the warp's first column
	upper   ptx.Pred // bit 3 of the token is set
	maskBit ptx.B32
	tensor  ptx.B32 // address of the warp's lanes
}

// sampler emits the warps that sample.
func (k *sm100) sampler() {
	f := k.f
	f.Comment("Samplers: transform, sample.")
	c := &tensorSampler{samplers: &samplers{skeleton: k.skeleton}, k: k}
	c.coordinates()
	c.loadParams()
	c.column = f.B32("rows_of")
	f.MovB32(c.column, ptx.Imm(noColumn))
	b := k.newRing(0)
	c.eachItem("sample_item", func(row ptx.B32) {
		t := c.newTile(row)
		shared := c.publishBests()
		c.fetchBests(shared)
		slot := k.bufferAt(b.stage)
		k.wait(slot.Off(k.fullTile(0)), b.phase, "wait_tile_full")
		f.Tcgen05FenceAfterThreadSync()
		c.adoptBests(shared)
		c.epilogue(t, b.stage)
		f.Tcgen05FenceBeforeThreadSync()
		leader := f.Pred("leader")
		f.SetpU32(ptx.EQ, leader, c.lane, ptx.Imm(0))
		f.BarWarpSync(ptx.Imm(0xFFFFFFFF))
		f.MbarrierArrive(slot.Off(k.emptyTile(0))).If(leader)
		k.nextBuffer(b)
	})
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
	bit := f.B32()
	c.upper = f.Pred("upper_token")
	f.AndB32(bit, c.lane, ptx.Imm(8))
	f.SetpB32(ptx.NE, c.upper, bit, ptx.Imm(0))
	if c.c.Chain.Mask {
		c.maskBit = f.B32("mask_bit")
		f.MovB32(c.maskBit, ptx.Imm(1))
		f.ShlB32(c.maskBit, c.maskBit, c.lane)
	}
}

// laneTile is what the thread knows of the current tile.
type laneTile struct {
	tokenInputs
	pair pairNoise
}

func (c *tensorSampler) newTile(row ptx.B32) *laneTile {
	f := c.f
	t := &laneTile{}
	id, valid := f.B32("token"), f.Pred("valid")
	f.MadLoU32(id, c.quarter, ptx.Imm(32), c.lane)
	f.AddU32(id, id, row)
	f.SetpU32(ptx.LT, valid, id, c.vocab)
	t.tokenInputs = c.startTile([]ptx.B32{id}, []ptx.Pred{valid})
	if c.c.Sampler == ir.Gumbel {
		pair := f.B32("pair")
		f.AndB32(pair, id, ptx.Imm(0xFFFFFFF7))
		t.pair = pairState(f, pair)
	}
	return t
}

// epilogue samples from one accumulator, a group of columns at a time; two warps that share lanes take turns.
func (c *tensorSampler) epilogue(t *laneTile, buffer ptx.B32) {
	f := c.f
	f.Comment("Epilogue: transform, perturb and compare.")
	columns, more := f.B32("columns"), f.Pred("more")
	address := f.B32("tensor_column")
	f.MovB32(columns, c.first)
	f.MadLoU32(address, buffer, ptx.Imm(c.t.N), c.tensor)
	f.AddU32(address, address, c.first)
	head := f.Here("epilogue_group")
	raw := f.NewB32s("raw", lanesGroup)
	f.Tcgen05Ld32x32b(raw, address)
	f.Tcgen05WaitLd()
	c.group(t, raw, columns)
	step := lanesGroup * c.plan.Pipeline.Samplers / 128
	f.AddU32(columns, columns, ptx.Imm(step))
	f.AddU32(address, address, ptx.Imm(step))
	f.SetpU32(ptx.LT, more, columns, ptx.Imm(c.t.N))
	f.Bra(head).If(more)
}

// group scores the thread's token for a group of rows.
func (c *tensorSampler) group(t *laneTile, raw []ptx.B32, columns ptx.B32) {
	var noise *lanePair
	c.compare(columns, len(raw), func(i int) int { return i }, func(i int) element {
		z := c.f.F32("z")
		c.f.MovB32(z, raw[i])
		e := element{offset: i, tokens: []candidate{{in: newInputs(z), id: t.ids[0], valid: t.valid[0]}}}
		c.rowInputs(&t.tokenInputs, e.tokens, columns, i, []ptx.B32{c.maskBit})
		c.scaleInputs(e.tokens, columns, i)
		if c.c.Sampler == ir.Gumbel {
			if i%2 == 0 {
				noise = c.lanePair(t, columns, i)
			}
			e.tokens[0].in.u[ir.InHigh] = noise.high[i%2]
			pair, j := noise, i%2
			e.low = func() []ptx.B32 { return []ptx.B32{pair.low()[j]} }
		}
		return e
	}, []int{16, 8, 4, 2, 1})
}

// lanePair is the noise of the thread's token for two adjacent rows. A call serves two tokens 8 apart, which here are two
// lanes' own: of the two lanes, each makes the call of one row, for both, and they swap.
type lanePair struct {
	high [2]ptx.B32
	low  func() [2]ptx.B32
}

func (c *tensorSampler) lanePair(t *laneTile, columns ptx.B32, offset int) *lanePair {
	f, s := c.f, c.plan.Storage
	mine, half := f.B32("noise_row"), f.B32()
	f.SelpB32(half, ptx.Imm(1), ptx.Imm(0), c.upper)
	f.AddU32(mine, columns, half)
	row := f.NewB32s("noise", 4)
	f.LdSharedV4B32(row, c.at(mine, 16).Off(s.Noise+16*offset))
	state := tokenRounds(f, rowNoise{row[0], row[1], row[2], row[3]}, t.pair)
	p := &lanePair{high: c.swap(state.high(f))}
	var low *[2]ptx.B32
	p.low = func() [2]ptx.B32 {
		if low == nil {
			words := c.swap(state.low(f))
			low = &words
		}
		return *low
	}
	return p
}

// swap turns the words that this lane made, for the lower and the upper token of one row, into those of its own token for
// both rows: a lane with bit 3 clear made the first row's, its partner the second's.
func (c *tensorSampler) swap(words [2]ptx.B32) [2]ptx.B32 {
	f := c.f
	keep, send, got := f.B32(), f.B32(), f.B32()
	f.SelpB32(keep, words[1], words[0], c.upper)
	f.SelpB32(send, words[0], words[1], c.upper)
	f.ShflSyncBflyB32(got, send, ptx.Imm(8), ptx.Imm(31), ptx.Imm(0xFFFFFFFF))
	first, second := f.B32("bits"), f.B32("bits")
	f.SelpB32(first, got, keep, c.upper)
	f.SelpB32(second, keep, got, c.upper)
	return [2]ptx.B32{first, second}
}
