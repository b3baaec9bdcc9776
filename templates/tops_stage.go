package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// The kernel that sorts the likeliest tokens of each row, one CTA a row, and gives their log-probabilities by the sums that the first
// kernel has left. A list that has overflowed holds some of the tokens that reach the bound and not all: the row's are undecided, and
// what n of those listed reach is where a further pass over the row begins.

// topper builds the kernel. Of samplers it has what knows a row's parameters, of resolver what sorts. The computation is that whose
// scores are summed.
type topper struct {
	*samplers
	r    *resolver
	done *ptx.Label

	row, count     ptx.B32
	keys           ptx.B64 // the row's list
	floor          ptx.B64 // address of where the row's next pass begins
	bound          ptx.B64
	ids, logs      ptx.B64
	masses, status ptx.B64
	narrows        bool // filters narrow rows
	keptRows       ptx.B64
	sent           ptx.B64 // the row's keys that travel, of a shard
	merges         bool    // they have travelled (tops_merge.go)
}

// newTop adds the kernel to the module of the kernel that lists.
func newTop(m *ptx.Module, shared ptx.SharedVar, c ir.Computation, o Options, name string) *Stage {
	f := m.Entry(name)
	f.Reqntid(resolveThreads, 1, 1)
	t := newTopper(f, c, o)
	if gathersReports(c) {
		t.beginSent(shared)
	} else {
		t.begin(shared)
	}
	t.endFailed()
	t.sort()
	t.endUndecided()
	t.write()
	f.Place(t.done)
	f.Ret()
	return &Stage{f, t.sig.finish(), resolveThreads, resolveShared}
}

func newTopper(f *ptx.Func, c ir.Computation, o Options) *topper {
	narrows := reportsKept(c)
	c = c.Summed()
	k := &skeleton{f: f, c: c, whole: c, options: o, sum: newSumGraphs(c, c), sig: &params{signature: signature{f: f, sets: setsOf(c)}}}
	return &topper{samplers: &samplers{skeleton: k}, r: &resolver{f: f, c: c}, done: f.Label("done"), narrows: narrows}
}

// begin declares and loads the parameters, and leaves the row's workspace zero for the next launch.
func (t *topper) begin(shared ptx.SharedVar) {
	f, s := t.f, t.sig
	s.addSlots(t.c)
	if t.c.Chain.Temperature {
		s.temperature, s.temperatureStride = s.rows(ParamTemperature, "f32", ParamTemperatureStride)
	}
	s.topParams = s.topLists()
	o := t.declareOutputs()
	t.beginRow(shared)
	t.loadOutputs(o)
	t.keys, t.floor, t.count = f.B64("keys"), f.B64("floor"), f.B32("count")
	f.MadWideU32(t.floor, t.row, ptx.Imm(boundBytes), loadPointer(f, s.topFloors, "top_floors"))
	f.MadWideU32(t.keys, t.row, ptx.Imm(8*manifest.RowTopKeys), loadPointer(f, s.topKeys, "top_keys"))
	t.clear()
}

// topOutputs are the parameters of what is told, and by what.
type topOutputs struct{ vocab, keptRows, masses, status, ids, logs ptx.Param }

func (t *topper) declareOutputs() (o topOutputs) {
	s, shape := t.sig, "batch x top_n"
	if t.narrows {
		o.vocab, o.keptRows = s.scalar(ParamVocab), s.keptRows("scratch")
	}
	o.masses, o.status = s.pointer(ParamMasses, "f32", "batch x 2", "scratch"), s.pointer(ParamStatus, "i32", "batch", "read")
	o.ids, o.logs = s.pointer(ParamTopIDs, "i32", shape, "write"), s.pointer(ParamTopLogProbs, "f32", shape, "write")
	return o
}

