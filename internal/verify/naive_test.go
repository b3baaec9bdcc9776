package verify

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sampler"
)

// naive samples token by token, with a place for every fault that arithmetic can have; the zero value has none.
type naive struct {
	noise    func(x reference.Bits) float64 // of the random bits
	logit    func(z float32) float32        // after the transforms
	compared func(s float32) float32        // the score
	wins     func(s, best float32) bool     // against the best before
	nan      func() (float32, bool)         // stands for a NaN; false drops the token
	vocab    func(v int) int                // tokens looked at
	coin     func(t float32) (a, b float32) // alpha and tau
}

// sample checks the call like the CPU, and then computes it on its own.
func (n naive) sample(p *lensPlan, hidden []uint16, r sampler.Rows) (*sampler.Result, error) {
	res, err := p.plan.Sample(p.ctx(), hidden, r)
	if err != nil {
		return nil, err
	}
	if res.Seeds != nil {
		r.Seeds = res.Seeds
	}
	req := p.problem(hidden, r).request()
	for b := range res.Tokens {
		token, status, score := n.row(req, b)
		res.Tokens[b], res.Status[b] = token, status
		if res.Scores != nil {
			res.Scores[b] = score
		}
	}
	return res, nil
}

func (n naive) row(q *reference.Request, b int) (int32, ir.Status, float32) {
	t := float32(1)
	if q.Computation.Chain.Temperature {
		t = q.Temperature[min(b, len(q.Temperature)-1)]
	}
	score := n.scorer(q, b, t)
	token, best, status := int32(ir.NoToken), -inf32, ir.StatusEmpty
	for v := range n.tokens(q.Shape.Vocab) {
		if !allowed(q, b, v) {
			continue
		}
		s, keep := score(v)
		switch {
		case !keep:
		case s != s:
			return ir.NoToken, ir.StatusNaN, nan32
		case n.better(s, best):
			token, best, status = int32(v), s, ir.StatusOK
		}
	}
	if status != ir.StatusOK {
		return token, status, nan32
	}
	if q.Computation.Sampler == ir.Gumbel && t > 0 && t < 1 {
		best /= t
	}
	return token, status, best
}

func (n naive) tokens(vocab int) int {
	if n.vocab != nil {
		return n.vocab(vocab)
	}
	return vocab
}

// scorer gives a row's scores; false for a token that is dropped.
func (n naive) scorer(q *reference.Request, b int, t float32) func(v int) (float32, bool) {
	greedy := q.Computation.Sampler == ir.Greedy || t == 0
	var state reference.RowState
	if !greedy {
		state = reference.Row(q.Seeds[min(b, len(q.Seeds)-1)], q.Positions[min(b, len(q.Positions)-1)], q.Draw, q.StreamTag)
	}
	columns := used(q, b)
	return func(v int) (s float32, keep bool) {
		s, keep = n.transformed(q, b, v, columns), true
		if s != s && n.nan != nil {
			s, keep = n.nan()
		}
		if !greedy {
			s = n.noisy(s, t, state.Bits(v))
		}
		if n.compared != nil {
			s = n.compared(s)
		}
		return s, keep
	}
}

func (n naive) better(s, best float32) bool {
	if n.wins != nil {
		return n.wins(s, best)
	}
	return s > best
}

func (n naive) noisy(z, t float32, x reference.Bits) float32 {
	noise := reference.Bits.Gumbel
	if n.noise != nil {
		noise = n.noise
	}
	g := noise(x)
	if n.coin != nil {
		a, tau := n.coin(t)
		return z*a + tau*float32(g)
	}
	if t > 1 {
		return float32(float64(z)*float64(float32(1/t)) + g)
	}
	return float32(float64(z) + float64(t)*g)
}

// used are the columns in which a row's hidden state is not 0, which planted heads have one of.
func used(q *reference.Request, b int) (columns []int) {
	for k, h := range q.H[b*q.Shape.Hidden:][:q.Shape.Hidden] {
		if h<<1 != 0 {
			columns = append(columns, k)
		}
	}
	return columns
}

func (n naive) transformed(q *reference.Request, b, v int, columns []int) float32 {
	c, y := q.Computation.Chain, float32(0)
	h, w := q.H[b*q.Shape.Hidden:], q.W[v*q.Shape.Hidden:]
	for _, k := range columns {
		y += float32(widen(h[k])) * float32(widen(w[k]))
	}
	if c.Scale != 0 {
		y *= c.Scale
	}
	if c.Softcap != 0 {
		y = c.Softcap * float32(math.Tanh(float64(y/c.Softcap)))
	}
	if c.Bias != ir.BiasNone {
		y += q.Bias[b*q.BiasStride+v]
	}
	if n.logit != nil {
		y = n.logit(y)
	}
	return y
}

