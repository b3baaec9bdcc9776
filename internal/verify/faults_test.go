package verify

import (
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// fault is a device with a planted fault and the checks that must see it.
type fault struct {
	name   string
	device *lens
	suite  string
	checks []string // prefixes of their names
}

// each changes every row's result.
func each(f func(b int, res *sampler.Result)) func(*lensPlan, []uint16, sampler.Rows, *sampler.Result) {
	return func(_ *lensPlan, _ []uint16, _ sampler.Rows, res *sampler.Result) {
		for b := range res.Tokens {
			f(b, res)
		}
	}
}

// rowsIn changes the rows' parameters.
func rowsIn(f func(p *lensPlan, r *sampler.Rows)) func(*lensPlan, []uint16, sampler.Rows) ([]uint16, sampler.Rows) {
	return func(p *lensPlan, h []uint16, r sampler.Rows) ([]uint16, sampler.Rows) {
		f(p, &r)
		return h, r
	}
}

func first[T any](v []T) []T { return v[:min(1, len(v))] }

// argumentFaults lose or mix up what a call is given.
var argumentFaults = []fault{
	{"the seed of row 0 for all", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Seeds = first(r.Seeds) })},
		"quick", []string{"random heads: gumbel, none"}},
	{"seeds of row 0 among permuted rows", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Seeds = first(r.Seeds) })},
		"degenerate", []string{"seeds belong"}},
	{"the high word of the seed is lost", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Seeds = low(r.Seeds) })},
		"degenerate", []string{"every parameter"}},
	{"the position is ignored", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Positions = make([]uint64, len(r.Positions)) })},
		"quick", []string{"random heads: gumbel, none"}},
	{"the position never advances", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Positions = make([]uint64, len(r.Positions)) })},
		"degenerate", []string{"positions move"}},
	{"the high word of the position is lost", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Positions = low(r.Positions) })},
		"quick", []string{"random heads: gumbel, none"}},
	{"the draw is ignored", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Draw = 0 })}, "quick", []string{"random heads: gumbel, none"}},
	{"the stream tag is ignored", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.StreamTag = 0 })}, "quick", []string{"random heads: gumbel, none"}},
	{"the temperature of row 0 for all", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Temperature = first(r.Temperature) })},
		"quick", []string{"random heads: gumbel, temperature"}},
	{"the mask is ignored", &lens{in: rowsIn(func(p *lensPlan, r *sampler.Rows) { allAllowed(p, r, false) })},
		"quick", []string{"random heads: greedy, mask", "random heads: gumbel, mask"}},
	{"missing mask words allow", &lens{in: rowsIn(func(p *lensPlan, r *sampler.Rows) { allAllowed(p, r, true) })}, "degenerate", []string{"mask words"}},
	{"the mask of row 0 for all", &lens{in: rowsIn(func(p *lensPlan, r *sampler.Rows) {
		if r.Mask != nil {
			r.Mask = r.Mask[:min(len(r.Mask), p.words(r))]
		}
	})}, "degenerate", []string{"rows with 1, 0 and all"}},
	{"the bias is ignored", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.Bias = make([]float32, len(r.Bias)) })},
		"quick", []string{"random heads: greedy, bias", "random heads: gumbel, bias=rows"}},
	{"the bias stride is taken to be V", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.BiasStride = 0 })},
		"degenerate", []string{"vocabularies beside"}},
	{"bad temperatures are taken", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) {
		r.Temperature = slices.Clone(r.Temperature)
		for i, t := range r.Temperature {
			if !(t >= 0) {
				r.Temperature[i] = 1
			}
		}
	})}, "degenerate", []string{"bad temperatures"}},
	{"too many seeds are taken", &lens{in: rowsIn(func(p *lensPlan, r *sampler.Rows) { r.Seeds = r.Seeds[:min(3, len(r.Seeds))] })},
		"degenerate", []string{"bad inputs"}},
	{"an unseeded row unseeds all", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) {
		if r.Unseeded != nil {
			r.Unseeded = []bool{true, true}
		}
	})}, "degenerate", []string{"an unseeded neighbour"}},
}

func low(v []uint64) []uint64 {
	v = slices.Clone(v)
	for i := range v {
		v[i] &= math.MaxUint32
	}
	return v
}

func (p *lensPlan) words(r *sampler.Rows) int {
	return (&problem{shape: shapeOf(p.w), rows: *r}).maskWords()
}

// allAllowed sets every bit of the mask, or only those of missing words.
func allAllowed(p *lensPlan, r *sampler.Rows, missing bool) {
	if r.Mask == nil {
		return
	}
	words, full := p.words(r), (p.w.Vocab+31)/32
	rows := len(r.Mask) / words
	mask := slices.Repeat([]uint32{^uint32(0)}, rows*max(words, full))
	for b := range rows {
		if missing {
			copy(mask[b*max(words, full):], r.Mask[b*words:(b+1)*words])
		}
	}
	r.Mask, r.MaskWords = mask, max(words, full)
}

