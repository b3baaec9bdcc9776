package autotune

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSearchFindsTheFastest(t *testing.T) {
	list, f := listed(110, 140, 100, 130, 150, 125, 160, 101.5)
	res, err := Search(t.Context(), f, list, 16)
	require.NoError(t, err)
	assert.Equal(t, list[2], res.Winner().Candidate)
	assert.Equal(t, 100.0, res.Winner().Microseconds)
	assert.Zero(t, res.Winner().Spread)
	assert.Equal(t, lastPasses, res.Winner().Passes)
	assert.Equal(t, list, f.verified, "each is verified once, in order")
	for _, b := range f.batches {
		assert.Equal(t, 16, b)
	}
}

// TestHalving holds that the slower half gets no second round, but the baseline does.
func TestHalving(t *testing.T) {
	list, f := listed(200, 100, 110, 120, 130, 140, 150, 160) // 8, 4 and the baseline, 3 and the baseline, 2 and the baseline
	res, err := Search(t.Context(), f, list, 16)
	require.NoError(t, err)
	var rounds []int
	for _, m := range res.Measured {
		rounds = append(rounds, m.Round)
	}
	assert.Equal(t, []int{4, 4, 4, 3, 2, 1, 1, 1}, rounds)
	assert.Equal(t, 0, res.Baseline)
	assert.Equal(t, res.Winner().Passes, res.Measured[0].Passes, "the baseline is timed in the winner's passes")
	assert.Equal(t, firstPasses, f.timed[list[7]])
	total := 0
	for _, n := range f.timed {
		total += n
	}
	assert.Less(t, total, 8*lastPasses, "less than timing everything to the end")
}

func TestPlannedPassesAreThoseOfAClearSearch(t *testing.T) {
	for n := 1; n <= 20; n++ {
		var times []float64
		for i := range n {
			times = append(times, 100+10*float64(i))
		}
		list, f := listed(times...)
		_, err := Search(t.Context(), f, list, 16)
		require.NoError(t, err)
		total := 0
		for _, passes := range f.timed {
			total += passes
		}
		assert.InDelta(t, plannedPasses(n, firstPasses), total, 0.35*float64(total), "%d candidates", n)
	}
}

func TestTiesGoToTheFirstInOrder(t *testing.T) {
	for _, c := range []struct {
		times []float64
		want  int
	}{
		{[]float64{100.4, 100.2, 100}, 0},      // all within half a percent
		{[]float64{102, 100.3, 100}, 1},        // the default is not
		{[]float64{100, 100, 100}, 0},          // equal
		{[]float64{102, 100.6, 100, 100.1}, 2}, // 100.6 is further from the best than half a percent
	} {
		list, f := listed(c.times...)
		res, err := Search(t.Context(), f, list, 16)
		require.NoError(t, err)
		assert.Equal(t, c.want, res.Best, "%v", c.times)
	}
}

// TestWrongCandidatesNeverWin plants the case of a fastest candidate that is wrong.
func TestWrongCandidatesNeverWin(t *testing.T) {
	list, f := listed(110, 50, 100, 60)
	f.wrong = map[Candidate]error{list[1]: wrongTokens(3), list[3]: errors.New("does not fit")}
	res, err := Search(t.Context(), f, list, 16)
	require.NoError(t, err)
	assert.Equal(t, list[2], res.Winner().Candidate)
	assert.Zero(t, f.timed[list[1]], "what is wrong is not even timed")
	rejected := res.Rejected()
	require.Len(t, rejected, 2)
	assert.Equal(t, list[1], rejected[0].Candidate)
	assert.ErrorIs(t, rejected[0].Err, ErrTokens)
	assert.NotErrorIs(t, rejected[1].Err, ErrTokens)
}

func TestWrongDefaultIsNoBaseline(t *testing.T) {
	list, f := listed(100, 120, 110)
	f.wrong = map[Candidate]error{list[0]: wrongTokens(0)}
	res, err := Search(t.Context(), f, list, 16)
	require.NoError(t, err)
	assert.Equal(t, 2, res.Best)
	assert.Equal(t, 1, res.Baseline)
}

func TestNoCandidate(t *testing.T) {
	list, f := listed(100, 120)
	f.wrong = map[Candidate]error{list[0]: wrongTokens(0), list[1]: wrongTokens(1)}
	res, err := Search(t.Context(), f, list, 16)
	assert.ErrorIs(t, err, ErrNoCandidate)
	assert.ErrorIs(t, err, ErrTokens)
	assert.Equal(t, -1, res.Best)
	assert.Len(t, res.Rejected(), 2)
	_, err = Search(t.Context(), f, nil, 16)
	assert.ErrorIs(t, err, ErrNoCandidate)
}

func TestOneCandidateIsTimedAllTheSame(t *testing.T) {
	list, f := listed(100)
	res, err := Search(t.Context(), f, list, 16)
	require.NoError(t, err)
	assert.Equal(t, 0, res.Best)
	assert.Equal(t, 100.0, res.Measured[0].Microseconds)
}

