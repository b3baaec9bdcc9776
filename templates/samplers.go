package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// samplers are the threads that sample: what they know, whatever the architecture.
type samplers struct {
	*skeleton
	thread ptx.B32 // among the samplers
	column ptx.B32 // column tile whose rows are in shared memory

	maskBase, biasBase        ptx.B64
	maskStride, maskWords     ptx.B32
	biasStride                ptx.B32
	keys, slots               ptx.B64
	slotCount                 ptx.B32
	seeds, positions, temps   ptx.B64
	seedStride, posStride     ptx.B32
	tempStride, draw, tagWord ptx.B32

	edited      ptx.Pred // any row of the tile is edited
	lists, adds ptx.Pred // any row of the tile has a list; any needs its mass
	early       ptx.B32  // 1 until the CTA has seen its first tile
	surveys     ptx.Pred // any row of the tile is surveyed
	served      ptx.B32  // row of the tile whose marks the warp looks at next

	member   ptx.B32 // of the threads that sample a tile together
	turn     ptx.B32 // items that there have been, where warpgroups take turns
	group    ptx.B32 // warpgroup among the samplers
	blocks   blockLanes
	sums     sums
	partials ptx.B64 // pairs of every row and CTA
	outbox   *recordSink
	leave    func() // what threads do when the CTA leaves rows, if not nil
	exchange *exchange

	rowInTile    ptx.B32  // the thread's first row in the tile
	fresh        ptx.B32  // 1 while the rows have seen no tile yet
	final        ptx.Pred // the rows will see no other tile
	queue, count ptx.B32  // address of what the warp has to itself, short of the storage's offsets; the candidates that wait there
	codes        ptx.B32  // address of the warp's codes, short of the storage's offset
}

// noColumn marks that no rows are in shared memory yet, lastColumn that none will come.
const (
	noColumn   = 0xFFFFFFFF
	lastColumn = 0xFFFFFFFE
)

func (c *samplers) loadParams() {
	f, s := c.f, c.sig
	if c.ranking() {
		c.loadSlots()
		c.loadChain()
		return
	}
	c.keys = loadPointer(f, s.keys, "keys")
	if c.summing() {
		c.partials = loadPointer(f, s.partials, "lse_partials")
	}
	c.loadSlots()
	if c.c.Sampler.Random() {
		c.seeds, c.seedStride = loadPointer(f, s.seeds, "seeds"), loadU32(f, s.seedStride, "seed_stride")
		c.positions, c.posStride = loadPointer(f, s.positions, "positions"), loadU32(f, s.positionStride, "position_stride")
		c.draw, c.tagWord = loadU32(f, s.draw, "draw"), loadU32(f, s.tag, "stream_tag")
	}
	c.loadChain()
}

func (c *samplers) loadSlots() {
	if c.c.Slots {
		c.slots, c.slotCount = loadPointer(c.f, c.sig.slots, "slots"), loadU32(c.f, c.sig.slotCount, "slot_count")
	}
}

// loadChain loads where the parameters of the transforms are.
func (c *samplers) loadChain() {
	f, s := c.f, c.sig
	if c.c.Chain.Temperature {
		c.temps, c.tempStride = loadPointer(f, s.temperature, "temperature"), loadU32(f, s.temperatureStride, "temperature_stride")
	}
	if c.c.Chain.Bias != ir.BiasNone {
		c.biasBase = loadPointer(f, s.bias, "bias")
	}
	if c.c.Chain.Bias == ir.BiasMatrix {
		c.biasStride = c.bytes(loadU32(f, s.biasStride, "bias_stride"))
	}
	if c.c.Chain.Mask {
		c.maskBase = loadPointer(f, s.mask, "mask")
		c.maskStride = c.bytes(loadU32(f, s.maskStride, "mask_stride"))
		c.maskWords = loadU32(f, s.maskWords, "mask_words")
	}
}

// begin prepares what a thread keeps from item to item.
func (c *samplers) begin() {
	f := c.f
	f.Comment("Everything below reads memory that the grid before this one may still write.")
	f.GriddepcontrolWait()
	c.loadParams()
	c.column, c.count, c.queue, c.codes = f.B32("rows_of"), f.B32("waiting"), f.B32("queue"), f.B32("codes")
	c.fresh, c.final = f.B32("fresh_rows"), f.Pred("final_tile")
	f.MovB32(c.fresh, ptx.Imm(0))
	f.MovB32(c.column, ptx.Imm(noColumn))
	f.MovB32(c.count, ptx.Imm(0))
	warp := f.B32("sampler_warp")
	f.ShrU32(warp, c.thread, ptx.Imm(5))
	c.member = c.thread
	if c.t.PingPong {
		c.member, c.turn = f.B32("member"), f.B32("turn")
		f.AndB32(c.member, c.thread, ptx.Imm(c.plan.Pipeline.Team-1))
		f.MovB32(c.turn, ptx.Imm(0))
	}
	if c.plan.Storage.Own > 0 {
		f.MadLoU32(c.queue, warp, ptx.Imm(c.plan.Storage.Own), c.smem)
	}
	f.MadLoU32(c.codes, warp, ptx.Imm(wordBytes*c.plan.Pipeline.CodeWords), c.smem)
	if c.collecting() {
		c.beginService(warp)
	}
	if c.tops() {
		c.beginTops(warp)
	}
	if c.exchanges() {
		c.bringTable()
	}
}

