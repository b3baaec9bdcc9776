package stats

// Histogram counts observations in cells of known probability.
type Histogram struct {
	name   string
	prob   []float64
	counts []int64
}

// NewHistogram counts in len(prob) cells.
func NewHistogram(name string, prob []float64) *Histogram {
	return &Histogram{name, prob, make([]int64, len(prob))}
}

// Add takes one observation.
func (h *Histogram) Add(cell int) { h.counts[cell]++ }

// Count returns the observations in a cell.
func (h *Histogram) Count(cell int) int64 { return h.counts[cell] }

// Merge takes the observations of another histogram of the same cells.
func (h *Histogram) Merge(o *Histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
}

// Result is the chi-squared statistic.
func (h *Histogram) Result() Result { return ChiSquared(h.name, h.counts, h.prob) }

// bucketProb gives the probabilities of v*buckets/vocab for v uniform over vocab.
func bucketProb(vocab, buckets int) []float64 {
	prob := make([]float64, buckets)
	first := func(i int) int { return (i*vocab + buckets - 1) / buckets }
	for i := range prob {
		prob[i] = float64(first(i+1)-first(i)) / float64(vocab)
	}
	return prob
}

// residueProb gives the probabilities of v mod m for v uniform over vocab.
func residueProb(vocab, m int) []float64 {
	prob := make([]float64, m)
	for i := range prob {
		prob[i] = float64((vocab-i+m-1)/m) / float64(vocab)
		if i >= vocab {
			prob[i] = 0
		}
	}
	return prob
}
