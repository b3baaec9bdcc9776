package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// listEditor is what steps by lists have in common.
type listEditor struct {
	c       *samplers
	p       listParams
	found   foundList
	entries entries
}

func (e *listEditor) find(b *editBlock, some ptx.Pred) {
	e.found = e.c.find(b, e.p)
	e.c.f.OrPred(some, some, e.found.has)
}

func (e *listEditor) begin(b *editBlock, lane ptx.B32) {
	e.entries = e.c.entriesOf(b.l, e.p, e.found, b.first, lane)
}

// biasEditor adds a sparse bias.
type biasEditor struct {
	listEditor
	graph *ir.Graph
}

func (e *biasEditor) change(place ptx.B32, z ptx.F32) (ptx.F32, ptx.Pred) {
	f := e.c.f
	has, bits := e.entries.at(f, place)
	in := newInputs(z)
	in.f[ir.InBias] = f.F32("bias")
	f.MovB32(in.f[ir.InBias], bits)
	return lower(f, e.graph, in), has
}

// banEditor drops banned tokens.
type banEditor struct{ listEditor }

func (e *banEditor) change(place ptx.B32, _ ptx.F32) (ptx.F32, ptx.Pred) {
	has, _ := e.entries.at(e.c.f, place)
	return minusInf(e.c.f), has
}

// allowEditor drops what is in no allowed list, where rows have one.
type allowEditor struct{ listEditor }

func (e *allowEditor) find(b *editBlock, some ptx.Pred) {
	e.listEditor.find(b, some)
	e.c.dropColumns(b, e.found)
}

func (e *allowEditor) begin(b *editBlock, lane ptx.B32) {
	f := e.c.f
	e.listEditor.begin(b, lane)
	all := f.B32("allows_all")
	f.SelpB32(all, ptx.Imm(0), imm(f, fullWarp), e.found.listed)
	f.OrB32(e.entries.mask, e.entries.mask, fromLane(f, all, f.B32("column_allows_all"), lane))
}

func (e *allowEditor) change(place ptx.B32, _ ptx.F32) (ptx.F32, ptx.Pred) {
	f := e.c.f
	has := e.entries.has(f, place)
	f.NotPred(has, has)
	return minusInf(f), has
}

// dropColumns drops the run of rows whose lists allow none of it: nearly always that of all rows that have one.
func (c *samplers) dropColumns(b *editBlock, d foundList) {
	f := c.f
	all, columns, none, done := f.Pred("allows_none"), f.B32("dropped_columns"), f.Pred("none_dropped"), f.Label("columns_dropped")
	f.NotPred(all, d.has)
	f.AndPred(all, all, d.listed)
	f.VoteSyncBallotB32(columns, all, ptx.Imm(fullWarp))
	f.SetpU32(ptx.EQ, none, columns, ptx.Imm(0))
	f.Bra(done).If(none)
	b.l.drop(b.run, b.from, columns)
	f.Place(done)
}

// penaltyEditor lowers tokens that have been there, by lists of counts or by counts of all tokens.
type penaltyEditor struct {
	listEditor
	graph *ir.Graph

	slot    ptx.B32 // of the lane's column
	there   ptx.Pred
	dense   ptx.Pred  // counts of all tokens are given
	own     penalties // of the column that is changed
	inverse ptx.F32
	counts  ptx.B64
	first   ptx.B32
}

func (e *penaltyEditor) find(b *editBlock, some ptx.Pred) {
	f, c := e.c.f, e.c
	e.listEditor.find(b, some)
	e.dense, e.first = c.hasDense(), b.first
	e.slot, e.there = c.editedRow(b.column)
	b.l.ownColumn(b.column, e.there)
	skip, dense := f.Label("no_dense_counts"), f.Pred("dense_counts")
	f.Bra(skip).IfNot(e.dense)
	f.AndPred(dense, c.penaltiesOf(e.slot, e.there).on, e.there)
	f.OrPred(some, some, c.anyCount(b.l, c.denseCounts(e.slot), b.first, dense))
	f.Place(skip)
}

