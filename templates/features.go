package templates

import (
	"fmt"

	"github.com/fsgen/fsgen/ir"
)

// features are those that the skeletons build.
var features = map[ir.Feature]bool{ir.FeatureTopK: true, ir.FeatureTopP: true, ir.FeatureMinP: true, ir.FeatureLogProb: true, ir.FeatureSlots: true,
	ir.FeatureDraws: true, ir.FeatureSparseBias: true, ir.FeaturePenalties: true, ir.FeatureIDs: true,
	ir.FeatureListed: true, ir.FeatureTopN: true, ir.FeatureRank: true}

// UnsupportedError names a feature that no kernel has.
type UnsupportedError struct {
	Feature ir.Feature
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("templates: no kernel does %s yet", e.Feature)
}

// What takes two sums: kernels add up one distribution.
const (
	sumsTwice          ir.Feature = "the log-sum-exp beside log-probabilities of another distribution"
	logProbsBesideTopP ir.Feature = "log-probabilities beside top-p of another distribution"
	sumBesideTopP      ir.Feature = "the log-sum-exp beside top-p of another distribution"
)

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
	case c.Truncation.Any() && c.Sampler != ir.Gumbel:
		return &UnsupportedError{ir.Feature("truncation with the " + c.Sampler.String() + " sampler")}
	case len(c.DistinctSums()) > 1:
		return &UnsupportedError{twoSums(c)}
	case unedited && (c.Chain.Bias == ir.BiasVector || c.Chain.Bias == ir.BiasMatrix):
		return &UnsupportedError{ir.Feature(c.LogProb.String() + " log-probabilities beside penalties or lists of ids and a dense bias")}
	case unedited && c.Sampler == ir.Grouped:
		return &UnsupportedError{ir.Feature(c.LogProb.String() + " log-probabilities of edited logits with the grouped sampler")}
	case unedited && c.Truncation.Any():
		return &UnsupportedError{ir.Feature(c.LogProb.String() + " log-probabilities of edited logits with truncation")}
	case c.Sampler == ir.Grouped && c.Rank:
		return &UnsupportedError{"ranks with the grouped sampler"}
	case c.Sampler == ir.Grouped && c.TopN > 0:
		return &UnsupportedError{"top log-probabilities with the grouped sampler"}
	case c.Chain.Edits() && c.Rank:
		return &UnsupportedError{"ranks with sparse bias, penalties or lists of ids"}
	case c.Chain.Edits() && c.Listed:
		return &UnsupportedError{"listed log-probabilities with sparse bias, penalties or lists of ids"}
	case unedited && c.TopN > 0:
		return &UnsupportedError{ir.Feature(c.LogProb.String() + " top log-probabilities of edited logits")}
	}
	return nil
}

// twoSums says what asks for two distributions to be added up.
func twoSums(c ir.Computation) ir.Feature {
	switch {
	case c.LogSumExp && c.LogProb.OfModel():
		return sumsTwice
	case c.LogSumExp:
		return sumBesideTopP
	}
	return logProbsBesideTopP
}
