//go:build !race

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

// toldUnderTruncation are the log-probabilities and log-sum-exps that are tried beside filters, on rows that one pass decides, and on
// those that take further ones.
var toldUnderTruncation = []struct {
	ir.Truncation
	chain  ir.Chain
	mode   ir.LogProb
	lse    bool
	vocab  int
	spread float64
}{
	{ir.Truncation{TopK: true, TopP: true}, ir.Chain{Temperature: true}, ir.ProcessedLogProb, true, 630, 0.5},
	{ir.Truncation{TopK: true, TopP: true, MinP: true, TemperatureLast: true}, ir.Chain{Temperature: true}, ir.ProcessedLogProb, false, 490, 2},
	{ir.Truncation{MinP: true}, ir.Chain{}, ir.ProcessedLogProb, true, 490, 0.5},
	{ir.Truncation{TopK: true}, ir.Chain{Temperature: true, Bias: ir.BiasMatrix, Mask: true}, ir.RawLogProb, false, 600, 0.5},
	{ir.Truncation{TopK: true, MinP: true}, ir.Chain{Temperature: true, Bias: ir.BiasMatrix}, ir.TemperatureLogProb, false, 520, 0.5},
	{ir.Truncation{TopP: true}, ir.Chain{Temperature: true}, ir.TemperatureLogProb, true, 520, 0.5},
	{ir.Truncation{TopK: true, TemperatureLast: true}, ir.Chain{Temperature: true, Mask: true}, ir.NoLogProb, true, 400, 0.5},
	{ir.Truncation{TopP: true, TemperatureLast: true}, ir.Chain{Temperature: true, Softcap: 5}, ir.RawLogProb, false, 1301, 0.1},
	{ir.Truncation{TopP: true, MinP: true, TemperatureLast: true}, ir.Chain{Temperature: true, Mask: true}, ir.ProcessedLogProb, false, 1900, 0.2},
	{ir.Truncation{MinP: true}, ir.Chain{Bias: ir.BiasMatrix}, ir.RawLogProb, false, 1200, 0.05},
	{ir.Truncation{TopP: true}, ir.Chain{IDs: true, Temperature: true}, ir.ProcessedLogProb, true, 1300, 0.1},
	{ir.Truncation{TopP: true}, ir.Chain{Temperature: true}, ir.RawLogProb, false, 500, 2}, // from here on of two distributions
	{ir.Truncation{TopK: true, TopP: true}, ir.Chain{Temperature: true, Mask: true, Bias: ir.BiasMatrix}, ir.TemperatureLogProb, true, 510, 1},
	{ir.Truncation{TopP: true, TemperatureLast: true}, ir.Chain{Temperature: true}, ir.NoLogProb, true, 520, 1},
	{ir.Truncation{TopP: true, MinP: true, TemperatureLast: true}, ir.Chain{Temperature: true}, ir.ProcessedLogProb, true, 530, 1},
}

// What kernels tell of rows that filters narrow is what the reference tells, whichever pass decides them.
func TestLogProbsUnderTruncation(t *testing.T) {
	for i, c := range toldUnderTruncation {
		rng := rand.New(rand.NewPCG(uint64(i), 8))
		hidden, n := 8, 4+rng.IntN(3)
		w, h := make([]uint16, c.vocab*hidden), make([]uint16, n*hidden)
		for i := range w {
			w[i] = bf16(rng.NormFloat64() * c.spread)
		}
		for i := range h {
			h[i] = bf16(rng.NormFloat64())
		}
		rows := filterRows(rng, c.Truncation, n, c.vocab, c.chain.Temperature)
		if c.chain.Bias == ir.BiasMatrix {
			for range n * c.vocab {
				rows.Bias = append(rows.Bias, float32(rng.NormFloat64()*c.spread))
			}
		}
		if c.chain.IDs {
			rows.BanIDs = [][]int32{{0, 17, 900, 1200}}
		}
		if c.chain.Mask {
			for range n * ((c.vocab + 31) / 32) {
				rows.Mask = append(rows.Mask, rng.Uint32()|rng.Uint32())
			}
		}
		spec := sampler.Spec{Chain: c.chain, Truncation: c.Truncation, LogProb: c.mode, LogSumExp: c.lse, Score: true, MaxBatch: n}
		weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: c.vocab, Hidden: hidden}
		want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
		device := []string{"sim:sm_90", "sim:sm_100"}[i%2]
		t.Run(fmt.Sprint(device, c.Items(), c.mode, c.vocab), func(t *testing.T) {
			got := sampler.SampleOne(t, device, weights, spec, h, rows)
			require.Equal(t, want.Status, got.Status)
			require.Equal(t, want.Tokens, got.Tokens)
			near(t, want.Scores, got.Scores)
			near(t, want.LogProbs, got.LogProbs)
			near(t, want.LogSumExp, got.LogSumExp)
		})
	}
}