func (t *topper) loadOutputs(o topOutputs) {
	f, s := t.f, t.sig
	t.loadSlots()
	if t.narrows {
		t.vocab, t.keptRows = loadU32(f, o.vocab, "vocab"), loadPointer(f, o.keptRows, "kept_rows")
	}
	if t.c.Chain.Temperature {
		t.temps, t.tempStride = loadPointer(f, s.temperature, "temperature"), loadU32(f, s.temperatureStride, "temperature_stride")
	}
	t.masses, t.status = loadPointer(f, o.masses, "masses"), loadPointer(f, o.status, "status")
	t.ids, t.logs = f.B64("ids"), f.B64("logs")
	f.MadWideU32(t.ids, t.row, ptx.Imm(4*t.c.TopN), loadPointer(f, o.ids, "top_ids"))
	f.MadWideU32(t.logs, t.row, ptx.Imm(4*t.c.TopN), loadPointer(f, o.logs, "top_logprobs"))
}

// clear reads what the first kernel has left of the row, and zeroes it.
func (t *topper) clear() {
	f, s, r := t.f, t.sig, t.r
	count, bound, mark, zero := rowAddr(f, loadPointer(f, s.topCounts, "top_counts"), t.row), f.B64(), f.B64("mark_addr"), f.B64("zero")
	f.MadWideU32(bound, t.row, ptx.Imm(boundBytes), loadPointer(f, s.topBounds, "top_bounds"))
	f.MovB64(zero, ptx.Imm(0))
	f.LdGlobalB32(t.count, count)
	first, marks, own, at, index := r.isThread(0), f.Pred("has_mark"), f.B64("mark"), f.B32("mark_place"), f.B32()
	f.SetpU32(ptx.LT, marks, r.tid, ptx.Imm(manifest.RowTopMarks))
	f.MadLoU32(index, t.row, ptx.Imm(manifest.RowTopMarks), r.tid)
	f.MadWideU32(mark, index, ptx.Imm(8), loadPointer(f, s.topMarks, "top_marks"))
	f.MadLoU32(at, r.tid, ptx.Imm(8), r.smem)
	f.MovB64(own, ptx.Imm(0))
	f.LdGlobalB64(own, mark).If(marks)
	f.StSharedB64(at.Off(resolveSums), own).If(marks)
	f.StSharedB32(r.smem.Off(wordListed), ptx.Imm(0)).If(first)
	r.sync() // all have read the count
	f.StGlobalB64(mark, zero).If(marks)
	f.StGlobalB32(count, ptx.Imm(0)).If(first)
	f.StGlobalB64(bound, zero).If(first)
	t.findBound(own, marks)
}

// findBound finds the n-th largest mark, which n tokens reach: that of the thread whose own so many are ahead of.
func (t *topper) findBound(own ptx.B64, marks ptx.Pred) {
	f, r := t.f, t.r
	rank, is := f.B32("rank"), f.Pred("is_nth")
	f.MovB32(rank, ptx.Imm(0))
	for i := range manifest.RowTopMarks {
		other, ahead, lower := f.B64(), f.Pred("ahead"), f.Pred("lower_place")
		f.LdSharedB64(other, r.smem.Off(resolveSums+8*i))
		f.SetpU32(ptx.GT, lower, r.tid, ptx.Imm(i))
		f.SetpAndU64(ptx.EQ, lower, other, own, lower) // equal ones in the order of their places
		f.SetpOrU64(ptx.GT, ahead, other, own, lower)
		f.AddU32(rank, rank, ptx.Imm(1)).If(ahead)
	}
	f.SetpAndU32(ptx.EQ, is, rank, ptx.Imm(t.c.TopN-1), marks)
	f.StSharedB64(r.smem.Off(wordBest), own).If(is)
	r.sync()
	t.bound = f.B64("bound")
	f.LdSharedB64(t.bound, r.smem.Off(wordBest))
}

// endFailed ends a row without a token.
func (t *topper) endFailed() {
	f, failed, status, on := t.f, t.f.Pred("failed"), t.f.B32("row_status"), t.f.Label("goes_on")
	f.LdGlobalB32(status, rowAddr(f, t.status, t.row))
	f.SetpU32(ptx.NE, failed, status, ptx.Imm(int64(ir.StatusOK)))
	f.Bra(on).IfNot(failed)
	zero := f.B64("zero")
	f.MovB64(zero, ptx.Imm(0))
	t.endWith(ir.NoToken, zero)
	f.Place(on)
}

