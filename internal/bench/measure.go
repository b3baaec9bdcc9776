package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/fsgen/fsgen/internal/nvml"
)

// Method says how times are taken.
type Method struct {
	// Launches is how many launches one replay has.
	Launches int `json:"launches"`
	// Replays is how many replays are timed, an odd number, so that the median is one of them.
	Replays int `json:"replays"`
	// WarmUps is how many replays come before them.
	WarmUps int `json:"warm_ups"`
}

// Bounds of a method.
const (
	minReplays = 9
	maxReplays = 999
)

func (m Method) check() error {
	switch {
	case m.Replays < minReplays || m.Replays > maxReplays || m.Replays%2 == 0:
		return fmt.Errorf("replays are %d: want an odd number from %d to %d", m.Replays, minReplays, maxReplays)
	case m.Launches < 1 || m.WarmUps < 0:
		return fmt.Errorf("%d launches after %d warm-ups: want 1 or more, after 0 or more", m.Launches, m.WarmUps)
	}
	return nil
}

// Contender is one thing to be timed.
type Contender struct {
	// Name is what results are filed under; Kernel says what runs, in words.
	Name, Kernel string
	// Launch is Serial or Overlap; "" if it is not ours to say.
	Launch string
	// Replay runs the launches of one replay and returns the time that all of them took. It calls during while they run.
	Replay func(ctx context.Context, during func()) (time.Duration, error)
}

// Watch is what looks on while contenders run. Either may be nil.
type Watch struct {
	// Meter reads clocks and power; ok is false where there is nothing to be read. It is called from a goroutine of its own.
	Meter func() (r nvml.Reading, ok bool)
	// Progress is told after each replay.
	Progress func(done, total int)
}

// Series is what was seen of one contender.
type Series struct {
	// Times are in microseconds a launch, in the order of the replays.
	Times []float64
	// Readings were taken while the timed replays ran.
	Readings []nvml.Reading
}

// Measure replays the contenders in turn: all of them once for each warm-up, then all of them once for each replay.
func Measure(ctx context.Context, list []Contender, m Method, w Watch) ([]Series, error) {
	out := make([]Series, len(list))
	meter := startMeter(w.Meter, out)
	defer meter.stop()
	rounds := m.WarmUps + m.Replays
	for round := range rounds {
		for i := range list {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			during := func() {}
			if round >= m.WarmUps {
				during = func() { meter.ask(i) }
			}
			d, err := list[i].Replay(ctx, during)
			if err == nil && d <= 0 {
				err = fmt.Errorf("it took %v", d)
			}
			if err != nil {
				return nil, fmt.Errorf("%s, replay %d of %d: %w", list[i].Name, round+1, rounds, err)
			}
			if round >= m.WarmUps {
				out[i].Times = append(out[i].Times, microseconds(d)/float64(m.Launches))
			}
			if w.Progress != nil {
				w.Progress(round*len(list)+i+1, rounds*len(list))
			}
		}
	}
	return out, nil
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
