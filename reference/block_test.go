package reference

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/fsgen/fsgen/internal/stats"
)

// Statistics of the 16 tokens of a block, which share the draw of their minimum and must be independent all the same.

// exponentials are the E of one block.
type exponentials [blockTokens]float64

// eachBlock hands n blocks to the sinks, each stream's to its own.
func eachBlock(n int, newSink func(stream int) func(e *exponentials)) {
	parallel(streams, func(i int) {
		state, add := Row(16, uint64(i), 0, 0), newSink(i)
		var e exponentials
		for block := range n / streams {
			for v := range e {
				e[v] = state.Bits(block*blockTokens + v).Exponential()
			}
			add(&e)
		}
	})
}

// blockHistogram judges into which of cells of equal probability a statistic of n blocks falls: u is uniform on [0, 1).
func blockHistogram(t *testing.T, name string, n, cells int, u func(e *exponentials) float64) {
	t.Helper()
	prob := slices.Repeat([]float64{1 / float64(cells)}, cells)
	parts := make([]*stats.Histogram, streams)
	eachBlock(n, func(i int) func(*exponentials) {
		parts[i] = stats.NewHistogram(name, prob)
		return func(e *exponentials) { parts[i].Add(min(int(u(e)*float64(cells)), cells-1)) }
	})
	for _, p := range parts[1:] {
		parts[0].Merge(p)
	}
	report(t, parts[0].Result())
}

// uniform is the standard exponential's distribution function.
func uniform(e float64) float64 { return -math.Expm1(-e) }

// least is the place of the smallest.
func (e *exponentials) least() (place int) {
	for v, x := range e {
		if x < e[place] {
			place = v
		}
	}
	return place
}

// sorted are the exponentials in ascending order.
func (e *exponentials) sorted() exponentials {
	s := *e
	slices.Sort(s[:])
	return s
}

// Every token alone is a standard exponential, wherever it stands in its block.
func TestEachPlaceOfABlock(t *testing.T) {
	n := draws(200_000, 20_000_000)
	for v := range blockTokens {
		blockHistogram(t, fmt.Sprintf("place %d", v), n, 64, func(e *exponentials) float64 { return uniform(e[v]) })
	}
}

// The smallest stands anywhere in the block, whatever it is.
func TestPlaceOfTheLeast(t *testing.T) {
	n := draws(400_000, 100_000_000)
	blockHistogram(t, "place of the least", n, 16, func(e *exponentials) float64 { return (float64(e.least()) + 0.5) / 16 })
	blockHistogram(t, "place and value of the least", n, 16*16, func(e *exponentials) float64 {
		place := e.least()
		return (float64(place) + uniform(16*e[place])) / 16
	})
}

// The largest noise of a block is Gumbel with location ln 16.
func TestLargestOfABlock(t *testing.T) {
	blockHistogram(t, "largest noise", draws(400_000, 100_000_000), 256, func(e *exponentials) float64 {
		g := math.Inf(-1)
		for _, x := range e {
			g = max(g, -math.Log(x))
		}
		return math.Exp(-math.Exp(-(g - math.Log(16))))
	})
}

// The k-th smallest of 16 lies above the one before by an exponential of mean 1/(16-k+1), independent of that one.
func TestSpacingsOfABlock(t *testing.T) {
	n := draws(100_000, 20_000_000)
	for k := 1; k < blockTokens; k++ {
		blockHistogram(t, fmt.Sprintf("spacing %d", k), n, 64, func(e *exponentials) float64 {
			s := e.sorted()
			return uniform((s[k] - s[k-1]) * float64(blockTokens-k))
		})
		blockHistogram(t, fmt.Sprintf("spacings %d and %d", k, k-1), n, 64, func(e *exponentials) float64 {
			s := e.sorted()
			before := s[k-1]
			if k > 1 {
				before -= s[k-2]
			}
			return (math.Floor(8*uniform(before*float64(blockTokens-k+1))) + uniform((s[k]-s[k-1])*float64(blockTokens-k))) / 8
		})
	}
}

// The sum of 16 is Gamma(16).
func TestSumOfABlock(t *testing.T) {
	blockHistogram(t, "sum", draws(400_000, 100_000_000), 256, func(e *exponentials) float64 {
		sum, term, tail := 0.0, 1.0, 0.0
		for _, x := range e {
			sum += x
		}
		for k := 1.0; k <= blockTokens; k++ {
			tail += term
			term *= sum / k
		}
		return 1 - math.Exp(-sum)*tail
	})
}

