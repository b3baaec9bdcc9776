package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// A sparse bias, penalties and lists of ids change few of a row's logits, and are lists themselves: sorted by id, anywhere in
// global memory. So nothing looks for them token by token. Where a tile begins in every row's lists is found once a tile
// (edit_places.go); between its product and its epilogue, each warp goes on from there to the few ids that it holds, and changes
// those logits where the product has left them: in accumulators, or in tensor memory. What follows is the kernel of the rest of the chain (ir.Chain.Unedited), and sees no difference. Where no row
// of a column tile has a list, a tile is one branch dearer.
//
// The lists of a kind are one array of entries, and for each row (or slot) a span of it: its first entry and their number, or
// noList. No host sees them: a span that leaves the array, more entries than tokens, entries that do not rise by id or leave the
// vocabulary, and penalties out of range fail their row (bad-parameter), and nothing is read past the array. A kind whose spans
// are at address 0 has no lists.

// noList is the number of entries where a row has no list. Others may be empty: an allowed list is then one that allows nothing.
const noList = 0xFFFFFFFF

// spanBytes is the first entry and the number of entries.
const spanBytes = 8

// listParams are the parameters of the lists of one kind.
type listParams struct {
	spans, stride, entries, total ptx.Param
	words                         int // of an entry: its id, and a value
}

// editParams are the parameters of edits, those that a computation has.
type editParams struct {
	bias, counts, allow, ban     listParams
	dense, denseStride           ptx.Param // counts of all tokens
	repetition, repetitionStride ptx.Param
	frequency, frequencyStride   ptx.Param
	presence, presenceStride     ptx.Param
}

// list declares the lists of a kind.
func (s *signature) list(spans, stride, entries, total string, words int) listParams {
	shape := total
	if words == 2 {
		shape += " x 2"
	}
	l := listParams{words: words}
	l.spans, l.stride = s.pointer(spans, "u32", s.sets+" x "+stride+" x 2", "read"), s.scalar(stride)
	l.entries, l.total = s.pointer(entries, "u32", shape, "read"), s.scalar(total)
	return l
}

// addEdits declares what a chain's edits read.
func (s *params) addEdits(c ir.Chain) {
	e := &s.edits
	if c.Bias == ir.BiasSparse {
		e.bias = s.list(ParamBiasSpans, ParamBiasSpanStride, ParamBiasEntries, ParamBiasEntryCount, 2)
	}
	if c.Penalties {
		e.repetition, e.repetitionStride = s.rows(ParamRepetition, "f32", ParamRepetitionStride)
		e.frequency, e.frequencyStride = s.rows(ParamFrequency, "f32", ParamFrequencyStride)
		e.presence, e.presenceStride = s.rows(ParamPresence, "f32", ParamPresenceStride)
		e.counts = s.list(ParamCountSpans, ParamCountSpanStride, ParamCountEntries, ParamCountEntryCount, 2)
		e.dense = s.pointer(ParamTokenCounts, "u32", s.sets+" x token_count_stride, vocab of each", "read")
		e.denseStride = s.scalar(ParamTokenCountStride)
	}
	if c.IDs {
		e.allow = s.list(ParamAllowSpans, ParamAllowSpanStride, ParamAllowIDs, ParamAllowIDCount, 1)
		e.ban = s.list(ParamBanSpans, ParamBanSpanStride, ParamBanIDs, ParamBanIDCount, 1)
	}
}

// lists are those that a chain has.
func (p *editParams) lists(c ir.Chain) (lists []listParams) {
	if c.Bias == ir.BiasSparse {
		lists = append(lists, p.bias)
	}
	if c.Penalties {
		lists = append(lists, p.counts)
	}
	if c.IDs {
		lists = append(lists, p.allow, p.ban)
	}
	return lists
}

// editing reports whether the kernel changes single logits.
func (c *skeleton) editing() bool { return c.whole.Chain.Edits() }

// beginEdits is ahead of the records of a tile's rows, agreeOnEdits the barrier behind them.
func (c *samplers) beginEdits() {
	if c.editing() {
		c.edited = c.f.Pred("edited_rows")
		c.f.SetpU32(ptx.NE, c.edited, c.lane, c.lane)
	}
}

func (c *samplers) agreeOnEdits() {
	c.f.BarRedOrPred(c.edited, ptx.Imm(1), c.edited, ptx.Threads(ptx.Imm(c.plan.Pipeline.Samplers)))
}

