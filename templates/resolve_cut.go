package templates

import (
	"math"

	"github.com/fsgen/fsgen/ptx"
)

// truncate finds how many of the sorted tokens the filters keep.
func (r *resolver) truncate() {
	f := r.f
	r.takeTopK()
	r.cut = f.B32("cut")
	f.MovB32(r.cut, r.taken)
	if r.c.Truncation.TopP {
		r.takeTopP()
	}
	if r.c.Truncation.MinP {
		r.takeMinP()
	}
	last := f.B32("last")
	f.SubU32(last, r.cut, ptx.Imm(1))
	r.cutKey = f.B64("cut_key")
	f.LdSharedB64(r.cutKey, r.keyAddr(last))
}

// takeTopK takes the first k, or all where the row has no k.
func (r *resolver) takeTopK() {
	f, off := r.f, r.f.Pred("no_k")
	r.taken = f.B32("taken")
	f.MinU32(r.taken, r.filter.k, r.listed)
	f.SetpU32(ptx.EQ, off, r.filter.k, ptx.Imm(0))
	f.MovB32(r.taken, r.listed).If(off)
}

// prefix is a thread's run of the sorted tokens.
type prefix struct {
	begin, end    ptx.B32
	before, after ptx.B64 // weight of all tokens up to its begin and up to its end
	total         ptx.B64 // of all
}

// takeTopP shortens the cut to the smallest prefix that reaches the target, by the least and by the largest mass that the row
// may have: where these differ, the row is undecided.
func (r *resolver) takeTopP() {
	f, off := r.f, r.f.Label("no_p")
	f.Bra(off).IfNot(r.filter.byP)
	s := r.scanWeights()
	least, most := f.B64("least_mass"), f.B64("most_mass")
	f.MovB64(least, s.total)
	f.MovB64(most, s.total)
	whole := f.Pred("whole")
	var exact *ptx.Label
	if !r.further {
		exact = f.Label("mass_is_exact")
	}
	f.SetpU32(ptx.NE, whole, r.filter.k, ptx.Imm(0))
	f.OrPred(whole, whole, r.all)
	if !r.further { // in which only rows with a k have such lists
		f.Bra(exact).If(whole)
		low, high := r.massRange(s.total)
		f.MovB64(least, low)
		f.MovB64(most, high)
		f.Place(exact)
	}
	for i, mass := range []ptx.B64{least, most} {
		r.cross(s, r.weigh.nucleusTarget(mass, r.filter.p), wordCut+4*i)
	}
	r.sync()
	cuts, open := f.NewB32s("cuts", 2), f.Pred("open")
	f.LdSharedV2B32(cuts, r.smem.Off(wordCut))
	f.SetpU32(ptx.NE, open, cuts[0], cuts[1])
	f.SetpOrU32(ptx.EQ, open, cuts[0], imm(f, notReached), open)
	r.drawsNext(open)
	f.MovB32(r.cut, cuts[0])
	f.Place(off)
}

// scanWeights adds up the weights of the tokens taken, each thread a run of them and then all together.
func (r *resolver) scanWeights() prefix {
	f := r.f
	run := f.B32("run")
	f.AddU32(run, r.taken, ptx.Imm(resolveThreads-1))
	f.ShrU32(run, run, ptx.Imm(9)) // over the threads
	s := prefix{begin: f.B32("begin"), end: f.B32("end")}
	f.MulLoU32(s.begin, r.tid, run)
	f.MinU32(s.begin, s.begin, r.taken)
	f.AddU32(s.end, s.begin, run)
	f.MinU32(s.end, s.end, r.taken)
	own := f.B64("own")
	f.MovB64(own, ptx.Imm(0))
	r.eachOf(s, "weigh", func(i ptx.B32, w ptx.B64, _ *ptx.Label) { f.AddU64(own, own, w) })
	sum := r.scan(own)
	s.before, s.after, s.total = sum.before, sum.after, sum.total
	return s
}

// scan adds up a number of each thread, over the threads before it: in warps, then over warps.
func (r *resolver) scan(own ptx.B64) (s prefix) {
	f := r.f
	s = prefix{before: f.B64("before"), after: f.B64("after"), total: f.B64("total")}
	lane, warp := f.B32("lane"), f.B32("warp")
	f.AndB32(lane, r.tid, ptx.Imm(warpSize-1))
	f.ShrU32(warp, r.tid, ptx.Imm(5))
	f.MovB64(s.after, own)
	addLanesBefore(f, s.after, lane)
	last, at := f.Pred("last_lane"), f.B32()
	f.SetpU32(ptx.EQ, last, lane, ptx.Imm(warpSize-1))
	f.MadLoU32(at, warp, ptx.Imm(8), r.smem)
	f.StSharedB64(at.Off(resolveSums), s.after).If(last)
	r.sync()
	f.MovB64(s.total, ptx.Imm(0))
	for w := range resolveThreads / warpSize {
		part, ahead := f.B64(), f.Pred("ahead")
		f.LdSharedB64(part, r.smem.Off(resolveSums+8*w))
		f.SetpU32(ptx.GT, ahead, warp, ptx.Imm(w))
		f.AddU64(s.after, s.after, part).If(ahead)
		f.AddU64(s.total, s.total, part)
	}
	f.SubU64(s.before, s.after, own)
	r.sync()
	return s
}

// addLanesBefore adds to a lane's number those of the lanes before it.
func addLanesBefore(f *ptx.Func, sum ptx.B64, lane ptx.B32) {
	for step := 1; step < warpSize; step *= 2 {
		low, high, other, has := f.B32(), f.B32(), f.B64(), f.Pred("has_before")
		f.MovUnpackB64(low, high, sum)
		f.ShflSyncUpB32(low, low, ptx.Imm(step), ptx.Imm(0), ptx.Imm(fullWarp))
		f.ShflSyncUpB32(high, high, ptx.Imm(step), ptx.Imm(0), ptx.Imm(fullWarp))
		f.MovPackB64(other, low, high)
		f.SetpU32(ptx.GE, has, lane, ptx.Imm(step))
		f.AddU64(sum, sum, other).If(has)
	}
}

