package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// The likeliest tokens of a vocabulary that ranks share are among those of the shards. The stage that sorts a shard's list leaves the first
// of its keys in falling order, 0 behind the last; a row that is undecided has noTop there, which is above every key, so that it comes first
// of all ranks' and all of them take a further pass. The stage that gathers (report_gather.go) makes one such sequence of those of all ranks,
// and the kernel here tells the log-probabilities of that.

// newTopMerge adds that kernel to the module of the kernel that lists.
func newTopMerge(m *ptx.Module, shared ptx.SharedVar, c ir.Computation, o Options, name string) *Stage {
	f := m.Entry(name)
	f.Reqntid(resolveThreads, 1, 1)
	t := newTopper(f, c, o)
	t.merges = true
	t.beginMerge(shared)
	t.endFailed()
	t.loadMerged()
	t.write()
	f.Place(t.done)
	f.Ret()
	return &Stage{f, t.sig.finish(), resolveThreads, resolveShared}
}

// beginSent is begin of a stage whose keys travel.
func (t *topper) beginSent(shared ptx.SharedVar) {
	f, s := t.f, t.sig
	s.topParams = s.topLists()
	sent, status := s.pointer(ParamSentTopKeys, "u64", "batch x 32", "scratch"), s.pointer(ParamStatus, "i32", "batch", "read")
	t.beginRow(shared)
	t.status = loadPointer(f, status, "status")
	t.placeSent(sent)
	t.keys, t.floor, t.count = f.B64("keys"), f.B64("floor"), f.B32("count")
	f.MadWideU32(t.floor, t.row, ptx.Imm(boundBytes), loadPointer(f, s.topFloors, "top_floors"))
	f.MadWideU32(t.keys, t.row, ptx.Imm(8*manifest.RowTopKeys), loadPointer(f, s.topKeys, "top_keys"))
	t.clear()
}

// beginRow finds the CTA's row, and waits for what is ahead.
func (t *topper) beginRow(shared ptx.SharedVar) {
	f := t.f
	t.r.smem, t.r.tid, t.row = f.B32("smem"), f.B32("thread"), f.B32("row")
	f.MovVarB32(t.r.smem, shared)
	f.MovB32(t.r.tid, ptx.TidX)
	f.MovB32(t.row, ptx.CtaidX)
	f.GriddepcontrolLaunchDependents()
	f.GriddepcontrolWait()
}

func (t *topper) placeSent(sent ptx.Param) {
	t.sent = t.f.B64("sent_keys")
	t.f.MadWideU32(t.sent, t.row, ptx.Imm(8*manifest.SentTops), loadPointer(t.f, sent, "sent_top_keys"))
}

// sendOnly is endWith of a stage whose keys travel: none are there, or the row is undecided.
func (t *topper) sendOnly(id int64, floor ptx.B64) {
	f, first, key := t.f, t.r.isThread(0), t.f.B64("sent_key")
	f.StGlobalB64(t.floor, floor).If(first)
	f.MovB64(key, ptx.Imm(0))
	if id == ir.UndecidedToken {
		f.MovB64(key, ptx.Imm(noTop))
	}
	t.sendKey(key)
}

// sendKeys leaves the first keys.
func (t *topper) sendKeys() {
	f, key, there := t.f, t.f.B64("sent_key"), t.f.Pred("has_token")
	f.MovB64(key, ptx.Imm(0))
	f.SetpU32(ptx.LT, there, t.r.tid, t.r.listed)
	f.LdSharedB64(key, t.r.keyAddr(t.r.tid)).If(there)
	t.sendKey(key)
}

func (t *topper) sendKey(key ptx.B64) {
	f, here, addr := t.f, t.f.Pred("has_place"), t.f.B64()
	f.SetpU32(ptx.LT, here, t.r.tid, ptx.Imm(manifest.SentTops))
	f.MadWideU32(addr, t.r.tid, ptx.Imm(8), t.sent)
	f.StGlobalB64(addr, key).If(here)
	f.Bra(t.done)
}

// beginMerge declares and loads the parameters of the kernel that tells.
func (t *topper) beginMerge(shared ptx.SharedVar) {
	s := t.sig
	s.addSlots(t.c)
	if t.c.Chain.Temperature {
		s.temperature, s.temperatureStride = s.rows(ParamTemperature, "f32", ParamTemperatureStride)
	}
	sent := s.pointer(ParamSentTopKeys, "u64", "batch x 32", "scratch")
	o := t.declareOutputs()
	t.beginRow(shared)
	t.placeSent(sent)
	t.loadOutputs(o)
}

// loadMerged brings the row's keys to shared memory, as sort does.
func (t *topper) loadMerged() {
	f, r := t.f, t.r
	key, addr, here, some, lanes, waits := f.B64("merged_key"), f.B64(), f.Pred("has_place"), f.Pred("has_key"), f.B32("lanes"), f.Label("keys_loaded")
	f.SetpU32(ptx.GE, here, r.tid, ptx.Imm(manifest.SentTops))
	f.Bra(waits).If(here)
	f.MadWideU32(addr, r.tid, ptx.Imm(8), t.sent)
	f.LdGlobalB64(key, addr)
	f.StSharedB64(r.keyAddr(r.tid), key)
	f.SetpU64(ptx.NE, some, key, ptx.Imm(0))
	f.VoteSyncBallotB32(lanes, some, ptx.Imm(fullWarp))
	f.PopcB32(lanes, lanes)
	first := r.isThread(0)
	f.StSharedB32(r.smem.Off(wordListed), lanes).If(first)
	f.Place(waits)
	r.sync()
	r.listed = f.B32("listed")
	f.LdSharedB32(r.listed, r.smem.Off(wordListed))
	likeliest, undecided, on, zero := f.B64("first_key"), f.Pred("undecided"), f.Label("all_listed"), f.B64("zero")
	f.LdSharedB64(likeliest, r.smem.Off(resolveKeys))
	f.SetpU64(ptx.EQ, undecided, likeliest, ptx.Imm(noTop))
	f.Bra(on).IfNot(undecided)
	f.MovB64(zero, ptx.Imm(0))
	t.endWith(ir.UndecidedToken, zero)
	f.Place(on)
}
