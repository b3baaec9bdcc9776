package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// Rows that filters narrow and that draw several tokens (docs/draws.md, section 4). They are listed and cut like any that is narrowed.
// Where a list has all that is kept, its kept tokens are sorted by their scores, which is the order of the draws, and what draws with
// replacement are shares of is added up over them, exactly.
//
// Where a further pass draws, what it listed is in that order, and what the survey keeps of it is the beginning of the row's order: those
// behind the last pivot have smaller scores. Is that less than the row draws, the first pivot that is not kept is where the next
// pass draws above. Draws with replacement then want the weight of all that is kept, which takes the pass that log-probabilities take.

// narrowsSeveral reports whether filters narrow rows that draw several tokens.
func (r *resolver) narrowsSeveral() bool { return r.several() && r.c.Truncation.Any() }

// resolveEither draws the tokens of a row that filters narrow, or of one that draws several and that none does.
func (r *resolver) resolveEither() {
	r.beginDrawing()
	narrowed := r.f.Label("resolve_narrowed")
	r.f.Bra(narrowed).If(r.filter.narrows)
	r.decideDraws()
	r.f.Place(narrowed)
	r.decideNarrowed()
}

// drawsOne reports whether a row draws one token, once or again and again.
func (r *resolver) drawsOne() ptx.Pred {
	f, one := r.f, r.f.Pred("draws_one")
	f.SetpU32(ptx.EQ, one, r.draws.n, ptx.Imm(1))
	if r.repeats() {
		f.SetpOrF32(ptx.LE, one, r.temperature, ptx.F32Imm(0), one)
	}
	return one
}

// drawKept draws from a list that has all that is kept; of a row that draws one token that has the key.
func (r *resolver) drawKept(best ptx.B64) {
	f, d, one, single := r.f, &r.draws, r.f.Label("one_drawn"), r.drawsOne()
	f.Bra(one).If(single)
	r.sortKept()
	d.drawn = f.B32("drawn")
	f.MinU32(d.drawn, d.n, r.listed)
	if r.repeats() {
		weigh := r.drawWeigher()
		total := r.keptWeight(weigh)
		r.orderRepeats(r.isKept)
		r.redraw(true, func(o *order) { r.exactly(o, weigh, total) })
	} else {
		r.writeDraws()
	}
	f.Place(one)
	r.writeSame(best)
}

// sortKept sorts the keys of the scores of the listed tokens that are kept.
func (r *resolver) sortKept() {
	f, first := r.f, r.isThread(0)
	r.sync() // the keys of logits have been read
	f.StSharedB32(r.smem.Off(wordListed), ptx.Imm(0)).If(first)
	r.sync()
	r.eachEntry("load_kept", r.count, func(e entry) {
		kept, past, at := r.isKept(e), f.Label("kept_loaded"), f.B32()
		f.Bra(past).IfNot(kept)
		f.AtomSharedAddU32(at, r.smem.Off(wordListed), ptx.Imm(1), ptx.RelaxedCTA)
		f.StSharedB64(r.keyAddr(at), r.scoreKeyOf(e))
		f.Place(past)
	})
	r.sync()
	r.fill()
	r.sort()
}

// drawWeigher weighs at the row's temperature.
func (r *resolver) drawWeigher() *weigher {
	if !r.c.Truncation.TemperatureLast {
		return r.weigh
	}
	return newWeigher(r.f, r.weigh.top, r.temperature, r.vocab)
}

// keptWeight adds up the weights of the listed tokens that are kept.
func (r *resolver) keptWeight(weigh *weigher) ptx.B64 {
	f, own := r.f, r.f.B64("own_weight")
	f.MovB64(own, ptx.Imm(0))
	r.eachEntry("weigh_kept", r.count, func(e entry) {
		kept := r.isKept(e)
		f.AddU64(own, own, weigh.of(e.z)).If(kept)
	})
	return r.scan(own).total
}

// writeSame writes the token of a key as the row's only draw, or with replacement as all of them.
func (r *resolver) writeSame(best ptx.B64) {
	f, d, low, high, token, times := r.f, &r.draws, r.f.B32(), r.f.B32(), r.f.B32("token"), r.f.B32("times")
	f.MovUnpackB64(low, high, best)
	f.NotB32(token, low)
	f.MovB32(times, ptx.Imm(1))
	if r.repeats() {
		f.MovB32(times, d.n)
	}
	r.strided("write_same", times, func(i ptx.B32) {
		f.StGlobalB32(rowAddr(f, d.tokens, i), token)
		if !r.repeats() {
			f.StGlobalF32(rowAddr(f, d.scores, i), r.finalScore(high))
		}
	})
}

