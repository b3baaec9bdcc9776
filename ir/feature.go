package ir

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
		{FeatureTopN, c.TopN > 0}, {FeatureListed, c.Listed}, {FeatureSlots, c.Slots},
	} {
		if f.asked {
			out = append(out, f.name)
		}
	}
	return out
}
