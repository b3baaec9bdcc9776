package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// Log-probabilities of rows with lists. In the model's own distribution an entry carries its token's logit, and the first pass has
// left the row's sums. A processed one is added up over the tokens that are kept, in float64: as they stand sorted, so that the
// value repeats to the last bit, in whatever order they were listed.

// tells reports whether the kernel gives tokens' log-probabilities, sumsKept whether it adds up for that what filters keep.
func (r *resolver) tells() bool    { return r.c.LogProb != ir.NoLogProb }
func (r *resolver) sumsKept() bool { return r.c.LogProb == ir.ProcessedLogProb }

// readsMass reports whether the kernel has a use for the sums of the first pass: in further ones top-p has exact ones.
func (r *resolver) readsMass() bool {
	return keepsMass(r.c) && (!r.further || r.c.LogProb.OfModel() || tellsSeveral(r.c))
}

// setSumTemperature sets what logits are divided by in sums.
func (r *resolver) setSumTemperature() {
	f, cold := r.f, r.f.Pred("cold")
	r.sumTemperature = f.F32("sum_temperature")
	f.SetpF32(ptx.EQ, cold, r.temperature, ptx.F32Imm(0))
	f.SelpF32(r.sumTemperature, ptx.F32Imm(1), r.temperature, cold)
	r.inverse = reciprocal(f, widen(f, r.sumTemperature))
}

// findListed finds the token of a key in the list: the last of its entry's words, and its logit.
func (r *resolver) findListed(best ptx.B64) {
	f := r.f
	low, high, token := f.B32(), f.B32(), f.B32("token")
	f.MovUnpackB64(low, high, best)
	f.NotB32(token, low)
	r.eachEntry("pick", r.count, func(e entry) {
		is, z := f.Pred("is_token"), f.B32()
		f.SetpU32(ptx.EQ, is, e.id, token)
		f.MovB32(z, e.z)
		f.StSharedV2B32(r.smem.Off(wordPick), []ptx.B32{z, e.last}).If(is)
	})
	r.sync()
}

// picked loads one of the two words.
func (r *resolver) picked(word int) ptx.F32 {
	x := r.f.F32("picked")
	r.f.LdSharedF32(x, r.smem.Off(wordPick+4*word))
	return x
}

// tellListed writes the log-probability of the token that was picked, of a row whose list has all that is kept.
func (r *resolver) tellListed() {
	if r.sumsKept() {
		z, mass := r.picked(0), r.listedMass()
		r.noteKept(keptList, r.cutKey, mass)
		r.tellKept(z, mass)
	} else {
		r.tellOfModel(r.picked(1))
	}
}

// listedMass adds up the powers of the sorted tokens that are kept, in every thread.
func (r *resolver) listedMass() ptx.F64 {
	f, own := r.f, r.f.F64("own_mass")
	f.MovF64(own, ptx.F64Imm(0))
	r.strided("add_kept", r.cut, func(i ptx.B32) {
		z := r.keyLogit(i)
		power := r.power(z)
		r.dropLight(z, func(light ptx.Pred) { f.MovF32(power, ptx.F32Imm(0)).If(light) })
		f.AddF64(own, own, widen(f, power), ptx.RN)
	})
	return r.addUp(own)
}

// dropLight runs body with what tells that a token weighs less than min-p asks for, where there is a min-p.
func (r *resolver) dropLight(z ptx.F32, body func(light ptx.Pred)) {
	if !r.c.Truncation.MinP {
		return
	}
	light := r.f.Pred("light")
	r.f.SetpU64(ptx.LT, light, r.weigh.of(z), r.least)
	body(light)
}

// below is how far a logit lies below the row's largest, over the temperature: 0 for the largest, infinite or not.
func (r *resolver) below(z ptx.F32) ptx.F64 {
	f, d, top := r.f, r.f.F64("below"), r.f.Pred("is_top")
	f.SubF64(d, widen(f, z), widen(f, r.weigh.top), ptx.RN)
	f.MulF64(d, d, r.inverse, ptx.RN)
	f.SetpF32(ptx.EQ, top, z, r.weigh.top)
	f.SelpF64(d, ptx.F64Imm(0), d, top)
	return d
}

