package sampler

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
)

// Rows find their parameters by their slots on every device, whether each slot has its own or all share one.
func TestSlotsOnEveryDevice(t *testing.T) {
	const v, d, n, slots = 500, 40, 19, 7
	rng := rand.New(rand.NewPCG(2, 5))
	w, h := normals(rng, v*d, 0.4), normals(rng, n*d, 1)
	rows := Rows{SlotCount: slots, Bias: make([]float32, slots*v), Mask: make([]uint32, slots*16), Positions: []uint64{3}}
	for i := range rows.Bias {
		rows.Bias[i] = float32(rng.NormFloat64())
	}
	for i := range rows.Mask {
		rows.Mask[i] = rng.Uint32()
	}
	for i := range slots {
		rows.Seeds, rows.Temperature = append(rows.Seeds, rng.Uint64()), append(rows.Temperature, float32(i)/2)
	}
	for range n {
		rows.Slots = append(rows.Slots, int32(rng.IntN(slots)))
	}
	rows.ListIDs = make([][]int32, slots)
	for i := range rows.ListIDs {
		for range i {
			rows.ListIDs[i] = append(rows.ListIDs[i], int32(rng.IntN(v)))
		}
	}
	shared := rows
	shared.Mask, shared.Temperature, shared.Seeds = rows.Mask[:16], rows.Temperature[2:3], rows.Seeds[:1]
	spec := Spec{Chain: ir.Chain{Bias: ir.BiasMatrix, Mask: true, Temperature: true}, Slots: true, LogProb: ir.TemperatureLogProb, ListLogProbs: true, Score: true, MaxBatch: n}
	for _, rows := range []Rows{rows, shared} {
		var want *Result
		for _, name := range []string{CPU, "sim:sm_90", "sim:sm_100"} {
			dev, err := Open(name)
			require.NoError(t, err)
			head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: d}, Vocab: v, Hidden: d})
			require.NoError(t, err)
			plan, err := head.Plan(t.Context(), spec)
			require.NoError(t, err)
			got, err := plan.Sample(t.Context(), h, rows)
			require.NoError(t, err)
			if want == nil {
				want = got
			}
			require.Equal(t, want.Tokens, got.Tokens, name)
			require.Equal(t, want.Seeds, got.Seeds)
			require.InDeltaSlice(t, want.Scores, got.Scores, 1e-4)
			require.InDeltaSlice(t, want.LogProbs, got.LogProbs, 1e-4)
			require.Len(t, got.ListLogProbs, n)
			for b, list := range want.ListLogProbs {
				require.Len(t, list, int(rows.Slots[b]))
				require.InDeltaSlice(t, list, got.ListLogProbs[b], 1e-4)
			}
		}
	}
}

// A kernel has slots or it has not, and a plan on it does.
func TestArtifactsFitTheSlots(t *testing.T) {
	for _, has := range []bool{false, true} {
		a, err := gen.Emit(gen.Request{Arch: arch.SM90, Computation: ir.Computation{Slots: has}, Shape: ir.Shape{Vocab: 900, Hidden: 72}, Batch: 21})
		require.NoError(t, err)
		require.NoError(t, Spec{Artifact: a, Slots: has}.validate())
		require.ErrorContains(t, Spec{Artifact: a, Slots: !has}.validate(), "slots: the plan and the kernel both have them, or neither")
	}
}

// No rows is no error where rows have slots too, whether or not there are any.
func TestNoRowsOfSlots(t *testing.T) {
	spec := Spec{Slots: true, Chain: ir.Chain{Temperature: true, Mask: true, Bias: ir.BiasMatrix}, Truncation: ir.Truncation{TopK: true}}
	full := Rows{SlotCount: 2, Temperature: []float32{1}, Mask: make([]uint32, 4), Bias: make([]float32, 80), TopK: []int32{1}}
	for _, name := range []string{CPU, "sim:sm_90"} {
		dev, err := Open(name)
		require.NoError(t, err)
		head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, 40*8), Hidden: 8}, Vocab: 40, Hidden: 8})
		require.NoError(t, err)
		plan, err := head.Plan(t.Context(), spec)
		require.NoError(t, err)
		for _, rows := range []Rows{{}, full} {
			res, err := plan.Sample(t.Context(), nil, rows)
			require.NoError(t, err)
			require.Equal(t, &Result{Tokens: []int32{}, Status: []ir.Status{}}, res)
		}
		var bad *InputError
		_, err = plan.Sample(t.Context(), nil, Rows{SlotCount: -1})
		require.ErrorAs(t, err, &bad)
		one := full
		one.SlotCount, one.Slots = 0, []int32{0}
		_, err = plan.Sample(t.Context(), make([]uint16, 8), one)
		require.ErrorContains(t, err, "slot count is 0: want 1 to 2147483647")
	}
}
