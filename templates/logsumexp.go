package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// The log-sum-exp of a row is kept as a pair, a reference and a sum (ir.Exponent), for each column by each set of warps that
// sees all of it: in shared memory, and written by lanes of one warp alone, once a tile and in the order of tiles. So its
// bits are the same on every run.

// sumGraphs are what it takes.
type sumGraphs struct {
	base, counted                              *ir.Graph // a token's score without noise, as it is added up; of one that counts
	exponent, power, rescaled, logSum, logProb *ir.Graph
}

// newSumGraphs makes the graphs of what a computation adds up.
func newSumGraphs(c, s ir.Computation) sumGraphs {
	return sumGraphs{base: ir.Base(s), counted: ir.Counted(s), exponent: ir.Exponent(s), power: ir.Power(), rescaled: ir.Rescaled(s), logSum: ir.LogSum(c),
		logProb: ir.LogProbability(c)}
}

// numeric are the graphs with which a NaN counts for nothing.
func (g sumGraphs) numeric(s ir.Computation) sumGraphs {
	g.exponent = ir.NumericExponent(s)
	return g
}

// sums is what a thread knows of its pairs.
type sums struct {
	lanes []int    // distances over which a warp's lanes add up their tokens of a column, the first ones first
	base  ptx.B32  // address of the warp's references, short of the storage's offset; those of its sums lie behind them
	own   ptx.B32  // and that of the column of a group whose pair the thread keeps
	row   ptx.B32  // 4 times that column's place in the group
	keeps ptx.Pred // the thread keeps a pair: the first of the lanes that have the same column
	apart bool     // groups are added up in a pass of their own
}

// Lanes that hold tokens of the same columns.
var (
	sm90SumLanes  = []int{16, 8, 4}
	sm100SumLanes = []int{16, 8, 4, 2, 1}
)

// sumBytes is a reference or a sum.
const sumBytes = 4

// summing reports whether the kernel adds up.
func (c *skeleton) summing() bool { return c.c.AddsUp() && !c.options.Further }

// keepsMass reports whether the kernel that draws from lists has a use for the rows' sums: for that mass, or for the
// log-probability of the token that it draws.
func keepsMass(c ir.Computation) bool {
	return c.Collects() && (c.Truncation.TopP || c.Draws == ir.WithReplacement || c.LogProb.OfModel() || tellsSeveral(c))
}

// tellsSeveral reports whether it has one for the processed log-probabilities of rows that draw several tokens and that no filter narrows.
func tellsSeveral(c ir.Computation) bool {
	return c.Draws != ir.SingleDraw && c.LogProb == ir.ProcessedLogProb
}

// addsAll reports whether every row is added up, whatever its filters.
func (c *skeleton) addsAll() bool { return !c.collecting() || c.c.LogSumExp || c.c.LogProb.OfModel() }

// scaledSums reports whether rows have a scale of their own.
func (c *skeleton) scaledSums() bool { return c.summing() && c.addedUp().RowScales() }

// logProbs reports whether the kernel gives tokens' log-probabilities.
func (c *skeleton) logProbs() bool { return c.c.LogProb != ir.NoLogProb && !c.options.Further }

// sumsApart reports whether what is added up are not the scores without noise that are compared.
func (c *skeleton) sumsApart() bool { return c.summing() && c.whole.Summed() != c.whole }

// addedUp is the computation whose scores without noise are added up. What all logits take before some are edited is behind them.
func (c *skeleton) addedUp() ir.Computation {
	s := c.whole.Summed()
	if s == c.whole {
		return c.c
	}
	if c.editing() {
		s.Chain.Scale, s.Chain.Softcap = 0, 0
	}
	return s
}

// scanSums is the scan of a group that is only added up.
func (c *samplers) scanSums(g group) []scanned { return c.scanSumsOf(g, c.records(&g)) }

