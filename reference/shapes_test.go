package reference

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// requireNaive compares every row with the plain loop.
func requireNaive(t *testing.T, r *Request) {
	t.Helper()
	res := sample(t, r)
	for b := range r.Batch {
		token, score := naive(r, b)
		require.Equal(t, token, res.Tokens[b], "V=%d D=%d B=%d row %d", r.Shape.Vocab, r.Shape.Hidden, r.Batch, b)
		require.Equal(t, score, res.Best[b])
		require.Equal(t, ir.StatusOK, res.Status[b])
		if r.Computation.LogSumExp {
			want := naiveLogSumExp(r, b)
			require.InDelta(t, want, res.LogSumExp[b], 1e-7*(1+math.Abs(want)))
		}
	}
}

// Cases B9, B10, B14: every size that has an edge.
func TestShapes(t *testing.T) {
	for _, vocab := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 127, 128, 129, 255, 256, 257, 4095, 4097} {
		for _, hidden := range []int{1, 7, 8, 16, 24, 64, 72} {
			for _, batch := range []int{1, 2, 17} {
				r := randomRequest(batch, vocab, hidden)
				requireNaive(t, r)
				r.Computation.Sampler, r.Computation.LogSumExp = ir.Grouped, true
				requireNaive(t, r)
			}
		}
	}
	for _, vocab := range []int{40001, 50257} {
		requireNaive(t, randomRequest(5, vocab, 12))
	}
	requireNaive(t, randomRequest(2, 100, 4100))
}

// Case B15: leading dimensions and offsets.
func TestLeadingDimensions(t *testing.T) {
	const batch, vocab, hidden = 5, 77, 20
	tight := randomRequest(batch, vocab, hidden)
	want := sample(t, tight)
	for _, extra := range []int{0, 1, 4, 8} {
		r := *tight
		r.LDH, r.LDW = hidden+extra, hidden+2*extra
		r.H, r.W = spread(tight.H, hidden, r.LDH), spread(tight.W, hidden, r.LDW)
		require.Equal(t, want, sample(t, &r))
		require.NoError(t, r.Validate())
		r.W = r.W[:len(r.W)-1]
		require.Error(t, r.Validate(), "the last row is cut")
	}
}

// spread lays rows of n apart by ld, with NaN between them and nothing after the last.
func spread(rows []uint16, n, ld int) []uint16 {
	var out []uint16
	for i := 0; i < len(rows); i += n {
		out = append(out, rows[i:i+n]...)
		for range ld - n {
			out = append(out, 0x7fc0)
		}
	}
	return out[:len(out)-(ld-n)]
}

// randomChain turns on transforms at random.
func randomChain(rng *rand.Rand, r *Request) {
	c := &r.Computation.Chain
	vocab, words := r.Shape.Vocab, (r.Shape.Vocab+31)/32
	if rng.IntN(2) == 0 {
		c.Scale = 0.3
	}
	if rng.IntN(2) == 0 {
		c.Softcap = 2
	}
	randomBias(rng, r)
	randomLists(rng, r)
	if rng.IntN(2) == 0 {
		c.Mask, r.MaskWords = true, words
		r.MaskStride = []int{0, words, words + 3}[rng.IntN(3)]
		r.Mask = make([]uint32, r.Batch*(words+3))
		for i := range r.Mask {
			r.Mask[i] = rng.Uint32() | 1
		}
	}
	if rng.IntN(2) == 0 {
		withTemperature(r, []float32{[]float32{0, 0.01, 0.7, 1, 1.5, 40}[rng.IntN(6)]}...)
	}
	if rng.IntN(4) == 0 {
		r.Noise = normals(r.Batch*vocab, 2, rng.Uint64())
	}
	if r.Noise == nil {
		r.Computation.Sampler = []ir.Sampler{ir.Gumbel, ir.Gumbel, ir.Greedy, ir.Grouped}[rng.IntN(4)]
	}
	r.Computation.LogSumExp = rng.IntN(2) == 0
}

func randomBias(rng *rand.Rand, r *Request) {
	c, vocab := &r.Computation.Chain, r.Shape.Vocab
	switch rng.IntN(4) {
	case 1:
		c.Bias, r.Bias = ir.BiasVector, normals(vocab, 1, rng.Uint64())
	case 2:
		c.Bias, r.BiasStride = ir.BiasMatrix, vocab+10
		r.Bias = normals(r.Batch*r.BiasStride, 1, rng.Uint64())
	case 3:
		c.Bias, r.BiasLists = ir.BiasSparse, [][]ir.TokenBias{nil}
		for _, v := range rng.Perm(vocab)[:rng.IntN(min(vocab, 20)+1)] {
			r.BiasLists[0] = append(r.BiasLists[0], ir.TokenBias{ID: int32(v), Value: float32(rng.NormFloat64())})
		}
	}
}

// randomLists sets penalties, and lists of ids that leave token 0.
func randomLists(rng *rand.Rand, r *Request) {
	c, vocab := &r.Computation.Chain, r.Shape.Vocab
	if rng.IntN(3) == 0 {
		c.Penalties, c.BiasLast = true, c.Bias != ir.BiasNone && rng.IntN(2) == 0
		r.Repetition, r.Frequency, r.Presence = []float32{[]float32{1, 1.3, .6}[rng.IntN(3)]}, []float32{rng.Float32() - .3}, []float32{rng.Float32() - .3}
		r.CountStride = []int{0, vocab + 2}[rng.IntN(2)]
		r.Counts = make([]uint32, r.Batch*(vocab+2))
		for i := range r.Counts {
			r.Counts[i] = rng.Uint32N(3) | rng.Uint32N(2)<<31
		}
	}
	if rng.IntN(3) == 0 {
		c.IDs, r.BanIDs = true, [][]int32{nil}
		if v := rng.IntN(vocab); v > 0 { // token 0 stays, so that no row is empty
			r.BanIDs[0] = []int32{int32(v)}
		}
		for range r.Batch {
			r.AllowIDs = append(r.AllowIDs, [][]int32{nil, {0, int32(rng.IntN(vocab)), int32(rng.IntN(vocab))}}[rng.IntN(2)])
		}
	}
}

func TestChainsAgainstPlainLoop(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	for range 400 {
		r := randomRequest(1+rng.IntN(4), 1+rng.IntN(300), 1+rng.IntN(20))
		if rng.IntN(3) == 0 {
			r.Logits, r.H, r.W = normals(r.Batch*r.Shape.Vocab, 3, rng.Uint64()), nil, nil
		}
		r.Draw, r.StreamTag = rng.Uint32(), rng.Uint32()
		randomChain(rng, r)
		require.NoError(t, r.Validate())
		requireNaive(t, r)
	}
}
