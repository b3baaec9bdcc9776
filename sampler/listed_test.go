package sampler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// listedProblem is rows of every kind with lists of every kind: of masked tokens, at borders, twice the same, of none.
type listedProblem struct {
	vocab, hidden, rows int
	weights, states     []uint16
	params              Rows
	spec                Spec
}

func newListedProblem(seed uint64, vocab, hidden, rows int, spec Spec) *listedProblem {
	rng := rand.New(rand.NewPCG(seed, 11))
	p := &listedProblem{vocab: vocab, hidden: hidden, rows: rows, weights: normals(rng, vocab*hidden, 4/math.Sqrt(float64(hidden))), states: normals(rng, rows*hidden, 1), spec: spec}
	p.spec.ListLogProbs, p.spec.MaxBatch = true, rows
	r, words := &p.params, (vocab+31)/32
	if spec.Sampler.Random() {
		r.Positions = []uint64{3}
	}
	for b := range rows {
		if spec.Sampler.Random() {
			r.Seeds = append(r.Seeds, rng.Uint64())
		}
		if spec.Chain.Temperature {
			r.Temperature = append(r.Temperature, []float32{0, 0.4, 1, 2.5}[b%4])
		}
		if spec.Chain.Mask {
			for range words {
				r.Mask = append(r.Mask, rng.Uint32()|rng.Uint32())
			}
		}
		r.ListIDs = append(r.ListIDs, listOf(rng, b, vocab))
	}
	if spec.Chain.Bias == ir.BiasMatrix {
		for range rows * vocab {
			r.Bias = append(r.Bias, float32(rng.NormFloat64()))
		}
		inf := float32(math.Inf(1)) // row 4: two or three infinite tokens, and some of none
		r.Bias[4*vocab+7], r.Bias[4*vocab+15], r.Bias[4*vocab+vocab-1], r.Bias[4*vocab+3], r.Bias[4*vocab+100] = inf, inf, inf, -inf, -inf
	}
	if spec.Chain.Mask { // row 1: one token alone, row 2: none
		clear(r.Mask[words : 3*words])
		r.Mask[words+2] = 1 << 3
	}
	p.states[3*hidden+1] = 0x7FC0 // row 3: NaN
	return p
}

func listOf(rng *rand.Rand, b, vocab int) []int32 {
	switch b % 5 {
	case 0:
		return nil
	case 1:
		return []int32{0, int32(vocab - 1), 67, 67, 31, 32}
	}
	var ids []int32
	for range 1 + rng.IntN(23) {
		ids = append(ids, int32(rng.IntN(vocab)))
	}
	return ids
}

func (p *listedProblem) on(t *testing.T, device string, layout Layout) *Result {
	t.Helper()
	dev, err := Open(device)
	require.NoError(t, err)
	head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: p.weights, Hidden: p.hidden}, Vocab: p.vocab, Hidden: p.hidden, Layout: layout})
	require.NoError(t, err)
	plan, err := head.Plan(t.Context(), p.spec)
	require.NoError(t, err)
	res, err := plan.Sample(t.Context(), p.states, p.params)
	require.NoError(t, err)
	return res
}

// nearLogProb holds a log-probability to another: infinite and NaN alike, else near it.
func nearLogProb(t *testing.T, want, got float32, delta float64, what string, args ...any) {
	t.Helper()
	what = fmt.Sprintf(what, args...)
	if math.IsNaN(float64(want)) || math.IsInf(float64(want), 0) {
		require.Equal(t, math.IsNaN(float64(want)), math.IsNaN(float64(got)), what)
		require.Equal(t, math.IsInf(float64(want), -1), math.IsInf(float64(got), -1), what)
		return
	}
	require.InDelta(t, want, got, delta*(1+math.Abs(float64(want))), what)
	require.LessOrEqual(t, got, float32(0), what)
}

// Kernels give the reference's log-probabilities of every list, in every mode, from both layouts of the weights, whatever the hidden
// size is.
func TestListedLogProbsOnSimulators(t *testing.T) {
	all := ir.Chain{Scale: 1.5, Softcap: 20, Bias: ir.BiasMatrix, Mask: true, Temperature: true}
	for i, c := range []struct {
		chain  ir.Chain
		kind   ir.Sampler
		mode   ir.LogProb
		hidden int
	}{
		{all, ir.Gumbel, ir.ProcessedLogProb, 72}, {all, ir.Gumbel, ir.RawLogProb, 40}, {all, ir.Grouped, ir.TemperatureLogProb, 8},
		{ir.Chain{Temperature: true}, ir.Gumbel, ir.ProcessedLogProb, 300}, {ir.Chain{Mask: true}, ir.Greedy, ir.ProcessedLogProb, 77},
		{ir.Chain{}, ir.Greedy, ir.RawLogProb, 1031},
	} {
		p := newListedProblem(uint64(i), 500+i, c.hidden, 7, Spec{Chain: c.chain, Sampler: c.kind, LogProb: c.mode})
		want := p.on(t, CPU, RowMajor)
		for j, device := range []string{"sim:sm_90", "sim:sm_100"} {
			got := p.on(t, device, []Layout{RowMajor, Packed}[(i+j)%2])
			require.Equal(t, want.Tokens, got.Tokens)
			require.Len(t, got.ListLogProbs, p.rows)
			for b, list := range want.ListLogProbs {
				require.Len(t, got.ListLogProbs[b], len(list))
				for k, x := range list {
					nearLogProb(t, x, got.ListLogProbs[b][k], 1e-5, "%v %s on %s: row %d, id %d", c.chain, c.mode, device, b, p.params.ListIDs[b][k])
				}
			}
		}
	}
}

// The token that was sampled has its own log-probability to the last bit; one that has all the mass has 0, sampled or not; one list
// may serve all rows, and a list of nothing asks for nothing.
func TestListedLogProbsOfTheToken(t *testing.T) {
	p := newListedProblem(3, 300, 200, 6, Spec{Chain: ir.Chain{Temperature: true, Mask: true}, LogProb: ir.RawLogProb})
	for i := range p.hidden { // token 9 has all the mass of row 0, which may not draw it
		p.weights[9*p.hidden+i] = p.states[i]
	}
	p.params.Mask[0] &^= 1 << 9
	for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
		p.params.ListIDs = [][]int32{{9}}
		first := p.on(t, device, Packed)
		require.Zero(t, first.ListLogProbs[0][0])
		require.NotEqual(t, int32(9), first.Tokens[0])
		p.params.ListIDs = nil
		for _, token := range first.Tokens {
			p.params.ListIDs = append(p.params.ListIDs, []int32{9, max(token, 0)})
		}
		got := p.on(t, device, RowMajor)
		for b, x := range got.LogProbs {
			require.Equal(t, math.Float32bits(x), math.Float32bits(got.ListLogProbs[b][1]), "row %d", b)
		}
		p.params.ListIDs = [][]int32{{}}
		for _, list := range p.on(t, device, RowMajor).ListLogProbs {
			require.Empty(t, list)
		}
	}
}
