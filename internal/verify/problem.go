package verify

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sampler"
)

// problem is one call with all that it needs: a head, a spec, hidden states and the rows' parameters.
type problem struct {
	shape  ir.Shape
	spec   sampler.Spec
	w      []uint16 // at least shape.Vocab rows
	batch  int
	hidden []uint16
	rows   sampler.Rows
}

// request is the problem as the reference takes it.
func (pr *problem) request() *reference.Request {
	c, r := pr.spec.Computation().Normalize(), pr.rows
	req := &reference.Request{
		H: pr.hidden, W: pr.w, Batch: pr.batch, Shape: pr.shape, Computation: c,
		Seeds: r.Seeds, Positions: r.Positions, Draw: r.Draw, StreamTag: r.StreamTag,
		Bias: r.Bias, Mask: r.Mask, TopK: r.TopK, TopP: r.TopP, MinP: r.MinP, DrawCounts: r.DrawCounts, ListIDs: r.ListIDs,
		Slots: r.Slots, SlotCount: r.SlotCount, BiasLists: r.BiasLists, CountLists: r.CountLists, AllowIDs: r.AllowIDs, BanIDs: r.BanIDs,
		Repetition: r.Repetition, Frequency: r.Frequency, Presence: r.Presence,
	}
	if c.Chain.Temperature {
		req.Temperature = r.Temperature
	}
	if c.Chain.Bias == ir.BiasMatrix {
		req.BiasStride = pr.biasStride()
	}
	if c.Chain.Mask {
		req.MaskWords = pr.maskWords()
		if len(r.Mask) != req.MaskWords {
			req.MaskStride = req.MaskWords
		}
	}
	return req
}

// cold reports whether a row is greedy by its temperature.
func (pr *problem) cold(b int) bool {
	t := pr.rows.Temperature
	if pr.spec.Slots {
		b = int(pr.rows.Slots[b])
	}
	return len(t) > 0 && t[min(b, len(t)-1)] == 0
}

func (pr *problem) biasStride() int {
	if pr.rows.BiasStride != 0 {
		return pr.rows.BiasStride
	}
	return pr.shape.Vocab
}

func (pr *problem) maskWords() int {
	if pr.rows.MaskWords != 0 {
		return pr.rows.MaskWords
	}
	return (pr.shape.Vocab + 31) / 32
}

// pick is the problem with the rows of some indices, in their order; a row may be taken twice.
func (pr *problem) pick(idx []int) *problem {
	out := *pr
	out.batch = len(idx)
	out.hidden = gather(pr.hidden, pr.shape.Hidden, idx)
	r := &out.rows
	if pr.spec.Slots { // parameters stay where they are
		r.Slots = gather(r.Slots, 1, idx)
		return &out
	}
	r.Seeds, r.Positions = perRow(r.Seeds, idx), perRow(r.Positions, idx)
	r.Temperature = perRow(r.Temperature, idx)
	r.TopK, r.TopP, r.MinP = perRow(r.TopK, idx), perRow(r.TopP, idx), perRow(r.MinP, idx)
	r.DrawCounts, r.ListIDs = perRow(r.DrawCounts, idx), perRow(r.ListIDs, idx)
	r.BiasLists, r.CountLists, r.AllowIDs, r.BanIDs = perRow(r.BiasLists, idx), perRow(r.CountLists, idx), perRow(r.AllowIDs, idx), perRow(r.BanIDs, idx)
	r.Repetition, r.Frequency, r.Presence = perRow(r.Repetition, idx), perRow(r.Frequency, idx), perRow(r.Presence, idx)
	if pr.spec.Chain.Bias == ir.BiasMatrix {
		r.Bias = gather(r.Bias, pr.biasStride(), idx)
	}
	if words := pr.maskWords(); len(r.Mask) != words {
		r.Mask = gather(r.Mask, words, idx)
	}
	return &out
}

// perRow picks values of which there is one a row or one for all.
func perRow[T any](v []T, idx []int) []T {
	if len(v) <= 1 {
		return v
	}
	return gather(v, 1, idx)
}

// gather copies rows of a width.
func gather[T any](v []T, width int, idx []int) []T {
	if v == nil {
		return nil
	}
	out := make([]T, 0, width*len(idx))
	for _, i := range idx {
		out = append(out, v[i*width:(i+1)*width]...)
	}
	return out
}

// span is first, first+1, ...: n numbers.
func span(first, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	return out
}
