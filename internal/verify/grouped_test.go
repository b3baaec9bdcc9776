package verify

import (
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sampler"
)

// grouping is a grouped sampler, token by token, with a place for the faults that it can have; the zero value has none.
type grouping struct {
	size   int                                      // of a block; 0 is 16
	mass   func(sum float64, n int) float64         // of the block's sum, relative to its top, of n tokens
	draw   func(e float64) float64                  // the block's exponential
	own    func(s reference.RowState, v int) uint64 // a token's bits
	tau    func(t float64) float64                  // of the race inside
	last   bool                                     // ties inside go to the last
	masked bool                                     // masked tokens weigh, and never win
}

// lens samples tokens of grouped plans so, and leaves statuses to the device.
func (g grouping) lens() *lens {
	if g.size == 0 {
		g.size = 16
	}
	return &lens{out: func(p *lensPlan, hidden []uint16, r sampler.Rows, res *sampler.Result) {
		if p.spec.Sampler != ir.Grouped {
			return
		}
		req := p.problem(hidden, r).request()
		for b := range res.Tokens {
			t := float32(1)
			if req.Computation.Chain.Temperature {
				t = req.Temperature[min(b, len(req.Temperature)-1)]
			}
			if res.Status[b] == ir.StatusOK && t != 0 {
				g.row(req, b, t, res)
			}
		}
	}}
}

func (g grouping) row(q *reference.Request, b int, t float32, res *sampler.Result) {
	state := reference.Row(q.Seeds[min(b, len(q.Seeds)-1)], q.Positions[min(b, len(q.Positions)-1)], q.Draw, q.StreamTag)
	best, columns := math.Inf(-1), used(q, b)
	for first := 0; first < q.Shape.Vocab; first += g.size {
		token, top, sum := g.block(q, b, first, float64(t), state, columns)
		x, _ := state.Block(first)
		e := reference.Exponential(x)
		if g.draw != nil {
			e = g.draw(e)
		}
		if score := top/float64(t) + math.Log(sum) - math.Log(e); score > best && token >= 0 {
			best, res.Tokens[b] = score, token
		}
	}
	if res.Scores != nil {
		res.Scores[b] = float32(best)
	}
}

// block is the token of a block, its largest logit and its mass relative to that.
func (g grouping) block(q *reference.Request, b, first int, t float64, state reference.RowState, columns []int) (int32, float64, float64) {
	token, top, sum, n, best := int32(-1), math.Inf(-1), 0.0, 0, math.Inf(-1)
	tau := t
	if g.tau != nil {
		tau = g.tau(t)
	}
	for v := first; v < min(first+g.size, q.Shape.Vocab); v++ {
		z := float64(naive{}.transformed(q, b, v, columns))
		if free := allowed(q, b, v); !free && !g.masked || math.IsInf(z, -1) {
			continue
		} else if z > top {
			top, sum = z, sum*math.Exp((top-z)/t)
		}
		n++
		if z == top {
			sum++
		} else {
			sum += math.Exp((z - top) / t)
		}
		if s := z - tau*math.Log(reference.Exponential(g.bits(state, v))); allowed(q, b, v) && (s > best || s == best && g.last) {
			token, best = int32(v), s
		}
	}
	if g.mass != nil {
		sum = g.mass(sum, n)
	}
	return token, top, sum
}

func (g grouping) bits(state reference.RowState, v int) uint64 {
	if g.own != nil {
		return g.own(state, v)
	}
	return state.Token(v)
}

