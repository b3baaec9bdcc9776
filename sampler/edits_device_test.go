//go:build !race

package sampler

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/templates"
)

// What no host sees fails its row, and no other, and nothing is read past an array: the simulator would tell.
func TestBadEditsFailTheirRows(t *testing.T) {
	const v, d, n = 300, 8, 11
	rng := rand.New(rand.NewPCG(3, 9))
	w, h := normals(rng, v*d, 0.5), normals(rng, n*d, 1)
	for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
		dev, err := Open(device)
		require.NoError(t, err)
		head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: d}, Vocab: v, Hidden: d})
		require.NoError(t, err)
		plan, err := head.Plan(t.Context(), Spec{Chain: ir.Chain{Bias: ir.BiasSparse, Penalties: true, IDs: true}, Slots: true, MaxBatch: n})
		require.NoError(t, err)
		rows := Rows{Repetition: make([]float32, n), Presence: []float32{1}}
		rows.SlotCount = n
		for i := range n {
			rows.Slots = append(rows.Slots, int32(i))
			rows.Seeds, rows.Positions = append(rows.Seeds, rng.Uint64()), append(rows.Positions, 1)
			rows.Repetition[i] = 1.5
			rows.BiasLists = append(rows.BiasLists, []ir.TokenBias{{ID: 1, Value: 1}, {ID: int32(rng.IntN(100)) + 2, Value: 1}, {ID: int32(rng.IntN(100)) + 110, Value: 1}})
			rows.CountLists = append(rows.CountLists, []ir.TokenCount{{ID: int32(rng.IntN(v)), Count: 1}})
			rows.BanIDs = append(rows.BanIDs, []int32{0, int32(rng.IntN(v-1)) + 1})
		}
		good, err := plan.Sample(t.Context(), h, rows)
		require.NoError(t, err)
		b, err := newBatch(plan.spec, plan.shape, h, rows)
		require.NoError(t, err)
		e := b.edits()
		rows.Repetition[1], rows.Slots[9] = 0, n
		e.bias.spans[2*2+1] = 1000                        // past the array
		e.bias.spans[2*3] = 0xFFFFFFF0                    // far behind it
		e.bias.entries[2*(3*4)] = 250                     // row 4: falls
		e.bias.entries[2*(3*5+2)] = v                     // row 5: leaves the vocabulary
		e.bias.entries[2*(3*6+1)] = 1                     // row 6: twice
		e.ban.entries[2*7+1] = 0xFFFFFFFF                 // row 7: a negative id
		e.counts.spans[2*8], e.counts.spans[2*8+1] = n, 1 // row 8: begins behind the array
		status := runEdited(t, plan.b.(*simPlan), b, &e)
		for i := range n {
			if i >= 1 && i <= 9 {
				require.Equal(t, ir.StatusBadParameter, status.Status[i], "%s row %d", device, i)
				require.EqualValues(t, ir.NoToken, status.Tokens[i])
				continue
			}
			require.Equal(t, good.Tokens[i], status.Tokens[i])
			require.Equal(t, ir.StatusOK, status.Status[i])
		}
	}
}

// runEdited runs a plan's first kernel with other edits than those of a batch.
func runEdited(t *testing.T, p *simPlan, b *batch, e *edits) *Result {
	mem, i := newSimMemory(p, b), p.widths.choose(b.rows)
	for _, a := range e.arrays(&b.params) {
		if len(a.data) > 0 {
			mem.launch.Pointers[a.param] = mem.memory.Put("changed "+a.param, a.data).Addr
		}
	}
	require.NotZero(t, mem.launch.Pointers[templates.ParamBiasSpans])
	m := p.buckets[i].Artifact.Manifest
	mem.launch.CTAs = autotune.Grid(m.Launch.Grid, p.head.shape.Vocab, b.rows, simCTAs, 0)
	require.NoError(t, mem.run(t.Context(), p.programs[i]))
	require.NoError(t, mem.complete(p.spec))
	return mem.result(b, p.spec)
}