// TestNoisySearchesAgree runs pairs of searches over candidates that lie close together, on a machine whose clock drifts
// by 3% and that now and then does something else: what both pick takes the same time within 2%, and is within 1% of the
// fastest.
func TestNoisySearchesAgree(t *testing.T) {
	shapes := rand.New(rand.NewPCG(1, 1))
	pairs := 300
	for pair := range pairs {
		times := make([]float64, 12)
		best := math.Inf(1)
		for i := range times {
			times[i] = 250 * (1 + 0.06*shapes.Float64())
			best = min(best, times[i])
		}
		var picks [2]float64
		for run := range picks {
			list, f := listed(times...)
			f.noise, f.drift = 0.006, 0.03
			f.rng = rand.New(rand.NewPCG(uint64(pair), uint64(run)))
			res, err := Search(t.Context(), f, list, 16)
			require.NoError(t, err)
			picks[run] = times[res.Best]
			assert.InDelta(t, best, picks[run], 0.0125*best, "pair %d", pair)
		}
		assert.InEpsilon(t, picks[0], picks[1], 0.02, "pair %d", pair)
	}
}

func TestCancelledSearchReturnsWhatItMeasured(t *testing.T) {
	list, _ := listed(110, 100, 105, 120)
	for call := 1; call <= 8; call++ {
		_, f := listed(110, 100, 105, 120)
		ctx, cancel := context.WithCancel(t.Context())
		f.before = func(n int) error {
			if n == call {
				cancel()
			}
			return nil
		}
		res, err := Search(ctx, f, list, 16)
		require.ErrorIs(t, err, context.Canceled, "call %d", call)
		assert.Empty(t, res.Rejected(), "a cancelled verification is no failure")
		if call <= 5 { // four verifications and the first round
			assert.Equal(t, -1, res.Best, "call %d", call)
			assert.Zero(t, res.Measured[0].Microseconds)
		} else {
			assert.Equal(t, 1, res.Best, "call %d", call)
			assert.Equal(t, 110.0, res.Measured[0].Microseconds)
		}
	}
}

func TestFailingTimerEndsTheSearch(t *testing.T) {
	list, f := listed(110, 100)
	boom := errors.New("an illegal memory access was encountered")
	f.before = func(n int) error {
		if n == 4 {
			return boom
		}
		return nil
	}
	res, err := Search(t.Context(), f, list, 16)
	assert.ErrorIs(t, err, boom)
	assert.Equal(t, 1, res.Best, "of the rounds before")
}

// TestBrokenGPUEndsTheSearch holds that a candidate that breaks the GPU does not make the others look wrong.
func TestBrokenGPUEndsTheSearch(t *testing.T) {
	list, f := listed(110, 100, 120)
	f.wrong = map[Candidate]error{list[1]: ErrGPU}
	res, err := Search(t.Context(), f, list, 16)
	assert.ErrorIs(t, err, ErrGPU)
	assert.ErrorContains(t, err, list[1].String())
	assert.NotErrorIs(t, err, ErrNoCandidate)
	assert.Len(t, f.verified, 2)
	assert.Len(t, res.Rejected(), 1)
}

// badRunner gives times that are none.
type badRunner struct {
	fake
	times [][]float64
}

func (b *badRunner) Time(context.Context, []Candidate, int, int) ([][]float64, error) {
	return b.times, nil
}

func TestRunnerIsHeldToItsWord(t *testing.T) {
	list, _ := listed(110, 100)
	five := []float64{1, 1, 1, 1, 1}
	for _, times := range [][][]float64{nil, {five}, {five, five[:4]}, {five, {1, 1, 0, 1, 1}}, {five, {1, 1, math.NaN(), 1, 1}}} {
		_, err := Search(t.Context(), &badRunner{times: times}, list, 16)
		assert.ErrorContains(t, err, "BUG", "%v", times)
	}
}

func TestTied(t *testing.T) {
	steady := []float64{100, 100, 100, 100, 100}
	assert.True(t, tied(steady, steady))
	assert.True(t, tied([]float64{100.5, 100.5, 100.5, 100.5, 100.5}, steady))
	assert.False(t, tied([]float64{100.6, 100.6, 100.6, 100.6, 100.6}, steady))
	// What drifts in both does not widen the band,
	drifting := []float64{100, 110, 95, 120, 105}
	assert.False(t, tied([]float64{101, 111, 96, 121, 106}, drifting))
	// what scatters in one does,
	assert.True(t, tied([]float64{99, 102, 100.8, 97, 104}, steady))
	// but never past 1%.
	assert.False(t, tied([]float64{90, 120, 101.1, 80, 130}, steady))
}

func TestMedianAndSpread(t *testing.T) {
	assert.Equal(t, 2.0, median([]float64{3, 1, 2}))
	assert.Equal(t, 2.5, median([]float64{4, 1, 2, 3}))
	assert.True(t, math.IsNaN(median(nil)))
	assert.Equal(t, 1.0, spread([]float64{1, 2, 3, 4, 100}), "one outlier does not count")
	rng := rand.New(rand.NewPCG(1, 2))
	var medians []float64
	var predicted float64
	const n, trials = 25, 4000
	for range trials {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		medians = append(medians, median(x))
		predicted += medianError(x) / trials
	}
	var square float64
	for _, m := range medians {
		square += m * m / trials
	}
	assert.InEpsilon(t, math.Sqrt(square), predicted, 0.1, "the standard error of a median of 25")
}
