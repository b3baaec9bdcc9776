package autotune

import (
	"math"
	"slices"
)

// When two candidates tie. Passes time every candidate once, so times of one pass are paired, and clocks or heat that
// drift between passes cancel in their difference. A candidate ties with the best of a round if the median difference is
// at most tieErrors standard errors of that median, estimated by the differences' median absolute deviation, which one
// slow pass does not spoil. The band is never narrower than tieLeast of the best's time, so that a difference too small to
// matter does not move a choice from run to run, and never wider than tieMost: however noisy the machine, the choice costs
// no more than that, and two runs agree within twice as much.
const (
	tieErrors = 3
	tieLeast  = 0.005
	tieMost   = 0.01
)

// tied reports whether a candidate's times, pass by pass, tell it from the best's.
func tied(times, best []float64) bool {
	diff := make([]float64, len(times))
	for i := range diff {
		diff[i] = times[i] - best[i]
	}
	b := median(best)
	return median(diff) <= min(max(tieErrors*medianError(diff), tieLeast*b), tieMost*b)
}

// medianError estimates the standard error of a sample's median, as for a normal distribution: the deviation is 1.4826
// median absolute deviations, and the median's error sqrt(pi/2) times the mean's.
func medianError(x []float64) float64 {
	return math.Sqrt(math.Pi/2) * 1.4826 * spread(x) / math.Sqrt(float64(len(x)))
}

// spread is the median absolute deviation.
func spread(x []float64) float64 {
	m, dev := median(x), make([]float64, len(x))
	for i, v := range x {
		dev[i] = math.Abs(v - m)
	}
	return median(dev)
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	if n == 0 {
		return math.NaN()
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}
