package reference

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// zOf are a row's logits before the temperature.
func zOf(r *Request, b int) (z []float32) {
	w := r.row(b)
	for v, y := range r.logits(b) {
		z = append(z, w.transform(y, v))
	}
	return z
}

func penalizing(r *Request, chain string, repetition, frequency, presence float32) *Request {
	r.Computation.Chain.Penalties = true
	if c, err := ir.ParseChain(chain); err == nil {
		r.Computation.Chain = c
	}
	r.Repetition, r.Frequency, r.Presence = []float32{repetition}, []float32{frequency}, []float32{presence}
	return r
}

// Case D14.
func TestPenalties(t *testing.T) {
	logits := []float32{2, -2, 0, negInf, 7, 7}
	want := []float64{2/1.5 - .5 - .3, -3 - .5 - .3, -.8, math.Inf(-1), 7 / 1.5, 7}
	counts := []uint32{3, 3 | ir.CountPrompt, 3, 3, ir.CountPrompt, 0}
	dense := penalizing(flat(1, logits), "penalties", 1.5, .1, .5)
	dense.Counts = counts
	sparse := penalizing(flat(1, logits), "penalties", 1.5, .1, .5)
	sparse.CountLists = [][]ir.TokenCount{nil}
	for v, n := range counts[:5] {
		sparse.CountLists[0] = append(sparse.CountLists[0], ir.TokenCount{ID: int32(v), Count: n})
	}
	for _, r := range []*Request{dense, sparse} {
		require.NoError(t, r.Validate())
		got := zOf(r, 0)
		for v := range want {
			if math.IsInf(want[v], 0) {
				require.Equal(t, negInf, got[v])
				continue
			}
			require.InDelta(t, want[v], got[v], 1e-6)
		}
	}
	require.Equal(t, zOf(dense, 0), zOf(sparse, 0))
	off := penalizing(flat(1, logits), "penalties", 1, 0, 0)
	off.Counts = counts
	require.Equal(t, logits, zOf(off, 0), "penalties that are off")
	require.EqualValues(t, 5, sample(t, withTemperature(dense, 0)).Tokens[0], "the other 7 has been there")
}

// The bias comes before the penalties, or after them.
func TestBiasAndPenalties(t *testing.T) {
	for chain, want := range map[string]float32{"bias,penalties": (2 + 1) * .5, "bias,penalties,bias-last": 2*.5 + 1} {
		r := penalizing(flat(1, []float32{2, 0}), chain, 2, 0, 0)
		r.Counts, r.Bias = []uint32{ir.CountPrompt, 0}, []float32{1, 0}
		require.Equal(t, want, zOf(r, 0)[0], chain)
	}
}

// The reference's penalties are the graph's from which kernels are made.
func TestPenaltiesAgreeWithTheGraph(t *testing.T) {
	g := ir.Score(ir.Computation{Sampler: ir.Greedy, Chain: ir.Chain{Penalties: true}})
	rng := rand.New(rand.NewPCG(1, 9))
	for range 20_000 {
		p := ir.Penalty{Repetition: float32(math.Exp(rng.NormFloat64())), Frequency: float32(rng.NormFloat64()), Presence: float32(rng.NormFloat64())}
		count, z := rng.Uint32N(4)|rng.Uint32N(2)<<31, float32(5*rng.NormFloat64())
		w := row{params: params{penalty: p, counts: []uint32{count}}}
		want := ir.Eval(g, ir.Values{F: map[ir.Input]float32{ir.InLogit: z, ir.InCount: float32(count & ir.CountOutput),
			ir.InRepetition: p.Repetition, ir.InInverseRepetition: 1 / p.Repetition, ir.InFrequency: p.Frequency, ir.InPresence: p.Presence},
			B: map[ir.Input]bool{ir.InSeen: count != 0}})
		require.Equal(t, want, w.penalized(z, 0), "%v of %v times %#x", p, z, count)
	}
}

