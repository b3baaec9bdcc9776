package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// The kernel that draws from the lists of the rows that truncation narrows (collect.go): one CTA a row. It sorts the listed
// tokens, finds how many of them the filters keep, and takes the kept token of the largest score; scores were computed when the
// tokens were listed.
//
// A list holds every token of its row that reaches the row's last bound. top-k has all that it wants there; the mass that top-p
// is a share of is a sum in float32, known to a part in 2^14: where that leaves open how many tokens stay, or where more stay
// than are listed, the row is undecided.

// Shape of a CTA.
const (
	resolveThreads = 1 << threadBits
	threadBits     = 9
	resolveKeys    = 0                              // offset of the sorted keys
	resolveSums    = 8 * manifest.RowCandidates     // of a sum for each thread
	resolveWords   = resolveSums + 8*resolveThreads // of the words below
	resolveShared  = resolveWords + 64              // bytes in all
	wordListed     = resolveWords                   // how many tokens reach the bound
	wordCut        = resolveWords + 8               // how many tokens top-p keeps, by the least and by the largest mass
	wordBest       = resolveWords + 16              // key of the best score
	wordLargest    = resolveWords + 24              // largest logit listed, as the high word of a key
	wordEdge       = resolveWords + 28              // what the logits of the keys reach that are sorted
	wordSpare      = resolveWords + 32              // 0, and free for a key
	wordPick       = resolveWords + 40              // what the row's token has for its log-probability, two words
	wordPeak       = resolveWords + 48              // largest logit of the row, as the high word of a key
)

// notReached marks that a prefix does not reach its target.
const notReached = 0xFFFFFFFF

// Stage is a further kernel of a module, which is launched after the first.
type Stage struct {
	Entry       *ptx.Func
	Params      []manifest.Param
	Threads     int
	SharedBytes int
}

// resolver builds the kernel.
type resolver struct {
	f      *ptx.Func
	c      ir.Computation
	sig    signature
	labels struct{ done *ptx.Label }

	smem, tid, row, vocab ptx.B32
	slot                  rowSlot // where the row has its parameters
	filters               filters
	filter                filter
	temperature           ptx.F32
	count, stored, bound  ptx.B32   // tokens that were listed, those that found room, and the row's bound as a key's high word
	entries               ptx.B64   // address of the list
	own                   []ptx.B32 // words of the thread's first entry
	ownMark               ptx.B32
	marks, counter        ptx.B64
	masses, secondMasses  ptx.B64
	further               bool
	state                 openRow
	stateAt, open         ptx.B64
	pivots, bins          ptx.B64
	ids                   ptx.B32 // bound of ids for the next pass, 0 for none
	tokens, status        ptx.B64
	passes                ptx.B64
	scores, logProbs      ptx.B64   // logProbs is not set without them
	rankKeys, ranks       ptx.Param // of the row's token, likewise
	tokenLogit            ptx.F32   // whose logit in the mode's distribution it is
	keptRows              ptx.Param // what is told of the rows (kept_row.go)
	sumTemperature        ptx.F32   // of processed log-probabilities: T, or 1 for 0
	inverse               ptx.F64   // 1 over it

	listed ptx.B32  // tokens that reach the bound
	taken  ptx.B32  // of those, what top-k leaves
	all    ptx.Pred // every token that has a logit above -inf is listed
	weigh  *weigher
	least  ptx.B64 // weight that min-p asks for
	cut    ptx.B32 // tokens that stay, min-p apart
	cutKey ptx.B64 // key of the last of them

	draws rowDraws // where rows draw several tokens
}

// stageRegisters are more than a stage needs: left alone, ptxas holds the largest ones to 40, so that a third CTA would fit beside two,
// and spills.
const stageRegisters = 64