// The log-sum-exp and log-probabilities of another distribution are added up side by side: of blocks and of edited logits too. What top-p
// is a share of is added up beside them, so that peaked rows take no second pass for it.
func TestTwoSums(t *testing.T) {
	for i, spec := range []sampler.Spec{
		{Chain: ir.Chain{Temperature: true, Mask: true}, Sampler: ir.Grouped, LogProb: ir.RawLogProb, LogSumExp: true},
		{Chain: ir.Chain{Temperature: true, IDs: true}, LogProb: ir.RawLogProb, LogSumExp: true},
		{Chain: ir.Chain{Bias: ir.BiasMatrix}, Sampler: ir.Greedy, LogProb: ir.TemperatureLogProb, LogSumExp: true},
		{Chain: ir.Chain{Temperature: true}, Truncation: ir.Truncation{TopP: true}, LogProb: ir.RawLogProb},
	} {
		rng := rand.New(rand.NewPCG(uint64(i), 17))
		const vocab, hidden, n = 700, 8, 6
		w, h, rows := make([]uint16, vocab*hidden), make([]uint16, n*hidden), sampler.Rows{}
		for i := range w {
			w[i] = bf16(rng.NormFloat64() * 2)
		}
		for i := range h {
			h[i] = bf16(rng.NormFloat64())
		}
		for b := range n {
			if spec.Sampler.Random() {
				rows.Seeds, rows.Positions = append(rows.Seeds, rng.Uint64()), append(rows.Positions, rng.Uint64())
			}
			if spec.Chain.Temperature {
				rows.Temperature = append(rows.Temperature, []float32{0.7, 0, 1, 1.5}[b%4])
			}
			if spec.Chain.Mask {
				rows.Mask = append(rows.Mask, maskRow(rng, (vocab+31)/32, vocab, []int{vocab, 0, 1, 300}[b%4])...)
			}
			if spec.Truncation.TopP {
				rows.TopP = append(rows.TopP, []float32{0.9, 0.5, 1, 0.8}[b%4])
			}
			if spec.Chain.IDs {
				rows.BanIDs = append(rows.BanIDs, []int32{3, int32(100 + b)})
			}
		}
		for range n * vocab {
			if spec.Chain.Bias == ir.BiasMatrix {
				rows.Bias = append(rows.Bias, float32(rng.NormFloat64()))
			}
		}
		spec.MaxBatch = n
		weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden}
		want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
		for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
			got := sampler.SampleOne(t, device, weights, spec, h, rows)
			require.Equal(t, want.Tokens, got.Tokens)
			sameLogProbs(t, want.LogProbs, got.LogProbs)
			sameLogProbs(t, want.LogSumExp, got.LogSumExp)
			if spec.Truncation.TopP {
				require.Equal(t, int32(1), slices.Max(got.Passes))
			}
		}
	}
}

// Rows of equal logits, more than a list holds, are decided, whatever bound their marks come to: exactly the tokens of the lowest ids
// stay. Greedy ones have no noise to tell them apart, and more tokens at once between two drawn ones than a list takes.
func TestMoreTiesThanAListHolds(t *testing.T) {
	const vocab, hidden = 9002, 8
	for _, c := range []struct {
		ir.Truncation
		mode        ir.LogProb
		temperature float32
		p           float32
		passes      int32
	}{{ir.Truncation{TopK: true}, ir.NoLogProb, 1, 0, 3}, {ir.Truncation{TopP: true}, ir.ProcessedLogProb, 0, 0.5, 8}, {ir.Truncation{TopP: true}, ir.ProcessedLogProb, 1.3, 0.1, 6}} {
		rows := sampler.Rows{Seeds: []uint64{1}, Positions: []uint64{1}, Temperature: []float32{c.temperature}, Bias: make([]float32, vocab)}
		for i := range rows.Bias {
			rows.Bias[i] = 0.3123 // no bound of few bits
		}
		if c.TopK {
			rows.TopK = []int32{50}
		}
		if c.TopP {
			rows.TopP = []float32{c.p}
		}
		spec := sampler.Spec{Chain: ir.Chain{Bias: ir.BiasVector, Temperature: true}, Truncation: c.Truncation, LogProb: c.mode, MaxBatch: 1}
		weights := sampler.Weights{Source: sampler.Matrix{Data: make([]uint16, vocab*hidden), Hidden: hidden}, Vocab: vocab, Hidden: hidden}
		want := sampler.SampleOne(t, "cpu", weights, spec, make([]uint16, hidden), rows)
		got := sampler.SampleOne(t, "sim:sm_90", weights, spec, make([]uint16, hidden), rows)
		require.Equal(t, want.Tokens, got.Tokens)
		require.LessOrEqual(t, got.Passes[0], c.passes)
		near(t, want.LogProbs, got.LogProbs)
	}
}

