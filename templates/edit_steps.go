package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// edit takes the logits of a tile from what the product has left to what the epilogue starts from. Steps that follow each other
// and change single logits are one: a token that several lists name is looked at once.
func (c *samplers) edit(l *logits, sums func()) {
	c.f.Comment("Edits: steps that change single logits, of the rows that have any.")
	var lists []ir.Edit
	for _, step := range append(c.whole.Chain.EditSteps(), ir.Edit{Kind: ir.EditAll}) {
		if step.Kind != ir.EditAll {
			lists = append(lists, step)
			continue
		}
		if len(lists) > 0 {
			sums()
			c.editSome(l, lists)
			lists = nil
		}
		if step.Graph != nil {
			l.all(func(g group) []element { return c.editAll(g, step.Graph) })
		}
	}
}

// editAll changes the logits of a group, in their registers.
func (c *samplers) editAll(g group, graph *ir.Graph) (elements []element) {
	g.bare = true
	for i := range g.elements {
		e := g.gather(&g, i)
		if graph.Reads(ir.InBias) {
			c.denseBias(&g, i, e.tokens)
		}
		for _, t := range e.tokens {
			c.f.MovF32(t.in.f[ir.InLogit], lower(c.f, graph, t.in))
		}
		elements = append(elements, e)
	}
	return elements
}

// denseBias loads the dense bias of an element's tokens.
func (c *samplers) denseBias(g *group, i int, tokens []candidate) {
	f := c.f
	base, there := loadPointer(f, c.sig.bias, "bias"), f.Pred("has_row")
	f.SetpB32(ptx.EQ, there, c.lane, c.lane)
	if c.whole.Chain.Bias == ir.BiasMatrix {
		column, slot := f.B32("column"), ptx.B32{}
		f.AddU32(column, g.columns, ptx.Imm(g.place(i)))
		slot, there = c.editedRow(column)
		f.MadWideU32(base, slot, c.bytes(loadU32(f, c.sig.biasStride, "bias_stride")), base)
	}
	for j := range tokens {
		id, valid := f.B32("token"), f.Pred("valid")
		f.AddU32(id, g.id, ptx.Imm(tokens[j].below))
		f.SetpAndU32(ptx.LT, valid, id, c.vocab, there)
		tokens[j].in.f[ir.InBias] = c.guardedLoad(entryAddr(f, base, id, 1), valid, "bias")
	}
}

// editor is one step for the columns of a block: what its lanes have found of their columns, and how a column's logits change.
type editor interface {
	// find looks the lane's own column up, and sets some if anything there changes in the run.
	find(b *editBlock, some ptx.Pred)
	// begin is for the column of a lane, before its tokens; the whole warp is there.
	begin(b *editBlock, lane ptx.B32)
	// change computes the logit of the token of a place after the step, and whether the step has to do with it.
	change(place ptx.B32, z ptx.F32) (after ptx.F32, has ptx.Pred)
}

// editBlock is a run of the warp's tokens in up to 32 columns, each a lane's.
type editBlock struct {
	l                        *logits
	run, first, from, column ptx.B32
}

func (c *samplers) editors(steps []ir.Edit) (list []editor) {
	for _, step := range steps {
		switch step.Kind {
		case ir.EditBias:
			list = append(list, &biasEditor{listEditor{c: c, p: c.sig.edits.bias}, step.Graph})
		case ir.EditPenalties:
			list = append(list, &penaltyEditor{listEditor: listEditor{c: c, p: c.sig.edits.counts}, graph: step.Graph})
		case ir.EditIDs:
			list = append(list, &allowEditor{listEditor{c: c, p: c.sig.edits.allow}}, &banEditor{listEditor{c: c, p: c.sig.edits.ban}})
		}
	}
	return list
}

// editSome runs steps that change single logits, where any row of the tile has any.
func (c *samplers) editSome(l *logits, steps []ir.Edit) {
	f, skip := c.f, c.f.Label("unedited")
	f.Bra(skip).IfNot(c.edited)
	c.teamSync() // every list's place is known
	c.eachBlock(l, func(b *editBlock) {
		some, list := f.Pred("some_edited"), c.editors(steps)
		f.SetpU32(ptx.NE, some, c.lane, c.lane)
		for _, e := range list {
			e.find(b, some)
		}
		c.eachColumn(some, func(lane ptx.B32) {
			for _, e := range list {
				e.begin(b, lane)
			}
			column := sum(f, b.from, lane)
			l.change(b.run, column, func(z []ptx.F32, mine ptx.Pred) {
				var taken []takenToken
				for i, place := range l.places {
					taken = append(taken, c.changeToken(b, list, column, place, z[i], mine))
				}
				c.sumTakenOut(column, taken)
			})
			c.refineFull()
		})
	})
	f.Place(skip)
}