// Case D2: a sparse bias moves tokens and log-probabilities, as the dense one does.
func TestSparseBias(t *testing.T) {
	logits := normals(40, 1, 3)
	logits[7] = 6
	dense, sparse := flat(30, logits), flat(30, logits)
	dense.Computation.Chain.Bias, dense.Bias = ir.BiasVector, make([]float32, 40)
	dense.Bias[7], dense.Bias[9] = -100, 5
	sparse.Computation.Chain.Bias = ir.BiasSparse
	sparse.BiasLists = [][]ir.TokenBias{{{ID: 7, Value: -100}, {ID: 9, Value: 5}}}
	for _, temperature := range []float32{0, 1} {
		want := sample(t, reporting(ir.ProcessedLogProb, 3, withTemperature(dense, temperature), 7, 9))
		require.Equal(t, want, sample(t, reporting(ir.ProcessedLogProb, 3, withTemperature(sparse, temperature), 7, 9)))
		plain := sample(t, reporting(ir.ProcessedLogProb, 3, withTemperature(flat(30, logits), temperature), 7, 9))
		require.NotEqual(t, plain.Tokens, want.Tokens)
		require.Less(t, want.Listed[0][0], plain.Listed[0][0]-90)
	}
}

func TestListsOfIDs(t *testing.T) {
	r := flat(6, []float32{5, 4, 3, 2, 1})
	r.Computation.Chain.IDs, r.Computation.Chain.Mask = true, true
	r.MaskWords, r.Mask = 1, []uint32{0b11110}
	r.AllowIDs = [][]int32{nil, {3, 4, 3}, {}, {0, 2}, {3}, nil}
	r.BanIDs = [][]int32{nil, nil, nil, nil, {3}, {1, 2}}
	require.NoError(t, r.Validate())
	for b, want := range [][]int32{{1, 2, 3, 4}, {3, 4}, nil, {2}, nil, {3, 4}} {
		require.Equal(t, want, keptIDs(r, b), b)
	}
	res := sample(t, r)
	require.Equal(t, []ir.Status{0, 0, ir.StatusEmpty, 0, ir.StatusEmpty, 0}, res.Status)
	require.EqualValues(t, 2, res.Tokens[3])
	r.AllowIDs = nil
	require.Equal(t, []int32{1, 2, 3, 4}, keptIDs(r, 0))
}

// everything asks for every feature at once, by random parameters in slots that rows share.
func everything(rng *rand.Rand, batch, slots, vocab int, c ir.Computation) *Request {
	r := randomRequest(batch, vocab, 8)
	for i := range r.H {
		r.H[i] += 0x200 // logits of some size
	}
	c.Chain = ir.Chain{Bias: ir.BiasSparse, Penalties: true, IDs: true, Mask: true, Temperature: true}
	c.Slots, c.Listed, c.TopN, c.Rank, c.LogSumExp, c.Score = true, true, 5, true, true, true
	r.Computation = c
	r.SlotCount, r.Seeds, r.Positions = slots, nil, nil
	ids := func(n int) (out []int32) {
		for _, v := range rng.Perm(vocab)[:n] {
			out = append(out, int32(v))
		}
		return out
	}
	r.MaskWords, r.MaskStride = (vocab+31)/32, (vocab+31)/32
	for range slots {
		r.Seeds, r.Positions = append(r.Seeds, rng.Uint64()), append(r.Positions, rng.Uint64())
		r.Temperature = append(r.Temperature, []float32{0, .3, 1, 2}[rng.IntN(4)])
		r.TopK = append(r.TopK, []int32{0, 1, 3, 40, int32(vocab)}[rng.IntN(5)])
		r.TopP, r.MinP = append(r.TopP, []float32{0, .5, .9, 1}[rng.IntN(4)]), append(r.MinP, []float32{0, .01, .2, 1}[rng.IntN(4)])
		r.Repetition = append(r.Repetition, []float32{1, 1.5, .7}[rng.IntN(3)])
		r.Frequency, r.Presence = append(r.Frequency, rng.Float32()), append(r.Presence, rng.Float32())
		var bias []ir.TokenBias
		var counts []ir.TokenCount
		for _, v := range ids(rng.IntN(9)) {
			bias = append(bias, ir.TokenBias{ID: v, Value: float32(rng.NormFloat64())})
			counts = append(counts, ir.TokenCount{ID: v, Count: rng.Uint32N(3) | rng.Uint32N(2)<<31})
		}
		r.BiasLists, r.CountLists = append(r.BiasLists, bias), append(r.CountLists, counts)
		r.AllowIDs = append(r.AllowIDs, [][]int32{nil, ids(30), ids(vocab), {}}[rng.IntN(4)])
		r.BanIDs, r.ListIDs = append(r.BanIDs, ids(rng.IntN(20))), append(r.ListIDs, ids(rng.IntN(4)))
		for range r.MaskWords {
			r.Mask = append(r.Mask, rng.Uint32()|rng.Uint32())
		}
		if c.Draws != ir.SingleDraw {
			r.DrawCounts = append(r.DrawCounts, 1+rng.Int32N(int32(c.MaxDraws)))
		}
	}
	for range batch {
		r.Slots = append(r.Slots, rng.Int32N(int32(slots)))
	}
	return r
}

