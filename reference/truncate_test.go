package reference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// logs are the logits of probabilities, each rounded to float32.
func logs(prob ...float64) []float32 {
	out := make([]float32, len(prob))
	for v, p := range prob {
		out[v] = float32(math.Log(p))
	}
	return out
}

// truncated is flat with filters: every row's k, p and min-p.
func truncated(r *Request, k int32, p, minP float32) *Request {
	r.Computation.Truncation = ir.Truncation{TopK: true, TopP: true, MinP: true}
	r.TopK, r.TopP, r.MinP = []int32{k}, []float32{p}, []float32{minP}
	return r
}

// keptIDs are the tokens that row b keeps, in order; the row is to be valid.
func keptIDs(r *Request, b int) (ids []int32) {
	w := r.row(b)
	for _, c := range w.truncate(r.Computation.Truncation, w.candidates(r.logits(b)), r.Shape.Vocab) {
		ids = append(ids, c.id)
	}
	return ids
}

func TestWeightsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 100_000 {
		vocab, temperature := 1+rng.IntN(1<<(1+rng.IntN(30))), float32(math.Exp(20*rng.NormFloat64()))
		top := float32(10 * rng.NormFloat64())
		z := top - float32(math.Exp(8*rng.NormFloat64())*float64(temperature))
		w := weightsAt(temperature, top, vocab)
		require.Equal(t, ir.Weight(z, top, ir.WeightScale(temperature), vocab), w.of(z), "%v below %v at %v", z, top, temperature)
		require.Equal(t, ir.MaxWeight(vocab), w.most())
	}
	require.Equal(t, ir.RepeatCounter, repeatCounter)
}

// Cases D6, D7, D8, D10 and D12.
func TestKeptSets(t *testing.T) {
	tie, p4 := []float32{1, 2, 2, 2, 3}, logs(.4, .3, .3, 0)
	tail := logs(.25, .15, .1, .5e-9, .2, .2, .1)
	for _, c := range []struct {
		logits  []float32
		k       int32
		p, minP float32
		want    []int32
	}{
		{p4, 2, 1, 0, []int32{0, 1}},
		{tie, 3, 1, 0, []int32{4, 1, 2}},
		{tie, 2, 1, 0, []int32{4, 1}},
		{logs(.3, .1, .1, .5), 0, .8, 0, []int32{3, 0}},
		{logs(.5, .25, .25), 0, .75, 0, []int32{0, 1}},
		{logs(.5, .25, .25), 0, .750001, 0, []int32{0, 1, 2}},
		{logs(.5, .25, .25), 0, .5, 0, []int32{0}},
		{logs(.9, .1), 0, .9, 0, []int32{0}},
		{logs(.99, .01), 0, .99, 0, []int32{0}},
		{logs(.999, .001), 0, .999, 0, []int32{0}},
		{tie, 0, 0, 0, []int32{4}}, {tie, 0, 1e-30, 0, []int32{4}}, {tie, 0, 1e-9, 0, []int32{4}}, {tie, 0, 1e-45, 0, []int32{4}},
		{[]float32{2, 2, 2}, 0, 0, 0, []int32{0}},
		{tie, -1, 1, 0, []int32{4, 1, 2, 3, 0}}, {tie, 0, 1, 0, []int32{4, 1, 2, 3, 0}}, {tie, 5, 1, 0, []int32{4, 1, 2, 3, 0}},
		{tie, 6, 1, 0, []int32{4, 1, 2, 3, 0}}, {tie, 1 << 30, 2, 0, []int32{4, 1, 2, 3, 0}}, {tie, 1<<31 - 1, 1, 0, []int32{4, 1, 2, 3, 0}},
		{tail, 3, .8, 0, []int32{0, 4, 5}}, // .25 + .2 of .65 is below .8
		{tail, 3, .69, 0, []int32{0, 4}},   // .45 of .65, which top-k left
		{tail, 1, .8, 0, []int32{0}},
		{tie, 0, 1, 1, []int32{4}}, {[]float32{3, 1, 3, 3}, 0, 1, 1, []int32{0, 2, 3}}, {tie, 0, 1, .3, []int32{4, 1, 2, 3}},
		{tie, 0, 1, .4, []int32{4}}, {tie, 2, 1, .3, []int32{4, 1}},
		{[]float32{negInf, 5, negInf}, 2, .9, 0, []int32{1}},
		{[]float32{inf(), 1, inf(), inf(), inf()}, 0, .5, 0, []int32{0, 2}},
		{[]float32{inf(), 1, inf()}, 0, 1, 1e-30, []int32{0, 2}},
		{[]float32{0, 1e-45, 0, -1e-45}, 3, 1, 0, []int32{1, 0, 2}}, // denormal gaps: an order, and equal weights
		{[]float32{0, 1e-45, 0, -1e-45}, 0, .75, 0, []int32{1, 0, 2}},
		{[]float32{float32(math.Copysign(0, -1)), 0}, 1, 1, 0, []int32{0}},
	} {
		r := truncated(flat(1, c.logits), c.k, c.p, c.minP)
		require.NoError(t, r.Validate())
		require.Equal(t, c.want, keptIDs(r, 0), "%v: k=%d p=%v min-p=%v", c.logits, c.k, c.p, c.minP)
		require.Contains(t, c.want, sample(t, r).Tokens[0])
	}
}

