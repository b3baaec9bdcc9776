package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// How the resolving kernel draws several tokens of a row (docs/draws.md) from the list of its largest scores: without replacement
// they are the draws, in order; with replacement the first of them are what draws repeat (resolve_repeats.go).
//
// A list that overflows holds an arbitrary part of what reached the bound. As many of these as are wanted reach the last of as many in
// order, so that nothing behind it is drawn: from that score and id the next pass lists, a small part of what it did.

// rowDraws is what a row draws.
type rowDraws struct {
	n, most ptx.B32 // tokens that it draws, and that any row may
	tokens  ptx.B64 // address of its tokens
	scores  ptx.B64 // and of their scores; not set with replacement
	drawn   ptx.B32 // of n, those that there are
	repeats repeatParams
}

// several reports whether rows may draw more tokens than one.
func (r *resolver) several() bool { return r.c.Draws != ir.SingleDraw }

func (r *resolver) repeats() bool { return r.c.Draws == ir.WithReplacement }

// beginDraws declares and loads what the draws take.
func (r *resolver) beginDraws(p drawParams) {
	f, s, d := r.f, &r.sig, &r.draws
	draws, scores := s.addDraws(r.c)
	d.n, d.most, _ = p.load(f, r.slot)
	index := f.B32("first_draw")
	f.MulLoU32(index, r.row, d.most)
	d.tokens = rowAddr(f, loadPointer(f, draws, "draws"), index)
	if !r.repeats() {
		d.scores = rowAddr(f, loadPointer(f, scores, "draw_scores"), index)
	}
	if r.repeats() {
		r.beginRepeats()
	}
}

// resolveDraws draws the tokens of a row.
func (r *resolver) resolveDraws() {
	r.beginDrawing()
	r.decideDraws()
}

// beginDrawing ends the rows that want no list, and prepares for weights.
func (r *resolver) beginDrawing() {
	if r.further {
		r.countPass()
	} else {
		r.drawSingle()
	}
	r.emptyLists()
	if !r.further {
		r.checkKey()
	}
	r.startWeights()
}

// decideDraws draws the tokens of a row that no filter narrows from the list of its scores.
func (r *resolver) decideDraws() {
	if r.further && r.repeats() {
		r.weighRepeats()
	}
	r.sortDraws()
	if r.tells() {
		first := r.f.B64("first_key")
		r.f.LdSharedB64(first, r.smem.Off(resolveKeys))
		r.tellScored(first)
	}
	if r.repeats() {
		r.orderRepeats(nil)
		r.redraw(true, r.leastAndMost)
		return
	}
	r.writeDraws()
}

// drawSingle ends the rows that have no list: those that draw one token, or one again and again. Of others it empties the draws.
func (r *resolver) drawSingle() {
	f, d := r.f, &r.draws
	on, none, times, token, score := f.Pred("draws_several"), f.Pred("no_draw"), f.B32("times"), f.B32("token"), f.F32("score")
	f.SetpU32(ptx.GT, on, d.n, ptx.Imm(1))
	switch {
	case r.c.Truncation.Any():
		byLogit, byScore := listing(f, r.c, r.filter.narrows, on, r.temperature)
		f.OrPred(on, byLogit, byScore)
	case r.repeats():
		f.SetpAndF32(ptx.GT, on, r.temperature, ptx.F32Imm(0), on)
	}
	f.MovB32(times, ptx.Imm(1))
	if r.repeats() {
		f.MovB32(times, d.n)
	}
	f.SetpU32(ptx.EQ, none, r.bound, imm(f, keyFailed))
	f.SetpOrU32(ptx.EQ, none, r.bound, ptx.Imm(keyEmpty), none)
	f.OrPred(none, none, on)
	f.MovB32(times, ptx.Imm(0)).If(none)
	f.LdGlobalB32(token, rowAddr(f, r.tokens, r.row))
	if !r.repeats() {
		f.MovF32(score, r.finalScore(r.bound))
	}
	r.strided("write_single", d.most, func(i ptx.B32) {
		past, id, value := f.Pred("past"), f.B32(), f.F32()
		f.SetpU32(ptx.GE, past, i, times)
		f.SelpB32(id, imm(f, ir.NoToken), token, past)
		f.StGlobalB32(rowAddr(f, d.tokens, i), id)
		if !r.repeats() {
			f.MovF32(value, score)
			f.MovB32(value, ptx.Imm(floatNaN)).If(past)
			f.StGlobalF32(rowAddr(f, d.scores, i), value)
		}
	})
	f.Bra(r.labels.done).IfNot(on)
}

// sortDraws brings the listed scores into their order, and keeps a row open whose list has overflowed.
func (r *resolver) sortDraws() {
	f, d := r.f, &r.draws
	over, there := f.Pred("list_overflows"), f.Pred("has_last")
	r.sortScores(r.stored)
	d.drawn = f.B32("drawn")
	f.MinU32(d.drawn, d.n, r.listed)
	fits := f.Label("list_fits")
	f.SetpU32(ptx.GT, over, r.count, ptx.Imm(manifest.RowCandidates))
	f.Bra(fits).IfNot(over)
	last, key, low, high, ids, zero := f.B32(), f.B64("last_wanted"), f.B32(), f.B32(), f.B32(), f.B64()
	f.SetpU32(ptx.EQ, there, d.drawn, d.n) // else few of those stored reach the bound
	f.SubU32(last, d.n, ptx.Imm(1))
	f.MovB64(key, ptx.Imm(0))
	f.LdSharedB64(key, r.keyAddr(last)).If(there)
	f.MovUnpackB64(low, high, key)
	f.NotB32(ids, low)
	f.AddU32(ids, ids, ptx.Imm(1))
	f.MovB32(r.bound, high).If(there)
	f.MovB32(r.ids, ids).If(there)
	f.MovB64(zero, ptx.Imm(0))
	r.keepOpen(passDraw, r.bound, zero, over)
	f.Place(fits)
}

// writeDraws writes the first scores' tokens, and ends.
func (r *resolver) writeDraws() {
	f, d := r.f, &r.draws
	r.strided("write_draw", d.drawn, func(i ptx.B32) {
		key, low, high, token := f.B64(), f.B32(), f.B32(), f.B32("token")
		f.LdSharedB64(key, r.keyAddr(i))
		f.MovUnpackB64(low, high, key)
		f.NotB32(token, low)
		f.StGlobalB32(rowAddr(f, d.tokens, i), token)
		f.StGlobalF32(rowAddr(f, d.scores, i), r.finalScore(high))
	})
	first := f.B64("first_key")
	f.LdSharedB64(first, r.smem.Off(resolveKeys))
	r.write(first)
}
