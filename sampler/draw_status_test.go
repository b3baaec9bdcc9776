package sampler

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// badDrawRows are rows whose numbers of draws and temperatures no host has seen, with what each ends as.
var badDrawRows = []struct {
	n    int32
	t    float32
	want ir.Status
}{
	{0, 1, ir.StatusBadParameter}, {3, 1, ir.StatusOK}, {-1, 1, ir.StatusBadParameter}, {5, 0.5, ir.StatusOK}, {6, 1, ir.StatusBadParameter},
	{math.MinInt32, 1, ir.StatusBadParameter}, {1, 0, ir.StatusOK}, {9, 0, ir.StatusBadParameter}, {math.MaxInt32, float32(math.NaN()), ir.StatusBadTemperature},
	{2, -1, ir.StatusBadTemperature}, {1, 1, ir.StatusOK},
}

// Where no host checks how many tokens a row draws, kernels do: a row whose number is out of its range has no tokens, writes past none
// of its places, and the others do not know.
func TestDrawsThatNobodyChecked(t *testing.T) {
	const vocab, hidden, most = 300, 24, 5
	rng, n := rand.New(rand.NewPCG(8, 9)), len(badDrawRows)
	w, h := normals(rng, vocab*hidden, 1), normals(rng, n*hidden, 1)
	for device, kind := range map[string]ir.Draws{"sim:sm_90": ir.WithReplacement, "sim:sm_100": ir.WithoutReplacement} {
		spec := Spec{Chain: ir.Chain{Temperature: true}, Draws: kind, MaxDraws: most, MaxBatch: n}
		dev, err := Open(device)
		require.NoError(t, err)
		head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden})
		require.NoError(t, err)
		plan, err := head.Plan(t.Context(), spec)
		require.NoError(t, err)
		rows := Rows{Seeds: []uint64{1}, Positions: []uint64{2}}
		for _, x := range badDrawRows {
			if x.want != ir.StatusOK {
				x.n, x.t = 2, 1
			}
			rows.DrawCounts, rows.Temperature = append(rows.DrawCounts, x.n), append(rows.Temperature, x.t)
		}
		good, err := plan.Sample(t.Context(), h, rows)
		require.NoError(t, err)
		b, err := newBatch(spec, plan.shape, h, rows)
		require.NoError(t, err)
		for i, x := range badDrawRows { // behind the host's check
			b.drawCounts[i], b.temp[i] = x.n, x.t
		}
		got, err := plan.b.sample(t.Context(), b)
		require.NoError(t, err)
		for i, x := range badDrawRows {
			want := good.Draws[i*most:][:most]
			if x.want != ir.StatusOK {
				want = []int32{-1, -1, -1, -1, -1}
			}
			require.Equal(t, x.want, got.Status[i], "%s, row %d", device, i)
			require.Equal(t, want, got.Draws[i*most:][:most], "%s, row %d", device, i)
		}
	}
}
