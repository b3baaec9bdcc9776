package stats

import "math"

// impossible is the result where something came out that has probability 0.
func impossible(name string, n, count int64) Result {
	return Result{Name: name, N: n, Statistic: float64(count), Z: math.Inf(1)}
}

// Never judges how often something came out that must not.
func Never(name string, n, count int64) Result {
	if count != 0 {
		return impossible(name, n, count)
	}
	return Result{Name: name, N: n}
}
