package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// runner is a contender whose replays take their time in a bubble of synctest; running says which one is.
func runner(name string, d time.Duration, running *atomic.Value) Contender {
	return Contender{Name: name, Replay: func(_ context.Context, during func()) (time.Duration, error) {
		running.Store(name)
		time.Sleep(d / 4)
		during()
		time.Sleep(d - d/4)
		return d, nil
	}}
}

func TestClocksAreReadWhileReplaysRun(t *testing.T) {
	for name, c := range map[string]struct {
		reading time.Duration
		want    []int // readings of each
	}{
		"in no time":                 {0, []int{6, 6, 6}},
		"within a replay":            {4 * time.Millisecond, []int{6, 6, 6}},
		"longer than a replay":       {9 * time.Millisecond, []int{3, 3, 3}},
		"longer than all of a round": {20 * time.Millisecond, []int{2, 2, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var running atomic.Value
			reads := map[string]int{}
			meter := func() (nvml.Reading, bool) {
				reads[running.Load().(string)]++
				time.Sleep(c.reading)
				return nvml.Reading{SMClock: 1000}, true
			}
			var list []Contender
			for _, x := range []string{"a", "b", "c"} {
				list = append(list, runner(x, 6*time.Millisecond, &running))
			}
			start := time.Now()
			series, err := Measure(t.Context(), list, Method{Launches: 1, Replays: 6, WarmUps: 2}, Watch{Meter: meter})
			require.NoError(t, err)
			assert.Less(t, time.Since(start)-8*3*6*time.Millisecond, c.reading+1, "readings hold no replay up")
			for i, x := range list {
				assert.Len(t, series[i].Readings, c.want[i], "%s, %s", name, x.Name)
				assert.Equal(t, c.want[i], reads[x.Name], "%s, %s: read while it runs", name, x.Name)
			}
		})
	}
}

func TestReadingThatFailsIsNoReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Value
		n := 0
		meter := func() (nvml.Reading, bool) { n++; return nvml.Reading{}, n != 2 }
		series, err := Measure(t.Context(), []Contender{runner("a", time.Second, &running)}, three, Watch{Meter: meter})
		require.NoError(t, err)
		assert.Len(t, series[0].Readings, 2)
	})
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

func TestReplayTakesTime(t *testing.T) {
	var c clock
	_, err := Measure(t.Context(), []Contender{c.contender("a", 5, 0)}, three, Watch{})
	assert.EqualError(t, err, "a, replay 2 of 4: it took 0s")
}

func TestMethodIsChecked(t *testing.T) {
	assert.NoError(t, DefaultMethod.check())
	for _, m := range []Method{{20, 8, 3}, {20, 7, 3}, {20, 10, 3}, {20, 1001, 3}, {0, 9, 3}, {20, 9, -1}} {
		assert.Error(t, m.check(), "%+v", m)
	}
}
