package verify

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

var (
	fullBatches = []int{1, 3, 8, 16, 17, 64, 100, 128, 255, 256, 300}
	fullVocabs  = []int{1, 127, 128, 129, 1000, 32003, 50257, 151936}
	fullHiddens = []int{64, 72, 2880, 4096}
)

// full is every suite and a matrix of shapes up to real models'.
func full(r *run) []item {
	items := slices.Concat(quick(r), degenerate(r), invariance(r), exact(r))
	for _, v := range fullVocabs {
		for _, d := range fullHiddens {
			// The reference would keep a CPU alone busy for an hour: large heads are for GPUs.
			if r.gpu || v*d <= 1e6 {
				items = append(items, fullItem(v, d))
			}
		}
	}
	return items
}

func fullItem(v, d int) item {
	return item{name: fmt.Sprintf("V=%d, D=%d in every batch size", v, d), f: func(ctx context.Context, p *probe) error {
		grouped := sampler.Spec{Chain: chain(everyTransform), Sampler: ir.Grouped, Score: true, LogSumExp: true}
		specs := []sampler.Spec{gumbel(everyTransform), grouped, truncated("temperature", "top-k,top-p,min-p")}
		if v*d <= 2e7 {
			specs = append(specs, gumbel("none"), gumbel(everyTransformRows), greedy("softcap=30,mask"))
		}
		w := p.pooledWeights(v, d)
		for _, spec := range specs {
			spec.MaxBatch = mostRows
			pr := p.random(w, ir.Shape{Vocab: v, Hidden: d}, mostRows, spec, false)
			if err := p.manySizes(ctx, pr, fullBatches); err != nil {
				return err
			}
		}
		return nil
	}}
}

// answer is a run of some of a problem's rows.
type answer struct {
	idx []int
	got *sampler.Result
}

// manySizes samples rows of a problem in batches of several sizes while the reference samples all of them once, and
// compares each batch with it.
func (p *probe) manySizes(ctx context.Context, pr *problem, sizes []int) error {
	var o *oracle
	var oErr error
	var group sync.WaitGroup
	group.Go(func() { o, oErr = ask(ctx, pr) })
	answers, err := p.answers(ctx, pr, sizes)
	group.Wait()
	if err != nil {
		return err
	}
	if oErr != nil {
		return oErr
	}
	for _, a := range answers {
		if err := o.judge(p.Check, a.idx, a.got); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) answers(ctx context.Context, pr *problem, sizes []int) (out []answer, err error) {
	err = p.with(ctx, pr, func(s *session) error {
		for _, n := range sizes {
			idx := span(p.rng.IntN(pr.batch-n+1), n)
			got, err := s.sample(ctx, pr.pick(idx))
			if err != nil {
				return fmt.Errorf("%s, %d rows: %w", pr, n, err)
			}
			out = append(out, answer{idx, got})
		}
		return nil
	})
	return out, err
}
