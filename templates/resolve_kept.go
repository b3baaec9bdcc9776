package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// A row that draws knows its token before it knows what else is kept, which a processed log-probability is a share of. Another pass
// adds that up (further.go, passKept): the tokens that rank at a ceiling and above, which are all above the cut, weigh as they do at
// the row's temperature; below it the tokens are listed down to a rank that is past the cut. Where more than a list holds stand
// between, a survey of pivots between the two brings them nearer to the cut first.

// countsKept reports whether a computation has such passes. What is kept is what draws with replacement are shares of, too.
func countsKept(c ir.Computation) bool {
	return (c.LogProb == ir.ProcessedLogProb || c.Draws == ir.WithReplacement) && (c.Truncation.TopP || c.Truncation.MinP)
}

// Words of 64 bits that such a row has, in the third array of its pivots.
const (
	keptZ       = iota // logit of the token, and behind it that in the model's own distribution, where draws with replacement tell it
	keptBest           // key of its score
	keptTarget         // of top-p; 0 without a p
	keptAbove          // what ranks at the ceiling and above weighs to the filters
	keptLeast          // weight that min-p asks for
	keptScale          // of weights at the row's temperature; the collecting kernel reads it beside the one before
	keptCeiling        // key of a rank
	keptLower          // key of a rank at the cut or past it
	keptWords
)

// keptAt is where they begin, in bytes from the row's pivots.
const keptAt = 16 * surveyPivots

// kept is what such a row is about.
type kept struct {
	z, last                      ptx.F32
	best, target, above          ptx.B64
	least, scale, ceiling, lower ptx.B64
}

func (r *resolver) newKept() kept {
	f := r.f
	k := kept{z: f.F32("token_logit"), best: f.B64("token_key"), target: f.B64("target"), above: f.B64("above"), least: f.B64("least"),
		scale: f.B64("kept_scale"), ceiling: f.B64("ceiling"), lower: f.B64("lower")}
	if r.several() {
		k.last = f.F32("summed_logit")
	}
	f.MovB64(k.above, ptx.Imm(0))
	f.MovB64(k.least, r.least)
	f.MovPackB64(k.scale, r.keptScale(), imm(f, 0))
	return k
}

// words lists them in their order, but for the first.
func (k *kept) words() []ptx.B64 {
	return []ptx.B64{k.best, k.target, k.above, k.least, k.scale, k.ceiling, k.lower}
}

// keptScale is log2(e) over the row's temperature, for weights of what is drawn from.
func (r *resolver) keptScale() ptx.B32 {
	f, bits := r.f, r.f.B32("kept_scale")
	if r.repeats() { // draws want the weights that they are defined by
		f.MovB32(bits, r.drawWeigher().scale)
		return bits
	}
	f.MovB32(bits, sumScale(f, r.sumTemperature))
	return bits
}

// countKept keeps the row open for a pass that adds up what it keeps, in all threads. It lists down to the lower rank: of equal logits
// down to its id.
func (r *resolver) countKept(k kept) {
	f, first, z, at := r.f, r.isThread(0), r.f.B32(), r.pivots
	low, high := f.B32(), f.B32()
	f.MovUnpackB64(low, high, k.lower)
	f.NotB32(low, low)
	f.AddU32(r.ids, low, ptx.Imm(1)) // 0, for all, where the rank has no id
	f.MovB32(z, k.z)
	f.StGlobalB32(at.Off(keptAt), z).If(first)
	if r.several() {
		f.StGlobalF32(at.Off(keptAt+4), k.last).If(first)
	}
	for i, word := range k.words() {
		f.StGlobalB64(at.Off(keptAt+8*(i+1)), word).If(first)
	}
	always := f.Pred("always")
	f.SetpU32(ptx.EQ, always, r.tid, r.tid)
	r.keepOpen(passKept, high, k.ceiling, always)
}

