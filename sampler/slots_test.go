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