// rowOf is what a result says of one row.
func rowOf(res *Result, c ir.Computation, b int) *Result {
	out := &Result{Tokens: res.Tokens[b : b+1], Status: res.Status[b : b+1], Scores: res.Scores[b : b+1], Best: res.Best[b : b+1],
		SecondScores: res.SecondScores[b : b+1], Second: res.Second[b : b+1], LogSumExp: res.LogSumExp[b : b+1],
		LogProbs: res.LogProbs[b : b+1], Ranks: res.Ranks[b : b+1], Listed: res.Listed[b : b+1],
		TopIDs: res.TopIDs[b*c.TopN:][:c.TopN], TopLogProbs: res.TopLogProbs[b*c.TopN:][:c.TopN]}
	if res.Draws != nil {
		out.Draws = res.Draws[b*c.MaxDraws:][:c.MaxDraws]
	}
	if res.DrawScores != nil {
		out.DrawScores = res.DrawScores[b*c.MaxDraws:][:c.MaxDraws]
	}
	return out
}

// Every feature at once, mixed freely: each row is what it is alone.
func TestMixedBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	status := map[ir.Status]int{}
	for i := range draws(40, 1000) {
		c := ir.Computation{LogProb: modes[i%3], Truncation: ir.Truncation{TopK: true, TopP: true, MinP: true, TemperatureLast: i%2 == 0}}
		if c.Draws = ir.Draws(i % 3); c.Draws != ir.SingleDraw {
			c.MaxDraws = 1 + i%6
		}
		r := everything(rng, 25, 7, 60+rng.IntN(200), c)
		require.NoError(t, r.Validate())
		res := sample(t, r)
		for b := range r.Batch {
			one := *r
			one.Batch, one.H, one.Slots = 1, r.hidden(b), r.Slots[b:b+1]
			requireSame(t, rowOf(res, r.Computation, b), sample(t, &one))
			status[res.Status[b]]++
			requireSound(t, r, res, b)
		}
	}
	require.Greater(t, status[ir.StatusOK], status[ir.StatusEmpty]/2)
	require.Positive(t, status[ir.StatusEmpty])
}

// requireSame compares results, in which NaN stands for nothing.
func requireSame(t *testing.T, want, got *Result) {
	t.Helper()
	for _, res := range []*Result{want, got} {
		res.sums = nil // of which the log-sum-exp tells
		for _, list := range append([][]float32{res.Scores, res.Best, res.SecondScores, res.LogSumExp, res.LogProbs, res.TopLogProbs, res.DrawScores}, res.Listed...) {
			for i, x := range list {
				if x != x {
					list[i] = -12345
				}
			}
		}
	}
	require.Equal(t, want, got)
}

// requireSound holds a row to what is true of every row.
func requireSound(t *testing.T, r *Request, res *Result, b int) {
	t.Helper()
	if res.Status[b] != ir.StatusOK {
		require.EqualValues(t, ir.NoToken, res.Tokens[b])
		return
	}
	kept := keptIDsOfWeights(r, b)
	require.Contains(t, kept, res.Tokens[b])
	require.LessOrEqual(t, res.LogProbs[b], float32(0))
	if k := r.TopK[r.Slots[b]]; k > 0 && int(k) < r.Shape.Vocab {
		require.LessOrEqual(t, len(kept), int(k))
	}
	c := r.Computation
	for i := range c.MaxDraws {
		if id := res.Draws[b*c.MaxDraws+i]; id != ir.NoToken {
			require.Contains(t, kept, id)
		}
	}
}

