package sampler

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// badFilterRows are rows whose parameters no host has seen, with what each ends as; StatusOK rows are as they are without the others.
var badFilterRows = []struct {
	k          int32
	p, minP, t float32
	want       ir.Status
}{
	{1025, 1, 0, 1, ir.StatusBadParameter}, // of a vocabulary of 2000
	{3, 0.5, 0, 1, ir.StatusOK},
	{1999, 0.5, 0, 1, ir.StatusBadParameter},
	{1024, 0.3, 0, 1, ir.StatusOK},
	{2000, 1, 0, 1, ir.StatusOK},
	{math.MinInt32, 1, 0, 1, ir.StatusOK},
	{0, -1, 0, 1, ir.StatusBadParameter},
	{0, float32(math.Copysign(0, -1)), 0, 1, ir.StatusOK},
	{5, float32(math.NaN()), 0, 1, ir.StatusBadParameter},
	{5, float32(math.Inf(1)), 0, 1, ir.StatusOK},
	{5, float32(math.Inf(-1)), 0, 1, ir.StatusBadParameter},
	{5, 1, -0x1p-149, 1, ir.StatusBadParameter},
	{5, 1, 1.0000001, 1, ir.StatusBadParameter},
	{5, 1, float32(math.NaN()), 1, ir.StatusBadParameter},
	{5, 1, 1, 1, ir.StatusOK},
	{5, -1, 0, 0, ir.StatusBadParameter}, // a greedy row has filters too, if to no effect
	{5, 0.5, 0, 0, ir.StatusOK},
	{1025, 1, 0, float32(math.NaN()), ir.StatusBadTemperature},
	{5, 1, 0, -1, ir.StatusBadTemperature},
}

// Where no host checks filters, kernels do: a row whose k, p or min-p is out of its range has no token and says so, and the others
// do not know.
func TestFiltersThatNobodyChecked(t *testing.T) {
	const vocab, hidden = 2000, 24
	rng, n := rand.New(rand.NewPCG(8, 9)), len(badFilterRows)
	w, h := normals(rng, vocab*hidden, 1), normals(rng, n*hidden, 1)
	spec := Spec{Chain: ir.Chain{Temperature: true}, Truncation: ir.Truncation{TopK: true, TopP: true, MinP: true}, Score: true, MaxBatch: n}
	for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
		dev, err := Open(device)
		require.NoError(t, err)
		head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden})
		require.NoError(t, err)
		plan, err := head.Plan(t.Context(), spec)
		require.NoError(t, err)
		rows := Rows{Seeds: []uint64{1}, Positions: []uint64{2}}
		for _, x := range badFilterRows {
			if x.want != ir.StatusOK {
				x.k, x.p, x.minP, x.t = 1, 1, 0, 1
			}
			rows.TopK, rows.TopP, rows.MinP, rows.Temperature = append(rows.TopK, x.k), append(rows.TopP, x.p), append(rows.MinP, x.minP), append(rows.Temperature, x.t)
		}
		good, err := plan.Sample(t.Context(), h, rows)
		require.NoError(t, err)
		b, err := newBatch(spec, plan.shape, h, rows)
		require.NoError(t, err)
		for i, x := range badFilterRows { // behind the host's check
			b.params.TopK[i], b.params.TopP[i], b.params.MinP[i], b.temp[i] = x.k, x.p, x.minP, x.t
		}
		got, err := plan.b.sample(t.Context(), b)
		require.NoError(t, err)
		for i, x := range badFilterRows {
			require.Equal(t, x.want, got.Status[i], "%s, row %d", device, i)
			if x.want != ir.StatusOK {
				require.EqualValues(t, ir.NoToken, got.Tokens[i])
				require.NotEqual(t, got.Scores[i], got.Scores[i], "a row without a token has no score")
				continue
			}
			require.Equal(t, good.Tokens[i], got.Tokens[i], "%s, row %d", device, i)
			require.Equal(t, good.Scores[i], got.Scores[i], "%s, row %d", device, i)
		}
	}
}
