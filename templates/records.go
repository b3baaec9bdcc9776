package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// What a shard found of a row is a record: the key of its best, and, where the outputs take it, facts: the pair of its sum, its
// best's score without noise, and the temperature. The records of a rank are one run of memory (manifest.RecordBytes), so that
// they may travel as they are: the keys of all rows that it has room for, and then the facts.
//
// Records are joined in the order of ranks: the largest key is the token, by the rule that all keys follow, and pairs are added
// one by one. So whoever joins the same records comes to the same bits.

// HasFacts reports whether a record has more than a key.
func HasFacts(c ir.Computation) bool { return c.AddsUp() || c.Score && c.Chain.Temperature }

// addRecords declares where records go.
func (s *params) addRecords() {
	s.shard.records, s.shard.recordRows = s.pointer(ParamRecords, "u8", "records of record_rows rows", "write"), s.scalar(ParamRecordRows)
}

// recordKeys is where the key of a row stands in the records at an address, recordFacts where its facts do.
func recordKey(f *ptx.Func, records ptx.B64, row ptx.B32) ptx.B64 {
	d := f.B64("record_key")
	f.MadWideU32(d, row, ptx.Imm(manifest.RecordKeyBytes), records)
	return d
}

func recordFacts(f *ptx.Func, records ptx.B64, rows, row ptx.B32) ptx.B64 {
	d := f.B64("record_facts")
	f.MadWideU32(d, rows, ptx.Imm(manifest.RecordKeyBytes), records)
	f.MadWideU32(d, row, ptx.Imm(manifest.RecordFactBytes), d)
	return d
}

// recordBytes is the size of the records of a number of rows.
func recordBytes(f *ptx.Func, c ir.Computation, rows ptx.B32) ptx.B32 {
	d := f.B32("record_bytes")
	f.MulLoU32(d, rows, ptx.Imm(manifest.RecordBytes(HasFacts(c), 1)))
	return d
}

// settleShard is writeResults of a shard: records go to whoever joins them.
func (c *samplers) settleShard() {
	f := c.f
	if c.collecting() || c.tops() {
		first := f.Pred("is_first")
		f.SetpU32(ptx.EQ, first, c.thread, ptx.Imm(0))
		f.StGlobalB32(loadPointer(f, c.sig.arrivals, "arrivals"), ptx.Imm(0)).If(first)
	}
	if c.exchanges() {
		c.openExchange()
	} else {
		c.outbox = &recordSink{rows: loadU32(f, c.sig.shard.recordRows, "record_rows"), each: func(body func(records ptx.B64)) {
			body(loadPointer(f, c.sig.shard.records, "records"))
		}}
	}
	if c.summing() {
		c.writeSums()
	}
	c.eachBatchRow("send_row", c.recordKey)
	if c.exchanges() {
		c.exchangeRecords()
	}
	f.Bra(c.done)
}

// recordSink is where the records of the kernel's own rank go.
type recordSink struct {
	rows ptx.B32                          // that there is room for
	each func(body func(records ptx.B64)) // runs body for every place that they go to
}

// eachBatchRow runs body for the rows of the batch, spread over the samplers.
func (c *samplers) eachBatchRow(name string, body func(row ptx.B32)) {
	f, end := c.f, c.f.Label(name+"_end")
	row, out := f.B32("batch_row"), f.Pred("out")
	f.MovB32(row, c.thread)
	loop := f.Here(name)
	f.SetpU32(ptx.GE, out, row, c.batch)
	f.Bra(end).If(out)
	body(row)
	f.AddU32(row, row, ptx.Imm(c.plan.Pipeline.Samplers))
	f.Bra(loop)
	f.Place(end)
}

// takeKey takes a row's key out of the workspace, and leaves zero.
func (c *samplers) takeKey(row ptx.B32) ptx.B64 {
	key, addr := c.f.B64("key"), c.f.B64()
	c.f.MadWideU32(addr, row, ptx.Imm(8), c.keys)
	c.f.AtomGlobalExchB64(key, addr, ptx.Imm(0), ptx.RelaxedGPU)
	return key
}

