package stats

import (
	"fmt"

	"gonum.org/v1/gonum/stat/distuv"
)

// leastExpected is the expected count below which neighbouring cells are judged together: the chi-squared
// distribution is an approximation for large counts.
const leastExpected = 10

// ChiSquared judges counts against the probabilities of their cells, which add up to 1. A count in a cell of
// probability 0 gives an infinite z.
func ChiSquared(name string, counts []int64, prob []float64) Result {
	if len(counts) != len(prob) {
		panic(fmt.Sprintf("BUG: stats: %d counts and %d probabilities", len(counts), len(prob)))
	}
	var n int64
	for _, c := range counts {
		n += c
	}
	var observed, expected []float64
	var o, e float64
	for i, c := range counts {
		if prob[i] == 0 && c > 0 {
			return impossible(name, n, c)
		}
		o, e = o+float64(c), e+prob[i]*float64(n)
		if e >= leastExpected {
			observed, expected, o, e = append(observed, o), append(expected, e), 0, 0
		}
	}
	if last := len(expected) - 1; last >= 0 {
		observed[last], expected[last] = observed[last]+o, expected[last]+e
	}
	r := pearson(name, n, observed, expected)
	r.TooFew = len(expected) < 2 && possible(prob) > 1
	return r
}

// possible counts the cells that are not empty for sure.
func possible(prob []float64) (n int) {
	for _, p := range prob {
		if p > 0 {
			n++
		}
	}
	return n
}

func pearson(name string, n int64, observed, expected []float64) Result {
	r := Result{Name: name, N: n}
	if len(expected) < 2 {
		return r
	}
	for i, e := range expected {
		r.Statistic += (observed[i] - e) * (observed[i] - e) / e
	}
	d := distuv.ChiSquared{K: float64(len(expected) - 1)}
	r.Z = zOf(d.CDF(r.Statistic), d.Survival(r.Statistic))
	return r
}
