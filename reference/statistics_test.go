package reference

import (
	"math"
	"math/bits"
	"testing"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// Statistics with fixed seeds. The counts are what two cores do in seconds; FSGEN_HEAVY=1 takes those of the cases.

// Also case A10: a winner whose score is narrowed on its way favours the first tiles.
func TestUniformDraws(t *testing.T) {
	report(t, uniformDraws(ir.Gumbel, 151936, draws(4_000, 2_000_000), 0.5, 0.1)...)
}

func TestUniformDrawsSmallVocabulary(t *testing.T) {
	report(t, uniformDraws(ir.Gumbel, 1024, draws(400_000, 20_000_000), 0.5, 0.1)...)
	report(t, uniformDraws(ir.Gumbel, 1187, draws(50_000, 2_000_000), 0.5, 0.1)...)
}

// countDraws counts the draws whose token passes the test.
func countDraws(logits []float32, n int, hit func(token int32) bool) int64 {
	hits := make([]int64, streams)
	eachToken(ir.Gumbel, logits, n, func(i int) func(int32) {
		return func(token int32) {
			if hit(token) {
				hits[i]++
			}
		}
	})
	total := int64(0)
	for _, h := range hits {
		total += h
	}
	return total
}

// Case A5: a noise of 24 bits has no values above 17.4 and never lets a token win that lies further behind.
func TestRareTokens(t *testing.T) {
	const vocab = 262145
	gap, n := 19.0, draws(4_000, 200_000)
	if heavy() {
		gap = 20.5
	}
	logits := make([]float32, vocab)
	logits[0] = float32(gap)
	p := (vocab - 1) / (vocab - 1 + math.Exp(gap))
	hits := countDraws(logits, n, func(token int32) bool { return token != 0 })
	report(t, stats.Binomial("tail hits", hits, int64(n), p))
}

// The tail of the noise itself, beyond what 24 and 32 bits can reach.
func TestNoiseTail(t *testing.T) {
	n := draws(1<<29, 1<<34)
	limits := [...]float64{8, 12, 16, 17.5, 18}
	counts := make([][len(limits)]int64, streams)
	parallel(streams, func(i int) {
		state := Row(5, uint64(i), 0, 0)
		for id := 0; id < n/streams/16*16; id += 16 {
			countTail(state, id, limits[:], counts[i][:])
		}
	})
	for j, limit := range limits {
		total := int64(0)
		for i := range counts {
			total += counts[i][j]
		}
		report(t, stats.Binomial("noise above", total, int64(n/streams/16*16*streams), -math.Expm1(-math.Exp(-limit))))
	}
}

// countTail counts a block's tokens above each limit.
func countTail(state RowState, id int, limits []float64, counts []int64) {
	block, _ := state.Block(id)
	if float64(blockBound[bits.LeadingZeros64(block)]) < limits[0] {
		return // no token of the block is above any limit
	}
	for v := id; v < id+16; v++ {
		g := state.Bits(v).Gumbel()
		for j, limit := range limits {
			if g > limit {
				counts[j]++
			}
		}
	}
}

// Case A9: a prefix sum over a large vocabulary loses the second half.
func TestHalvesOfLargeVocabulary(t *testing.T) {
	for _, c := range []struct{ vocab, usual int }{{1 << 12, 30_000}, {1 << 18, 800}, {1 << 22, 50}} {
		logits := make([]float32, c.vocab)
		for v := range c.vocab / 2 {
			logits[v] = math.Ln2
		}
		n := draws(c.usual, 100_000)
		upper := countDraws(logits, n, func(token int32) bool { return int(token) >= c.vocab/2 })
		report(t, stats.Binomial("upper half", upper, int64(n), 1.0/3))
	}
}

// Case A8: a token of probability 0 never comes out, and the others come out as often as they should.
func TestSmallDistributions(t *testing.T) {
	for _, prob := range [][]float64{{.33, .34, 0, .33}, {1, 0}, {.5, .5}, {1e-4, 1 - 1e-4}, {.7, .1, .1, .05, .03, .02}} {
		logits := make([]float32, len(prob))
		total := 0.0
		for v, p := range prob {
			logits[v] = float32(math.Log(p))
			total += p
		}
		n := draws(400_000, 100_000_000)
		histograms := make([]*stats.Histogram, streams)
		eachToken(ir.Gumbel, logits, n, func(i int) func(int32) {
			histograms[i] = stats.NewHistogram("distribution", prob)
			return func(token int32) { histograms[i].Add(int(token)) }
		})
		for _, h := range histograms[1:] {
			histograms[0].Merge(h)
		}
		require.InDelta(t, 1, total, 1e-12)
		report(t, histograms[0].Result())
	}
}

// The distribution at a temperature, on both sides of 1.
func TestTemperatureDistribution(t *testing.T) {
	logits := []float32{2, 1, 0, -1, -3}
	for _, temperature := range []float32{0.25, 0.5, 1, 2, 10} {
		prob, total := make([]float64, len(logits)), 0.0
		for v, l := range logits {
			prob[v] = math.Exp(float64(l / temperature))
			total += prob[v]
		}
		for v := range prob {
			prob[v] /= total
		}
		h := stats.NewHistogram("distribution", prob)
		n := draws(100_000, 1_000_000)
		const batch = 1000
		for first := 0; first < n; first += batch {
			r := withTemperature(flat(batch, logits), temperature)
			r.Positions = []uint64{uint64(first)}
			for _, token := range sample(t, r).Tokens {
				h.Add(int(token))
			}
		}
		report(t, h.Result())
	}
}
