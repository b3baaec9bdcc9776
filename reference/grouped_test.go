package reference

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

// softmax of logits at a temperature.
func softmax(logits []float32, temperature float64) []float64 {
	var all mass
	for _, l := range logits {
		all.add(float64(l) / temperature)
	}
	prob := make([]float64, len(logits))
	for v, l := range logits {
		prob[v] = math.Exp(float64(l)/temperature - all.log())
	}
	return prob
}

// uneven has one block that is one token, one of 16 equals, and one of which the vocabulary leaves two tokens.
func uneven() []float32 {
	logits := make([]float32, 34)
	for v := range logits {
		logits[v] = negInf
	}
	logits[3] = float32(math.Log(0.5))
	for v := 16; v < 32; v++ {
		logits[v] = float32(math.Log(0.25 / 16))
	}
	logits[32], logits[33] = float32(math.Log(0.05)), float32(math.Log(0.2))
	return logits
}

// peaked has a token of nearly all the mass, in a block with others and beside one without it.
func peaked() []float32 {
	logits := normals(45, 1, 8)
	logits[21] = 9
	return logits
}

// Blocks with one likely token, with 16 and with none; cut ones; tokens of probability 0: every token as often as it should.
func TestGroupedDistributions(t *testing.T) {
	for _, logits := range [][]float32{
		{0, 0}, {1, 0, -2}, normals(16, 1, 5), normals(17, 2, 6), normals(50, 2, 7), peaked(), uneven(), normals(160, 3, 9),
	} {
		histograms := make([]*stats.Histogram, streams)
		eachToken(ir.Grouped, logits, draws(400_000, 100_000_000), func(i int) func(int32) {
			histograms[i] = stats.NewHistogram("distribution", softmax(logits, 1))
			return func(token int32) { histograms[i].Add(int(token)) }
		})
		for _, h := range histograms[1:] {
			histograms[0].Merge(h)
		}
		report(t, histograms[0].Result())
	}
}

func TestGroupedUniformDraws(t *testing.T) {
	report(t, uniformDraws(ir.Grouped, 151936, draws(4_000, 2_000_000), 0.5, 0.1)...)
	report(t, uniformDraws(ir.Grouped, 1187, draws(200_000, 20_000_000), 0.5, 0.1)...)
}

// Both sides of T = 1, with a mask: what is compared is scaled differently.
func TestGroupedTemperatures(t *testing.T) {
	logits := normals(40, 2, 11)
	ids := []int{0, 3, 4, 8, 11, 15, 16, 20, 24, 31, 38, 39}
	allowed := make([]float32, len(ids))
	for i, v := range ids {
		allowed[i] = logits[v]
	}
	for _, temperature := range []float32{0.1, 0.5, 0.99, 1, 1.01, 2, 10} {
		h := stats.NewHistogram("distribution", softmax(allowed, float64(temperature)))
		const batch = 1000
		for first := 0; first < draws(100_000, 1_000_000); first += batch {
			r := computing(ir.Computation{Sampler: ir.Grouped}, flat(batch, logits))
			allowing(withTemperature(r, temperature), ids...)
			r.Positions = []uint64{uint64(first)}
			for _, token := range sample(t, r).Tokens {
				for i, v := range ids {
					if v == int(token) {
						h.Add(i)
					}
				}
			}
		}
		report(t, h.Result())
	}
}

// plainRow is a grouped row without transforms.
var plainRow = row{alpha: 1, tau: 1, t: 1, grouped: true}

// blockOf is a group of one block with the logits given.
func blockOf(logits []float32) *group {
	var g group
	var b best
	w := plainRow
	w.logits(&b, &g, 0, logits)
	return &g
}

// early is the chance that an exponential wins at a rate below another's, given that its bits begin with so many zeros: the
// integral over [0, q] of e^-x e^(-x/ratio), divided by the chance of the zeros.
func early(zeros int, ratio float64) float64 {
	q := -math.Log1p(-math.Ldexp(1, -zeros))
	return -math.Expm1(-q*(1+1/ratio)) / (1 + 1/ratio) * math.Ldexp(1, zeros)
}

// A token of a billionth of its block's mass and less, whose own bits are given the leading zeros without which it could not
// win: it wins as often as its mass says, at every place.
func TestTailInsideABlock(t *testing.T) {
	n := draws(400_000, 40_000_000)
	for _, c := range []struct {
		ratio float64
		zeros int
	}{{1e-3, 8}, {1e-6, 18}, {1e-9, 27}, {1e-12, 37}, {1e-15, 48}} {
		hits := make([]int64, streams)
		parallel(streams, func(i int) {
			rng := rand.New(rand.NewPCG(uint64(i), math.Float64bits(c.ratio)))
			place := i % blockTokens
			logits := make([]float32, blockTokens)
			logits[place] = float32(math.Log(15 * c.ratio))
			g, w := blockOf(logits), plainRow
			var own [blockTokens]uint64
			for range n / streams {
				for j := range own {
					own[j] = rng.Uint64()
				}
				own[place] >>= c.zeros
				if w.race(g, &own) == int32(place) {
					hits[i]++
				}
			}
		})
		report(t, stats.Binomial("tail of a block", sum(hits), int64(n/streams*streams), early(c.zeros, math.Exp(float64(float32(math.Log(15*c.ratio))))/15)))
	}
}

