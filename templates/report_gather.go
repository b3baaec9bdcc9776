package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// What is reported of a row's tokens beside the sampled one is known to the rank that has them: the log-probability of a listed id, the
// tokens of its shard that are before the row's, its likeliest ones. Stages leave that in an array of words, some for each row, and this
// stage behind them exchanges it and joins it in place. So all ranks have the same bits, those that the rank in question has.
//
// Rows have ReportWords places in an inbox. A row of more words goes in as many rounds, each an epoch of its own: a rank that sends round
// r+2 has seen all flags of r+1, which every rank raises behind its reading of r, so that two halves are enough as ever.

// reportKind is what is joined.
type reportKind int

const (
	reportListed reportKind = iota // log-probabilities, 0 from ranks that have not the id: the largest as an unsigned number
	reportRanks                    // 1 and the tokens before the row's, 0 of rows without one
	reportTops                     // keys in falling order
)

// gathersReports reports whether what stages report is of a shard, and exchanged.
func gathersReports(c ir.Computation) bool { return c.Shard == ir.ShardExchange }

// reportGatherer builds the stage.
type reportGatherer struct {
	rowExchange
	kind                          reportKind
	tokens, status                ptx.Param
	words                         ptx.B64 // of the row
	length, begun                 ptx.B32 // words of a row, and those of rounds before
	start, header, own, ranks, up ptx.B64 // offsets: of reports in an inbox, there of words, of those of this rank and of rank 0, and from rank to rank
}

// newReportGather adds the stage to the module of a kernel.
func newReportGather(m *ptx.Module, of *skeleton, kind reportKind, name string) *Stage {
	f := m.Entry(name)
	f.Reqntid(gatherThreads, 1, 1)
	k := &skeleton{f: f, c: of.c, whole: of.whole, options: of.options, sig: &params{signature: signature{f: f, sets: of.sig.sets}}}
	g := &reportGatherer{rowExchange: newRowExchange(k, "reports_failed"), kind: kind}
	array, broken := g.begin()
	first, past, done, gone := f.B32("first_epoch"), f.Pred("past"), f.Label("rows_gathered"), f.Label("gone")
	f.MovB32(first, g.exchange.epoch)
	next := f.Here("gather_row")
	f.SetpU32(ptx.GE, past, g.row, g.batch)
	f.Bra(done).If(past)
	f.MovB32(g.exchange.epoch, first)
	g.gatherRow(array, broken)
	step := f.B32("ctas")
	f.MovB32(step, ptx.NctaidX)
	f.AddU32(g.row, g.row, step)
	f.Bra(next)
	f.Place(done)
	f.Bra(gone).If(broken)
	g.lastEpoch(first)
	g.close(func(ptx.Pred) {})
	f.Place(gone)
	f.Ret()
	return &Stage{f, k.sig.finish(), gatherThreads, 0}
}

// begin declares and loads the parameters. It returns the array of words, and whether the rank has failed before.
func (g *reportGatherer) begin() (array ptx.B64, broken ptx.Pred) {
	f, s := g.f, g.sig
	s.batch = s.scalar(ParamBatch)
	peers := s.pointer(ParamPeers, "u8", "table of the ranks", "state")
	var words, length ptx.Param
	switch g.kind {
	case reportListed:
		words, length = s.pointer(ParamListLogProbs, "f32", "batch x list_length", "write"), s.scalar(ParamListLength)
	case reportRanks:
		words = s.pointer(ParamRanks, "i32", "batch", "write")
	case reportTops:
		words = s.pointer(ParamSentTopKeys, "u64", "batch x 32", "scratch")
	}
	g.tokens, g.status = s.pointer(ParamTokens, "i32", "batch", "write"), s.pointer(ParamStatus, "i32", "batch", "write")
	g.thread, g.row = f.B32("thread"), f.B32("row")
	f.MovB32(g.thread, ptx.TidX)
	f.MovB32(g.row, ptx.CtaidX)
	f.GriddepcontrolLaunchDependents()
	f.GriddepcontrolWait()
	g.batch = loadU32(f, s.batch, "batch")
	broken = g.openTable(peers)
	switch g.kind {
	case reportListed:
		g.length = loadU32(f, length, "list_length")
	case reportRanks:
		g.length = imm(f, 1)
	case reportTops:
		g.length = imm(f, manifest.ReportWords)
	}
	g.start = f.B64("reports")
	at := f.B64()
	f.MadWideU32(at, g.exchange.world, ptx.Imm(8), g.exchange.table)
	f.LdGlobalB64(g.start, at.Off(manifest.PeerInboxes))
	g.area = func(rank ptx.B32) ptx.B64 {
		d := f.B64("reports_of_rank")
		f.AddU64(d, g.exchange.inbox(f, rank), g.start)
		return d
	}
	return loadPointer(f, words, "words"), broken
}

