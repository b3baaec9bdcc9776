package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// normalVariance is the variance above which a binomial is as good as normal at the limits used here.
const normalVariance = 1e5

// Binomial judges the number of hits in n trials that hit with probability p: exactly for rare hits (the middle of the
// tail probabilities with and without the count itself), by the normal distribution for frequent ones. It is the test
// of tail hits as well.
func Binomial(name string, hits, n int64, p float64) Result {
	mean, variance := float64(n)*p, float64(n)*p*(1-p)
	if n == 0 || variance == 0 || variance > normalVariance {
		return Normal(name, n, float64(hits), mean, math.Sqrt(variance))
	}
	lower, upper := binomialTail(hits, n, p), 1-binomialTail(hits-1, n, p)
	if float64(hits) > mean {
		upper = binomialUpper(hits, n, p)
	}
	point := math.Max(0, lower+upper-1)
	return Result{Name: name, N: n, Statistic: float64(hits), Z: zOf(lower-point/2, upper-point/2)}
}

// binomialTail is P(X <= k).
func binomialTail(k, n int64, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}

// binomialUpper is P(X >= k), with digits where it is small.
func binomialUpper(k, n int64, p float64) float64 {
	if k <= 0 {
		return 1
	}
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
}