// newResolve adds the kernel to the module of the kernel that collects.
func newResolve(m *ptx.Module, shared ptx.SharedVar, c ir.Computation, o Options, name string) *Stage {
	f := m.Entry(name)
	f.Reqntid(resolveThreads, 1, 1)
	if c.Truncation.MinP && c.LogProb != ir.NoLogProb {
		f.Maxnreg(stageRegisters)
	}
	r := &resolver{f: f, c: c, further: o.Further, sig: signature{f: f, sets: setsOf(c)}}
	r.labels.done = f.Label("done")
	r.begin(shared)
	switch {
	case !r.several():
		r.resolveFilters()
	case r.c.Truncation.Any():
		r.resolveEither()
	default:
		r.resolveDraws()
	}
	f.Place(r.labels.done)
	f.Ret()
	return &Stage{f, r.sig.finish(), resolveThreads, r.sharedBytes()}
}

// sharedBytes is what the kernel has.
func (r *resolver) sharedBytes() int {
	if r.repeats() {
		return repeatShared
	}
	return resolveShared
}

// resolveFilters draws one token of a row that filters narrow.
func (r *resolver) resolveFilters() {
	r.skipOthers()
	r.emptyLists()
	if r.further {
		r.startWeights()
	} else {
		r.checkKey()
		r.startWeights()
	}
	r.decideNarrowed()
}

// decideNarrowed decides a row that filters narrow.
func (r *resolver) decideNarrowed() {
	if r.further {
		r.byMode()
		return
	}
	r.noteNarrowed()
	edge := r.edge()
	r.checkList(edge)
	r.drawFromList(edge)
}

// drawFromList draws from a list that has not overflowed.
func (r *resolver) drawFromList(edge ptx.B32) {
	r.load(edge)
	r.allTies()
	r.sort()
	r.truncate()
	r.draw()
}

// resolveParams are what the kernel has of the first one: parameters of rows, and where they are listed.
type resolveParams struct {
	vocab, slots, slotCount        ptx.Param
	temperature, temperatureStride ptx.Param
	filters                        filterParams
	several                        drawParams
	marks, counts, candidates      ptx.Param
	bounds, states, open           ptx.Param
	pivots, bins, masses, second   ptx.Param
	tokens, status                 ptx.Param
}

// declare declares them.
func (r *resolver) declare() (p resolveParams) {
	s := &r.sig
	p.vocab = s.scalar(ParamVocab)
	if r.c.Slots {
		p.slots, p.slotCount = s.pointer(ParamSlots, "i32", "batch", "read"), s.scalar(ParamSlotCount)
	}
	if r.c.Chain.Temperature {
		p.temperature, p.temperatureStride = s.rows(ParamTemperature, "f32", ParamTemperatureStride)
	}
	p.filters, p.several = s.filterParams(r.c), s.drawParams(r.c)
	p.marks, p.counts = s.pointer(ParamMarks, "u32", "batch x 1024", "workspace"), s.pointer(ParamCounts, "u32", "batch", "workspace")
	p.candidates = s.pointer(ParamCandidates, "u32", "batch x 8192 x 4", "scratch")
	p.bounds = s.pointer(ParamBounds, "u32", "batch", "scratch")
	p.states, p.open = s.openRows()
	if r.further && surveys(r.c) {
		p.pivots, p.bins = s.surveyed(r.c)
	}
	if r.readsMass() {
		p.masses = s.pointer(ParamMasses, "f32", "batch x 2", "scratch")
	}
	if r.readsSecond() {
		p.second = s.pointer(ParamSecondMasses, "f32", "batch x 2", "scratch")
	}
	p.tokens, p.status = s.pointer(ParamTokens, "i32", "batch", "write"), s.pointer(ParamStatus, "i32", "batch", "write")
	return p
}

// begin declares and loads the parameters.
func (r *resolver) begin(shared ptx.SharedVar) {
	f, p := r.f, r.declare()
	r.smem, r.tid, r.row = f.B32("smem"), f.B32("thread"), f.B32("row")
	f.MovVarB32(r.smem, shared)
	f.MovB32(r.tid, ptx.TidX)
	f.MovB32(r.row, ptx.CtaidX)
	f.GriddepcontrolLaunchDependents()
	f.GriddepcontrolWait()
	r.beginRow(p)
	r.beginOutputs(p)
	r.beginPlaces(p)
	r.filter = r.filters.of(f, r.slot, r.vocab)
	if r.several() {
		r.beginDraws(p.several)
	}
	r.takePeak()
	r.beginReports()
	r.readState(loadPointer(f, p.states, "states"), loadPointer(f, p.open, "open"))
	if !r.further {
		r.beginKept()
	}
}

