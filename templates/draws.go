package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// Rows that draw several tokens (docs/draws.md) are collected like those that truncation narrows, but by their scores: the order of
// scores is that of the draws. So many tokens as a row draws are wanted, a mark holds the largest score of its tokens, and the
// record keeps its noise. A row that draws one token has no list: it is sampled here as ever. Rows that filters narrow are listed by
// their logits, however many tokens they draw.

// drawParams are the parameters of several draws.
type drawParams struct {
	counts, stride, most ptx.Param
}

// drawParams declares how many tokens rows draw, where they may draw several.
func (s *signature) drawParams(c ir.Computation) (p drawParams) {
	if c.Draws == ir.SingleDraw {
		return p
	}
	p.counts, p.stride = s.rows(ParamDrawCounts, "i32", ParamDrawCountStride)
	p.most = s.scalar(ParamMaxDraws)
	return p
}

// several reports whether rows may draw more tokens than one.
func (c *skeleton) several() bool { return c.c.Draws != ir.SingleDraw }

// load loads how many tokens the row in a slot draws, how many a row may draw, and whether the row's number is out of its range. A row
// without a slot draws one.
func (p drawParams) load(f *ptx.Func, s rowSlot) (n, most ptx.B32, bad ptx.Pred) {
	less := f.B32()
	n, most, bad = f.B32("draws"), loadU32(f, p.most, "max_draws"), f.Pred("bad_draws")
	s.loadB32(f, n, 1, loadPointer(f, p.counts, "draw_counts"), loadU32(f, p.stride, "draw_count_stride"))
	f.SubU32(less, n, ptx.Imm(1))
	f.SetpU32(ptx.GE, bad, less, most)
	f.SetpOrU32(ptx.GE, bad, less, ptx.Imm(ir.MaxDraws), bad)
	return n, most, bad
}

// listing says of a row at temperature t whether it is listed by its logits, since filters narrow it, or by its scores, since it
// draws several tokens. At T = 0 no filter matters to one token, and with replacement a row draws one again and again.
func listing(f *ptx.Func, c ir.Computation, narrows, several ptx.Pred, t ptx.F32) (byLogit, byScore ptx.Pred) {
	byLogit, byScore = f.Pred("listed_by_logit"), f.Pred("listed_by_score")
	warm, plain := f.Pred("warm"), f.Pred("not_narrowed")
	f.SetpF32(ptx.GT, warm, t, ptx.F32Imm(0))
	f.NotPred(plain, narrows)
	f.AndPred(byScore, several, plain)
	if c.Draws == ir.WithReplacement {
		f.AndPred(byScore, byScore, warm)
	} else {
		f.OrPred(warm, warm, several)
	}
	f.AndPred(byLogit, narrows, narrows)
	if !listsCold(c) {
		f.AndPred(byLogit, narrows, warm)
	}
	return byLogit, byScore
}

// several is how many tokens the row in a slot draws, as load has it, and whether they are more than one.
func (p drawParams) several(f *ptx.Func, s rowSlot) (n ptx.B32, several, bad ptx.Pred) {
	n, _, bad = p.load(f, s)
	several = f.Pred("draws_several")
	f.SetpU32(ptx.GT, several, n, ptx.Imm(1))
	return n, several, bad
}

// listDraws gives a row that draws several tokens its list. With replacement a row at T = 0 draws one token again and again. Its
// parameters are in the given slot, which is there.
func (c *samplers) listDraws(row, slot ptx.B32, r *rowRecord, l rowList, high, low ptx.B32) {
	f := c.f
	if c.c.RowScales() && !c.c.Chain.Temperature {
		f.MovF32(r.alpha, ptx.F32Imm(1))
		f.MovF32(r.tau, ptx.F32Imm(1))
	}
	n, _, bad := c.sig.several.load(f, rowSlot{index: slot})
	open, on := f.Pred("open"), f.Pred("listed_row")
	f.SetpU32(ptx.EQ, open, high, ptx.Imm(keyEmpty))
	f.AndPred(bad, open, bad)
	f.MovB32(high, ptx.Imm(keyFailed)).If(bad)
	f.MovB32(low, ptx.Imm(int64(ir.StatusBadParameter))).If(bad)
	f.SetpU32(ptx.EQ, on, high, ptx.Imm(keyEmpty))
	f.SetpAndU32(ptx.GT, on, n, ptx.Imm(1), on)
	if c.c.Draws == ir.WithReplacement {
		f.SetpAndF32(ptx.GT, on, r.tau, ptx.F32Imm(0), on)
	}
	f.MovB32(l.marks, marksOf(f, n)).If(on)
	f.MovB32(l.wanted, n).If(on)
	if c.addsSome() {
		f.OrPred(c.adds, c.adds, on)
		c.tellsSum(high)
	}
	f.MovF32(l.alpha, r.alpha)
	f.MovF32(l.tau, r.tau)
	if c.options.Further {
		c.reopen(row, r, l, high, low)
		f.SetpU32(ptx.NE, on, l.marks, ptx.Imm(0))
	}
	f.OrPred(c.lists, c.lists, on)
}

// addDraws declares what the resolving kernel writes.
func (s *signature) addDraws(c ir.Computation) (draws, scores ptx.Param) {
	draws = s.pointer(ParamDraws, "i32", "batch x max_draws", "write")
	if c.Draws == ir.WithoutReplacement {
		scores = s.pointer(ParamDrawScores, "f32", "batch x max_draws", "write")
	}
	return draws, scores
}

// drawsSeveral reports whether a row of the first pass has a list for its draws.
func (c *samplers) drawsSeveral(row ptx.B32) ptx.Pred {
	f, on := c.f, c.f.Pred("listed_row")
	n, _, _ := c.sig.several.load(f, c.slotOf(row))
	f.SetpU32(ptx.GT, on, n, ptx.Imm(1))
	if c.c.Chain.Temperature {
		f.SetpAndF32(ptx.GT, on, c.temperatureOf(row), ptx.F32Imm(0), on)
	}
	return on
}