// begin loads the penalties of the column again: to keep those of 32 columns would take too many registers.
func (e *penaltyEditor) begin(b *editBlock, lane ptx.B32) {
	f := e.c.f
	e.listEditor.begin(b, lane)
	slot, there := fromLane(f, e.slot, f.B32("column_slot"), lane), f.Pred("has_row")
	f.SetpU32(ptx.NE, there, fromLane(f, e.c.flag(e.there), f.B32("column_has_row"), lane), ptx.Imm(0))
	e.own = e.c.penaltiesOf(slot, there)
	e.inverse = reciprocalOf(f, e.own.repetition)
	f.AndPred(e.own.on, e.own.on, e.dense)
	e.counts = e.c.denseCounts(slot)
}

// flag is 1 where a predicate holds, else 0.
func (c *samplers) flag(p ptx.Pred) ptx.B32 {
	bit := c.f.B32()
	c.f.SelpB32(bit, ptx.Imm(1), ptx.Imm(0), p)
	return bit
}

func (e *penaltyEditor) change(place ptx.B32, z ptx.F32) (ptx.F32, ptx.Pred) {
	f := e.c.f
	has, n := e.entries.at(f, place)
	id, valid := sum(f, e.first, place), f.Pred("valid")
	f.SelpB32(n, n, ptx.Imm(0), has)
	f.SetpAndU32(ptx.LT, valid, id, e.c.vocab, e.own.on)
	f.LdGlobalB32(n, entryAddr(f, e.counts, id, 1)).If(valid)
	f.SetpU32(ptx.NE, has, n, ptx.Imm(0))
	return e.penalized(z, n), has
}

// penalized is a logit lowered for a count.
func (e *penaltyEditor) penalized(z ptx.F32, count ptx.B32) ptx.F32 {
	f := e.c.f
	in, times := newInputs(z), f.B32("times")
	f.AndB32(times, count, ptx.Imm(int64(ir.CountOutput)))
	in.f[ir.InCount], in.p[ir.InSeen] = f.F32("times"), f.Pred("seen")
	f.CvtRnF32U32(in.f[ir.InCount], times)
	f.SetpU32(ptx.NE, in.p[ir.InSeen], count, ptx.Imm(0))
	in.f[ir.InRepetition], in.f[ir.InInverseRepetition] = e.own.repetition, e.inverse
	in.f[ir.InFrequency], in.f[ir.InPresence] = e.own.frequency, e.own.presence
	return lower(f, e.graph, in)
}

// denseCounts is where the counts of a slot's tokens stand.
func (c *samplers) denseCounts(slot ptx.B32) ptx.B64 {
	f := c.f
	at := f.B64("counts_row")
	f.MadWideU32(at, slot, c.bytes(loadU32(f, c.sig.edits.denseStride, "token_count_stride")), loadPointer(f, c.sig.edits.dense, "token_counts"))
	return at
}

// countsAtOnce is how many counts a lane has under way.
const countsAtOnce = 8

// anyCount looks through the counts of a run in the lane's own column. Most are 0.
func (c *samplers) anyCount(l *logits, counts ptx.B64, first ptx.B32, dense ptx.Pred) ptx.Pred {
	f := c.f
	id, end, any, has := f.B32("token"), f.B32("run_end"), f.B32("counts"), f.Pred("has_count")
	f.MovB32(id, first)
	f.AddU32(end, first, ptx.Imm(l.tokens))
	f.MovB32(any, ptx.Imm(0))
	next, more := f.Here("look_at_counts"), f.Pred("more")
	addr := entryAddr(f, counts, id, 1)
	for i := range countsAtOnce {
		n, at, there := f.B32("count"), f.B32(), f.Pred()
		f.AddU32(at, id, ptx.Imm(i))
		f.SetpAndU32(ptx.LT, there, at, c.vocab, dense)
		f.MovB32(n, ptx.Imm(0))
		f.LdGlobalB32(n, addr.Off(4*i)).If(there)
		f.OrB32(any, any, n)
	}
	f.AddU32(id, id, ptx.Imm(countsAtOnce))
	f.SetpU32(ptx.LT, more, id, end)
	f.Bra(next).If(more)
	f.SetpU32(ptx.NE, has, any, ptx.Imm(0))
	return has
}

// reciprocalOf is the rounded reciprocal of a positive, finite number.
func reciprocalOf(f *ptx.Func, x ptx.F32) ptx.F32 {
	d := f.F32("inverse")
	f.CvtRnF32F64(d, reciprocal(f, widen(f, x)))
	return d
}