// endWith ends the row with the same id n times, and no log-probability; a further pass would begin at the floor.
func (t *topper) endWith(id int64, floor ptx.B64) {
	if gathersReports(t.c) && !t.merges {
		t.sendOnly(id, floor)
		return
	}
	f, first, here, nan := t.f, t.r.isThread(0), t.f.Pred("has_place"), t.f.F32()
	if !t.merges {
		f.StGlobalB64(t.floor, floor).If(first)
	}
	f.MovB32(nan, ptx.Imm(floatNaN))
	f.SetpU32(ptx.LT, here, t.r.tid, ptx.Imm(t.c.TopN))
	f.StGlobalB32(rowAddr(f, t.ids, t.r.tid), imm(f, id)).If(here)
	f.StGlobalF32(rowAddr(f, t.logs, t.r.tid), nan).If(here)
	f.Bra(t.done)
}

// sort brings the listed keys that reach the bound into their order.
func (t *topper) sort() {
	f, r, stored := t.f, t.r, t.f.B32("stored")
	f.MinU32(stored, t.count, ptx.Imm(manifest.RowTopKeys))
	r.strided("load_key", stored, func(i ptx.B32) {
		key, addr, reaches, past, at := f.B64("key"), f.B64(), f.Pred("reaches_bound"), f.Label("key_loaded"), f.B32()
		f.MadWideU32(addr, i, ptx.Imm(8), t.keys)
		f.LdGlobalB64(key, addr)
		f.SetpU64(ptx.GE, reaches, key, t.bound)
		f.Bra(past).IfNot(reaches)
		f.AtomSharedAddU32(at, r.smem.Off(wordListed), ptx.Imm(1), ptx.RelaxedCTA)
		f.StSharedB64(r.keyAddr(at), key)
		f.Place(past)
	})
	r.sync()
	r.fill()
	r.sort()
}

// endUndecided ends a row whose list has overflowed.
func (t *topper) endUndecided() {
	f, r, over, few, on, floor := t.f, t.r, t.f.Pred("list_overflows"), t.f.Pred("few_listed"), t.f.Label("all_listed"), t.f.B64("next_floor")
	f.SetpU32(ptx.GT, over, t.count, ptx.Imm(manifest.RowTopKeys))
	f.Bra(on).IfNot(over)
	f.SetpU32(ptx.LT, few, r.listed, ptx.Imm(t.c.TopN))
	f.LdSharedB64(floor, r.smem.Off(resolveKeys+8*(t.c.TopN-1))).IfNot(few)
	f.MovB64(floor, t.bound).If(few)
	t.endWith(ir.UndecidedToken, floor)
	f.Place(on)
}

// write writes the first keys as ids and log-probabilities, -1 and -inf behind the last. A pass that others of the batch need goes over
// this row too: it begins at the last of the keys and so lists them again and nothing else. Where there are fewer, they are all that
// counts.
func (t *topper) write() {
	f, r, first, here, there, enough := t.f, t.r, t.r.isThread(0), t.f.Pred("has_place"), t.f.Pred("has_token"), t.f.Pred("enough_listed")
	floor, id, log := f.B64("next_floor"), f.B32("token"), f.F32("log_probability")
	if !t.merges {
		f.MovB64(floor, ptx.Imm(0))
		f.SetpU32(ptx.GE, enough, r.listed, ptx.Imm(t.c.TopN))
		f.LdSharedB64(floor, r.smem.Off(resolveKeys+8*(t.c.TopN-1))).If(enough)
		f.StGlobalB64(t.floor, floor).If(first)
		if gathersReports(t.c) {
			t.sendKeys()
			return
		}
	}
	f.SetpU32(ptx.LT, here, r.tid, ptx.Imm(t.c.TopN))
	if t.narrows && t.c.LogProb == ir.ProcessedLogProb {
		t.writeNarrowed()
	}
	f.Bra(t.done).IfNot(here)
	f.MovB32(id, imm(f, ir.NoToken))
	f.MovF32(log, ptx.F32Imm(math.Inf(-1)))
	store := f.Label("store_token")
	f.SetpU32(ptx.LT, there, r.tid, r.listed)
	f.Bra(store).IfNot(there)
	key, low, high := f.B64("key"), f.B32(), f.B32()
	f.LdSharedB64(key, r.keyAddr(r.tid))
	f.MovUnpackB64(low, high, key)
	f.NotB32(id, low)
	f.MovF32(log, t.logProb(scoreThreshold(f, high)))
	f.Place(store)
	f.StGlobalB32(rowAddr(f, t.ids, r.tid), id)
	f.StGlobalF32(rowAddr(f, t.logs, r.tid), log)
	f.Bra(t.done)
}