// Case D10: at T = .01 one token has all the mass, unless the temperature comes last.
func TestTemperatureBeforeAndAfterTheFilters(t *testing.T) {
	r := withTemperature(truncated(flat(1, []float32{0, -.5, -1, -4}), 3, .9, 0), .01)
	require.Equal(t, []int32{0}, keptIDs(r, 0))
	r.Computation.Truncation.TemperatureLast = true
	require.Equal(t, []int32{0, 1, 2}, keptIDs(r, 0))
	r.Temperature[0] = 0
	require.Equal(t, []int32{0, 1, 2}, keptIDs(r, 0))
	require.EqualValues(t, 0, sample(t, r).Tokens[0])
}

// Cases D6 and D16: large rows of equals, and maxima far apart.
func TestLargeTruncatedRows(t *testing.T) {
	const vocab = 131072
	r := truncated(flat(1, make([]float32, vocab)), 0, .5, 0)
	ids := keptIDs(r, 0)
	require.Len(t, ids, vocab/2)
	require.EqualValues(t, vocab/2-1, ids[len(ids)-1])
	require.Less(t, sample(t, r).Tokens[0], int32(vocab/2))
	r.Logits[64*128+5], r.Logits[127*128] = 3, 3
	r.TopK, r.TopP = []int32{1}, []float32{1}
	require.EqualValues(t, 64*128+5, sample(t, r).Tokens[0])

	empty := truncated(flat(3, nil), 1, .5, .1)
	empty.Shape.Vocab, empty.Logits = 2, []float32{negInf, negInf, nan(), 1, 1, negInf}
	require.Equal(t, []ir.Status{ir.StatusEmpty, ir.StatusNaN, ir.StatusOK}, sample(t, empty).Status)
}

// sharePrefix is the smallest prefix of the tokens, by falling logit, with the share p of the mass, in float64, and how near the mass of any
// prefix comes to p.
func sharePrefix(logits []float32, temperature, p float64) (n int, near float64) {
	prob := softmax(logits, temperature)
	slices.SortFunc(prob, func(a, b float64) int { return -int(math.Copysign(1, a-b)) })
	mass, n, near := 0.0, -1, 1.0
	for i, q := range prob {
		mass += q
		near = min(near, math.Abs(mass-p))
		if n < 0 && mass >= p {
			n = i + 1
		}
	}
	return n, near
}