// Emitted kernels of further passes go on with what those of the first leave undecided, as generated ones do; and are none of them.
func TestArtifactsOfFurtherPasses(t *testing.T) {
	const vocab, hidden, n = 10007, 8, 3 // nine tenths are more than a list holds
	rng := rand.New(rand.NewPCG(1, 2))
	w, h := make([]uint16, vocab*hidden), make([]uint16, n*hidden)
	for i := range w {
		w[i] = bf16(rng.NormFloat64() * 0.1)
	}
	for i := range h {
		h[i] = bf16(rng.NormFloat64())
	}
	rows := sampler.Rows{Seeds: []uint64{1, 2, 3}, Positions: []uint64{4}, TopP: []float32{0.9}}
	weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	spec := sampler.Spec{Truncation: ir.Truncation{TopP: true}, LogProb: ir.ProcessedLogProb, MaxBatch: n}
	r := gen.Request{Arch: arch.SM90, Shape: ir.Shape{Vocab: vocab, Hidden: hidden}, Batch: n, Computation: spec.Computation()}
	emit := func(r gen.Request) *gen.Artifact {
		a, err := gen.Emit(r)
		require.NoError(t, err)
		return a
	}
	first := emit(r)
	r.Options.Further = true
	further := emit(r)
	require.Equal(t, first.Name(), further.Manifest.FurtherOf)
	want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
	spec.Artifact = first
	alone := sampler.SampleOne(t, "sim:sm_90", weights, spec, h, rows)
	require.Contains(t, alone.Status, ir.StatusUndecided)
	spec.Further = further
	got := sampler.SampleOne(t, "sim:sm_90", weights, spec, h, rows)
	require.Equal(t, want.Tokens, got.Tokens)
	near(t, want.LogProbs, got.LogProbs)

	dev, err := sampler.Open("sim:sm_90")
	require.NoError(t, err)
	head, err := dev.LoadHead(t.Context(), weights)
	require.NoError(t, err)

	r.Options.Weights = sampler.Packed
	for _, pair := range [][2]*gen.Artifact{{first, first}, {further, further}, {nil, further}, {first, emit(r)}} {
		spec.Artifact, spec.Further = pair[0], pair[1]
		_, err := head.Plan(t.Context(), spec)
		var bad *sampler.InputError
		require.ErrorAs(t, err, &bad)
	}
}

// Further passes of emitted kernels leave likeliest tokens and lists to the first kernel, which alone has stages for them.
func TestArtifactsOfFurtherPassesThatReport(t *testing.T) {
	spec := sampler.Spec{Truncation: ir.Truncation{TopP: true}, LogProb: ir.ProcessedLogProb, TopN: 3, ListLogProbs: true, LogSumExp: true, MaxBatch: 2}
	const vocab, hidden = 300, 8
	rng := rand.New(rand.NewPCG(3, 4))
	w, h := make([]uint16, vocab*hidden), make([]uint16, 2*hidden)
	for i := range w {
		w[i] = bf16(rng.NormFloat64())
	}
	for i := range h {
		h[i] = bf16(rng.NormFloat64())
	}
	weights := sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden}
	rows := sampler.Rows{Seeds: []uint64{1, 2}, Positions: []uint64{4}, TopP: []float32{0.9}, ListIDs: [][]int32{{1, 299}}}
	want := sampler.SampleOne(t, "cpu", weights, spec, h, rows)
	r := gen.Request{Arch: arch.SM90, Shape: ir.Shape{Vocab: vocab, Hidden: hidden}, Batch: 2, Computation: spec.Computation()}
	var err error
	spec.Artifact, err = gen.Emit(r)
	require.NoError(t, err)
	r.Options.Further = true
	spec.Further, err = gen.Emit(r)
	require.NoError(t, err)
	got := sampler.SampleOne(t, "sim:sm_90", weights, spec, h, rows)
	require.Equal(t, want.Tokens, got.Tokens)
	require.Equal(t, want.TopIDs, got.TopIDs)
	require.Equal(t, len(want.ListLogProbs), len(got.ListLogProbs))
}

// near holds numbers to others within the accuracy of log-probabilities and what float32 makes of logits, and zeros to be such.
func near(t *testing.T, want, got []float32) {
	t.Helper()
	require.Len(t, got, len(want))
	for b, x := range want {
		require.InDelta(t, x, got[b], 1e-5*(1+math.Abs(float64(x))), "row %d: %v for %v", b, got, want)
		require.Equal(t, x == 0, got[b] == 0, "row %d: exactly 0 is all the mass", b)
	}
}
