package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// filterParams are the parameters of truncation, those that a computation has.
type filterParams struct {
	topK, topKStride ptx.Param
	topP, topPStride ptx.Param
	minP, minPStride ptx.Param
}

// addFilters declares one value a row for each filter.
func (s *params) addFilters(c ir.Computation) {
	if !c.Collects() {
		return
	}
	s.filters = s.filterParams(c)
}

func (s *signature) filterParams(c ir.Computation) (p filterParams) {
	if c.Truncation.TopK {
		p.topK, p.topKStride = s.rows(ParamTopK, "i32", ParamTopKStride)
	}
	if c.Truncation.TopP {
		p.topP, p.topPStride = s.rows(ParamTopP, "f32", ParamTopPStride)
	}
	if c.Truncation.MinP {
		p.minP, p.minPStride = s.rows(ParamMinP, "f32", ParamMinPStride)
	}
	return p
}

// filters is where the filters of rows are.
type filters struct {
	t                                  ir.Truncation
	topK, topP, minP                   ptx.B64
	topKStride, topPStride, minPStride ptx.B32
}

func loadFilters(f *ptx.Func, p filterParams, t ir.Truncation) filters {
	r := filters{t: t}
	if t.TopK {
		r.topK, r.topKStride = loadPointer(f, p.topK, "top_k"), loadU32(f, p.topKStride, "top_k_stride")
	}
	if t.TopP {
		r.topP, r.topPStride = loadPointer(f, p.topP, "top_p"), loadU32(f, p.topPStride, "top_p_stride")
	}
	if t.MinP {
		r.minP, r.minPStride = loadPointer(f, p.minP, "min_p"), loadU32(f, p.minPStride, "min_p_stride")
	}
	return r
}

// filter is one row's filters.
type filter struct {
	k             ptx.B32 // 0 for off
	p, minP       ptx.F32 // not set without the filter
	byP, byMinP   ptx.Pred
	narrows, bad  ptx.Pred // any is on; any is out of its range
	marks, wanted ptx.B32  // of the row, and how many of them are to reach its bound
}

// defaultWanted is how many tokens are listed at least of a row whose k does not say how many matter. A nucleus of more than so
// many tokens may need more passes.
const defaultWanted = 128

// A row has marksFor times the marks that are to reach its bound, as far as a warp's registers hold them (boundMarks). Then about one
// token more in seven reaches the bound than are wanted; where there are no more marks than wanted, m ln m do.
const (
	marksFor   = 4
	boundMarks = warpSize * boundMarksLane
	// boundMarksLane are the marks of a row that a lane holds.
	boundMarksLane = 8
)

// of loads the filters in a slot; a row without one has none.
func (r filters) of(f *ptx.Func, s rowSlot, vocab ptx.B32) filter {
	d := filter{k: f.B32("k"), narrows: f.Pred("narrows"), bad: f.Pred("bad_filter"), marks: f.B32("row_marks"), wanted: f.B32("wanted")}
	f.MovB32(d.k, ptx.Imm(0))
	f.SetpU32(ptx.NE, d.narrows, s.index, s.index)
	f.SetpU32(ptx.NE, d.bad, s.index, s.index)
	f.MovB32(d.wanted, ptx.Imm(defaultWanted))
	if r.t.TopK {
		r.loadTopK(f, s, vocab, &d)
	}
	if r.t.TopP {
		d.p, d.byP = f.F32("p"), f.Pred("by_p")
		s.loadF32(f, d.p, 1, r.topP, r.topPStride)
		f.SetpOrF32(ptx.LTU, d.bad, d.p, ptx.F32Imm(0), d.bad)
		f.SetpF32(ptx.LT, d.byP, d.p, ptx.F32Imm(1))
		f.OrPred(d.narrows, d.narrows, d.byP)
	}
	if r.t.MinP {
		d.minP, d.byMinP = f.F32("min_p"), f.Pred("by_min_p")
		s.loadF32(f, d.minP, 0, r.minP, r.minPStride)
		f.SetpOrF32(ptx.LTU, d.bad, d.minP, ptx.F32Imm(0), d.bad)
		f.SetpOrF32(ptx.GTU, d.bad, d.minP, ptx.F32Imm(1), d.bad)
		f.SetpF32(ptx.GT, d.byMinP, d.minP, ptx.F32Imm(0))
		f.OrPred(d.narrows, d.narrows, d.byMinP)
	}
	f.MovB32(d.marks, marksOf(f, d.wanted))
	return d
}

// marksOf is how many marks a row has for a number that are to reach its bound.
func marksOf(f *ptx.Func, wanted ptx.B32) ptx.B32 {
	marks := f.B32("marks")
	f.MulLoU32(marks, wanted, ptx.Imm(marksFor))
	f.MinU32(marks, marks, ptx.Imm(boundMarks))
	f.MaxU32(marks, marks, wanted)
	return marks
}

// loadTopK loads a row's k: at 0 and below, and from the vocabulary on, it is off.
func (r filters) loadTopK(f *ptx.Func, s rowSlot, vocab ptx.B32, d *filter) {
	k, on := f.B32(), f.Pred("by_k")
	s.loadB32(f, k, 0, r.topK, r.topKStride)
	f.SetpS32(ptx.GT, on, k, ptx.Imm(0))
	f.SetpAndU32(ptx.LT, on, k, vocab, on)
	f.SetpAndU32(ptx.GT, d.bad, k, ptx.Imm(ir.MaxTopK), on)
	f.MovB32(d.k, k).If(on)
	f.MovB32(d.wanted, k).If(on)
	f.MinU32(d.wanted, d.wanted, ptx.Imm(manifest.RowMarks))
	f.OrPred(d.narrows, d.narrows, on)
}

// rowAt returns the address of a row's value of the given size.
func rowAt(f *ptx.Func, base ptx.B64, row, stride ptx.B32, size int) ptx.B64 {
	index, addr := f.B32(), f.B64()
	f.MulLoU32(index, row, stride)
	f.MadWideU32(addr, index, ptx.Imm(size), base)
	return addr
}
