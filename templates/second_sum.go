package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// Where two distributions are added up (ir.Computation.SecondSum) the second has pairs of its own in shared memory, scales, partial sums
// behind those of the first, and a pass of its own over a tile, behind that of the first: what a thread keeps is the same. If it is a
// mass alone, of which top-p and repeated draws are shares, tiles none of whose rows want it make no such pass.

// second is the samplers as they add up the second distribution; nil where there is none.
func (c *samplers) second() *samplers {
	whole, ok := c.whole.SecondSum()
	if !ok || !c.summing() {
		return nil
	}
	k, plan, sig, s := *c.skeleton, *c.plan, *c.sig, *c
	plan.Storage.Sums, plan.Storage.Scales = plan.Storage.SecondSums, plan.Storage.SecondScales
	sig.masses = sig.secondMasses
	k.behind = manifest.SecondPartials(c.whole.LogProb != ir.NoLogProb)
	k.plan, k.sig, k.whole, k.c = &plan, &sig, whole, whole
	k.c.Chain = c.c.Chain
	k.sum = newSumGraphs(k.c, k.addedUp())
	s.skeleton = &k
	return &s
}

// eachSecond runs body with the second distribution, if there is one.
func (c *samplers) eachSecond(body func(s *samplers)) {
	if s := c.second(); s != nil {
		body(s)
	}
}

// tellsLogSum reports whether the log-sum-exp is that of the distribution at hand.
func (c *skeleton) tellsLogSum() bool {
	second, ok := c.whole.SecondSum()
	return c.c.LogSumExp && !(ok && second.LogSumExp && c.behind == 0)
}

// secondScale is a row's scale in the second distribution.
func (c *samplers) secondScale(row ptx.B32, p *preparedRow, open ptx.Pred) {
	c.eachSecond(func(s *samplers) {
		if s.scaledSums() {
			_, scale := s.sumConstants(row)
			c.f.MovF32(p.secondScale, scale).If(open)
		}
	})
}

// storeSecond empties a row's pairs of the second distribution.
func (c *samplers) storeSecond(inTile ptx.B32, p preparedRow) {
	c.eachSecond(func(s *samplers) {
		if s.scaledSums() {
			c.f.StSharedF32(c.at(inTile, sumBytes).Off(s.plan.Storage.Scales), p.secondScale)
		}
		s.emptySums(inTile)
	})
}

// sumSecond adds up a tile in the second distribution.
func (c *consumer) sumSecond(t tiles) {
	c.eachSecond(func(s *samplers) {
		own := *c
		own.samplers = s
		s.whereAdding(func() {
			if len(c.acc) > perGroup {
				own.sumGroups(t)
				return
			}
			only := own.groupOf(t.at(0), c.acc, c.colInN, c.codeAddress())
			own.addUpAll(only, own.scanSums(only))
		})
	})
}

func (c *tensorSampler) sumSecond(t *laneTile, buffer ptx.B32) {
	c.eachSecond(func(s *samplers) {
		own := *c
		own.samplers = s
		s.whereAdding(func() { own.sumGroups(t, buffer) })
	})
}

// readsSecond reports whether the kernel that draws from lists has a use for the rows' sums in the second distribution.
func (r *resolver) readsSecond() bool {
	return r.c.NucleusOfSecond() && !r.further || r.c.RepeatsOfSecond()
}

// nucleusMass is where the sums lie that top-p takes its share of, repeatedMass those of repeated draws.
func (r *resolver) nucleusMass() (masses ptx.B64, tempered bool) {
	if r.c.NucleusOfSecond() {
		second, _ := r.c.SecondSum()
		return r.secondMasses, tellsTempered(second)
	}
	return r.masses, tellsTempered(r.c)
}

func (r *resolver) repeatedMass() ptx.B64 {
	if r.c.RepeatsOfSecond() {
		return r.secondMasses
	}
	return r.masses
}

// takenToken is a lane's token of a column that has been taken out of its tile (takeOut): its logit after the edits.
type takenToken struct {
	id    ptx.B32
	after ptx.F32
	out   ptx.Pred
}

// sumTakenOut adds up the tokens of a column that the second distribution has and the tile has no more. The whole warp is there.
func (c *samplers) sumTakenOut(column ptx.B32, tokens []takenToken) {
	if !c.keepsUnedited() {
		return
	}
	c.eachSecond(func(s *samplers) {
		s.whereAdding(func() { s.addTokens(column, tokens) })
	})
}

