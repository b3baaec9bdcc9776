package verify

import (
	"context"
	"fmt"
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// everyTransform is a chain with all of them, with one bias and with one a row.
const (
	everyTransform     = "scale=0.5,softcap=30,bias,mask,temperature"
	everyTransformRows = "scale=0.5,softcap=30,bias=rows,mask,temperature"
)

var (
	quickChains  = []string{"none", "temperature", "bias", "bias=rows", "mask", "scale=0.5,softcap=30", everyTransform, everyTransformRows}
	quickBatches = []int{1, 3, 8, 16, 17, 64, 100}
	quickVocabs  = []int{1, 127, 128, 129, 1000, 5003}
	quickHiddens = []int{8, 64, 72, 200}
)

// chain reads a chain that is written in this package.
func chain(text string) ir.Chain {
	c, err := ir.ParseChain(text)
	if err != nil {
		panic("BUG: verify: " + err.Error())
	}
	return c
}

// quick compares random heads of many shapes under every transform with the reference.
func quick(*run) []item {
	var items []item
	for _, s := range []ir.Sampler{ir.Greedy, ir.Gumbel, ir.Grouped} {
		for _, c := range quickChains {
			items = append(items, matrixItem(sampler.Spec{Sampler: s, Chain: chain(c), Score: true}))
		}
	}
	for i, c := range quickChains { // every sampler meets both kinds of kernels that sum: with a temperature and without
		s := []ir.Sampler{ir.Gumbel, ir.Grouped, ir.Greedy}[i%3]
		spec := sampler.Spec{Sampler: s, Chain: chain(c), Score: i%2 == 0, LogSumExp: true}
		if i/3 == 1 {
			spec.LogProb = ir.ProcessedLogProb
		}
		items = append(items, matrixItem(spec))
	}
	// Log-probabilities of what is not compared, and slots.
	items = append(items, matrixItem(sampler.Spec{Chain: chain(everyTransformRows), LogProb: ir.RawLogProb, Slots: true}),
		matrixItem(sampler.Spec{Chain: chain(everyTransformRows), Sampler: ir.Grouped, LogProb: ir.TemperatureLogProb}))
	items = append(append(append(items, truncatedItems()...), editedItems()...), reportedItems()...)
	items = append(items, both([]item{{name: "rows that cannot be sampled, among others", from: "B3", f: oddRows}})...)
	return append(items, item{name: "several draws of a row", f: severalDraws})
}

func matrixItem(spec sampler.Spec) item {
	name := fmt.Sprintf("random heads: %s, %s", spec.Sampler, spec.Chain)
	if !spec.Score {
		name += ", no score"
	}
	if spec.LogSumExp {
		name += ", log-sum-exp"
	}
	if spec.LogProb != ir.NoLogProb {
		name += ", " + spec.LogProb.String() + " log-probabilities"
	}
	if spec.ListLogProbs {
		name += fmt.Sprintf(", %d likeliest, ranks, lists", spec.TopN)
	}
	if spec.Slots {
		name += ", slots"
	}
	if spec.Truncation.Any() {
		name += ", " + spec.Truncation.String()
	}
	spec.MaxBatch = quickBatches[len(quickBatches)-1]
	return item{name: name, kind: kind{sampler: spec.Sampler}, f: func(ctx context.Context, p *probe) error {
		for i, v := range quickVocabs {
			for j, d := range quickHiddens {
				sizes := p.quickSizes(spec, i, j)
				if len(sizes) == 0 {
					continue
				}
				w := p.weights(v, d)
				pr := p.random(w, ir.Shape{Vocab: v, Hidden: d}, spec.MaxBatch, spec, (i+j)%3 == 0)
				if err := p.batches(ctx, pr, sizes); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// quickSizes are the batch sizes for the i-th vocabulary and j-th hidden size: all, or on a simulator one each of a few
// shapes, chosen anew for every check, so that the checks together cover the grid. Greedy kernels, which do the least, take half
// as many shapes, and those that truncate a third of the smaller ones: they have a second stage, of 512 threads a row, which takes
// seconds to sort long lists. So do those that edit, whose lists may name every token. Ranks, each of which loads its part of every
// head, take a third of the shapes in all batch sizes.
func (p *probe) quickSizes(spec sampler.Spec, i, j int) []int {
	if p.ranks && !p.sim && p.rng.IntN(3) > 0 {
		return nil
	}
	if !p.sim {
		return quickBatches
	}
	switch {
	case (spec.Truncation.Any() || spec.Chain.Edits()) && (quickVocabs[i] > 1000 || p.rng.IntN(3) > 0):
		return nil
	case spec.Sampler == ir.Greedy && p.rng.IntN(2) == 0:
		return nil
	}
	if p.rng.IntN(len(quickHiddens)) != j {
		return nil
	}
	return []int{quickBatches[p.rng.IntN(len(quickBatches))]}
}

// oddRows puts rows that end without a token, and rows with one or two tokens left, among ordinary ones.
func oddRows(ctx context.Context, p *probe) error {
	const v, d, rows = 401, 72, 19
	spec := p.noisy(everyTransformRows)
	spec.MaxBatch = rows
	pr := p.random(p.weights(v, d), ir.Shape{Vocab: v, Hidden: d}, rows, spec, false)
	pr.rows.MaskWords = (v + 31) / 32
	pr.rows.Mask = make([]uint32, rows*pr.rows.MaskWords)
	for i := range pr.rows.Mask {
		pr.rows.Mask[i] = p.rng.Uint32() | p.rng.Uint32()
	}
	mask := func(row int) []uint32 { return pr.rows.Mask[row*pr.rows.MaskWords:][:pr.rows.MaskWords] }
	pr.hidden[2*d+5] = bf16(float32(math.NaN()))
	clear(mask(4))
	clear(mask(6))
	mask(6)[v/32] = 1 << (v % 32) >> 1 // the last token alone
	pr.rows.Bias[8*v+7], pr.rows.Bias[8*v+300] = float32(math.Inf(1)), float32(math.Inf(1))
	for _, id := range []int{7, 300} {
		mask(8)[id/32] |= 1 << (id % 32)
	}
	for i := range v {
		pr.rows.Bias[10*v+i] = float32(math.Inf(-1))
	}
	return p.batches(ctx, pr, []int{rows, rows, 7})
}

// batches compares runs of a problem's rows, each at another place, with the reference; all come from one plan.
func (p *probe) batches(ctx context.Context, pr *problem, sizes []int) error {
	o, err := ask(ctx, pr)
	if err != nil {
		return err
	}
	return p.with(ctx, pr, func(s *session) error {
		for _, n := range sizes {
			idx := span(p.rng.IntN(pr.batch-n+1), n)
			got, err := s.sample(ctx, pr.pick(idx))
			if err != nil {
				return fmt.Errorf("%s, %d rows: %w", pr, n, err)
			}
			if err := o.judge(p.Check, idx, got); err != nil {
				return err
			}
		}
		return nil
	})
}
