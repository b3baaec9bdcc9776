package tune

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

var tempered = ir.Computation{Chain: ir.Chain{Temperature: true}}

// simRunner is a runner on the simulator, with problems that it gets through.
func simRunner(t *testing.T, c ir.Computation, watch stopwatch) *runner {
	t.Helper()
	saved := smallShape
	smallShape = ir.Shape{Vocab: 401, Hidden: 72}
	t.Cleanup(func() { smallShape = saved })
	dev, err := sampler.Open("sim:sm_90")
	require.NoError(t, err)
	r, err := New(dev).newRunner(t.Context(), Config{Computation: c, Shape: ir.Shape{Vocab: 600, Hidden: 64}}, watch)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, dev.Close())
	})
	return r
}

// some are a few of a bucket's candidates, the default first.
func some(r *runner, bucket int) []autotune.Candidate {
	list := autotune.Candidates(gen.Request{Arch: r.arch, Computation: r.computation, Shape: r.shape, Batch: bucket})
	return []autotune.Candidate{list[0], list[len(list)/2], {Tile: list[0].Tile, CTAs: 3}}
}

func TestCandidatesPassVerification(t *testing.T) {
	for _, c := range []ir.Computation{
		tempered,
		{Sampler: ir.Greedy, Chain: ir.Chain{Softcap: 30, Bias: ir.BiasMatrix}},
		{Chain: ir.Chain{Scale: 0.5, Bias: ir.BiasVector, Mask: true, Temperature: true}, Score: true},
		{Sampler: ir.Grouped, Chain: tempered.Chain, LogSumExp: true},
	} {
		r := simRunner(t, c, nil)
		for _, bucket := range []int{8, 16} {
			for _, x := range some(r, bucket) {
				assert.NoError(t, r.Verify(t.Context(), x, bucket), "%s %s", c.Chain, x)
				assert.Len(t, r.at.want.Tokens, bucket)
			}
		}
		assert.Contains(t, r.at.oracle.res.Status, ir.StatusNaN, "a row that cannot be sampled is part of it")
	}
}

// TestWrongCandidatesAreFound plants faults in what a candidate gives, on the small problem and on the shape itself.
func TestWrongCandidatesAreFound(t *testing.T) {
	r := simRunner(t, ir.Computation{Chain: tempered.Chain, Score: true}, nil)
	list := some(r, 8)
	for name, fault := range map[string]func(*sampler.Result){
		"token":      func(res *sampler.Result) { res.Tokens[1] = (res.Tokens[1] + 100) % 400 },
		"no token":   func(res *sampler.Result) { res.Tokens[0] = ir.NoToken },
		"outside":    func(res *sampler.Result) { res.Tokens[3] = 1 << 20 },
		"status":     func(res *sampler.Result) { res.Status[1] = ir.StatusEmpty },
		"rows short": func(res *sampler.Result) { res.Tokens = res.Tokens[1:] },
	} {
		for _, shape := range []ir.Shape{smallShape, r.shape} {
			r.sample = faulty(list[1], shape, fault)
			require.NoError(t, r.leave())
			clear(r.tuner.passed)
			require.NoError(t, r.Verify(t.Context(), list[0], 8), "the default is as it was")
			err := r.Verify(t.Context(), list[1], 8)
			require.ErrorIs(t, err, autotune.ErrTokens, "%s %v", name, shape)
			t.Log(err)
		}
	}
	r.sample = faulty(list[1], r.shape, func(res *sampler.Result) {
		res.Scores[2] = math.Float32frombits(math.Float32bits(res.Scores[2]) + 1)
	})
	require.NoError(t, r.leave())
	require.ErrorIs(t, r.Verify(t.Context(), list[1], 8), autotune.ErrTokens)
}

// A wrong log-sum-exp shows on the small problem.
func TestWrongSumsAreFound(t *testing.T) {
	r := simRunner(t, ir.Computation{Sampler: ir.Grouped, Chain: tempered.Chain, LogSumExp: true}, nil)
	list := some(r, 8)
	for name, fault := range map[string]func(*sampler.Result){
		"off":     func(res *sampler.Result) { res.LogSumExp[1] *= 1.01 },
		"missing": func(res *sampler.Result) { res.LogSumExp = nil },
	} {
		r.sample = faulty(list[1], smallShape, fault)
		require.NoError(t, r.leave())
		clear(r.tuner.passed)
		require.ErrorIs(t, r.Verify(t.Context(), list[1], 8), autotune.ErrTokens, name)
	}
}