// addTokens adds tokens to the pair that the warp has of a column: all lanes' tokens together, in a fixed order.
func (c *samplers) addTokens(column ptx.B32, tokens []takenToken) {
	f, s, scale, at := c.f, c.plan.Storage, c.f.F32("scale"), c.f.B32("column_pair")
	f.MadLoU32(at, column, ptx.Imm(sumBytes), c.sums.base)
	if c.scaledSums() {
		f.LdSharedF32(scale, c.at(column, sumBytes).Off(s.Scales))
	}
	bases, caps := c.takenBases(column, tokens)
	p, top := pair{f.F32("reference"), f.F32("sum")}, c.overLanes(bases, c.larger)
	f.BarWarpSync(ptx.Imm(fullWarp)) // whoever keeps the pair has stored it
	f.LdSharedF32(p.largest, at.Off(s.Sums))
	f.LdSharedF32(p.sum, at.Off(s.Sums+sumBytes*c.t.N))
	in := inputs{f: map[ir.Input]ptx.F32{ir.InBase: top, ir.InLargest: p.largest, ir.InScale: scale, ir.InMass: p.sum}}
	high, reference := f.Pred("high"), f.F32("reference")
	f.SetpF32(ptx.GT, high, lower(f, c.sum.exponent, in), ptx.F32Imm(ir.SumLimit)) // not for NaN
	f.MinF32(reference, top, ptx.F32Imm(math.MaxFloat32))
	in.f[ir.InTop] = reference
	f.MovF32(p.sum, lower(f, c.sum.rescaled, in)).If(high)
	f.MovF32(p.largest, reference).If(high)
	var powers []ptx.F32
	for i, base := range bases {
		x := f.F32("exponent")
		f.MinF32(x, lower(f, c.sum.exponent, inputs{f: map[ir.Input]ptx.F32{ir.InBase: base, ir.InLargest: p.largest, ir.InScale: scale}}), caps[i])
		powers = append(powers, lower(f, c.sum.power, inputs{f: map[ir.Input]ptx.F32{ir.InExponent: x}}))
	}
	total, first := c.overLanes(powers, func(d, x, y ptx.F32) { f.AddF32(d, x, y, ptx.RN) }), f.Pred("first_lane")
	f.AddF32(p.sum, p.sum, total, ptx.RN)
	f.SetpU32(ptx.EQ, first, c.lane, ptx.Imm(0))
	f.BarWarpSync(ptx.Imm(fullWarp))
	f.StSharedF32(at.Off(s.Sums), p.largest).If(first)
	f.StSharedF32(at.Off(s.Sums+sumBytes*c.t.N), p.sum).If(first)
	f.BarWarpSync(ptx.Imm(fullWarp))
}

// takenBases are the scores without noise of the tokens, and caps on their exponents: -inf for those that are not taken out.
func (c *samplers) takenBases(column ptx.B32, tokens []takenToken) (bases, caps []ptx.F32) {
	f, record := c.f, c.loadRecord(c.at(column, 16).Off(c.plan.Storage.Rows))
	for _, t := range tokens {
		valid, most, least, limit := f.Pred("counts"), f.F32(), f.F32(), f.F32("sum_cap")
		c.among(valid, t.id, t.out)
		in, place := newInputs(t.after), c.startTile([]ptx.B32{t.id}, []ptx.Pred{valid})
		c.rowInputs(&place, []candidate{{in: in}}, column, 0, []ptx.B32{c.maskBitOf(t.id)})
		in.f[ir.InAlpha], in.f[ir.InPad] = record.alpha, c.padOf(valid)
		f.MovB32(most, ptx.Imm(floatInf))
		f.MovB32(least, ptx.Imm(floatMinusInf))
		f.SelpF32(limit, most, least, valid)
		bases, caps = append(bases, lower(f, c.base, in)), append(caps, limit)
	}
	return bases, caps
}

// overLanes joins values of all lanes of a warp.
func (c *samplers) overLanes(values []ptx.F32, join func(d, x, y ptx.F32)) ptx.F32 {
	f, all := c.f, joined(c.f, "of_lane", values, join)
	for step := warpSize / 2; step > 0; step /= 2 {
		other, next := f.F32(), f.F32("of_lanes")
		f.ShflSyncBflyB32(other, all, ptx.Imm(step), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
		join(next, all, other)
		all = next
	}
	return all
}
