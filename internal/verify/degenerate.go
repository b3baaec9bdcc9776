package verify

// degenerate runs the rows, shapes and arguments at which samplers are known to break.
func degenerate(r *run) []item {
	items := list([]check{
		{"a row of NaN hidden states fails alone", "B1", nanRow},
		{"NaN and infinite logits", "B2", nonFinite},
		{"infinite weights", "B2", infiniteWeights},
		{"a row with nothing allowed", "B3", emptyRow},
		{"NaN at every position", "B4", nanEverywhere},
		{"a masked NaN is not seen", "B4", maskedNaN},
		{"logits of tokens not allowed that are NaN or infinite", "B4", disallowedExtremes},
		{"such logits where two distributions are added up", "B4", disallowedBesideSums},
		{"signed zeros tie, the lowest id wins", "B5", signedZeros},
		{"equal maxima, the lowest id wins", "B5", equalMaxima},
		{"tiny temperatures", "B6", tinyTemperatures},
		{"temperatures up to the largest", "B6", largeTemperatures},
		{"T=0 in a mixed batch", "B8", mixedGreedy},
		{"bad temperatures are refused", "B8", badTemperatures},
		{"bad inputs are refused", "C10", badInputs},
		{"vocabularies beside the vector width", "B10", oddVocabs},
		{"an empty batch", "B11", emptyBatch},
		{"hidden sizes beside 16 bytes", "B14", oddHiddens},
		{"padded weights are not sampled", "B16", padding},
		{"an unseeded neighbour", "C1", unseededNeighbour},
		{"seeds belong to their rows", "C2", seedsOfRows},
		{"positions move the noise", "C4", positionsMove},
		{"every parameter has an effect", "C10", everyParameter},
		{"the bias has an effect", "D2", biasWorks},
		{"mask words that are missing allow nothing", "D3", narrowMask},
		{"rows with 1, 0 and all tokens allowed", "D5", fewAllowed},
		{"softcap and scale are applied once", "D17", appliedOnce},
		{"only the allowed token comes out", "A2", onlyAllowed},
		{"tokens of probability 0 never come out", "A8", neverSampled},
	})
	items = both(append(items, smallShapes(r)...))
	items = append(items, degenerateTruncation()...)
	return append(items, item{name: "log-sum-exps of planted logits", f: plantedSums, kind: groupedSums})
}
