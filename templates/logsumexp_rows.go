package templates

import (
	"math"
	"math/bits"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// pair is a reference and a sum.
type pair struct{ largest, sum ptx.F32 }

// emptyPair is that of no tokens.
func emptyPair(f *ptx.Func) pair {
	p := pair{f.F32("largest"), f.F32("sum")}
	f.MovF32(p.largest, ptx.F32Imm(-math.MaxFloat32))
	f.MovF32(p.sum, ptx.F32Imm(0))
	return p
}

// join adds pairs of a row with a scale. Two of them give the same bits whichever comes first.
func (c *samplers) join(scale ptx.F32, pairs ...pair) pair {
	f := c.f
	d := pair{pairs[0].largest, f.F32("sum")}
	for _, p := range pairs[1:] {
		larger := f.F32("largest")
		f.MaxF32(larger, d.largest, p.largest)
		d.largest = larger
	}
	for i, p := range pairs {
		from := lower(f, c.sum.rescaled, inputs{f: map[ir.Input]ptx.F32{
			ir.InMass: p.sum, ir.InLargest: p.largest, ir.InTop: d.largest, ir.InScale: scale}})
		if i == 0 {
			f.MovF32(d.sum, from)
		} else {
			f.AddF32(d.sum, d.sum, from, ptx.RN)
		}
	}
	return d
}

// sumTau is what the log-sum-exp divides scores without noise by: tau, or 1 for T = 0.
func (c *samplers) sumTau(tau ptx.F32) ptx.F32 {
	cold, d := c.f.Pred("cold"), c.f.F32("sum_tau")
	c.f.SetpF32(ptx.EQ, cold, tau, ptx.F32Imm(0))
	c.f.SelpF32(d, ptx.F32Imm(1), tau, cold)
	return d
}

// rowScale computes a row's scale, log2(e) over its sumTau; past float32 it is the largest.
func (c *samplers) rowScale(tau ptx.F32) ptx.F32 { return sumScale(c.f, tau) }

func sumScale(f *ptx.Func, tau ptx.F32) ptx.F32 {
	scale, wide := f.F32("scale"), f.F64()
	f.MulF64(wide, reciprocal(f, widen(f, tau)), ptx.F64Imm(math.Log2E), ptx.RN)
	f.CvtRnF32F64(scale, wide)
	f.MinF32(scale, scale, ptx.F32Imm(math.MaxFloat32))
	return scale
}

// emptySums empties a row's pairs.
func (c *samplers) emptySums(inTile ptx.B32) {
	c.emptyPeak(inTile)
	at, empty := c.at(inTile, sumBytes), emptyPair(c.f)
	for set := range c.plan.Pipeline.SumSets {
		references := at.Off(c.plan.Storage.Sums + 2*sumBytes*c.t.N*set)
		c.f.StSharedF32(references, empty.largest)
		c.f.StSharedF32(references.Off(sumBytes*c.t.N), empty.sum)
	}
}

// publishSums joins a row's pairs in the order of their sets, and leaves what they come to in the CTA's place of the row's
// partial sums, with the token that the row's key names where log-probabilities are asked for.
func (c *samplers) publishSums(inTile, row ptx.B32, key ptx.B64, active ptx.Pred) {
	c.publishPeak(inTile, row, active)
	f := c.f
	at, scale := c.at(inTile, sumBytes), f.F32("scale")
	if c.scaledSums() {
		f.LdSharedF32(scale, at.Off(c.plan.Storage.Scales))
	}
	var sets []pair
	for set := range c.plan.Pipeline.SumSets {
		p, references := pair{f.F32("largest"), f.F32("sum")}, at.Off(c.plan.Storage.Sums+2*sumBytes*c.t.N*set)
		f.LdSharedF32(p.largest, references)
		f.LdSharedF32(p.sum, references.Off(sumBytes*c.t.N))
		sets = append(sets, p)
	}
	total := c.join(scale, sets...)
	cta := f.B32("cta")
	f.MovB32(cta, ptx.CtaidX)
	if c.logProbs() {
		f.StGlobalB32(c.notedAddr(row, cta), c.noted(inTile, key)).If(active)
	}
	f.StGlobalV2F32(c.partial(row, cta), []ptx.F32{total.largest, total.sum}).If(active)
}

// partial is the address of a CTA's pair of a row.
func (c *samplers) partial(row, cta ptx.B32) ptx.B64 {
	f := c.f
	index, ctas, addr, base := f.B32(), f.B32("ctas"), f.B64("partial_addr"), c.partials
	f.MovB32(ctas, ptx.NctaidX)
	if c.behind > 0 {
		base = f.B64("second_partials")
		f.MulLoU32(index, c.batch, ctas)
		f.MadWideU32(base, index, ptx.Imm(c.behind), c.partials)
	}
	f.MadLoU32(index, row, ctas, cta)
	f.MadWideU32(addr, index, ptx.Imm(manifest.PairBytes), base)
	return addr
}

// rowLanes is how many lanes join a row's partial sums, so that a warp has several rows on their way at a time: as few as have the
// registers for a round that serves 132 CTAs.
const rowLanes = 4

// partialsAtOnce is the partial sums that a lane has on their way at a time.
const partialsAtOnce = 132/rowLanes + 1

// writeSums is the last CTA's: some lanes of a warp join a row's partial sums, in a fixed order, and write what is asked for.
func (c *samplers) writeSums() {
	f := c.f
	f.Comment("Join the partial sums: some lanes of a warp take a row at a time.")
	var out ptx.B64
	if c.tellsLogSum() && !c.sharded() {
		out = loadPointer(f, c.sig.logSumExp, "lse")
	}
	start, past, done := f.B32("sum_rows"), f.Pred("past"), f.Label("sums_written")
	f.ShrU32(start, c.thread, ptx.Imm(5))
	f.MulLoU32(start, start, ptx.Imm(warpSize/rowLanes))
	loop := f.Here("sum_rows")
	f.SetpU32(ptx.GE, past, start, c.batch)
	f.Bra(done).If(past)
	row, first := c.sumRow(start)
	next := f.Label("sum_next_rows")
	if c.collecting() && !c.c.Sums() && !c.sharded() { // records have facts of every row
		any := f.Pred("any_mass")
		f.VoteSyncAnyPred(any, c.needsMass(row), ptx.Imm(fullWarp))
		f.Bra(next).IfNot(any)
	}
	tau, scale, token, total := c.joinPartials(row)
	for step := rowLanes / 2; step > 0; step /= 2 {
		other := pair{f.F32(), f.F32()}
		f.ShflSyncBflyB32(other.largest, total.largest, ptx.Imm(step), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
		f.ShflSyncBflyB32(other.sum, total.sum, ptx.Imm(step), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
		total = c.join(scale, total, other)
	}
	if keepsMass(c.c) || reportsSums(c.c) && !c.sharded() { // whose sums are joined first
		c.writeMass(row, total, first)
	}
	switch {
	case c.sharded():
		c.recordSums(row, total, token, first)
	case c.tellsLogSum():
		c.writeLogSum(out, row, total, tau, first)
	}
	if token != nil && !c.sharded() {
		c.writeLogProb(row, total, tau, scale, c.summedOf(row, token.z), first)
		c.writeRankKey(row, token.id, token.z, first)
	}
	f.Place(next)
	f.AddU32(start, start, ptx.Imm(c.plan.Pipeline.Samplers/rowLanes))
	f.Bra(loop)
	f.Place(done)
	c.sync()
}

// sumRow is the row of the lane among those of the warp, and whether the lane is the first of that row's. Past the batch lanes join
// its last row once more, for nobody.
func (c *samplers) sumRow(start ptx.B32) (row ptx.B32, first ptx.Pred) {
	f := c.f
	last, place := f.B32(), f.B32()
	row, first = f.B32("sum_row"), f.Pred("first_lane")
	f.ShrU32(row, c.lane, ptx.Imm(bits.TrailingZeros(uint(rowLanes))))
	f.AddU32(row, row, start)
	f.AndB32(place, c.lane, ptx.Imm(rowLanes-1))
	f.SetpU32(ptx.EQ, first, place, ptx.Imm(0))
	f.SetpAndU32(ptx.LT, first, row, c.batch, first)
	f.SubU32(last, c.batch, ptx.Imm(1))
	f.MinU32(row, row, last)
	return row, first
}

// writeLogSum writes a row's log-sum-exp.
func (c *samplers) writeLogSum(out ptx.B64, row ptx.B32, total pair, tau ptx.F32, first ptx.Pred) {
	f, top := c.f, total.largest
	if c.scaledSums() {
		top = quotient(f, top, tau)
	}
	lse := lower(f, c.sum.logSum, inputs{f: map[ir.Input]ptx.F32{ir.InTop: top, ir.InLargest: total.largest, ir.InMass: total.sum}})
	if c.collecting() {
		c.noSum(lse, total)
	}
	f.StGlobalF32(rowAddr(f, out, row), lse).If(first)
}

// noSum makes a log-sum-exp NaN that is one of no tokens. Where rows have lists, their keys do not tell whether they have any.
func (c *samplers) noSum(lse ptx.F32, total pair) {
	none := c.f.Pred("no_tokens")
	c.f.SetpF32(ptx.EQ, none, total.sum, ptx.F32Imm(0))
	c.f.MovB32(lse, ptx.Imm(floatNaN)).If(none)
}

// sumConstants computes a row's sumTau and scale once more; neither is set without a temperature.
func (c *samplers) sumConstants(row ptx.B32) (tau, scale ptx.F32) {
	if !c.scaledSums() {
		return tau, scale
	}
	t, least := c.temperatureOf(row), c.f.F32("tau")
	c.f.MinF32(least, t, ptx.F32Imm(1))
	if c.c.Truncation.Any() {
		least = c.listTau(row, t, least)
	}
	tau = c.sumTau(least)
	return tau, c.rowScale(tau)
}

// sumConstantsAt is sumConstants of a row with a temperature.
func (c *samplers) sumConstantsAt(t ptx.F32) (tau, scale ptx.F32) {
	if !c.scaledSums() {
		return tau, scale
	}
	least := c.f.F32("tau")
	c.f.MinF32(least, t, ptx.F32Imm(1))
	tau = c.sumTau(least)
	return tau, c.rowScale(tau)
}

// joinPartials joins a lane's share of a row's partial sums and looks up the row's token. The first round is on its way before
// anything is computed.
func (c *samplers) joinPartials(row ptx.B32) (tau, scale ptx.F32, token *found, total pair) {
	f := c.f
	of, cta, ctas := c.contributors(row), f.B32("cta"), f.B32("ctas")
	f.MovB32(ctas, ptx.NctaidX)
	f.AndB32(cta, c.lane, ptx.Imm(rowLanes-1))
	parts := c.loadPartials(row, cta, of)
	token = c.seek(row)
	tau, scale = c.sumConstants(row)
	first := c.join(scale, parts...)
	total = pair{f.F32("largest"), f.F32("sum")}
	f.MovF32(total.largest, first.largest)
	f.MovF32(total.sum, first.sum)

	more, end, start, place := f.Pred("more"), f.Label("partials_joined"), f.B32("first_cta"), f.B32("row_lane")
	f.AndB32(place, c.lane, ptx.Imm(rowLanes-1))
	loop := f.Here("join_partials")
	f.SubU32(start, cta, place)
	f.SetpU32(ptx.LT, more, start, ctas)
	f.Bra(end).IfNot(more)
	sum := c.join(scale, append([]pair{total}, c.loadPartials(row, cta, of)...)...)
	f.MovF32(total.largest, sum.largest)
	f.MovF32(total.sum, sum.sum)
	f.Bra(loop)
	f.Place(end)
	return tau, scale, token, total
}

// loadPartials loads one round of a row's partial sums, and moves cta behind them.
func (c *samplers) loadPartials(row, cta ptx.B32, of contributors) (parts []pair) {
	f := c.f
	first := c.partial(row, cta)
	for i := range partialsAtOnce {
		p, at := emptyPair(f), f.B32("cta")
		f.AddU32(at, cta, ptx.Imm(i*rowLanes))
		there := c.contributes(of, at)
		f.LdGlobalV2F32([]ptx.F32{p.largest, p.sum}, first.Off(i*rowLanes*manifest.PairBytes)).If(there)
		parts = append(parts, p)
	}
	f.AddU32(cta, cta, ptx.Imm(partialsAtOnce*rowLanes))
	return parts
}

// contributors are the CTAs that have had a tile of a row, in clusters: so many from the first on, and so many from 0 on. Where clusters
// split the batch it is the CTAs of one rank.
type contributors struct {
	first, ahead, wrapped ptx.B32
	rank                  ptx.B32
}

// contributors finds those of a row: nobody else has written its place. The items of the row's column tile are `groups` in a row, and of
// these a cluster takes every stride-th.
func (c *samplers) contributors(row ptx.B32) contributors {
	f := c.f
	column, of := f.B32("row_column"), contributors{f.B32("first_cluster"), f.B32("clusters_ahead"), f.B32("clusters_wrapped"), f.B32("row_rank")}
	divideBy(f, column, row, c.t.N)
	if c.t.Split {
		f.AndB32(of.rank, column, ptx.Imm(c.t.Cluster-1))
		divideBy(f, column, column, c.t.Cluster)
	}
	whole, groups := f.B32(), c.recallDeal().groups
	_, stride := c.clusters()
	f.MulLoU32(of.first, column, groups)
	f.DivU32(whole, of.first, stride)
	f.MulLoU32(whole, whole, stride)
	f.SubU32(of.first, of.first, whole)
	f.SubU32(of.ahead, stride, of.first)
	f.MinU32(of.ahead, of.ahead, groups)
	f.SubU32(of.wrapped, groups, of.ahead)
	f.MinU32(of.wrapped, of.wrapped, of.first)
	return of
}

// contributes reports whether a CTA, or the number of none, is one of them.
func (c *samplers) contributes(of contributors, cta ptx.B32) ptx.Pred {
	f := c.f
	cluster, past, has := f.B32("cluster"), f.B32(), f.Pred("contributes")
	divideBy(f, cluster, cta, c.t.Cluster)
	f.SubU32(past, cluster, of.first)
	f.SetpU32(ptx.LT, has, past, of.ahead)
	f.SetpOrU32(ptx.LT, has, cluster, of.wrapped, has)
	if c.t.Split {
		mine := f.B32()
		f.AndB32(mine, cta, ptx.Imm(c.t.Cluster-1))
		f.SetpAndU32(ptx.EQ, has, mine, of.rank, has)
	}
	return has
}

// ctaOf is the CTA that has had a token of a row: items turned round (skeleton.item).
func (c *samplers) ctaOf(row, id ptx.B32) ptx.B32 {
	f, d := c.f, c.recallDeal()
	column, tile, rows, group, before, last, low := f.B32("row_column"), f.B32("token_tile"), f.B32("tile_rows"), f.B32("tile_group"), f.B32(), f.Pred("behind_whole"), f.Pred("low_tile")
	rank := imm(f, 0)
	divideBy(f, column, row, c.t.N)
	f.MovB32(tile, id)
	f.MovB32(rows, ptx.Imm(c.t.M))
	f.MovB32(group, ptx.Imm(0))
	f.MulLoU32(before, d.parts.whole, ptx.Imm(c.t.M*c.down()))
	f.SetpU32(ptx.GE, last, id, before)
	f.SubU32(tile, id, before).If(last)
	many, lowRows := c.ends(d.parts)
	f.AddU32(rows, lowRows, ptx.Imm(rowStep(c.t))).If(last)
	f.MovB32(group, d.parts.whole).If(last)
	f.MulLoU32(before, many, rows)
	f.MulLoU32(before, before, ptx.Imm(c.down()))
	f.SetpAndU32(ptx.GE, low, tile, before, last)
	f.SubU32(tile, tile, before).If(low)
	f.AddU32(group, group, many).If(low)
	f.MovB32(rows, lowRows).If(low)
	f.DivU32(tile, tile, rows)
	switch {
	case c.t.Split:
		f.AndB32(rank, column, ptx.Imm(c.t.Cluster-1))
		divideBy(f, column, column, c.t.Cluster)
	case c.t.Cluster > 1:
		f.AndB32(rank, tile, ptx.Imm(c.t.Cluster-1))
		divideBy(f, tile, tile, c.t.Cluster)
	}
	f.AddU32(group, group, tile)
	f.MadLoU32(group, column, d.groups, group)
	turns, cta := f.B32("turns"), f.B32("token_cta")
	_, stride := c.clusters()
	f.DivU32(turns, group, stride)
	f.MulLoU32(turns, turns, stride)
	f.SubU32(group, group, turns)
	f.MadLoU32(cta, group, ptx.Imm(c.t.Cluster), rank)
	return cta
}
