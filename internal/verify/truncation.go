package verify

import (
	"context"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// truncated is a spec with scores, of the sampler that draws among what filters keep.
func truncated(c, filters string) sampler.Spec {
	t, err := ir.ParseTruncation(filters)
	if err != nil {
		panic("BUG: verify: " + err.Error())
	}
	spec := gumbel(c)
	spec.Truncation = t
	return spec
}

// truncatedItems are random heads whose rows have filters of every kind, off in some of them.
func truncatedItems() (items []item) {
	specs := []sampler.Spec{
		truncated("none", "top-k"), truncated("temperature", "top-p"), truncated("temperature", "top-k,top-p"),
		truncated("temperature", "top-k,top-p,min-p,temperature-last"), truncated(everyTransformRows, "top-k,min-p"),
	}
	specs[1].LogProb, specs[1].LogSumExp = ir.ProcessedLogProb, true
	specs[3].LogProb = ir.ProcessedLogProb
	specs[4].LogProb, specs[4].Slots = ir.RawLogProb, true
	for _, spec := range specs {
		items = append(items, matrixItem(spec))
	}
	return items
}

// What random rows' filters are: off, at their ends, past them and between.
var (
	topKs = []int32{-1, 0, 1, 2, 5, 20, 40, 100}
	topPs = []float32{0, 1e-30, 0.1, 0.5, 0.9, 0.95, 0.9999999, 1, 2}
	minPs = []float32{0, 1e-30, 0.01, 0.1, 0.5, 1}
)

// filters gives n rows the filters of the problem's spec.
func (p *probe) filters(pr *problem, n int) {
	t, v := pr.spec.Truncation, int32(pr.shape.Vocab)
	ks := append([]int32{min(v-1, ir.MaxTopK), v, v + 7}, topKs...)
	for range n {
		if t.TopK {
			pr.rows.TopK = append(pr.rows.TopK, ks[p.rng.IntN(len(ks))])
		}
		if t.TopP {
			pr.rows.TopP = append(pr.rows.TopP, topPs[p.rng.IntN(len(topPs))])
		}
		if t.MinP {
			pr.rows.MinP = append(pr.rows.MinP, minPs[p.rng.IntN(len(minPs))])
		}
	}
}

// truncatedInvariance holds rows that filters narrow to what they are alone.
func truncatedInvariance(r *run) []item {
	items := list([]check{
		{"truncated rows in every batch size", "D13", truncatedBatches},
		{"truncated rows, permuted", "D13", truncatedPermuted},
	})
	if len(tiles(r.info.Arch, truncatedRows, mostRows)) > 0 {
		items = append(items, item{name: "truncated rows, every tile", from: "D13", f: truncatedTiles})
	}
	return items
}

var truncatedRows = truncated("temperature,mask", "top-k,top-p,min-p")

func truncatedBatches(ctx context.Context, p *probe) error { return p.inEveryBatch(ctx, truncatedRows) }

func truncatedPermuted(ctx context.Context, p *probe) error {
	return p.inEveryOrder(ctx, truncated("none", "top-k"), truncated("bias=rows,temperature", "top-k,top-p,temperature-last"))
}

func truncatedTiles(ctx context.Context, p *probe) error {
	return p.fixed(ctx, 1033, 200, truncatedRows, func(in *invariant) error { return in.onTiles(ctx, truncatedRows) })
}
