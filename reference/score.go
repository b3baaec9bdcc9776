package reference

import (
	"math"

	"github.com/fsgen/fsgen/ir"
)

// row is what scoring one row needs.
type row struct {
	chain ir.Chain
	bias  []float32 // [Vocab] or nil
	mask  idSet     // the words given, or what they and lists of ids allow; unused where not masked
	noise []float32 // injected, [Vocab] or nil
	state RowState
	params
	// greedy rows have no noise: the sampler is greedy, or T is 0.
	greedy bool
	// grouped rows compare blocks.
	grouped    bool
	masked     bool
	alpha, tau float32
	badT       bool
	t          float32 // the temperature; 1 without one
	noSkip     bool
	weighs     bool // the log-sum-exp is asked for
}

func (r *Request) row(b int) row {
	c, slot := r.Computation.Normalize(), r.slot(b)
	w := row{chain: c.Chain, greedy: !c.Sampler.Random(), t: 1, noSkip: r.NoSkip, weighs: c.LogSumExp, params: r.params(slot)}
	if c.Chain.Temperature {
		w.t = ofSlot(r.Temperature, slot)
		w.badT = ir.ValidTemperature(w.t) != nil
	}
	w.alpha, w.tau = coefficients(w.t)
	w.greedy = w.greedy || w.t == 0
	w.grouped = c.Sampler == ir.Grouped && !w.greedy
	if c.Chain.Bias == ir.BiasVector || c.Chain.Bias == ir.BiasMatrix {
		w.bias = r.Bias[slot*r.BiasStride:][:r.Shape.Vocab]
	}
	if c.Chain.Mask {
		w.mask, w.masked = r.Mask[slot*r.MaskStride:][:r.MaskWords], true
	}
	if c.Chain.IDs {
		w.mask, w.masked = r.listed(&w, slot), true
	}
	if r.Noise != nil {
		w.noise = r.Noise[b*r.Shape.Vocab:][:r.Shape.Vocab]
	} else if !w.greedy {
		w.state = Row(ofSlot(r.Seeds, slot), ofSlot(r.Positions, slot), r.Draw, r.StreamTag)
	}
	return w
}

// coefficients returns (alpha, tau): the score is alpha z + tau g, z/T + g times min(T, 1).
func coefficients(t float32) (alpha, tau float32) {
	switch {
	case t > 1:
		return 1 / t, 1
	case t == 0:
		return 1, 0
	default:
		return 1, t
	}
}

// allowed reports whether the mask and the lists let token v through.
func (w *row) allowed(v int) bool { return !w.masked || w.mask.has(v) }

// allowedOf holds, in bit i, whether the mask lets token first+i through, for n tokens of one block of 16.
func (w *row) allowedOf(first, n int) uint32 {
	all := uint32(1)<<n - 1
	if !w.masked {
		return all
	}
	word := first >> 5
	if word >= len(w.mask) {
		return 0
	}
	return w.mask[word] >> (first & 31) & all
}

// transforms reports whether z differs from the raw logit.
func (w *row) transforms() bool { return w.chain.Scale != 0 || w.chain.Softcap != 0 || w.edits() }

// edits reports whether z differs from the model's logit.
func (w *row) edits() bool { return w.chain.Bias != ir.BiasNone || w.chain.Penalties }

// transform turns a raw logit into z, one rounding an operation.
func (w *row) transform(y float32, v int) float32 {
	y = w.model(y)
	if !w.edits() {
		return y
	}
	if !w.chain.BiasLast {
		y = w.biased(y, v)
	}
	if w.chain.Penalties {
		y = w.penalized(y, v)
	}
	if w.chain.BiasLast {
		y = w.biased(y, v)
	}
	return y
}

// model turns a raw logit into the model's.
func (w *row) model(y float32) float32 {
	if w.chain.Scale != 0 {
		y = float32(y * w.chain.Scale)
	}
	if c := w.chain.Softcap; c != 0 {
		y = float32(float64(c) * math.Tanh(float64(y)/float64(c)))
	}
	return y
}

// biased adds the token's bias.
func (w *row) biased(y float32, v int) float32 {
	if w.bias != nil {
		return float32(y + w.bias[v])
	}
	if x, ok := w.biases[int32(v)]; ok {
		return float32(y + x)
	}
	return y
}

// reported turns a compared score into z/T + g, or z where the row is greedy.
func (w *row) reported(s float32) float32 {
	if w.t > 0 && w.t < 1 {
		return s / w.t
	}
	return s
}

// addNoise returns the compared score of z under noise g.
func (w *row) addNoise(z, g float32) float32 {
	if w.tau == 1 {
		return w.scaled(z) + g // a float32 sum is an fma by 1
	}
	return fma32(w.tau, g, w.scaled(z))
}

// scaled returns alpha z.
func (w *row) scaled(z float32) float32 { return float32(z * w.alpha) }
