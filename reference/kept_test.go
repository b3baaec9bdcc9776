package reference

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// Rows say how many tokens they keep, and what an error of the mass would change: nothing where top-k has bounded it, and one token
// where the share of p ends beside a token's.
func TestKept(t *testing.T) {
	r := &Request{
		Batch: 6, Shape: ir.Shape{Vocab: 5, Hidden: 1}, Logits: logs(0.4, 0.2, 0.2, 0.1, 0.1),
		Computation: ir.Computation{Chain: ir.Chain{Mask: true}, Truncation: ir.Truncation{TopK: true, TopP: true, MinP: true}},
		Seeds:       []uint64{1}, Positions: []uint64{1}, Mask: []uint32{31, 31, 31, 31, 7, 0}, MaskStride: 1, MaskWords: 1,
		TopK: []int32{0, 3, 0, 0, 0, 0}, TopP: []float32{0.7, 0.7, 0.6, 1, 1, 1}, MinP: []float32{0, 0, 0, 0.5, 0, 0},
	}
	for b, want := range []int{3, 2, 2, 3, 3, 0} {
		least, most, err := r.Kept(t.Context(), b, 0)
		require.NoError(t, err)
		require.Equal(t, [2]int{want, want}, [2]int{least, most}, "row %d", b)
		least, most, err = r.Kept(t.Context(), b, 0x1p-10)
		require.NoError(t, err)
		if b == 2 { // 0.4 and 0.2 are 0.6
			want++
		}
		require.Equal(t, want, most, "row %d", b)
		require.LessOrEqual(t, least, most)
	}
	r.TopP, r.MinP, r.TopK = []float32{1}, []float32{0}, []int32{-1}
	least, _, err := r.Kept(t.Context(), 0, 0.5)
	require.NoError(t, err)
	require.Equal(t, 5, least, "what is off narrows nothing, whatever the mass")
}
