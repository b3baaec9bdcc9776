package sampler

import (
	"context"

	"github.com/fsgen/fsgen/ir"
)

// shardHead is a head that may have a part of a vocabulary.
type shardHead interface {
	headBackend
	shard(vocab int, span ir.Span)
}

// loadShard copies the rows of some ids to a device.
func loadShard(ctx context.Context, b backend, w Weights, span ir.Span) (headBackend, error) {
	vocab, rows := w.Vocab, &spanRows{source: w.Source, span: span, hidden: w.Hidden}
	if w.Layout == Packed { // whose rows tiles count from
		rows.lead = leadOf(span)
	}
	w.Source, w.Vocab = rows, max(rows.lead+span.Count, 1)
	h, err := b.loadHead(ctx, w)
	if err != nil {
		return nil, err
	}
	h.(shardHead).shard(vocab, span)
	return h, nil
}

// tileStart is what the first id of a tile is a multiple of.
const tileStart = 32

// leadOf is the rows that tiles have ahead of a shard's first.
func leadOf(span ir.Span) int { return span.Start % tileStart }

// workOf is the shape that a head's kernels go over: a shard of no ids counts as one.
func workOf(shape ir.Shape, span *ir.Span) ir.Shape {
	if span != nil {
		shape.Vocab = max(span.Count+leadOf(*span), 1)
	}
	return shape
}

// spanRows are the rows of a span, of a source of all rows: behind a lead of zeros, and before zeros.
type spanRows struct {
	source RowReader
	span   ir.Span
	lead   int
	hidden int
}

// ReadRows implements RowReader.
func (r *spanRows) ReadRows(ctx context.Context, dst []uint16, first, n int) error {
	from, to := max(first, r.lead), min(first+n, r.lead+r.span.Count)
	if from >= to {
		clear(dst)
		return nil
	}
	clear(dst[:(from-first)*r.hidden])
	clear(dst[(to-first)*r.hidden:])
	return r.source.ReadRows(ctx, dst[(from-first)*r.hidden:(to-first)*r.hidden], r.span.Start+from-r.lead, to-from)
}

// recordRows is the room that records have for batches of up to so many rows.
func recordRows(batch int) int { return (batch + recordStep - 1) / recordStep * recordStep }

// recordStep is by how many rows records grow.
const recordStep = 16
