package driver

import (
	"context"
	"math"
	"runtime"
	"time"
)

// Event marks a point in a stream.
type Event struct {
	resource
	handle uintptr
}

const eventDisableTiming = 2 // CU_EVENT_DISABLE_TIMING

// NewEvent makes an event. Only events with timing have times; the others cost less.
func (c *Context) NewEvent(timing bool) (*Event, error) {
	if err := c.use(); err != nil {
		return nil, err
	}
	defer c.done()
	f := getFrame()
	defer putFrame(f)
	var flags uintptr = eventDisableTiming
	if timing {
		flags = 0
	}
	if err := c.primary.call(f, cuEventCreate, f.out(0), flags); err != nil {
		return nil, err
	}
	e := &Event{handle: f.handle(0)}
	track(e, &e.resource, c.primary, "event")
	return e, nil
}

// Handle returns the CUevent, for other libraries.
func (e *Event) Handle() uintptr { return e.handle }

// Close destroys the event.
func (e *Event) Close() error { return e.destroy(cuEventDestroy, e.handle) }

// Record marks the work enqueued on the stream so far.
func (e *Event) Record(s *Stream) error {
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	return e.call(cuEventRecord, e.handle, s.handle)
}

// Query reports whether the work before the last record is done.
func (e *Event) Query() (done bool, err error) { return e.ready(cuEventQuery, e.handle) }

// Synchronize waits for the work before the last record. If ctx ends first it returns ctx's error.
func (e *Event) Synchronize(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Done() == nil {
		return e.call(cuEventSynchronize, e.handle)
	}
	return poll(ctx, e.Query)
}

// Elapsed returns the time between the last records of two events with timing, both of them done. It counts in about
// half microseconds.
func Elapsed(start, end *Event) (time.Duration, error) {
	if err := start.use(); err != nil {
		return 0, err
	}
	defer start.done()
	if err := end.use(); err != nil {
		return 0, err
	}
	defer end.done()
	f := getFrame()
	defer putFrame(f)
	if err := end.primary.call(f, cuEventElapsedTime, f.out(0), start.handle, end.handle); err != nil {
		return 0, err
	}
	ms := float64(math.Float32frombits(f.word32(0)))
	return time.Duration(ms * float64(time.Millisecond)), nil
}

// poll asks until the answer is yes, an error, or ctx ends: closely at first, since decode steps take some hundred
// microseconds, then with naps that cost at most a twentieth of the time waited.
func poll(ctx context.Context, ready func() (bool, error)) error {
	const spin = 2 * time.Millisecond
	for start := time.Now(); ; {
		if done, err := ready(); done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if waited := time.Since(start); waited < spin {
			runtime.Gosched()
		} else {
			nap(min(waited/20, time.Millisecond))
		}
	}
}
