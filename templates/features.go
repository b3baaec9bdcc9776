package templates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fsgen/fsgen/ir"
)

// features are those that the skeletons build.
var features = map[ir.Feature]bool{ir.FeatureTopK: true, ir.FeatureTopP: true, ir.FeatureMinP: true, ir.FeatureLogProb: true, ir.FeatureSlots: true,
	ir.FeatureDraws: true, ir.FeatureSparseBias: true, ir.FeaturePenalties: true, ir.FeatureIDs: true,
	ir.FeatureListed: true, ir.FeatureTopN: true, ir.FeatureRank: true, ir.FeatureShard: true}

// UnsupportedError names a feature that no kernel has.
type UnsupportedError struct {
	Feature ir.Feature
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("templates: no kernel does %s yet", e.Feature)
}

// threeSums takes a third: kernels add up two distributions.
const threeSums ir.Feature = "the log-sum-exp beside log-probabilities and top-p of two other distributions"

// Supports returns nil, or an *UnsupportedError for the first feature of a computation that no kernel has.
func Supports(c ir.Computation) error {
	c = c.Normalize()
	for _, f := range c.Features() {
		if !features[f] {
			return &UnsupportedError{f}
		}
	}
	unedited := c.Chain.Edits() && c.Sums() && c.Summed() != c
	switch {
	case c.Shard == ir.ShardRecords && firstOf(c, reports) != "": // they go from memory to memory
		return &UnsupportedError{firstOf(c, reports) + apart}
	case c.Shard != ir.Whole && len(c.DistinctSums()) > 1: // records have one sum
		return &UnsupportedError{ir.Feature(strings.Join(addedUp(c), " beside ") + " of shards of the vocabulary")}
	case c.Shard == ir.ShardRecords && c.Collects(): // lists go from memory to memory
		return &UnsupportedError{firstOf(c, listed) + apart}
	case c.Shard != ir.Whole && unedited && c.Collects():
		return &UnsupportedError{ir.Feature(c.LogProb.String()+" log-probabilities of edited logits with ") + firstOf(c, listed) + " of shards of the vocabulary"}
	case c.Truncation.Any() && c.Sampler != ir.Gumbel:
		return &UnsupportedError{ir.Feature("truncation with the " + c.Sampler.String() + " sampler")}
	case len(c.DistinctSums()) > ir.MostSums:
		return &UnsupportedError{threeSums}
	case unedited && (c.Chain.Bias == ir.BiasVector || c.Chain.Bias == ir.BiasMatrix):
		return &UnsupportedError{ir.Feature(c.LogProb.String()+" log-probabilities beside ") + firstOf(c, edits) + " and a dense bias"}
	case unedited && c.Sampler == ir.Grouped:
		return &UnsupportedError{ir.Feature(c.LogProb.String() + " log-probabilities of edited logits with the grouped sampler")}
	case c.Sampler == ir.Grouped && c.Rank:
		return &UnsupportedError{"ranks with the grouped sampler"}
	case c.Sampler == ir.Grouped && c.TopN > 0:
		return &UnsupportedError{"top log-probabilities with the grouped sampler"}
	case unedited && c.TopN > 0:
		return &UnsupportedError{ir.Feature(c.LogProb.String() + " top log-probabilities of edited logits")}
	}
	return nil
}

// addedUp names what a computation adds distributions up for.
func addedUp(c ir.Computation) (names []string) {
	if c.LogSumExp {
		names = append(names, "the log-sum-exp")
	}
	if c.LogProb != ir.NoLogProb {
		names = append(names, c.LogProb.String()+" log-probabilities")
	}
	if c.Truncation.TopP {
		names = append(names, "top-p")
	}
	if c.Draws == ir.WithReplacement {
		names = append(names, "draws with replacement")
	}
	return names
}

// Features by what they take: reports of a row's other tokens, lists of what is drawn from, logits that are changed one by one.
var (
	reports = []ir.Feature{ir.FeatureRank, ir.FeatureTopN, ir.FeatureListed}
	listed  = []ir.Feature{ir.FeatureTopK, ir.FeatureTopP, ir.FeatureMinP, ir.FeatureDraws}
	edits   = []ir.Feature{ir.FeaturePenalties, ir.FeatureSparseBias, ir.FeatureIDs}
)

// apart is where what ranks report or list cannot go from memory to memory.
const apart ir.Feature = " of shards whose ranks do not reach one another's memory"

// firstOf is the first of some features that a computation asks for: a refusal names nothing that nobody has asked for. "" is none.
func firstOf(c ir.Computation, some []ir.Feature) ir.Feature {
	for _, f := range c.Features() {
		if slices.Contains(some, f) {
			return f
		}
	}
	return ""
}