// Where a row is decided whose tokens a further pass drew, their order stands in the second array of its pivots: keys of their ranks
// with replacement, else those of their scores; 0 behind the last. The third is for what the next pass has to know (resolve_kept.go).
const orderAt = 8 * surveyPivots

// drawListed has the draws of a row without a p from a list of the largest scores, all of which min-p keeps.
func (r *resolver) drawListed() {
	f, d := r.f, &r.draws
	r.sortScores(r.count)
	best := f.B64("best")
	f.LdSharedB64(best, r.smem.Off(resolveKeys))
	if r.tells() || r.repeats() {
		r.findListed(best)
	}
	d.drawn = f.B32("drawn")
	f.MinU32(d.drawn, d.n, r.listed)
	if r.repeats() {
		p, base := &d.repeats, d.repeats.order
		p.order = f.B64("order_of_drawn")
		f.AddU64(p.order, base, ptx.Imm(orderAt))
		r.orderRepeats(nil)
		p.order = base
	} else {
		r.leaveSorted()
	}
	r.endDrawn(best, func(k *kept) {
		f.MovB64(k.ceiling, ptx.Imm(0)) // every token is above it
		f.MovPackB64(k.lower, imm(f, 0), imm(f, keyInf))
		f.MovB64(k.target, ptx.Imm(0))
	})
}

// leaveSorted leaves the first of the sorted keys as the row's order.
func (r *resolver) leaveSorted() {
	f, few, there, key, at, own := r.f, r.f.Pred("has_place"), r.f.Pred("is_drawn"), r.f.B64("drawn_key"), r.f.B64(), r.f.B32()
	f.SetpU32(ptx.LT, few, r.tid, ptx.Imm(surveyPivots))
	f.SetpAndU32(ptx.LT, there, r.tid, r.draws.drawn, few)
	f.MovB64(key, ptx.Imm(0))
	f.MadLoU32(own, r.tid, ptx.Imm(8), r.smem)
	f.LdSharedB64(key, own.Off(resolveKeys)).If(there)
	f.MadWideU32(at, r.tid, ptx.Imm(8), r.pivots)
	f.StGlobalB64(at.Off(orderAt), key).If(few)
	r.sync()
}

// drawnPivot is the pivot of a thread, if it has one and it is kept: rank, score, and the place of its score among those that are kept.
type drawnPivot struct {
	key, score, last ptx.B64
	few, kept        ptx.Pred
	place            ptx.B32
	count            ptx.B32 // of all that are kept
	best             ptx.B64
}

// judgePivots finds which of the surveyed tokens are kept, and their order.
func (r *resolver) judgePivots(s prefix, target ptx.B64) drawnPivot {
	f, at, skip, own := r.f, r.f.B64(), r.f.Label("pivots_judged"), r.f.B32()
	d := drawnPivot{f.B64("pivot"), f.B64("pivot_score"), f.B64("pivot_logit"), f.Pred("has_pivot"), f.Pred("kept"), f.B32("place"), f.B32("kept_pivots"), f.B64("best")}
	for _, x := range []ptx.B64{d.key, d.score, d.last, d.best} {
		f.MovB64(x, ptx.Imm(0))
	}
	f.SetpU32(ptx.NE, d.kept, r.tid, r.tid)
	f.SetpU32(ptx.LT, d.few, r.tid, ptx.Imm(surveyPivots))
	f.Bra(skip).IfNot(d.few)
	f.MadWideU32(at, r.tid, ptx.Imm(8), r.pivots)
	f.LdGlobalB64(d.key, at)
	f.LdGlobalB64(d.score, at.Off(8*surveyPivots))
	if r.c.LogProb.OfModel() {
		f.LdGlobalB64(d.last, at.Off(16*surveyPivots))
	}
	above, weight, mine := f.B64("above"), r.weigh.of(scoreThreshold(f, r.high(d.key))), f.B64()
	f.SubU64(above, s.after, weight)
	f.SetpU64(ptx.LT, d.kept, above, target)
	f.SetpAndU64(ptx.NE, d.kept, d.key, ptx.Imm(0), d.kept)
	f.SelpB64(mine, d.score, ptx.Imm(0), d.kept)
	f.MadLoU32(own, r.tid, ptx.Imm(8), r.smem)
	f.StSharedB64(own.Off(resolveKeys), mine)
	f.Place(skip)
	r.sync()
	f.MovB32(d.place, ptx.Imm(0))
	f.MovB32(d.count, ptx.Imm(0))
	for j := range surveyPivots {
		other, there, larger := f.B64(), f.Pred("is_kept"), f.Pred("is_larger")
		f.LdSharedB64(other, r.smem.Off(resolveKeys+8*j))
		f.SetpU64(ptx.NE, there, other, ptx.Imm(0))
		f.AddU32(d.count, d.count, ptx.Imm(1)).If(there)
		f.SetpU64(ptx.GT, larger, other, d.score)
		f.AddU32(d.place, d.place, ptx.Imm(1)).If(larger)
		f.MaxU64(d.best, d.best, other)
	}
	return d
}

