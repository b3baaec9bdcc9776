package sampler

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

// sameTops holds the likeliest tokens to others: the same ids, and log-probabilities near theirs.
func sameTops(t *testing.T, want, got *Result, delta float64, what string) {
	t.Helper()
	require.Equal(t, want.Tokens, got.Tokens, what)
	require.Equal(t, want.Status, got.Status, what)
	require.Equal(t, want.TopIDs, got.TopIDs, what)
	require.Equal(t, want.Ranks, got.Ranks, what)
	require.Len(t, got.TopLogProbs, len(want.TopLogProbs), what)
	for i, x := range want.TopLogProbs {
		nearLogProb(t, x, got.TopLogProbs[i], delta, "%s: place %d", what, i)
		if row := i / (len(got.TopIDs) / len(got.Tokens)); got.TopIDs[i] == got.Tokens[row] && got.Status[row] == ir.StatusOK {
			require.Equal(t, math.Float32bits(got.LogProbs[row]), math.Float32bits(got.TopLogProbs[i]), "%s: row %d, to the last bit", what, row)
		}
	}
}

// Kernels find the reference's likeliest tokens and the tokens' ranks, in every mode, beside the tokens that they sample.
func TestTopsOnSimulators(t *testing.T) {
	all := ir.Chain{Scale: 1.5, Softcap: 20, Bias: ir.BiasMatrix, Mask: true, Temperature: true}
	for i, c := range []struct {
		chain ir.Chain
		kind  ir.Sampler
		mode  ir.LogProb
		n     int
		rows  int
		vocab int
	}{
		{all, ir.Gumbel, ir.ProcessedLogProb, 20, 7, 1500}, {all, ir.Gumbel, ir.RawLogProb, 5, 9, 1501}, {all, ir.Greedy, ir.TemperatureLogProb, 20, 33, 802},
		{ir.Chain{Temperature: true}, ir.Gumbel, ir.ProcessedLogProb, 20, 70, 603}, {ir.Chain{Mask: true}, ir.Greedy, ir.ProcessedLogProb, 1, 5, 1504},
		{ir.Chain{}, ir.Gumbel, ir.RawLogProb, 20, 4, 1505},
	} {
		p := newListedProblem(uint64(i), c.vocab, 40, c.rows, Spec{Chain: c.chain, Sampler: c.kind, LogProb: c.mode, TopN: c.n, Rank: true, Slots: i == 3 || i == 0})
		if p.spec.Slots {
			p.params.SlotCount = c.rows
			for b := range c.rows {
				p.params.Slots = append(p.params.Slots, int32((7*b+1)%c.rows))
			}
		}
		if i == 1 {
			p.spec.TopN = 0
		}
		want := p.on(t, CPU, RowMajor)
		for j, device := range []string{"sim:sm_90", "sim:sm_100"} {
			got := p.on(t, device, []Layout{RowMajor, Packed}[(i+j)%2])
			sameTops(t, want, got, 1e-5, fmt.Sprintf("%v %s on %s", c.chain, c.mode, device))
		}
	}
}

// Ranks of equal logits are those of ids. One hidden state, weights that make the logits what they are, and what overflows a list: equal logits, of which ids alone tell the
// likeliest, and logits that rise from tile to tile, so that no bound ever holds.
func TestTopsThatOverflow(t *testing.T) {
	const hidden, n = 8, 20
	logit := map[string]func(v int) float64{
		"equal":  func(int) float64 { return 0.3 },
		"rising": func(v int) float64 { return float64(v) / 128 },
	}
	for name, of := range logit {
		vocab := map[string]int{"equal": 9000, "rising": 20000}[name]
		w, h := make([]uint16, vocab*hidden), make([]uint16, hidden)
		h[0], h[1] = bf16Bits(1), bf16Bits(1)
		for v := range vocab {
			x := float32(of(v))
			high := bf16Bits(x)
			w[v*hidden], w[v*hidden+1] = high, bf16Bits(x-math.Float32frombits(uint32(high)<<16))
		}
		p := &listedProblem{vocab: vocab, hidden: hidden, rows: 1, weights: w, states: h,
			spec: Spec{LogProb: ir.RawLogProb, TopN: n, Rank: true, MaxBatch: 1}, params: Rows{Seeds: []uint64{4}, Positions: []uint64{2}}}
		want := p.on(t, CPU, RowMajor)
		for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
			got := p.on(t, device, RowMajor)
			sameTops(t, want, got, 1e-5, name+" on "+device)
			require.Equal(t, name == "rising", got.Passes[0] > 2, "and one that counts")
		}
	}
}

