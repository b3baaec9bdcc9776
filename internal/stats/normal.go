package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// zOf turns the two tail probabilities P(X <= x) and P(X >= x) into a z. It works from the smaller one, which is the one
// with digits left.
func zOf(lower, upper float64) float64 {
	const least = 1e-300 // z is about 37 there; what lies beyond has failed anyway
	if upper < lower {
		return -distuv.UnitNormal.Quantile(min(max(upper, least), 0.5))
	}
	return distuv.UnitNormal.Quantile(min(max(lower, least), 0.5))
}

// Normal judges a statistic with known mean and standard deviation that is close to normal.
func Normal(name string, n int64, statistic, mean, sd float64) Result {
	r := Result{Name: name, N: n, Statistic: statistic}
	switch {
	case sd > 0:
		r.Z = (statistic - mean) / sd
	case statistic != mean:
		r.Z = math.Copysign(math.Inf(1), statistic-mean)
	}
	return r
}