// recordKey sends a row's key, and the facts that no sum comes with.
func (c *samplers) recordKey(row ptx.B32) {
	f, key := c.f, c.takeKey(row)
	var facts []ptx.B32
	if HasFacts(c.c) && !c.summing() {
		facts = c.factsOf(emptyPair(f), nil, row)
	}
	c.outbox.each(func(records ptx.B64) {
		f.StGlobalB64(recordKey(f, records, row), key)
		if facts != nil {
			f.StGlobalV4B32(recordFacts(f, records, c.outbox.rows, row), facts)
		}
	})
}

// recordSums sends a row's facts. token is what has been found of the row's best, nil where nobody looked.
func (c *samplers) recordSums(row ptx.B32, total pair, token *found, first ptx.Pred) {
	facts := c.factsOf(total, token, row)
	c.outbox.each(func(records ptx.B64) {
		c.f.StGlobalV4B32(recordFacts(c.f, records, c.outbox.rows, row), facts).If(first)
	})
}

// factsOf are the four words of a row's facts.
func (c *samplers) factsOf(total pair, token *found, row ptx.B32) []ptx.B32 {
	f, facts := c.f, c.f.NewB32s("facts", 4)
	f.MovB32(facts[0], total.largest)
	f.MovB32(facts[1], total.sum)
	f.MovB32(facts[2], ptx.Imm(floatNaN))
	if token != nil {
		f.MovB32(facts[2], token.z)
	}
	f.MovB32(facts[3], c.temperatureOf(row))
	return facts
}

// recordSource is the records of all ranks.
type recordSource struct {
	first ptx.B64 // those of rank 0
	bytes ptx.B32 // from rank to rank
	rows  ptx.B32 // that each has room for
	world ptx.B32
}

// joinedRow is what a row comes to.
type joinedRow struct {
	key            ptx.B64
	total          pair
	z, temperature ptx.F32
	tau, scale     ptx.F32
}

// ranksAtOnce is how many ranks' records of a row are on their way at a time: each takes as long as all.
func (c *samplers) ranksAtOnce() int {
	if c.summing() {
		return 4
	}
	return 8
}

// joinRow joins the records of a row.
func (c *samplers) joinRow(s recordSource, row ptx.B32) joinedRow {
	f := c.f
	j := joinedRow{key: f.B64("best_key"), total: emptyPair(f), z: f.F32("token_score"), temperature: f.F32("temperature")}
	f.MovB64(j.key, ptx.Imm(0))
	f.MovB32(j.z, ptx.Imm(floatNaN))
	f.MovF32(j.temperature, ptx.F32Imm(1))
	if HasFacts(c.c) {
		f.LdGlobalB32(j.temperature, recordFacts(f, s.first, s.rows, row).Off(12), ptx.RelaxedSys)
		j.tau, j.scale = c.joinConstants(row, j.temperature)
	}
	records, step, rank, more := f.B64("records"), f.B64("record_step"), f.B32("joined_rank"), f.Pred("more_ranks")
	f.CvtU64U32(step, s.bytes)
	f.MovB64(records, s.first)
	f.MovB32(rank, ptx.Imm(0))
	next := f.Here("join_ranks")
	var some []record
	for range c.ranksAtOnce() {
		there := f.Pred("has_rank")
		f.SetpU32(ptx.LT, there, rank, s.world)
		some = append(some, c.loadRecordOf(s, records, row, there))
		f.AddU32(rank, rank, ptx.Imm(1))
		f.AddU64(records, records, step)
	}
	c.joinRecords(&j, some)
	f.SetpU32(ptx.LT, more, rank, s.world)
	f.Bra(next).If(more)
	return j
}

// joinConstants are the constants of a row's sums: filters have a say where there are any.
func (c *samplers) joinConstants(row ptx.B32, temperature ptx.F32) (tau, scale ptx.F32) {
	if c.collecting() {
		return c.sumConstants(row)
	}
	return c.sumConstantsAt(temperature)
}

