package reference

import (
	"fmt"
	"math"

	"github.com/fsgen/fsgen/ir"
)

// mass is a sum of exponentials: sum e^top. The zero value is the empty sum.
type mass struct {
	top, sum float64
}

// add takes e^x.
func (m *mass) add(x float64) { m.merge(mass{x, 1}) }

// merge takes another sum. The order counts in the last bits, so that whoever adds up a row keeps to one.
func (m *mass) merge(o mass) {
	switch {
	case o.sum == 0 || math.IsInf(o.top, -1):
	case m.sum == 0:
		*m = o
	case o.top == m.top: // infinities too
		m.sum += o.sum
	case o.top < m.top:
		m.sum += o.sum * math.Exp(o.top-m.top)
	default:
		m.top, m.sum = o.top, m.sum*math.Exp(m.top-o.top)+o.sum
	}
}

// log is the sum's logarithm, -inf for the empty one.
func (m mass) log() float64 {
	if m.sum == 0 {
		return math.Inf(-1)
	}
	return m.top + math.Log(m.sum)
}

// weigh adds the group's live tokens to the row's mass.
func (w *row) weigh(b *best, g *group) {
	t := w.sumTemperature()
	for i, z := range g.z[:g.n] {
		if g.live>>i&1 == 1 {
			b.mass.add(float64(z) / t)
		}
	}
}

// massTemperature is the temperature of the log-sum-exp, where greedy rows count as T = 1.
func (w *row) massTemperature() float64 {
	if w.t == 0 {
		return 1
	}
	return float64(w.t)
}

// leastSumTemperature is the least temperature that tokens are added up at. Kernels clamp log2(e)/T, by which differences of logits
// become octaves, to the largest float32.
const leastSumTemperature = math.Log2E / math.MaxFloat32

// sumTemperature is what differences of logits are divided by in sums.
func (w *row) sumTemperature() float64 { return max(w.massTemperature(), leastSumTemperature) }

// rowSum is a row's mass, whose largest logit is over the temperature itself in the end: scale is 1, but below leastSumTemperature.
type rowSum struct {
	mass
	scale float64
}

func (w *row) sumOf(all mass) rowSum { return rowSum{all, w.sumTemperature() / w.massTemperature()} }

func (s rowSum) logSumExp() float32 {
	s.top *= s.scale
	return float32(s.log())
}

// JoinLogSumExps is the log-sum-exp of a row whose vocabulary results share, out of those that have a token of it: -inf of none. Log-sum-exps
// themselves would not do, which below leastSumTemperature do not tell the sums.
func JoinLogSumExps(parts []*Result, row int) float32 {
	all := rowSum{scale: 1}
	for _, part := range parts {
		if part.Status[row] == ir.StatusOK {
			all.scale = part.sums[row].scale
			all.merge(part.sums[row].mass)
		}
	}
	return all.logSumExp()
}

// massChunk is how many tokens are taken at once, at least, where the log-sum-exp is asked for: a mass is kept for each.
const massChunk = 128

// keep puts away the masses of a chunk, and begins the next.
func (j *job) keep(out []best, first int) {
	if j.masses == nil {
		return
	}
	for b := range out {
		j.masses[(first-j.req.span().Start)/j.chunk][b], out[b].mass = out[b].mass, mass{}
	}
}

// masses makes room for the masses of every chunk, where they are asked for.
func (r *Request) masses() [][]mass {
	if !r.Computation.LogSumExp {
		return nil
	}
	all := make([][]mass, (r.span().Count+r.chunk()-1)/r.chunk())
	for i := range all {
		all[i] = make([]mass, r.Batch)
	}
	return all
}

// setLogSumExp adds a row's masses up in the order of the vocabulary, whoever computed them.
func (j *job) setLogSumExp(res *Result, b int) {
	if j.masses == nil {
		return
	}
	var all mass
	for _, chunk := range j.masses {
		all.merge(chunk[b])
	}
	res.setMass(b, &j.rows[b], all)
}

// setMass sets a row's log-sum-exp, where there are any.
func (res *Result) setMass(b int, w *row, all mass) {
	if res.LogSumExp == nil {
		return
	}
	res.sums[b] = w.sumOf(all)
	res.LogSumExp[b] = res.sums[b].logSumExp()
	if res.Status[b] != ir.StatusOK {
		res.LogSumExp[b] = float32(math.NaN())
	}
}

// massBudget is the error that a kernel's log-sum-exp may have by its exponentials and logarithms, as a share of the
// numbers that they take; each addition errs by a unit more, and a lane makes at most one for every 64 tokens, the tiles'
// smallest height, and those of one tile and of the reductions.
const (
	massBudget    = 0x1p-19
	massTile      = 64
	massAdditions = 32
)

// LogSumExpBounds returns for every row how far a correct kernel's log-sum-exp may lie from the result's: both accumulate
// float32 logits, each in its own order, and the kernel adds up in float32. Rows without a log-sum-exp have 0.
func (r *Request) LogSumExpBounds(res *Result) []float64 {
	largest := r.largestWeight()
	out := make([]float64, r.Batch)
	for b := range out {
		lse := float64(res.LogSumExp[b])
		if math.IsNaN(lse) || math.IsInf(lse, 0) {
			continue
		}
		w := r.row(b)
		_, err := r.logitBound(&w, b, largest)
		out[b] = 2*err/w.massTemperature() + SummationBound(r.Shape.Vocab, lse)
		if w.massTemperature() < leastSumTemperature {
			out[b] += coldBound(w.candidates(r.rawLogits(b)), w.massTemperature(), err)
		}
	}
	return out
}

// Below leastSumTemperature it matters which token a kernel's sum is relative to: the first or another of a tile's first, which
// stands at most sumOctaves below it. Tokens farther from that one than -farBelow are divided by the temperature itself.
const sumOctaves = 33

// coldBound is how far that may take a sum or a log-probability off, of a row whose tokens in order are list and whose logits err by err.
func coldBound(list []candidate, t, err float64) float64 {
	widest := func(octaves float64) (gap float64) {
		for _, c := range list {
			if d := float64(list[0].score) - float64(c.score); d <= octaves*math.Ln2*leastSumTemperature+2*err {
				gap = max(gap, d)
			}
		}
		return gap
	}
	gap := widest(sumOctaves)
	if gap > 0 {
		gap = widest(sumOctaves - farBelow/math.Ln2)
	}
	return (gap + 2*err) * (1/t - 1/leastSumTemperature)
}

// SummationBound is the part of a row's bound that is not the logits': how far a kernel's log-sum-exp may lie from that of
// the very logits it had.
func SummationBound(vocab int, lse float64) float64 {
	additions := math.Ceil(float64(vocab)/massTile) + massAdditions
	return massBudget*(1+math.Abs(lse)+math.Log(float64(vocab))) + additions*unit
}

// ExplainLogSumExp returns nil where got may be a correct kernel's log-sum-exp of row b, whose bound LogSumExpBounds gave.
func (res *Result) ExplainLogSumExp(b int, bound float64, got float32) error {
	want := res.LogSumExp[b]
	far := math.Abs(float64(got) - float64(want))
	switch {
	case got == want || got != got && want != want || far <= bound:
		return nil
	case math.IsInf(float64(got), 0) && math.Copysign(1, float64(got))*float64(want)+bound > math.MaxFloat32:
		return nil // beyond float32
	}
	return fmt.Errorf("reference: row %d: log-sum-exp %v, want %v within %.3g", b, got, want, bound)
}