// lastEpoch sets the epoch to that of a row's last round.
func (g *reportGatherer) lastEpoch(first ptx.B32) {
	f, rounds := g.f, g.f.B32("rounds")
	f.SubU32(rounds, g.length, ptx.Imm(1)) // nobody launches it for no words
	divideBy(f, rounds, rounds, manifest.ReportWords)
	f.AddU32(g.exchange.epoch, first, rounds)
}

// gatherRow takes a row through its rounds.
func (g *reportGatherer) gatherRow(array ptx.B64, broken ptx.Pred) {
	f, closed, index, more := g.f, g.f.Label("row_gathered"), g.f.B32(), g.f.Pred("more_rounds")
	g.words, g.begun = f.B64("row_words"), f.B32("words_begun")
	f.MulLoU32(index, g.row, g.length)
	f.MadWideU32(g.words, index, ptx.Imm(4), array)
	f.MovB32(g.begun, ptx.Imm(0))
	f.Bra(g.exchange.failed).If(broken)
	round := f.Here("gather_round")
	g.placeRow()
	g.send()
	g.raise()
	missed := g.await()
	f.Bra(g.exchange.failed).If(missed)
	if g.kind == reportTops {
		g.mergeTops()
	} else {
		g.joinWords()
	}
	f.AddU32(g.begun, g.begun, ptx.Imm(manifest.ReportWords))
	f.AddU32(g.exchange.epoch, g.exchange.epoch, ptx.Imm(1))
	f.SetpU32(ptx.LT, more, g.begun, g.length)
	f.Bra(round).If(more)
	f.Bra(closed)
	f.Place(g.exchange.failed)
	g.fail()
	f.Place(closed)
}

// placeRow finds the row's places in the halves of inboxes that are the round's.
func (g *reportGatherer) placeRow() {
	f, x := g.f, g.exchange
	half, index := f.B32("half"), f.B32()
	g.placeFlags(half)
	g.header, g.own, g.ranks, g.up = f.B64("words_start"), f.B64("own_words"), f.B64("words_of_rank_0"), f.B64("rank_step")
	f.MulLoU32(index, x.world, g.rows)
	f.MulWideU32(g.header, index, ptx.Imm(2*manifest.PeerFlagBytes))
	f.MadLoU32(index, half, g.rows, g.row)
	f.MadWideU32(g.ranks, index, ptx.Imm(4*manifest.ReportWords), g.header)
	f.AddU32(index, half, x.rank)
	f.MadLoU32(index, index, g.rows, g.row)
	f.MadWideU32(g.own, index, ptx.Imm(4*manifest.ReportWords), g.header)
	f.MulWideU32(g.up, g.rows, ptx.Imm(4*manifest.ReportWords))
}

// ownWord is where the thread's word of the round is, and whether it has one.
func (g *reportGatherer) ownWord() (at ptx.B64, has ptx.Pred) {
	f, place := g.f, g.f.B32("word_place")
	has = f.Pred("has_word")
	f.AddU32(place, g.begun, g.thread)
	f.SetpU32(ptx.LT, has, g.thread, ptx.Imm(manifest.ReportWords))
	f.SetpAndU32(ptx.LT, has, place, g.length, has)
	return rowAddr(f, g.words, place), has
}

// send stores the round's words into every inbox.
func (g *reportGatherer) send() {
	f := g.f
	word, rank, more, record := f.B32("own_word"), f.B32("to_rank"), f.Pred("more_ranks"), f.B64("record_words")
	at, has := g.ownWord()
	f.LdGlobalB32(word, at).If(has)
	f.MovB32(rank, ptx.Imm(0))
	next := f.Here("each_inbox")
	f.AddU64(record, g.area(rank), g.own)
	f.MadWideU32(record, g.thread, ptx.Imm(4), record)
	f.StGlobalB32(record, word).If(has)
	f.AddU32(rank, rank, ptx.Imm(1))
	f.SetpU32(ptx.LT, more, rank, g.exchange.world)
	f.Bra(next).If(more)
}

// eachSent runs body with the place of every rank's words in the own inbox.
func (g *reportGatherer) eachSent(name string, body func(record ptx.B64)) {
	f, x := g.f, g.exchange
	rank, more, record := f.B32("joined_rank"), f.Pred("more_ranks"), f.B64("record_words")
	f.MovB32(rank, ptx.Imm(0))
	f.AddU64(record, g.area(x.rank), g.ranks)
	next := f.Here(name)
	body(record)
	f.AddU64(record, record, g.up)
	f.AddU32(rank, rank, ptx.Imm(1))
	f.SetpU32(ptx.LT, more, rank, x.world)
	f.Bra(next).If(more)
}

