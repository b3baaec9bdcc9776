package sampler

import (
	"context"
	"fmt"
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
)

// The cpu and the simulators keep an LM head in this process's memory. What that cannot hold is refused: to ask for it would end the
// process, and not with an error.

// loadRows is how many rows are read between looks at the context.
const loadRows = 4096

// readRows copies an LM head into memory, rows ld values apart.
func readRows(ctx context.Context, w Weights, ld int) ([]uint16, error) {
	if err := fitsMemory(w, ld); err != nil {
		return nil, err
	}
	out, chunk := make([]uint16, w.Vocab*ld), []uint16(nil)
	if ld != w.Hidden {
		chunk = make([]uint16, min(loadRows, w.Vocab)*w.Hidden)
	}
	for first := 0; first < w.Vocab; first += loadRows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(loadRows, w.Vocab-first)
		rows := out[first*ld : (first+n)*ld]
		if chunk == nil {
			if err := w.Source.ReadRows(ctx, rows, first, n); err != nil {
				return nil, err
			}
			continue
		}
		if err := w.Source.ReadRows(ctx, chunk[:n*w.Hidden], first, n); err != nil {
			return nil, err
		}
		pad(rows, chunk[:n*w.Hidden], w.Hidden, ld)
	}
	return out, nil
}

// mostMemory is what no machine has: the limit where its own is not known.
const mostMemory = 1 << 46

// fitsMemory refuses weights that this machine's memory does not hold, rows ld values apart, and packed if they are to be.
func fitsMemory(w Weights, ld int) error {
	const what = "size of the weights"
	bytes := 2 * int64(w.Vocab) * int64(ld) // at most 2^52
	if err := memoryHolds(what, bytes); err != nil || w.Layout != Packed {
		return err
	}
	return memoryHolds(what, bytes+int64(manifest.PackedBytes(w.Vocab, w.Hidden)))
}

// memoryHolds refuses what this machine's memory does not hold.
func memoryHolds(what string, bytes int64) error {
	most := int64(mostMemory)
	if n := totalMemory(); n > 0 {
		most = min(most, n)
	}
	if most = min(most, math.MaxInt); bytes <= most {
		return nil
	}
	return &InputError{what, fmt.Sprintf("want no more than the %d bytes of this machine's memory", most), fmt.Sprintf("%d bytes", bytes)}
}

// shardsFitMemory is fitsMemory for what ranks of one process have together.
func shardsFitMemory(w Weights, spans []ir.Span, ld int) error {
	w.Vocab = 0
	for _, span := range spans {
		w.Vocab += leadOf(span) + span.Count
	}
	return fitsMemory(w, ld)
}