// eachOf runs body for the tokens of a thread's run, with their weights, in order; out leaves early.
func (r *resolver) eachOf(s prefix, name string, body func(i ptx.B32, weight ptx.B64, out *ptx.Label)) {
	f := r.f
	i, past, end := f.B32("i"), f.Pred("past"), f.Label(name+"_end")
	f.MovB32(i, s.begin)
	loop := f.Here(name)
	f.SetpU32(ptx.GE, past, i, s.end)
	f.Bra(end).If(past)
	body(i, r.weigh.of(r.keyLogit(i)), end)
	f.AddU32(i, i, ptx.Imm(1))
	f.Bra(loop)
	f.Place(end)
}

// cross has the thread in whose run the tokens come to reach the target write how many they are.
func (r *resolver) cross(s prefix, target ptx.B64, word int) {
	f := r.f
	here, skip, sum := f.Pred("crosses"), f.Label("no_crossing"), f.B64("sum")
	f.SetpU64(ptx.LT, here, s.before, target)
	f.SetpAndU64(ptx.GE, here, s.after, target, here)
	f.Bra(skip).IfNot(here)
	f.MovB64(sum, s.before)
	r.eachOf(s, "cross", func(i ptx.B32, w ptx.B64, out *ptx.Label) {
		reached, count := f.Pred("reached"), f.B32()
		f.AddU64(sum, sum, w)
		f.SetpU64(ptx.GE, reached, sum, target)
		f.AddU32(count, i, ptx.Imm(1))
		f.StSharedB32(r.smem.Off(word), count).If(reached)
		f.Bra(out).If(reached)
	})
	f.Place(skip)
}

// takeMinP sets the least weight. Where neither k nor p has bounded the tokens, those that are not listed must weigh less.
func (r *resolver) takeMinP() {
	f := r.f
	r.least = f.B64("least")
	f.MovB64(r.least, ptx.Imm(0))
	f.MovB64(r.least, r.weigh.minPThreshold(r.filter.minP)).If(r.filter.byMinP)
	bounded, open := f.Pred("bounded"), f.Pred("open")
	f.SetpU32(ptx.NE, bounded, r.filter.k, ptx.Imm(0))
	f.OrPred(bounded, bounded, r.all)
	if r.c.Truncation.TopP {
		f.OrPred(bounded, bounded, r.filter.byP)
	}
	next, slack := r.weigh.of(scoreThreshold(f, r.bound)), f.B64()
	f.ShrU64(slack, next, ptx.Imm(20)) // weights need not fall where logits do
	f.AddU64(next, next, slack)
	f.SetpU64(ptx.GE, open, next, r.least)
	never := f.Pred("not_bounded")
	f.NotPred(never, bounded)
	f.AndPred(open, open, never)
	r.drawsNext(open)
}

// massRange bounds the weight of all tokens of the row from the sums in float32: the weights are rounded besides, each by half.
func (r *resolver) massRange(known ptx.B64) (least, most ptx.B64) {
	f := r.f
	masses, tempered := r.nucleusMass()
	pair, x, minusTop, mass, scale := f32Pair(f, masses), f.F32(), f.F32(), f.F32("mass_weight"), f.F32()
	f.NegF32(minusTop, r.weigh.top)
	f.AddF32(x, pair[0], minusTop, ptx.RN)
	f.MulF32(x, x, r.weigh.scale, ptx.RN)
	f.Ex2ApproxF32(mass, x, ptx.FTZ)
	f.MulF32(mass, mass, pair[1], ptx.RN)
	f.CvtRnF32U64(scale, r.weigh.most)
	f.MulF32(mass, mass, scale, ptx.RN)
	slack := f.B64()
	f.CvtU64U32(slack, r.vocab)
	low, high := f.F32(), f.F32()
	f.MulF32(low, mass, ptx.F32Imm(1-massMargin), ptx.RN)
	f.MulF32(high, mass, ptx.F32Imm(1+massMargin), ptx.RN)
	least, most = f.B64("least_mass"), f.B64("most_mass")
	f.CvtRziU64F32(least, low) // saturates
	f.CvtRziU64F32(most, high)
	f.MaxU64(least, least, slack)
	f.SubU64(least, least, slack)
	f.MaxU64(least, least, known)
	f.AddU64(most, most, slack)
	f.MaxU64(most, most, known)
	sane, usual := f.Pred("mass_is_usual"), f.B64()
	f.SetpF32(ptx.LT, sane, mass, ptx.F32Imm(0x1p62*(1+massMargin))) // false for NaN
	f.MovB64(usual, ptx.Imm(math.MaxInt64))
	f.SelpB64(least, least, known, sane) // NaN is 2^63
	f.SelpB64(most, most, usual, sane)
	if r.c.Chain.Temperature && tempered {
		beyond := r.beyondWeights()
		f.SelpB64(least, known, least, beyond)
		f.SelpB64(most, usual, most, beyond)
	}
	return least, most
}

// beyondWeights reports whether the row's temperature is not that of its weights, where its sums have been told: their mass is another.
func (r *resolver) beyondWeights() ptx.Pred {
	f, bounded, beyond := r.f, r.f.F32("bounded_temperature"), r.f.Pred("beyond_weights")
	f.MovF32(bounded, r.temperature)
	boundTemperature(f, bounded)
	f.SetpF32(ptx.NE, beyond, bounded, r.temperature)
	return beyond
}
