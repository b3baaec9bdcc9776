package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// What the stages that report of rows (tops_stage.go, listed.go) have to know of those that filters narrow: that they are added up with
// an alpha of 1, as their logits are compared, and where log-probabilities are of what is kept, what that is. The resolving kernel
// writes a record of every row: of what a list decides as of what further passes do.

// Kinds of rows, by their first word.
const (
	keptPlain = 0 // no filter narrows it
	keptList  = 1 // its list has all that is kept
	keptMore  = 2 // more is kept than its list has, which has what ranks around the cut
)

// Words of a record.
const (
	keptRowKind  = 0
	keptRowCount = 1 // entries of the list
	keptRowTop   = 2 // largest logit
	keptRowScale = 3 // of the weights that min-p compares
	keptRowCut   = 4 // key of the last rank that is kept, 64 bits
	keptRowLeast = 6 // weight that is kept, 64 bits
	keptRowMass  = 8 // of the powers of what is kept, float64
)

// reportsKept reports whether a computation has such records.
func reportsKept(c ir.Computation) bool { return c.Truncation.Any() && reportsSums(c) }

// keptRows declares them.
func (s *signature) keptRows(access string) ptx.Param {
	return s.pointer(ParamKept, "u32", "batch x 12", access)
}

func keptRowAddr(f *ptx.Func, rows ptx.B64, row ptx.B32) ptx.B64 {
	addr := f.B64("kept_addr")
	f.MadWideU32(addr, row, ptx.Imm(manifest.KeptBytes), rows)
	return addr
}

// beginKept makes the row one that no filter narrows, noteNarrowed one that some does.
func (r *resolver) beginKept() {
	if !reportsKept(r.c) {
		return
	}
	first, zero, row := r.isThread(0), imm(r.f, 0), r.keptRow()
	for at := 0; at < manifest.KeptBytes; at += 16 {
		r.f.StGlobalV4B32(row.Off(at), []ptx.B32{zero, zero, zero, zero}).If(first)
	}
}

func (r *resolver) noteNarrowed() {
	if reportsKept(r.c) {
		first, kind, row := r.isThread(0), imm(r.f, keptList), r.keptRow()
		r.f.StGlobalB32(row, kind).If(first)
	}
}

// noteKept writes what is kept of the row.
func (r *resolver) noteKept(kind int64, cut ptx.B64, mass ptx.F64) {
	if !reportsKept(r.c) {
		return
	}
	f, first, at, top, scale, least, bits := r.f, r.isThread(0), r.keptRow(), r.f.B32(), r.f.B32(), r.f.B64(), r.f.B64()
	f.MovB32(top, r.weigh.top)
	f.MovB32(scale, r.weigh.scale)
	f.MovB64(least, ptx.Imm(0))
	if r.c.Truncation.MinP {
		f.MovB64(least, r.least)
	}
	f.MovB64(bits, mass)
	word := imm(f, kind)
	f.StGlobalV4B32(at, []ptx.B32{word, r.stored, top, scale}).If(first)
	f.StGlobalV2B64(at.Off(4*keptRowCut), []ptx.B64{cut, least}).If(first)
	f.StGlobalB64(at.Off(4*keptRowMass), bits).If(first)
}

func (r *resolver) keptRow() ptx.B64 {
	return keptRowAddr(r.f, loadPointer(r.f, r.keptRows, "kept_rows"), r.row)
}

// keptRow is a row's record, as a stage that reports has it.
type keptRow struct {
	c               ir.Computation
	kind, count     ptx.B32
	top, scale, tau ptx.F32 // tau is what logits are divided by in powers
	cut, least      ptx.B64
	mass            ptx.F64
	plain           ptx.Pred // the row is not narrowed
}

// loadKept loads the record of a row; the temperature is the row's.
func loadKept(f *ptx.Func, c ir.Computation, rows ptx.B64, row ptx.B32, temperature ptx.F32) keptRow {
	at, words, pair, cold := keptRowAddr(f, rows, row), f.NewB32s("kept", 4), []ptx.B64{f.B64("cut"), f.B64("least")}, f.Pred("cold")
	k := keptRow{c: c, kind: words[0], count: words[1], top: f.F32("top"), scale: f.F32("scale"), tau: f.F32("sum_temperature"), cut: pair[0], least: pair[1],
		mass: f.F64("mass"), plain: f.Pred("not_narrowed")}
	f.LdGlobalV4B32(words, at)
	f.LdGlobalV2B64(pair, at.Off(4*keptRowCut))
	f.LdGlobalF64(k.mass, at.Off(4*keptRowMass))
	f.MovB32(k.top, words[keptRowTop])
	f.MovB32(k.scale, words[keptRowScale])
	f.SetpF32(ptx.EQ, cold, temperature, ptx.F32Imm(0))
	f.SelpF32(k.tau, ptx.F32Imm(1), temperature, cold)
	f.SetpU32(ptx.EQ, k.plain, k.kind, ptx.Imm(keptPlain))
	return k
}

// has reports whether a token of a narrowed row is kept, whose rank has a key.
func (k keptRow) has(f *ptx.Func, vocab ptx.B32, z ptx.F32, key ptx.B64) ptx.Pred {
	kept := f.Pred("is_kept")
	f.SetpU64(ptx.GE, kept, key, k.cut)
	if k.c.Truncation.MinP {
		w := &weigher{f: f, power: ir.Power2(), top: k.top, scale: k.scale, length: f.B32("vocab_bits"), most: f.B64("max_weight")}
		w.measure(vocab)
		f.SetpAndU64(ptx.GE, kept, w.of(z), k.least, kept)
	}
	return kept
}

// logProb is the log-probability of a token that is kept, to the last bit what the resolving kernel makes of its logit.
func (k keptRow) logProb(f *ptx.Func, z ptx.F32) ptx.F32 {
	r := &resolver{f: f, c: k.c, weigh: &weigher{f: f, top: k.top}, inverse: reciprocal(f, widen(f, k.tau))}
	return r.keptLog(z, k.mass)
}

// narrowedScales are those of scalesOf, or those of a row that filters narrow.
func (c *samplers) narrowedScales(k keptRow, alpha, tau, scale ptx.F32) (ptx.F32, ptx.F32, ptx.F32) {
	if !c.scaledSums() {
		return alpha, tau, scale
	}
	f, own, ownTau, ownScale := c.f, c.f.F32("alpha"), c.f.F32("tau"), c.f.F32("scale")
	f.SelpF32(own, alpha, ptx.F32Imm(1), k.plain)
	f.SelpF32(ownTau, tau, k.tau, k.plain)
	f.SelpF32(ownScale, scale, c.rowScale(k.tau), k.plain)
	return own, ownTau, ownScale
}
