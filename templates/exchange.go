package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// The last CTA of a rank's grid exchanges records with the other ranks (docs/parallel.md). A table in the rank's own memory
// (manifest.PeerTable) says who they are and where each has its inbox. It stores its records into every inbox, its own too, then a
// flag with system-scope release, waits for the flags of all ranks in its own inbox with system-scope acquire, and joins what
// has come. The flag's value is the epoch, which the kernel itself counts on in the table: so a captured graph replays.
//
// An inbox has two of everything, for even and odd epochs. A rank that writes for epoch e+2 has seen all flags of e+1, which each
// rank raises in a launch behind the one in which it read the records of e. So nobody reads any more what is written over.
// With one of everything, a rank could write for e+1 what a rank still has to read of e while it waits for a third one.
//
// The wait has an end. A rank that has waited long enough notes whom it misses, gives every row the status ir.StatusPeer, and
// takes part in nothing more until the table is reset: ranks that are out of step must not meet by chance.

// exchange is what the threads of the last CTA know of the exchange.
type exchange struct {
	table              ptx.B64
	near               *ptx.B32 // where the kernel has its copy of the table's head and first inboxes
	world, rank, epoch ptx.B32
	timeout            []ptx.B32
	flags              ptx.B32 // where the flags of the epoch begin in an inbox
	first              ptx.B64 // and where the records of rank 0 do
	own                ptx.B64 // and those of this rank
	bytes              ptx.B32 // of one rank's records
	failed             *ptx.Label
}

// tableWord loads a word of the table.
func (x *exchange) tableWord(f *ptx.Func, at int, name string) ptx.B32 {
	d := f.B32(name)
	f.LdGlobalB32(d, x.table.Off(at))
	return d
}

// inbox is the address of a rank's inbox.
func (x *exchange) inbox(f *ptx.Func, rank ptx.B32) ptx.B64 {
	at, d := f.B64(), f.B64("inbox")
	f.MadWideU32(at, rank, ptx.Imm(8), x.table)
	if x.near == nil {
		f.LdGlobalB64(d, at.Off(manifest.PeerInboxes))
		return d
	}
	far, place := f.Pred("far"), f.B32()
	f.SetpU32(ptx.GE, far, rank, ptx.Imm(tiling.PeersNear))
	f.MadLoU32(place, rank, ptx.Imm(8), *x.near)
	f.LdGlobalB64(d, at.Off(manifest.PeerInboxes)).If(far)
	f.LdSharedB64(d, place.Off(tiling.PeersHead)).IfNot(far)
	return d
}

// exchanges reports whether the kernel's last CTA exchanges records.
func (c *samplers) exchanges() bool {
	return c.c.Shard == ir.ShardExchange && !gathers(c.c) && !c.options.Ranks
}

// bringTable copies what the exchange needs of the table to shared memory as the CTA begins, while weights are on their way: at the end each
// load would be a wait of its own for memory, one behind the other. Barriers enough follow before anybody reads it. The last warp does it:
// the first ones have the rows' parameters to wait for.
func (c *samplers) bringTable() {
	f, x, end := c.f, &exchange{table: loadPointer(c.f, c.sig.shard.peers, "peers")}, c.f.Label("table_here")
	member := f.B32("table_thread") // past all ranks in other warps
	f.SubU32(member, c.thread, ptx.Imm(c.plan.Pipeline.Samplers-warpSize))
	world, all, none, first := x.tableWord(f, manifest.PeerWorld, "world"), f.B32("near_ranks"), f.Pred("no_rank"), f.Pred("is_first")
	to, near := f.B32(), c.nearTable()
	f.SetpU32(ptx.EQ, first, member, ptx.Imm(0))
	for at := 0; at < tiling.PeersHead; at += 16 {
		head := f.NewB32s("table_head", 4)
		f.LdGlobalV4B32(head, x.table.Off(at)).If(first)
		f.StSharedV4B32(near.Off(at), head).If(first)
	}
	f.MinU32(all, world, ptx.Imm(tiling.PeersNear))
	f.SetpU32(ptx.GE, none, member, all)
	f.Bra(end).If(none)
	inbox := x.inbox(f, member)
	f.MadLoU32(to, member, ptx.Imm(8), near)
	f.StSharedB64(to.Off(tiling.PeersHead), inbox)
	f.Place(end)
}

// nearTable is where that copy is.
func (c *samplers) nearTable() ptx.B32 {
	near := c.f.B32("near_table")
	c.f.AddU32(near, c.smem, ptx.Imm(c.plan.Storage.Peers))
	return near
}