// groupedFaults are faults of the grouped sampler and of the log-sum-exp.
var groupedFaults = []fault{
	{"the other sampler", &lens{spec: func(s sampler.Spec) sampler.Spec {
		if s.Sampler == ir.Grouped {
			s.Sampler = ir.Gumbel
		}
		return s
	}}, "quick", []string{"random heads: grouped, none", "grouped: rows that cannot"}},
	{"a block weighs as its largest token", grouping{mass: func(float64, int) float64 { return 1 }}.lens(), "quick", []string{"random heads: grouped, none"}},
	{"a block weighs as so many of its largest", grouping{mass: func(_ float64, n int) float64 { return float64(n) }}.lens(),
		"quick", []string{"random heads: grouped, temperature"}},
	{"a cut block weighs as a whole one", grouping{mass: func(sum float64, n int) float64 { return sum * 16 / float64(max(n, 1)) }}.lens(),
		"degenerate", []string{"grouped: small shapes, V=33"}},
	{"masked tokens weigh", grouping{masked: true}.lens(), "quick", []string{"random heads: grouped, mask"}},
	{"the block's exponential is the least of 16", grouping{draw: func(e float64) float64 { return e / 16 }}.lens(),
		"quick", []string{"random heads: grouped, none"}},
	{"tokens race with the block's bits", grouping{own: func(s reference.RowState, v int) uint64 { x, _ := s.Block(v); return x }}.lens(),
		"quick", []string{"random heads: grouped, none"}},
	{"pairs share their bits", grouping{own: func(s reference.RowState, v int) uint64 { return s.Token(v &^ 8) }}.lens(),
		"quick", []string{"random heads: grouped, none"}},
	{"the race inside has no temperature", grouping{tau: func(float64) float64 { return 1 }}.lens(), "quick", []string{"random heads: grouped, temperature"}},
	{"blocks of 8", grouping{size: 8}.lens(), "quick", []string{"random heads: grouped, none"}},
	{"ties inside a block go to the last", grouping{last: true}.lens(), "degenerate", []string{"grouped: equal maxima"}},
	{"log-sum-exps are off by one in 1,000", sums(func(_ *lensPlan, x float32) float32 { return x * 1.001 }),
		"degenerate", []string{"log-sum-exps of planted", "grouped: small shapes, V=127"}},
	{"the log-sum-exp misses 64 tokens", sums(func(p *lensPlan, x float32) float32 {
		return x + float32(math.Log1p(-min(64, float64(p.w.Vocab)/2)/float64(p.w.Vocab)))
	}), "degenerate", []string{"log-sum-exps of planted"}},
	{"log-sum-exps without temperature", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Temperature = first(r.Temperature) })},
		"quick", []string{"random heads: grouped, temperature, no score, log-sum-exp"}},
	{"log-sum-exps are missing", &lens{out: each(func(_ int, res *sampler.Result) { res.LogSumExp = nil })}, "quick",
		[]string{"random heads: gumbel, none, log-sum-exp", "random heads: greedy, bias, log-sum-exp"}},
	{"log-probabilities are missing", &lens{out: each(func(_ int, res *sampler.Result) { res.LogProbs = nil })}, "quick",
		[]string{"random heads: gumbel, bias=rows, no score, log-sum-exp, processed", "random heads: greedy, scale=0.5,softcap=30, no score, log-sum-exp, processed"}},
	{"log-probabilities are those of what is drawn from", &lens{spec: func(s sampler.Spec) sampler.Spec {
		s.LogProb = min(s.LogProb, 1) * ir.ProcessedLogProb
		return s
	}}, "quick", []string{"random heads: gumbel, scale=0.5,softcap=30,bias=rows,mask,temperature, no score, raw",
		"random heads: grouped, scale=0.5,softcap=30,bias=rows,mask,temperature, no score, temperature"}},
	{"rows take the parameters of their own place", &lens{in: rowsIn(func(p *lensPlan, r *sampler.Rows) {
		for i := range r.Slots {
			r.Slots[i] = int32(i)
		}
	})}, "quick", []string{"random heads: gumbel, scale=0.5,softcap=30,bias=rows,mask,temperature, no score, raw log-probabilities, slots"}},
	{"log-sum-exps of rows without a token are 0", &lens{out: each(func(b int, res *sampler.Result) {
		if res.LogSumExp != nil && res.Tokens[b] < 0 {
			res.LogSumExp[b] = 0
		}
	})}, "degenerate", []string{"grouped: a row of NaN", "grouped: a row with nothing"}},
	{"log-sum-exps differ from run to run", &lens{out: func(_ *lensPlan, _ []uint16, _ sampler.Rows, res *sampler.Result) {
		if res.LogSumExp != nil && calls.Add(1)%3 == 0 {
			res.LogSumExp[len(res.LogSumExp)-1] = math.Nextafter32(res.LogSumExp[len(res.LogSumExp)-1], 0)
		}
	}}, "invariance", []string{"log-sum-exps repeat"}},
	{"a large batch loses a CTA's sums", sums(func(_ *lensPlan, x float32) float32 { return x - 0.01 }).onlyFrom(129),
		"invariance", []string{"grouped: every batch size", "grouped: every slot"}},
}

// calls counts those on the device whose sums differ from run to run.
var calls atomic.Int64

// sums changes every log-sum-exp.
func sums(f func(p *lensPlan, x float32) float32) *lens {
	return &lens{out: func(p *lensPlan, _ []uint16, _ sampler.Rows, res *sampler.Result) {
		for b, x := range res.LogSumExp {
			res.LogSumExp[b] = f(p, x)
		}
	}}
}

// onlyFrom limits a fault of results to rows from one on.
func (l *lens) onlyFrom(row int) *lens {
	out := l.out
	l.out = func(p *lensPlan, h []uint16, r sampler.Rows, res *sampler.Result) {
		if len(res.LogSumExp) > row {
			late := &sampler.Result{LogSumExp: res.LogSumExp[row:]}
			out(p, h, r, late)
		}
	}
	return l
}

// Without a fault, the plain grouped sampler passes: what fails above fails for its fault alone.
func TestPlainGroupingPasses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: not under -short")
	}
	dev := grouping{}.lens()
	dev.target = device{cpu(t)}
	for _, suite := range []string{"quick", "degenerate"} {
		for _, c := range only(t, dev, Options{Suite: suite, Seed: 1}, func(it item) bool { return it.kind.sampler == ir.Grouped && named(groupedFaults, it) }) {
			require.True(t, c.OK, "%s: %s", c.Name, c.Detail)
		}
	}
}

// A suite can be held to one sampler.
func TestSuiteOfOneSampler(t *testing.T) {
	rep, err := Run(t.Context(), cpu(t), Options{Seed: 1, Sampler: "grouped"})
	require.NoError(t, err)
	require.Zero(t, rep.Failed)
	for _, c := range rep.Checks[:len(rep.Checks)-1] {
		require.Contains(t, c.Name, "grouped")
	}
	_, err = Run(t.Context(), cpu(t), Options{Sampler: "topk"})
	require.ErrorContains(t, err, `unknown sampler "topk"`)
}

func TestSuiteOfSomeNames(t *testing.T) {
	run := func(match string) *Report {
		rep, err := Run(t.Context(), cpu(t), Options{Suite: "exact", Seed: 1, Draws: 10_000, Match: match})
		require.NoError(t, err)
		return rep
	}
	some, one := run("draws of a row$"), run("distinct draws")
	require.Len(t, some.Checks, 2)
	require.Len(t, one.Checks, 1)
	require.Equal(t, one.Checks[0].Stat, some.Checks[1].Stat, "data does not depend on what else runs")
	_, err := Run(t.Context(), cpu(t), Options{Match: "no such check"})
	require.ErrorContains(t, err, `verify: suite quick has no checks that "no such check" matches for cpu`)
	_, err = Run(t.Context(), cpu(t), Options{Match: "("})
	require.ErrorContains(t, err, "missing closing )")
}