// joinWords joins the round's words, one a thread.
func (g *reportGatherer) joinWords() {
	f, all, word, addr := g.f, g.f.B32("joined_word"), g.f.B32("rank_word"), g.f.B64("record_addr")
	at, has := g.ownWord()
	f.MovB32(all, ptx.Imm(0))
	g.eachSent("join_words", func(record ptx.B64) {
		f.MovB32(word, ptx.Imm(0))
		f.MadWideU32(addr, g.thread, ptx.Imm(4), record)
		f.LdGlobalB32(word, addr, ptx.RelaxedSys).If(has)
		if g.kind == reportListed {
			f.MaxU32(all, all, word)
		} else {
			f.AddU32(all, all, word)
		}
	})
	if g.kind == reportRanks { // of which each has counted the row's token
		others := f.B32("other_ranks")
		f.SubU32(others, g.exchange.world, ptx.Imm(1))
		f.MinU32(others, others, all)
		f.SubU32(all, all, others)
	}
	f.StGlobalB32(at, all).If(has)
}

// mergeTops is a warp's: each lane has a key. Of two falling sequences of 32 keys, the larger ones of the first and of the second turned
// round are the 32 largest of both, in a bitonic sequence, which five steps sort.
func (g *reportGatherer) mergeTops() {
	f, other, end, best, key, turned := g.f, g.f.Pred("other_warp"), g.f.Label("tops_merged"), g.f.B64("best_key"), g.f.B64("rank_key"), g.f.B32("turned_lane")
	f.SetpU32(ptx.GE, other, g.thread, ptx.Imm(manifest.SentTops))
	f.Bra(end).If(other)
	f.MovB64(best, ptx.Imm(0))
	f.XorB32(turned, g.thread, ptx.Imm(manifest.SentTops-1))
	addr := f.B64("record_addr")
	g.eachSent("merge_tops", func(record ptx.B64) {
		f.MadWideU32(addr, turned, ptx.Imm(8), record)
		f.LdGlobalB64(key, addr, ptx.RelaxedSys)
		f.MaxU64(best, best, key)
		for step := manifest.SentTops / 2; step > 0; step /= 2 {
			g.sortStep(best, step)
		}
	})
	merged := f.B64("merged_addr")
	f.MadWideU32(merged, g.thread, ptx.Imm(8), g.words)
	f.StGlobalB64(merged, best)
	f.Place(end)
}

// sortStep leaves the larger of two lanes' keys in the lower lane.
func (g *reportGatherer) sortStep(key ptx.B64, step int) {
	f, low, high, bit, upper, of, least := g.f, g.f.B32(), g.f.B32(), g.f.B32(), g.f.Pred("upper_lane"), g.f.B64("other_key"), g.f.B64()
	f.MovUnpackB64(low, high, key)
	f.ShflSyncBflyB32(low, low, ptx.Imm(step), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
	f.ShflSyncBflyB32(high, high, ptx.Imm(step), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
	f.MovPackB64(of, low, high)
	f.AndB32(bit, g.thread, ptx.Imm(step))
	f.SetpU32(ptx.NE, upper, bit, ptx.Imm(0))
	f.MinU64(least, key, of)
	f.MaxU64(key, key, of)
	f.MovB64(key, least).If(upper)
}

// fail gives the row no token, and nothing to report.
func (g *reportGatherer) fail() {
	f, none, i, out, end, addr := g.f, int64(0), g.f.B32("i"), g.f.Pred("out"), g.f.Label("row_failed"), g.f.B64()
	if g.kind == reportListed {
		none = floatNaN
	}
	g.only(func() {
		f.StGlobalB32(rowAddr(f, loadPointer(f, g.tokens, "tokens"), g.row), imm(f, ir.NoToken))
		f.StGlobalB32(rowAddr(f, loadPointer(f, g.status, "status"), g.row), ptx.Imm(int64(ir.StatusPeer)))
	})
	f.MovB32(i, g.thread)
	loop := f.Here("fail_words")
	f.SetpU32(ptx.GE, out, i, g.length)
	f.Bra(end).If(out)
	f.MadWideU32(addr, i, ptx.Imm(4), g.words)
	f.StGlobalB32(addr, imm(f, none))
	f.AddU32(i, i, ptx.Imm(gatherThreads))
	f.Bra(loop)
	f.Place(end)
}