// resultFaults spoil what comes out.
var resultFaults = []fault{
	{"tokens are one too high", &lens{out: each(func(b int, res *sampler.Result) { res.Tokens[b]++ })}, "quick", []string{"random heads"}},
	{"the token of one row in a hundred is one too high", &lens{out: each(func(b int, res *sampler.Result) {
		if b == 99 {
			res.Tokens[b]++
		}
	})}, "quick", []string{"random heads"}},
	{"tokens of two rows are swapped", &lens{out: each(func(b int, res *sampler.Result) {
		if b == 63 {
			res.Tokens[62], res.Tokens[63] = res.Tokens[63], res.Tokens[62]
		}
	})}, "quick", []string{"random heads: gumbel, none"}},
	{"scores are off by one in 10,000", &lens{out: each(func(b int, res *sampler.Result) {
		if res.Scores != nil {
			res.Scores[b] *= 1.0001
		}
	})}, "quick", []string{"random heads: greedy, none", "random heads: gumbel, temperature"}},
	{"scores are missing", &lens{out: each(func(_ int, res *sampler.Result) { res.Scores = nil })}, "quick", []string{"random heads: greedy, none"}},
	{"scores of rows without a token are 0", &lens{out: each(func(b int, res *sampler.Result) {
		if res.Tokens[b] < 0 && res.Scores != nil {
			res.Scores[b] = 0
		}
	})}, "degenerate", []string{"a row of NaN", "a row with nothing"}},
	{"a row that cannot be sampled has token 0", &lens{out: each(func(b int, res *sampler.Result) { res.Tokens[b] = max(0, res.Tokens[b]) })},
		"degenerate", []string{"a row of NaN", "NaN and infinite", "a row with nothing", "NaN at every", "rows with 1, 0"}},
	{"every status is ok", &lens{out: each(func(b int, res *sampler.Result) { res.Status[b] = ir.StatusOK })},
		"degenerate", []string{"a row of NaN", "NaN and infinite", "a row with nothing"}},
	{"a NaN row spoils its neighbour", &lens{out: each(func(b int, res *sampler.Result) {
		if b > 0 && res.Status[b-1] == ir.StatusNaN {
			res.Tokens[b], res.Status[b] = -1, ir.StatusNaN
		}
	})}, "invariance", []string{"beside rows"}},
	{"an empty batch has a row", &lens{sample: func(*lensPlan, []uint16, sampler.Rows) (*sampler.Result, error) {
		return &sampler.Result{Tokens: make([]int32, 1), Status: make([]ir.Status, 1)}, nil
	}}, "degenerate", []string{"an empty batch"}},
	{"a score bit depends on the batch", &lens{out: each(func(b int, res *sampler.Result) {
		if len(res.Tokens) == 129 {
			res.Scores[b] = math.Nextafter32(res.Scores[b], 0)
		}
	})}, "invariance", []string{"every batch size", "unaligned"}},
	{"a score bit depends on the slot", &lens{out: each(func(b int, res *sampler.Result) {
		if b == 17 {
			res.Scores[b] = math.Nextafter32(res.Scores[b], 0)
		}
	})}, "invariance", []string{"every slot", "permuted"}},
	{"a shared value takes another path", &lens{out: func(_ *lensPlan, _ []uint16, r sampler.Rows, res *sampler.Result) {
		if len(r.Positions) > 1 {
			res.Scores[3] = math.Nextafter32(res.Scores[3], 0)
		}
	}}, "invariance", []string{"one value"}},
	{"skipping changes a token", &lens{out: func(p *lensPlan, _ []uint16, _ sampler.Rows, res *sampler.Result) {
		if p.spec.Exhaustive {
			res.Tokens[200]++
		}
	}}, "invariance", []string{"every score in full"}},
	{"another kernel rounds otherwise", &lens{out: func(p *lensPlan, _ []uint16, _ sampler.Rows, res *sampler.Result) {
		if p.spec.MaxBatch == 64 {
			res.Scores[1] = math.Nextafter32(res.Scores[1], 0)
		}
	}}, "invariance", []string{"a plan's maximal batch"}},
}

// inFlight counts the calls under way on a device whose calls share a buffer.
var inFlight atomic.Int32

var sharedBuffer = &lens{
	in: func(_ *lensPlan, h []uint16, r sampler.Rows) ([]uint16, sampler.Rows) {
		inFlight.Add(1)
		time.Sleep(time.Millisecond)
		return h, r
	},
	out: func(_ *lensPlan, _ []uint16, _ sampler.Rows, res *sampler.Result) {
		if inFlight.Add(-1) > 0 {
			res.Tokens[0]++
		}
	},
}

