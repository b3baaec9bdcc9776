package sim

// clock is a vector clock over the warps of a cluster: what each had done when the holder last heard of it (Lamport's
// happens-before). Accesses to shared memory that it does not order are races, whether or not this run met them in a bad
// order. A warp counts as one thread.
type clock []uint32

func (c clock) join(d clock) {
	for i, v := range d {
		c[i] = max(c[i], v)
	}
}

// event is a point in a warp's time.
type event struct {
	w  *warp
	at uint32
}

// now is the warp's present.
func (w *warp) now() event { return event{w, w.time[w.index]} }

// before reports whether a warp has heard of an event.
func (e event) before(w *warp) bool { return e.w == nil || e.w == w || w.time[e.w.index] >= e.at }

// sendTo lets a clock hear of everything that the warp has done.
func (w *warp) sendTo(c *clock) {
	if *c == nil {
		*c = make(clock, len(w.time))
	}
	c.join(w.time)
	w.time[w.index]++
}

// hear takes in what a clock knows.
func (w *warp) hear(c clock) { w.time.join(c) }

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
	strong := s.op.strong
	if c != w.cta {
		c.remote(w)
	}
	for i := at / shadowBytes; i <= (at+uint32(n)-1)/shadowBytes; i++ {
		x := &c.smem.shadows[i]
		if !x.wrote.before(w) {
			s.find(Race, lane, "touches shared address %#x of CTA %d, which warp %d of CTA %d wrote with nothing to order the two",
				at, c.id, x.wrote.w.id, x.wrote.w.cta.id)
			x.wrote = event{}
		}
		if write && !strong {
			for _, e := range x.since {
				if !e.before(w) {
					s.find(Race, lane, "writes shared address %#x of CTA %d, which warp %d of CTA %d uses with nothing to order the two",
						at, c.id, e.w.id, e.w.cta.id)
					break
				}
			}
			x.wrote, x.since = w.now(), nil
			continue
		}
		if x.since == nil {
			x.since = make([]event, len(w.time))
		}
		x.since[w.index] = w.now()
	}
}

// remote notes that a warp of another CTA uses this one's shared memory: the CTA must not exit before it has heard of that.
func (c *cta) remote(w *warp) {
	if c.visits == nil {
		c.visits = make([]event, len(w.time))
	}
	c.visits[w.index] = w.now()
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
