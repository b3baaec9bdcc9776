package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// Rows that are collected (collect.go) need more of a shard than a record: their lists and their marks. So a kernel that collects leaves
// its records to this stage, behind it: a CTA sends record, marks and list of its row to every rank, raises the row's
// flag there, waits for those of the others, and joins what has come where the resolving kernel looks for it. Marks join by their
// largest, lists stand one behind the other in the order of ranks, and a bound holds that any rank has proven: it is reached by as many
// tokens as matter. So every rank resolves the same rows, as one GPU would.
//
// In further passes (further.go) it sends what a survey has counted, too, whose weights are integers: their sums are those of one GPU. Rows
// that are closed send nothing, and where none is open nothing is done at all; all ranks have the same states, since they resolve the
// same rows by the same numbers.
//
// What was listed past manifest.SentCandidates of a rank is not sent: such a row counts as one whose list has overflowed.
//
// The protocol is that of exchange.go, with a flag for each row. Any grid is right whose CTAs are all there at once: a CTA takes rows a
// grid apart, lowest first, and waits for the CTAs of the same row alone, so that the lowest row that is not done is never kept.

// gatherThreads is its block: each thread has four of a row's marks.
const gatherThreads = manifest.RowMarks / 4

// gathers reports whether records are left to the stage that gathers lists.
func gathers(c ir.Computation) bool { return c.Shard == ir.ShardExchange && c.Collects() }

// gatherer builds the stage. All of a CTA is behind a barrier between two rows: that of the wait, or of what is next sent.
type gatherer struct {
	rowExchange
	lists, own ptx.B64 // offsets in an inbox of the lists of rank 0 and of this rank, for the row
	listStep   ptx.B64 // from rank to rank
	ownRecord  ptx.B64 // where this rank's records are
	gone       *ptx.Label
}

// newGather adds the stage to the module of the kernel that collects.
func newGather(m *ptx.Module, of *skeleton, name string) *Stage {
	f := m.Entry(name)
	f.Reqntid(gatherThreads, 1, 1)
	f.Maxnreg(stageRegisters)
	k := &skeleton{f: f, c: of.c, whole: of.whole, options: of.options, sum: of.sum, sig: &params{signature: signature{f: f, sets: of.sig.sets}}}
	g := &gatherer{rowExchange: newRowExchange(k, "gather_failed"), gone: f.Label("gather_gone")}
	x := g.exchange
	broken := g.begin()
	past, closed, done := f.Pred("past"), f.Label("row_gathered"), f.Label("rows_gathered")
	next := f.Here("gather_row")
	f.SetpU32(ptx.GE, past, g.row, g.batch)
	f.Bra(done).If(past)
	g.placeRow()
	if g.options.Further {
		g.skipClosed(closed)
	}
	f.Bra(x.failed).If(broken)
	g.send()
	g.raise()
	missed := g.await()
	f.Bra(x.failed).If(missed)
	g.joinLists()
	g.only(func() {
		g.writeRow(g.joinRow(recordSource{first: g.inboxAt(x.first), bytes: x.bytes, rows: g.rows, world: x.world}, g.row))
	})
	f.Bra(closed)
	f.Place(x.failed)
	g.only(func() {
		key := f.B64("failed_key")
		f.MovPackB64(key, imm(f, int64(ir.StatusPeer)), imm(f, keyFailed))
		g.writeRow(g.failedRow(key))
		if g.options.Further {
			g.writeJoined(g.row, g.failedRow(key))
			f.StGlobalB32(stateAddr(f, loadPointer(f, g.sig.states, "states"), g.row).Off(4*stateMode), ptx.Imm(passNone))
		}
	})
	f.Place(closed)
	step := f.B32("ctas")
	f.MovB32(step, ptx.NctaidX)
	f.AddU32(g.row, g.row, step)
	f.Bra(next)
	f.Place(done)
	g.close(func(missed ptx.Pred) {
		if g.options.Further {
			f.StGlobalB32(loadPointer(f, g.sig.open, "open"), ptx.Imm(0)).If(missed)
		}
	})
	f.Place(g.gone)
	f.Ret()
	return &Stage{f, k.sig.finish(), gatherThreads, 0}
}

