//go:build !race

package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// slottedFilters is rows whose slots have filters of every kind; flat ones keep more tokens than a pass lists.
func slottedFilters(rng *rand.Rand, rows, slots int, t ir.Truncation) Rows {
	r := Rows{SlotCount: slots, Positions: []uint64{3}}
	for i := range slots {
		r.Seeds, r.Temperature = append(r.Seeds, rng.Uint64()), append(r.Temperature, []float32{0, 0.7, 1, 1.4}[i%4])
		if t.TopK {
			r.TopK = append(r.TopK, []int32{0, 3, 40, 1}[i%4])
		}
		if t.TopP {
			r.TopP = append(r.TopP, []float32{1, 0.5, 0.95}[i%3])
		}
		if t.MinP {
			r.MinP = append(r.MinP, []float32{0, 0.2}[i%2])
		}
	}
	for range rows {
		r.Slots = append(r.Slots, int32(rng.IntN(slots)))
	}
	return r
}

// The kernels of every pass take a row's parameters from its slot, and fail those rows alone that have none.
func TestSlotsUnderTruncation(t *testing.T) {
	const n, slots, d = 9, 7, 16
	for _, tr := range []struct {
		ir.Truncation
		vocab  int
		spread float64
		passes int32
	}{{ir.Truncation{TopK: true, TopP: true, MinP: true}, 600, 1, 1}, {ir.Truncation{TopP: true, TemperatureLast: true}, 10007, 0.1, 3}} {
		rng := rand.New(rand.NewPCG(3, uint64(tr.vocab)))
		w, h, rows := normals(rng, tr.vocab*d, tr.spread), normals(rng, n*d, 1), slottedFilters(rng, n, slots, tr.Truncation)
		spec := Spec{Chain: ir.Chain{Temperature: true}, Truncation: tr.Truncation, Slots: true, Score: true, MaxBatch: n}
		want := planOn(t, CPU, w, tr.vocab, d, spec)(h, rows, nil)
		bad := map[int]int32{0: -1, 4: slots, 8: math.MinInt32}
		for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
			got := planOn(t, device, w, tr.vocab, d, spec)(h, rows, bad)
			for row := range n {
				if _, is := bad[row]; is {
					require.Equal(t, ir.StatusBadParameter, got.Status[row], "row %d of %s", row, device)
					require.EqualValues(t, ir.NoToken, got.Tokens[row])
					require.True(t, math.IsNaN(float64(got.Scores[row])))
					continue
				}
				require.Equal(t, ir.StatusOK, got.Status[row], "row %d of %s", row, device)
				require.Equal(t, want.Tokens[row], got.Tokens[row], "row %d of %s", row, device)
				require.InDelta(t, want.Scores[row], got.Scores[row], 1e-4)
			}
			require.GreaterOrEqual(t, slices.Max(got.Passes), tr.passes)
		}
	}
}

// planOn plans on a device, and returns what samples there: bad slots are put past the checks, as memory that no host sees may hold
// them.
func planOn(t *testing.T, device string, w []uint16, vocab, hidden int, spec Spec) func(h []uint16, rows Rows, bad map[int]int32) *Result {
	t.Helper()
	dev, err := Open(device)
	require.NoError(t, err)
	head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden})
	require.NoError(t, err)
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	return func(h []uint16, rows Rows, bad map[int]int32) *Result {
		b, err := newBatch(plan.spec, plan.shape, h, rows)
		require.NoError(t, err)
		b.params.Slots = slices.Clone(b.params.Slots)
		for row, slot := range bad {
			b.params.Slots[row] = slot
		}
		res, err := plan.b.sample(t.Context(), b)
		require.NoError(t, err)
		return res
	}
}
