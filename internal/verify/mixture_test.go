package verify

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

func shapeOf(w sampler.Weights) ir.Shape { return ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden} }

func (p *lensPlan) ctx() context.Context { return context.Background() }

// mixture samples from the right distribution without a look at every token: tokens of equal logits form a group, whose
// best is drawn at once. All rows of a call must have one hidden state, as they have in the suite "exact". It runs the
// statistics at the sizes of a GPU in seconds, with a place for faults of distributions.
type mixture struct {
	once   sync.Once
	groups []group
}

// group is the tokens of one logit.
type group struct {
	logit  float64
	tokens []int32
}

// draw is how one row is sampled.
type draw struct {
	// key seeds the row.
	key func(seed, position uint64, draw, tag uint32) (uint64, uint64)
	// smallest turns the smallest of n uniform numbers into the one that is used.
	smallest func(w float64) float64
	// pick takes a token of the winning group.
	pick func(rng *rand.Rand, g group, seed, position uint64) int32
	// spec is what is computed.
	spec func(s sampler.Spec) sampler.Spec
	// mask, false, ignores it.
	ignoreMask bool
}

func (d draw) sample(p *lensPlan, hidden []uint16, r sampler.Rows) (*sampler.Result, error) {
	p.once.Do(func() { p.groups = d.group(p.problem(hidden, r)) })
	n := len(hidden) / p.w.Hidden
	res := &sampler.Result{Tokens: make([]int32, n), Status: make([]ir.Status, n)}
	pcg := rand.NewPCG(0, 0)
	rng := rand.New(pcg)
	for b := range n {
		seed, at := r.Seeds[min(b, len(r.Seeds)-1)], r.Positions[min(b, len(r.Positions)-1)]
		k0, k1 := mix(seed, at, r.Draw, r.StreamTag)
		if d.key != nil {
			k0, k1 = d.key(seed, at, r.Draw, r.StreamTag)
		}
		pcg.Seed(k0, k1)
		res.Tokens[b] = d.row(rng, p.groups, seed, at)
	}
	return res, nil
}

func mix(seed, position uint64, draw, tag uint32) (uint64, uint64) {
	return seed*0x9E3779B97F4A7C15 ^ uint64(tag)<<7, position*0xD1B54A32D192ED03 ^ uint64(draw)*0x2545F4914F6CDD1D
}

func (d draw) row(rng *rand.Rand, groups []group, seed, position uint64) int32 {
	best, winner := math.Inf(-1), groups[0]
	for _, g := range groups {
		// The smallest of n exponential variables.
		w := -math.Expm1(-rng.ExpFloat64() / float64(len(g.tokens)))
		if d.smallest != nil {
			w = d.smallest(w)
		}
		if s := g.logit - math.Log(-math.Log1p(-w)); s > best {
			best, winner = s, g
		}
	}
	if d.pick != nil {
		return d.pick(rng, winner, seed, position)
	}
	return winner.tokens[rng.IntN(len(winner.tokens))]
}

// group sorts the tokens of a problem's first row by their logits.
func (d draw) group(pr *problem) (out []group) {
	if d.spec != nil {
		pr.spec = d.spec(pr.spec)
	}
	req := pr.pick([]int{0}).request()
	index, columns := map[float32]int{}, used(req, 0)
	for v := range pr.shape.Vocab {
		if !d.ignoreMask && !allowed(req, 0, v) {
			continue
		}
		z := naive{}.transformed(req, 0, v, columns)
		i, ok := index[z]
		if !ok {
			i = len(out)
			index[z] = i
			out = append(out, group{logit: float64(z)})
			if c := req.Computation.Chain; c.Temperature {
				out[i].logit /= float64(req.Temperature[0])
			}
		}
		out[i].tokens = append(out[i].tokens, int32(v))
	}
	return out
}

