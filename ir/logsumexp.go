package ir

import (
	"math"
	"slices"
)

// The log-sum-exp of a row is kept as a pair: a reference, largest, which is near the largest Base so far, and the sum of
// exp((base - largest)/tau). The empty pair is (-MaxFloat32, 0): finite, so that no difference of references is NaN.

// SumLimit is how many octaves a token may stand above its reference; past it the reference is raised. Sums stay far from the
// largest float32, and after the first tokens nearly none raises it.
const SumLimit = 32

// SumAlarm is what the powers of some tokens of a row come to, at least, if one of them stands more than SumLimit above the reference,
// however its power is rounded.
const SumAlarm = (1 << SumLimit) * (1 - 0x1p-16)

// sumFloor is an exponent whose power is 0, in place of NaN.
const sumFloor = -2000

// Sums reports whether the computation adds up a distribution.
func (c Computation) Sums() bool { return c.LogSumExp || c.LogProb != NoLogProb }

// AddsUp reports whether a kernel needs the sums of rows: to tell, or for the mass that a nucleus is a share of, and that of which a
// repeated draw has its share.
func (c Computation) AddsUp() bool {
	return c.Sums() || c.Collects() && (c.Truncation.TopP || c.Draws == WithReplacement)
}

// Summed is the computation whose scores without noise are added up: for log-probabilities of the model's own distribution that
// of the mode's logits, of which no filter takes any away; else c itself.
func (c Computation) Summed() Computation {
	if !c.LogProb.OfModel() {
		return c
	}
	c.Chain, c.Truncation = Chain{Scale: c.Chain.Scale, Softcap: c.Chain.Softcap, Temperature: c.Chain.Temperature && c.LogProb == TemperatureLogProb}, Truncation{}
	c.Draws, c.MaxDraws = SingleDraw, 0
	return c
}

// Sum names a distribution that is added up: what is done to the logits ahead of the temperature, and whether they are divided by it.
type Sum struct {
	Chain    Chain
	Tempered bool
}

func sumOf(c Chain, tempered bool) Sum {
	tempered = tempered && c.Temperature
	c.Temperature = false
	return Sum{c, tempered}
}

// DistinctSums lists the distributions that are to be added up of one row, each once: what is asked for, and the mass that top-p is
// a share of, or beside what is asked for that of which repeated draws are; nothing else takes both, since top-p has these draw from
// what it keeps. The log-probabilities of a processed distribution take that of the tokens drawn from, whichever that is.
func (c Computation) DistinctSums() (out []Sum) {
	add := func(asked bool, s Sum) {
		if asked && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	summed := c.Summed().Chain
	add(c.LogSumExp, sumOf(c.Chain, true))
	add(c.LogProb.OfModel(), sumOf(summed, summed.Temperature))
	add(c.Truncation.TopP, sumOf(c.Chain, !c.Truncation.TemperatureLast))
	add(c.Draws == WithReplacement && (c.LogSumExp || c.LogProb.OfModel()), sumOf(c.Chain, true))
	return out
}

// firstSum is the distribution that is added up where only one can be: that of the log-probabilities, or else that of the log-sum-exp.
func (c Computation) firstSum() Sum {
	if summed := c.Summed().Chain; c.LogProb.OfModel() {
		return sumOf(summed, summed.Temperature)
	}
	return sumOf(c.Chain, true)
}

// MostSums is how many distributions kernels add up of one row.
const MostSums = 2

// SecondSum is the computation whose scores without noise are added up beside those of Summed, if there is one: for the log-sum-exp, or
// for the masses that are not those of the first.
func (c Computation) SecondSum() (second Computation, ok bool) {
	if len(c.DistinctSums()) < MostSums {
		return Computation{}, false
	}
	second = c
	second.LogSumExp = c.LogSumExp && sumOf(c.Chain, true) != c.firstSum()
	second.LogProb, second.Rank, second.TopN, second.Listed = NoLogProb, false, 0, false
	return second, true
}

// NucleusOfSecond and RepeatsOfSecond report whether the mass that top-p, or that repeated draws take their share of is that of SecondSum.
func (c Computation) NucleusOfSecond() bool {
	_, two := c.SecondSum()
	return two && c.Truncation.TopP && sumOf(c.Chain, !c.Truncation.TemperatureLast) != c.firstSum()
}

// RepeatsOfSecond: see NucleusOfSecond.
func (c Computation) RepeatsOfSecond() bool {
	_, two := c.SecondSum()
	return two && c.Draws == WithReplacement && sumOf(c.Chain, true) != c.firstSum()
}

// FindsPeaks reports whether the pass that lists a row's tokens finds the row's largest logit, of which weights are multiples, beside its
// sum: so that a row of repeated draws that a sum in float32 leaves open takes one pass more and not two. With filters the draws are from
// what these keep.
func (c Computation) FindsPeaks() bool {
	return c.Draws == WithReplacement && !c.Truncation.Any() && c.LogProb == NoLogProb && !c.Chain.Edits()
}

// Exponent is the graph of how many octaves a token stands above the reference: inputs InBase, InLargest and, with a
// temperature, InScale, which is log2(e)/tau.
func Exponent(c Computation) *Graph {
	b := newBuilder()
	return Optimize(b.finish(b.octaves(c, b.input(InBase), b.input(InLargest))))
}

func (b *builder) octaves(c Computation, x, y *Node) *Node {
	scale := b.f(math.Log2E)
	if c.RowScales() {
		scale = b.input(InScale)
	}
	return b.op(OpMul, b.op(OpAdd, x, b.op(OpMul, y, b.f(-1))), scale)
}

// Power is the graph of what a token at InExponent adds to its sum. The exponent of a token that does not count is -inf.
func Power() *Graph {
	b := newBuilder()
	return Optimize(b.finish(b.op(OpEx2, b.input(InExponent))))
}

// SumsDisallowed reports whether tokens that are not allowed are added up too: where their logits are NaN they count as -inf. A NaN
// of a token that is allowed fails its row, whatever its sum.
func (c Computation) SumsDisallowed() bool {
	return c.LogProb.OfModel() && (c.Chain.Mask || c.Chain.IDs)
}

// NumericExponent is Exponent for sums in which a NaN counts for nothing (Computation.SumsDisallowed): the floor is applied ahead of the
// cap, which would make a token of infinite weight of it.
func NumericExponent(c Computation) *Graph {
	b := newBuilder()
	return Optimize(b.finish(b.op(OpMax, b.octaves(c, b.input(InBase), b.input(InLargest)), b.f(sumFloor))))
}

// Rescaled is the graph of a sum, InMass, as its reference goes from InLargest up to InTop.
func Rescaled(c Computation) *Graph {
	b := newBuilder()
	down := b.octaves(c, b.input(InLargest), b.input(InTop))
	return Optimize(b.finish(b.op(OpMul, b.input(InMass), b.op(OpEx2, down))))
}

// LogSum is the graph of the log-sum-exp of a pair: inputs InTop, the reference over tau, and InMass. It is -inf for the
// empty pair. Where tokens of +inf count as InfiniteOctaves, it is +inf with any of them, and reads InLargest too.
func LogSum(c Computation) *Graph {
	b := newBuilder()
	sum := b.op(OpFma, b.op(OpLg2, b.input(InMass)), b.f(math.Ln2), b.input(InTop))
	if c.LogProb != NoLogProb {
		sum = b.whereInfinite(b.f(float32(math.Inf(1))), sum)
	}
	return Optimize(b.finish(sum))
}