// changeToken takes the steps for one token of each lane whose column it is. Where the log-probability is of the logits without
// edits, an edited token is taken out of the tile, and waits for its score with both.
func (c *samplers) changeToken(b *editBlock, list []editor, column, place ptx.B32, z ptx.F32, mine ptx.Pred) (t takenToken) {
	f, after, touched := c.f, c.f.F32("z_edited"), c.f.Pred("touched")
	f.MovF32(after, z)
	f.SetpU32(ptx.NE, touched, c.lane, c.lane)
	for _, e := range list {
		by, has := e.change(place, after)
		f.MovF32(after, by).If(has)
		f.OrPred(touched, touched, has)
	}
	f.AndPred(touched, touched, mine)
	if c.keepsUnedited() {
		t = takenToken{sum(f, b.first, place), after, touched}
		c.takeOut(t.id, column, after, z, touched)
		after = minusInf(f)
	}
	f.MovF32(z, after).If(touched)
	return t
}

// takeOut queues tokens with their logits after and before the edits. Those of a column fit the queue.
func (c *samplers) takeOut(id, column ptx.B32, after, before ptx.F32, out ptx.Pred) {
	f, counts := c.f, c.f.Pred("taken_out")
	f.SetpAndF32(ptx.NEU, counts, after, minusInf(f), out) // a NaN fails its row
	c.among(counts, id, counts)
	if c.surveying() { // as refine is told
		flagged := f.B32()
		f.OrB32(flagged, column, imm(f, takenOut))
		column = flagged
	}
	c.enqueue(after, before, id, column, counts)
}

// takenOut marks the column of a candidate that was taken out of its tile, so that a survey of the tile has not seen it.
const takenOut = 1 << 31

// surveyTakenOut adds the weights of candidates that were taken out of their tiles to the bins of their rows, and returns the columns.
func (c *samplers) surveyTakenOut(flagged, id ptx.B32, in func(column ptx.B32) inputs, valid ptx.Pred) (column ptx.B32, full inputs) {
	f := c.f
	column = f.B32("column")
	f.AndB32(column, flagged, ptx.Imm(takenOut-1))
	full = in(column)
	out, other, done, mode := f.Pred("taken_out"), f.Label("not_surveyed"), f.Label("taken_out_surveyed"), f.Pred("surveyed")
	f.SetpAndU32(ptx.NE, out, flagged, column, valid)
	f.Bra(done).IfNot(out)
	w := &weigher{f: f, power: ir.Power2(), length: f.B32("vocab_bits"), most: f.B64("max_weight")}
	w.measure(c.vocab)
	pad, d, row := f.F32("pad"), c.furtherRow(column), c.batchRow(column)
	f.MovF32(pad, ptx.F32Imm(0))
	g, t := group{id: id}, candidate{in: full, pad: pad}
	f.SetpU32(ptx.EQ, mode, d.mode, ptx.Imm(passSurvey))
	f.Bra(other).IfNot(mode)
	w.top, w.scale = d.top, d.scale
	c.surveyToken(w, row, g, t)
	f.Place(other)
	if countsKept(c.c) {
		c.addKept(w, d, row, g, []candidate{t})
	}
	f.Place(done)
	return column, full
}

// refineFull scores what waits of the tokens that have been taken out, if it fills the warp.
func (c *samplers) refineFull() {
	if !c.keepsUnedited() {
		return
	}
	f, few, done := c.f, c.f.Pred("few"), c.f.Label("few_taken_out")
	f.SetpU32(ptx.LT, few, c.count, ptx.Imm(warpSize))
	f.Bra(done).If(few)
	c.refine()
	f.Place(done)
}

// keepsUnedited reports whether candidates wait with their logits before the edits too, of which the log-probability is.
func (c *skeleton) keepsUnedited() bool {
	return c.editing() && c.whole.LogProb.OfModel() && !c.ranking() && (c.collecting() || !c.options.Further)
}

func minusInf(f *ptx.Func) ptx.F32 {
	x := f.F32()
	f.MovB32(x, ptx.Imm(floatMinusInf))
	return x
}

func sum(f *ptx.Func, a, b ptx.B32) ptx.B32 {
	d := f.B32()
	f.AddU32(d, a, b)
	return d
}
