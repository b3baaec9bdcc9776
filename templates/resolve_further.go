package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// What the resolving kernel does for rows that stay open, and in further passes (further.go).

// readState loads the row's state. In the first pass what is left of a launch before is closed.
func (r *resolver) readState(states, open ptx.B64) {
	f := r.f
	r.state, r.stateAt, r.open = loadState(f, states, r.row), stateAddr(f, states, r.row), open
	if r.further {
		return
	}
	first, stale := r.isThread(0), f.Pred("stale")
	f.SetpAndU32(ptx.NE, stale, r.state.mode, ptx.Imm(passNone), first)
	f.RedGlobalAddU32(open, imm(f, -1), ptx.RelaxedGPU).If(stale)
	r.sync() // all have read the state
	f.StGlobalB32(r.stateAt.Off(4*stateMode), ptx.Imm(passNone)).If(first)
	f.StGlobalB32(r.stateAt.Off(4*statePasses), ptx.Imm(1)).If(first)
	f.StGlobalB32(rowAddr(f, r.passes, r.row), ptx.Imm(1)).If(first)
}

// countPass counts a further pass over the row; a row that is not open ends here.
func (r *resolver) countPass() {
	f, closed, passes, first := r.f, r.f.Pred("closed"), r.f.B32("passes"), r.isThread(0)
	f.SetpU32(ptx.EQ, closed, r.state.mode, ptx.Imm(passNone))
	f.Bra(r.labels.done).If(closed)
	f.AddU32(passes, r.state.passes, ptx.Imm(1))
	f.StGlobalB32(r.stateAt.Off(4*statePasses), passes).If(first)
	f.StGlobalB32(rowAddr(f, r.passes, r.row), passes).If(first)
}

// keepOpen has the row take another pass, where p holds for all threads: as mode, or to list once more if the row has a k, for which
// its list serves.
func (r *resolver) keepOpen(mode int64, bound ptx.B32, floor ptx.B64, p ptx.Pred) {
	f, on, first, next := r.f, r.f.Label("goes_on"), r.isThread(0), r.f.B32("next_mode")
	f.Bra(on).IfNot(p)
	f.MovB32(next, ptx.Imm(mode))
	top, scale, low, high := f.B32(), f.B32(), f.B32(), f.B32()
	f.MovB32(top, r.weigh.top)
	f.MovB32(scale, r.weigh.scale)
	f.MovUnpackB64(low, high, floor)
	f.StGlobalB32(r.stateAt.Off(4*stateMode), next).If(first)
	f.StGlobalB32(r.stateAt.Off(4*stateBound), bound).If(first)
	f.StGlobalB32(r.stateAt.Off(4*stateTop), top).If(first)
	f.StGlobalB32(r.stateAt.Off(4*stateScale), scale).If(first)
	f.StGlobalB32(r.stateAt.Off(4*stateFloor), low).If(first)
	f.StGlobalB32(r.stateAt.Off(4*stateFloor+4), high).If(first)
	f.StGlobalB32(r.stateAt.Off(4*stateIDs), r.ids).If(first)
	if !r.further {
		f.RedGlobalAddU32(r.open, ptx.Imm(1), ptx.RelaxedGPU).If(first)
	}
	r.endWith(ir.StatusUndecided, p)
	f.Place(on)
}

// overflows keeps a row open whose list has overflowed: a row with a k lists once more, from the edge that k of the tokens reach that
// found room, and others draw.
func (r *resolver) overflows(edge ptx.B32, over ptx.Pred) {
	f := r.f
	byK, others, ties, zero := f.Pred("relists"), f.Pred("draws"), f.Pred("no_progress"), f.B64()
	f.MovB64(zero, ptx.Imm(0))
	f.SetpAndU32(ptx.NE, byK, r.filter.k, ptx.Imm(0), over)
	f.SetpAndU32(ptx.EQ, ties, edge, r.bound, byK)
	r.fewerTies(ties)
	f.SetpAndU32(ptx.EQ, others, r.filter.k, ptx.Imm(0), over)
	r.keepOpen(passRelist, edge, zero, byK)
	r.keepOpen(passDraw, imm(f, 0), zero, others)
}

