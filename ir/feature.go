package ir

import (
	"fmt"
	"strings"
)

// Feature names something that a computation may ask for and a path may not do.
type Feature string

// The features past tokens, statuses, scores and log-sum-exps of scaled, capped, biased and masked logits.
const (
	FeaturePenalties  Feature = "penalties"
	FeatureSparseBias Feature = "sparse bias"
	FeatureIDs        Feature = "lists of allowed or banned ids"
	FeatureTopK       Feature = "top-k"
	FeatureTopP       Feature = "top-p"
	FeatureMinP       Feature = "min-p"
	FeatureDraws      Feature = "several draws of a row"
	FeatureLogProb    Feature = "log-probabilities"
	FeatureRank       Feature = "ranks"
	FeatureTopN       Feature = "top log-probabilities"
	FeatureListed     Feature = "listed log-probabilities"
	FeatureSlots      Feature = "slots"
	FeatureShard      Feature = "shards of the vocabulary"
)

// Features lists what the computation asks for, in a fixed order.
func (c Computation) Features() (out []Feature) {
	for _, f := range []struct {
		name  Feature
		asked bool
	}{
		{FeaturePenalties, c.Chain.Penalties}, {FeatureSparseBias, c.Chain.Bias == BiasSparse}, {FeatureIDs, c.Chain.IDs},
		{FeatureTopK, c.Truncation.TopK}, {FeatureTopP, c.Truncation.TopP}, {FeatureMinP, c.Truncation.MinP},
		{FeatureDraws, c.Draws != SingleDraw}, {FeatureLogProb, c.LogProb != NoLogProb}, {FeatureRank, c.Rank},
		{FeatureTopN, c.TopN > 0}, {FeatureListed, c.Listed}, {FeatureSlots, c.Slots}, {FeatureShard, c.Shard != Whole},
	} {
		if f.asked {
			out = append(out, f.name)
		}
	}
	return out
}

// Extras is the canonical text of what a computation asks for past its chain, sampler, score and log-sum-exp, such as
// "top-p,logprob=raw,rank"; "" for nothing. Two computations that differ there differ in their texts.
func (c Computation) Extras() string {
	t := c.Truncation
	var items []string
	for _, item := range []struct {
		text  string
		asked bool
	}{
		{"top-k", t.TopK}, {"top-p", t.TopP}, {"min-p", t.MinP}, {"temperature-last", t.TemperatureLast},
		{fmt.Sprintf("draws=%s:%d", c.Draws, c.MaxDraws), c.Draws != SingleDraw}, {"logprob=" + c.LogProb.String(), c.LogProb != NoLogProb},
		{"rank", c.Rank}, {fmt.Sprintf("top=%d", c.TopN), c.TopN > 0}, {"listed", c.Listed}, {"slots", c.Slots}, {c.Shard.String(), c.Shard != Whole},
	} {
		if item.asked {
			items = append(items, item.text)
		}
	}
	return strings.Join(items, ",")
}