// loadKept loads what a pass before has left.
func (r *resolver) loadKept() kept {
	f, z := r.f, r.f.B32()
	k := kept{z: f.F32("token_logit"), best: f.B64("token_key"), target: f.B64("target"), above: f.B64("above"), least: f.B64("least"),
		scale: f.B64("kept_scale"), ceiling: f.B64("ceiling"), lower: f.B64("lower")}
	f.LdGlobalB32(z, r.pivots.Off(keptAt))
	f.MovB32(k.z, z)
	if r.several() {
		k.last = f.F32("summed_logit")
		f.LdGlobalF32(k.last, r.pivots.Off(keptAt+4))
	}
	for i, word := range k.words() {
		f.LdGlobalB64(word, r.pivots.Off(keptAt+8*(i+1)))
	}
	r.sync() // all have read what thread 0 may write anew
	return k
}

// narrowKept takes from a survey between which pivots the cut is: the thread of its bin tells.
func (r *resolver) narrowKept(k kept, s prefix) {
	f, skip, crosses, at := r.f, r.f.Label("no_cut"), r.f.Pred("has_cut"), r.f.B64()
	f.SetpU64(ptx.LT, crosses, s.before, k.target)
	f.SetpAndU64(ptx.GE, crosses, s.after, k.target, crosses)
	f.Bra(skip).IfNot(crosses)
	behind, ahead, inner, upper, lower := f.B64("pivot_ahead"), f.Pred("has_ahead"), f.Pred("has_behind"), f.B64(), f.B64()
	f.MadWideU32(at, r.tid, ptx.Imm(8), r.pivots)
	f.SetpU32(ptx.NE, ahead, r.tid, ptx.Imm(0))
	f.SetpU32(ptx.LT, inner, r.tid, ptx.Imm(surveyPivots))
	f.MovB64(upper, k.ceiling)
	f.LdGlobalB64(upper, at.Off(-8)).If(ahead)
	f.MovB64(lower, k.lower)
	f.LdGlobalB64(lower, at).If(inner)
	f.MinU64(upper, upper, k.ceiling)
	f.MaxU64(lower, lower, k.lower)
	f.SelpB64(behind, s.before, k.above, ahead) // the first bin has what is above the ceiling too
	for i, word := range []ptx.B64{upper, lower, behind} {
		f.StSharedB64(r.smem.Off(resolveSums+8*i), word)
	}
	f.Place(skip)
	r.sync()
	for i, word := range []ptx.B64{k.ceiling, k.lower, k.above} {
		f.LdSharedB64(word, r.smem.Off(resolveSums+8*i))
	}
	r.sync()
}

// resolveSplit has a survey that was made to bring a row's ceiling and lower rank nearer to its cut.
func (r *resolver) resolveSplit(s prefix) {
	f, other, drawn := r.f, r.f.Label("was_drawn"), r.f.Pred("was_drawn")
	f.SetpU32(ptx.EQ, drawn, r.state.ids, ptx.Imm(0))
	f.Bra(other).If(drawn)
	k := r.loadKept()
	r.narrowKept(k, s)
	r.countKept(k)
	f.Place(other)
}

// resolveKept has all that a row keeps: in its first bin what is above the ceiling, and in its list what is below.
func (r *resolver) resolveKept() {
	f, k := r.f, r.loadKept()
	above, zero, over, first := f.B64("mass_above"), f.B64(), f.Pred("list_overflows"), r.isThread(0)
	f.LdGlobalB64(above, r.bins)
	r.sync()
	f.MovB64(zero, ptx.Imm(0))
	f.StGlobalB64(r.bins, zero).If(first)
	f.SetpU32(ptx.GT, over, r.count, ptx.Imm(manifest.RowCandidates))
	if r.c.Truncation.TopP {
		r.split(over)
	}
	r.least, r.cut = k.least, f.B32("cut")
	f.MovB32(r.cut, ptx.Imm(0))
	if r.c.Truncation.TopP {
		r.cutKept(k)
	}
	f.AddU64(above, above, r.listedWeight(k))
	switch {
	case r.sumsKept():
		mass := f.F64("mass")
		f.CvtRnF64U64(mass, above)
		f.MulF64(mass, mass, r.unit(), ptx.RN)
		r.noteCut(k, mass)
		r.tellKept(k.z, mass)
	case r.tells():
		r.tellOfModel(k.last)
	}
	if r.repeats() {
		r.redrawKept(k, above)
	}
	if r.several() {
		r.writeOrdered(k.best)
	}
	r.write(k.best)
}