// listLess keeps a row open whose list has overflowed in a further pass: it lists once more what it did, from the rank on that as many as
// are wanted of the stored tokens reach, ids included: k by logits, a survey's by scores. Those wanted do so again, and whichever tokens
// found room, the others that did are not listed any more: nearly a list's fewer each time, and of stored tokens in random order
// all but as small a part of all as is wanted of them. Equal values are told apart by ids as all else is.
func (r *resolver) listLess() {
	f, on, over := r.f, r.f.Label("list_held"), r.f.Pred("list_overflows")
	f.SetpU32(ptx.GT, over, r.count, ptx.Imm(manifest.RowCandidates))
	if countsKept(r.c) { // whose lists are split (resolve_kept.go)
		f.SetpAndU32(ptx.NE, over, r.state.mode, ptx.Imm(passKept), over)
	}
	f.Bra(on).IfNot(over)
	key, low, bound, ids, proven := r.wantedKey(), f.B32(), f.B32("listed_from"), f.B32("listed_ids"), f.Pred("marks_prove_more")
	f.MovUnpackB64(low, bound, key)
	f.NotB32(ids, low)
	f.AddU32(ids, ids, ptx.Imm(1))
	f.SetpU32(ptx.GT, proven, r.bound, bound)
	f.MovB32(ids, ptx.Imm(0)).If(proven)
	f.MaxU32(bound, bound, r.bound)
	first := r.isThread(0) // the rest of the row's state is as it was
	f.StGlobalB32(r.stateAt.Off(4*stateBound), bound).If(first)
	f.StGlobalB32(r.stateAt.Off(4*stateIDs), ids).If(first)
	r.endWith(ir.StatusUndecided, over)
	f.Place(on)
}

// wantedKey is the key of the last token that is wanted of a list that is full. Only rows with a k list by their logits.
func (r *resolver) wantedKey() ptx.B64 {
	f, key, keyOf := r.f, r.f.B64("wanted_key"), r.scoreKeyOf
	last := imm(f, surveyPivots)
	if r.c.Truncation.TopK {
		draws := f.Pred("lists_scores")
		f.SetpU32(ptx.EQ, draws, r.state.mode, ptx.Imm(passDraw))
		f.SelpB32(last, last, r.filter.k, draws)
		keyOf = func(e entry) ptx.B64 {
			value, listed := f.F32("listed_by"), f.B64("listed_key")
			f.SelpF32(value, e.score, e.z, draws)
			rankKey(f, listed, value, e.id)
			return listed
		}
	}
	r.sortAll(keyOf)
	f.SubU32(last, last, ptx.Imm(1))
	f.LdSharedB64(key, r.keyAddr(last))
	return key
}

// sortAll sorts the keys of all entries of a list that is full.
func (r *resolver) sortAll(keyOf func(e entry) ptx.B64) {
	r.strided("load_all", ptx.Imm(manifest.RowCandidates), func(i ptx.B32) {
		r.f.StSharedB64(r.keyAddr(i), keyOf(r.entry(i)))
	})
	r.sync()
	r.listed = imm(r.f, manifest.RowCandidates)
	r.sort()
}

// fewerTies bounds the ids of the tokens that just reach the bound so that about half a list of them is listed, as if they were
// spread evenly: all tokens have one logit, say.
func (r *resolver) fewerTies(p ptx.Pred) {
	f := r.f
	span, wide, count := f.B32("ids_span"), f.B64(), f.B64()
	f.MovB32(span, r.vocab)
	f.MulWideU32(wide, span, ptx.Imm(manifest.RowCandidates/2))
	f.CvtU64U32(count, r.count)
	f.MaxU64(count, count, ptx.Imm(1))
	f.DivU64(wide, wide, count)
	f.CvtU32U64(span, wide)
	f.MaxU32(span, span, ptx.Imm(1))
	f.MovB32(r.ids, span).If(p)
}

// allTies keeps a row open that has listed fewer tokens than its k since the first pass bounded their ids too low: without a bound of ids,
// what overflows proves one (listLess).
func (r *resolver) allTies() {
	if !r.further {
		return
	}
	f := r.f
	short, zero := f.Pred("too_few_ties"), f.B64()
	f.MovB64(zero, ptx.Imm(0))
	f.SetpU32(ptx.LT, short, r.listed, r.filter.k)
	f.SetpAndU32(ptx.NE, short, r.state.ids, ptx.Imm(0), short)
	r.keepOpen(passRelist, r.bound, zero, short)
}

// drawsNext keeps a row open whose list does not decide it.
func (r *resolver) drawsNext(p ptx.Pred) {
	zero := r.f.B64()
	r.f.MovB64(zero, ptx.Imm(0))
	r.keepOpen(passDraw, imm(r.f, 0), zero, p)
}