// queues reports whether candidates wait for their scores: where noise is drawn for a block as a whole, none do.
func (c *samplers) queues() bool { return c.c.Sampler != ir.Grouped }

// bytes turns a stride in 4-byte elements into bytes.
func (c *samplers) bytes(elements ptx.B32) ptx.B32 {
	c.f.ShlB32(elements, elements, ptx.Imm(2))
	return elements
}

// sync is a barrier among the samplers alone.
func (c *samplers) sync() {
	c.f.BarSync(ptx.Imm(1), ptx.Threads(ptx.Imm(c.plan.Pipeline.Samplers)))
}

// teamSync is a barrier among the threads that sample a tile together.
func (c *samplers) teamSync() {
	if !c.t.PingPong {
		c.sync()
		return
	}
	id := c.f.B32("team_barrier")
	c.f.AddU32(id, c.group, ptx.Imm(2))
	c.f.BarSync(id, ptx.Threads(ptx.Imm(c.plan.Pipeline.Team)))
}

// span is the weights rows of an item, by ids: the first, their number, and the end of those that count.
type span struct{ row, rows, end ptx.B32 }

// eachItem runs body for every item of the CTA, or of the team where they take turns, with the item's rows in shared memory,
// and then ends the role. skip passes over an item of another team.
func (c *samplers) eachItem(name string, body func(s span), skip func()) {
	f := c.f
	finish := f.Label("finish")
	loop, n := c.items(name)
	d, past := c.recallDeal(), f.Pred("past")
	column, row, rows := c.item(n, d)
	f.SetpU32(ptx.GE, past, n, d.work)
	f.MovB32(column, ptx.Imm(lastColumn)).If(past)
	c.changeRows(column, past, finish)
	if c.t.PingPong {
		c.takeTurn(loop, skip)
		c.findFinal(c.nth(c.turn, 1))
	} else {
		f.AddU32(n, n, c.stride)
		c.findFinal(n)
	}
	s := span{row, rows, f.B32("rows_end")}
	f.AddU32(s.end, row, rows)
	c.toIDs(s)
	body(s)
	f.MovB32(c.fresh, ptx.Imm(0))
	f.Bra(loop)
	f.Place(finish)
	c.finish()
}

// items begins the loop over items. Where teams take turns, the item is found by how many there have been, which tells whose turn
// it is, too, and in which phase (waitTurn): one register for three.
func (c *samplers) items(name string) (loop *ptx.Label, n ptx.B32) {
	if c.t.PingPong {
		loop = c.f.Here(name)
		return loop, c.nth(c.turn, 0)
	}
	n = c.f.B32("item")
	c.f.MovB32(n, c.first)
	return c.f.Here(name), n
}

// nth is the item of the CTA that many and some more behind its first.
func (c *samplers) nth(count ptx.B32, more int) ptx.B32 {
	n := c.f.B32("item")
	if more != 0 {
		c.f.AddU32(n, count, ptx.Imm(more))
		count = n
	}
	first, stride := c.clusters()
	c.f.MadLoU32(n, count, stride, first)
	return n
}

// takeTurn counts the item, and goes back to the loop where it is another team's.
func (c *samplers) takeTurn(loop *ptx.Label, skip func()) {
	f := c.f
	whose, mine, taken := f.B32("turn_of"), f.Pred("my_turn"), f.Label("turn_taken")
	f.AndB32(whose, c.turn, ptx.Imm(1))
	f.AddU32(c.turn, c.turn, ptx.Imm(1))
	f.SetpU32(ptx.EQ, mine, whose, c.group)
	f.Bra(taken).If(mine)
	skip()
	f.Bra(loop)
	f.Place(taken)
}

// findFinal sets final if the next item is of other rows, or none.
func (c *samplers) findFinal(next ptx.B32) {
	f := c.f
	column, none, d := f.B32("next_column"), f.Pred("no_next"), c.recallDeal()
	f.DivU32(column, next, d.groups)
	if c.t.Split {
		f.MadLoU32(column, column, ptx.Imm(c.t.Cluster), c.rank)
	}
	f.SetpU32(ptx.GE, none, next, d.work)
	f.SetpOrU32(ptx.NE, c.final, column, c.column, none)
}