// drawSurveyed has the draws of a row out of the surveyed tokens, or keeps it open where too few of them are kept: then all that is
// kept ranks above the first pivot that is not. Fewer pivots than a survey has are all tokens that might be kept.
func (r *resolver) drawSurveyed(s prefix, target ptx.B64) {
	f, d := r.f, r.judgePivots(s, target)
	last, next, at, open, at0 := f.B64("last_pivot"), f.B64("first_dropped"), f.B64(), f.Pred("draws_more"), f.B32()
	f.LdGlobalB64(last, r.pivots.Off(8*(surveyPivots-1)))
	f.SetpU64(ptx.NE, open, last, ptx.Imm(0))
	f.SetpAndU32(ptx.LT, open, d.count, r.draws.n, open)
	f.MinU32(at0, d.count, ptx.Imm(surveyPivots-1))
	f.MadWideU32(at, at0, ptx.Imm(8), r.pivots)
	f.LdGlobalB64(next, at)
	f.AddU64(next, next, ptx.Imm(1))
	r.keepOpen(passDraw, imm(f, 0), next, open)
	is, z, low, high := f.Pred("is_token"), f.B32(), f.B32(), f.B32()
	f.SetpAndU64(ptx.EQ, is, d.score, d.best, d.kept)
	f.MovB32(z, scoreThreshold(f, r.high(d.key)))
	f.MovUnpackB64(low, high, d.last)
	f.StSharedV2B32(r.smem.Off(wordPick), []ptx.B32{z, low}).If(is)
	r.sync() // all have read the pivots
	r.leavePivots(d)
	r.endDrawn(d.best, func(k *kept) {
		f.MovB64(k.ceiling, ptx.Imm(-1))
		f.MovB64(k.lower, ptx.Imm(0))
		f.MovB64(k.target, target)
		r.narrowKept(*k, s)
	})
}

// leavePivots leaves the pivots that are kept as the row's order.
func (r *resolver) leavePivots(d drawnPivot) {
	f, at, behind, zero, value := r.f, r.f.B64(), r.f.Pred("behind_kept"), r.f.B64(), d.score
	if r.repeats() {
		value = d.key
	}
	f.MadWideU32(at, d.place, ptx.Imm(8), r.pivots)
	f.StGlobalB64(at.Off(orderAt), value).If(d.kept)
	f.SetpAndU32(ptx.GE, behind, r.tid, d.count, d.few)
	f.MovB64(zero, ptx.Imm(0))
	f.MadWideU32(at, r.tid, ptx.Imm(8), r.pivots)
	f.StGlobalB64(at.Off(orderAt), zero).If(behind)
	r.sync()
}

// endDrawn ends a row whose draws stand in their order, or keeps it open for the pass that adds up what it keeps.
func (r *resolver) endDrawn(best ptx.B64, cut func(k *kept)) {
	f, one := r.f, r.f.Label("nothing_to_add")
	if countsKept(r.c) {
		if !r.sumsKept() {
			single := r.drawsOne()
			f.Bra(one).If(single)
		}
		k := r.newKept()
		f.MovF32(k.z, r.picked(0))
		f.MovF32(k.last, r.picked(1))
		f.MovB64(k.best, best)
		cut(&k)
		r.countKept(k)
	}
	f.Place(one)
	if r.c.LogProb.OfModel() {
		r.tellOfModel(r.picked(1))
	}
	r.writeOrdered(best)
	r.write(best)
}