// closeRow is thread 0's: the row is decided.
func (r *resolver) closeRow() {
	if !r.further {
		return
	}
	r.f.StGlobalB32(r.stateAt.Off(4*stateMode), ptx.Imm(passNone))
	r.f.RedGlobalAddU32(r.open, imm(r.f, -1), ptx.RelaxedGPU)
}

// byMode runs what the row's mode asks for; a row with a k that lists by its logits goes on as in the first pass.
func (r *resolver) byMode() {
	r.listLess()
	f, relist := r.f, r.f.Label("resolve_list")
	p := f.Pred("mode")
	if r.c.Truncation.TopK {
		f.SetpU32(ptx.EQ, p, r.state.mode, ptx.Imm(passRelist))
		f.Bra(relist).If(p)
	}
	if countsKept(r.c) {
		others := f.Label("resolve_others")
		f.SetpU32(ptx.NE, p, r.state.mode, ptx.Imm(passKept))
		f.Bra(others).If(p)
		r.resolveKept()
		f.Place(others)
	}
	if r.c.Truncation.TopP {
		survey := f.Label("resolve_survey")
		f.SetpU32(ptx.EQ, p, r.state.mode, ptx.Imm(passSurvey))
		f.Bra(survey).If(p)
		r.resolveDrawn()
		f.Place(survey)
		r.resolveSurvey()
	} else {
		r.resolveDrawn()
	}
	if r.c.Truncation.TopK {
		f.Place(relist)
		r.drawFromList(r.edge())
	}
}

// scoreKeyOf is the key of an entry's score.
func (r *resolver) scoreKeyOf(e entry) ptx.B64 {
	key := r.f.B64("score_key")
	rankKey(r.f, key, e.score, e.id)
	return key
}

// resolveDrawn has the row's list of the largest scores, none of which is of a token that min-p drops (dropLight). Without a p the first of
// them is the row's; with one the likeliest are what the next pass surveys.
func (r *resolver) resolveDrawn() {
	r.setLeast()
	if r.c.Truncation.MinP {
		r.drawByMinP()
	}
	if r.c.Truncation.TopP {
		r.placePivots()
	}
	r.f.Bra(r.labels.done)
}

// setLeast sets the weight that min-p asks for, 0 without one.
func (r *resolver) setLeast() {
	f := r.f
	r.least = f.B64("least")
	f.MovB64(r.least, ptx.Imm(0))
	if r.c.Truncation.MinP {
		f.MovB64(r.least, r.weigh.minPThreshold(r.filter.minP)).If(r.filter.byMinP)
	}
}

// drawByMinP ends a row without a p.
func (r *resolver) drawByMinP() {
	f, skip := r.f, r.f.Label("has_p")
	if r.c.Truncation.TopP {
		f.Bra(skip).If(r.filter.byP)
	}
	if r.several() {
		r.drawListed()
		f.Place(skip)
		return
	}
	r.eachEntry("draw_listed", r.count, func(e entry) {
		f.AtomSharedMaxU64(f.B64(), r.smem.Off(wordBest), r.scoreKeyOf(e), ptx.RelaxedCTA)
	})
	r.sync()
	best := f.B64("best")
	f.LdSharedB64(best, r.smem.Off(wordBest))
	if r.tells() {
		r.findListed(best)
		r.tellDrawn(best)
	}
	r.write(best)
	f.Place(skip)
}

// tellDrawn tells the log-probability of a token that was picked from a list of scores, of a row without a p; what is kept is added up
// in another pass.
func (r *resolver) tellDrawn(best ptx.B64) {
	if !r.sumsKept() {
		r.tellOfModel(r.picked(1))
		return
	}
	f, k := r.f, r.newKept()
	f.MovF32(k.z, r.picked(0))
	f.MovB64(k.best, best)
	f.MovB64(k.ceiling, ptx.Imm(0)) // every token is above it
	f.MovPackB64(k.lower, imm(f, 0), imm(f, keyInf))
	f.MovB64(k.target, ptx.Imm(0))
	r.countKept(k)
}