// mixtureFaults are faults of distributions, and the statistics that must see them.
var mixtureFaults = []struct {
	name   string
	draw   draw
	checks []string
}{
	{"noise of 24 bits", draw{smallest: func(w float64) float64 { return (math.Floor(w*(1<<24)) + 0.5) / (1 << 24) }}, []string{"rare tokens"}},
	{"noise of 32 bits with an end", draw{smallest: func(w float64) float64 { return math.Max(w, 1.0/(1<<26)) }}, []string{"rare tokens"}},
	{"three ties in a hundred go to the lower id", draw{pick: func(rng *rand.Rand, g group, _, _ uint64) int32 {
		i := rng.IntN(len(g.tokens))
		if rng.IntN(100) < 3 {
			i = min(i, rng.IntN(len(g.tokens)))
		}
		return g.tokens[i]
	}}, []string{"equal logits", "halves and tenths"}},
	{"one lane of sixteen is favoured", draw{pick: func(rng *rand.Rand, g group, _, _ uint64) int32 {
		i := rng.IntN(len(g.tokens))
		if rng.IntN(100) == 0 {
			i &^= 15
		}
		return g.tokens[i]
	}}, []string{"equal logits"}},
	{"the last token never comes", draw{pick: func(rng *rand.Rand, g group, _, _ uint64) int32 { return g.tokens[rng.IntN(max(1, len(g.tokens)-512))] }},
		[]string{"equal logits"}},
	{"seeds shift the draw", draw{key: func(_, at uint64, d, tag uint32) (uint64, uint64) { return mix(0, at, d, tag) },
		pick: func(rng *rand.Rand, g group, seed, _ uint64) int32 {
			return g.tokens[(rng.Uint64N(uint64(len(g.tokens)))+seed*17)%uint64(len(g.tokens))]
		}}, []string{"rows with seeds", "draws of one step", "seeds that differ"}},
	{"the seed is ignored", draw{key: func(_, at uint64, d, tag uint32) (uint64, uint64) { return mix(0, at, d, tag) }},
		[]string{"rows with seeds", "consecutive seeds", "seeds that differ"}},
	{"the draw is ignored", draw{key: func(seed, at uint64, _, tag uint32) (uint64, uint64) { return mix(seed, at, 0, tag) }}, []string{"draws of one step"}},
	{"the position is ignored", draw{key: func(seed, _ uint64, d, tag uint32) (uint64, uint64) { return mix(seed, 0, d, tag) }},
		[]string{"equal logits", "consecutive positions", "softmax"}},
	{"positions go in pairs", draw{key: func(seed, at uint64, d, tag uint32) (uint64, uint64) { return mix(seed, at>>1, d, tag) }},
		[]string{"equal logits", "consecutive positions"}},
	{"the temperature is ignored", draw{spec: func(s sampler.Spec) sampler.Spec { s.Chain.Temperature = false; return s }}, []string{"softmax"}},
	{"the softcap is forgotten", draw{spec: func(s sampler.Spec) sampler.Spec { s.Chain.Softcap = 0; return s }}, []string{"scale, softcap"}},
	{"the bias is forgotten", draw{spec: func(s sampler.Spec) sampler.Spec { s.Chain.Bias = ir.BiasNone; return s }}, []string{"scale, softcap"}},
	{"the mask is ignored", draw{ignoreMask: true}, []string{"a masked distribution"}},
	{"the heavier half weighs too much", draw{spec: func(s sampler.Spec) sampler.Spec { s.Chain.Scale = 1.2; return s }}, []string{"two halves"}},
}

// onGPU gives a device the sizes of a GPU.
func onGPU(i sampler.Info) sampler.Info { i.Arch = "none"; return i }

// mixtureDraws is enough for the statistics to tell every fault from chance.
const mixtureDraws = 5_000_000

func TestExactPassesOnTheMixture(t *testing.T) {
	dev := &lens{target: device{cpu(t)}, info: onGPU, sample: draw{}.sample}
	for _, c := range only(t, dev, Options{Suite: "exact", Seed: 1, Draws: mixtureDraws}, func(it item) bool { return !truncates(it) && !drawsSeveral(it) }) {
		require.True(t, c.OK, "%s: %s", c.Name, c.Detail)
		t.Log(c.Name, c.Elapsed, c.Detail)
	}
}

func TestExactFindsPlantedFaults(t *testing.T) {
	for _, f := range mixtureFaults {
		t.Run(f.name, func(t *testing.T) {
			dev := &lens{target: device{cpu(t)}, info: onGPU, sample: f.draw.sample}
			fails(t, dev, Options{Suite: "exact", Seed: 1, Draws: mixtureDraws}, f.checks...)
		})
	}
	var names []string
	for _, f := range mixtureFaults {
		names = append(names, f.checks...)
	}
	for _, f := range drawFaults {
		names = append(names, f.check)
	}
	for _, it := range exact(nil) {
		name := strings.TrimPrefix(it.name, "grouped: ") // the same statistic
		require.True(t, slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n) }), "no fault makes %q fail", it.name)
	}
}
