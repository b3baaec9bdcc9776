//go:build !race

package sampler_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sampler"
)

// tieVocab is more than a list holds, and shardVocab more than two ranks send: what is listed first may overflow.
const (
	tieVocab   = 8192 + 512
	shardVocab = 2 * (2048 + 256)
)

// tied are rows whose equal logits leave ids to tell tokens apart, or whose order is against that of ids.
var tied = []struct {
	name  string
	logit func(rng *rand.Rand, id int) float64
}{
	{"all equal", func(*rand.Rand, int) float64 { return 0.3123 }}, // no bound of few bits
	{"four values", func(rng *rand.Rand, _ int) float64 { return float64(rng.IntN(4)) }},
	{"equal from an id on", func(_ *rand.Rand, id int) float64 { return float64(min(max(id-100, 0), 1)) }},
	{"rising", func(_ *rand.Rand, id int) float64 { return float64(id) / 4096 }},
	{"few above many equal", func(_ *rand.Rand, id int) float64 { return float64(max(id%2048-2044, 0)) }},
	{"one far above", func(rng *rand.Rand, id int) float64 {
		if id == 4000 {
			return 1e30
		}
		return 1 + rng.Float64()/64
	}},
	{"infinite", func(_ *rand.Rand, id int) float64 { return math.Inf(id%3 - 1) }},
}

// tiedRows makes the first n under filters of all sorts.
func tiedRows(rng *rand.Rand, t ir.Truncation, n, vocab int) (r sampler.Rows) {
	for b, row := range tied[:n] {
		for id := range vocab {
			r.Bias = append(r.Bias, float32(row.logit(rng, id)))
		}
		r.Seeds, r.Positions = append(r.Seeds, rng.Uint64()), append(r.Positions, uint64(b))
		r.Temperature = append(r.Temperature, []float32{5, 1, 0.3}[rng.IntN(3)])
		if t.TopK {
			r.TopK = append(r.TopK, []int32{0, 1, 50, 1024}[rng.IntN(4)])
		}
		if t.TopP {
			r.TopP = append(r.TopP, []float32{0, 0.001, 0.3, 0.9}[rng.IntN(4)])
		}
		if t.MinP {
			r.MinP = append(r.MinP, []float32{0, 1e-30, 0.01, 1}[rng.IntN(4)])
		}
	}
	return r
}

// tiedRow is one of them.
type tiedRow struct {
	sampler.Spec
	sampler.Rows
	row   int
	z     []float32
	lists int32 // how often a list may overflow until it holds
}

// mostPasses is what docs/truncation.md, section 3, has a row take at most, in whatever order CTAs come. A row with a k may have its list cut
// at the ids of ties, and too short, before that is all that overflows. A row that draws does so as often as its noise has it.
func (r *tiedRow) mostPasses() (most int32) {
	const first, short, split = 1, 1, 3
	if r.Truncation.TopK && r.TopK[r.row] > 0 {
		return first + short + 1 + r.lists
	}
	if most = first + 1 + r.lists; r.Truncation.TopP {
		most = first + 2*r.rounds() + r.lists
	}
	if r.LogProb == ir.ProcessedLogProb || r.Draws == ir.WithReplacement {
		most += split
	}
	return most
}

