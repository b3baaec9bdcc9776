package sampler

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/tiling"
)

// Kernels give the reference's log-probabilities in every mode, under every sampler.
func TestLogProbsOnEveryDevice(t *testing.T) {
	for _, s := range []ir.Sampler{ir.Gumbel, ir.Grouped, ir.Greedy} {
		for _, mode := range []ir.LogProb{ir.RawLogProb, ir.TemperatureLogProb, ir.ProcessedLogProb} {
			spec := Spec{Chain: ir.Chain{Temperature: true}, Sampler: s, LogProb: mode, LogSumExp: mode == ir.ProcessedLogProb}
			want := onDevice(t, CPU, RowMajor, spec)
			require.Len(t, want.LogProbs, len(want.Tokens))
			for _, name := range []string{"sim:sm_90", "sim:sm_100"} {
				what := fmt.Sprintf("%s, %s on %s", s, mode, name)
				got := onDevice(t, name, Packed, spec)
				require.Equal(t, want.Tokens, got.Tokens, what)
				require.Len(t, got.LogProbs, len(want.LogProbs), what)
				for b, x := range want.LogProbs {
					require.InDelta(t, x, got.LogProbs[b], 1e-5*(1+math.Abs(float64(x))), what)
				}
				require.Len(t, got.LogSumExp, len(want.LogSumExp))
				for b, x := range want.LogSumExp {
					require.InDelta(t, x, got.LogSumExp[b], 1e-4, what)
				}
			}
		}
	}
}

// Where a row has no token, one, or infinite ones, kernels say what the reference does: NaN, 0, and equal shares.
func TestLogProbsAtTheEnds(t *testing.T) {
	const v, d = 400, 8
	inf := float32(math.Inf(1))
	h := make([]uint16, 6*d) // all logits are 0
	for _, mode := range []ir.LogProb{ir.RawLogProb, ir.ProcessedLogProb} {
		for _, s := range []ir.Sampler{ir.Gumbel, ir.Grouped, ir.Greedy} {
			spec := Spec{Chain: ir.Chain{Bias: ir.BiasMatrix, Mask: true}, Sampler: s, LogProb: mode, MaxBatch: 6}
			rows := Rows{Bias: make([]float32, 6*v), Mask: make([]uint32, 6*13)}
			for i := range rows.Mask {
				rows.Mask[i] = 1 << 5
			}
			copy(rows.Mask[:13], make([]uint32, 13)) // row 0: none
			copy(rows.Mask[13:], make([]uint32, 13)) // row 1: token 399 alone
			rows.Mask[13+12] = 1 << 15
			for _, token := range []int{5, 37, 389} { // row 2: three infinite ones
				rows.Bias[2*v+token] = inf
			}
			rows.Bias[3*v+6] = inf      // row 3: an infinite one that is not allowed
			rows.Bias[4*v+69] = 1000    // row 4: all the mass
			rows.Bias[5*v+5] = -1000000 // row 5: none of it
			if s.Random() {
				rows.Seeds, rows.Positions = []uint64{7}, []uint64{1}
			}
			share := float32(-math.Log(13))
			want := []float32{0, 0, float32(-math.Log(3)), share, 0, float32(-math.Log(12))}
			if mode == ir.RawLogProb {
				for i := range want {
					want[i] = float32(-math.Log(v))
				}
			}
			for _, name := range []string{CPU, "sim:sm_90", "sim:sm_100"} {
				what := fmt.Sprintf("%s, %s on %s", s, mode, name)
				dev, err := Open(name)
				require.NoError(t, err)
				head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, v*d), Hidden: d}, Vocab: v, Hidden: d})
				require.NoError(t, err)
				plan, err := head.Plan(t.Context(), spec)
				require.NoError(t, err)
				res, err := plan.Sample(t.Context(), h, rows)
				require.NoError(t, err, what)
				require.Equal(t, ir.StatusEmpty, res.Status[0])
				require.True(t, math.IsNaN(float64(res.LogProbs[0])), what)
				require.EqualValues(t, 399, res.Tokens[1])
				for b := 1; b < 6; b++ {
					require.InDelta(t, want[b], res.LogProbs[b], 2e-6, "row %d, %s", b, what)
					require.Equal(t, want[b] == 0, res.LogProbs[b] == 0, "row %d, %s: exactly 0 is p = 1", b, what)
				}
			}
		}
	}
}