// keptIDsOfWeights is keptIDs of a request without injected logits.
func keptIDsOfWeights(r *Request, b int) (ids []int32) {
	one := *r
	one.Logits = append([]float32{}, r.logitsOf(context.Background(), r.widen(), b, 1)[0]...)
	one.H, one.W, one.Batch = nil, nil, r.Batch
	return keptIDs(&one, b)
}

// Slots are a way to say which parameters, and no other difference: rows with parameters of their own give the same.
func TestSlotsAreParameters(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	r := everything(rng, 20, 6, 100, ir.Computation{LogProb: ir.ProcessedLogProb, Truncation: ir.Truncation{TopK: true, TopP: true, MinP: true}})
	want := sample(t, r)
	own := *r
	own.Computation.Slots, own.Slots, own.SlotCount = false, nil, 0
	own.Seeds, own.Positions, own.Temperature = gather(r.Slots, r.Seeds), gather(r.Slots, r.Positions), gather(r.Slots, r.Temperature)
	own.TopK, own.TopP, own.MinP = gather(r.Slots, r.TopK), gather(r.Slots, r.TopP), gather(r.Slots, r.MinP)
	own.Repetition, own.Frequency, own.Presence = gather(r.Slots, r.Repetition), gather(r.Slots, r.Frequency), gather(r.Slots, r.Presence)
	own.BiasLists, own.CountLists = gather(r.Slots, r.BiasLists), gather(r.Slots, r.CountLists)
	own.AllowIDs, own.BanIDs, own.ListIDs = gather(r.Slots, r.AllowIDs), gather(r.Slots, r.BanIDs), gather(r.Slots, r.ListIDs)
	own.Mask = nil
	for _, s := range r.Slots {
		own.Mask = append(own.Mask, r.Mask[int(s)*r.MaskStride:][:r.MaskWords]...)
	}
	require.NoError(t, own.Validate())
	requireSame(t, want, sample(t, &own))
}

func gather[T any](slots []int32, values []T) (out []T) {
	for _, s := range slots {
		out = append(out, values[s])
	}
	return out
}

// Parameters out of their range are an error of Validate, and a row's status in Sample.
func TestBadParametersAreTheirRows(t *testing.T) {
	r := truncated(flat(3, make([]float32, 2000)), 5, .5, .1)
	r.TopP = []float32{.5, nan(), .5}
	var field *FieldError
	require.ErrorAs(t, r.Validate(), &field)
	require.Equal(t, "reference: TopP[1] is NaN: want 0 or more (1 and more is off)", field.Error())
	require.Equal(t, []ir.Status{0, ir.StatusBadParameter, 0}, sample(t, r).Status)
	r.TopP, r.TopK = []float32{1}, []int32{1024, 1025, 2000}
	require.ErrorContains(t, r.Validate(), "reference: TopK[1] is 1025: want at most 1024, or 0 or 2000 and more for off")
	p := penalizing(flat(2, []float32{1, 2}), "penalties", 0, 0, 0)
	require.ErrorContains(t, p.Validate(), "reference: Repetition[0] is 0: want a number from 2^-126 to 2^126")
	require.Equal(t, []ir.Status{ir.StatusBadParameter, ir.StatusBadParameter}, sample(t, p).Status)
}

