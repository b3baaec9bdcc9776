package ir

// A sparse bias, penalties and lists of ids change few of a row's logits. Kernels change those where they stand, between the
// steps that all logits take, and go on with what is left of the chain as if the model had given them.

// Edit is one step from the model's logits to those that mask and temperature see.
type Edit struct {
	Kind EditKind
	// Graph computes a logit after the step from InLogit, that before it; nil for EditIDs.
	Graph *Graph
}

// EditKind says which logits a step changes.
type EditKind uint8

const (
	// EditAll changes all logits: scale and soft-cap, and a dense bias (InBias) where the graph reads one.
	EditAll EditKind = iota
	// EditBias adds a sparse bias to the tokens of a list (InBias).
	EditBias
	// EditPenalties lowers tokens that have been there (InSeen, InCount and a row's penalties).
	EditPenalties
	// EditIDs drops tokens by lists of ids.
	EditIDs
)

// Edits reports whether the chain has steps that change single logits.
func (c Chain) Edits() bool { return c.Bias == BiasSparse || c.Penalties || c.IDs }

// EditLists is the kinds of lists that the steps read: biases, counts, allowed and banned ids.
func (c Chain) EditLists() (n int) {
	if c.Bias == BiasSparse {
		n++
	}
	if c.Penalties {
		n++
	}
	if c.IDs {
		n += 2
	}
	return n
}

// Unedited is what is left of a chain behind its edits.
func (c Chain) Unedited() Chain {
	if !c.Edits() {
		return c
	}
	return Chain{Mask: c.Mask, Temperature: c.Temperature}
}

// EditSteps lists the steps of a chain that edits, in their order: together they compute what Logit does, to the last bit.
func (c Chain) EditSteps() (steps []Edit) {
	if !c.Edits() {
		return nil
	}
	all := Chain{Scale: c.Scale, Softcap: c.Softcap}
	bias := Edit{Kind: EditBias, Graph: Logit(Computation{Chain: Chain{Bias: BiasSparse}})}
	dense := c.Bias == BiasVector || c.Bias == BiasMatrix
	if dense && !c.BiasLast {
		all.Bias = c.Bias
	}
	if all.scaled() || all.Softcap != 0 || all.Bias != BiasNone {
		steps = append(steps, Edit{Kind: EditAll, Graph: Logit(Computation{Chain: all})})
	}
	if c.Bias == BiasSparse && !c.BiasLast {
		steps = append(steps, bias)
	}
	if c.Penalties {
		steps = append(steps, Edit{Kind: EditPenalties, Graph: Logit(Computation{Chain: Chain{Penalties: true}})})
	}
	switch {
	case c.BiasLast && dense:
		steps = append(steps, Edit{Kind: EditAll, Graph: Logit(Computation{Chain: Chain{Bias: c.Bias}})})
	case c.BiasLast:
		steps = append(steps, bias)
	}
	if c.IDs {
		steps = append(steps, Edit{Kind: EditIDs})
	}
	return steps
}
