package bench

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fsgen/fsgen/internal/nvml"
)

func TestQuantile(t *testing.T) {
	v := []float64{50, 10, 40, 20, 30}
	for q, want := range map[float64]float64{0: 10, 0.1: 14, 0.25: 20, 0.5: 30, 0.9: 46, 1: 50} {
		assert.InDelta(t, want, Quantile(v, q), 1e-9, "%v", q)
	}
	assert.Equal(t, []float64{50, 10, 40, 20, 30}, v, "the order of the replays stays")
	assert.Equal(t, 25.0, median([]float64{40, 10, 30, 20}))
	assert.Equal(t, 3.0, Quantile([]float64{3}, 0.9))
	assert.True(t, math.IsNaN(Quantile(nil, 0.5)))
}

func TestClocksOf(t *testing.T) {
	assert.Nil(t, clocksOf(nil))
	c := clocksOf([]nvml.Reading{{SMClock: 1980, MemoryClock: 3201, Power: 300.04, Temperature: 41, Throttle: nvml.Idle},
		{SMClock: 1200, MemoryClock: 3201, Power: 690, Temperature: 61, Throttle: 1 << 2}, {SMClock: 1755, MemoryClock: 3201, Power: 500.26, Temperature: 50}})
	assert.Equal(t, &Clocks{SMClock: 1755, MemoryClock: 3201, Power: 500.3, Temperature: 61, Throttle: []string{"sw power cap"}}, c)
}