// The NaN of a token that is not allowed counts as -inf in the model's own distribution, of every device: of logits 1, NaN and 0 token 0
// has log(e/(e+1)).
func TestNaNOfATokenNotAllowed(t *testing.T) {
	w := Weights{Source: Matrix{Data: []uint16{bf16Bits(1), 0x7fc0, 0}, Hidden: 1}, Vocab: 3, Hidden: 1}
	tile, err := tiling.ParseTile("m192n64k64s4c1p") // adds tiles up in straight code
	require.NoError(t, err)
	masked, listed := Rows{Mask: []uint32{1<<0 | 1<<2}}, Rows{BanIDs: [][]int32{{1}}}
	for _, c := range []struct {
		spec Spec
		rows Rows
	}{
		{Spec{Chain: ir.Chain{Mask: true}, Sampler: ir.Greedy, LogProb: ir.RawLogProb, TopN: 3, ListLogProbs: true}, masked},
		{Spec{Chain: ir.Chain{Mask: true}, Sampler: ir.Greedy, LogProb: ir.RawLogProb, Tile: tile}, masked},
		{Spec{Chain: ir.Chain{IDs: true}, Sampler: ir.Greedy, LogProb: ir.TemperatureLogProb, LogSumExp: true, ListLogProbs: true}, listed},
	} {
		for _, name := range []string{CPU, "sim:sm_90", "sim:sm_100"} {
			if c.spec.Tile.M == 192 && name != "sim:sm_90" {
				continue
			}
			if c.spec.ListLogProbs {
				c.rows.ListIDs = [][]int32{{0, 1, 2}}
			}
			res := sampleOne(t, name, w, c.spec, []uint16{bf16Bits(1)}, c.rows)
			require.Equal(t, []ir.Status{ir.StatusOK}, res.Status)
			require.InDelta(t, -0.3132617, res.LogProbs[0], 1e-6, "%s, %s", c.spec.Chain, name)
			if c.spec.ListLogProbs {
				require.Equal(t, res.LogProbs[0], res.ListLogProbs[0][0])
				require.Equal(t, float32(math.Inf(-1)), res.ListLogProbs[0][1])
				require.InDelta(t, -1.3132617, res.ListLogProbs[0][2], 1e-6)
			}
			if c.spec.TopN > 0 {
				require.Equal(t, []int32{0, 2, ir.NoToken}, res.TopIDs)
			}
			if c.spec.LogSumExp {
				require.InDelta(t, 1.3132617, res.LogSumExp[0], 1e-6)
			}
		}
	}
}

// sampleOne samples in a plan of its own.
func sampleOne(t *testing.T, device string, w Weights, spec Spec, hidden []uint16, rows Rows) *Result {
	t.Helper()
	dev, err := Open(device)
	require.NoError(t, err)
	head, err := dev.LoadHead(t.Context(), w)
	require.NoError(t, err)
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	res, err := plan.Sample(t.Context(), hidden, rows)
	require.NoError(t, err)
	return res
}

// Sums of logits that rise by thousands from tile to tile, so that references are raised again and again, of a row beside others whose
// logits are moderate, none or infinite: what becomes of one row is its own affair.
func TestSumsOfSteepLogits(t *testing.T) {
	const v, d = 1300, 8
	w, inf := make([]uint16, v*d), uint16(0x7F80)
	for id := range v {
		w[id*d] = bf16Bits(float32(id*id) / 300)      // column 0: up to 5,600
		w[id*d+1] = bf16Bits(float32(id%17) / 4)      // column 1: moderate
		w[id*d+2] = bf16Bits(-float32(id) * 3)        // column 2: falling
		w[id*d+3] = bf16Bits(float32((id*37)%v) * 10) // column 3: all over the place
	}
	w[700*d+4] = inf
	states := make([]uint16, 5*d)
	for row := range 5 {
		states[row*d+row] = bf16Bits(1)
	}
	for _, name := range []string{"m128n16k64s8c1p", "m192n32k64s4c1p", "m192n48k64s4c1p", "m192n64k64s4c1p", "m128n96k64s4c1p"} {
		tile, err := tiling.ParseTile(name)
		require.NoError(t, err)
		for _, chain := range []ir.Chain{{}, {Temperature: true}} {
			spec := Spec{Chain: chain, LogProb: ir.ProcessedLogProb, LogSumExp: true, MaxBatch: 5}
			sample := func(device string, rows int, tile tiling.Tile) *Result {
				dev, err := Open(device)
				require.NoError(t, err)
				head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: d}, Vocab: v, Hidden: d})
				require.NoError(t, err)
				spec.Tile = tile
				plan, err := head.Plan(t.Context(), spec)
				require.NoError(t, err)
				r := Rows{Seeds: []uint64{7}, Positions: []uint64{1}}
				if chain.Temperature {
					r.Temperature = []float32{0.7}
				}
				res, err := plan.Sample(t.Context(), states[:rows*d], r)
				require.NoError(t, err)
				return res
			}
			want, got := sample(CPU, 5, tiling.Tile{}), sample("sim:sm_90", 5, tile)
			require.Equal(t, want.Tokens, got.Tokens, name)
			for row := range 5 {
				what := fmt.Sprintf("%s, %v, row %d", name, chain, row)
				nearLogProb(t, want.LogProbs[row], got.LogProbs[row], 1e-5, "%s", what)
				if x := float64(want.LogSumExp[row]); math.IsInf(x, 0) || math.IsNaN(x) {
					require.Equal(t, fmt.Sprint(x), fmt.Sprint(got.LogSumExp[row]), what)
				} else {
					require.InDelta(t, x, got.LogSumExp[row], 1e-6*(10+math.Abs(x)), what)
				}
			}
			alone := sample("sim:sm_90", 1, tile)
			require.Equal(t, math.Float32bits(alone.LogSumExp[0]), math.Float32bits(got.LogSumExp[0]), name)
		}
	}
}

