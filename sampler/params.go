package sampler

import (
	"fmt"
	"math"

	"github.com/fsgen/fsgen/ir"
)

// setSlots finds how many sets of parameters there are.
func (b *batch) setSlots(c ir.Computation, r Rows) error {
	b.slots = b.rows
	if !c.Slots {
		if r.Slots != nil || r.SlotCount != 0 {
			return &InputError{"slots", "the plan has none", nil}
		}
		return nil
	}
	if len(r.Slots) != b.rows {
		return &InputError{"slots", fmt.Sprintf("want %d values, one a row", b.rows), fmt.Sprintf("%d values", len(r.Slots))}
	}
	if r.SlotCount < min(b.rows, 1) || r.SlotCount > math.MaxInt32 { // no rows want none
		return &InputError{"slot count", fmt.Sprintf("want 1 to %d", math.MaxInt32), r.SlotCount}
	}
	if row, err := ir.ValidSlots(r.Slots, r.SlotCount); err != nil {
		return &InputError{fmt.Sprintf("slot of row %d", row), "want " + err.Error(), r.Slots[row]}
	}
	b.slots = r.SlotCount
	return nil
}

// of names one of n values of a parameter.
func (b *batch) of(field string, i, n int) string {
	switch {
	case n == 1 && b.slots != 1:
		return field + " of all rows"
	case b.params.Slots != nil:
		return fmt.Sprintf("%s of slot %d", field, i)
	}
	return fmt.Sprintf("%s of row %d", field, i)
}

// oneOrEach says how many of something there may be: one for all, or one a slot.
func (b *batch) oneOrEach(what string) string {
	switch b.slots {
	case 0:
		return "1 " + what + ", or none for no rows"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("1 or %d %ss", b.slots, what)
}

// values checks a parameter with one value a slot, or one for all, that is there exactly where the plan takes it; optional
// ones may be left out.
func values[T any](b *batch, asked, optional bool, field string, list []T, valid func(T) error) error {
	if len(list) == 0 && (!asked || optional) {
		return nil
	}
	if !asked {
		return &InputError{field, "the plan has none", nil}
	}
	if err := b.perRow(field, len(list)); err != nil {
		return err
	}
	for i, x := range list {
		if err := valid(x); err != nil {
			return &InputError{b.of(field, i, len(list)), "want " + err.Error(), x}
		}
	}
	return nil
}

// lists is values for lists of ids, or of what has one.
func lists[T any](b *batch, asked, optional bool, field string, all [][]T, valid func([]T, int) *ir.IDError) error {
	if err := values(b, asked, optional, field, all, func([]T) error { return nil }); err != nil {
		return err
	}
	for i, list := range all {
		if err := valid(list, b.shape.Vocab); err != nil {
			return &InputError{b.of(field, i, len(all)), "want " + err.Rule, fmt.Sprintf("id %d", err.ID)}
		}
	}
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) checkBiasLists(c ir.Computation, r Rows) error {
	return lists(b, c.Chain.Bias == ir.BiasSparse, true, "sparse bias", r.BiasLists, ir.ValidBias)
}

func (b *batch) checkIDs(c ir.Computation, r Rows) error {
	return first(lists(b, c.Chain.IDs, true, "allowed ids", r.AllowIDs, ir.ValidIDs),
		lists(b, c.Chain.IDs, true, "banned ids", r.BanIDs, ir.ValidIDs))
}

func (b *batch) checkPenalties(c ir.Computation, r Rows) error {
	asked := c.Chain.Penalties
	return first(values(b, asked, true, "repetition penalty", r.Repetition, ir.ValidRepetition),
		values(b, asked, true, "frequency penalty", r.Frequency, ir.ValidPenalty),
		values(b, asked, true, "presence penalty", r.Presence, ir.ValidPenalty))
}

// checkCounts also tells one vector of counts from one for each row.
func (b *batch) checkCounts(c ir.Computation, r Rows) error {
	if err := lists(b, c.Chain.Penalties, true, "counts", r.CountLists, ir.ValidCounts); err != nil {
		return err
	}
	v, stride := b.shape.Vocab, max(r.CountStride, b.shape.Vocab)
	switch want := (b.slots-1)*stride + v; {
	case r.Counts == nil && r.CountStride == 0:
		return nil
	case !c.Chain.Penalties:
		return &InputError{"counts", "the plan's transform has no penalties", nil}
	case r.CountLists != nil:
		return &InputError{"counts", "want them for every token, or lists of them: not both", nil}
	case r.CountStride != 0 && r.CountStride < v:
		return &InputError{"count stride", fmt.Sprintf("want %d or more", v), r.CountStride}
	case len(r.Counts) == v && r.CountStride == 0:
		b.params.CountStride = 0
	case b.slots > 0 && len(r.Counts) < want:
		return &InputError{"counts", fmt.Sprintf("want [%d], or [%d, %d]: %d values", v, b.slots, v, want), fmt.Sprintf("%d values", len(r.Counts))}
	default:
		b.params.CountStride = stride
	}
	return nil
}

func (b *batch) checkTruncation(c ir.Computation, r Rows) error {
	t := c.Truncation
	topK := func(k int32) error { return ir.ValidTopK(int(k), b.shape.Vocab) }
	return first(values(b, t.TopK, false, "top-k", r.TopK, topK), values(b, t.TopP, false, "top-p", r.TopP, ir.ValidTopP),
		values(b, t.MinP, false, "min-p", r.MinP, ir.ValidMinP))
}

func (b *batch) checkDraws(c ir.Computation, r Rows) error {
	if b.drawCounts = r.DrawCounts; c.Draws != ir.SingleDraw && r.DrawCounts == nil {
		b.drawCounts = []int32{int32(c.MaxDraws)}
	}
	valid := func(n int32) error { return ir.ValidDraws(int(n), c.MaxDraws) }
	return values(b, c.Draws != ir.SingleDraw, true, "number of draws", r.DrawCounts, valid)
}

func (b *batch) checkListed(c ir.Computation, r Rows) error {
	return lists(b, c.Listed, false, "listed ids", r.ListIDs, ir.ValidIDs)
}
