package sim

import (
	"fmt"
	"math/bits"
)

// clock is a vector clock over the warps of a cluster: what each had done when the holder last heard of it (Lamport's
// happens-before). Accesses to shared memory that it does not order are races, whether or not this run met them in a bad
// order. A warp counts as one thread.
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

// before reports whether a lane has heard of an event. Of what its own warp did, a lane knows what it did itself, and what
// came before it last met others. Lane -1 is the warp as a whole.
func (e event) before(w *warp, lane int) bool {
	switch {
	case e.w == nil:
		return true
	case e.w != w:
		return w.time[e.w.index] >= e.at
	}
	return lane < 0 || int(e.lane) == lane || e.lane == unknown || w.met[lane] > e.meet
}

// join adds an earlier event of the same warp, of which one more lane's access is not ordered after this one.
func (e event) join(old event) event {
	if old.w != nil && old.meet == e.meet && old.lane != e.lane {
		e.lane = several
	}
	return e
}

// meetLanes orders what these lanes did before what they do next: a barrier of the warp or of more. Votes, shuffles and
// reductions do not, though the lanes execute them together (PTX ISA, "bar.warp.sync").
func (w *warp) meetLanes(m uint32) {
	w.meets++
	for ; m != 0; m &= m - 1 {
		w.met[bits.TrailingZeros32(m)] = w.meets
	}
}

// sendTo lets a clock hear of everything that the warp has done.
func (w *warp) sendTo(c *clock) {
	if *c == nil {
		*c = make(clock, len(w.time))
	}
	c.join(w.time)
	w.time[w.index]++
}

// hear takes in what a clock knows. The whole warp does: between warps, a warp counts as one thread.
func (w *warp) hear(c clock) {
	w.time.join(c)
	w.meetLanes(allLanes)
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
		x.since[w.index] = me.join(x.since[w.index])
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
