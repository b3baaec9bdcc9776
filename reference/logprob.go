package reference

import (
	"math"

	"github.com/fsgen/fsgen/ir"
)

// distribution is one mode's: its tokens above -inf with their logits, in order, at a temperature.
type distribution struct {
	list  []candidate
	t     float64
	least float64 // temperature that differences of logits are at least divided by, in sums and near the first
	log   float64 // of the sum of the powers over that of the first
}

// distribution returns what a mode has of a row with raw logits y, of which kept may be drawn.
func (w *row) distribution(mode ir.LogProb, y []float32, kept []candidate) *distribution {
	d := &distribution{list: kept, t: w.massTemperature(), least: leastSumTemperature}
	if mode != ir.ProcessedLogProb {
		d.list = w.modelLogits(y)
	}
	switch {
	case mode == ir.RawLogProb:
		d.t = 1
	case mode == ir.ProcessedLogProb && w.narrowed(len(y)):
		d.least = 0 // what is kept is added up in float64
	}
	sum := 0.0
	for _, c := range d.list {
		sum += math.Exp(d.below(c.score))
	}
	d.log = math.Log(sum)
	return d
}

// modelLogits are the model's own logits, before anything that a row asks for.
func (w *row) modelLogits(y []float32) (list []candidate) {
	for v, l := range y {
		if z := w.model(l); z > negInf { // NaN is not
			list = append(list, candidate{z, int32(v)})
		}
	}
	return ranked(list)
}

// gap is how far a logit lies below the first, as a number that is not above 0.
func (d *distribution) gap(z float32) float64 {
	if top := d.list[0].score; z != top {
		return float64(z) - float64(top)
	}
	return 0 // infinities too
}

// below is the gap over the temperature of sums.
func (d *distribution) below(z float32) float64 { return d.gap(z) / max(d.t, d.least) }

// farBelow is where a kernel divides a gap by the temperature itself: it takes the logarithms of the token's power and of the sum
// apart there.
const farBelow = -64 * math.Ln2

// logProb is the log-probability of the i-th token.
func (d *distribution) logProb(i int) float32 {
	z := d.list[i].score
	x := d.below(z)
	if x < farBelow {
		x = d.gap(z) / d.t
	}
	return float32(min(x-d.log, 0))
}

// place finds a token; -1 where the distribution has not got it.
func (d *distribution) place(id int32) int {
	for i, c := range d.list {
		if c.id == id {
			return i
		}
	}
	return -1
}

func (d *distribution) logProbOf(id int32) float32 {
	if i := d.place(id); i >= 0 {
		return d.logProb(i)
	}
	return negInf
}

// setLogProbs fills in all that a row reports of a distribution.
func (r *Request) setLogProbs(res *Result, b int, d *distribution) {
	c := r.Computation
	res.LogProbs[b] = d.logProbOf(res.Tokens[b])
	if c.Rank {
		res.Ranks[b] = int32(d.place(res.Tokens[b]) + 1)
	}
	for i := range c.TopN {
		at := b*c.TopN + i
		res.TopLogProbs[at] = negInf
		if i < len(d.list) {
			res.TopIDs[at], res.TopLogProbs[at] = d.list[i].id, d.logProb(i)
		}
	}
	if c.Listed {
		for i, id := range ofSlot(r.ListIDs, r.slot(b)) {
			res.Listed[b][i] = d.logProbOf(id)
		}
	}
}

// LogProbBounds returns for every row how far a correct kernel's log-probabilities may lie from the result's, those of the
// token, the top and the listed: the logits' errors, twice each in the token's own and in the log-sum-exp, and float32's sums.
// Those at -inf are so exactly. It holds where truncation keeps the same tokens.
func (r *Request) LogProbBounds() []float64 {
	largest := r.largestWeight()
	out := make([]float64, r.Batch)
	for b := range out {
		w := r.row(b)
		t := w.massTemperature()
		if r.Computation.LogProb != ir.ProcessedLogProb {
			w.bias, w.biases, w.chain.Penalties = nil, nil, false
		}
		if r.Computation.LogProb == ir.RawLogProb {
			t = 1
		}
		size, err := r.logitBound(&w, b, largest)
		vocab := float64(r.Shape.Vocab)
		out[b] = 4*err/t + SummationBound(r.Shape.Vocab, size/t+math.Log(vocab)) + 4*unit*size/t
		if t < leastSumTemperature {
			out[b] += coldBound(r.addedUp(&w, b), t, err)
		}
	}
	return out
}

// addedUp are the tokens, in order, that a kernel adds up in float32 for a row's log-probabilities; of a row that filters narrow none.
func (r *Request) addedUp(w *row, b int) []candidate {
	switch y := r.rawLogits(b); {
	case r.Computation.LogProb != ir.ProcessedLogProb:
		return w.modelLogits(y)
	case w.narrowed(len(y)):
		return nil
	default:
		return w.candidates(y)
	}
}
