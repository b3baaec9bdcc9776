package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// A listed id of edited logits: the steps of the chain for one token, whose entries are looked up in the row's lists. All lanes of a warp
// have the same token. The first kernel has checked the lists of a row that has a token.

// editedLogit takes a token's product to the logit behind the edits.
func (l *lister) editedLogit(y ptx.F32, slot, id ptx.B32) ptx.F32 {
	z := y
	for _, step := range l.whole.Chain.EditSteps() {
		switch step.Kind {
		case ir.EditAll:
			in := newInputs(z)
			if step.Graph.Reads(ir.InBias) {
				in.f[ir.InBias] = l.denseBiasOf(slot, id)
			}
			z = lower(l.f, step.Graph, in)
		case ir.EditBias:
			in, e := newInputs(z), l.entryOf(l.sig.edits.bias, slot, id)
			in.f[ir.InBias] = l.f.F32("bias")
			l.f.MovB32(in.f[ir.InBias], e.value)
			z = l.where(lower(l.f, step.Graph, in), z, e.has)
		case ir.EditPenalties:
			z = l.penalizedLogit(z, step.Graph, slot, id)
		case ir.EditIDs:
			allowed, banned, dropped := l.entryOf(l.sig.edits.allow, slot, id), l.entryOf(l.sig.edits.ban, slot, id), l.f.Pred("dropped")
			l.f.NotPred(dropped, allowed.has)
			l.f.AndPred(dropped, dropped, allowed.listed)
			l.f.OrPred(dropped, dropped, banned.has)
			z = l.where(minusInf(l.f), z, dropped)
		}
	}
	return z
}

// where is one value where p holds, else the other.
func (l *lister) where(yes, no ptx.F32, p ptx.Pred) ptx.F32 {
	d := l.f.F32("logit")
	l.f.SelpF32(d, yes, no, p)
	return d
}

// denseBiasOf loads a token's dense bias.
func (l *lister) denseBiasOf(slot, id ptx.B32) ptx.F32 {
	f, base, bias := l.f, loadPointer(l.f, l.sig.bias, "bias"), l.f.F32("bias")
	if l.whole.Chain.Bias == ir.BiasMatrix {
		f.MadWideU32(base, slot, l.bytes(loadU32(f, l.sig.biasStride, "bias_stride")), base)
	}
	f.LdGlobalF32(bias, entryAddr(f, base, id, 1))
	return bias
}

// listEntry is what a row's list has of a token.
type listEntry struct {
	listed, has ptx.Pred // there is a list; and it has the token
	value       ptx.B32  // 0 without an entry
}

func (l *lister) entryOf(p listParams, slot, id ptx.B32) listEntry {
	f, there := l.f, l.f.Pred("has_slot")
	f.SetpU32(ptx.EQ, there, slot, slot)
	s, at, base := l.spanOf(p, slot, there), f.B32("entry_at"), loadPointer(f, p.entries, "entries")
	f.MovB32(at, s.begin)
	lowerBound(f, func(at ptx.B32) ptx.B64 { return entryAddr(f, base, at, p.words) }, at, s.end, id)
	e, words := listEntry{listed: s.listed, has: f.Pred("has_entry")}, f.NewB32s("entry", p.words)
	for _, w := range words {
		f.MovB32(w, ptx.Imm(0))
	}
	f.SetpU32(ptx.LT, e.has, at, s.end)
	if addr := entryAddr(f, base, at, p.words); p.words == 2 {
		f.LdGlobalV2B32(words, addr).If(e.has)
	} else {
		f.LdGlobalB32(words[0], addr).If(e.has)
	}
	f.SetpAndU32(ptx.EQ, e.has, words[0], id, e.has)
	e.value = f.B32("entry_value")
	f.SelpB32(e.value, words[p.words-1], ptx.Imm(0), e.has)
	return e
}

// penalizedLogit is a logit lowered for the token's count, in the list of the row or among the counts of all tokens.
func (l *lister) penalizedLogit(z ptx.F32, graph *ir.Graph, slot, id ptx.B32) ptx.F32 {
	f, there, some := l.f, l.f.Pred("has_slot"), l.f.Pred("has_count")
	f.SetpU32(ptx.EQ, there, slot, slot)
	own := l.penaltiesOf(slot, there)
	e := &penaltyEditor{listEditor: listEditor{c: l.samplers, p: l.sig.edits.counts}, graph: graph, own: own, inverse: reciprocalOf(f, own.repetition)}
	count, dense := l.entryOf(l.sig.edits.counts, slot, id).value, l.hasDense()
	f.LdGlobalB32(count, entryAddr(f, l.denseCounts(slot), id, 1)).If(dense)
	f.SetpAndU32(ptx.NE, some, count, ptx.Imm(0), own.on)
	return l.where(e.penalized(z, count), z, some)
}
