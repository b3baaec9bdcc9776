package sampler

import (
	"slices"

	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
)

// Rows that truncation narrows, or that draw several tokens, are decided in one pass over the weights as a rule. Those that are not,
// since a list was too short or a sum not exact enough, take further passes of a kernel of their own (docs/truncation.md, docs/draws.md).

// mostPasses bounds the passes of a call of Sample, by more than any row takes (docs/truncation.md, section 3). A row that draws goes on with
// a part of the vocabulary that is a 65th of the one before, on average, and two passes do that. A list that overflows costs a pass or
// two, and leaves out nearly as many tokens as it holds; that of ranks a thousand for each.
func (b *batch) mostPasses() int { return 64 + b.shape.Vocab/512 }

// Passes of a launch that does not say. A row with a k needs a second one where its list has overflowed, a row of top-p two more where
// its nucleus is wider than its list: one that draws, and one that surveys what ranks above what was drawn. A processed log-probability
// takes one more, which adds up what is kept, and so do draws with replacement out of that. Draws without replacement need a second one
// where the list has overflowed, those with replacement one more where the sum in float32 leaves one open, or two if the first has not
// found the row's largest logit.
const (
	listPasses   = 2
	surveyPasses = 3
	keptPasses   = 4
)

// furtherPasses is how many passes a launch makes after the first.
func (s Spec) furtherPasses() int {
	switch {
	case !s.Computation().Collects() || s.Artifact != nil && s.Further == nil:
		return 0
	case s.Passes == 0 && (s.LogProb == ir.ProcessedLogProb || s.Draws == ir.WithReplacement) && (s.Truncation.TopP || s.Truncation.MinP):
		return keptPasses - 1
	case s.Passes == 0 && (s.Truncation.TopP || s.Truncation.MinP || s.Draws == ir.WithReplacement && !s.Computation().FindsPeaks()):
		return surveyPasses - 1
	case s.Passes == 0:
		return listPasses - 1
	}
	return s.Passes - 1
}

// reports reports whether stages report of rows whose lists further passes may have to decide.
func (s Spec) reports() bool {
	return s.Computation().Collects() && s.wantsReports()
}

// wantsReports reports whether anything is reported of rows beside what their tokens come with.
func (s Spec) wantsReports() bool { return s.TopN > 0 || s.ListLogProbs || s.Rank }

// passesOver says of rows that they went over the vocabulary as often as the likeliest tokens took, and once more for ranks.
func (s Spec) passesOver(rows, passes int) []int32 {
	if s.Rank {
		passes++
	}
	return slices.Repeat([]int32{int32(passes)}, rows)
}

// further is the kernel of the further passes of a plan, of the tile of its widest bucket; nil where there are none.
func (s Spec) further(buckets []bucket) (*bucket, error) {
	last := buckets[len(buckets)-1]
	switch {
	case s.Further != nil:
		return &bucket{last.width, autotune.Choice{Artifact: s.Further}}, nil
	case !s.Computation().Collects() || s.Artifact != nil:
		return nil, nil
	}
	return s.another(buckets, func(r *gen.Request) { r.Options.Further = true })
}

// ranks is the kernel that counts the tokens before those of the rows, of the same tile; nil where nobody asks.
func (s Spec) ranks(buckets []bucket) (*bucket, error) {
	if !s.Rank {
		return nil, nil
	}
	return s.another(buckets, func(r *gen.Request) { r.Computation, r.Options.Ranks = r.Computation.Normalize().RankPass(), true })
}

// another is a further kernel of a plan, of the tile of its widest bucket.
func (s Spec) another(buckets []bucket, change func(r *gen.Request)) (*bucket, error) {
	last := buckets[len(buckets)-1]
	m := last.Artifact.Manifest
	a, tile, err := last.Artifact.Target()
	if err != nil {
		return nil, err
	}
	r := s.request(a, ir.Shape{Vocab: m.Problem.Vocab, Hidden: m.Problem.Hidden}, m.Tile.Weights, tile)
	change(&r)
	k, err := gen.Emit(r)
	if err != nil {
		return nil, err
	}
	return &bucket{last.width, autotune.Choice{Artifact: k}}, nil
}

// seldomOpen reports whether nearly all rows are decided by their first pass: of draws among all tokens those whose list has overflowed are
// not, and of those with replacement the few that a sum in float32 leaves open.
func (s Spec) seldomOpen() bool {
	c := s.Computation()
	return c.Draws == ir.WithoutReplacement && !c.Truncation.Any() || c.FindsPeaks()
}