// record is one rank's of a row; without the rank it is that of no tokens.
type record struct {
	key   ptx.B64
	facts []ptx.B32
}

// loadRecordOf loads the record at an address, if p holds.
func (c *samplers) loadRecordOf(s recordSource, records ptx.B64, row ptx.B32, p ptx.Pred) (r record) {
	f := c.f
	r.key = f.B64("rank_key")
	f.MovB64(r.key, ptx.Imm(0))
	f.LdGlobalB64(r.key, recordKey(f, records, row), ptx.RelaxedSys).If(p)
	if !c.summing() {
		return r
	}
	none := emptyPair(f)
	r.facts = f.NewB32s("facts", 4)
	f.MovB32(r.facts[0], none.largest)
	f.MovB32(r.facts[1], none.sum)
	f.MovB32(r.facts[2], ptx.Imm(floatNaN))
	f.MovB32(r.facts[3], ptx.Imm(0))
	f.LdGlobalV4B32(r.facts, recordFacts(f, records, s.rows, row), ptx.RelaxedSys).If(p)
	return r
}

// joinRecords joins some ranks' records of a row, in their order.
func (c *samplers) joinRecords(j *joinedRow, some []record) {
	f, pairs := c.f, []pair{j.total}
	for _, r := range some {
		larger := f.Pred("larger")
		f.SetpU64(ptx.GT, larger, r.key, j.key)
		f.MaxU64(j.key, j.key, r.key)
		if r.facts == nil {
			continue
		}
		p := pair{f.F32("largest"), f.F32("sum")}
		f.MovB32(p.largest, r.facts[0])
		f.MovB32(p.sum, r.facts[1])
		f.MovB32(j.z, r.facts[2]).If(larger)
		pairs = append(pairs, p)
	}
	if len(pairs) > 1 {
		sum := c.join(j.scale, pairs...)
		f.MovF32(j.total.largest, sum.largest)
		f.MovF32(j.total.sum, sum.sum)
	}
}

// writeJoined writes what a row has come to.
func (c *samplers) writeJoined(row ptx.B32, j joinedRow) {
	f := c.f
	low, high := f.B32("key_low"), f.B32("key_high")
	f.MovUnpackB64(low, high, j.key)
	token, state, ok := c.decode(high, low)
	f.StGlobalB32(rowAddr(f, loadPointer(f, c.sig.tokens, "tokens"), row), token)
	f.StGlobalB32(rowAddr(f, loadPointer(f, c.sig.status, "status"), row), state)
	if c.c.Score {
		score := c.finalScoreAt(func() ptx.F32 { return j.temperature }, high, ok)
		f.StGlobalF32(rowAddr(f, loadPointer(f, c.sig.scores, "scores"), row), score)
	}
	if c.c.LogSumExp && c.summing() {
		has := c.hasSum(high, ok)
		c.writeLogSum(loadPointer(f, c.sig.logSumExp, "lse"), row, j.total, j.tau, has)
		c.withdraw(c.sig.logSumExp, "lse", row, has)
	}
	if c.logProbs() {
		c.writeLogProb(row, j.total, j.tau, j.scale, c.summedOf(row, j.z), ok)
		c.withdraw(c.sig.logProb, "logprob", row, ok)
	}
	c.leaveForReports(row, j, ok)
}

// leaveForReports leaves of a row what the stages that report of it work with. Stages that gather leave the sums themselves.
func (c *samplers) leaveForReports(row ptx.B32, j joinedRow, ok ptx.Pred) {
	if c.options.Further {
		return
	}
	if reportsSums(c.c) && !c.collecting() {
		always := c.f.Pred("always")
		c.f.SetpU32(ptx.EQ, always, row, row)
		c.writeMass(row, j.total, always)
	}
	if c.c.Rank {
		low, high, id := c.f.B32(), c.f.B32(), c.f.B32("token")
		c.f.MovUnpackB64(low, high, j.key)
		c.f.NotB32(id, low)
		c.writeRankKey(row, id, j.z, ok)
		c.writeFirstRank(row, ok)
	}
}