// openExchange loads the table. A rank that has failed before goes to fail at once.
func (c *samplers) openExchange() {
	f := c.f
	f.Comment("Exchange: this rank's records go to every rank, and theirs come here.")
	near := c.nearTable()
	x := &exchange{table: loadPointer(f, c.sig.shard.peers, "peers"), near: &near, failed: f.Label("exchange_failed")}
	c.exchange = x
	x.world, x.rank, x.epoch = f.B32("world"), f.B32("own_rank"), f.B32("epoch")
	rows, over, broken := f.B32("record_rows"), f.B32("failed_epoch"), f.Pred("broken")
	x.timeout = f.NewB32s("timeout_words", 2)
	f.LdSharedV4B32([]ptx.B32{x.world, x.rank, x.timeout[0], x.timeout[1]}, near)
	f.LdSharedV4B32([]ptx.B32{rows, x.epoch, over, f.B32()}, near.Off(manifest.PeerRows))
	f.AddU32(x.epoch, x.epoch, ptx.Imm(1))
	x.bytes = recordBytes(f, c.c, rows)
	x.place(f)
	c.outbox = &recordSink{rows: rows, each: c.eachInbox}
	f.SetpU32(ptx.NE, broken, over, ptx.Imm(0))
	f.Bra(x.failed).If(broken)
}

// place finds the half of an inbox that is the epoch's.
func (x *exchange) place(f *ptx.Func) {
	half, index, header := f.B32("half"), f.B32(), f.B64()
	f.AndB32(half, x.epoch, ptx.Imm(1))
	f.MulLoU32(half, half, x.world)
	x.flags = f.B32("epoch_flags")
	f.MulLoU32(x.flags, half, ptx.Imm(manifest.PeerFlagBytes))
	f.MulWideU32(header, x.world, ptx.Imm(2*manifest.PeerFlagBytes))
	x.first, x.own = f.B64("epoch_records"), f.B64("own_records")
	f.MadWideU32(x.first, half, x.bytes, header)
	f.AddU32(index, half, x.rank)
	f.MadWideU32(x.own, index, x.bytes, header)
}

// eachInbox runs body for this rank's place in every rank's inbox.
func (c *samplers) eachInbox(body func(records ptx.B64)) {
	f, x := c.f, c.exchange
	rank, more, records := f.B32("to_rank"), f.Pred("more_ranks"), f.B64("records")
	f.MovB32(rank, ptx.Imm(0))
	next := f.Here("each_inbox")
	f.AddU64(records, x.inbox(f, rank), x.own)
	body(records)
	f.AddU32(rank, rank, ptx.Imm(1))
	f.SetpU32(ptx.LT, more, rank, x.world)
	f.Bra(next).If(more)
}

// exchangeRecords is done once this rank's records are stored.
func (c *samplers) exchangeRecords() {
	f, x := c.f, c.exchange
	c.raiseFlags()
	missed := c.awaitFlags()
	closed := f.Label("exchange_closed")
	c.closeEpoch(missed)
	f.Bra(x.failed).If(missed)
	source := recordSource{first: f.B64("inbox_records"), bytes: x.bytes, rows: c.outbox.rows, world: x.world}
	f.AddU64(source.first, x.inbox(f, x.rank), x.first)
	c.eachBatchRow("join_row", func(row ptx.B32) { c.writeJoined(row, c.joinRow(source, row)) })
	f.Bra(closed)
	f.Place(x.failed)
	f.Comment("A rank is missing: no row has a token.")
	c.eachBatchRow("fail_row", func(row ptx.B32) {
		c.takeKey(row) // which a rank that failed before has not sent
		key := f.B64("failed_key")
		f.MovPackB64(key, imm(f, int64(ir.StatusPeer)), imm(f, keyFailed))
		c.writeJoined(row, c.failedRow(key))
	})
	f.Place(closed)
}

// failedRow is a row with the key of a failure, and nothing beside it.
func (c *samplers) failedRow(key ptx.B64) joinedRow {
	f := c.f
	j := joinedRow{key: key, total: emptyPair(f), z: f.F32("token_score"), temperature: f.F32("temperature")}
	f.MovB32(j.z, ptx.Imm(floatNaN))
	f.MovF32(j.temperature, ptx.F32Imm(1))
	j.tau, j.scale = c.sumConstantsAt(j.temperature)
	return j
}

// eachRank runs body for the ranks that are a thread's: most threads have none.
func (c *samplers) eachRank(name string, body func(rank ptx.B32)) {
	f, end := c.f, c.f.Label(name+"_end")
	rank, out := f.B32("flag_rank"), f.Pred("out")
	f.MovB32(rank, c.thread)
	loop := f.Here(name)
	f.SetpU32(ptx.GE, out, rank, c.exchange.world)
	f.Bra(end).If(out)
	body(rank)
	f.AddU32(rank, rank, ptx.Imm(c.plan.Pipeline.Samplers))
	f.Bra(loop)
	f.Place(end)
}