// structuralFaults are in heads, plans and devices.
var structuralFaults = []fault{
	{"calls share a buffer", sharedBuffer, "invariance", []string{"64 goroutines"}},
	{"padded rows are sampled", &lens{weights: func(w sampler.Weights) sampler.Weights {
		m := w.Source.(sampler.Matrix)
		if m.Hidden > 0 {
			w.Vocab = len(m.Data) / m.Hidden
		}
		return w
	}}, "degenerate", []string{"padded weights"}},
	{"the last columns are lost", &lens{in: func(p *lensPlan, h []uint16, r sampler.Rows) ([]uint16, sampler.Rows) {
		h = slices.Clone(h)
		for i := range h {
			if i%p.w.Hidden >= p.w.Hidden/8*8 {
				h[i] = 0
			}
		}
		return h, r
	}}, "degenerate", []string{"hidden sizes beside"}},
	{"the softcap is forgotten", &lens{spec: func(s sampler.Spec) sampler.Spec { s.Chain.Softcap = 0; return s }},
		"degenerate", []string{"softcap and scale"}},
	{"the scale is applied twice", &lens{spec: func(s sampler.Spec) sampler.Spec { s.Chain.Scale *= s.Chain.Scale; return s }},
		"quick", []string{"random heads: greedy, scale", "random heads: gumbel, scale"}},
}

// truncationFaults lose, mix up or misread filters.
var truncationFaults = []fault{
	{"top-k is ignored", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.TopK = make([]int32, len(r.TopK)) })},
		"quick", []string{"random heads: gumbel, none, top-k"}},
	{"k is one too large", &lens{in: rowsIn(func(p *lensPlan, r *sampler.Rows) { r.TopK = moreThan(r.TopK, 1) })},
		"degenerate", []string{"filters at the borders", "equal logits under"}},
	{"k is one too small", &lens{in: rowsIn(func(p *lensPlan, r *sampler.Rows) { r.TopK = moreThan(r.TopK, -1) })},
		"degenerate", []string{"filters at the borders"}},
	{"p of row 0 for all", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.TopP = first(r.TopP) })},
		"quick", []string{"random heads: gumbel, temperature, log-sum-exp, processed log-probabilities, top-p"}},
	{"p is a percent too large", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) {
		r.TopP = slices.Clone(r.TopP)
		for i := range r.TopP {
			r.TopP[i] *= 1.01
		}
	})}, "degenerate", []string{"filters at the borders"}},
	{"min-p is ignored", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) { r.MinP = make([]float32, len(r.MinP)) })},
		"exact", []string{"softmax of the tokens that filters keep"}},
	{"filters see the temperature", &lens{spec: func(s sampler.Spec) sampler.Spec { s.Truncation.TemperatureLast = false; return s }},
		"exact", []string{"softmax of the tokens that filters keep"}},
	{"rows that are hard are undecided", &lens{out: each(func(b int, res *sampler.Result) {
		if b == 7 {
			res.Tokens[b], res.Status[b] = ir.NoToken, ir.StatusUndecided
		}
	})}, "degenerate", []string{"filters at the borders", "filters that are off"}},
	{"filters of a neighbour", &lens{in: rowsIn(func(_ *lensPlan, r *sampler.Rows) {
		if n := len(r.TopK); n > 2 {
			r.TopK = append(slices.Clone(r.TopK[n-1:]), r.TopK[:n-1]...)
		}
	})}, "invariance", []string{"truncated rows"}},
}

// moreThan changes every k that is on.
func moreThan(ks []int32, more int32) []int32 {
	ks = slices.Clone(ks)
	for i := range ks {
		if ks[i] > 0 {
			ks[i] += more
		}
	}
	return ks
}

func TestPlantedFaultsAreFound(t *testing.T) {
	for _, f := range slices.Concat(argumentFaults, resultFaults, structuralFaults, naiveFaults, groupedFaults, truncationFaults) {
		t.Run(f.name, func(t *testing.T) {
			f.device.target = device{cpu(t)}
			fails(t, f.device, Options{Suite: f.suite, Seed: 1, Draws: 200_000}, f.checks...)
		})
	}
}

// fails runs the checks of a suite whose names begin so, and wants each of them to fail.
func fails(t *testing.T, dev target, o Options, prefixes ...string) {
	t.Helper()
	for _, prefix := range prefixes {
		found := 0
		for _, c := range only(t, dev, o, func(it item) bool { return strings.HasPrefix(it.name, prefix) }) {
			found++
			require.False(t, c.OK, "%s passes", c.Name)
			require.NotEmpty(t, c.Detail, c.Name)
		}
		require.NotZero(t, found, "no check %q in suite %s", prefix, o.Suite)
	}
}

// only runs some checks of a suite.
func only(t *testing.T, dev target, o Options, want func(it item) bool) (out []Check) {
	t.Helper()
	r := newRun(dev, o)
	for _, s := range suites {
		if s.name != o.Suite {
			continue
		}
		for _, it := range s.items(r) {
			if want(it) {
				out = append(out, r.check(t.Context(), it, 1))
			}
		}
	}
	return out
}