// listedWeight adds up the weights at the row's temperature of the sorted tokens that are kept: integers, as those above the ceiling,
// so that the sum is the same wherever the ceiling is.
func (r *resolver) listedWeight(k kept) ptx.B64 {
	f, own, tempered, low, high := r.f, r.f.B64("own_weight"), *r.weigh, r.f.B32(), r.f.B32()
	tempered.scale = f.F32("kept_scale")
	f.MovUnpackB64(low, high, k.scale)
	f.MovB32(tempered.scale, low)
	f.MovB64(own, ptx.Imm(0))
	r.strided("add_kept", r.cut, func(i ptx.B32) {
		z := r.keyLogit(i)
		weight := tempered.of(z)
		r.dropLight(z, func(light ptx.Pred) { f.MovB64(weight, ptx.Imm(0)).If(light) })
		f.AddU64(own, own, weight)
	})
	return r.scan(own).total
}

// noteCut notes what the row keeps, for stages that report of it: down to the last of the sorted tokens that are kept; down to the
// ceiling if none is, and without a p whatever weighs enough.
func (r *resolver) noteCut(k kept, mass ptx.F64) {
	if !reportsKept(r.c) {
		return
	}
	f, some, last, cut := r.f, r.f.Pred("some_listed"), r.f.B32(), r.f.B64("cut_key")
	f.SetpU32(ptx.NE, some, r.cut, ptx.Imm(0))
	f.SubU32(last, r.cut, ptx.Imm(1))
	f.MovB64(cut, k.ceiling)
	f.LdSharedB64(cut, r.keyAddr(last)).If(some)
	r.noteKept(keptMore, cut, mass)
}

// unit is the power of a weight of 1: over that of the likeliest token, which is a power of two.
func (r *resolver) unit() ptx.F64 {
	f, high, bits, unit := r.f, r.f.B32(), r.f.B64(), r.f.F64("unit")
	f.AddU32(high, r.weigh.length, ptx.Imm(1023-weightBits))
	f.ShlB32(high, high, ptx.Imm(20))
	f.MovPackB64(bits, imm(f, 0), high)
	f.MovB64(unit, bits)
	return unit
}

// cutKept finds how many of the listed tokens are kept by the row's p, if it has one.
func (r *resolver) cutKept(k kept) {
	f, none, off, rest := r.f, r.f.Pred("no_target"), r.f.Label("no_kept_p"), r.f.B64("target_left")
	f.SetpU64(ptx.EQ, none, k.target, ptx.Imm(0))
	f.Bra(off).If(none)
	r.load(r.bound)
	r.sort()
	r.taken = r.listed
	s := r.scanWeights()
	f.SubU64(rest, k.target, k.above)
	r.cross(s, rest, wordCut)
	r.sync()
	f.LdSharedB32(r.cut, r.smem.Off(wordCut))
	f.Place(off)
}

// split keeps a row open, where over holds for all threads, for a survey of pivots that stand evenly in its list: not all tokens
// between its ceiling and its lower rank are there, but as many as a list holds are left out of the next one.
func (r *resolver) split(over ptx.Pred) {
	f, on, zero := r.f, r.f.Label("list_suffices"), r.f.B64()
	f.Bra(on).IfNot(over)
	r.sortAll(func(e entry) ptx.B64 { return e.key })
	few, at, place, key := f.Pred("has_pivot"), f.B64(), f.B32(), f.B64("pivot")
	f.SetpU32(ptx.LT, few, r.tid, ptx.Imm(surveyPivots))
	f.MadLoU32(place, r.tid, ptx.Imm(splitStep), ptx.Imm(splitStep))
	f.MinU32(place, place, ptx.Imm(manifest.RowCandidates-1)) // of threads without one
	f.LdSharedB64(key, r.keyAddr(place))
	f.MadWideU32(at, r.tid, ptx.Imm(8), r.pivots)
	f.StGlobalB64(at, key).If(few)
	f.MovB64(zero, ptx.Imm(0))
	f.MovB32(r.ids, ptx.Imm(1)) // tells the survey apart from that of drawn tokens
	r.keepOpen(passSurvey, imm(f, 0), zero, over)
	f.Place(on)
}

// splitStep is how far apart such pivots stand.
const splitStep = manifest.RowCandidates / (surveyPivots + 1)
