package verify

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// everyEdit is a chain with all that changes single logits.
const everyEdit = "softcap=30,bias=sparse,penalties,ids,mask,temperature"

// editedItems are random heads whose rows have lists of every kind and size, and none in some of them.
func editedItems() (items []item) {
	for _, spec := range []sampler.Spec{
		{Chain: chain(everyEdit), Score: true}, {Chain: chain("bias=sparse,penalties,bias-last,ids,temperature"), LogProb: ir.RawLogProb, Slots: true},
		{Chain: chain("bias,penalties,ids"), Sampler: ir.Greedy, Score: true},
	} {
		items = append(items, matrixItem(spec))
	}
	return items
}

// What random rows' penalties are.
var (
	repetitions = []float32{1, 1.3, 0.7, 2}
	subtracted  = []float32{0, 0.5, -1}
)

// ids are some ids, each once, in no order: none, few or many, and at times all.
func (p *probe) ids(vocab int) (ids []int32) {
	n := []int{0, 1, 5, vocab / 8, vocab}[p.rng.IntN(5)]
	for _, id := range p.rng.Perm(vocab)[:min(n, vocab)] {
		ids = append(ids, int32(id))
	}
	return ids
}

// edits gives n rows the lists and penalties of the problem's chain.
func (p *probe) edits(pr *problem, n int) {
	c, v, r := pr.spec.Chain, pr.shape.Vocab, &pr.rows
	for range n {
		if c.Bias == ir.BiasSparse {
			var list []ir.TokenBias
			for _, id := range p.ids(v) {
				list = append(list, ir.TokenBias{ID: id, Value: float32(p.rng.NormFloat64() * 3)})
			}
			r.BiasLists = append(r.BiasLists, list)
		}
		if c.Penalties {
			p.penalties(pr)
		}
		if c.IDs {
			var allow []int32
			if p.rng.IntN(3) == 0 {
				allow = append([]int32{}, p.ids(v)...)
			}
			r.AllowIDs, r.BanIDs = append(r.AllowIDs, allow), append(r.BanIDs, p.ids(v))
		}
	}
}

// penalties gives the next row its penalties, and counts that they are by.
func (p *probe) penalties(pr *problem) {
	r := &pr.rows
	var list []ir.TokenCount
	for _, id := range p.ids(pr.shape.Vocab) {
		list = append(list, ir.TokenCount{ID: id, Count: uint32(p.rng.IntN(4)) | uint32(p.rng.IntN(2))<<31})
	}
	r.CountLists = append(r.CountLists, list)
	r.Repetition = append(r.Repetition, repetitions[p.rng.IntN(len(repetitions))])
	r.Frequency = append(r.Frequency, subtracted[p.rng.IntN(len(subtracted))])
	r.Presence = append(r.Presence, subtracted[p.rng.IntN(len(subtracted))])
}
