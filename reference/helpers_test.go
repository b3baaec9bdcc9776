package reference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// toBF16 rounds to nearest even.
func toBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return 0x7fc0
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func inf() float32 { return float32(math.Inf(1)) }
func nan() float32 { return float32(math.NaN()) }

func mustChain(t testing.TB, text string) ir.Chain {
	c, err := ir.ParseChain(text)
	require.NoError(t, err)
	return c
}

// flat is a request of a batch of rows that share the logits given.
func flat(batch int, logits []float32) *Request {
	r := &Request{Batch: batch, Shape: ir.Shape{Vocab: len(logits)}, Logits: logits, Seeds: make([]uint64, batch),
		Positions: []uint64{0}}
	for b := range r.Seeds {
		r.Seeds[b] = uint64(b)
	}
	return r
}

// withTemperature sets the temperatures and turns the transform on.
func withTemperature(r *Request, t ...float32) *Request {
	r.Computation.Chain.Temperature = true
	r.Temperature = t
	return r
}

// allowing sets one mask for all rows: only ids are allowed.
func allowing(r *Request, ids ...int) *Request {
	r.Computation.Chain.Mask = true
	r.MaskWords = (r.Shape.Vocab + 31) / 32
	r.Mask = make([]uint32, r.MaskWords)
	for _, v := range ids {
		r.Mask[v>>5] |= 1 << (v & 31)
	}
	return r
}

func sample(t testing.TB, r *Request) *Result {
	t.Helper()
	res, err := Sample(t.Context(), r)
	require.NoError(t, err)
	return res
}

// planted is a request whose logits are exactly the numbers given, rounded to bf16, in any order of summation.
func planted(batch int, logits []float32, hidden int) *Request {
	r := flat(batch, nil)
	r.Logits = nil
	r.Shape = ir.Shape{Vocab: len(logits), Hidden: hidden}
	r.H, r.W = make([]uint16, batch*hidden), make([]uint16, len(logits)*hidden)
	for b := range batch {
		r.H[b*hidden] = toBF16(1)
	}
	for v, l := range logits {
		r.W[v*hidden] = toBF16(l)
	}
	return r
}

// normals returns n random logits.
func normals(n int, sd float64, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(rng.NormFloat64() * sd)
	}
	return out
}

// heavy reports whether the statistics should take their full counts, which takes tens of core-minutes.
func heavy() bool { return os.Getenv("FSGEN_HEAVY") != "" }

// draws picks how many draws a statistic takes: a tenth under -short, a fortieth under the race detector (whose subject
// is not statistics), all where FSGEN_HEAVY is set.
func draws(usual, full int) int {
	switch {
	case heavy():
		return full
	case raceDetector:
		return usual / 40
	case testing.Short():
		return usual / 10
	}
	return usual
}

// streams is into how many streams a statistic is cut, so that it is the same on any number of cores.
const streams = 64

// eachToken samples n rows that differ in their position only, and hands the tokens of each stream, in order of
// position, to the sink that newSink made for it.
func eachToken(sampler ir.Sampler, logits []float32, n int, newSink func(stream int) func(token int32)) {
	parallel(streams, func(i int) {
		add := newSink(i)
		for p := i * n / streams; p < (i+1)*n/streams; p++ {
			w := row{alpha: 1, tau: 1, t: 1, grouped: sampler == ir.Grouped, state: Row(2026, uint64(p), 0, 0)}
			b := newBest()
			w.scan(&b, 0, logits)
			add(b.first.id)
		}
	})
}

// parallel runs do(0) to do(n-1), each in a goroutine, as many at once as there are cores.
func parallel(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error { do(i); return nil })
	}
	_ = group.Wait()
}

// uniformDraws judges n draws at equal logits, and how many of them fall in the first part of the vocabulary, for parts
// of the sizes given.
func uniformDraws(sampler ir.Sampler, vocab, n int, fractions ...float64) []stats.Result {
	parts := make([]*stats.Uniform, streams)
	hits := make([][]int64, streams)
	eachToken(sampler, make([]float32, vocab), n, func(i int) func(int32) {
		parts[i], hits[i] = stats.NewUniform(vocab), make([]int64, len(fractions))
		return func(token int32) {
			parts[i].Add(token)
			for j, f := range fractions {
				if float64(token) < f*float64(vocab) {
					hits[i][j]++
				}
			}
		}
	})
	for i := 1; i < streams; i++ {
		parts[0].Merge(parts[i])
		for j := range fractions {
			hits[0][j] += hits[i][j]
		}
	}
	out := parts[0].Results()
	for j, f := range fractions {
		p := math.Ceil(f*float64(vocab)) / float64(vocab)
		out = append(out, stats.Binomial(fmt.Sprintf("first %v of the vocabulary", f), hits[0][j], int64(n), p))
	}
	return out
}

// report logs the results and fails on those past the limit.
func report(t testing.TB, results ...stats.Result) {
	t.Helper()
	for _, r := range results {
		t.Log(r)
	}
	require.NoError(t, stats.Check(stats.Limit, results...))
}