// writeNarrowed is write for a row that filters narrow: a warp looks at as many keys as it has lanes, more than are asked for, since
// min-p may drop one among them whose weight is rounded below that of the next. Other rows go on.
func (t *topper) writeNarrowed() {
	f, r, k, plain, there := t.f, t.r, loadKept(t.f, t.c, t.keptRows, t.row, t.temperatureOf(t.row)), t.f.Label("not_narrowed"), t.f.Pred("has_key")
	other := f.Pred("other_warp")
	f.Bra(plain).If(k.plain)
	f.SetpU32(ptx.GE, other, r.tid, ptx.Imm(warpSize))
	f.Bra(t.done).If(other)
	key, low, high, id := f.B64("key"), f.B32(), f.B32(), f.B32("token")
	f.SetpU32(ptx.LT, there, r.tid, r.listed)
	f.MovB64(key, ptx.Imm(0))
	f.LdSharedB64(key, r.keyAddr(r.tid)).If(there)
	f.MovUnpackB64(low, high, key)
	f.NotB32(id, low)
	z := scoreThreshold(f, high)
	kept := k.has(f, t.vocab, z, key)
	f.AndPred(kept, kept, there)
	lanes, before, place, all := f.B32("kept_lanes"), f.B32(), f.B32("place"), f.B32("kept_tokens")
	f.VoteSyncBallotB32(lanes, kept, ptx.Imm(fullWarp))
	f.MovB32(before, ptx.LanemaskLt)
	f.AndB32(before, before, lanes)
	f.PopcB32(place, before)
	f.PopcB32(all, lanes)
	f.SetpAndU32(ptx.LT, kept, place, ptx.Imm(t.c.TopN), kept)
	log := k.logProb(f, z)
	f.StGlobalB32(rowAddr(f, t.ids, place), id).If(kept)
	f.StGlobalF32(rowAddr(f, t.logs, place), log).If(kept)
	behind, none := f.Pred("behind_kept"), f.F32()
	f.SetpU32(ptx.LT, behind, r.tid, ptx.Imm(t.c.TopN))
	f.SetpAndU32(ptx.GE, behind, r.tid, all, behind)
	f.MovF32(none, ptx.F32Imm(math.Inf(-1)))
	f.StGlobalB32(rowAddr(f, t.ids, r.tid), imm(f, ir.NoToken)).If(behind)
	f.StGlobalF32(rowAddr(f, t.logs, r.tid), none).If(behind)
	f.Bra(t.done)
	f.Place(plain)
}

// logProb is the log-probability of a token of the row by its logit.
func (t *topper) logProb(z ptx.F32) ptx.F32 {
	f, total, addr := t.f, pair{t.f.F32("largest"), t.f.F32("sum")}, t.f.B64()
	f.MadWideU32(addr, t.row, ptx.Imm(8), t.masses)
	f.LdGlobalV2F32([]ptx.F32{total.largest, total.sum}, addr)
	slot := t.slotOf(t.row).index // a row that has not failed has one
	alpha, tau, scale := t.scalesOf(slot)
	if t.narrows {
		alpha, tau, scale = t.narrowedScales(loadKept(f, t.c, t.keptRows, t.row, t.temperatureOf(t.row)), alpha, tau, scale)
	}
	base := z
	if t.scaledSums() {
		base = f.F32("base")
		f.MulF32(base, z, alpha, ptx.RN)
	}
	return t.logProbOf(total, tau, scale, base)
}