// An emitted kernel must give the log-probabilities of the mode that is asked for.
func TestArtifactsFitTheMode(t *testing.T) {
	a, err := gen.Emit(gen.Request{Arch: arch.SM90, Computation: ir.Computation{LogProb: ir.RawLogProb, Chain: ir.Chain{Temperature: true}},
		Shape: ir.Shape{Vocab: 900, Hidden: 72}, Batch: 21})
	require.NoError(t, err)
	require.True(t, a.Writes("logprob"))
	require.Equal(t, "raw", a.Manifest.LogProbMode)
	spec := Spec{Artifact: a, LogProb: ir.ProcessedLogProb, Chain: ir.Chain{Temperature: true}}
	require.ErrorContains(t, spec.validate(), "the plan wants processed log-probabilities")
	spec.LogProb = ir.RawLogProb
	res := onDevice(t, "sim:sm_90", RowMajor, spec)
	spec.LogProb = ir.NoLogProb
	require.Nil(t, onDevice(t, "sim:sm_90", RowMajor, spec).LogProbs)
	spec.LogProb, spec.Artifact = ir.RawLogProb, nil
	require.Equal(t, onDevice(t, "sim:sm_90", RowMajor, spec).LogProbs, res.LogProbs)
}

// Large logits over a temperature above 1 round as scores: the bound's |z|/T is taken, and holds.
func TestLogProbsOfLargeLogits(t *testing.T) {
	const v, d = 600, 8
	w, hidden := make([]uint16, v*d), make([]uint16, d)
	for id := range v {
		w[id*d] = bf16Bits(float32(20000 + 128*(id%7)))
	}
	hidden[0] = bf16Bits(1)
	most := 0.0
	for _, temperature := range []float32{37, 111, 333, 900} {
		for _, mode := range []ir.LogProb{ir.RawLogProb, ir.TemperatureLogProb, ir.ProcessedLogProb} {
			spec := Spec{Chain: ir.Chain{Temperature: true}, LogProb: mode, ListLogProbs: true}
			rows := Rows{Temperature: []float32{temperature}, Seeds: []uint64{7}, Positions: []uint64{1}, ListIDs: [][]int32{{0, 1, 2, 3, 4, 5, 6}}}
			req := &reference.Request{Computation: spec.Computation(), Shape: ir.Shape{Vocab: v, Hidden: d}, Batch: 1, H: hidden, W: w,
				Seeds: rows.Seeds, Positions: rows.Positions, Temperature: rows.Temperature, ListIDs: rows.ListIDs}
			want, err := reference.Sample(t.Context(), req)
			require.NoError(t, err)
			bound := req.LogProbBounds()[0]
			for _, name := range []string{"sim:sm_90", "sim:sm_100"} {
				got := sampleOne(t, name, Weights{Source: Matrix{Data: w, Hidden: d}, Vocab: v, Hidden: d}, spec, hidden, rows)
				require.InDelta(t, want.LogProbs[0], got.LogProbs[0], bound)
				for i, x := range want.Listed[0] {
					off := math.Abs(float64(x) - float64(got.ListLogProbs[0][i]))
					require.LessOrEqual(t, off, bound+0x1p-12)
					if x < -0x1p-6 { // what is listed near 0 is 0
						require.LessOrEqual(t, off, bound)
						most = max(most, off/(0x1p-18-0x1p-21*float64(x)))
					}
				}
			}
		}
	}
	require.Greater(t, most, 1.0, "2^-18 + 2^-21 |log p| would not do")
}