// The same between two blocks: the one has a small share of the other's mass.
func TestTailBetweenBlocks(t *testing.T) {
	n := draws(400_000, 40_000_000)
	for _, c := range []struct {
		gap   float32
		zeros int
	}{{7, 8}, {14, 18}, {20.5, 28}, {30, 42}, {36, 51}} {
		hits := make([]int64, streams)
		parallel(streams, func(i int) {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(c.zeros)))
			w, many := plainRow, make([]float32, blockTokens)
			one := blockOf([]float32{c.gap - 2, c.gap - 2, c.gap - 1})
			few := blockOf(many[:1+i%blockTokens])
			for range n / streams {
				x, rare := rng.Uint64(), rng.Uint64()>>c.zeros
				if w.blockScore(few, math.Log(Exponential(rare))) > w.blockScore(one, math.Log(Exponential(x))) {
					hits[i]++
				}
			}
		})
		mean := 0.0
		for i := range streams {
			mass := math.Exp(float64(c.gap)) * (2*math.Exp(-2) + math.Exp(-1))
			mean += early(c.zeros, float64(1+i%blockTokens)/mass) / streams
		}
		report(t, stats.Binomial("tail between blocks", sum(hits), int64(n/streams*streams), mean))
	}
}

func sum(counts []int64) (total int64) {
	for _, n := range counts {
		total += n
	}
	return total
}

// The block that wins says nothing of the token inside: in each half of the block scores, tokens come as in the other.
func TestBlockAndTokenAreIndependent(t *testing.T) {
	logits := normals(16, 1, 13)
	low, high := stats.NewHistogram("tokens of low blocks", softmax(logits, 1)), stats.NewHistogram("tokens of high blocks", softmax(logits, 1))
	const batch = 2000
	for first := 0; first < draws(200_000, 4_000_000); first += batch {
		r := computing(ir.Computation{Sampler: ir.Grouped}, flat(batch, logits))
		r.Positions = []uint64{uint64(first)}
		res := sample(t, r)
		for b, token := range res.Tokens {
			if x, _ := Row(uint64(b), uint64(first), 0, 0).Block(0); x>>63 == 0 {
				high.Add(int(token))
			} else {
				low.Add(int(token))
			}
		}
	}
	report(t, low.Result(), high.Result())
}

// T = 0 is the greedy sampler to the bit, ties and infinities too.
func TestGroupedGreedyRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range 50 {
		logits := normals(1+rng.IntN(400), []float64{1, 1e-30, 1e30}[i%3], rng.Uint64())
		for range rng.IntN(5) {
			logits[rng.IntN(len(logits))] = []float32{3, inf(), negInf, logits[0]}[rng.IntN(4)]
		}
		grouped := withTemperature(computing(ir.Computation{Sampler: ir.Grouped, LogSumExp: true}, flat(1, logits)), 0)
		greedy := computing(ir.Computation{Sampler: ir.Greedy, LogSumExp: true}, flat(1, logits))
		require.Equal(t, sample(t, greedy), sample(t, grouped))
	}
}

// A block's mass counts equals, also where no temperature could tell their neighbours apart and where they are infinite.
func TestLogMass(t *testing.T) {
	for _, tau := range []float32{1e-45, 1e-30, 0.5, 1} {
		w := plainRow
		w.tau, w.t = tau, tau
		require.InDelta(t, math.Log(16), w.logMass(blockOf(make([]float32, 16))), 1e-15)
		require.InDelta(t, math.Log(2), w.logMass(blockOf([]float32{inf(), 3e38, inf(), 1})), 1e-15)
		require.Zero(t, w.logMass(blockOf([]float32{-7})))
		require.Zero(t, w.logMass(blockOf([]float32{3e38, -3e38, negInf})))
	}
	w := plainRow
	require.InDelta(t, math.Log(1+math.Exp(-1)), w.logMass(blockOf([]float32{5, 6})), 1e-15)
}

// Noise that is injected is of tokens; a grouped sampler has none such.
func TestGroupedTakesNoNoise(t *testing.T) {
	r := computing(ir.Computation{Sampler: ir.Grouped}, flat(1, []float32{1, 2}))
	r.Noise = []float32{0, 0}
	require.ErrorContains(t, r.Validate(), "none for a grouped sampler")
}
