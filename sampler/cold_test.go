package sampler

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
)

// coldTemperatures are some on both sides of where log2(e)/T is past float32, which is 4.24e-39.
var coldTemperatures = []float32{1e-37, 1e-38, 4.3e-39, 4.1e-39, 1e-39, 1e-40, 1e-44, math.SmallestNonzeroFloat32, 0, 0.5}

// coldHead has the same logits in a row for each cold temperature: token 0 alone has the first, and the others stand one to six steps below.
func coldHead(vocab int, first, step float32) (w Weights, hidden []uint16) {
	const d = 8
	data := make([]uint16, vocab*d)
	for id := range vocab {
		data[id*d] = bf16Bits(first - step*float32(id%7))
		if id > 0 && id%7 == 0 {
			data[id*d] = bf16Bits(first - 2*step)
		}
	}
	hidden = make([]uint16, len(coldTemperatures)*d)
	for b := range coldTemperatures {
		hidden[b*d] = bf16Bits(1)
	}
	return Weights{Source: Matrix{Data: data, Hidden: d}, Vocab: vocab, Hidden: d}, hidden
}

func coldRows() Rows {
	return Rows{Temperature: coldTemperatures, Seeds: []uint64{7}, Positions: []uint64{1}}
}

// coldSums is docs/noise.md's rule in float64: a row's log-sum-exp, and the log-probability of a token.
func coldSums(w Weights, temperature float32, token int32) (lse, logProb float64) {
	t := float64(temperature)
	if t == 0 {
		t = 1
	}
	least, top, sum := max(t, math.Log2E/math.MaxFloat32), math.Inf(-1), 0.0
	logit := func(id int) float64 { return float64(bf16Value(w.Source.(Matrix).Data[id*w.Hidden])) }
	for id := range w.Vocab {
		top = max(top, logit(id))
	}
	for id := range w.Vocab {
		sum += math.Exp((logit(id) - top) / least)
	}
	gap := logit(int(token)) - top
	if gap/least < -64*math.Ln2 {
		least = t
	}
	return top/t + math.Log(sum), gap/least - math.Log(sum)
}