// prepareEdits checks what a row is edited by, and notes that one is.
func (c *samplers) prepareEdits(slot, high, low ptx.B32) {
	if !c.editing() {
		return
	}
	f := c.f
	there, bad := f.Pred("has_slot"), f.Pred("bad_edit")
	f.SetpU32(ptx.EQ, there, slot, slot)
	f.SetpU32(ptx.NE, bad, slot, slot)
	for _, l := range c.sig.edits.lists(c.whole.Chain) {
		s := c.spanOf(l, slot, there)
		if l == c.sig.edits.counts { // which mean nothing without a penalty
			p := c.penaltiesOf(slot, there)
			p.check(f, bad)
			f.OrPred(s.listed, s.listed, c.hasDense())
			f.AndPred(s.listed, s.listed, p.on)
		}
		f.OrPred(c.edited, c.edited, s.listed)
		f.OrPred(bad, bad, s.bad)
	}
	f.SetpAndU32(ptx.EQ, bad, high, ptx.Imm(keyEmpty), bad)
	f.MovB32(high, ptx.Imm(keyFailed)).If(bad)
	f.MovB32(low, ptx.Imm(int64(ir.StatusBadParameter))).If(bad)
}

// listSpan is a row's part of the entries of its kind.
type listSpan struct {
	begin, end  ptx.B32
	listed, bad ptx.Pred
}

// spanOf loads a row's span, if p holds; without a list it is empty.
func (c *samplers) spanOf(l listParams, slot ptx.B32, p ptx.Pred) listSpan {
	f := c.f
	s := listSpan{f.B32("list_begin"), f.B32("list_end"), f.Pred("listed"), f.Pred("bad_list")}
	pair, total, none := f.NewB32s("list_span", 2), loadU32(f, l.total, "entries"), imm(f, noList)
	f.MovB32(pair[0], ptx.Imm(0))
	f.MovB32(pair[1], none)
	at := loadPointer(f, l.spans, "list_spans")
	f.SetpAndU64(ptx.NE, s.listed, at, ptx.Imm(0), p)
	f.LdGlobalV2B32(pair, c.perRow(at, slot, loadU32(f, l.stride, "span_stride"), spanBytes)).If(s.listed)
	f.SetpAndU32(ptx.NE, s.listed, pair[1], none, s.listed)
	room, long := f.B32(), f.Pred("long_list")
	f.SetpU32(ptx.GT, s.bad, pair[0], total)
	f.SubU32(room, total, pair[0])
	f.MinU32(room, room, c.vocab)
	f.SetpU32(ptx.GT, long, pair[1], room)
	f.OrPred(s.bad, s.bad, long)
	f.AndPred(s.bad, s.bad, s.listed)
	f.NotPred(long, s.bad)
	f.AndPred(s.listed, s.listed, long)
	f.SelpB32(s.begin, pair[0], ptx.Imm(0), s.listed)
	f.AddU32(s.end, pair[0], pair[1])
	f.SelpB32(s.end, s.end, ptx.Imm(0), s.listed)
	return s
}

// penalties are a row's.
type penalties struct {
	repetition, frequency, presence ptx.F32
	on                              ptx.Pred // any of them is
}

// penaltiesOf loads a row's penalties, if p holds; those at address 0 are off.
func (c *samplers) penaltiesOf(slot ptx.B32, p ptx.Pred) penalties {
	f, e := c.f, &c.sig.edits
	load := func(base, stride ptx.Param, off float32, name string) ptx.F32 {
		x, at, there := f.F32(name), loadPointer(f, base, name), f.Pred("given")
		f.MovF32(x, ptx.F32Imm(off))
		f.SetpAndU64(ptx.NE, there, at, ptx.Imm(0), p)
		f.LdGlobalF32(x, c.perRow(at, slot, loadU32(f, stride, name+"_stride"), 4)).If(there)
		return x
	}
	d := penalties{load(e.repetition, e.repetitionStride, 1, "repetition"), load(e.frequency, e.frequencyStride, 0, "frequency"),
		load(e.presence, e.presenceStride, 0, "presence"), f.Pred("penalised")}
	f.SetpF32(ptx.NEU, d.on, d.repetition, ptx.F32Imm(1))
	f.SetpOrF32(ptx.NEU, d.on, d.frequency, ptx.F32Imm(0), d.on)
	f.SetpOrF32(ptx.NEU, d.on, d.presence, ptx.F32Imm(0), d.on)
	return d
}

// check sets bad where a penalty is out of its range (ir.ValidRepetition, ir.ValidPenalty).
func (p penalties) check(f *ptx.Func, bad ptx.Pred) {
	f.SetpOrF32(ptx.LTU, bad, p.repetition, ptx.F32Imm(ir.MinRepetition), bad)
	f.SetpOrF32(ptx.GTU, bad, p.repetition, ptx.F32Imm(ir.MaxRepetition), bad)
	for _, x := range []ptx.F32{p.frequency, p.presence} {
		size := f.F32()
		f.AbsF32(size, x)
		f.SetpOrF32(ptx.GTU, bad, size, ptx.F32Imm(math.MaxFloat32), bad)
	}
}

// hasDense holds if counts of all tokens are given.
func (c *samplers) hasDense() ptx.Pred {
	p := c.f.Pred("dense_counts")
	c.f.SetpU64(ptx.NE, p, loadPointer(c.f, c.sig.edits.dense, "token_counts"), ptx.Imm(0))
	return p
}
