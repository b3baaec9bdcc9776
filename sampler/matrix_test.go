package sampler

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// A matrix that does not hold what is asked of it says so, on any device.
func TestMatrixIsHeldToItsBounds(t *testing.T) {
	data := make([]uint16, 10*8)
	for _, c := range []struct {
		m      Matrix
		vocab  int
		hidden int
		says   string
	}{
		{Matrix{Data: data, Hidden: 8}, 11, 8, "want 11 rows"},
		{Matrix{Data: data, Hidden: 8}, 200, 8, "want"},
		{Matrix{Data: data, Hidden: 8}, 10, 4, "hidden size"},
		{Matrix{Data: data, Hidden: 8, Stride: 3}, 10, 8, "matrix stride"},
		{Matrix{Data: data, Hidden: 8, Stride: -1}, 10, 8, "matrix stride"},
		{Matrix{Data: data, Hidden: 8, Stride: math.MaxInt}, 10, 8, "want 10 rows"},
		{Matrix{Data: data, Hidden: 1 << 20}, math.MaxInt32, 1 << 20, "want 2147483647 rows"},
		{Matrix{Data: data, Hidden: 1 << 20, Stride: 1 << 20}, math.MaxInt32, 1 << 20, "want 2147483647 rows"},
		{Matrix{}, 1, 1, "matrix hidden size"},
	} {
		for _, name := range []string{"cpu", "sim:sm_90"} {
			dev, err := Open(name)
			require.NoError(t, err)
			_, err = dev.LoadHead(t.Context(), Weights{Source: c.m, Vocab: c.vocab, Hidden: c.hidden})
			require.ErrorContains(t, err, c.says, "%s %+v", name, c)
			var bad *InputError
			require.ErrorAs(t, err, &bad)
			require.NoError(t, dev.Close())
		}
	}
}

// unread is a source that must not be asked for a row.
type unread struct{}

func (unread) ReadRows(context.Context, []uint16, int, int) error { return errors.New("rows are read") }

// Weights that no machine holds are refused before any memory is asked for, whose want would end the process.
func TestWeightsThatNoMemoryHolds(t *testing.T) {
	for _, layout := range []Layout{RowMajor, Packed} {
		w := Weights{Source: unread{}, Vocab: math.MaxInt32, Hidden: 1 << 20, Layout: layout}
		for _, name := range []string{CPU, "sim:sm_90", "sim:sm_100"} {
			var bad *InputError
			dev, err := Open(name)
			require.NoError(t, err)
			_, err = dev.LoadHead(t.Context(), w)
			require.ErrorAs(t, err, &bad, name)
			require.Equal(t, "size of the weights", bad.Field)
			g, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{name, name}})
			require.NoError(t, err)
			_, err = g.LoadHead(t.Context(), w, nil)
			require.ErrorAs(t, err, &bad, name)
			require.NoError(t, g.Close())
		}
	}
	total := min(totalMemory(), math.MaxInt)
	for _, c := range []struct {
		w    Weights
		fits bool
	}{{Weights{Vocab: 1000, Hidden: 64, Layout: Packed}, true}, {Weights{Vocab: int(min(total, mostMemory) / 128), Hidden: 64}, true},
		{Weights{Vocab: int(min(total, mostMemory)/128) + 1, Hidden: 64}, false}, {Weights{Vocab: int(min(total, mostMemory) / 128), Hidden: 64, Layout: Packed}, false}} {
		if total > 0 || c.w.Vocab == 1000 {
			require.Equal(t, c.fits, fitsMemory(c.w, c.w.Hidden) == nil, "%+v", c.w)
		}
	}
}

// A batch that ranks have no room for is refused as they are planned.
func TestMaxBatchThatNoMemoryHolds(t *testing.T) {
	g, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{"sim:sm_90", "sim:sm_90"}})
	require.NoError(t, err)
	h, err := g.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, 800), Hidden: 8}, Vocab: 100, Hidden: 8}, nil)
	require.NoError(t, err)
	var bad *InputError
	for most, says := range map[int]string{math.MaxInt: "want 0 to 2147483647", math.MaxInt32: "memory"} {
		_, err = h.Plan(t.Context(), Spec{MaxBatch: most, Truncation: ir.Truncation{TopK: true}})
		require.ErrorAs(t, err, &bad)
		require.ErrorContains(t, err, says)
	}
}