func bf16Value(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// Where log2(e)/T is past float32 every device adds up by the rule of docs/noise.md: logits of one tile, whose first token a kernel's sum
// is relative to.
func TestSumsOfColdRows(t *testing.T) {
	for _, c := range []struct{ first, step float32 }{{1, 0x1p-7}, {1e-37, 1e-38}, {1e-38, 1e-38}, {1e-38, 1e-39}, {-1e-38, 1e-39}, {1e-37, 0.9e-37}} {
		w, hidden := coldHead(40, c.first, c.step)
		for _, s := range []ir.Sampler{ir.Gumbel, ir.Grouped} {
			for _, mode := range []ir.LogProb{ir.RawLogProb, ir.TemperatureLogProb, ir.ProcessedLogProb} {
				spec := Spec{Chain: ir.Chain{Temperature: true}, Sampler: s, LogProb: mode, LogSumExp: true, ListLogProbs: true, MaxBatch: len(coldTemperatures)}
				rows := coldRows()
				rows.ListIDs = [][]int32{{0, 1, 2, 3, 4, 5, 6, 7}}
				for _, name := range []string{CPU, "sim:sm_90", "sim:sm_100"} {
					res := sampleOne(t, name, w, spec, hidden, rows)
					for b, temperature := range coldTemperatures {
						what := fmt.Sprintf("%v by %v, %s, %s, T = %v on %s", c.first, c.step, s, mode, temperature, name)
						lse, _ := coldSums(w, temperature, 0)
						nearSum(t, lse, res.LogSumExp[b], what)
						if mode == ir.RawLogProb {
							temperature = 1
						}
						_, want := coldSums(w, temperature, res.Tokens[b])
						nearSum(t, want, res.LogProbs[b], what)
						for i, id := range rows.ListIDs[0] {
							_, want := coldSums(w, temperature, id)
							nearSum(t, want, res.ListLogProbs[b][i], what)
						}
					}
				}
			}
		}
	}
}

// nearSum compares a number with a float32 of it.
func nearSum(t *testing.T, want float64, got float32, what string) {
	t.Helper()
	if math.Abs(want) > math.MaxFloat32 {
		require.Equal(t, float32(want), got, what)
		return
	}
	require.InDelta(t, want, got, 1e-5*(1+math.Abs(want)), what)
}

// What filters keep is added up in float64, at the temperature itself.
func TestSumsOfColdRowsThatAreNarrowed(t *testing.T) {
	w, hidden := coldHead(40, 1e-38, 1e-39)
	for _, mode := range []ir.LogProb{ir.TemperatureLogProb, ir.ProcessedLogProb} {
		spec := Spec{Chain: ir.Chain{Temperature: true}, Truncation: ir.Truncation{TopK: true}, LogProb: mode, LogSumExp: true, TopN: 4, MaxBatch: len(coldTemperatures)}
		for _, k := range []int32{0, 1, 20, 40} {
			rows := coldRows()
			rows.TopK = []int32{k}
			want := sampleOne(t, CPU, w, spec, hidden, rows)
			got := sampleOne(t, "sim:sm_90", w, spec, hidden, rows)
			require.Equal(t, want.Tokens, got.Tokens)
			require.Equal(t, want.TopIDs, got.TopIDs)
			for b := range coldTemperatures {
				what := fmt.Sprintf("%s, k = %d, T = %v", mode, k, coldTemperatures[b])
				nearSum(t, float64(want.LogProbs[b]), got.LogProbs[b], what)
				nearSum(t, float64(want.LogSumExp[b]), got.LogSumExp[b], what)
			}
			for i, x := range want.TopLogProbs {
				nearSum(t, float64(x), got.TopLogProbs[i], fmt.Sprintf("%s, k = %d, place %d", mode, k, i))
			}
		}
	}
}

// Over several tiles a kernel's sum may be relative to another token than the first, which the bounds allow for.
func TestBoundsOfColdRows(t *testing.T) {
	for _, c := range []struct{ first, step float32 }{{1, 0x1p-7}, {1e-38, 1e-39}, {1e-37, 1e-38}, {1e-37, 0.9e-37}, {2e-36, 2e-37}} {
		w, hidden := coldHead(1300, c.first, c.step)
		last := w.Source.(Matrix).Data[1299*w.Hidden:]
		last[0] = bf16Bits(c.first + c.step)
		for _, mode := range []ir.LogProb{ir.TemperatureLogProb, ir.ProcessedLogProb} {
			spec := Spec{Chain: ir.Chain{Temperature: true}, LogProb: mode, LogSumExp: true, MaxBatch: len(coldTemperatures)}
			req := &reference.Request{Computation: spec.Computation(), Shape: ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden}, Batch: len(coldTemperatures),
				H: hidden, W: w.Source.(Matrix).Data, Seeds: []uint64{7}, Positions: []uint64{1}, Temperature: coldTemperatures}
			want, err := reference.Sample(t.Context(), req)
			require.NoError(t, err)
			sums, logProbs := req.LogSumExpBounds(want), req.LogProbBounds()
			for _, name := range []string{"sim:sm_90", "sim:sm_100"} {
				got := sampleOne(t, name, w, spec, hidden, coldRows())
				require.Equal(t, want.Tokens, got.Tokens)
				for b := range coldTemperatures {
					what := fmt.Sprintf("%v by %v, %s, T = %v on %s", c.first, c.step, mode, coldTemperatures[b], name)
					require.NoError(t, want.ExplainLogSumExp(b, sums[b], got.LogSumExp[b]), what)
					if want.LogProbs[b] != got.LogProbs[b] {
						require.InDelta(t, want.LogProbs[b], got.LogProbs[b], logProbs[b], what)
					}
				}
			}
		}
	}
}