// sortScores sorts the keys of the scores, out of those of n entries, that reach the bound.
func (r *resolver) sortScores(n ptx.B32) {
	f := r.f
	r.eachEntry("load_score", n, func(e entry) {
		key, there, past, at := r.scoreKeyOf(e), f.Pred("reaches_bound"), f.Label("score_loaded"), f.B32()
		f.SetpU32(ptx.GE, there, r.high(key), r.bound)
		f.Bra(past).IfNot(there)
		f.AtomSharedAddU32(at, r.smem.Off(wordListed), ptx.Imm(1), ptx.RelaxedCTA)
		f.StSharedB64(r.keyAddr(at), key)
		f.Place(past)
	})
	r.sync()
	r.fill()
	r.sort()
}

// placePivots sorts the drawn tokens of the largest scores by rank, for the survey.
func (r *resolver) placePivots() {
	f := r.f
	r.sortScores(r.count)
	last, edge := f.B32(), f.B64("least_drawn")
	f.MinU32(last, r.listed, ptx.Imm(surveyPivots))
	f.SubU32(last, last, ptx.Imm(1))
	f.LdSharedB64(edge, r.keyAddr(last))
	r.sync()
	// The drawn tokens' ranks and scores, side by side, and 0 behind them.
	few := f.Pred("has_pivot")
	f.SetpU32(ptx.LT, few, r.tid, ptx.Imm(surveyPivots))
	zero, own := f.B64(), f.B32()
	f.MovB64(zero, ptx.Imm(0))
	f.MadLoU32(own, r.tid, ptx.Imm(8), r.smem)
	f.StSharedB64(own.Off(resolveKeys), zero).If(few)
	f.StSharedB64(own.Off(resolveKeys+8*surveyPivots), zero).If(few)
	if r.c.LogProb.OfModel() {
		f.StSharedB64(own.Off(resolveKeys+16*surveyPivots), zero).If(few)
	}
	first := r.isThread(0)
	f.StSharedB32(r.smem.Off(wordListed), ptx.Imm(0)).If(first)
	r.sync()
	r.eachEntry("collect_pivot", r.count, func(e entry) {
		there, past, at := f.Pred("is_drawn"), f.Label("pivot_collected"), f.B32()
		key := r.scoreKeyOf(e)
		f.SetpU64(ptx.GE, there, key, edge)
		f.Bra(past).IfNot(there)
		f.AtomSharedAddU32(at, r.smem.Off(wordListed), ptx.Imm(1), ptx.RelaxedCTA)
		f.StSharedB64(r.keyAddr(at), e.key)
		f.MadLoU32(at, at, ptx.Imm(8), r.smem)
		f.StSharedB64(at.Off(resolveKeys+8*surveyPivots), key)
		if r.c.LogProb.OfModel() {
			f.StSharedB32(at.Off(resolveKeys+16*surveyPivots), e.last)
		}
		f.Place(past)
	})
	r.sync()
	r.rankPivots(few, own)
	always := f.Pred("always")
	f.SetpU32(ptx.EQ, always, r.tid, r.tid)
	r.keepOpen(passSurvey, imm(f, 0), r.state.floor, always)
}

// rankPivots writes each pivot to the place of its rank: how many keys are larger. Those that are 0 share their place.
func (r *resolver) rankPivots(few ptx.Pred, own ptx.B32) {
	f, skip := r.f, r.f.Label("pivots_ranked")
	f.Bra(skip).IfNot(few)
	key, score, rank := f.B64("pivot"), f.B64("pivot_score"), f.B32("rank")
	f.LdSharedB64(key, own.Off(resolveKeys))
	f.LdSharedB64(score, own.Off(resolveKeys+8*surveyPivots))
	f.MovB32(rank, ptx.Imm(0))
	none := f.Pred("no_pivot")
	f.SetpU64(ptx.EQ, none, key, ptx.Imm(0))
	for j := range surveyPivots {
		other, above := f.B64(), f.Pred("ranks_above")
		f.LdSharedB64(other, r.smem.Off(resolveKeys+8*j))
		f.SetpU64(ptx.GT, above, other, key)
		f.AddU32(rank, rank, ptx.Imm(1)).If(above)
	}
	f.MovB32(rank, r.tid).If(none) // keys stand first, so that the place of one that is not there is its own
	addr := f.B64()
	f.MadWideU32(addr, rank, ptx.Imm(8), r.pivots)
	f.StGlobalB64(addr, key)
	f.StGlobalB64(addr.Off(8*surveyPivots), score)
	if r.c.LogProb.OfModel() {
		last := f.B64("pivot_logit")
		f.LdSharedB64(last, own.Off(resolveKeys+16*surveyPivots))
		f.StGlobalB64(addr.Off(16*surveyPivots), last)
	}
	f.Place(skip)
}

