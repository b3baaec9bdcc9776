package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// A row with slots has its parameters in the place that its slot names, not in its own. Slots are read from the device's memory,
// where no host has checked them: a row whose slot is none fails, and reads nothing.

// slotBytes is a slot.
const slotBytes = 4

// noSlot is that of a row without one; as an unsigned number no count is above it.
const noSlot = 0xFFFFFFFF

// slotOf returns where a row of the batch has its parameters, and whether that is a place; without slots, the row, and there is
// not set.
func (c *samplers) slotOf(row ptx.B32) (slot ptx.B32, there ptx.Pred) {
	if !c.c.Slots {
		return row, there
	}
	slot, there = c.f.B32("row_slot"), c.f.Pred("has_slot")
	c.f.LdGlobalB32(slot, rowAddr(c.f, c.slots, row))
	c.f.SetpU32(ptx.LT, there, slot, c.slotCount) // a negative one is large
	return slot, there
}

// findSlot is slotOf as a row is prepared: without a place the row has failed, and is stored as it is.
func (c *samplers) findSlot(row, high, low, kept ptx.B32, store *ptx.Label) ptx.B32 {
	slot, there := c.slotOf(row)
	if c.c.Slots {
		c.f.MovB32(high, ptx.Imm(keyFailed)).IfNot(there)
		c.f.MovB32(low, ptx.Imm(int64(ir.StatusBadParameter))).IfNot(there)
		c.f.Bra(store).IfNot(there)
		c.f.MovB32(kept, slot)
	}
	return slot
}

// temperatureOf loads a row's temperature; that of a row without a slot, which has failed, is 1.
func (c *samplers) temperatureOf(row ptx.B32) ptx.F32 {
	t := c.f.F32("temperature")
	switch {
	case !c.c.Chain.Temperature:
		c.f.MovF32(t, ptx.F32Imm(1))
	case c.c.Slots:
		slot, there := c.slotOf(row)
		c.f.MovF32(t, ptx.F32Imm(1))
		c.f.LdGlobalF32(t, c.perRow(c.temps, slot, c.tempStride, 4)).If(there)
	default:
		c.f.LdGlobalF32(t, c.perRow(c.temps, row, c.tempStride, 4))
	}
	return t
}

// keepsSlots reports whether the epilogue has need of slots.
func (c *skeleton) keepsSlots() bool {
	return c.c.Slots && (c.c.Chain.Mask || c.c.Chain.Bias == ir.BiasMatrix)
}

// parametersOf returns where the row in a column has its bias and its mask, and whether it has any: not past the batch.
func (c *samplers) parametersOf(columns ptx.B32, offset int) (place ptx.B32, active ptx.Pred) {
	f := c.f
	if c.c.Slots {
		place, active = f.B32("row_slot"), f.Pred("active")
		f.LdSharedB32(place, c.at(columns, slotBytes).Off(c.plan.Storage.Slots+slotBytes*offset))
		f.SetpU32(ptx.LT, active, place, c.slotCount)
		return place, active
	}
	place, active = f.B32("batch_row"), f.Pred("active")
	f.MadLoU32(place, c.column, ptx.Imm(c.t.N), columns)
	f.AddU32(place, place, ptx.Imm(offset))
	f.SetpU32(ptx.LT, active, place, c.batch)
	return place, active
}