// beginRow loads what the row brings.
func (r *resolver) beginRow(p resolveParams) {
	f := r.f
	r.vocab, r.slot = loadU32(f, p.vocab, "vocab"), rowSlot{index: r.row}
	if r.c.Slots {
		r.slot = namedSlot(f, loadPointer(f, p.slots, "slots"), loadU32(f, p.slotCount, "slot_count"), r.row)
	}
	r.temperature = f.F32("temperature")
	f.MovF32(r.temperature, ptx.F32Imm(1))
	if r.c.Chain.Temperature {
		r.slot.loadF32(f, r.temperature, 1, loadPointer(f, p.temperature, "temperature"), loadU32(f, p.temperatureStride, "stride"))
	}
	r.filters = loadFilters(f, p.filters, r.c.Truncation)
	r.ids = f.B32("next_ids")
	f.MovB32(r.ids, ptx.Imm(0))
}

// beginOutputs finds where results go.
func (r *resolver) beginOutputs(p resolveParams) {
	f, s := r.f, &r.sig
	r.tokens, r.status = loadPointer(f, p.tokens, "tokens"), loadPointer(f, p.status, "status")
	r.passes = loadPointer(f, s.pointer(ParamPasses, "i32", "batch", "write"), "passes")
	if r.c.Score {
		r.scores = loadPointer(f, s.pointer(ParamScores, "f32", "batch", "write"), "scores")
	}
	if r.tells() {
		r.logProbs = loadPointer(f, s.pointer(ParamLogProb, "f32", "batch", "write"), "logprob")
	}
}

// beginPlaces finds what the row has in the arrays of all rows.
func (r *resolver) beginPlaces(p resolveParams) {
	f := r.f
	if r.further && surveys(r.c) {
		r.pivots, r.bins = f.B64("pivots"), f.B64("bins")
		f.MadWideU32(r.pivots, r.row, ptx.Imm(8*surveyPivots*pivotWords(r.c)), loadPointer(f, p.pivots, "pivots_base"))
		f.MadWideU32(r.bins, r.row, ptx.Imm(8*(surveyPivots+1)), loadPointer(f, p.bins, "bins_base"))
	}
	if r.readsMass() {
		r.masses = f.B64("mass")
		f.MadWideU32(r.masses, r.row, ptx.Imm(8), loadPointer(f, p.masses, "masses"))
	}
	if r.readsSecond() {
		r.secondMasses = f.B64("second_mass")
		f.MadWideU32(r.secondMasses, r.row, ptx.Imm(8), loadPointer(f, p.second, "second_masses"))
	}
	r.marks, r.counter = f.B64("row_marks"), rowAddr(f, loadPointer(f, p.counts, "counts"), r.row)
	index := f.B32()
	f.MulLoU32(index, r.row, ptx.Imm(manifest.RowMarks))
	f.MadWideU32(r.marks, index, ptx.Imm(4), loadPointer(f, p.marks, "marks"))
	r.readList(loadPointer(f, p.candidates, "candidates"), loadPointer(f, p.bounds, "bounds"))
}

// beginReports declares what is left for the stages that report of rows. It is loaded where it is used: registers are few.
func (r *resolver) beginReports() {
	if r.c.Rank {
		r.rankKeys, r.ranks = r.sig.pointer(ParamRankKeys, "u64", "batch", "scratch"), r.sig.pointer(ParamRanks, "i32", "batch", "write")
		r.tokenLogit = r.f.F32("token_logit")
		r.f.MovF32(r.tokenLogit, ptx.F32Imm(0))
	}
	if reportsKept(r.c) {
		r.keptRows = r.sig.keptRows("scratch")
	}
}

