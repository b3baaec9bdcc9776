package reference

import (
	"github.com/fsgen/fsgen/ir"
)

// params are a row's parameters past the temperature. What the computation has not stays at its zero value, which is off.
type params struct {
	penalty      ir.Penalty
	counts       []uint32         // [Vocab] or nil
	counted      map[int32]uint32 // where they are lists
	biases       map[int32]float32
	topK         int
	topP, minP   float32
	draws        int
	badParameter bool
}

func (r *Request) params(slot int) params {
	c := r.Computation
	p := params{penalty: ir.NoPenalty, topP: 1, draws: 1}
	if c.Chain.Penalties {
		p.penalty = ir.Penalty{Repetition: orElse(r.Repetition, slot, 1), Frequency: orElse(r.Frequency, slot, 0), Presence: orElse(r.Presence, slot, 0)}
		p.setCounts(r, slot)
	}
	if c.Chain.Bias == ir.BiasSparse {
		p.biases = map[int32]float32{}
		for _, e := range orElse(r.BiasLists, slot, nil) {
			p.biases[e.ID] = e.Value
		}
	}
	if c.Truncation.TopK {
		p.topK = int(ofSlot(r.TopK, slot))
	}
	if c.Truncation.TopP {
		p.topP = ofSlot(r.TopP, slot)
	}
	if c.Truncation.MinP {
		p.minP = ofSlot(r.MinP, slot)
	}
	if c.Draws != ir.SingleDraw {
		p.draws = int(orElse(r.DrawCounts, slot, int32(c.MaxDraws)))
	}
	p.badParameter = p.validate(c, r.Shape.Vocab) != nil
	return p
}

func (p *params) setCounts(r *Request, slot int) {
	if r.Counts != nil {
		p.counts = r.Counts[slot*r.CountStride:][:r.Shape.Vocab]
		return
	}
	p.counted = map[int32]uint32{}
	for _, e := range orElse(r.CountLists, slot, nil) {
		p.counted[e.ID] = e.Count
	}
}

// validate reports the first parameter that is out of its range.
func (p *params) validate(c ir.Computation, vocab int) *FieldError {
	for _, check := range []struct {
		field string
		value any
		err   error
	}{
		{"TopK", p.topK, ir.ValidTopK(p.topK, vocab)},
		{"TopP", p.topP, ir.ValidTopP(p.topP)},
		{"MinP", p.minP, ir.ValidMinP(p.minP)},
		{"Repetition", p.penalty.Repetition, ir.ValidRepetition(p.penalty.Repetition)},
		{"Frequency", p.penalty.Frequency, ir.ValidPenalty(p.penalty.Frequency)},
		{"Presence", p.penalty.Presence, ir.ValidPenalty(p.penalty.Presence)},
		{"DrawCounts", p.draws, ir.ValidDraws(p.draws, max(c.MaxDraws, 1))},
	} {
		if check.err != nil {
			return &FieldError{Field: check.field, Rule: check.err.Error(), Value: check.value}
		}
	}
	return nil
}

// count is a token's count.
func (p *params) count(v int) uint32 {
	if p.counts != nil {
		return p.counts[v]
	}
	return p.counted[int32(v)]
}

// penalized lowers a logit by the penalties (ir.Penalty).
func (w *row) penalized(z float32, v int) float32 {
	count := w.count(v)
	if count == 0 {
		return z
	}
	p, times := w.penalty, count&^ir.CountPrompt
	if z > 0 {
		z = float32(z * float32(1/p.Repetition))
	} else {
		z = float32(z * p.Repetition)
	}
	z = fma32(-p.Frequency, float32(times), z)
	if times > 0 {
		z = float32(z - p.Presence)
	}
	return z
}

// idSet is a set of token ids: bit v&31 of word v>>5, nothing past the words.
type idSet []uint32

func newIDSet(vocab int) idSet { return make(idSet, (vocab+31)/32) }

func (s idSet) has(v int) bool { return v>>5 < len(s) && s[v>>5]>>(v&31)&1 == 1 }

func (s idSet) add(v int) { s[v>>5] |= 1 << (v & 31) }

// listed is what mask and lists of ids allow together.
func (r *Request) listed(w *row, slot int) idSet {
	allow, ban := orElse(r.AllowIDs, slot, nil), orElse(r.BanIDs, slot, nil)
	set := newIDSet(r.Shape.Vocab)
	for v := range r.Shape.Vocab {
		if w.allowed(v) && allow == nil {
			set.add(v)
		}
	}
	for _, v := range allow {
		if w.allowed(int(v)) {
			set.add(int(v))
		}
	}
	for _, v := range ban {
		set[v>>5] &^= 1 << (v & 31)
	}
	return set
}
