package templates

import "github.com/fsgen/fsgen/ptx"

// The largest logits of rows (ir.Computation.FindsPeaks), as high words of keys, 0 for none: in shared memory of the rows of the tile,
// and then in global memory, of all. Whoever comes first, the largest is the same.

// peaks reports whether the kernel finds them, as it adds up the first distribution.
func (c *skeleton) peaks() bool { return c.summing() && c.behind == 0 && c.whole.FindsPeaks() }

// elementPeaks are the largest logits of a group's elements among the thread's tokens; NaN counts for nothing.
func (c *samplers) elementPeaks(elements []scanned) (peaks []ptx.F32) {
	for _, e := range elements {
		var values []ptx.F32
		for _, t := range e.tokens {
			values = append(values, lower(c.f, c.likeliest.base, t.in))
		}
		peaks = append(peaks, joined(c.f, "peak", values, c.larger))
	}
	return peaks
}

// raisePeaks joins the peaks of columns over lanes, and with what stands in shared memory. own is the address of the references of the
// column that the lane keeps, if it keeps one.
func (c *samplers) raisePeaks(peaks []ptx.F32, own ptx.B32, keeps ptx.Pred) {
	f, peak, at, some, high := c.f, c.sums.fold(c.f, c.lane, peaks, c.larger), c.f.B32("peak_addr"), c.f.Pred("has_peak"), c.f.B32()
	f.MovB32(high, scoreBits(f, peak))
	f.SetpAndU32(ptx.GT, some, high, ptx.Imm(keyMinusInf), keeps)
	f.SubU32(at, own, c.sums.base)
	f.AddU32(at, at, c.smem)
	f.RedSharedMaxU32(at.Off(c.plan.Storage.Peaks), high, ptx.RelaxedCTA).If(some)
}

// addPeaks finds the peaks of a group.
func (c *samplers) addPeaks(g group, elements []scanned) {
	if c.peaks() {
		c.raisePeaks(c.elementPeaks(elements), c.ownPair(g), c.sums.keeps)
	}
}

// emptyPeak empties the place of a row of the tile.
func (c *samplers) emptyPeak(inTile ptx.B32) {
	if c.peaks() {
		c.f.StSharedB32(c.at(inTile, sumBytes).Off(c.plan.Storage.Peaks), ptx.Imm(keyEmpty))
	}
}

// publishPeak joins a row's with those of the other CTAs.
func (c *samplers) publishPeak(inTile, row ptx.B32, active ptx.Pred) {
	if !c.peaks() {
		return
	}
	f, high, some := c.f, c.f.B32("row_peak"), c.f.Pred("has_peak")
	f.LdSharedB32(high, c.at(inTile, sumBytes).Off(c.plan.Storage.Peaks))
	f.SetpAndU32(ptx.NE, some, high, ptx.Imm(keyEmpty), active)
	f.RedGlobalMaxU32(rowAddr(f, loadPointer(f, c.sig.peaks, "row_peaks"), row), high, ptx.RelaxedGPU).If(some)
}

// takePeak is the resolving kernel's: it takes the row's largest logit, and leaves none for the next launch.
func (r *resolver) takePeak() {
	if r.further || !r.c.FindsPeaks() {
		return
	}
	f, high, first := r.f, r.f.B32("row_peak"), r.isThread(0)
	addr := rowAddr(f, loadPointer(f, r.sig.pointer(ParamPeaks, "u32", "batch", "workspace"), "row_peaks"), r.row)
	f.MovB32(high, ptx.Imm(keyEmpty))
	f.AtomGlobalExchB32(high, addr, ptx.Imm(keyEmpty), ptx.RelaxedGPU).If(first)
	f.StSharedB32(r.smem.Off(wordPeak), high).If(first)
}

// weighByPeak has the row weighed by its largest logit, and says which pass it takes next: the one that adds up its weights, or where the
// logit is not known the one that finds it.
func (r *resolver) weighByPeak() int64 {
	if r.further || !r.c.FindsPeaks() {
		return passRelist
	}
	high := r.f.B32("row_peak")
	r.f.LdSharedB32(high, r.smem.Off(wordPeak))
	r.f.MovF32(r.weigh.top, scoreThreshold(r.f, high))
	return passSurvey
}