// readList finds the row's list, and loads what needs nothing but an address: of the marks one a thread, whether it is in use or not.
func (r *resolver) readList(candidates, bounds ptx.B64) {
	f := r.f
	r.count, r.stored, r.bound, r.entries = f.B32("count"), f.B32("stored"), f.B32("bound"), f.B64("entries")
	index := f.B32()
	f.MulLoU32(index, r.row, ptx.Imm(manifest.RowCandidates))
	f.MadWideU32(r.entries, index, ptx.Imm(manifest.CandidateBytes), candidates)
	r.ownMark = f.B32("own_mark")
	f.LdGlobalB32(r.ownMark, rowAddr(f, r.marks, r.tid))
	f.LdGlobalB32(r.count, r.counter)
	f.LdGlobalB32(r.bound, rowAddr(f, bounds, r.row))
	f.MinU32(r.stored, r.count, ptx.Imm(manifest.RowCandidates))
}

// loadOwn has every thread load one entry while the rest is prepared.
func (r *resolver) loadOwn() {
	if r.further && r.c.Truncation.Any() { // where registers are fewest, and rows few
		return
	}
	f, there, addr := r.f, r.f.Pred("has_own"), r.f.B64()
	r.own = f.NewB32s("own", 4)
	for _, w := range r.own {
		f.MovB32(w, ptx.Imm(0))
	}
	f.SetpU32(ptx.LT, there, r.tid, r.stored)
	f.MadWideU32(addr, r.tid, ptx.Imm(manifest.CandidateBytes), r.entries)
	f.LdGlobalV4B32(r.own, addr).If(there)
}

// emptyLists empties what the next launch begins with empty, and finds the largest mark.
func (r *resolver) emptyLists() {
	f := r.f
	r.loadOwn()
	if r.further {
		f.MaxU32(r.bound, r.bound, r.state.bound)
	}
	r.setWords()
	r.sync()
	first := r.isThread(0)
	f.StGlobalB32(r.counter, ptx.Imm(0)).If(first)
	largest, mark, old, here := f.B32("largest"), f.B32("mark"), f.B32(), f.Pred("has_mark")
	clearing := r.filter.marks
	if r.narrowsSeveral() {
		clearing = f.B32("marks")
		f.MaxU32(clearing, r.filter.marks, ptx.Imm(boundMarks))
	} else if r.several() {
		f.MovB32(clearing, ptx.Imm(boundMarks))
	} else if r.further { // rows that draw have other marks
		clearing = f.B32("marks")
		f.MaxU32(clearing, r.filter.marks, ptx.Imm(min(marksFor*surveyPivots, boundMarks)))
	}
	f.SetpU32(ptx.LT, here, r.tid, clearing)
	f.SelpB32(largest, r.ownMark, ptx.Imm(0), here)
	f.StGlobalB32(rowAddr(f, r.marks, r.tid), ptx.Imm(0)).If(here)
	r.beyondThreads("clear_mark", clearing, func(i ptx.B32) {
		addr := rowAddr(f, r.marks, i)
		f.LdGlobalB32(mark, addr)
		f.MaxU32(largest, largest, mark)
		f.StGlobalB32(addr, ptx.Imm(0))
	})
	f.AtomSharedMaxU32(old, r.smem.Off(wordLargest), largest, ptx.RelaxedCTA)
	r.sync()
}

// setWords sets the words that threads meet in.
func (r *resolver) setWords() {
	f, first := r.f, r.isThread(0)
	zero := f.B64()
	f.MovB64(zero, ptx.Imm(0))
	f.StSharedB32(r.smem.Off(wordListed), ptx.Imm(0)).If(first)
	f.StSharedB32(r.smem.Off(wordLargest), ptx.Imm(0)).If(first)
	f.StSharedB32(r.smem.Off(wordCut), imm(f, notReached)).If(first)
	f.StSharedB32(r.smem.Off(wordCut+4), imm(f, notReached)).If(first)
	f.StSharedB64(r.smem.Off(wordBest), zero).If(first)
	f.StSharedB64(r.smem.Off(wordSpare), zero).If(first)
}

func (r *resolver) sync() { r.f.BarSync(ptx.Imm(0)) }

func (r *resolver) isThread(n int) ptx.Pred {
	p := r.f.Pred("is_thread")
	r.f.SetpU32(ptx.EQ, p, r.tid, ptx.Imm(n))
	return p
}

// strided runs body for every i below n, in threads that lie a CTA apart.
func (r *resolver) strided(name string, n ptx.Src32, body func(i ptx.B32)) {
	i := r.f.B32("i")
	r.f.MovB32(i, r.tid)
	r.stridedFrom(i, name, n, body)
}