// takeBins adds up what the survey counted, a bin a thread, and empties the bins.
func (r *resolver) takeBins() prefix {
	f := r.f
	bin, has, addr := f.B64("bin_weight"), f.Pred("has_bin"), f.B64()
	f.MovB64(bin, ptx.Imm(0))
	f.SetpU32(ptx.LE, has, r.tid, ptx.Imm(surveyPivots))
	f.MadWideU32(addr, r.tid, ptx.Imm(8), r.bins)
	f.LdGlobalB64(bin, addr).If(has)
	zero := f.B64()
	f.MovB64(zero, ptx.Imm(0))
	f.StGlobalB64(addr, zero).If(has)
	return r.scan(bin)
}

// resolveSurvey takes the drawn token of the largest score of which less than the target ranks above.
func (r *resolver) resolveSurvey() {
	f := r.f
	r.setLeast()
	s := r.takeBins()
	if countsKept(r.c) {
		r.resolveSplit(s)
	}
	target := r.weigh.nucleusTarget(s.total, r.filter.p)
	if r.several() {
		r.drawSurveyed(s, target)
		return
	}
	key, score, at, few, skip := f.B64("pivot"), f.B64("pivot_score"), f.B64(), f.Pred("has_pivot"), f.Label("pivots_judged")
	f.SetpU32(ptx.LT, few, r.tid, ptx.Imm(surveyPivots))
	f.Bra(skip).IfNot(few)
	f.MadWideU32(at, r.tid, ptx.Imm(8), r.pivots)
	f.LdGlobalB64(key, at)
	f.LdGlobalB64(score, at.Off(8*surveyPivots))
	above, weight, kept, old := f.B64("above"), r.weigh.of(scoreThreshold(f, r.high(key))), f.Pred("kept"), f.B64()
	f.SubU64(above, s.after, weight)
	f.SetpU64(ptx.LT, kept, above, target)
	f.SetpAndU64(ptx.NE, kept, key, ptx.Imm(0), kept)
	f.AtomSharedMaxU64(old, r.smem.Off(wordBest), score, ptx.RelaxedCTA).If(kept)
	f.Place(skip)
	r.sync()
	best, none, floor := f.B64("best"), f.Pred("none_kept"), f.B64("floor")
	f.LdSharedB64(best, r.smem.Off(wordBest))
	f.SetpU64(ptx.EQ, none, best, ptx.Imm(0))
	f.LdGlobalB64(floor, r.pivots)
	f.AddU64(floor, floor, ptx.Imm(1)) // the cut is above the first of them
	r.keepOpen(passDraw, imm(f, 0), floor, none)
	if r.tells() {
		r.tellSurveyed(s, target, best)
	}
	r.write(best)
}

// tellSurveyed tells the log-probability of the surveyed token whose score has a key: of those that are kept up to the target, whose
// powers another pass adds up.
func (r *resolver) tellSurveyed(s prefix, target, best ptx.B64) {
	f := r.f
	few, skip, at, key, score, is := f.Pred("has_pivot"), f.Label("pivot_picked"), f.B64(), f.B64("pivot"), f.B64("pivot_score"), f.Pred("is_token")
	f.SetpU32(ptx.LT, few, r.tid, ptx.Imm(surveyPivots))
	f.Bra(skip).IfNot(few)
	f.MadWideU32(at, r.tid, ptx.Imm(8), r.pivots)
	f.LdGlobalB64(key, at)
	f.LdGlobalB64(score, at.Off(8*surveyPivots))
	f.SetpU64(ptx.EQ, is, score, best)
	if r.c.LogProb.OfModel() {
		f.LdGlobalB64(key, at.Off(16*surveyPivots))
	}
	f.StSharedB64(r.smem.Off(wordPick), key).If(is)
	f.Place(skip)
	r.sync()
	if !r.sumsKept() {
		r.tellOfModel(r.picked(0))
		return
	}
	high := f.B32("picked_key")
	f.LdSharedB32(high, r.smem.Off(wordPick+4))
	k := r.newKept()
	f.MovF32(k.z, scoreThreshold(f, high))
	f.MovB64(k.best, best)
	f.MovB64(k.ceiling, ptx.Imm(-1))
	f.MovB64(k.lower, ptx.Imm(0))
	f.MovB64(k.target, target)
	r.narrowKept(k, s)
	r.countKept(k)
}
