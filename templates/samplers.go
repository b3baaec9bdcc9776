package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// samplers are the threads that sample: what they know, whatever the architecture.
type samplers struct {
	*skeleton
	thread ptx.B32 // among the samplers
	column ptx.B32 // column tile whose rows are in shared memory

	maskBase, biasBase        ptx.B64
	maskStride, maskWords     ptx.B32
	biasStride                ptx.B32
	keys                      ptx.B64
	seeds, positions, temps   ptx.B64
	seedStride, posStride     ptx.B32
	tempStride, draw, tagWord ptx.B32

	blocks       blockLanes
	sums         sums
	partials     ptx.B64  // pairs of every row and CTA
	rowInTile    ptx.B32  // the thread's first row in the tile
	fresh        ptx.B32  // 1 while the rows have seen no tile yet
	final        ptx.Pred // the rows will see no other tile
	queue, count ptx.B32  // the warp's candidates that wait for their scores, and their number
	codes        ptx.B32  // address of the warp's codes, short of the storage's offset
}

// noColumn marks that no rows are in shared memory yet, lastColumn that none will come.
const (
	noColumn   = 0xFFFFFFFF
	lastColumn = 0xFFFFFFFE
)

func (c *samplers) loadParams() {
	f, s := c.f, c.sig
	c.keys = loadPointer(f, s.keys, "keys")
	if c.summing() {
		c.partials = loadPointer(f, s.partials, "lse_partials")
	}
	if c.c.Sampler.Random() {
		c.seeds, c.seedStride = loadPointer(f, s.seeds, "seeds"), loadU32(f, s.seedStride, "seed_stride")
		c.positions, c.posStride = loadPointer(f, s.positions, "positions"), loadU32(f, s.positionStride, "position_stride")
		c.draw, c.tagWord = loadU32(f, s.draw, "draw"), loadU32(f, s.tag, "stream_tag")
	}
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
	c.loadParams()
	c.column, c.count, c.queue, c.codes = f.B32("rows_of"), f.B32("waiting"), f.B32("queue"), f.B32("codes")
	c.fresh, c.final = f.B32("fresh_rows"), f.Pred("final_tile")
	f.MovB32(c.fresh, ptx.Imm(0))
	f.MovB32(c.column, ptx.Imm(noColumn))
	f.MovB32(c.count, ptx.Imm(0))
	warp := f.B32("sampler_warp")
	f.ShrU32(warp, c.thread, ptx.Imm(5))
	if c.queues() {
		f.MadLoU32(c.queue, warp, ptx.Imm(entryBytes*tiling.QueueEntries), c.smem)
	}
	f.MadLoU32(c.codes, warp, ptx.Imm(wordBytes*c.plan.Pipeline.CodeWords), c.smem)
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

// eachItem runs body for every item of the CTA, with the item's rows in shared memory, and then ends the role. body gets
// the item's first weights row.
func (c *samplers) eachItem(name string, body func(row ptx.B32)) {
	f := c.f
	finish := f.Label("finish")
	n := f.B32("item")
	f.MovB32(n, c.first)
	loop := f.Here(name)
	column, row := c.item(n)
	past := f.Pred("past")
	f.SetpU32(ptx.GE, past, n, c.work)
	f.MovB32(column, ptx.Imm(lastColumn)).If(past)
	c.changeRows(column, past, finish)
	f.AddU32(n, n, c.stride)
	c.findFinal(n)
	body(row)
	f.MovB32(c.fresh, ptx.Imm(0))
	f.Bra(loop)
	f.Place(finish)
	c.finish()
}

// findFinal sets final if the next item is of other rows, or none.
func (c *samplers) findFinal(next ptx.B32) {
	f := c.f
	column, none := f.B32("next_column"), f.Pred("no_next")
	f.DivU32(column, next, c.groups)
	if c.t.Split {
		f.MadLoU32(column, column, ptx.Imm(c.t.Cluster), c.rank)
	}
	f.SetpU32(ptx.GE, none, next, c.work)
	f.SetpOrU32(ptx.NE, c.final, column, c.column, none)
}