// beyondThreads is strided without the first of each thread.
func (r *resolver) beyondThreads(name string, n ptx.Src32, body func(i ptx.B32)) {
	i := r.f.B32("i")
	r.f.AddU32(i, r.tid, ptx.Imm(resolveThreads))
	r.stridedFrom(i, name, n, body)
}

func (r *resolver) stridedFrom(i ptx.B32, name string, n ptx.Src32, body func(i ptx.B32)) {
	f := r.f
	out, end := f.Pred("out"), f.Label(name+"_end")
	loop := f.Here(name)
	f.SetpU32(ptx.GE, out, i, n)
	f.Bra(end).If(out)
	body(i)
	f.AddU32(i, i, ptx.Imm(resolveThreads))
	f.Bra(loop)
	f.Place(end)
}

// eachEntry runs body for the first n entries, those of readList first.
func (r *resolver) eachEntry(name string, n ptx.Src32, body func(e entry)) {
	if r.own == nil {
		r.strided(name, n, func(i ptx.B32) { body(r.entry(i)) })
		return
	}
	f, none, more := r.f, r.f.Pred("has_none"), r.f.Label(name+"_more")
	f.SetpU32(ptx.GE, none, r.tid, n)
	f.Bra(more).If(none)
	body(r.asEntry(r.own))
	f.Place(more)
	r.beyondThreads(name, n, func(i ptx.B32) { body(r.entry(i)) })
}

// skipOthers ends the rows that have no list, and in further passes those that are closed.
func (r *resolver) skipOthers() {
	if r.further {
		r.countPass()
		return
	}
	f, on := r.f, r.f.Pred("listed_row")
	if listsCold(r.c) {
		on = r.filter.narrows
	} else {
		f.SetpAndF32(ptx.GT, on, r.temperature, ptx.F32Imm(0), r.filter.narrows) // T = 0 and NaN have none
	}
	f.Bra(r.labels.done).IfNot(on)
}

// checkKey ends the rows whose status stands, or of which nothing is listed.
func (r *resolver) checkKey() {
	f, failed, none := r.f, r.f.Pred("failed"), r.f.Pred("none_listed")
	f.SetpU32(ptx.EQ, failed, r.bound, imm(f, keyFailed))
	f.Bra(r.labels.done).If(failed)
	f.SetpU32(ptx.EQ, none, r.count, ptx.Imm(0))
	r.endWith(ir.StatusEmpty, none)
}

// checkList keeps a row open whose list has overflowed.
func (r *resolver) checkList(edge ptx.B32) {
	over := r.f.Pred("list_overflows")
	r.f.SetpU32(ptx.GT, over, r.count, ptx.Imm(manifest.RowCandidates))
	r.overflows(edge, over)
}

// startWeights prepares for weights: those of the row's likeliest token, which the marks have seen, are the largest.
func (r *resolver) startWeights() {
	f := r.f
	t := r.temperature
	if r.c.Truncation.TemperatureLast {
		t = f.F32("filter_temperature")
		f.MovF32(t, ptx.F32Imm(1))
		if r.several() { // rows that no filter narrows weigh what they draw
			f.MovF32(t, r.temperature).IfNot(r.filter.narrows)
		}
	}
	if r.sumsKept() {
		r.setSumTemperature()
	}
	high := f.B32("largest")
	if r.further {
		top := f.F32("top")
		f.MovB32(top, r.state.top)
		r.weigh = newWeigher(f, top, t, r.vocab)
		return
	}
	f.LdSharedB32(high, r.smem.Off(wordLargest))
	r.weigh = newWeigher(f, scoreThreshold(f, high), t, r.vocab)
}

