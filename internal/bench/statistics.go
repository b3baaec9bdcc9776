package bench

import (
	"math"
	"slices"

	"github.com/fsgen/fsgen/internal/nvml"
)

// Quantile returns the value below which a share q of the values lies, linear between the two nearest (Hyndman and Fan,
// type 7). Of no values it is NaN.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	low := int(at)
	high := min(low+1, len(s)-1)
	return s[low] + (at-float64(low))*(s[high]-s[low])
}

func median(values []float64) float64 { return Quantile(values, 0.5) }

// Clocks is the state of the GPU while a contender ran: medians over its replays, the highest temperature, and every
// reason seen for clocks below the highest. What could not be read is 0.
type Clocks struct {
	SMClock     float64  `json:"sm_mhz,omitzero"`
	MemoryClock float64  `json:"memory_mhz,omitzero"`
	Power       float64  `json:"power_w,omitzero"`
	Temperature int      `json:"temperature_c,omitzero"`
	Throttle    []string `json:"throttle,omitempty"`
}

// clocksOf sums up readings. A GPU that calls itself idle had already finished when it was asked: that is no reason.
func clocksOf(readings []nvml.Reading) *Clocks {
	if len(readings) == 0 {
		return nil
	}
	var c Clocks
	var reasons nvml.Throttle
	for _, r := range readings {
		c.Temperature = max(c.Temperature, r.Temperature)
		reasons |= r.Throttle
	}
	middle := func(value func(nvml.Reading) float64) float64 {
		var v []float64
		for _, r := range readings {
			v = append(v, value(r))
		}
		return median(v)
	}
	c.SMClock = middle(func(r nvml.Reading) float64 { return float64(r.SMClock) })
	c.MemoryClock = middle(func(r nvml.Reading) float64 { return float64(r.MemoryClock) })
	c.Power = round(middle(func(r nvml.Reading) float64 { return r.Power }), 1)
	c.Throttle = (reasons &^ nvml.Idle).Names()
	return &c
}

// round keeps some digits after the point.
func round(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(x*scale) / scale
}