// All 120 pairs of a block are independent, those near the minimum too: an exponential scale of cells looks there.
func TestPairsOfABlock(t *testing.T) {
	const cells = 8
	n := draws(200_000, 20_000_000)
	cell := func(e float64) int { // of probability 1/2, 1/4, ..., 1/128, 1/128
		_, exp := math.Frexp(uniform(e))
		return min(-exp, cells-1)
	}
	share := func(c int) float64 { return math.Ldexp(1, -min(c+1, cells-1)) }
	prob := make([]float64, cells*cells)
	for i := range prob {
		prob[i] = share(i/cells) * share(i%cells)
	}
	parts := make([][blockTokens][blockTokens]*stats.Histogram, streams)
	eachBlock(n, func(i int) func(*exponentials) {
		h := &parts[i]
		forPairs(func(v, u int) { h[v][u] = stats.NewHistogram(fmt.Sprintf("tokens %d and %d", v, u), prob) })
		return func(e *exponentials) {
			var c [blockTokens]int
			for v, x := range e {
				c[v] = cell(x)
			}
			forPairs(func(v, u int) { h[v][u].Add(c[v]*cells + c[u]) })
		}
	})
	forPairs(func(v, u int) {
		for _, p := range parts[1:] {
			parts[0][v][u].Merge(p[v][u])
		}
		report(t, parts[0][v][u].Result())
	})
}

func forPairs(do func(v, u int)) {
	for v := range blockTokens {
		for u := range v {
			do(v, u)
		}
	}
}

// How many of a block's 16 lie below a limit is binomial, for limits from the tail to the bulk.
func TestCountsWithinABlock(t *testing.T) {
	n := draws(400_000, 100_000_000)
	for _, p := range []float64{1e-3, 1e-2, 1.0 / 16, 0.2, 0.5, 0.9} {
		prob := make([]float64, blockTokens+1)
		for k := range prob {
			prob[k] = binomial(blockTokens, k) * math.Pow(p, float64(k)) * math.Pow(1-p, float64(blockTokens-k))
		}
		parts := make([]*stats.Histogram, streams)
		limit := -math.Log1p(-p)
		eachBlock(n, func(i int) func(*exponentials) {
			parts[i] = stats.NewHistogram(fmt.Sprintf("how many of 16 below %v", p), prob)
			return func(e *exponentials) {
				count := 0
				for _, x := range e {
					if x < limit {
						count++
					}
				}
				parts[i].Add(count)
			}
		})
		for _, h := range parts[1:] {
			parts[0].Merge(h)
		}
		report(t, parts[0].Result())
	}
}

func binomial(n, k int) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}

// A block's exponentials order its tokens at random: 16 logits apart, the winner is a softmax's.
func TestSoftmaxWithinABlock(t *testing.T) {
	logits, prob, total := make([]float32, blockTokens), make([]float64, blockTokens), 0.0
	for v := range logits {
		logits[v] = float32(v) / 4
		prob[v] = math.Exp(float64(logits[v]))
		total += prob[v]
	}
	for v := range prob {
		prob[v] /= total
	}
	parts := make([]*stats.Histogram, streams)
	eachToken(logits, draws(1_000_000, 100_000_000), func(i int) func(int32) {
		parts[i] = stats.NewHistogram("softmax within a block", prob)
		return func(token int32) { parts[i].Add(int(token)) }
	})
	for _, h := range parts[1:] {
		parts[0].Merge(h)
	}
	report(t, parts[0].Result())
}

// The tail of every token's E, that is of large noise, and the tail where two of a block are in it.
func TestTailWithinABlock(t *testing.T) {
	n := draws(2_000_000, 1_000_000_000)
	limits := []float64{1e-2, 1e-3, 1e-4}
	one, two := make([][3]int64, streams), make([][3]int64, streams)
	eachBlock(n, func(i int) func(*exponentials) {
		return func(e *exponentials) {
			for j, limit := range limits {
				count := 0
				for _, x := range e {
					if x < limit {
						count++
					}
				}
				one[i][j] += int64(count)
				if count >= 2 {
					two[i][j]++
				}
			}
		}
	})
	for j, limit := range limits {
		ones, twos, p := int64(0), int64(0), uniform(limit)
		for i := range streams {
			ones, twos = ones+one[i][j], twos+two[i][j]
		}
		both := 1 - math.Pow(1-p, 16) - 16*p*math.Pow(1-p, 15)
		blocks := int64(n / streams * streams)
		report(t, stats.Binomial(fmt.Sprintf("below %v", limit), ones, 16*blocks, p),
			stats.Binomial(fmt.Sprintf("two of a block below %v", limit), twos, blocks, both))
	}
}
