//go:build !fsgen_nocuda

package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// filterValues are what random rows are given.
var (
	topKs = []int32{-1, 0, 1, 2, 7, 50, 200, 1000}
	topPs = []float32{0, 1e-30, 0.1, 0.5, 0.9, 0.95, 0.9999999, 1}
	minPs = []float32{0, 1e-30, 0.01, 0.1, 0.5, 1}
	warm  = []float32{0, 0.3, 0.7, 1, 1.3, 2}
)

// Rows of every filter on a vocabulary of full size, at spreads of logits from flat to peaked: what the GPU decides is the
// reference's, and the test tells how many passes it took.
func TestGPUTruncation(t *testing.T) {
	dev := gpu(t)
	rng := rand.New(rand.NewPCG(11, 12))
	const vocab, hidden = 151936, 64
	for _, layout := range []Layout{Packed, RowMajor} {
		for _, spread := range []float64{0.2, 1, 2.5, 6} {
			w := normals(rng, vocab*hidden, spread/math.Sqrt(hidden))
			source := Matrix{Data: w, Hidden: hidden}
			for _, tr := range []ir.Truncation{{TopK: true, TopP: true}, {TopK: true}, {TopP: true}, {MinP: true}, {TopK: true, TopP: true, MinP: true, TemperatureLast: true}} {
				n := []int{3, 16, 40, 64, 130}[rng.IntN(5)]
				rows := narrowedRows(rng, tr, n)
				spec := Spec{Chain: ir.Chain{Temperature: true}, Truncation: tr, Score: true, MaxBatch: n}
				h := normals(rng, n*hidden, 1)
				got := sampleFiltered(t, dev, source, vocab, hidden, layout, spec, h, rows)
				cpu, err := Open(CPU)
				require.NoError(t, err)
				want := sampleFiltered(t, cpu, source, vocab, hidden, RowMajor, spec, h, rows)
				require.NoError(t, cpu.Close())
				require.Equal(t, want.Status, got.Status)
				require.Equal(t, want.Tokens, got.Tokens)
				passes := slices.Clone(got.Passes)
				slices.Sort(passes)
				t.Logf("%-8s spread %3.1f %v: %d rows, passes: median %d, 90%% %d, most %d", layout, spread, tr.Items(), n, passes[n/2], passes[n*9/10], passes[n-1])
			}
		}
	}
}

// narrowedRows are rows of every temperature and every filter.
func narrowedRows(rng *rand.Rand, t ir.Truncation, n int) (rows Rows) {
	for range n {
		rows.Seeds, rows.Positions = append(rows.Seeds, rng.Uint64()), append(rows.Positions, rng.Uint64())
		rows.Temperature = append(rows.Temperature, warm[rng.IntN(len(warm))])
		if t.TopK {
			rows.TopK = append(rows.TopK, topKs[rng.IntN(len(topKs))])
		}
		if t.TopP {
			rows.TopP = append(rows.TopP, topPs[rng.IntN(len(topPs))])
		}
		if t.MinP {
			rows.MinP = append(rows.MinP, minPs[rng.IntN(len(minPs))])
		}
	}
	return rows
}

func sampleFiltered(t *testing.T, dev *Device, source RowReader, vocab, hidden int, layout Layout, spec Spec, h []uint16, rows Rows) *Result {
	t.Helper()
	head, err := dev.LoadHead(t.Context(), Weights{Source: source, Vocab: vocab, Hidden: hidden, Layout: layout})
	require.NoError(t, err)
	defer head.Close()
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	defer plan.Close()
	var first *Result
	for range 3 { // what a launch leaves behind, the next one begins with
		res, err := plan.Sample(t.Context(), h, rows)
		require.NoError(t, err)
		if first != nil {
			require.Equal(t, first.Tokens, res.Tokens, "the same launch gives the same; passes %v, then %v", first.Passes, res.Passes)
		}
		first = res
	}
	return first
}

