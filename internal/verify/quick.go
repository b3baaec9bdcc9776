package verify

import (
	"context"
	"fmt"

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
	for _, s := range []ir.Sampler{ir.Greedy, ir.Gumbel} {
		for _, c := range quickChains {
			items = append(items, matrixItem(sampler.Spec{Sampler: s, Chain: chain(c), Score: true}))
		}
	}
	return append(items, matrixItem(sampler.Spec{Chain: chain(everyTransform)}))
}

func matrixItem(spec sampler.Spec) item {
	name := fmt.Sprintf("random heads: %s, %s", spec.Sampler, spec.Chain)
	if !spec.Score {
		name += ", no score"
	}
	spec.MaxBatch = quickBatches[len(quickBatches)-1]
	return item{name: name, f: func(ctx context.Context, p *probe) error {
		for i, v := range quickVocabs {
			for j, d := range quickHiddens {
				w := p.weights(v, d)
				pr := p.random(w, ir.Shape{Vocab: v, Hidden: d}, spec.MaxBatch, spec, (i+j)%3 == 0)
				if err := p.batches(ctx, pr, quickBatches); err != nil {
					return err
				}
			}
		}
		return nil
	}}
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