// power is what a token adds to its row's sum.
func (r *resolver) power(z ptx.F32) ptx.F32 {
	f, octaves, x, power := r.f, r.f.F64(), r.f.F32("octaves"), r.f.F32("power")
	f.MulF64(octaves, r.below(z), ptx.F64Imm(math.Log2E), ptx.RN)
	f.CvtRnF32F64(x, octaves)
	f.Ex2ApproxF32(power, x, ptx.FTZ)
	return power
}

// addUp adds up a number of each thread, in a fixed order, and gives every thread the sum.
func (r *resolver) addUp(own ptx.F64) ptx.F64 {
	f := r.f
	for step := warpSize / 2; step > 0; step /= 2 {
		bits, low, high, other := f.B64(), f.B32(), f.B32(), f.F64()
		f.MovB64(bits, own)
		f.MovUnpackB64(low, high, bits)
		for _, half := range []ptx.B32{low, high} {
			f.ShflSyncBflyB32(half, half, ptx.Imm(step), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
		}
		f.MovPackB64(bits, low, high)
		f.MovB64(other, bits)
		f.AddF64(own, own, other, ptx.RN)
	}
	lane, at, first := f.B32("lane"), f.B32(), f.Pred("first_lane")
	f.AndB32(lane, r.tid, ptx.Imm(warpSize-1))
	f.SetpU32(ptx.EQ, first, lane, ptx.Imm(0))
	f.ShrU32(at, r.tid, ptx.Imm(5))
	f.MadLoU32(at, at, ptx.Imm(8), r.smem)
	f.StSharedF64(at.Off(resolveSums), own).If(first)
	r.sync()
	total := f.F64("total")
	f.MovF64(total, ptx.F64Imm(0))
	for w := range resolveThreads / warpSize {
		part := f.F64()
		f.LdSharedF64(part, r.smem.Off(resolveSums+8*w))
		f.AddF64(total, total, part, ptx.RN)
	}
	r.sync()
	return total
}

// tellKept writes the log-probability of a token among those kept, whose powers add up to mass.
func (r *resolver) tellKept(z ptx.F32, mass ptx.F64) {
	r.tell(r.keptLog(z, mass), z)
}

func (r *resolver) keptLog(z ptx.F32, mass ptx.F64) ptx.F32 {
	f, top, sum := r.f, r.f.F32("below"), r.f.F32("kept_mass")
	f.CvtRnF32F64(top, r.below(z))
	f.CvtRnF32F64(sum, mass)
	return lower(f, ir.KeptLogProbability(), inputs{f: map[ir.Input]ptx.F32{ir.InTop: top, ir.InMass: sum}})
}

// tellOfModel writes the log-probability of a token of the model's own distribution, whose logit in it is z.
func (r *resolver) tellOfModel(z ptx.F32) {
	f, pair := r.f, f32Pair(r.f, r.masses)
	in := inputs{f: map[ir.Input]ptx.F32{ir.InBase: z, ir.InLargest: pair[0], ir.InMass: pair[1]}}
	above := f.F32("above_reference")
	f.SubF32(above, z, pair[0], ptx.RN)
	if r.c.Summed().RowScales() {
		t := r.temperature
		if mayListCold(r.c) {
			cold := f.Pred("cold")
			t = f.F32("sum_temperature")
			f.SetpF32(ptx.EQ, cold, r.temperature, ptx.F32Imm(0))
			f.SelpF32(t, ptx.F32Imm(1), r.temperature, cold)
		}
		above = quotient(f, above, t)
		in.f[ir.InScale] = sumScale(f, t)
	}
	in.f[ir.InTop] = above
	r.tell(lower(f, ir.LogProbability(r.c), in), z)
}

func f32Pair(f *ptx.Func, at ptx.B64) []ptx.F32 {
	pair := f.NewF32s("mass", 2)
	f.LdGlobalV2F32(pair, at)
	return pair
}

// tell writes the log-probability of a token whose logit in the mode's distribution is z.
func (r *resolver) tell(log, z ptx.F32) {
	first := r.isThread(0)
	r.f.StGlobalF32(rowAddr(r.f, r.logProbs, r.row), log).If(first)
	if r.c.Rank {
		r.f.MovF32(r.tokenLogit, z)
	}
}