// What is told of rows that filters narrow is the reference's, whichever pass decides them: in every mode, at
// spreads of logits from flat rows, whose cut is among thousands of tokens, to peaked ones.
func TestGPULogProbsUnderTruncation(t *testing.T) {
	dev := gpu(t)
	cpu, err := Open(CPU)
	require.NoError(t, err)
	defer cpu.Close()
	const vocab, hidden, n = 151936, 64, 24
	rng := rand.New(rand.NewPCG(15, 16))
	for _, spread := range []float64{0.2, 1, 2.5, 6} {
		source := Matrix{Data: normals(rng, vocab*hidden, spread/math.Sqrt(hidden)), Hidden: hidden}
		h := normals(rng, n*hidden, 1)
		for _, spec := range []Spec{
			{Truncation: ir.Truncation{TopK: true, TopP: true}, LogProb: ir.ProcessedLogProb, LogSumExp: true},
			{Truncation: ir.Truncation{TopP: true, MinP: true, TemperatureLast: true}, LogProb: ir.ProcessedLogProb},
			{Truncation: ir.Truncation{TopK: true, MinP: true}, LogProb: ir.RawLogProb},
			{Truncation: ir.Truncation{TopP: true}, LogProb: ir.TemperatureLogProb, LogSumExp: true},
			{Truncation: ir.Truncation{TopK: true, TopP: true}, LogProb: ir.RawLogProb, LogSumExp: true}, // of two distributions
			{Truncation: ir.Truncation{TopP: true, MinP: true, TemperatureLast: true}, LogProb: ir.ProcessedLogProb, LogSumExp: true},
		} {
			rows := narrowedRows(rng, spec.Truncation, n)
			spec.Chain.Temperature, spec.MaxBatch = true, n
			got := sampleFiltered(t, dev, source, vocab, hidden, Packed, spec, h, rows)
			want := sampleFiltered(t, cpu, source, vocab, hidden, RowMajor, spec, h, rows)
			require.Equal(t, want.Status, got.Status)
			require.Equal(t, want.Tokens, got.Tokens)
			for i, x := range want.LogProbs {
				require.InDelta(t, x, got.LogProbs[i], 1e-4*(1+math.Abs(float64(x))), "row %d in %d passes", i, got.Passes[i])
				require.LessOrEqual(t, got.LogProbs[i], float32(0))
			}
			for i, x := range want.LogSumExp {
				require.InDelta(t, x, got.LogSumExp[i], 1e-4*(1+math.Abs(float64(x))), "row %d in %d passes", i, got.Passes[i])
			}
			t.Logf("%s of %s, spread %g: passes at most %d", spec.LogProb, spec.Truncation, spread, slices.Max(got.Passes))
		}
	}
}

// Rows whose lists overflow: flat ones of a large k, and logits of which thousands are equal. Which CTA lists when is different in every
// launch, and the tokens are not.
func TestGPUTruncationOfFlatRows(t *testing.T) {
	dev := gpu(t)
	cpu, err := Open(CPU)
	require.NoError(t, err)
	defer cpu.Close()
	const vocab, hidden, n = 151936, 64, 32
	rng := rand.New(rand.NewPCG(13, 14))
	for _, flat := range []struct {
		values int // that a weight may have; 0 for any
		spread float64
	}{{0, 0.05}, {0, 1}, {2, 0.3}, {1, 0.3}} {
		w := normals(rng, vocab*hidden, flat.spread/math.Sqrt(hidden))
		for i := range w {
			switch flat.values {
			case 1:
				w[i] = w[i%hidden]
			case 2: // tokens of 64 kinds
				w[i] = w[i%(64*hidden)]
			}
		}
		var rows Rows
		for i := range n {
			rows.Seeds, rows.Positions = append(rows.Seeds, rng.Uint64()), append(rows.Positions, rng.Uint64())
			rows.Temperature = append(rows.Temperature, warm[1+rng.IntN(len(warm)-1)])
			rows.TopK = append(rows.TopK, []int32{50, 192, 193, 300, 700, 1000, 1023, 1024}[i%8])
			rows.TopP = append(rows.TopP, topPs[rng.IntN(len(topPs))])
		}
		h := normals(rng, n*hidden, 1)
		spec := Spec{Chain: ir.Chain{Temperature: true}, Truncation: ir.Truncation{TopK: true, TopP: true}, Score: true, MaxBatch: n}
		source := Matrix{Data: w, Hidden: hidden}
		want := sampleFiltered(t, cpu, source, vocab, hidden, RowMajor, spec, h, rows)
		head, err := dev.LoadHead(t.Context(), Weights{Source: source, Vocab: vocab, Hidden: hidden, Layout: Packed})
		require.NoError(t, err)
		plan, err := head.Plan(t.Context(), spec)
		require.NoError(t, err)
		most := int32(0)
		for range 20 {
			got, err := plan.Sample(t.Context(), h, rows)
			require.NoError(t, err)
			for i := range n {
				require.Equal(t, want.Tokens[i], got.Tokens[i], "row %d: k %d, p %g, T %g, status %v, passes %d, scores %v %v", i, rows.TopK[i], rows.TopP[i],
					rows.Temperature[i], got.Status[i], got.Passes[i], want.Scores[i], got.Scores[i])
			}
			most = max(most, slices.Max(got.Passes))
		}
		t.Logf("%d values, spread %g: passes at most %d", flat.values, flat.spread, most)
		require.NoError(t, plan.Close())
		require.NoError(t, head.Close())
	}
}
