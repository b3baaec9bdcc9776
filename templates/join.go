package templates

import "github.com/fsgen/fsgen/ptx"

// The records of all shards may be brought together by something else than the kernels that made them: a library of collectives,
// or the host. Then this kernel joins them, a thread for each row. It takes any grid.

// joinThreads is its block: rows are few.
const joinThreads = 32

// newJoin adds the kernel to the module of the kernel that leaves the records.
func newJoin(m *ptx.Module, of *skeleton, name string) *Stage {
	f := m.Entry(name)
	f.Reqntid(joinThreads, 1, 1)
	k := &skeleton{f: f, c: of.c, whole: of.whole, options: of.options, sum: of.sum, sig: &params{signature: signature{f: f, sets: of.sig.sets}}}
	c, s := &samplers{skeleton: k}, k.sig
	gathered, recordRows, world := s.pointer(ParamGathered, "u8", "world x records of record_rows rows", "read"), s.scalar(ParamRecordRows), s.scalar(ParamWorld)
	s.batch = s.scalar(ParamBatch)
	s.addOutputs(of.c)
	f.GriddepcontrolLaunchDependents()
	f.GriddepcontrolWait()
	source := recordSource{first: loadPointer(f, gathered, "gathered"), rows: loadU32(f, recordRows, "record_rows"), world: loadU32(f, world, "world")}
	source.bytes = recordBytes(f, k.c, source.rows)
	row, cta, step, past, done := f.B32("batch_row"), f.B32("cta"), f.B32("rows_at_once"), f.Pred("past"), f.Label("done")
	k.batch = loadU32(f, s.batch, "batch")
	f.MovB32(row, ptx.TidX)
	f.MovB32(cta, ptx.CtaidX)
	f.MadLoU32(row, cta, ptx.Imm(joinThreads), row)
	f.MovB32(step, ptx.NctaidX)
	f.MulLoU32(step, step, ptx.Imm(joinThreads))
	next := f.Here("next_row")
	f.SetpU32(ptx.GE, past, row, k.batch)
	f.Bra(done).If(past)
	c.writeJoined(row, c.joinRow(source, row))
	f.AddU32(row, row, step)
	f.Bra(next)
	f.Place(done)
	f.Ret()
	return &Stage{f, s.finish(), joinThreads, 0}
}