func allowed(q *reference.Request, b, v int) bool {
	listOf := func(lists [][]int32) []int32 { // of the row, or of all rows
		if len(lists) == 0 {
			return nil
		}
		return lists[min(b, len(lists)-1)]
	}
	if allow := listOf(q.AllowIDs); allow != nil && !slices.Contains(allow, int32(v)) || slices.Contains(listOf(q.BanIDs), int32(v)) {
		return false
	}
	if !q.Computation.Chain.Mask {
		return true
	}
	return v>>5 < q.MaskWords && q.Mask[b*q.MaskStride+v>>5]>>(v&31)&1 == 1
}

// coarse is the noise of random numbers cut to some bits.
func coarse(bits int) func(x reference.Bits) float64 {
	exponential := func(x uint64) float64 {
		return -math.Log1p(-(float64(x>>(64-bits)) + 0.5) / math.Ldexp(1, bits))
	}
	return func(x reference.Bits) float64 { return noiseOf(x, exponential(x.Block)/16, exponential(x.Token)) }
}

// noiseOf is the noise for a block's minimum and what a token adds to it.
func noiseOf(x reference.Bits, minimum, own float64) float64 {
	if x.First {
		own = 0
	}
	return -math.Log(minimum + own)
}

// naiveFaults are faults of arithmetic and order.
var naiveFaults = []fault{
	{"noise of 24 bits", naive{noise: coarse(24)}.lens(), "quick", []string{"random heads: gumbel, none"}},
	{"noise in bf16", naive{noise: func(x reference.Bits) float64 { return widen(bf16(float32(x.Gumbel()))) }}.lens(),
		"quick", []string{"random heads: gumbel, none"}},
	{"the minimum of a block is that of one token", naive{noise: func(x reference.Bits) float64 {
		return noiseOf(x, reference.Exponential(x.Block), reference.Exponential(x.Token))
	}}.lens(), "quick", []string{"random heads: gumbel, none"}},
	{"the first of a block adds to the minimum", naive{noise: func(x reference.Bits) float64 {
		return -math.Log(reference.Exponential(x.Block)/16 + reference.Exponential(x.Token))
	}}.lens(), "quick", []string{"random heads: gumbel, none"}},
	{"the minimum of a block is not added", naive{noise: func(x reference.Bits) float64 {
		if x.First {
			return x.Gumbel()
		}
		return noiseOf(x, 0, reference.Exponential(x.Token))
	}}.lens(), "quick", []string{"random heads: gumbel, none"}},
	{"logits in bf16", naive{logit: func(z float32) float32 { return float32(widen(bf16(z))) }}.lens(),
		"quick", []string{"random heads: greedy, none", "random heads: gumbel, none"}},
	{"scores compared in bf16", naive{compared: func(s float32) float32 { return float32(widen(bf16(s))) }}.lens(),
		"quick", []string{"random heads: gumbel, none"}},
	{"ties go to the highest id", naive{wins: func(s, best float32) bool { return s >= best && s > -inf32 }}.lens(),
		"degenerate", []string{"signed zeros", "equal maxima"}},
	{"NaN is 0", naive{nan: func() (float32, bool) { return 0, true }}.lens(),
		"degenerate", []string{"a row of NaN", "NaN and infinite", "NaN at every"}},
	{"NaN is -inf", naive{nan: func() (float32, bool) { return 0, false }}.lens(), "degenerate", []string{"NaN and infinite", "NaN at every"}},
	{"the last token is forgotten", naive{vocab: func(v int) int { return v - 1 }}.lens(), "degenerate", []string{"small shapes"}},
	{"a broken tile is forgotten", naive{vocab: func(v int) int { return max(1, v/128*128) }}.lens(),
		"degenerate", []string{"small shapes, V=3", "small shapes, V=129"}},
	{"z is divided by a tiny temperature", naive{coin: func(t float32) (float32, float32) { return 1 / t, 1 }}.lens(),
		"degenerate", []string{"tiny temperatures"}},
	{"+inf loses", naive{wins: func(s, best float32) bool { return s > best && s < inf32 }}.lens(), "degenerate", []string{"NaN and infinite", "infinite weights"}},
	{"minus zero is below zero", naive{wins: func(s, best float32) bool {
		return s > best || s == 0 && best == 0 && math.Signbit(float64(best)) && !math.Signbit(float64(s))
	}}.lens(), "degenerate", []string{"signed zeros"}},
}

func (n naive) lens() *lens { return &lens{sample: n.sample} }

// Without a fault, the naive sampler passes: what fails above fails for its fault alone.
func TestNaivePasses(t *testing.T) {
	dev := &lens{target: device{cpu(t)}, sample: naive{}.sample}
	for _, suite := range []string{"quick", "degenerate"} {
		checks := only(t, dev, Options{Suite: suite, Seed: 1}, func(it item) bool { return named(naiveFaults, it) && !truncates(it) })
		for _, c := range checks {
			require.True(t, c.OK, "%s: %s", c.Name, c.Detail)
		}
		require.NotEmpty(t, checks)
	}
}

// named reports whether one of the faults is to be found by the check.
func named(faults []fault, it item) bool {
	return slices.ContainsFunc(faults, func(f fault) bool {
		return slices.ContainsFunc(f.checks, func(prefix string) bool { return strings.HasPrefix(it.name, prefix) })
	})
}