func (c *samplers) scanSumsOf(g group, record func(i int) rowRecord) []scanned {
	if !c.sumsApart() {
		return c.scanOf(g, c.base, record)
	}
	g.bare = true
	return c.scanOf(g, c.sum.base, record)
}

// summed are a group's elements with what is added up of their tokens.
func (c *samplers) summed(elements []scanned) []scanned {
	if !c.sumsApart() {
		return elements
	}
	var out []scanned
	for _, e := range elements {
		e.bases = nil
		for _, t := range e.tokens {
			e.bases = append(e.bases, lower(c.f, c.sum.base, t.in))
		}
		out = append(out, e)
	}
	return out
}

// beginSums finds the pairs of a warp, and the one of a group's elements that the thread keeps.
func (c *samplers) beginSums(set ptx.B32, elements int, place func(element ptx.B32) ptx.B32) {
	if !c.summing() {
		return
	}
	f, s := c.f, &c.sums
	s.base, s.row, s.own, s.keeps = f.B32("pairs"), f.B32("own_place"), f.B32("own_pair"), f.Pred("keeps_pair")
	f.MadLoU32(s.base, set, ptx.Imm(2*sumBytes*c.t.N), c.smem)
	// fold leaves element e of n with the lanes whose bits, from the first distance on, spell e.
	element, rest, shift := f.B32("own_element"), 0, 0
	for i, step := range s.lanes {
		if 1<<i < elements {
			for shift = 0; 1<<shift < step; shift++ {
			}
			continue
		}
		rest |= step
	}
	f.ShrU32(element, c.lane, ptx.Imm(shift))
	spare := f.B32()
	f.AndB32(spare, c.lane, ptx.Imm(rest))
	f.SetpU32(ptx.EQ, s.keeps, spare, ptx.Imm(0))
	f.ShlB32(s.row, place(element), ptx.Imm(2))
	f.AddU32(s.own, s.base, s.row)
}