// begin declares and loads the parameters. It reports whether the rank has failed before.
func (g *gatherer) begin() (broken ptx.Pred) {
	f, s, x := g.f, g.sig, g.exchange
	s.vocab, s.batch = s.scalar(ParamVocab), s.scalar(ParamBatch)
	s.shard.peers = s.pointer(ParamPeers, "u8", "table of the ranks", "state")
	records := s.pointer(ParamRecords, "u8", "records of record_rows rows", "scratch")
	s.addSlots(g.c)
	if g.c.Chain.Temperature {
		s.temperature, s.temperatureStride = s.rows(ParamTemperature, "f32", ParamTemperatureStride)
	}
	s.addFilters(g.c)
	s.addOutputs(g.c)
	if g.c.Rank && !g.options.Further {
		s.addRankKeys()
	}
	s.marks, s.counts = s.pointer(ParamMarks, "u32", "batch x 1024", "workspace"), s.pointer(ParamCounts, "u32", "batch", "workspace")
	s.candidates = s.pointer(ParamCandidates, "u32", "batch x 8192 x 4", "scratch")
	s.bounds = s.pointer(ParamBounds, "u32", "batch", "scratch")
	if g.options.Further {
		s.states, s.open = s.openRows()
		if g.surveying() {
			s.bins = s.pointer(ParamBins, "u64", "batch x 65", "workspace")
		}
	} else if g.leavesMass() {
		s.masses = s.pointer(ParamMasses, "f32", "batch x 2", "scratch")
	}
	if g.peaks() {
		s.peaks = s.pointer(ParamPeaks, "u32", "batch", "workspace")
	}
	g.thread, g.row = f.B32("thread"), f.B32("row")
	f.MovB32(g.thread, ptx.TidX)
	f.MovB32(g.row, ptx.CtaidX)
	f.GriddepcontrolLaunchDependents()
	f.GriddepcontrolWait()
	g.vocab, g.batch = loadU32(f, s.vocab, "vocab"), loadU32(f, s.batch, "batch")
	g.loadSlots()
	if g.c.Chain.Temperature {
		g.temps, g.tempStride = loadPointer(f, s.temperature, "temperature"), loadU32(f, s.temperatureStride, "temperature_stride")
	}
	g.ownRecord = loadPointer(f, records, "own_records_addr")
	broken = g.openTable(s.shard.peers)
	x.bytes = recordBytes(f, g.c, g.rows)
	if g.options.Further {
		open, none := f.B32("open_rows"), f.Pred("none_open")
		f.LdGlobalB32(open, loadPointer(f, s.open, "open"), ptx.RelaxedGPU)
		f.SetpU32(ptx.EQ, none, open, ptx.Imm(0))
		f.Bra(g.gone).If(none)
	}
	return broken
}

// leavesMass reports whether the stage leaves the rows' sums, for the resolving kernel or for stages that report.
func (g *gatherer) leavesMass() bool { return keepsMass(g.c) || reportsSums(g.c) }

// skipClosed passes over a row that is closed.
func (g *gatherer) skipClosed(closed *ptx.Label) {
	f, mode, none := g.f, g.f.B32("mode"), g.f.Pred("is_closed")
	f.LdGlobalB32(mode, stateAddr(f, loadPointer(f, g.sig.states, "states"), g.row).Off(4*stateMode))
	f.SetpU32(ptx.EQ, none, mode, ptx.Imm(passNone))
	f.Bra(closed).If(none)
}

