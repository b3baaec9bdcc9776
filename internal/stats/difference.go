package stats

import (
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// LargestDifference judges the differences (tokens[i] - tokens[j]) mod vocab of all pairs i < j of tokens that should be
// independent and uniform: its statistic is the number of pairs in the fullest of the vocab bins. Rows that read shifted
// copies of one stream meet in one bin, which no test of a single row sees. The tokens must lie in [0, vocab). Z is 0 or above: an even
// spread is no fault.
func LargestDifference(name string, tokens []int32, vocab int) Result {
	bins := make([]int64, vocab)
	for i, a := range tokens {
		for _, b := range tokens[i+1:] {
			bins[(int(a)-int(b)+vocab)%vocab]++
		}
	}
	largest := slices.Max(bins)
	pairs := int64(len(tokens)) * int64(len(tokens)-1) / 2
	r := Result{Name: name, N: pairs, Statistic: float64(largest)}
	if largest > 0 {
		// A bin is close to Poisson, and the bins are close to independent.
		tail := float64(vocab) * mathext.GammaIncReg(float64(largest), float64(pairs)/float64(vocab))
		r.Z = zOf(1, min(tail, 0.5))
	}
	return r
}
