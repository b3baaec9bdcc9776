package reference

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
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

// blockStatistic is a number that is uniform on [0, 1) for independent exponentials; in s they are in ascending order.
type blockStatistic struct {
	name  string
	cells int
	of    func(e, s *exponentials) float64
}

// judgeBlocks counts over n blocks in which of its cells, all of one probability, each statistic falls.
func judgeBlocks(t *testing.T, n int, statistics ...blockStatistic) {
	t.Helper()
	parts := make([][]*stats.Histogram, streams)
	eachBlock(n, func(i int) func(*exponentials) {
		for _, c := range statistics {
			prob := slices.Repeat([]float64{1 / float64(c.cells)}, c.cells)
			parts[i] = append(parts[i], stats.NewHistogram(c.name, prob))
		}
		return func(e *exponentials) {
			s := *e
			slices.Sort(s[:])
			for j, c := range statistics {
				parts[i][j].Add(min(int(c.of(e, &s)*float64(c.cells)), c.cells-1))
			}
		}
	})
	for j, h := range parts[0] {
		for _, p := range parts[1:] {
			h.Merge(p[j])
		}
		report(t, h.Result())
	}
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

// Every token alone is a standard exponential, wherever it stands in its block.
func TestEachPlaceOfABlock(t *testing.T) {
	var all []blockStatistic
	for v := range blockTokens {
		all = append(all, blockStatistic{fmt.Sprintf("place %d", v), 64, func(e, _ *exponentials) float64 { return uniform(e[v]) }})
	}
	judgeBlocks(t, draws(200_000, 100_000_000), all...)
}

// The smallest stands anywhere in the block, whatever it is.
func TestPlaceOfTheLeast(t *testing.T) {
	judgeBlocks(t, draws(400_000, 100_000_000),
		blockStatistic{"place of the least", 16, func(e, _ *exponentials) float64 { return (float64(e.least()) + 0.5) / 16 }},
		blockStatistic{"place and value of the least", 16 * 16, func(e, s *exponentials) float64 {
			return (float64(e.least()) + uniform(16*s[0])) / 16
		}})
}

// The largest noise of a block is Gumbel with location ln 16, and the sum of the exponentials is Gamma(16).
func TestLargestAndSumOfABlock(t *testing.T) {
	judgeBlocks(t, draws(400_000, 100_000_000),
		blockStatistic{"largest noise", 256, func(e, _ *exponentials) float64 {
			g := math.Inf(-1)
			for _, x := range e {
				g = max(g, -math.Log(x))
			}
			return math.Exp(-math.Exp(-(g - math.Log(16))))
		}},
		blockStatistic{"sum", 256, func(e, _ *exponentials) float64 {
			sum, term, tail := 0.0, 1.0, 0.0
			for _, x := range e {
				sum += x
			}
			for k := 1.0; k <= blockTokens; k++ {
				tail += term
				term *= sum / k
			}
			return 1 - math.Exp(-sum)*tail
		}})
}

// The k-th smallest of 16, counted from 0, lies above the one before by an exponential of mean 1/(16-k), which is
// independent of the step before it.
func TestSpacingsOfABlock(t *testing.T) {
	step := func(s *exponentials, k int) float64 {
		if k == 0 {
			return uniform(s[0] * blockTokens)
		}
		return uniform((s[k] - s[k-1]) * float64(blockTokens-k))
	}
	var all []blockStatistic
	for k := 1; k < blockTokens; k++ {
		all = append(all,
			blockStatistic{fmt.Sprintf("step %d", k), 64, func(_, s *exponentials) float64 { return step(s, k) }},
			blockStatistic{fmt.Sprintf("steps %d and %d", k-1, k), 64, func(_, s *exponentials) float64 {
				return (math.Floor(8*step(s, k-1)) + step(s, k)) / 8
			}})
	}
	judgeBlocks(t, draws(100_000, 20_000_000), all...)
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
	eachToken(ir.Gumbel, logits, draws(1_000_000, 100_000_000), func(i int) func(int32) {
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