// The integers agree with float64 wherever that can tell.
func TestNucleusInFloat64(t *testing.T) {
	rng, judged := rand.New(rand.NewPCG(6, 7)), 0
	for range 3000 {
		logits := normals(2+rng.IntN(300), math.Exp(rng.NormFloat64()), rng.Uint64())
		temperature, p := float32(math.Exp(rng.NormFloat64()/2)), rng.Float32()
		if rng.IntN(3) == 0 {
			p = 1 - p/1000
		}
		want, near := sharePrefix(logits, float64(temperature), float64(p))
		if near < 1e-6 {
			continue
		}
		judged++
		r := withTemperature(truncated(flat(1, logits), 0, p, 0), temperature)
		require.Len(t, keptIDs(r, 0), want, "T=%v p=%v", temperature, p)
		limit := float64(rng.Float32())
		minP := truncated(flat(1, logits), 0, 1, float32(limit))
		prob, atLeast := softmax(logits, 1), 0
		for _, q := range prob {
			if q >= slices.Max(prob)*limit {
				atLeast++
			}
		}
		require.InDelta(t, atLeast, len(keptIDs(minP, 0)), 0, "min-p=%v", limit)
	}
	require.Greater(t, judged, 2500)
}

// mixedRows has rows under every filter, and with each off.
func mixedRows(c ir.Computation, logits []float32, n int) *Request {
	r := computing(c, flat(n, logits))
	r.Computation.Chain.Temperature = true
	r.Computation.Truncation = ir.Truncation{TopK: true, TopP: true, MinP: true}
	for b := range n {
		r.TopK = append(r.TopK, []int32{1, 0, 40, int32(len(logits)), 7}[b%5])
		r.TopP = append(r.TopP, []float32{1, .5, .9, 1}[b%4])
		r.MinP = append(r.MinP, []float32{0, .01, 0}[b%3])
		r.Temperature = append(r.Temperature, []float32{0, 1, .7, 2, 1, .3, 1.5}[b%7])
	}
	return r
}

// Case D13: what a row keeps and draws does not depend on its neighbours.
func TestMixedFilters(t *testing.T) {
	logits := normals(1000, 2, 4)
	all := mixedRows(ir.Computation{Score: true, LogSumExp: true}, logits, 60)
	want := sample(t, all)
	for b := range all.Batch {
		one := *all
		one.Batch, one.TopK, one.TopP, one.MinP = 1, all.TopK[b:b+1], all.TopP[b:b+1], all.MinP[b:b+1]
		one.Temperature, one.Seeds = all.Temperature[b:b+1], all.Seeds[b:b+1]
		requireRow(t, want, b, sample(t, &one), 0)
	}
}

// Truncation by nothing draws what no truncation draws, bit for bit, and the log-sum-exp is not that of what is kept.
func TestFiltersThatAreOff(t *testing.T) {
	r := computing(ir.Computation{LogSumExp: true}, randomRequest(40, 3000, 16))
	want := sample(t, r)
	off := truncated(computing(r.Computation, randomRequest(40, 3000, 16)), 0, 1, 0)
	require.Equal(t, want, sample(t, off))
	off.TopK[0] = 3
	require.Equal(t, want.LogSumExp, sample(t, off).LogSumExp)
}

// The distribution of the draws, filter by filter.
func TestTruncatedDistributions(t *testing.T) {
	for i, c := range []struct {
		logits  []float32
		k       int32
		p, minP float32
		t       float32
		last    bool
		want    []float64
	}{
		{logs(.4, .3, .3, 0), 2, 1, 0, 1, false, []float64{4. / 7, 3. / 7, 0, 0}},
		{logs(.3, .1, .1, .5), 0, .8, 0, 1, false, []float64{3. / 8, 0, 0, 5. / 8}},
		{logs(.4, .3, .2, .1), 0, 1, .4, 1, false, []float64{4. / 9, 3. / 9, 2. / 9, 0}},
		{logs(.4, .3, .2, .1), 3, .7, 0, .5, false, []float64{16. / 25, 9. / 25, 0, 0}},
		{logs(.4, .3, .2, .1), 0, .9, 0, .5, true, []float64{16. / 29, 9. / 29, 4. / 29, 0}},
	} {
		const batch = 1000
		h := stats.NewHistogram(fmt.Sprintf("filters %d", i), c.want)
		for first := range draws(40, 4000) {
			r := withTemperature(truncated(flat(batch, c.logits), c.k, c.p, c.minP), c.t)
			r.Computation.Truncation.TemperatureLast = c.last
			r.Positions = []uint64{uint64(first)}
			for _, token := range sample(t, r).Tokens {
				h.Add(int(token))
			}
		}
		report(t, h.Result())
	}
}
