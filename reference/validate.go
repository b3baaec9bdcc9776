package reference

import "github.com/fsgen/fsgen/ir"

// Validate reports the first rule that the request breaks, as a *FieldError (or as ir's error for the shape and the
// computation). Sample checks the same, except that it gives rows with a bad temperature, or another parameter out of its
// range, a status, as a kernel does.
func (r *Request) Validate() error {
	if err := r.validateLayout(); err != nil {
		return err
	}
	for i, t := range r.Temperature {
		if ir.ValidTemperature(t) != nil {
			return &FieldError{Field: "Temperature", Row: i, Rule: "a number from 0 to 2^100", Value: t}
		}
	}
	for slot := range r.slots() {
		p := r.params(slot)
		if err := p.validate(r.Computation, r.Shape.Vocab); err != nil {
			err.Row = slot
			return err
		}
	}
	return nil
}

func (r *Request) validateLayout() error {
	if r.Batch < 0 {
		return wrong("Batch", r.Batch, "0 or more")
	}
	if err := r.Computation.Validate(); err != nil {
		return err
	}
	for _, check := range []func() error{
		r.validateSpan, r.validateLogits, r.validateSlots, r.validateNoise, r.validateTemperature, r.validateBias, r.validateMask,
		r.validateTruncation, r.validatePenalties, r.validateIDs, r.validateDraws, r.validateListed,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// validateSpan holds the span of a shard to what shards are done for.
func (r *Request) validateSpan() error {
	switch {
	case r.Computation.Shard == ir.Whole:
		if r.Span != (ir.Span{}) {
			return wrong("Span", r.Span, "none: the computation is of the whole vocabulary")
		}
		return nil
	case r.surveyed():
		return wrong("Span", r.Span, "none with truncation, several draws, log-probabilities or ranks")
	}
	return r.Computation.ValidSpan(0, r.Span, r.Shape.Vocab)
}

func (r *Request) validateLogits() error {
	shape := r.Shape
	if r.Logits != nil {
		shape.Hidden = 1 // no hidden states, so any hidden size will do
	}
	if err := shape.Validate(); err != nil {
		return err
	}
	if r.Logits == nil {
		if err := matrix("H", len(r.H), r.Batch, r.Shape.Hidden, r.ldh()); err != nil {
			return err
		}
		return matrix("W", len(r.W), r.span().Count, r.Shape.Hidden, r.ldw())
	}
	if r.H != nil || r.W != nil {
		return wrong("Logits", "set", "no H and no W beside it")
	}
	if n := len(r.Logits); n != r.Shape.Vocab && n != r.Batch*r.Shape.Vocab {
		return wrong("len(Logits)", n, "%d or %d rows of that", r.Shape.Vocab, r.Batch)
	}
	return nil
}

// matrix checks rows of cols elements, ld apart; the last row may end early.
func matrix(field string, have, rows, cols, ld int) error {
	if ld < cols {
		return wrong("LD"+field, ld, "at least the row length %d", cols)
	}
	if rows > 0 && have < (rows-1)*ld+cols {
		return wrong("len("+field+")", have, "at least %d: %d rows of %d, %d apart", (rows-1)*ld+cols, rows, cols, ld)
	}
	return nil
}

func exactLength(field string, have, want int) error {
	if have != want {
		return wrong("len("+field+")", have, "%d", want)
	}
	return nil
}

func (r *Request) perRow(field string, have int) error {
	if n := r.slots(); have != n && have != 1 {
		return wrong("len("+field+")", have, "1 or the %s %d", r.slotsName(), n)
	}
	return nil
}

func (r *Request) slotsName() string {
	if r.Computation.Slots {
		return "number of slots"
	}
	return "batch size"
}

func (r *Request) validateSlots() error {
	if !r.Computation.Slots {
		return unusedBy(r.Computation.Slots, "Slots", len(r.Slots), "slots")
	}
	if err := exactLength("Slots", len(r.Slots), r.Batch); err != nil {
		return err
	}
	if row, err := ir.ValidSlots(r.Slots, r.SlotCount); err != nil {
		return &FieldError{Field: "Slots", Row: row, Rule: err.Error(), Value: r.Slots[row]}
	}
	return nil
}

func (r *Request) validateNoise() error {
	if r.Noise != nil {
		if r.Computation.Sampler != ir.Gumbel {
			return wrong("Noise", "set", "none for a %s sampler", r.Computation.Sampler)
		}
		return exactLength("Noise", len(r.Noise), r.Batch*r.Shape.Vocab)
	}
	if !r.Computation.Sampler.Random() {
		return nil
	}
	if err := r.perRow("Seeds", len(r.Seeds)); err != nil {
		return err
	}
	return r.perRow("Positions", len(r.Positions))
}

func (r *Request) validateTemperature() error {
	if !r.Computation.Chain.Temperature {
		return unused("Temperature", len(r.Temperature), "temperature")
	}
	return r.perRow("Temperature", len(r.Temperature))
}

func (r *Request) validateBias() error {
	switch r.Computation.Chain.Bias {
	case ir.BiasVector:
		if r.BiasStride != 0 {
			return wrong("BiasStride", r.BiasStride, "0 for one bias vector")
		}
		return matrix("Bias", len(r.Bias), 1, r.Shape.Vocab, r.Shape.Vocab)
	case ir.BiasMatrix:
		if r.BiasStride < r.Shape.Vocab {
			return wrong("BiasStride", r.BiasStride, "at least the vocabulary size %d", r.Shape.Vocab)
		}
		return matrix("Bias", len(r.Bias), r.slots(), r.Shape.Vocab, r.BiasStride)
	case ir.BiasSparse:
		if err := unused("Bias", len(r.Bias), "dense bias"); err != nil {
			return err
		}
		return lists(r, "BiasLists", r.BiasLists, ir.ValidBias)
	default:
		if err := unused("BiasLists", len(r.BiasLists), "sparse bias"); err != nil {
			return err
		}
		return unused("Bias", len(r.Bias), "bias")
	}
}

func (r *Request) validateMask() error {
	if !r.Computation.Chain.Mask {
		return unused("Mask", len(r.Mask), "mask")
	}
	if r.MaskWords < 0 {
		return wrong("MaskWords", r.MaskWords, "0 or more")
	}
	rows := r.slots()
	if r.MaskStride == 0 {
		rows = min(rows, 1)
	} else if r.MaskStride < r.MaskWords {
		return wrong("MaskStride", r.MaskStride, "0 or at least MaskWords %d", r.MaskWords)
	}
	return matrix("Mask", len(r.Mask), rows, r.MaskWords, max(r.MaskStride, r.MaskWords))
}

// unused refuses a parameter that nothing would read.
func unused(field string, have int, transform string) error {
	if have != 0 {
		return wrong("len("+field+")", have, "0: the chain has no %s", transform)
	}
	return nil
}

// unusedBy refuses a parameter of a feature that the computation has not.
func unusedBy(asked bool, field string, have int, feature string) error {
	if !asked && have != 0 {
		return wrong("len("+field+")", have, "0: the computation has no %s", feature)
	}
	return nil
}
