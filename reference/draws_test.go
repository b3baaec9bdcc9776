package reference

import (
	"fmt"
	"testing"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// drawing is flat with n draws a row.
func drawing(kind ir.Draws, batch, n int, logits []float32) *Request {
	r := flat(batch, logits)
	r.Computation.Draws, r.Computation.MaxDraws, r.Computation.Score = kind, n, true
	return r
}

func bothDraws(t *testing.T, f func(t *testing.T, kind ir.Draws)) {
	for _, kind := range []ir.Draws{ir.WithReplacement, ir.WithoutReplacement} {
		t.Run(kind.String(), func(t *testing.T) { f(t, kind) })
	}
}

// The first draw is the ordinary sample, and fewer draws are the first of more.
func TestDrawsBegin(t *testing.T) {
	logits := normals(500, 2, 3)
	bothDraws(t, func(t *testing.T, kind ir.Draws) {
		for _, temperature := range []float32{0, .4, 1, 3} {
			plain := sample(t, withTemperature(flat(50, logits), temperature))
			many := sample(t, withTemperature(drawing(kind, 50, 64, logits), temperature))
			few := withTemperature(drawing(kind, 50, 64, logits), temperature)
			for b := range few.Batch {
				few.DrawCounts = append(few.DrawCounts, int32(1+b))
			}
			got := sample(t, few)
			require.Equal(t, plain.Tokens, many.Tokens)
			for b := range few.Batch {
				require.Equal(t, plain.Tokens[b], many.Draws[64*b])
				require.Equal(t, many.Draws[64*b:][:b+1], got.Draws[64*b:][:b+1])
				require.EqualValues(t, filled(63-b, int32(ir.NoToken)), got.Draws[64*b+b+1:][:63-b])
			}
		}
	})
}

// Draws without replacement are distinct, of falling scores, and end with the tokens.
func TestDrawsWithoutReplacement(t *testing.T) {
	logits := normals(300, 2, 3)
	r := drawing(ir.WithoutReplacement, 40, 64, logits)
	res := sample(t, r)
	for b := range r.Batch {
		seen := map[int32]bool{}
		for i, id := range res.Draws[64*b:][:64] {
			require.False(t, seen[id])
			seen[id] = true
			s, bound := r.ReportedScoreOf(b, int(id))
			require.InDelta(t, s, res.DrawScores[64*b+i], bound)
			if i > 0 {
				require.LessOrEqual(t, res.DrawScores[64*b+i], res.DrawScores[64*b+i-1])
			}
		}
		require.Equal(t, res.Scores[b], res.DrawScores[64*b])
	}
	few := truncated(drawing(ir.WithoutReplacement, 1, 5, []float32{1, negInf, 3, 2, 1}), 3, 1, 0)
	got := sample(t, few)
	require.ElementsMatch(t, []int32{0, 2, 3}, got.Draws[:3])
	require.Equal(t, []int32{ir.NoToken, ir.NoToken}, got.Draws[3:])
	require.True(t, got.DrawScores[3] != got.DrawScores[3], "no score without a token")
	greedy := withTemperature(drawing(ir.WithoutReplacement, 1, 4, []float32{1, 5, 3, 5}), 0)
	require.Equal(t, []int32{1, 3, 2, 0}, sample(t, greedy).Draws)
}

// permutations calls f with every ordered choice of n of the tokens, and its law without replacement.
func permutations(prob []float64, n int, f func(ids []int, p float64)) {
	var ids []int
	var walk func(p, left float64)
	walk = func(p, left float64) {
		if len(ids) == n {
			f(ids, p)
			return
		}
		for v, q := range prob {
			taken := false
			for _, u := range ids {
				taken = taken || u == v
			}
			if !taken {
				ids = append(ids, v)
				walk(p*q/left, left-q)
				ids = ids[:len(ids)-1]
			}
		}
	}
	walk(1, 1)
}

// The law of draws without replacement, over all their orders.
func TestLawWithoutReplacement(t *testing.T) {
	prob := []float64{.4, .3, .15, .1, .05}
	for _, n := range []int{2, 3, 5} {
		index, law := map[string]int{}, []float64(nil)
		permutations(prob, n, func(ids []int, p float64) {
			index[fmt.Sprint(ids)] = len(law)
			law = append(law, p)
		})
		h := stats.NewHistogram(fmt.Sprintf("%d without replacement", n), law)
		const batch = 1000
		for first := range draws(100, 10_000) {
			r := drawing(ir.WithoutReplacement, batch, n, logs(prob...))
			r.Positions = []uint64{uint64(first)}
			res := sample(t, r)
			for b := range batch {
				h.Add(index[fmt.Sprint(res.Draws[n*b:][:n])])
			}
		}
		report(t, h.Result())
	}
}

// Draws with replacement are independent: each pair of them has the product of the laws, at temperatures and under filters.
func TestLawWithReplacement(t *testing.T) {
	logits := logs(.35, .3, .2, .1, .05)
	for _, c := range []struct {
		k    int32
		t    float32
		last bool
		prob []float64
	}{
		{0, 1, false, []float64{.35, .3, .2, .1, .05}},
		{3, .5, true, []float64{49. / 101, 36. / 101, 16. / 101}},
	} {
		const batch, n = 1000, 4
		size := len(c.prob)
		pairs := map[[2]int]*stats.Histogram{}
		law := make([]float64, size*size)
		for v, p := range c.prob {
			for u, q := range c.prob {
				law[v*size+u] = p * q
			}
		}
		for i := range n {
			for j := i + 1; j < n; j++ {
				pairs[[2]int{i, j}] = stats.NewHistogram(fmt.Sprintf("draws %d and %d, T = %v", i+1, j+1, c.t), law)
			}
		}
		for first := range draws(100, 10_000) {
			r := withTemperature(truncated(drawing(ir.WithReplacement, batch, n, logits), c.k, 1, 0), c.t)
			r.Computation.Truncation.TemperatureLast = c.last
			r.Positions = []uint64{uint64(first)}
			res := sample(t, r)
			for b := range batch {
				for ij, h := range pairs {
					h.Add(int(res.Draws[n*b+ij[0]])*size + int(res.Draws[n*b+ij[1]]))
				}
			}
		}
		for _, h := range pairs {
			report(t, h.Result())
		}
	}
}

// All 64 draws of a row together have the law of independent draws: a row of many draws is as good as many rows.
func TestManyDrawsOfARow(t *testing.T) {
	logits := normals(40, 1.5, 5)
	h := stats.NewHistogram("64 draws", softmax(logits, 1))
	r := drawing(ir.WithReplacement, draws(3000, 100_000), 64, logits)
	for _, id := range sample(t, r).Draws {
		h.Add(int(id))
	}
	report(t, h.Result())
}

// The ends: one token, no tokens, T = 0, and infinities.
func TestDrawsAtTheEnds(t *testing.T) {
	one := sample(t, drawing(ir.WithReplacement, 2, 3, []float32{negInf, 4, negInf}))
	require.Equal(t, []int32{1, 1, 1, 1, 1, 1}, one.Draws)
	none := sample(t, drawing(ir.WithReplacement, 1, 3, []float32{negInf}))
	require.Equal(t, []int32{-1, -1, -1}, none.Draws)
	require.Equal(t, ir.StatusEmpty, none.Status[0])
	greedy := sample(t, withTemperature(drawing(ir.WithReplacement, 1, 3, []float32{1, 2, 1.9}), 0))
	require.Equal(t, []int32{1, 1, 1}, greedy.Draws)
	for _, id := range sample(t, drawing(ir.WithReplacement, 20, 8, []float32{inf(), 1, inf()})).Draws {
		require.Contains(t, []int32{0, 2}, id)
	}
}

// The draw index and the stream tag reach the repeats.
func TestRepeatsAreKeyed(t *testing.T) {
	base := sample(t, drawing(ir.WithReplacement, 20, 8, make([]float32, 4))).Draws
	for _, change := range []func(r *Request){
		func(r *Request) { r.Draw = 1 }, func(r *Request) { r.StreamTag = ir.StreamDraft }, func(r *Request) { r.Positions = []uint64{1} },
	} {
		r := drawing(ir.WithReplacement, 20, 8, make([]float32, 4))
		change(r)
		require.NotEqual(t, base, sample(t, r).Draws)
	}
}
