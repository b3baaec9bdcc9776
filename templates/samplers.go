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
	keys                      ptx.B64
	seeds, positions, temps   ptx.B64
	seedStride, posStride     ptx.B32
	tempStride, draw, tagWord ptx.B32
}

// noColumn marks that no rows are in shared memory yet, lastColumn that none will come.
const (
	noColumn   = 0xFFFFFFFF
	lastColumn = 0xFFFFFFFE
)

func (c *samplers) loadParams() {
	f, s := c.f, c.sig
	c.keys = loadPointer(f, s.keys, "keys")
	if c.c.Sampler == ir.Gumbel {
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
	body(row)
	f.AddU32(n, n, c.stride)
	f.Bra(loop)
	f.Place(finish)
	c.finish()
}