// writeOrdered writes the draws that stand in their order; with replacement those of a row that draws one token.
func (r *resolver) writeOrdered(best ptx.B64) {
	if r.repeats() {
		r.writeSame(best)
		return
	}
	f, d := r.f, &r.draws
	r.strided("write_ordered", d.n, func(i ptx.B32) {
		at, key, low, high, token, there := f.B64(), f.B64(), f.B32(), f.B32(), f.B32("token"), f.Pred("is_drawn")
		f.MadWideU32(at, i, ptx.Imm(8), r.pivots)
		f.LdGlobalB64(key, at.Off(orderAt))
		f.SetpU64(ptx.NE, there, key, ptx.Imm(0))
		f.MovUnpackB64(low, high, key)
		f.NotB32(token, low)
		f.StGlobalB32(rowAddr(f, d.tokens, i), token).If(there)
		f.StGlobalF32(rowAddr(f, d.scores, i), r.finalScore(high)).If(there)
	})
}

// redrawKept draws with replacement from an order that a pass before has left, out of tokens of a weight; a row that draws one token
// goes on.
func (r *resolver) redrawKept(k kept, total ptx.B64) {
	f, one, single, p := r.f, r.f.Label("one_repeated"), r.drawsOne(), &r.draws.repeats
	f.Bra(one).If(single)
	low, high, weigh, before := f.B32(), f.B32(), *r.weigh, *p
	weigh.scale = f.F32("draw_scale")
	f.MovUnpackB64(low, high, k.scale)
	f.MovB32(weigh.scale, low)
	p.order, p.best, p.apart = f.B64("order_of_drawn"), k.best, true
	f.AddU64(p.order, r.pivots, ptx.Imm(orderAt))
	r.redraw(false, func(o *order) { r.exactly(o, &weigh, total) })
	*p = before
	f.Place(one)
}

// tellScored tells the log-probability of a row's first token, whose listed score has a key: it is one of all tokens, whose sum the
// first pass has left. Where a later pass may draw the others, it finds the token's logits behind the order.
func (r *resolver) tellScored(best ptx.B64) {
	r.findListed(best)
	if r.repeats() {
		words, first := []ptx.F32{r.picked(0), r.picked(1)}, r.isThread(0)
		r.f.StGlobalV2F32(r.draws.repeats.order.Off(16*manifest.RowPivots), words).If(first)
	}
	r.tellOfAll(r.picked(0), r.picked(1))
}

// tellAgain is tellScored in a pass that has no list.
func (r *resolver) tellAgain() {
	words := r.f.NewF32s("token_logits", 2)
	r.f.LdGlobalV2F32(words, r.draws.repeats.order.Off(16*manifest.RowPivots))
	r.tellOfAll(words[0], words[1])
}

// tellOfAll writes the log-probability of a token of a row that no filter narrows: z is its logit, last that in the model's own
// distribution, if it is of that. Scores are added up as ever in such a row, with its alpha.
func (r *resolver) tellOfAll(z, last ptx.F32) {
	f, pair, c := r.f, f32Pair(r.f, r.masses), r.c.Summed()
	shown, above := z, f.F32("above_reference")
	if c.LogProb.OfModel() {
		shown = last
	}
	base := shown
	in := inputs{f: map[ir.Input]ptx.F32{ir.InLargest: pair[0], ir.InMass: pair[1]}}
	if !c.RowScales() {
		f.SubF32(above, base, pair[0], ptx.RN)
	} else {
		alpha, tau, scored, cold := f.F32("alpha"), f.F32("tau"), f.F32("base"), f.Pred("cold")
		splitTemperature(f, r.temperature, f.Pred("above_one"), alpha, tau)
		f.SetpF32(ptx.EQ, cold, tau, ptx.F32Imm(0))
		f.MovF32(tau, ptx.F32Imm(1)).If(cold)
		f.MulF32(scored, base, alpha, ptx.RN)
		base = scored
		f.SubF32(above, base, pair[0], ptx.RN)
		above = quotient(f, above, tau)
		in.f[ir.InScale] = sumScale(f, tau)
	}
	in.f[ir.InBase], in.f[ir.InTop] = base, above
	r.tell(lower(f, ir.LogProbability(r.c), in), shown)
}