// A row that is decided stays so in the passes that others of its batch need: on a GPU rows come to their bounds in one pass and not in
// another, and took turns in being undecided.
func TestTopsStayDecided(t *testing.T) {
	const hidden, vocab = 8, 40000
	w, h := make([]uint16, vocab*hidden), make([]uint16, hidden)
	h[0] = bf16Bits(1)
	for v := range vocab {
		w[v*hidden] = bf16Bits(float32(v) / 128)
	}
	rows := Rows{Seeds: []uint64{4}, Positions: []uint64{2}}
	for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
		dev, err := Open(device)
		require.NoError(t, err)
		head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden})
		require.NoError(t, err)
		plan, err := head.Plan(t.Context(), Spec{LogProb: ir.RawLogProb, TopN: 20, MaxBatch: 1})
		require.NoError(t, err)
		p := plan.b.(*simPlan)
		b, err := newBatch(p.spec, head.Shape(), h, rows)
		require.NoError(t, err)
		mem := newSimMemory(p, b)
		mem.launch.CTAs = simCTAs
		mem.launch.Pointers[templates.ParamPartials] = mem.memory.Alloc("partial sums", p.buckets[0].Artifact.Manifest.PartialsBytes(1, simCTAs)).Addr
		passes, err := p.listTops(t.Context(), 0, mem, b)
		require.NoError(t, err)
		require.Greater(t, passes, 1, "the first pass leaves the row open")
		ids := mem.ints(mem.topIDs, 20)
		mem.launch.CTAs, mem.launch.Scalars[templates.ParamTopPass] = simCTAs, uint32(passes)
		require.NoError(t, mem.run(t.Context(), p.programs[0]))
		mem.launch.CTAs = 1
		require.NoError(t, mem.run(t.Context(), p.stages[0][manifest.TopStage]))
		require.Equal(t, ids, mem.ints(mem.topIDs, 20), device)
		require.NotContains(t, ids, int32(ir.UndecidedToken))
		require.NoError(t, plan.Close())
	}
}

func bf16Bits(x float32) uint16 { return uint16(math.Float32bits(x) >> 16) }

// What single logits are changed to counts for the likeliest tokens of what is drawn from.
func TestTopsOfEditedLogits(t *testing.T) {
	p := newListedProblem(9, 900, 24, 5, Spec{Chain: ir.Chain{Bias: ir.BiasSparse, IDs: true, Temperature: true}, LogProb: ir.ProcessedLogProb, TopN: 6})
	p.spec.ListLogProbs, p.params.ListIDs = false, nil
	first := p.on(t, CPU, RowMajor)
	p.params.BanIDs = [][]int32{nil, first.TopIDs[6:8], nil, {5}, {1, 899}}
	p.params.AllowIDs = [][]int32{nil, nil, {1, 2, 3}, nil, nil}
	p.params.BiasLists = [][]ir.TokenBias{{{ID: 7, Value: 50}, {ID: 600, Value: 60}}, nil, {{ID: 2, Value: -9}}, nil, {{ID: 899, Value: 99}}}
	want := p.on(t, CPU, RowMajor)
	for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
		sameTops(t, want, p.on(t, device, Packed), 1e-5, device)
	}
}

// A kernel that finds likeliest tokens leaves them somewhere: a plan that has no place for them is refused.
func TestTopsThatNobodyAskedFor(t *testing.T) {
	k, err := gen.Emit(gen.Request{Arch: arch.SM90, Computation: ir.Computation{LogProb: ir.RawLogProb, TopN: 3}, Shape: ir.Shape{Vocab: 900, Hidden: 72}, Batch: 4})
	require.NoError(t, err)
	for _, n := range []int{0, 2} {
		err := (&Spec{Artifact: k, LogProb: ir.RawLogProb, TopN: n}).validate()
		require.ErrorContains(t, err, fmt.Sprintf("the plan wants the %d likeliest tokens, and the kernel finds 3", n))
	}
	require.NoError(t, (&Spec{Artifact: k, LogProb: ir.RawLogProb, TopN: 3}).validate())
}
