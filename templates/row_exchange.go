package templates

import (
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// rowExchange is what stages have in common that exchange row by row, a CTA a row: the protocol of exchange.go with a flag for each row.
type rowExchange struct {
	*samplers
	row, rows ptx.B32
	fresh     ptx.Pred                   // the rank has not failed before
	deadline  ptx.B64                    // of all rows: a rank that is missed is not waited for again and again
	area      func(rank ptx.B32) ptx.B64 // where what the stage exchanges begins in a rank's inbox
}

func newRowExchange(k *skeleton, failed string) rowExchange {
	c := &samplers{skeleton: k}
	c.exchange = &exchange{failed: k.f.Label(failed)}
	return rowExchange{samplers: c, area: func(rank ptx.B32) ptx.B64 { return c.exchange.inbox(k.f, rank) }}
}

// openTable loads the table. It reports whether the rank has failed before.
func (g *rowExchange) openTable(peers ptx.Param) (broken ptx.Pred) {
	f, x := g.f, g.exchange
	x.table = loadPointer(f, peers, "peers")
	x.world, x.rank = x.tableWord(f, manifest.PeerWorld, "world"), x.tableWord(f, manifest.PeerRank, "own_rank")
	x.epoch, g.rows = x.tableWord(f, manifest.PeerEpoch, "epoch"), x.tableWord(f, manifest.PeerRows, "record_rows")
	over, timeout := x.tableWord(f, manifest.PeerFailed, "failed_epoch"), f.B64("timeout")
	broken, g.fresh = f.Pred("broken"), f.Pred("fresh")
	f.SetpU32(ptx.NE, broken, over, ptx.Imm(0))
	f.SetpU32(ptx.EQ, g.fresh, over, ptx.Imm(0))
	f.AddU32(x.epoch, x.epoch, ptx.Imm(1))
	g.deadline = f.B64("deadline")
	f.LdGlobalB64(timeout, x.table.Off(manifest.PeerTimeout))
	f.MovB64(g.deadline, ptx.Globaltimer)
	f.AddU64(g.deadline, g.deadline, timeout)
	return broken
}

// only runs body in the first thread.
func (g *rowExchange) only(body func()) {
	f, other, end := g.f, g.f.Pred("other_thread"), g.f.Label("first_done")
	f.SetpU32(ptx.NE, other, g.thread, ptx.Imm(0))
	f.Bra(end).If(other)
	body()
	f.Place(end)
}

// placeFlags finds the half of an area that is the epoch's, in ranks ahead of it, and there the row's flags.
func (g *rowExchange) placeFlags(half ptx.B32) {
	f, x := g.f, g.exchange
	f.AndB32(half, x.epoch, ptx.Imm(1))
	f.MulLoU32(half, half, x.world)
	x.flags = f.B32("epoch_flags")
	f.MadLoU32(x.flags, half, g.rows, g.row)
	f.MulLoU32(x.flags, x.flags, ptx.Imm(manifest.PeerFlagBytes))
}

// flagOf is where the row's flag of a rank stands in an area.
func (g *rowExchange) flagOf(area ptx.B64, rank ptx.B32) ptx.B64 {
	f, step, at := g.f, g.f.B32(), g.f.B64("flag_addr")
	f.MulLoU32(step, g.rows, ptx.Imm(manifest.PeerFlagBytes))
	f.MadLoU32(step, rank, step, g.exchange.flags)
	wide := f.B64()
	f.CvtU64U32(wide, step)
	f.AddU64(at, area, wide)
	return at
}

// eachOther runs body for the ranks that are a thread's.
func (g *rowExchange) eachOther(name string, body func(rank ptx.B32)) {
	f, rank, out, end := g.f, g.f.B32("flag_rank"), g.f.Pred("out"), g.f.Label(name+"_end")
	f.MovB32(rank, g.thread)
	f.SetpU32(ptx.GE, out, rank, g.exchange.world) // of which there are no more than threads
	f.Bra(end).If(out)
	body(rank)
	f.Place(end)
}

// raise tells every rank that the row is there (raiseFlags).
func (g *rowExchange) raise() {
	g.f.BarSync(ptx.Imm(0))
	g.eachOther("raise_flag", func(rank ptx.B32) {
		g.f.StGlobalB32(g.flagOf(g.area(rank), g.exchange.rank), g.exchange.epoch, ptx.ReleaseSys)
	})
}

// await waits for the row's flags, and says whether any did not come in time.
func (g *rowExchange) await() ptx.Pred {
	f, x := g.f, g.exchange
	missed := f.Pred("missed")
	f.SetpU32(ptx.NE, missed, g.thread, g.thread)
	g.eachOther("await_flag", func(rank ptx.B32) {
		x.poll(f, g.flagOf(g.area(x.rank), rank), rank, g.deadline, func() { f.SetpU32(ptx.EQ, missed, g.thread, g.thread) })
	})
	f.BarRedOrPred(missed, ptx.Imm(0), missed)
	return missed
}

// close counts the epoch, when the last CTA is done, and notes it if any rank was missed, which then goes further.
func (g *rowExchange) close(then func(missed ptx.Pred)) {
	f, x := g.f, g.exchange
	f.BarSync(ptx.Imm(0))
	g.only(func() {
		ticket, last, others, failed, word := f.B32("ticket"), f.B32("last_ticket"), f.Pred("others"), f.B32("any_missing"), f.B32()
		f.MovB32(last, ptx.NctaidX)
		f.SubU32(last, last, ptx.Imm(1))
		f.AtomGlobalIncU32(ticket, x.table.Off(manifest.PeerTicket), last, ptx.AcqRelGPU)
		end := f.Label("not_last")
		f.SetpU32(ptx.NE, others, ticket, last)
		f.Bra(end).If(others)
		f.StGlobalB32(x.table.Off(manifest.PeerEpoch), x.epoch)
		f.MovB32(failed, ptx.Imm(0))
		for i := range manifest.MaxRanks / 32 {
			f.LdGlobalB32(word, x.table.Off(manifest.PeerMissing+4*i), ptx.RelaxedGPU)
			f.OrB32(failed, failed, word)
		}
		some, first := f.Pred("missed_some"), f.Pred("missed_first")
		f.SetpU32(ptx.NE, some, failed, ptx.Imm(0))
		f.AndPred(first, some, g.fresh)
		f.StGlobalB32(x.table.Off(manifest.PeerFailed), x.epoch).If(first)
		then(some)
		f.Place(end)
	})
}