// flagAt is where the flag of a rank stands in an inbox.
func (x *exchange) flagAt(f *ptx.Func, inbox ptx.B64, rank ptx.B32) ptx.B64 {
	at, wide := f.B64("flag_addr"), f.B64()
	f.CvtU64U32(wide, x.flags)
	f.AddU64(at, inbox, wide)
	f.MadWideU32(at, rank, ptx.Imm(manifest.PeerFlagBytes), at)
	return at
}

// raiseFlags tells every rank that this one's records are there. The barrier orders the stores of all threads before the flag that
// one of them raises, and the flag's release at system scope passes all of that on (PTX ISA, "Causality order": it is cumulative).
func (c *samplers) raiseFlags() {
	f, x := c.f, c.exchange
	c.sync()
	first := f.Pred("is_first")
	f.SetpU32(ptx.EQ, first, c.thread, ptx.Imm(0))
	f.StSharedB32(c.smem.Off(c.plan.Storage.Flag), ptx.Imm(0)).If(first)
	c.eachRank("raise_flag", func(rank ptx.B32) {
		f.StGlobalB32(x.flagAt(f, x.inbox(f, rank), x.rank), x.epoch, ptx.ReleaseSys)
	})
	c.sync()
}

// awaitFlags waits for the flags of all ranks, and says whether any did not come in time.
func (c *samplers) awaitFlags() ptx.Pred {
	f, x := c.f, c.exchange
	inbox, deadline, timeout := x.inbox(f, x.rank), f.B64("deadline"), f.B64("timeout")
	f.MovPackB64(timeout, x.timeout[0], x.timeout[1])
	f.MovB64(deadline, ptx.Globaltimer)
	f.AddU64(deadline, deadline, timeout)
	c.eachRank("await_flag", func(rank ptx.B32) { c.awaitFlag(x.flagAt(f, inbox, rank), rank, deadline) })
	c.sync()
	mine, missed := f.B32("missing"), f.Pred("missed")
	f.LdSharedB32(mine, c.smem.Off(c.plan.Storage.Flag))
	f.SetpU32(ptx.NE, missed, mine, ptx.Imm(0))
	return missed
}

// awaitFlag waits for one flag, and notes its rank when time is up.
func (c *samplers) awaitFlag(flag ptx.B64, rank ptx.B32, deadline ptx.B64) {
	c.exchange.poll(c.f, flag, rank, deadline, func() {
		c.f.StSharedB32(c.smem.Off(c.plan.Storage.Flag), ptx.Imm(1), ptx.RelaxedCTA)
	})
}

// poll waits for one flag. When time is up it notes the flag's rank in the table, and runs missed.
func (x *exchange) poll(f *ptx.Func, flag ptx.B64, rank ptx.B32, deadline ptx.B64, missed func()) {
	value, now, up, late, come := f.B32("flag"), f.B64("now"), f.Pred("flag_up"), f.Pred("late"), f.Label("flag_seen")
	again := f.Here("poll_flag")
	f.LdGlobalB32(value, flag, ptx.AcquireSys)
	f.SetpU32(ptx.EQ, up, value, x.epoch)
	f.Bra(come).If(up)
	f.MovB64(now, ptx.Globaltimer)
	f.SetpU64(ptx.GE, late, now, deadline)
	f.Bra(again).IfNot(late)
	word, bit, place := f.B32("missing_word"), f.B32("missing_bit"), f.B32()
	f.ShrU32(word, rank, ptx.Imm(5))
	f.AndB32(place, rank, ptx.Imm(31))
	f.MovB32(bit, ptx.Imm(1))
	f.ShlB32(bit, bit, place)
	f.RedGlobalOrB32(rowAddr(f, x.table, word).Off(manifest.PeerMissing), bit, ptx.RelaxedGPU)
	missed()
	f.Place(come)
}

// closeEpoch counts the epoch, and notes it if it failed.
func (c *samplers) closeEpoch(missed ptx.Pred) {
	f, x := c.f, c.exchange
	first, broken := f.Pred("is_first"), f.Pred("broken")
	f.SetpU32(ptx.EQ, first, c.thread, ptx.Imm(0))
	f.StGlobalB32(x.table.Off(manifest.PeerEpoch), x.epoch).If(first)
	f.AndPred(broken, first, missed)
	f.StGlobalB32(x.table.Off(manifest.PeerFailed), x.epoch).If(broken)
}