// placeRow finds the row's places in the halves of inboxes that are the epoch's: flags of all ranks and rows, records, lists.
func (g *gatherer) placeRow() {
	f, x := g.f, g.exchange
	half, index, step := f.B32("half"), f.B32(), f.B32()
	g.placeFlags(half)

	x.first, x.own = f.B64("epoch_records"), f.B64("own_records")
	f.MulLoU32(step, x.world, g.rows)
	f.MulWideU32(x.first, step, ptx.Imm(2*manifest.PeerFlagBytes))
	g.lists, g.own, g.listStep = f.B64("epoch_lists"), f.B64("own_list"), f.B64("list_step")
	f.ShlB32(step, x.world, ptx.Imm(1))
	f.MadWideU32(g.lists, step, x.bytes, x.first)
	f.AddU32(index, half, x.rank)
	f.MadWideU32(x.own, index, x.bytes, x.first)
	f.MadWideU32(x.first, half, x.bytes, x.first)
	f.MadLoU32(index, index, g.rows, g.row)
	f.MadWideU32(g.own, index, ptx.Imm(manifest.SentListBytes), g.lists)
	f.MadLoU32(half, half, g.rows, g.row)
	f.MadWideU32(g.lists, half, ptx.Imm(manifest.SentListBytes), g.lists)
	f.MulWideU32(g.listStep, g.rows, ptx.Imm(manifest.SentListBytes))
}

// inboxAt is a place in the own inbox.
func (g *gatherer) inboxAt(offset ptx.B64) ptx.B64 {
	d := g.f.B64("inbox_place")
	g.f.AddU64(d, g.exchange.inbox(g.f, g.exchange.rank), offset)
	return d
}

// entriesOf is where the entries of the row's own list are, and marksOf where its marks.
func (g *gatherer) entriesOf() ptx.B64 {
	index, d := g.f.B32(), g.f.B64("entries")
	g.f.MulLoU32(index, g.row, ptx.Imm(manifest.RowCandidates))
	g.f.MadWideU32(d, index, ptx.Imm(manifest.CandidateBytes), loadPointer(g.f, g.sig.candidates, "candidates"))
	return d
}

func (g *gatherer) marksOf() ptx.B64 {
	index, d := g.f.B32(), g.f.B64("own_marks")
	g.f.MadLoU32(index, g.row, ptx.Imm(gatherThreads), g.thread)
	g.f.MadWideU32(d, index, ptx.Imm(16), loadPointer(g.f, g.sig.marks, "marks"))
	return d
}

// copyList copies entries, one a thread at a time.
func (g *gatherer) copyList(name string, n ptx.B32, from, to ptx.B64, past func(i ptx.B32) ptx.Pred) {
	f, i, out, end := g.f, g.f.B32("i"), g.f.Pred("out"), g.f.Label(name+"_end")
	f.MovB32(i, g.thread)
	loop := f.Here(name)
	f.SetpU32(ptx.GE, out, i, n)
	f.Bra(end).If(out)
	words, source, target := f.NewB32s("entry", 4), f.B64(), f.B64()
	f.MadWideU32(source, i, ptx.Imm(manifest.CandidateBytes), from)
	f.MadWideU32(target, i, ptx.Imm(manifest.CandidateBytes), to)
	f.LdGlobalV4B32(words, source, ptx.RelaxedSys)
	beyond := past(i)
	f.StGlobalV4B32(target, words).IfNot(beyond)
	f.AddU32(i, i, ptx.Imm(gatherThreads))
	f.Bra(loop)
	f.Place(end)
}