// rounds says how often a row draws by its noise: 64 tokens, until top-p keeps as many of them as are wanted, each time out of those that rank
// above the first that it drops.
func (r *tiedRow) rounds() (rounds int32) {
	const drawn = 64
	wanted, noise := 1, reference.Row(r.Seeds[r.row], r.Positions[r.row], 0, 0)
	if r.Draws != ir.SingleDraw {
		wanted = int(r.DrawCounts[r.row])
	}
	left, kept := r.ranked()
	for {
		rounds++
		scores, places := make([]float64, len(left)), make([]int, len(left))
		for i, id := range left {
			scores[i], places[i] = float64(r.z[id])/float64(r.Temperature[r.row])+noise.Bits(id).Gumbel(), i
		}
		slices.SortStableFunc(places, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
		top := places[:min(drawn, len(places))]
		slices.Sort(top)
		stay := slices.IndexFunc(top, func(i int) bool { return i >= kept })
		if stay < 0 || stay >= wanted || len(top) < drawn {
			return rounds
		}
		left = left[:top[stay]]
	}
}

// ranked are the tokens that weigh what min-p asks for, in order, and how many of them top-p keeps.
func (r *tiedRow) ranked() (order []int, kept int) {
	t, top, vocab := r.Temperature[r.row], slices.Max(r.z), len(r.z)
	if r.Truncation.TemperatureLast {
		t = 1
	}
	all, weights, total, least := make([]int, vocab), make([]uint64, vocab), uint64(0), uint64(0)
	for id, z := range r.z {
		all[id], weights[id] = id, ir.Weight(z, top, ir.WeightScale(t), vocab)
		total += weights[id]
	}
	slices.SortStableFunc(all, func(i, j int) int { return cmp.Compare(r.z[j], r.z[i]) })
	if r.Truncation.MinP {
		least = ir.MinPThreshold(r.MinP[r.row], vocab)
	}
	target, sum := ir.NucleusTarget(total, r.TopP[r.row]), uint64(0)
	for _, id := range all {
		if weights[id] >= least && !math.IsInf(float64(r.z[id]), -1) {
			if order = append(order, id); sum < target {
				kept = len(order)
			}
		}
		sum += weights[id]
	}
	return order, kept
}

// Rows of ties are decided whatever the order of CTAs, which no two calls have in common, in no more passes than they may take: beside
// reports, with several draws, and on ranks.
func TestPassesOfTies(t *testing.T) {
	for i, c := range []struct {
		ir.Truncation
		draws  ir.Draws
		mode   ir.LogProb
		top    int
		device string
		ranks  int
		rows   int
		vocab  int
		lists  int32
	}{
		{ir.Truncation{TopK: true, TopP: true, MinP: true, TemperatureLast: true}, ir.SingleDraw, ir.NoLogProb, 0, "sim:sm_90", 1, 7, tieVocab, 1},
		{ir.Truncation{TopP: true, MinP: true}, ir.WithoutReplacement, ir.ProcessedLogProb, 3, "sim:sm_100", 1, 7, tieVocab, 1},
		{ir.Truncation{TopK: true, TopP: true}, ir.WithReplacement, ir.RawLogProb, 0, "sim:sm_90", 1, 7, tieVocab, 1},
		{ir.Truncation{TopK: true, TopP: true, MinP: true}, ir.SingleDraw, ir.NoLogProb, 0, "sim:sm_100", 2, 3, shardVocab, 3},
	} {
		t.Run(fmt.Sprint(c.device, c.Items(), c.draws, c.ranks), func(t *testing.T) {
			const hidden = 8
			rng, n := rand.New(rand.NewPCG(uint64(i), 21)), c.rows
			rows, h := tiedRows(rng, c.Truncation, n, c.vocab), make([]uint16, n*hidden)
			spec := sampler.Spec{Chain: ir.Chain{Bias: ir.BiasMatrix, Temperature: true}, Truncation: c.Truncation, Draws: c.draws, LogProb: c.mode, TopN: c.top, Score: true, MaxBatch: n}
			if c.draws != ir.SingleDraw {
				for range n {
					rows.DrawCounts = append(rows.DrawCounts, int32(1+rng.IntN(8)))
				}
				spec.MaxDraws = 8
			}
			weights := sampler.Weights{Source: sampler.Matrix{Data: make([]uint16, c.vocab*hidden), Hidden: hidden}, Vocab: c.vocab, Hidden: hidden}
			want, got := sampler.SampleOne(t, "cpu", weights, spec, h, rows), sampleOnRanks(t, c.device, c.ranks, weights, spec, h, rows)
			requireDraws(t, want, got)
			near(t, want.LogProbs, got.LogProbs)
			require.Equal(t, want.TopIDs, got.TopIDs)
			for b, row := range tied[:n] {
				r := tiedRow{spec, rows, b, rows.Bias[b*c.vocab:][:c.vocab], c.lists}
				require.LessOrEqual(t, got.Passes[b], r.mostPasses(), "%s: %v", row.name, got.Passes)
			}
		})
	}
}

func sampleOnRanks(t *testing.T, device string, ranks int, w sampler.Weights, spec sampler.Spec, h []uint16, rows sampler.Rows) *sampler.Result {
	t.Helper()
	group, err := sampler.OpenGroup(t.Context(), sampler.GroupConfig{Devices: slices.Repeat([]string{device}, ranks)})
	require.NoError(t, err)
	head, err := group.LoadHead(t.Context(), w, nil)
	require.NoError(t, err)
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	res, err := plan.Sample(t.Context(), h, rows)
	require.NoError(t, err)
	return res
}