// endWith ends the row without a token, where p holds for all threads.
func (r *resolver) endWith(s ir.Status, p ptx.Pred) {
	f, on, first := r.f, r.f.Label("goes_on"), r.isThread(0)
	f.Bra(on).IfNot(p)
	f.StGlobalB32(rowAddr(f, r.tokens, r.row), imm(f, ir.NoToken)).If(first)
	f.StGlobalB32(rowAddr(f, r.status, r.row), ptx.Imm(int64(s))).If(first)
	if r.c.Score {
		nan := f.F32()
		f.MovB32(nan, ptx.Imm(floatNaN))
		f.StGlobalF32(rowAddr(f, r.scores, r.row), nan).If(first)
	}
	if r.tells() {
		f.StGlobalB32(rowAddr(f, r.logProbs, r.row), imm(f, floatNaN)).If(first)
	}
	r.leaveRank(nil, ptx.B32{}, first)
	f.Bra(r.labels.done)
	f.Place(on)
}

// draw takes the kept token of the largest score and writes the row's results.
func (r *resolver) draw() {
	f := r.f
	r.eachEntry("draw", r.count, func(e entry) {
		kept, old := r.isKept(e), f.B64()
		f.AtomSharedMaxU64(old, r.smem.Off(wordBest), scoreKey(f, e.score, e.id, kept), ptx.RelaxedCTA).If(kept)
	})
	r.sync()
	best := f.B64("best")
	f.LdSharedB64(best, r.smem.Off(wordBest))
	if r.tells() {
		r.findListed(best)
		r.tellListed()
	}
	if r.several() {
		r.drawKept(best)
	}
	r.write(best)
}

// isKept reports whether a listed token is within the cut, and weighs what min-p asks for.
func (r *resolver) isKept(e entry) ptx.Pred {
	kept := r.f.Pred("kept")
	r.f.SetpU64(ptx.GE, kept, e.key, r.cutKey)
	if r.c.Truncation.MinP {
		r.f.SetpAndU64(ptx.GE, kept, r.weigh.of(e.z), r.least, kept)
	}
	return kept
}

// write writes the results of a row whose best score has a key, and ends.
func (r *resolver) write(best ptx.B64) {
	f, first := r.f, r.isThread(0)
	f.Bra(r.labels.done).IfNot(first)
	low, high, token := f.B32(), f.B32(), f.B32("token")
	f.MovUnpackB64(low, high, best)
	f.NotB32(token, low)
	f.StGlobalB32(rowAddr(f, r.tokens, r.row), token)
	f.StGlobalB32(rowAddr(f, r.status, r.row), ptx.Imm(int64(ir.StatusOK)))
	if r.c.Score {
		f.StGlobalF32(rowAddr(f, r.scores, r.row), r.finalScore(high))
	}
	r.leaveRank(&r.tokenLogit, token, first)
	r.closeRow()
	f.Bra(r.labels.done)
}

// leaveRank leaves the key of the row's token for the pass that counts what is before it, and a rank of 1; 0 where the logit is nil,
// since there is no token.
func (r *resolver) leaveRank(logit *ptx.F32, token ptx.B32, first ptx.Pred) {
	if !r.c.Rank {
		return
	}
	f, key, wanted, rank := r.f, r.f.B64("rank_key"), r.f.Pred("wanted"), int64(0)
	f.MovB64(key, ptx.Imm(notKeyed))
	if logit != nil {
		rankKey(f, key, *logit, token)
		rank = 1
	}
	addr, ranks, one := f.B64(), loadPointer(f, r.ranks, "ranks"), imm(f, rank)
	f.MadWideU32(addr, r.row, ptx.Imm(8), loadPointer(f, r.rankKeys, "rank_keys"))
	f.StGlobalB64(addr, key).If(first)
	f.SetpAndU64(ptx.NE, wanted, ranks, ptx.Imm(0), first)
	f.StGlobalB32(rowAddr(f, ranks, r.row), one).If(wanted)
}

// finalScore is z/T + g: the compared score is T times that for T below 1.
func (r *resolver) finalScore(high ptx.B32) ptx.F32 {
	f, s := r.f, scoreThreshold(r.f, high)
	below := f.Pred("below_one")
	f.SetpF32(ptx.LT, below, r.temperature, ptx.F32Imm(1))
	if r.several() || listsCold(r.c) { // elsewhere a row at 0 has no list
		f.SetpAndF32(ptx.GT, below, r.temperature, ptx.F32Imm(0), below)
	}
	f.MovF32(s, quotient(f, s, r.temperature)).If(below)
	return s
}
