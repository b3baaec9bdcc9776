package stats

import (
	"fmt"
	"math"
)

// Serial judges the correlation of each token of a stream with the one before, for tokens that should be independent
// and uniform over a vocabulary.
type Serial struct {
	vocab   int
	pairs   int64
	product float64
	last    float64
	started bool
}

// NewSerial is for tokens 0 to vocab-1.
func NewSerial(vocab int) *Serial { return &Serial{vocab: vocab} }

// Add takes the next token of the stream.
func (s *Serial) Add(token int32) {
	x := centred(token, s.vocab)
	if s.started {
		s.product += x * s.last
		s.pairs++
	}
	s.last, s.started = x, true
}

// Merge takes the pairs of another stream.
func (s *Serial) Merge(o *Serial) {
	s.product += o.product
	s.pairs += o.pairs
}

// Result has the correlation coefficient as its statistic.
func (s *Serial) Result() Result {
	return correlated("serial correlation", s.pairs, s.product, s.vocab)
}

// Correlation judges two streams of tokens, place by place, that should be independent and uniform over a vocabulary.
func Correlation(name string, a, b []int32, vocab int) Result {
	if len(a) != len(b) {
		panic(fmt.Sprintf("BUG: stats: streams of %d and %d tokens", len(a), len(b)))
	}
	product := 0.0
	for i := range a {
		product += centred(a[i], vocab) * centred(b[i], vocab)
	}
	return correlated(name, int64(len(a)), product, vocab)
}

// correlated judges a sum of products of independent centred tokens: its variance is that of the token, squared, times n.
func correlated(name string, n int64, product float64, vocab int) Result {
	v := variance(vocab)
	if n == 0 || v == 0 {
		return Result{Name: name, N: n}
	}
	r := product / (float64(n) * v)
	return Result{Name: name, N: n, Statistic: r, Z: r * math.Sqrt(float64(n))}
}
