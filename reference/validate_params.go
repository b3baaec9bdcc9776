package reference

import (
	"fmt"

	"github.com/fsgen/fsgen/ir"
)

// wanted holds a parameter with one value a slot, or one for all, to whether the computation takes it.
func (r *Request) wanted(asked bool, field string, have int, feature string) error {
	if !asked {
		return unusedBy(asked, field, have, feature)
	}
	return r.perRow(field, have)
}

// optional is wanted for a parameter that may be left out.
func (r *Request) optional(asked bool, field string, have int, feature string) error {
	if have == 0 {
		return nil
	}
	return r.wanted(asked, field, have, feature)
}

// lists checks one list a slot, or one for all, that may be left out.
func lists[T any](r *Request, field string, all [][]T, valid func([]T, int) *ir.IDError) error {
	if all == nil {
		return nil
	}
	if err := r.perRow(field, len(all)); err != nil {
		return err
	}
	for slot, list := range all {
		if err := valid(list, r.Shape.Vocab); err != nil {
			return &FieldError{Field: field, Row: slot, Rule: err.Rule, Value: fmt.Sprintf("id %d", err.ID)}
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

func (r *Request) validateTruncation() error {
	t := r.Computation.Truncation
	return first(r.wanted(t.TopK, "TopK", len(r.TopK), "top-k"), r.wanted(t.TopP, "TopP", len(r.TopP), "top-p"),
		r.wanted(t.MinP, "MinP", len(r.MinP), "min-p"))
}

func (r *Request) validatePenalties() error {
	asked := r.Computation.Chain.Penalties
	err := first(r.optional(asked, "Repetition", len(r.Repetition), "penalties"), r.optional(asked, "Frequency", len(r.Frequency), "penalties"),
		r.optional(asked, "Presence", len(r.Presence), "penalties"), unusedBy(asked, "Counts", len(r.Counts), "penalties"),
		unusedBy(asked, "CountLists", len(r.CountLists), "penalties"))
	switch {
	case err != nil || !asked:
		return err
	case r.Counts == nil:
		return lists(r, "CountLists", r.CountLists, ir.ValidCounts)
	case r.CountLists != nil:
		return wrong("CountLists", "set", "none beside Counts")
	case r.CountStride == 0:
		return matrix("Counts", len(r.Counts), 1, r.Shape.Vocab, r.Shape.Vocab)
	}
	return matrix("Counts", len(r.Counts), r.slots(), r.Shape.Vocab, r.CountStride)
}

func (r *Request) validateIDs() error {
	if !r.Computation.Chain.IDs {
		return first(unused("AllowIDs", len(r.AllowIDs), "lists of ids"), unused("BanIDs", len(r.BanIDs), "lists of ids"))
	}
	return first(lists(r, "AllowIDs", r.AllowIDs, ir.ValidIDs), lists(r, "BanIDs", r.BanIDs, ir.ValidIDs))
}

func (r *Request) validateDraws() error {
	return r.optional(r.Computation.Draws != ir.SingleDraw, "DrawCounts", len(r.DrawCounts), "draws")
}

func (r *Request) validateListed() error {
	if err := r.wanted(r.Computation.Listed, "ListIDs", len(r.ListIDs), "listed log-probabilities"); err != nil {
		return err
	}
	return lists(r, "ListIDs", r.ListIDs, ir.ValidIDs)
}