// send stores the row's record, marks and list into every inbox.
func (g *gatherer) send() {
	f, x := g.f, g.exchange
	count, sent, marks := f.B32("count"), f.B32("sent"), f.NewB32s("own_mark", 4)
	f.LdGlobalB32(count, rowAddr(f, loadPointer(f, g.sig.counts, "counts"), g.row))
	f.MinU32(sent, count, ptx.Imm(manifest.SentCandidates))
	f.LdGlobalV4B32(marks, g.marksOf())
	key, facts := f.B64("key"), []ptx.B32(nil)
	f.LdGlobalB64(key, recordKey(f, g.ownRecord, g.row))
	if HasFacts(g.c) {
		facts = f.NewB32s("facts", 4)
		f.LdGlobalV4B32(facts, recordFacts(f, g.ownRecord, g.rows, g.row))
	}
	bin, binned := g.ownBin()
	peak := f.B32("own_peak")
	if g.peaks() {
		f.LdGlobalB32(peak, g.peakAt())
	}
	entries, rank, more := g.entriesOf(), f.B32("to_rank"), f.Pred("more_ranks")
	f.MovB32(rank, ptx.Imm(0))
	next := f.Here("each_inbox")
	inbox, list, records, at := x.inbox(f, rank), f.B64("record_list"), f.B64("records"), f.B64("record_marks")
	f.AddU64(list, inbox, g.own)
	f.AddU64(records, inbox, x.own)
	f.MadWideU32(at, g.thread, ptx.Imm(16), list)
	f.StGlobalV4B32(at.Off(manifest.SentMarks), marks)
	if g.surveying() {
		f.MadWideU32(at, g.thread, ptx.Imm(8), list)
		f.StGlobalB64(at.Off(manifest.SentBins), bin).If(binned)
	}
	sentEntries, never := f.B64("record_entries"), f.Pred("never")
	f.AddU64(sentEntries, list, ptx.Imm(manifest.SentEntries))
	f.SetpU32(ptx.NE, never, rank, rank)
	g.copyList("send_list", sent, entries, sentEntries, func(ptx.B32) ptx.Pred { return never })
	g.only(func() {
		f.StGlobalB32(list, count)
		if g.peaks() {
			f.StGlobalB32(list.Off(manifest.SentPeak), peak)
		}
		f.StGlobalB64(recordKey(f, records, g.row), key)
		if facts != nil {
			f.StGlobalV4B32(recordFacts(f, records, g.rows, g.row), facts)
		}
	})
	f.AddU32(rank, rank, ptx.Imm(1))
	f.SetpU32(ptx.LT, more, rank, x.world)
	f.Bra(next).If(more)
}

// binAt is where the thread's bin of the row is, and whether it has one.
func (g *gatherer) binAt() (at ptx.B64, has ptx.Pred) {
	f, index := g.f, g.f.B32()
	at, has = f.B64("bin_addr"), f.Pred("has_bin")
	f.MadLoU32(index, g.row, ptx.Imm(surveyPivots+1), g.thread)
	f.MadWideU32(at, index, ptx.Imm(8), loadPointer(f, g.sig.bins, "bins"))
	f.SetpU32(ptx.LE, has, g.thread, ptx.Imm(surveyPivots))
	return at, has
}

// ownBin loads what this rank's survey has counted in the thread's bin.
func (g *gatherer) ownBin() (bin ptx.B64, has ptx.Pred) {
	if !g.surveying() {
		return bin, has
	}
	at, has := g.binAt()
	bin = g.f.B64("own_bin")
	g.f.MovB64(bin, ptx.Imm(0))
	g.f.LdGlobalB64(bin, at).If(has)
	return bin, has
}

