package bench

import (
	"slices"

	"github.com/fsgen/fsgen/internal/nvml"
)

// meter reads clocks beside the replays. A reading can take longer than a replay; waited for, it would leave the device idle
// and cool between replays, and change what it measures. So it happens in a goroutine, one at a time.
type meter struct {
	asked []int // readings begun, by contender
	work  chan int
	done  chan struct{}
}

// startMeter files readings with the series of their contenders, which belong to the meter until it is stopped.
func startMeter(read func() (nvml.Reading, bool), series []Series) *meter {
	if read == nil {
		return nil
	}
	m := &meter{asked: make([]int, len(series)), work: make(chan int), done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for i := range m.work {
			if r, ok := read(); ok {
				series[i].Readings = append(series[i].Readings, r)
			}
		}
	}()
	return m
}

// ask has the i-th contender, which is running, read, unless a reading is under way or others have been read less often:
// then it is their turn.
func (m *meter) ask(i int) {
	if m == nil || m.asked[i] > slices.Min(m.asked) {
		return
	}
	select {
	case m.work <- i:
		m.asked[i]++
	default:
	}
}

// stop waits for the reading that is under way.
func (m *meter) stop() {
	if m != nil {
		close(m.work)
		<-m.done
	}
}