// TestKernelsPassTheSmallProblemOnce has two heads of one Tuner: the reference is asked once, and a kernel that has given its
// answer is not asked again, but what was never asked or failed is.
func TestKernelsPassTheSmallProblemOnce(t *testing.T) {
	r := simRunner(t, tempered, nil)
	list := some(r, 8)
	other, err := r.tuner.newRunner(t.Context(), Config{Computation: tempered, Shape: ir.Shape{Vocab: 500, Hidden: 64}}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	asked := map[string]int{}
	counting := func(ctx context.Context, p *sampler.Plan, in *inputs) (*sampler.Result, error) {
		if len(in.hidden) == in.batch*smallShape.Hidden {
			asked[autotune.Candidate{Tile: p.Spec().Tile, CTAs: p.Spec().CTAs}.String()]++
		}
		return sampleOnce(ctx, p, in)
	}
	r.sample, other.sample = faulty(list[1], smallShape, func(res *sampler.Result) { res.Status[1] = ir.StatusEmpty }), counting
	require.NoError(t, r.Verify(t.Context(), list[0], 8))
	require.ErrorIs(t, r.Verify(t.Context(), list[1], 8), autotune.ErrTokens)
	for _, c := range list {
		require.NoError(t, other.Verify(t.Context(), c, 8))
	}
	assert.Equal(t, map[string]int{list[1].String(): 1, list[2].String(): 1}, asked)
	assert.Same(t, r.at.oracle, other.at.oracle)
	require.NoError(t, other.Verify(t.Context(), some(r, 16)[0], 16), "another batch size is another problem")
	assert.NotSame(t, r.at.oracle, other.at.oracle)
}

// faulty changes the results of one candidate on one shape.
func faulty(c autotune.Candidate, shape ir.Shape, fault func(*sampler.Result)) func(context.Context, *sampler.Plan, *inputs) (*sampler.Result, error) {
	return func(ctx context.Context, p *sampler.Plan, in *inputs) (*sampler.Result, error) {
		res, err := sampleOnce(ctx, p, in)
		if err == nil && p.Spec().Tile == c.Tile && len(in.hidden) == in.batch*shape.Hidden {
			fault(res)
		}
		return res, err
	}
}

func TestWhatCannotRunIsNotWrong(t *testing.T) {
	r := simRunner(t, tempered, nil)
	impossible := some(r, 8)[0]
	impossible.Tile.Stages = 16
	err := r.Verify(t.Context(), impossible, 8)
	require.Error(t, err)
	assert.NotErrorIs(t, err, autotune.ErrTokens)
	assert.NotErrorIs(t, err, autotune.ErrGPU)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, r.Verify(ctx, some(r, 16)[0], 16), context.Canceled)
}

// slowWatch is a stopwatch that knows the times of candidates by their place.
type slowWatch struct {
	contests []*contest
	heads    int
	forgot   int
	closed   bool
}

func (w *slowWatch) copies(bytes uint64) int { return 2 }
func (w *slowWatch) forget() error           { w.forgot++; return nil }
func (w *slowWatch) close() error            { w.closed = true; return nil }

func (w *slowWatch) time(_ context.Context, c *contest, plans [][]*sampler.Plan, passes int) (times [][]float64, err error) {
	w.contests = append(w.contests, c)
	for i, p := range plans {
		w.heads = len(p)
		t := make([]float64, passes)
		for pass := range t {
			t[pass] = 100 / float64(i+1)
		}
		times = append(times, t)
	}
	return times, nil
}

func TestSearchOnARunner(t *testing.T) {
	w := &slowWatch{}
	r := simRunner(t, tempered, w)
	list := some(r, 8)[:2]
	res, err := autotune.Search(t.Context(), r, list, 8)
	require.NoError(t, err)
	assert.Equal(t, list[1], res.Winner().Candidate)
	assert.Equal(t, 2, w.heads, "a plan for each copy of the head")
	for _, c := range w.contests {
		assert.Same(t, r.at, c, "one contest for a batch size")
	}
	require.NoError(t, r.leave())
	assert.Nil(t, r.at)
}

func TestNothingToTimeOnTheSimulator(t *testing.T) {
	r := simRunner(t, tempered, nil)
	_, err := r.Time(t.Context(), some(r, 8), 8, 5)
	assert.ErrorContains(t, err, "nothing to time")
	_, err = r.tuner.Job(Config{Shape: r.shape})
	assert.ErrorContains(t, err, "want a GPU")
}

func TestBuckets(t *testing.T) {
	assert.Equal(t, []int{8, 16, 32, 64, 96, 128, 192, 256}, Buckets(arch.SM90, nil))
	assert.Equal(t, 16, Buckets(arch.SM100, nil)[0])
	assert.Equal(t, []int{8, 16, 128, 256}, Buckets(arch.SM90, []int{1000, 100, 1, 8, 9, 128, 200, 1 << 20}))
	assert.Equal(t, []int{16}, Buckets(arch.SM100, []int{1, 8, 16}))
}

// TestMatrix holds that rows differ from each other and come out the same however they are read.
func TestMatrix(t *testing.T) {
	m := newWeights(24, 1<<12)
	all := m.rows(3000)
	part := make([]uint16, 7*24)
	require.NoError(t, m.ReadRows(t.Context(), part, 1500, 7))
	assert.Equal(t, all[1500*24:1507*24], part)
	seen := map[[24]uint16]int{}
	for i := range 3000 {
		seen[[24]uint16(all[i*24:])]++
	}
	assert.Greater(t, len(seen), 1500)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, m.ReadRows(ctx, part, 0, 1), context.Canceled)
}

var errNone = errors.New("none")

func TestWrongCountsItsRows(t *testing.T) {
	assert.NoError(t, wrong("anywhere", nil))
	err := wrong("anywhere", []error{errNone, errNone, errNone})
	assert.ErrorIs(t, err, autotune.ErrTokens)
	assert.ErrorIs(t, err, errNone)
	assert.ErrorContains(t, err, "in 3 rows")
}