// Case D1, and what else is wrong with lists, slots and counts.
func TestBadListsAreRefused(t *testing.T) {
	const vocab = 128256
	for want, spoil := range map[string]func(r *Request){
		"BiasLists[1] is id 191222: want ids from 0 to 128255": func(r *Request) {
			r.BiasLists = [][]ir.TokenBias{nil, {{ID: 5}, {ID: 191222}}, nil}
		},
		"BiasLists[0] is id -1":                       func(r *Request) { r.BiasLists = [][]ir.TokenBias{{{ID: -1}}} },
		"BiasLists[0] is id 128256":                   func(r *Request) { r.BiasLists = [][]ir.TokenBias{{{ID: vocab}}} },
		"BiasLists[2] is id 7: want every id once":    func(r *Request) { r.BiasLists = [][]ir.TokenBias{nil, nil, {{ID: 7}, {ID: 8}, {ID: 7}}} },
		"BiasLists[0] is id 7: want a bias other":     func(r *Request) { r.BiasLists = [][]ir.TokenBias{{{ID: 7, Value: nan()}}} },
		"len(BiasLists) is 2: want 1 or the batch":    func(r *Request) { r.BiasLists = make([][]ir.TokenBias, 2) },
		"CountLists[0] is id 3: want every id once":   func(r *Request) { r.CountLists = [][]ir.TokenCount{{{ID: 3}, {ID: 3}}} },
		"AllowIDs[1] is id -5":                        func(r *Request) { r.AllowIDs = [][]int32{nil, {-5}, nil} },
		"BanIDs[0] is id 128256":                      func(r *Request) { r.BanIDs = [][]int32{{vocab}} },
		"ListIDs[0] is id 128256":                     func(r *Request) { r.ListIDs = [][]int32{{vocab}} },
		"len(ListIDs) is 0":                           func(r *Request) { r.ListIDs = nil },
		"len(TopP) is 2: want 1 or the batch size 3":  func(r *Request) { r.TopP = []float32{1, 1} },
		"len(MinP) is 0":                              func(r *Request) { r.MinP = nil },
		"len(Repetition) is 2":                        func(r *Request) { r.Repetition = []float32{1, 1} },
		"CountLists is set: want none beside Counts":  func(r *Request) { r.Counts, r.CountLists = make([]uint32, vocab), [][]ir.TokenCount{nil} },
		"len(Counts) is 9":                            func(r *Request) { r.Counts = make([]uint32, 9) },
		"LDCounts is 9":                               func(r *Request) { r.Counts, r.CountStride = make([]uint32, 3*vocab), 9 },
		"len(DrawCounts) is 2":                        func(r *Request) { r.DrawCounts = []int32{1, 1} },
		"DrawCounts[1] is 5: want 1 to 4":             func(r *Request) { r.DrawCounts = []int32{1, 5, 4} },
		"len(Slots) is 1: want 0: the computation":    func(r *Request) { r.Slots = []int32{0} },
		"Slots[1] is 3: want 0 to 2":                  func(r *Request) { r.Computation.Slots, r.SlotCount, r.Slots = true, 3, []int32{2, 3, -1} },
		"len(Slots) is 0: want 3":                     func(r *Request) { r.Computation.Slots, r.SlotCount = true, 3 },
		"len(Bias) is 3: want 0":                      func(r *Request) { r.Bias = make([]float32, 3) },
		"len(TopK) is 1: want 0: the computation has": func(r *Request) { r.Computation.Truncation.TopK = false },
		"len(AllowIDs) is 1: want 0: the chain has":   func(r *Request) { r.Computation.Chain.IDs, r.AllowIDs = false, [][]int32{{1}} },
		"len(ListIDs) is 1: want 0: the computation":  func(r *Request) { r.Computation.Listed = false },
		"len(Presence) is 1: want 0: the computation": func(r *Request) { r.Computation.Chain.Penalties, r.Presence = false, []float32{1} },
		"len(Counts) is 2: want 0: the computation":   func(r *Request) { r.Computation.Chain.Penalties, r.Counts = false, make([]uint32, 2) },
	} {
		r := truncated(drawing(ir.WithReplacement, 3, 4, make([]float32, vocab)), 5, .5, .1)
		r.Computation.Chain = ir.Chain{Bias: ir.BiasSparse, Penalties: true, IDs: true}
		r = reporting(ir.RawLogProb, 3, r, 1)
		require.NoError(t, r.Validate())
		spoil(r)
		var field *FieldError
		require.ErrorAs(t, r.Validate(), &field, want)
		require.ErrorContains(t, field, "reference: "+want)
	}
}
