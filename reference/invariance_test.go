package reference

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// pick makes a request of some rows of another, in the order given.
func pick(r *Request, rows ...int) *Request {
	out := *r
	out.Batch, out.H, out.Seeds = len(rows), nil, nil
	for _, b := range rows {
		out.H = append(out.H, r.hidden(b)...)
		out.Seeds = append(out.Seeds, r.Seeds[b])
	}
	return &out
}

// Cases A12, C2 and C6: a row's result does not depend on its batch or its slot.
func TestBatchAndSlotDoNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, c := range []ir.Computation{{}, {Sampler: ir.Grouped, LogSumExp: true}} {
		r := randomRequest(70, 5000, 48)
		r.Computation = c
		want := sample(t, r)
		for _, batch := range []int{1, 2, 7, 8, 9, 33, 70} {
			rows := rng.Perm(70)[:batch]
			got := sample(t, pick(r, rows...))
			for slot, b := range rows {
				requireRow(t, want, b, got, slot)
			}
		}
	}
}

// Rows with one seed differ by nothing else than their hidden states; equal rows are equal.
func TestEqualRowsAreEqual(t *testing.T) {
	r := randomRequest(1, 3000, 16)
	got := sample(t, pick(r, 0, 0, 0))
	requireRow(t, got, 0, got, 1)
	requireRow(t, got, 0, got, 2)
}

func TestGoroutinesDoNotMatter(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := randomRequest(9, 20000, 64)
	r.Computation = ir.Computation{Sampler: ir.Grouped, LogSumExp: true}
	var want *Result
	for _, n := range []int{1, 2, 3, 8} {
		runtime.GOMAXPROCS(n)
		got := sample(t, r)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
}

func TestCallersDoNotMeet(t *testing.T) {
	r := randomRequest(4, 3000, 32)
	want := sample(t, r)
	results := make([]*Result, 16)
	parallel(len(results), func(i int) { results[i], _ = Sample(context.Background(), r) })
	for _, got := range results {
		require.Equal(t, want, got)
	}
}

// The bounds that skip blocks and tokens change nothing, neither winners nor runners-up, in blocks cut by the vocabulary and
// in masked ones.
func TestSkippingChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for i := range 120 {
		sd := []float64{0, 0.1, 1, 5, 50, 1e30}[i%6]
		r := flat(20, normals(2000-i, sd, rng.Uint64()))
		if i%3 == 0 {
			allowing(r)
			for word := range r.Mask {
				r.Mask[word] = rng.Uint32() & rng.Uint32()
			}
		}
		r.Seeds[0] = rng.Uint64()
		if i%2 == 0 {
			withTemperature(r, []float32{1e-30, 0.01, 0.5, 1, 3, 1e30}[rng.IntN(6)])
		}
		r.Computation.Sampler = []ir.Sampler{ir.Gumbel, ir.Grouped}[i/6%2]
		fast := sample(t, r)
		r.NoSkip = true
		require.Equal(t, sample(t, r), fast)
	}
}

// Case C1: a row depends on its own seed only.
func TestNeighbourSeedsDoNotMatter(t *testing.T) {
	r := flat(2, make([]float32, 131072))
	r.Seeds = []uint64{42, 7}
	want := sample(t, r)
	for i := range 10 {
		r.Seeds[1] = uint64(i) * 0x123456789
		requireRow(t, want, 0, sample(t, r), 0)
	}
}

// Case C2: every element of the seeds is used, in its own row.
func TestEverySeedCounts(t *testing.T) {
	const vocab = 131072
	r := flat(64, make([]float32, vocab))
	want := sample(t, r)
	tokens := slices.Clone(want.Tokens)
	slices.Sort(tokens)
	require.Len(t, slices.Compact(tokens), 64)
	slices.Reverse(r.Seeds)
	got := sample(t, r)
	for b := range 64 {
		requireRow(t, want, b, got, 63-b)
	}
	one := flat(3, make([]float32, vocab))
	one.Seeds = []uint64{5}
	got = sample(t, one)
	require.Equal(t, want.Tokens[5], got.Tokens[0], "one seed serves all rows")
	require.Equal(t, want.Tokens[5], got.Tokens[2])
}

// Case C10: every parameter that the request takes changes the result.
func TestEveryParameterCounts(t *testing.T) {
	base := func() *Request {
		r := withTemperature(randomRequest(3, 4000, 16), 1.5)
		allowing(r)
		for i := range r.Mask {
			r.Mask[i] = math.MaxUint32
		}
		r.Computation.Chain.Bias, r.Bias = ir.BiasVector, make([]float32, 4000)
		r.Computation.Chain.Scale, r.Computation.Chain.Softcap = 0.9, 30
		return r
	}
	want := sample(t, base())
	for name, change := range map[string]func(r *Request){
		"seed":     func(r *Request) { r.Seeds[0]++ },
		"position": func(r *Request) { r.Positions[0] += 1 << 32 },
		"draw":     func(r *Request) { r.Draw++ }, "tag": func(r *Request) { r.StreamTag++ },
		"temperature": func(r *Request) { r.Temperature[0] = 0.2 },
		"mask":        func(r *Request) { r.Mask[want.Tokens[0]>>5] = 0 },
		"mask words":  func(r *Request) { r.MaskWords = 1 },
		"bias":        func(r *Request) { r.Bias[want.Tokens[0]] = -100 },
		"scale":       func(r *Request) { r.Computation.Chain.Scale = 30 },
		"softcap":     func(r *Request) { r.Computation.Chain.Softcap = 0.01 },
		"hidden":      func(r *Request) { r.H = slices.Repeat([]uint16{0x3f80}, len(r.H)) },
		"weights":     func(r *Request) { slices.Reverse(r.W) },
		"vocabulary":  func(r *Request) { r.Shape.Vocab = 10; r.Bias = r.Bias[:10] },
		"sampler":     func(r *Request) { r.Computation.Sampler = ir.Greedy },
		"grouped":     func(r *Request) { r.Computation.Sampler = ir.Grouped },
	} {
		r := base()
		change(r)
		require.NotEqual(t, want, sample(t, r), name)
	}
}

func TestInputsAreNotTouched(t *testing.T) {
	r := randomRequest(3, 500, 16)
	h, w := slices.Clone(r.H), slices.Clone(r.W)
	sample(t, r)
	require.Equal(t, h, r.H)
	require.Equal(t, w, r.W)
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Sample(ctx, randomRequest(2, 1000, 8))
	require.ErrorIs(t, err, context.Canceled)
}
