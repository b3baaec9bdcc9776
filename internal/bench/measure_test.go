package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/nvml"
)

// clock is a fake stopwatch: every contender's replay takes the next of its times, and is logged.
type clock struct {
	log []string
	now time.Duration
}

func (c *clock) contender(name string, times ...time.Duration) Contender {
	n := 0
	return Contender{Name: name, Replay: func(_ context.Context, during func()) (time.Duration, error) {
		c.log = append(c.log, name)
		d := times[n%len(times)]
		n++
		c.now += d / 2
		during()
		c.now += d - d/2
		return d, nil
	}}
}

var three = Method{Launches: 2, Replays: 3, WarmUps: 1}

func TestContendersTakeTurns(t *testing.T) {
	var c clock
	list := []Contender{c.contender("a", 100, 10000, 20000, 30000), c.contender("b", 7000)}
	var steps []string
	series, err := Measure(t.Context(), list, three, Watch{Progress: func(done, total int) { steps = append(steps, fmt.Sprint(done, "/", total)) }})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "a", "b", "a", "b", "a", "b"}, c.log)
	assert.Equal(t, []float64{5, 10, 15}, series[0].Times, "microseconds a launch, without the warm-up")
	assert.Equal(t, []float64{3.5, 3.5, 3.5}, series[1].Times)
	assert.Equal(t, "1/8", steps[0])
	assert.Equal(t, "8/8", steps[7])
	assert.Empty(t, series[0].Readings)
}

func TestClocksAreReadWhileReplaysRun(t *testing.T) {
	var c clock
	reads := 0
	meter := func() (nvml.Reading, bool) {
		reads++
		return nvml.Reading{SMClock: int(c.now)}, reads != 2
	}
	series, err := Measure(t.Context(), []Contender{c.contender("a", 10), c.contender("b", 100)}, three, Watch{Meter: meter})
	require.NoError(t, err)
	assert.Equal(t, []nvml.Reading{{SMClock: 115}, {SMClock: 225}, {SMClock: 335}}, series[0].Readings, "half-way through each of a's, warm-up apart")
	assert.Equal(t, []nvml.Reading{{SMClock: 280}, {SMClock: 390}}, series[1].Readings, "a reading that failed is no reading")
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var c clock
	_, err := Measure(ctx, []Contender{c.contender("a", 1), c.contender("b", 1)}, three, Watch{Progress: func(done, _ int) {
		if done == 3 {
			cancel()
		}
	}})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, []string{"a", "b", "a"}, c.log)
}

func TestErrorNamesContenderAndReplay(t *testing.T) {
	var c clock
	broken := errors.New("launch failed")
	n := 0
	bad := Contender{Name: "bad", Replay: func(context.Context, func()) (time.Duration, error) {
		if n++; n == 3 {
			return 0, broken
		}
		return 1, nil
	}}
	series, err := Measure(t.Context(), []Contender{c.contender("a", 1), bad}, three, Watch{})
	assert.ErrorIs(t, err, broken)
	assert.EqualError(t, err, "bad, replay 3 of 4: launch failed")
	assert.Nil(t, series, "no half of a comparison")
	assert.Len(t, c.log, 3)
}

func TestMethodIsChecked(t *testing.T) {
	assert.NoError(t, DefaultMethod.check())
	for _, m := range []Method{{20, 8, 3}, {20, 7, 3}, {20, 10, 3}, {20, 1001, 3}, {0, 9, 3}, {20, 9, -1}} {
		assert.Error(t, m.check(), "%+v", m)
	}
}
