package driver

import (
	"runtime"
	"sync/atomic"
	"time"
)

// guard counts the calls in flight on an object and closes it: a handle is destroyed only when no call uses it, and
// no call begins once it is being destroyed.
type guard struct{ state atomic.Int64 }

const closedBit = 1 << 62

// enter begins a call, unless the object is closed.
func (g *guard) enter() bool {
	if g.state.Add(1)&closedBit == 0 {
		return true
	}
	g.state.Add(-1)
	return false
}

func (g *guard) leave() { g.state.Add(-1) }

// close keeps calls from beginning and waits for those in flight. It reports false if the object was closed before.
func (g *guard) close() bool {
	if g.state.Or(closedBit)&closedBit != 0 {
		return false
	}
	for i := 0; g.state.Load() != closedBit; i++ {
		if i < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	return true
}

func (g *guard) closed() bool { return g.state.Load()&closedBit != 0 }