// joinLists joins the ranks' marks, and puts their lists one behind the other.
func (g *gatherer) joinLists() {
	f, x := g.f, g.exchange
	list, entries := g.inboxAt(g.lists), g.entriesOf()
	rank, total, stored, over, more := f.B32("joined_rank"), f.B32("total"), f.B32("stored_before"), f.Pred("list_cut"), f.Pred("more_ranks")
	marks, mark, at := f.NewB32s("joined_mark", 4), f.NewB32s("rank_mark", 4), f.B64("record_marks")
	for _, r := range append(marks, rank, total, stored) {
		f.MovB32(r, ptx.Imm(0))
	}
	f.SetpU32(ptx.NE, over, rank, rank)
	peaks, peak := f.B32("joined_peak"), f.B32("rank_peak")
	f.MovB32(peaks, ptx.Imm(keyEmpty))
	bins, bin := f.B64("bins_sum"), f.B64("rank_bin")
	f.MovB64(bins, ptx.Imm(0))
	next := f.Here("join_list")
	count, some, target := f.B32("count"), f.B32("sent"), f.B64("list_end")
	f.LdGlobalB32(count, list, ptx.RelaxedSys)
	f.MadWideU32(at, g.thread, ptx.Imm(16), list)
	f.LdGlobalV4B32(mark, at.Off(manifest.SentMarks), ptx.RelaxedSys)
	for i := range marks {
		f.MaxU32(marks[i], marks[i], mark[i])
	}
	if g.surveying() {
		f.MadWideU32(at, g.thread, ptx.Imm(8), list)
		f.LdGlobalB64(bin, at.Off(manifest.SentBins), ptx.RelaxedSys) // past the bins there are entries
		f.AddU64(bins, bins, bin)
	}
	if g.peaks() {
		f.LdGlobalB32(peak, list.Off(manifest.SentPeak), ptx.RelaxedSys)
		f.MaxU32(peaks, peaks, peak)
	}
	f.MinU32(some, count, ptx.Imm(manifest.SentCandidates))
	f.SetpOrU32(ptx.GT, over, count, some, over)
	f.MadWideU32(target, stored, ptx.Imm(manifest.CandidateBytes), entries)
	source := f.B64("record_entries")
	f.AddU64(source, list, ptx.Imm(manifest.SentEntries))
	g.copyList("join_entry", some, source, target, func(i ptx.B32) ptx.Pred {
		place, past := f.B32(), f.Pred("past_list")
		f.AddU32(place, i, stored)
		f.SetpU32(ptx.GE, past, place, ptx.Imm(manifest.RowCandidates))
		return past
	})
	f.AddU32(stored, stored, some)
	f.AddU32(total, total, count)
	f.AddU64(list, list, g.listStep)
	f.AddU32(rank, rank, ptx.Imm(1))
	f.SetpU32(ptx.LT, more, rank, x.world)
	f.Bra(next).If(more)
	f.StGlobalV4B32(g.marksOf(), marks)
	if g.surveying() {
		at, has := g.binAt()
		f.StGlobalB64(at, bins).If(has)
	}
	g.fillList(stored, entries, over)
	g.only(func() {
		g.writeCount(total, over)
		if g.peaks() {
			f.StGlobalB32(g.peakAt(), peaks)
		}
	})
}

// peakAt is where the row's largest logit is (peaks.go).
func (g *gatherer) peakAt() ptx.B64 {
	return rowAddr(g.f, loadPointer(g.f, g.sig.peaks, "row_peaks"), g.row)
}

// fillList fills a list up that has overflowed since a rank's was cut: whoever goes on from such a list looks at all of it. Nothing is
// below what it is filled with.
func (g *gatherer) fillList(from ptx.B32, entries ptx.B64, over ptx.Pred) {
	f, i, out, end := g.f, g.f.B32("i"), g.f.Pred("out"), g.f.Label("fill_entry_end")
	f.Bra(end).IfNot(over)
	f.AddU32(i, from, g.thread)
	loop := f.Here("fill_entry")
	f.SetpU32(ptx.GE, out, i, ptx.Imm(manifest.RowCandidates))
	f.Bra(end).If(out)
	at, least, none := f.B64(), imm(f, floatMinusInf), imm(f, 0)
	f.MadWideU32(at, i, ptx.Imm(manifest.CandidateBytes), entries)
	f.StGlobalV4B32(at, []ptx.B32{least, none, least, none})
	f.AddU32(i, i, ptx.Imm(gatherThreads))
	f.Bra(loop)
	f.Place(end)
}

// writeCount leaves the row's count: more than a list holds, where a rank's list was cut.
func (g *gatherer) writeCount(total ptx.B32, over ptx.Pred) {
	f, most := g.f, g.f.B32("most")
	f.MaxU32(most, total, ptx.Imm(manifest.RowCandidates+1))
	f.MovB32(total, most).If(over)
	f.StGlobalB32(rowAddr(f, loadPointer(f, g.sig.counts, "counts"), g.row), total)
}

// writeRow leaves what a row comes to, for itself and for the resolving kernel.
func (g *gatherer) writeRow(j joinedRow) {
	f := g.f
	low, high := f.B32(), f.B32("bound")
	f.MovUnpackB64(low, high, j.key)
	f.StGlobalB32(rowAddr(f, loadPointer(f, g.sig.bounds, "bounds"), g.row), high)
	if g.options.Further { // the resolving kernel writes the results
		return
	}
	if g.leavesMass() {
		always := f.Pred("always")
		f.SetpU32(ptx.EQ, always, g.row, g.row)
		g.writeMass(g.row, j.total, always)
	}
	g.writeJoined(g.row, j)
}
