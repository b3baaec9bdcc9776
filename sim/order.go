package sim

import (
	"fmt"
	"math/bits"
)

// clock is a vector clock over the warps of a cluster: what each had done when the holder last heard of it (Lamport's
// happens-before). Accesses to shared memory that it does not order are races, whether or not this run met them in a bad
// order. Between warps, a warp counts as one thread.
type clock []uint32

func (c clock) join(d clock) {
	for i, v := range d {
		c[i] = max(c[i], v)
	}
}

// event is an access by a lane at a point in its warp's time.
type event struct {
	w    *warp
	at   uint32
	meet uint32 // of the warp's meetings so far
	lane int8   // or several, where more than one lane made it between two meetings, or unknown
}

const (
	several = -1
	unknown = -2
)

// now is a lane's present.
func (w *warp) now(lane int) event {
	return event{w, w.time[w.index], w.meets, int8(lane)}
}

// before reports whether a lane has heard of an event. Of what its own warp did, a lane knows what it did itself, what came
// before it last met others, and what the warp has heard of again. Lane -1 is the warp as a whole.
func (e event) before(w *warp, lane int) bool {
	switch {
	case e.w == nil:
		return true
	case e.w != w:
		return w.time[e.w.index] >= e.at
	}
	return lane < 0 || int(e.lane) == lane || e.lane == unknown || w.met[lane] > e.meet || w.echoed(e)
}

// after returns the event as it stands for an earlier one of the same warp too, unless that is ordered before it.
func (e event) after(old event) event {
	if !old.before(e.w, int(e.lane)) {
		e.lane = several
	}
	return e
}

// meetLanes orders what these lanes did before what they do next. Votes, shuffles and reductions do not, though the lanes
// execute them together (PTX ISA, "bar.warp.sync").
func (w *warp) meetLanes(m uint32) {
	w.meets++
	for ; m != 0; m &= m - 1 {
		w.met[bits.TrailingZeros32(m)] = w.meets
	}
}

// sending is what lanes of a warp let others hear of: all that they did, and all that came before a meeting of theirs.
type sending struct {
	at    uint32
	lanes uint32
	met   uint32
}

// echo is what a warp has heard of its own sendings.
type echo struct {
	pending []sending
	at      [warpSize]uint32
	met     uint32
}

// sendTo lets a clock hear of everything that the warp has done, as these lanes know it.
func (w *warp) sendTo(c *clock, lanes uint32) {
	if *c == nil {
		*c = make(clock, len(w.time))
	}
	c.join(w.time)
	x := sending{at: w.time[w.index], lanes: lanes}
	for m := lanes; m != 0; m &= m - 1 {
		x.met = max(x.met, w.met[bits.TrailingZeros32(m)])
	}
	w.echo.pending = append(w.echo.pending, x)
	w.time[w.index]++
}

// hear takes in what a clock knows: the warp as a whole does. Where the clock knows of sendings of the warp itself, its lanes
// know of one another.
func (w *warp) hear(c clock) {
	w.time.join(c)
	e := &w.echo
	for len(e.pending) > 0 && len(c) > 0 && e.pending[0].at <= c[w.index] {
		x := e.pending[0]
		e.pending = e.pending[1:]
		e.met = max(e.met, x.met)
		for m := x.lanes; m != 0; m &= m - 1 {
			e.at[bits.TrailingZeros32(m)] = x.at
		}
	}
}

// echoed reports whether the warp has heard of an event of its own.
func (w *warp) echoed(e event) bool {
	switch {
	case e.meet < w.echo.met:
		return true
	case e.lane >= 0:
		return w.echo.at[e.lane] >= e.at
	}
	for l, at := range w.echo.at {
		if w.live>>l&1 != 0 && at < e.at {
			return false
		}
	}
	return true
}

// shadow is what is known of accesses to four bytes of shared memory by ordinary instructions.
type shadow struct {
	wrote event   // the last plain write
	since []event // the last access of each warp since then, by its index
}

const shadowBytes = 4

// access records an access to shared memory and reports a race: two of which one is a plain write, with nothing between
// them that orders them. Atomics and plain reads may mix: whoever does that means it.
func (s *step) access(c *cta, lane int, at uint32, n int, write bool) {
	w := s.w
	if c != w.cta {
		c.remote(w)
	}
	me := w.now(lane)
	if n < shadowBytes {
		me.lane = unknown // lanes may share the four bytes
	}
	for i := at / shadowBytes; i <= (at+uint32(n)-1)/shadowBytes; i++ {
		x := &c.smem.shadows[i]
		if !x.wrote.before(w, lane) {
			s.find(Race, lane, "touches shared address %#x of CTA %d, which %s wrote with nothing to order the two", at, c.id, x.wrote.who(w))
			x.wrote = event{}
		}
		if write && !s.op.strong {
			for _, e := range x.since {
				if !e.before(w, lane) {
					s.find(Race, lane, "writes shared address %#x of CTA %d, which %s uses with nothing to order the two", at, c.id, e.who(w))
					break
				}
			}
			x.wrote, x.since = me, nil
			continue
		}
		if x.since == nil {
			x.since = make([]event, len(w.time))
		}
		x.since[w.index] = me.after(x.since[w.index])
	}
}

// who names for a report the one that an event is of.
func (e event) who(w *warp) string {
	switch {
	case e.w != w:
		return fmt.Sprintf("warp %d of CTA %d", e.w.id, e.w.cta.id)
	case e.lane == several:
		return "another lane"
	}
	return fmt.Sprintf("lane %d", e.lane)
}

// remote notes that a warp of another CTA uses this one's shared memory: the CTA must not exit before it has heard of that.
func (c *cta) remote(w *warp) {
	if c.visits == nil {
		c.visits = make([]event, len(w.time))
	}
	c.visits[w.index] = w.now(unknown)
}

// checkVisits reports visits that nothing orders before the CTA's end.
func (s *step) checkVisits() {
	c := s.w.cta
	known := make(clock, len(s.w.time))
	for _, w := range c.warps {
		known.join(w.time)
	}
	for i, e := range c.visits {
		if e.w != nil && known[i] < e.at {
			s.find(Race, -1, "the CTA may exit before warp %d of CTA %d has used its shared memory", e.w.id, e.w.cta.id)
			return
		}
	}
}
