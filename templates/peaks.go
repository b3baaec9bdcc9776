package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

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

// Where tiles are added up in straight code (sm90_sums.go) a thread keeps the largest logits of its columns in registers from tile to tile,
// and lanes join theirs once the CTA leaves the rows: an instruction a token, where a tile's lanes would take as many again to agree.

// keepsPeaks reports whether what tokens are compared by rises with their logits, the same for all tokens.
func (c *consumer) keepsPeaks() bool {
	return c.cheap() && c.c.Chain.Bias == ir.BiasNone && !(c.c.Chain.Scale < 0)
}

// beginPeaks begins without any.
func (c *consumer) beginPeaks() {
	if !c.peaks() || !c.straightSums() {
		return
	}
	c.ownPeaks = c.f.NewF32s("own_peak", c.t.N/tiling.CodeGroup*perGroup/2)
	c.forgetPeaks()
	c.leave = c.leavePeaks
}

func (c *consumer) forgetPeaks() {
	for _, peak := range c.ownPeaks {
		c.f.MovF32(peak, ptx.F32Imm(math.Inf(-1)))
	}
}

// keepPeaks raises the thread's to the logits of the tile's tokens. Rounding keeps their order, so that of the largest logit the chain
// makes the largest value (leavePeaks).
func (c *consumer) keepPeaks(of tiles) {
	f, part, end := c.f, c.f.Label("peaks_of_part"), c.f.Label("peaks_kept")
	whole := c.isWhole(of.span)
	f.Bra(part).IfNot(whole)
	c.raiseOwn(func(z ptx.F32, _ int) ptx.F32 { return z })
	f.Bra(end)
	f.Place(part)
	var pads []ptx.F32
	for p := range c.products() {
		pads = append(pads, of.at(p).pads...)
	}
	c.raiseOwn(func(z ptx.F32, row int) ptx.F32 {
		padded := f.F32("padded")
		f.AddF32(padded, z, pads[row], ptx.RN)
		return padded
	})
	f.Place(end)
}

// raiseOwn raises the thread's peaks to what value makes of logits: row numbers the thread's rows of the tile.
func (c *consumer) raiseOwn(value func(z ptx.F32, row int) ptx.F32) {
	for p := range c.products() {
		for i, peak := range c.ownPeaks {
			at, top := 2*p*len(c.ownPeaks)+i/4*perGroup+firstToken(i%4), c.f.F32("top")
			c.larger(top, value(c.acc[at], 2*p), value(c.acc[at+2], 2*p+1))
			c.larger(peak, peak, top)
		}
	}
}

// isWhole reports whether all rows of a tile count, in every lane of the warp.
func (c *consumer) isWhole(s span) ptx.Pred {
	f, end, whole := c.f, c.f.B32("whole_end"), c.f.Pred("is_whole")
	f.AddU32(end, s.row, ptx.Imm(c.t.M))
	f.SetpU32(ptx.LE, whole, end, s.end)
	c.notBefore(whole, s.row)
	f.VoteSyncAllPred(whole, whole, ptx.Imm(fullWarp))
	return whole
}

// leavePeaks joins the rows' with those in shared memory, and forgets them.
func (c *consumer) leavePeaks() {
	zero := c.f.F32("no_pad")
	c.f.MovF32(zero, ptx.F32Imm(0))
	for _, r := range c.runs() {
		var peaks []ptx.F32
		for _, z := range c.ownPeaks[r.first*perGroup/2:][:r.groups*perGroup/2] {
			in := newInputs(z)
			in.f[ir.InPad] = zero
			peaks = append(peaks, lower(c.f, c.likeliest.base, in))
		}
		c.raisePeaks(peaks, r.own, r.keeps)
	}
	c.forgetPeaks()
}
