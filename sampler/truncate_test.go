//go:build !race

// The race detector takes minutes over what lies in the simulator, which its own tests cover.

package sampler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// filterRows makes rows of every kind of filter, on and off.
func filterRows(rng *rand.Rand, t ir.Truncation, n, vocab int, tempered bool) sampler.Rows {
	pick := func(xs ...float32) float32 { return xs[rng.IntN(len(xs))] }
	r := sampler.Rows{}
	for range n {
		r.Seeds, r.Positions = append(r.Seeds, rng.Uint64()), append(r.Positions, rng.Uint64())
		if tempered {
			r.Temperature = append(r.Temperature, pick(0, 0.3, 0.7, 1, 1.3, 3, ir.MaxTemperature))
		}
		if t.TopK {
			r.TopK = append(r.TopK, int32(pick(-1, 0, 1, 2, 5, 20, 40, float32(min(vocab-1, 1024)), float32(vocab), float32(vocab+7))))
		}
		if t.TopP {
			r.TopP = append(r.TopP, pick(0, 1e-30, 0.1, 0.5, 0.9, 0.95, 0.9999999, 1, 2))
		}
		if t.MinP {
			r.MinP = append(r.MinP, pick(0, 1e-30, 0.01, 0.1, 0.5, 1))
		}
	}
	return r
}

// truncations are the filters that are tried, each with a size of vocabulary and a spread of logits: peaked rows are decided in the
// first pass, flat ones of many tokens are not, and equal logits leave only ids to tell tokens apart.
var truncations = []struct {
	ir.Truncation
	vocab  int
	spread float64
}{
	{ir.Truncation{TopK: true}, 640, 0.2}, {ir.Truncation{TopP: true}, 520, 0.5}, {ir.Truncation{MinP: true}, 490, 0.5},
	{ir.Truncation{TopK: true, TopP: true}, 630, 0.5},
	{ir.Truncation{TopK: true, TopP: true, MinP: true, TemperatureLast: true}, 490, 2}, {ir.Truncation{TopP: true, MinP: true}, 380, 2},
	{ir.Truncation{TopP: true}, 9003, 0.1}, {ir.Truncation{TopP: true, MinP: true}, 9100, 0.2}, {ir.Truncation{TopK: true, TopP: true}, 1500, 0},
	{ir.Truncation{TopK: true}, 12000, 0.1}, {ir.Truncation{TopK: true}, 9001, 0}, {ir.Truncation{TopK: true, TopP: true}, 9002, 0},
}

// What kernels decide is what the reference decides, in as many passes as it takes.
func TestTruncationOnSimulators(t *testing.T) {
	for i, tr := range truncations {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		hidden, n := 8+8*rng.IntN(2), 4+rng.IntN(8)
		w, h := make([]uint16, tr.vocab*hidden), make([]uint16, n*hidden)
		for i := range w {
			w[i] = bf16(rng.NormFloat64() * tr.spread)
		}
		for i := range h {
			h[i] = bf16(rng.NormFloat64())
		}
		rows := filterRows(rng, tr.Truncation, n, tr.vocab, i%2 == 0)
		if tr.vocab > 8192 { // more tokens than a list holds, and more ties
			n, h, rows = 1, h[:hidden], sampler.Rows{Seeds: rows.Seeds[:1], Positions: rows.Positions[:1], Temperature: rows.Temperature[:min(1, len(rows.Temperature))]}
			for i := range rows.Temperature { // at T = 0 nothing is listed
				rows.Temperature[i] = 1
			}
			if tr.TopK {
				rows.TopK = []int32{int32(tr.vocab / 12)}
			}
			if tr.TopP {
				rows.TopP = []float32{0.5}
			}
			if tr.MinP {
				rows.MinP = []float32{0.01}
			}
		}
		spec := sampler.Spec{Chain: ir.Chain{Temperature: i%2 == 0}, Truncation: tr.Truncation, Score: true, MaxBatch: n}
		weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: tr.vocab, Hidden: hidden}
		want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
		for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
			t.Run(fmt.Sprint(device, tr.Items(), tr.vocab), func(t *testing.T) {
				got := sampler.SampleOne(t, device, weights, spec, h, rows)
				require.Equal(t, want.Tokens, got.Tokens)
				require.Equal(t, want.Status, got.Status)
				if tr.vocab > 2000 {
					require.Greater(t, slices.Max(got.Passes), int32(1), "such rows take further passes")
				}
				for b, s := range got.Scores {
					require.InDelta(t, want.Scores[b], s, 1e-4)
				}
			})
		}
	}
}

// A row of NaN has no log-probability, and several tokens that fail it do not race for what its best leaves behind.
func TestLogProbsOfFailedRows(t *testing.T) {
	const vocab, hidden = 300, 16
	w, h := make([]uint16, vocab*hidden), make([]uint16, 3*hidden)
	for i := range w {
		w[i] = bf16(float64(i%7) / 8)
	}
	for i := range h {
		h[i] = bf16(1)
	}
	h[hidden] = bf16(math.NaN())
	rows := sampler.Rows{Seeds: []uint64{1, 2, 3}, Positions: []uint64{4}, Temperature: []float32{1}}
	weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	for i, mode := range []ir.LogProb{ir.RawLogProb, ir.ProcessedLogProb, ir.RawLogProb} {
		spec := sampler.Spec{Chain: ir.Chain{Temperature: true}, LogProb: mode, MaxBatch: 3}
		if i == 2 { // blocks that fail a row are several, too
			spec.Sampler = ir.Grouped
		}
		want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
		for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
			got := sampler.SampleOne(t, device, weights, spec, h, rows)
			require.Equal(t, want.Tokens, got.Tokens)
			require.Equal(t, want.Status, got.Status)
			require.True(t, math.IsNaN(float64(got.LogProbs[1])))
		}
	}
}

func bf16(x float64) uint16 { return uint16(math.Float32bits(float32(x)) >> 16) }

// An emitted kernel narrows rows by the filters that it was emitted with: a plan that asks for others does not run it.
func TestArtifactsOfOtherFilters(t *testing.T) {
	dev, err := sampler.Open("sim:sm_90")
	require.NoError(t, err)
	head, err := dev.LoadHead(t.Context(), sampler.Weights{Source: sampler.Matrix{Data: make([]uint16, 64*8), Hidden: 8}, Vocab: 64, Hidden: 8})
	require.NoError(t, err)
	has := ir.Truncation{TopK: true, TopP: true}
	a, err := gen.Emit(gen.Request{Arch: arch.SM90, Shape: head.Shape(), Batch: 8, Computation: ir.Computation{Truncation: has}})
	require.NoError(t, err)
	for _, asked := range []ir.Truncation{{}, {TopK: true}, {TopK: true, TopP: true, MinP: true}, {TopK: true, TopP: true, TemperatureLast: true}} {
		_, err := head.Plan(t.Context(), sampler.Spec{Truncation: asked, Artifact: a})
		var bad *sampler.InputError
		require.ErrorAs(t, err, &bad)
		require.ErrorContains(t, err, "artifact is a kernel with truncation top-k,top-p: the plan wants truncation "+asked.String())
	}
	plan, err := head.Plan(t.Context(), sampler.Spec{Truncation: has, Artifact: a})
	require.NoError(t, err)
	require.NoError(t, plan.Close())
}