// fold joins values over the lanes that hold tokens of the same columns. Lanes share the work: at every distance each keeps
// half of the values and passes the other half on, until it has one element's alone.
func (s sums) fold(f *ptx.Func, lane ptx.B32, values []ptx.F32, join func(d, x, y ptx.F32)) ptx.F32 {
	meet := func(mine, theirs ptx.F32, step int) ptx.F32 {
		other, d := f.F32(), f.F32()
		f.ShflSyncBflyB32(other, theirs, ptx.Imm(step), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
		join(d, mine, other)
		return d
	}
	for _, step := range s.lanes {
		half := len(values) / 2
		if half == 0 {
			values = []ptx.F32{meet(values[0], values[0], step)}
			continue
		}
		bit, upper, kept := f.B32(), f.Pred("upper_half"), []ptx.F32{}
		f.AndB32(bit, lane, ptx.Imm(step))
		f.SetpU32(ptx.NE, upper, bit, ptx.Imm(0))
		for i := range half {
			keep, pass := f.F32(), f.F32()
			f.SelpF32(keep, values[i+half], values[i], upper)
			f.SelpF32(pass, values[i], values[i+half], upper)
			kept = append(kept, meet(keep, pass, step))
		}
		values = kept
	}
	return values[0]
}

// addUp adds a group's tokens to their columns' sums. Where an exponent stands too far above its reference, the references are
// raised first. What becomes of a column depends on its own tokens alone: a reference is raised for its own column's sake
// or not at all, and a factor of 1 changes nothing.
func (c *samplers) addUp(g group, elements []scanned) {
	c.whereAdding(func() { c.addUpAll(g, elements) })
}

func (c *samplers) addUpAll(g group, elements []scanned) {
	f := c.f
	total, own := c.sums.fold(f, c.lane, c.settledTotals(g, elements), c.plus), c.ownPair(g)
	sum := c.kept(own.Off(c.plan.Storage.Sums+sumBytes*c.t.N), "sum")
	c.addPeaks(g, elements)
	f.AddF32(sum, sum, total, ptx.RN)
	f.StSharedF32(own.Off(c.plan.Storage.Sums+sumBytes*c.t.N), sum).If(c.sums.keeps)
}

// plus adds, as fold joins.
func (c *samplers) plus(d, x, y ptx.F32) { c.f.AddF32(d, x, y, ptx.RN) }

// settledTotals are what each element's tokens come to, above references that have been raised where they had to be.
func (c *samplers) settledTotals(g group, elements []scanned) []ptx.F32 {
	f := c.f
	raised, at := f.B32("raised"), f.B32("columns_pairs")
	f.MadLoU32(at, g.columns, ptx.Imm(sumBytes), c.sums.base)
	f.MovB32(raised, ptx.Imm(0))
	again, settled := f.Here("add_up"), f.Label("references_hold")
	scales := c.columnValues(g, c.at(g.columns, sumBytes), c.plan.Storage.Scales, c.scaledSums())
	caps, references := c.sumCaps(elements[0].tokens), c.columnValues(g, at, c.plan.Storage.Sums, true)
	var totals []ptx.F32
	for i, e := range elements {
		totals = append(totals, c.total(c.exponents(i, e, caps, scales, references)))
	}
	high := c.anyHigh(totals, raised)
	f.Bra(settled).IfNot(high)
	c.raiseReferences(g, elements)
	f.MovB32(raised, ptx.Imm(1))
	f.Bra(again)
	f.Place(settled)
	return totals
}

// total adds up tokens by their exponents.
func (c *samplers) total(exponents []ptx.F32) ptx.F32 {
	var powers []ptx.F32
	for _, x := range exponents {
		powers = append(powers, lower(c.f, c.sum.power, inputs{f: map[ir.Input]ptx.F32{ir.InExponent: x}}))
	}
	return joined(c.f, "powers", powers, c.plus)
}

// anyHigh reports whether a token of any of the warp's columns may stand too far above its reference, unless they have been raised. Their
// totals tell: there are fewer of them than of exponents.
func (c *samplers) anyHigh(totals []ptx.F32, raised ptx.B32) ptx.Pred {
	f := c.f
	high, any := f.Pred("high"), f.Pred("any")
	f.SetpF32(ptx.GE, high, joined(f, "most", totals, c.larger), ptx.F32Imm(ir.SumAlarm))
	f.SetpAndU32(ptx.EQ, high, raised, ptx.Imm(0), high)
	f.VoteSyncAnyPred(any, high, ptx.Imm(fullWarp))
	return any
}

// exponents are those of element i's tokens, under the tokens' caps.
func (c *samplers) exponents(i int, e scanned, caps, scales, references []ptx.F32) (all []ptx.F32) {
	for j, base := range e.bases {
		in := inputs{f: map[ir.Input]ptx.F32{ir.InBase: base, ir.InLargest: references[i]}}
		if c.scaledSums() {
			in.f[ir.InScale] = scales[i]
		}
		x := c.f.F32("exponent")
		c.f.MinF32(x, lower(c.f, c.sum.exponent, in), caps[j])
		all = append(all, x)
	}
	return all
}

// sumCaps are +inf for tokens that count, and -inf for those past the tile: there anything may stand, and pad makes no -inf of
// a NaN. The smaller of a NaN and a cap is the cap; the sum of a row that has a NaN of its own is not told, and where tokens that
// are not allowed are added up too no exponent is NaN (ir.Computation.SumsDisallowed). For log-probabilities a token of +inf
// counts as ir.InfiniteOctaves.
func (c *samplers) sumCaps(tokens []candidate) (caps []ptx.F32) {
	for _, t := range tokens {
		caps = append(caps, c.sumCap(t.pad))
	}
	return caps
}

func (c *samplers) sumCap(pad ptx.F32) ptx.F32 {
	f := c.f
	counts, most, least, limit := f.Pred("counts"), f.F32(), f.F32(), f.F32("sum_cap")
	if c.logProbs() {
		f.MovF32(most, ptx.F32Imm(ir.InfiniteOctaves))
	} else {
		f.MovB32(most, ptx.Imm(floatInf))
	}
	f.MovB32(least, ptx.Imm(floatMinusInf))
	f.SetpF32(ptx.EQ, counts, pad, ptx.F32Imm(0))
	f.SelpF32(limit, most, least, counts)
	return limit
}

// raiseReferences has each lane that keeps a pair raise its reference to the largest score without noise of its column in the
// group, if that is too far above it.
func (c *samplers) raiseReferences(g group, elements []scanned) {
	f, s := c.f, c.plan.Storage
	top, scale := c.columnTop(elements), f.F32("scale")
	f.BarWarpSync(ptx.Imm(fullWarp)) // the references have been read
	own := c.ownPair(g)
	old, sum := c.kept(own.Off(s.Sums), "reference"), c.kept(own.Off(s.Sums+sumBytes*c.t.N), "sum")
	in := inputs{f: map[ir.Input]ptx.F32{ir.InBase: top, ir.InLargest: old, ir.InScale: scale, ir.InMass: sum}}
	if c.scaledSums() {
		at := f.B32()
		f.AddU32(at, c.at(g.columns, sumBytes), c.sums.row)
		f.LdSharedF32(scale, at.Off(s.Scales))
	}
	rises := f.Pred("rises")
	f.SetpF32(ptx.GT, rises, lower(f, c.sum.exponent, in), ptx.F32Imm(ir.SumLimit))
	f.AndPred(rises, rises, c.sums.keeps)
	reference := f.F32("reference")
	f.MinF32(reference, top, ptx.F32Imm(math.MaxFloat32)) // of +inf the sum is infinite, not the reference
	in.f[ir.InTop] = reference
	f.StSharedF32(own.Off(s.Sums+sumBytes*c.t.N), lower(f, c.sum.rescaled, in)).If(rises)
	f.StSharedF32(own.Off(s.Sums), reference).If(rises)
	f.BarWarpSync(ptx.Imm(fullWarp))
}

// columnTop is the largest score without noise of the column whose pair the thread keeps, unless it is NaN.
func (c *samplers) columnTop(elements []scanned) ptx.F32 {
	var tops []ptx.F32
	for i := range elements {
		tops = append(tops, joined(c.f, "top", elements[i].bases, c.larger))
	}
	return c.sums.fold(c.f, c.lane, tops, c.larger)
}

// ownPair is the address of the pair that the thread keeps of a group, short of the storage's offset.
func (c *samplers) ownPair(g group) ptx.B32 {
	own := c.f.B32("own")
	c.f.MadLoU32(own, g.columns, ptx.Imm(sumBytes), c.sums.own)
	return own
}

// kept loads half of the pair that the thread keeps; lanes that keep none must not look at what others write.
func (c *samplers) kept(at ptx.SharedAddr, name string) ptx.F32 {
	x := c.f.F32(name)
	c.f.MovF32(x, ptx.F32Imm(0))
	c.f.LdSharedF32(x, at).If(c.sums.keeps)
	return x
}

// columnValues loads a float32 for each element's column; at is the address of the thread's first column.
func (c *samplers) columnValues(g group, at ptx.B32, offset int, wanted bool, opts ...ptx.Option) (values []ptx.F32) {
	if !wanted {
		return nil
	}
	f := c.f
	for i := 0; i < g.elements; {
		run := 1
		for run < 4 && i+run < g.elements && g.place(i+run) == g.place(i)+run {
			run++
		}
		part, from := f.NewF32s("column_value", run), at.Off(offset+sumBytes*(g.first+g.place(i)))
		if run == 2 {
			f.LdSharedV2F32(part, from, opts...)
		} else {
			f.LdSharedV4F32(part, from, opts...)
		}
		values, i = append(values, part...), i+run
	}
	return values
}
