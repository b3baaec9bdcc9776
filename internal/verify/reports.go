package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sampler"
)

// reportedItems are random heads of whose rows the likeliest tokens, ranks and listed log-probabilities are asked for, beside filters too.
func reportedItems() (items []item) {
	narrowed := truncated("temperature", "top-k,top-p")
	narrowed.LogProb = ir.RawLogProb
	for i, spec := range []sampler.Spec{
		{Chain: chain(everyTransformRows), LogProb: ir.RawLogProb}, {Chain: chain("mask,temperature"), LogProb: ir.ProcessedLogProb, Slots: true}, narrowed,
	} {
		spec.TopN, spec.Rank, spec.ListLogProbs = []int{ir.MaxTopN, 1, 5}[i], true, true
		items = append(items, matrixItem(spec))
	}
	return items
}

// lists gives n rows lists of ids, of different lengths.
func (p *probe) lists(pr *problem, n int) {
	if !pr.spec.ListLogProbs {
		return
	}
	for range n {
		ids := []int32{0, int32(pr.shape.Vocab - 1)}
		for range p.rng.IntN(6) {
			ids = append(ids, int32(p.rng.IntN(pr.shape.Vocab)))
		}
		pr.rows.ListIDs = append(pr.rows.ListIDs, ids)
	}
}

// listedRounding is how far a listed log-probability may lie from the reference's besides: that is 0 which is as near to it.
const listedRounding = 0x1p-12

// reports holds what is reported of a row beside its token to the reference's. Tokens whose logits differ in rounding may change places.
func (o *oracle) reports(b, slot int, token int32, got *sampler.Result) error {
	spec := o.pr.spec
	if spec.ListLogProbs {
		for i, x := range got.ListLogProbs[slot] {
			if !o.near(b, o.res.Listed[b][i], x, listedRounding) {
				return fmt.Errorf("row %d: listed log-probability %d is %v, want %v within %.3g", b, i, x, o.res.Listed[b][i], o.logProbs[b]+listedRounding)
			}
		}
	}
	if spec.TopN > 0 {
		if err := o.tops(b, got.TopIDs[slot*spec.TopN:][:spec.TopN], got.TopLogProbs[slot*spec.TopN:][:spec.TopN]); err != nil {
			return err
		}
	}
	if spec.Rank {
		return o.rank(b, token, got.Ranks[slot])
	}
	return nil
}

// near reports whether a log-probability is another within a row's bound, and what else it may be off by.
func (o *oracle) near(b int, want, got float32, more float64) bool {
	switch {
	case got == want || got != got && want != want:
		return true
	case math.IsInf(float64(got), -1):
		return float64(want)-o.logProbs[b] < -math.MaxFloat32
	}
	return got <= 0 && abs(float64(got)-float64(want)) <= o.logProbs[b]+more
}

// tops holds the likeliest tokens to the reference's, place by place: another id must have the log-probability of the place.
func (o *oracle) tops(b int, ids []int32, logs []float32) error {
	n := o.pr.spec.TopN
	for i, id := range ids {
		want, wanted := o.res.TopLogProbs[b*n+i], o.res.TopIDs[b*n+i]
		if !o.near(b, want, logs[i], 0) {
			return fmt.Errorf("row %d: place %d is token %d of log-probability %v, want token %d of %v within %.3g", b, i, id, logs[i], wanted, want, o.logProbs[b])
		}
		if id == wanted {
			continue
		}
		if id < 0 || wanted < 0 || slices.Contains(ids[:i], id) {
			return fmt.Errorf("row %d: place %d is token %d, want %d", b, i, id, wanted)
		}
		own, err := o.logProbOf(b, id)
		if err != nil {
			return err
		}
		if !o.near(b, own, logs[i], 0) {
			return fmt.Errorf("row %d: place %d is token %d of log-probability %v, which the reference gives %v", b, i, id, logs[i], own)
		}
	}
	return nil
}

// rank holds the place of a row's token to the reference's, as far as the logits of the tokens around it are told apart.
func (o *oracle) rank(b int, token, got int32) error {
	if token == o.res.Tokens[b] && got == o.res.Ranks[b] {
		return nil
	}
	all := o.pr.pick([]int{b})
	all.spec.ListLogProbs, all.rows.ListIDs = true, [][]int32{nil}
	for v := range o.pr.shape.Vocab {
		all.rows.ListIDs[0] = append(all.rows.ListIDs[0], int32(v))
	}
	res, err := reference.Sample(context.Background(), all.request())
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	least, most := int32(1), int32(1)
	if token == ir.NoToken {
		least, most = 0, 0
	}
	for v, x := range res.Listed[0] {
		if token < 0 || int32(v) == token {
			continue
		}
		switch far := float64(x) - float64(res.Listed[0][token]); {
		case far > 2*o.logProbs[b]:
			least, most = least+1, most+1
		case far >= -2*o.logProbs[b]:
			most++
		}
	}
	if got < least || got > most {
		return fmt.Errorf("row %d: token %d has rank %d, want %d to %d", b, token, got, least, most)
	}
	return nil
}
