package templates

import (
	"fmt"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// Further passes decide the rows that the first leaves open (resolve.go). Each is a launch of a kernel that is like the first but
// for its rows, which do one of four things:
//
//	relist   lists the tokens that reach the bound once more, from the bound that the pass before came to: for lists that overflowed
//	draw     lists the tokens of the largest scores instead, among those that rank above a floor
//	survey   adds up the weights of all tokens, in the bins between the ranks of those that were drawn
//	kept     adds up what is kept above a rank and lists what ranks below it, for log-probabilities (resolve_kept.go)
//
// A token that was drawn stays if what ranks above it weighs less than the target of top-p, which a survey tells exactly. Drawn
// tokens are in the order of their scores, so that the first of them that stays is the row's. If none stays, the cut is above them
// all, and the row draws again among the tokens that rank above them.

// What an open row does in the next pass.
const (
	passNone   = 0
	passRelist = 1
	passDraw   = 2
	passSurvey = 3
	passKept   = 4
)

// Words of a row's state.
const (
	stateMode   = 0
	stateBound  = 1 // of the pass before, as the high word of a key
	stateTop    = 2 // the row's largest logit
	stateScale  = 3 // of its weights
	stateFloor  = 4 // key of a logit and an id, 64 bits: tokens below are not drawn
	statePasses = 6 // made so far
	stateIDs    = 7 // of the tokens that only just reach the bound, those below are listed; 0 for all
)

// surveyPivots is how many drawn tokens a survey decides about.
const surveyPivots = manifest.RowPivots

// openRows declares where rows stay open from pass to pass.
func (s *signature) openRows() (states, open ptx.Param) {
	return s.pointer(ParamStates, "u32", "batch x 8", "workspace"), s.pointer(ParamOpen, "u32", "1", "workspace")
}

// surveys reports whether the passes of a computation add up exact weights: without replacement there is nothing to weigh.
func surveys(c ir.Computation) bool { return c.Draws != ir.WithoutReplacement || c.Truncation.Any() }

func (c *skeleton) surveying() bool { return c.options.Further && surveys(c.c) }

// surveyed declares what surveys count in.
func (s *signature) surveyed(c ir.Computation) (pivots, bins ptx.Param) {
	return s.pointer(ParamPivots, "u64", pivotShape(c), "scratch"), s.pointer(ParamBins, "u64", "batch x 65", "workspace")
}

// pivotWords is how many arrays there are of a row's pivots: their ranks and scores, and what log-probabilities and draws with
// replacement take besides.
func pivotWords(c ir.Computation) int {
	if c.LogProb != ir.NoLogProb || countsKept(c) {
		return 3
	}
	return 2
}

// pivotShape says so.
func pivotShape(c ir.Computation) string { return fmt.Sprintf("batch x 64 x %d", pivotWords(c)) }

// leaveClosed ends the whole grid where no row is open, before it has begun anything that must be ended.
func (k *skeleton) leaveClosed() {
	f := k.f
	f.Comment("A further pass: nothing to do where no row is open.")
	open, none := f.B32("open_rows"), f.Pred("none_open")
	f.GriddepcontrolLaunchDependents()
	f.GriddepcontrolWait()
	f.LdGlobalB32(open, loadPointer(f, k.sig.open, "open"), ptx.RelaxedGPU)
	f.SetpU32(ptx.EQ, none, open, ptx.Imm(0))
	f.Bra(k.gone).If(none)
}

// openRow is the state of a row.
type openRow struct {
	mode, bound, top, scale ptx.B32
	floor                   ptx.B64
	passes, ids             ptx.B32
}

// loadState loads the state of a row.
func loadState(f *ptx.Func, states ptx.B64, row ptx.B32) openRow {
	addr, first, second := stateAddr(f, states, row), f.NewB32s("state", 4), f.NewB32s("state", 4)
	f.LdGlobalV4B32(first, addr)
	f.LdGlobalV4B32(second, addr.Off(16))
	s := openRow{mode: first[stateMode], bound: first[stateBound], top: first[stateTop], scale: first[stateScale], floor: f.B64("floor"), passes: second[2], ids: second[3]}
	f.MovPackB64(s.floor, second[0], second[1])
	return s
}

func stateAddr(f *ptx.Func, states ptx.B64, row ptx.B32) ptx.B64 {
	addr := f.B64("state_addr")
	f.MadWideU32(addr, row, ptx.Imm(manifest.StateBytes), states)
	return addr
}

// reopen makes the record of a row what the row's state asks for; without any it has none, and a row that is surveyed none either.
func (c *samplers) reopen(row ptx.B32, r *rowRecord, l rowList, high, low ptx.B32) {
	f := c.f
	s := loadState(f, loadPointer(f, c.sig.states, "states"), row)
	draws, relists, closed := f.Pred("draws"), f.Pred("relists"), f.Pred("closed")
	f.SetpU32(ptx.EQ, draws, s.mode, ptx.Imm(passDraw))
	f.SetpU32(ptx.EQ, relists, s.mode, ptx.Imm(passRelist))
	f.OrPred(closed, draws, relists)
	var kept ptx.Pred
	if countsKept(c.c) {
		kept = f.Pred("counts_kept")
		f.SetpU32(ptx.EQ, kept, s.mode, ptx.Imm(passKept))
		f.OrPred(closed, closed, kept)
	}
	f.NotPred(closed, closed)
	f.MovB32(high, imm(f, keyFailed)).If(closed)
	f.MovB32(low, ptx.Imm(0)).If(closed)
	f.MovB32(l.marks, ptx.Imm(0)).If(closed)
	if c.several() { // rows have their numbers; one that lists by logits looks for the largest
		f.MovF32(r.alpha, ptx.F32Imm(1)).If(relists)
		f.MovF32(r.tau, ptx.F32Imm(0)).If(relists)
	}
	if c.c.Truncation.Any() {
		f.MovB32(l.marks, ptx.Imm(min(marksFor*surveyPivots, boundMarks))).If(draws)
		f.MovB32(l.wanted, ptx.Imm(surveyPivots)).If(draws)
		f.MovF32(r.alpha, l.alpha).If(draws)
		f.MovF32(r.tau, l.tau).If(draws)
	}
	f.MovB32(l.mode, s.mode)
	f.MovB32(l.bound, s.bound)
	f.MovB32(l.top, s.top)
	f.MovB32(l.scale, s.scale)
	f.MovB64(l.floor, s.floor)
	f.MovB32(l.passes, s.passes)
	f.MovB32(l.ids, s.ids)
	if c.surveying() {
		surveyed := f.Pred("surveyed")
		f.SetpU32(ptx.EQ, surveyed, s.mode, ptx.Imm(passSurvey))
		f.OrPred(c.surveys, c.surveys, surveyed)
	}
	if countsKept(c.c) { // whose bound stays what it is: no marks prove another
		f.MovB32(l.marks, ptx.Imm(1)).If(kept)
		f.MovB32(l.wanted, imm(f, noProof)).If(kept)
		f.OrPred(c.surveys, c.surveys, kept)
	}
}

// markListed has a row that draws by min-p mark what it lists alone: floors of scores may be of tokens that are dropped (dropLight). As
// long as all tokens rank above its floor floors are marked (floorOf), above any other they are not.
func (c *samplers) markListed(l rowList, d filter) {
	f, draws, floor := c.f, c.f.Pred("draws_by_min_p"), c.f.B64("no_floors")
	f.SetpAndU32(ptx.EQ, draws, l.mode, ptx.Imm(passDraw), d.byMinP)
	f.MaxU64(floor, l.floor, ptx.Imm(1))
	f.SelpB64(l.floor, floor, l.floor, draws)
}

// noProof is more than any number of marks.
const noProof = 0x7FFFFFFF

// rebound gives a row that is open the bound of the pass before, as its key too: no mark of this pass lowers it.
func (c *samplers) rebound(r *rowRecord, l rowList, high ptx.B32, open ptx.Pred) {
	f, has := c.f, c.f.Pred("has_bound")
	f.SetpAndU32(ptx.NE, has, l.bound, ptx.Imm(0), open)
	f.MovF32(r.threshold, scoreThreshold(f, l.bound)).If(has)
	f.MovB32(high, l.bound).If(has)
}

// furtherBytes are those of a row's record for further passes: mode, top, scale, passes, and the floor, old bound and ids.
const furtherBytes = 32

func (c *samplers) storeFurther(inTile ptx.B32, l rowList) {
	f, at := c.f, c.at(inTile, furtherBytes)
	low, high := f.B32(), f.B32()
	f.MovUnpackB64(low, high, l.floor)
	f.StSharedV4B32(at.Off(c.plan.Storage.Further), []ptx.B32{l.mode, l.top, l.scale, l.passes})
	f.StSharedV4B32(at.Off(c.plan.Storage.Further+16), []ptx.B32{low, high, l.bound, l.ids})
}

// furtherRow is a column's record.
type furtherRow struct {
	mode, passes ptx.B32
	bound, ids   ptx.B32
	top, scale   ptx.F32
	floor        ptx.B64
}

func (c *samplers) furtherRow(column ptx.B32) furtherRow {
	f, at := c.f, c.at(column, furtherBytes)
	first, second := f.NewB32s("further", 4), f.NewB32s("further_floor", 4)
	f.LdSharedV4B32(first, at.Off(c.plan.Storage.Further))
	f.LdSharedV4B32(second, at.Off(c.plan.Storage.Further+16))
	d := furtherRow{mode: first[0], passes: first[3], bound: second[2], ids: second[3], top: f.F32("top"), scale: f.F32("scale"), floor: f.B64("floor")}
	f.MovB32(d.top, first[1])
	f.MovB32(d.scale, first[2])
	f.MovPackB64(d.floor, second[0], second[1])
	return d
}

// listedBy is what a row lists by: the logit, or in a row that draws the score, if the token ranks above the floor. Where so many
// tokens just reach the old bound that they overflowed the list, those of low ids are listed.
func (c *samplers) listedBy(column, id ptx.B32, z, score ptx.F32, listed ptx.Pred) ptx.F32 {
	switch {
	case !c.options.Further && c.several() && c.c.Truncation.Any():
		return c.listedByEither(column, z, score)
	case !c.options.Further && c.several():
		return score
	case !c.options.Further:
		return z
	}
	f, d := c.f, c.furtherRow(column)
	draws, value, key := f.Pred("draws"), f.F32("listed_by"), f.B64("rank_key")
	f.SetpU32(ptx.EQ, draws, d.mode, ptx.Imm(passDraw))
	f.SelpF32(value, score, z, draws)
	c.dropLight(column, d, z, draws, listed)
	rankKey(f, key, z, id)
	if countsKept(c.c) { // such rows list what ranks below
		kept := f.Pred("counts_kept")
		f.SetpU32(ptx.EQ, kept, d.mode, ptx.Imm(passKept))
		f.SetpXorU64(ptx.GE, kept, key, d.floor, kept)
		f.AndPred(listed, listed, kept)
	} else {
		f.SetpAndU64(ptx.GE, listed, key, d.floor, listed)
	}
	ties, last := f.Pred("ties"), f.B32()
	f.SetpU32(ptx.EQ, ties, scoreBits(f, value), d.bound)
	f.SubU32(last, d.ids, ptx.Imm(1)) // 0 is all
	f.SetpAndU32(ptx.GT, ties, id, last, ties)
	f.NotPred(ties, ties)
	f.AndPred(listed, listed, ties)
	return value
}

// dropLight keeps a row that draws from listing what min-p drops: of a flat row the largest scores may all be of such tokens, which rank
// behind everything that is kept and bring no bound nearer to it.
func (c *samplers) dropLight(column ptx.B32, d furtherRow, z ptx.F32, draws, listed ptx.Pred) {
	if !c.c.Truncation.MinP {
		return
	}
	f, light := c.f, c.f.Pred("light")
	w := &weigher{f: f, power: ir.Power2(), top: d.top, scale: d.scale, length: f.B32("vocab_bits"), most: f.B64("max_weight")}
	w.measure(c.vocab)
	row := c.filtersOf(c.slotOf(c.batchRow(column)))
	f.SetpAndU64(ptx.LT, light, w.of(z), w.minPThreshold(row.minP), draws)
	f.NotPred(light, light)
	f.AndPred(listed, listed, light)
}

// listedByEither is the logit in a row that filters narrow, whose record has no noise, and the score in one that draws several tokens. A
// row at T = 0 has scores that are its logits.
func (c *samplers) listedByEither(column ptx.B32, z, score ptx.F32) ptx.F32 {
	f, byLogit, value := c.f, c.f.Pred("by_logit"), c.f.F32("listed_by")
	f.SetpF32(ptx.EQ, byLogit, c.loadRecord(c.at(column, 16).Off(c.plan.Storage.Rows)).tau, ptx.F32Imm(0))
	f.SelpF32(value, z, score, byLogit)
	return value
}

// spread is the factor of the hash by which blocks share marks: another one in each pass, so that no vocabulary defeats them all. (A
// summand would but turn the circle on which a product deals blocks out.)
func (c *samplers) spread(column ptx.B32) ptx.B32 {
	f, factor := c.f, imm(c.f, markFactor)
	if c.options.Further {
		f.MadLoU32(factor, c.furtherRow(column).passes, imm(f, 0x85EBCA6A), factor)
	}
	return factor
}

// whereSurveying runs body if a row of the tile is surveyed.
func (c *samplers) whereSurveying(body func()) {
	if !c.surveying() {
		return
	}
	c.where(c.surveys, "no_survey", body)
}

// survey adds the weights of a group's tokens to the bins of their rows.
func (c *samplers) survey(g group) {
	f := c.f
	w := &weigher{f: f, power: ir.Power2(), length: f.B32("vocab_bits"), most: f.B64("max_weight")}
	w.measure(c.vocab)
	for i := range g.elements {
		e, column := g.gather(&g, i), f.B32("column")
		f.AddU32(column, g.columns, ptx.Imm(g.place(i)))
		d, other, row := c.furtherRow(column), f.Label("not_surveyed"), c.batchRow(column)
		here := f.Pred("surveyed")
		f.SetpU32(ptx.EQ, here, d.mode, ptx.Imm(passSurvey))
		f.Bra(other).IfNot(here)
		w.top, w.scale = d.top, d.scale
		for _, t := range e.tokens {
			c.surveyToken(w, row, g, t)
		}
		f.Place(other)
		if countsKept(c.c) {
			c.addKept(w, d, row, g, e.tokens)
		}
	}
}

// counts reports whether a token is in the vocabulary, and allowed.
func (c *samplers) counts(t candidate) ptx.Pred {
	counts := c.f.Pred("counts")
	c.f.SetpF32(ptx.EQ, counts, t.pad, ptx.F32Imm(0))
	if c.c.Chain.Mask {
		c.f.AndPred(counts, counts, t.in.p[ir.InAllowed])
	}
	return counts
}

// surveyToken adds one token's weight to the bin of its rank: bin j has the tokens that rank behind j pivots, the j-th one last.
func (c *samplers) surveyToken(w *weigher, row ptx.B32, g group, t candidate) {
	f := c.f
	z, counts, id := lower(f, c.logit, t.in), c.counts(t), f.B32("token")
	weight, none := w.of(z), f.Label("weighs_nothing")
	f.SetpAndU64(ptx.NE, counts, weight, ptx.Imm(0), counts)
	f.Bra(none).IfNot(counts)
	key := f.B64("rank_key")
	f.AddU32(id, g.id, ptx.Imm(int64(t.below)))
	rankKey(f, key, z, id)
	bin, index, addr := c.binOf(row, key), f.B32(), f.B64()
	f.MadLoU32(index, row, ptx.Imm(surveyPivots+1), bin)
	f.MadWideU32(addr, index, ptx.Imm(8), loadPointer(f, c.sig.bins, "bins"))
	f.RedGlobalAddU64(addr, weight, ptx.RelaxedGPU)
	f.Place(none)
}

// addKept adds the weights at a row's temperature of those tokens to its first bin that rank at its ceiling and above, and weigh what
// min-p asks for.
func (c *samplers) addKept(w *weigher, d furtherRow, row ptx.B32, g group, tokens []candidate) {
	f := c.f
	here, other, words, at := f.Pred("counts_kept"), f.Label("not_kept"), []ptx.B64{f.B64("least"), f.B64()}, f.B64()
	f.SetpU32(ptx.EQ, here, d.mode, ptx.Imm(passKept))
	f.Bra(other).IfNot(here)
	f.MadWideU32(at, row, ptx.Imm(8*surveyPivots*pivotWords(c.c)), loadPointer(f, c.sig.pivots, "pivots"))
	f.LdGlobalV2B64(words, at.Off(keptAt+8*keptLeast))
	tempered, low, high := *w, f.B32(), f.B32()
	tempered.top, tempered.scale = d.top, f.F32("kept_scale")
	f.MovUnpackB64(low, high, words[1])
	f.MovB32(tempered.scale, low)
	w.top, w.scale = d.top, d.scale
	f.MadWideU32(at, row, ptx.Imm(8*(surveyPivots+1)), loadPointer(f, c.sig.bins, "bins"))
	for _, t := range tokens {
		z, counts, key, id := lower(f, c.logit, t.in), c.counts(t), f.B64("rank_key"), f.B32("token")
		f.AddU32(id, g.id, ptx.Imm(int64(t.below)))
		rankKey(f, key, z, id)
		f.SetpAndU64(ptx.GE, counts, key, d.floor, counts)
		if c.c.Truncation.MinP {
			f.SetpAndU64(ptx.GE, counts, w.of(z), words[0], counts)
		}
		weight := tempered.of(z)
		f.SetpAndU64(ptx.NE, counts, weight, ptx.Imm(0), counts)
		f.RedGlobalAddU64(at, weight, ptx.RelaxedGPU).If(counts)
	}
	f.Place(other)
}

// binOf counts the pivots of a row that rank above a key: they fall, and 0 fills them up.
func (c *samplers) binOf(row ptx.B32, key ptx.B64) ptx.B32 {
	f := c.f
	bin, base, index := f.B32("bin"), f.B64("pivots"), f.B32()
	f.MovB32(bin, ptx.Imm(0))
	f.MulLoU32(index, row, ptx.Imm(surveyPivots*pivotWords(c.c)))
	f.MadWideU32(base, index, ptx.Imm(8), loadPointer(f, c.sig.pivots, "pivots"))
	for step := surveyPivots; step > 0; step /= 2 {
		pivot, addr, at, above := f.B64(), f.B64(), f.B32(), f.Pred("ranks_above")
		f.AddU32(at, bin, ptx.Imm(step-1))
		f.MinU32(at, at, ptx.Imm(surveyPivots-1))
		f.MadWideU32(addr, at, ptx.Imm(8), base)
		f.LdGlobalB64(pivot, addr)
		f.SetpU64(ptx.GT, above, pivot, key)
		f.AddU32(bin, at, ptx.Imm(1)).If(above)
	}
	return bin
}

// floorOf is what is marked for an element in the rows' first tile: its largest logit, or in a row that draws the floor of its
// score. Where tokens below a rank are not drawn, none are marked.
func (c *samplers) floorOf(column ptx.B32, top, least ptx.F32, some, floored ptx.Pred) (value ptx.F32, marked ptx.Pred) {
	f, d := c.f, c.furtherRow(column)
	draws, either := f.Pred("draws"), f.Pred("marked_floor")
	value, marked = f.F32("marked"), f.Pred("marked")
	f.SetpU32(ptx.EQ, draws, d.mode, ptx.Imm(passDraw))
	f.SelpF32(value, least, top, draws)
	f.SetpAndU64(ptx.EQ, either, d.floor, ptx.Imm(0), floored)
	f.AndPred(either, either, draws)
	f.NotPred(marked, draws)
	f.OrPred(marked, marked, either)
	f.AndPred(marked, marked, some)
	return value, marked
}
