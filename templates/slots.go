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

// rowSlot is where a row has its parameters: in its own place, or in the one that it names, if there is such a one.
type rowSlot struct {
	index ptx.B32
	named bool
	there ptx.Pred // not set unless it is named
}

// namedSlot is the slot that a row names.
func namedSlot(f *ptx.Func, slots ptx.B64, count, row ptx.B32) rowSlot {
	s := rowSlot{f.B32("row_slot"), true, f.Pred("has_slot")}
	f.LdGlobalB32(s.index, rowAddr(f, slots, row))
	f.SetpU32(ptx.LT, s.there, s.index, count) // a negative one is large
	return s
}

// loadF32 loads a parameter of the slot; without the slot it is none.
func (s rowSlot) loadF32(f *ptx.Func, d ptx.F32, none float64, base ptx.B64, stride ptx.B32) {
	if s.named {
		f.MovF32(d, ptx.F32Imm(none))
	}
	s.guard(f.LdGlobalF32(d, rowAt(f, base, s.index, stride, 4)))
}

func (s rowSlot) loadB32(f *ptx.Func, d ptx.B32, none int64, base ptx.B64, stride ptx.B32) {
	if s.named {
		f.MovB32(d, ptx.Imm(none))
	}
	s.guard(f.LdGlobalB32(d, rowAt(f, base, s.index, stride, 4)))
}

// loadV2B32 loads the two words of a parameter of 8 bytes; without the slot they are 0.
func (s rowSlot) loadV2B32(f *ptx.Func, d []ptx.B32, base ptx.B64, stride ptx.B32) {
	if s.named {
		for _, w := range d {
			f.MovB32(w, ptx.Imm(0))
		}
	}
	s.guard(f.LdGlobalV2B32(d, rowAt(f, base, s.index, stride, 8)))
}

func (s rowSlot) guard(load *ptx.Instr) {
	if s.named {
		load.If(s.there)
	}
}

// slotOf returns where a row of the batch has its parameters.
func (c *samplers) slotOf(row ptx.B32) rowSlot {
	if !c.c.Slots {
		return rowSlot{index: row}
	}
	return namedSlot(c.f, c.slots, c.slotCount, row)
}

// findSlot is slotOf as a row is prepared: without a place the row has failed, and is stored as it is.
func (c *samplers) findSlot(row, high, low, kept ptx.B32, store *ptx.Label) ptx.B32 {
	s := c.slotOf(row)
	if s.named {
		c.f.MovB32(high, ptx.Imm(keyFailed)).IfNot(s.there)
		c.f.MovB32(low, ptx.Imm(int64(ir.StatusBadParameter))).IfNot(s.there)
		c.f.Bra(store).IfNot(s.there)
		c.f.MovB32(kept, s.index)
	}
	return s.index
}

// temperatureOf loads a row's temperature; that of a row without a slot, which has failed, is 1.
func (c *samplers) temperatureOf(row ptx.B32) ptx.F32 {
	t := c.f.F32("temperature")
	if !c.c.Chain.Temperature {
		c.f.MovF32(t, ptx.F32Imm(1))
		return t
	}
	s := c.slotOf(row)
	s.loadF32(c.f, t, 1, c.temps, c.tempStride)
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
