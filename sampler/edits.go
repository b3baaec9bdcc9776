package sampler

import (
	"cmp"
	"math"
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/templates"
)

// noList stands for the number of entries of a row that has no list.
const noList = math.MaxUint32

// packedLists are lists as kernels take them: the entries of all, sorted by id in each, and a span of them for each list.
type packedLists struct {
	spans   []uint32 // first entry and their number, or noList
	entries []uint32
	count   int
}

// pack lays lists out. A list that is nil is none, and so is an empty one unless empty lists mean something.
func pack[T any](lists [][]T, emptyMatters bool, id func(T) int32, value func(T) []uint32) (p packedLists) {
	for _, list := range lists {
		if list == nil || len(list) == 0 && !emptyMatters {
			p.spans = append(p.spans, 0, noList)
			continue
		}
		sorted := slices.SortedFunc(slices.Values(list), func(a, b T) int { return cmp.Compare(id(a), id(b)) })
		sorted = slices.CompactFunc(sorted, func(a, b T) bool { return id(a) == id(b) })
		p.spans = append(p.spans, uint32(p.count), uint32(len(sorted)))
		for _, e := range sorted {
			p.entries = append(append(p.entries, uint32(id(e))), value(e)...)
		}
		p.count += len(sorted)
	}
	return p
}

// edits are the parameters that change single logits, as kernels take them.
type edits struct {
	bias, counts, allow, ban packedLists
}

func (b *batch) edits() edits {
	p, self := &b.params, func(id int32) int32 { return id }
	none := func(int32) []uint32 { return nil }
	return edits{
		bias: pack(p.BiasLists, false, func(e ir.TokenBias) int32 { return e.ID },
			func(e ir.TokenBias) []uint32 { return []uint32{math.Float32bits(e.Value)} }),
		counts: pack(p.CountLists, false, func(e ir.TokenCount) int32 { return e.ID }, func(e ir.TokenCount) []uint32 { return []uint32{e.Count} }),
		allow:  pack(p.AllowIDs, true, self, none),
		ban:    pack(p.BanIDs, false, self, none),
	}
}

// editArray is one array that a kernel's parameter points to; none where it is empty.
type editArray struct {
	param string
	data  []byte
}

// arrays lists the arrays of edits.
func (e *edits) arrays(p *Rows) []editArray {
	return []editArray{
		{templates.ParamBiasSpans, asBytes(e.bias.spans)}, {templates.ParamBiasEntries, asBytes(e.bias.entries)},
		{templates.ParamCountSpans, asBytes(e.counts.spans)}, {templates.ParamCountEntries, asBytes(e.counts.entries)},
		{templates.ParamAllowSpans, asBytes(e.allow.spans)}, {templates.ParamAllowIDs, asBytes(e.allow.entries)},
		{templates.ParamBanSpans, asBytes(e.ban.spans)}, {templates.ParamBanIDs, asBytes(e.ban.entries)},
		{templates.ParamRepetition, asBytes(p.Repetition)}, {templates.ParamFrequency, asBytes(p.Frequency)},
		{templates.ParamPresence, asBytes(p.Presence)}, {templates.ParamTokenCounts, asBytes(p.Counts)},
	}
}

// scalars are the strides and lengths of the arrays.
func (e *edits) scalars(p *Rows) map[string]uint32 {
	return map[string]uint32{
		templates.ParamBiasSpanStride: perRow(len(e.bias.spans) / 2), templates.ParamBiasEntryCount: uint32(e.bias.count),
		templates.ParamCountSpanStride: perRow(len(e.counts.spans) / 2), templates.ParamCountEntryCount: uint32(e.counts.count),
		templates.ParamAllowSpanStride: perRow(len(e.allow.spans) / 2), templates.ParamAllowIDCount: uint32(e.allow.count),
		templates.ParamBanSpanStride: perRow(len(e.ban.spans) / 2), templates.ParamBanIDCount: uint32(e.ban.count),
		templates.ParamRepetitionStride: perRow(len(p.Repetition)), templates.ParamFrequencyStride: perRow(len(p.Frequency)),
		templates.ParamPresenceStride: perRow(len(p.Presence)), templates.ParamTokenCountStride: uint32(p.CountStride),
	}
}
