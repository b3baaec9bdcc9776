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

	maskBase, biasBase    ptx.B64
	maskStride, maskWords ptx.B32
	biasStride            ptx.B32
	keys, temps           ptx.B64
	tempStride            ptx.B32

	rowInTile    ptx.B32  // the thread's first row in the tile
	fresh        ptx.B32  // 1 while the rows have seen no tile yet
	final        ptx.Pred // the rows will see no other tile
	queue, count ptx.B32  // the warp's candidates that wait for their scores, and their number
	phase        ptx.B32  // of the codes
}

// noColumn marks that no rows are in shared memory yet, lastColumn that none will come.
const (
	noColumn   = 0xFFFFFFFF
	lastColumn = 0xFFFFFFFE
)

func (c *samplers) loadParams() {
	f, s := c.f, c.sig
	c.keys = loadPointer(f, s.keys, "keys")
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
	c.column, c.count, c.queue = f.B32("rows_of"), f.B32("waiting"), f.B32("queue")
	c.fresh, c.final = f.B32("fresh_rows"), f.Pred("final_tile")
	f.MovB32(c.fresh, ptx.Imm(0))
	f.MovB32(c.column, ptx.Imm(noColumn))
	f.MovB32(c.count, ptx.Imm(0))
	f.ShrU32(c.queue, c.thread, ptx.Imm(5))
	f.MadLoU32(c.queue, c.queue, ptx.Imm(entryBytes*tiling.QueueEntries), c.smem)
	if c.c.Sampler == ir.Gumbel {
		c.phase = f.B32("codes_phase")
		f.MovB32(c.phase, ptx.Imm(0))
	}
}

// withCodes runs body when the tile's codes are drawn, and says afterwards that they have been read.
func (c *samplers) withCodes(body func()) {
	if c.c.Sampler != ir.Gumbel {
		body()
		return
	}
	drawn := c.plan.Storage.Drawn
	c.wait(c.smem.Off(drawn), c.phase, "wait_codes_drawn")
	body()
	c.arriveWarp(c.smem.Off(drawn + 8))
	c.f.XorB32(c.phase, c.phase, ptx.Imm(1))
}

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
	f.SetpU32(ptx.GE, none, next, c.work)
	f.SetpOrU32(ptx.NE, c.final, column, c.column, none)
}
