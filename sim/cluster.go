package sim

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// cta is a thread block.
type cta struct {
	cluster *cluster
	id      int // in the grid
	rank    int // in the cluster
	warps   []*warp
	smem    *sharedMem
	live    int // threads that have not exited
	named   [16]namedBarrier
	tmem    tensorMem
	visits  []event // last use of the shared memory by each warp of other CTAs
	// acquired are the addresses of tensor maps in global memory that a fence lets the CTA use; nil where there are none.
	acquired map[uint64]bool
}

// cluster is the CTAs that run side by side with a view of one another's shared memory. One goroutine at a time steps it.
type cluster struct {
	grid     *grid
	id       int
	ctas     []*cta
	warps    []*warp // with live threads
	rng      *rand.Rand
	async    []*transfer // copies in flight
	deferred []deferred  // accesses to global memory that wait for the end of the round
	barrier  clusterBarrier
	found    findings
	steps    int
	turns    int
	speed    int // one in so many rounds is its
	asleep   bool
	progress int // counts what other threads can notice
	at       step
}

func newCluster(g *grid, id, size int) *cluster {
	c := &cluster{grid: g, id: id, rng: rand.New(rand.NewPCG(g.seed, uint64(id)+1))}
	threads := volume(g.p.manifest.Launch.Block)
	for rank := range size {
		b := &cta{cluster: c, id: id*size + rank, rank: rank, smem: newSharedMem(g.p.sharedBytes()), live: threads}
		c.ctas = append(c.ctas, b)
	}
	for _, b := range c.ctas {
		b.warps = make([]*warp, (threads+warpSize-1)/warpSize)
		for i := range b.warps {
			b.warps[i] = newWarp(b, i, min(warpSize, threads-i*warpSize))
			c.warps = append(c.warps, b.warps[i])
		}
	}
	return c
}

func volume(shape [3]int) int { return shape[0] * shape[1] * shape[2] }

// asyncOdds is how rarely a copy completes while threads could run: the longer a copy stays in flight, the more of the
// orders that a GPU allows are seen.
const asyncOdds = 6

// maxBurst bounds how long a group runs before another has its turn.
const maxBurst = 64

// run steps the cluster until n instructions are done or nothing can run.
func (c *cluster) run(n int) {
	for end := c.steps + n; c.steps < end; {
		if len(c.async) > 0 && c.rng.IntN(asyncOdds) == 0 {
			c.complete()
			continue
		}
		if c.turn() {
			continue
		}
		if len(c.async) == 0 {
			return
		}
		c.complete()
	}
}

// complete finishes one copy in flight.
func (c *cluster) complete() {
	i := c.rng.IntN(len(c.async))
	t := c.async[i]
	c.async[i] = c.async[len(c.async)-1]
	c.async = c.async[:len(c.async)-1]
	c.progress++
	t.finish(t)
}

// turn lets one group run for a while; it reports whether any could.
func (c *cluster) turn() bool {
	if len(c.warps) == 0 {
		return false
	}
	if c.turns%speedTurns == 0 {
		c.drawSpeeds()
	}
	c.turns++
	first := c.rng.IntN(len(c.warps))
	var slow *warp
	var slowGroup *group
	for i := range c.warps {
		w := c.warps[(first+i)%len(c.warps)]
		g := w.pick()
		switch {
		case g == nil:
		case c.rng.IntN(w.speed) == 0:
			c.burst(w, g)
			return true
		case slow == nil:
			slow, slowGroup = w, g
		}
	}
	if slow != nil {
		c.burst(slow, slowGroup)
	}
	return slow != nil
}

// speedTurns is how long warps keep their speeds.
const speedTurns = 512

// drawSpeeds slows some warps down, a few of them very much: a barrier that is missing shows when a warp comes late.
func (c *cluster) drawSpeeds() {
	for _, w := range c.warps {
		w.speed = []int{1, 1, 1, 4, 64}[c.rng.IntN(5)]
	}
}

// pick chooses a group that can run: mostly the one that is furthest behind, so that threads meet again, sometimes another.
func (w *warp) pick() *group {
	if w.asleepUntil > w.cta.cluster.grid.rounds {
		return nil
	}
	w.wake()
	if len(w.groups) == 1 {
		if g := w.groups[0]; w.runnable(g) {
			return g
		}
		return nil
	}
	var can []*group
	for _, g := range w.groups {
		if w.runnable(g) {
			can = append(can, g)
		}
	}
	if len(can) == 0 {
		return nil
	}
	rng := w.cta.cluster.rng
	if rng.IntN(8) == 0 {
		return can[rng.IntN(len(can))]
	}
	return slices.MinFunc(can, func(a, b *group) int { return int(a.pc - b.pc) })
}

// wake ends the waits that are over.
func (w *warp) wake() {
	var woken []*group
	for _, g := range w.groups {
		if g.wait != nil && (g.wait.ready(w, g) || g.expired) {
			g.wait = nil
			woken = append(woken, g)
		}
	}
	if len(w.groups) == 1 {
		return
	}
	for _, g := range woken {
		if g.mask != 0 {
			w.join(g)
		}
	}
}

// runnable reports whether a group may do its next instruction.
func (w *warp) runnable(g *group) bool {
	return g.wait == nil && w.together(g, &w.cta.cluster.grid.p.ops[g.pc])
}

// together reports whether the lanes that an instruction wants are all there.
func (w *warp) together(g *group, o *op) bool { return w.missing(g, o) == 0 }

// missing lists the lanes that an instruction still waits for.
func (w *warp) missing(g *group, o *op) uint32 {
	switch o.sync {
	case syncWarp:
		return w.live &^ g.mask
	case syncMask:
		lane := bits.TrailingZeros32(g.mask)
		return uint32(w.r[o.mask][lane]) & w.live &^ g.mask
	}
	return 0
}

// liveSlack is the part of a grant by which the count of live registers, which is near and not exact, must exceed it.
const liveSlack = 8

// burst runs a group until it waits, meets others, or has had its share.
func (c *cluster) burst(w *warp, g *group) {
	s := &c.at
	ops := c.grid.p.ops
	for n := 1 + c.rng.IntN(maxBurst); n > 0; n-- {
		o := &ops[g.pc]
		if !w.together(g, o) {
			return
		}
		c.steps++
		*s = step{w: w, g: g, m: w.guarded(o, g.mask), op: o}
		g.pc++
		if o.guard >= 0 { // it is read where it does not hold, too
			s.written(o.guard, g.mask)
		}
		if o.sync == syncWarp && o.guard >= 0 && s.m != g.mask && s.m != 0 {
			s.find(Divergence, bits.TrailingZeros32(g.mask&^s.m), "the guard of an .aligned instruction differs from lane to lane")
		}
		if s.m != 0 {
			s.fetch()
			if o.live > w.granted+w.granted/liveSlack {
				s.find(Registers, -1, "about %d registers hold values that are still needed; setmaxnreg grants %d", o.live, w.granted)
			}
			o.run(s)
		}
		if g.mask == 0 || g.wait != nil {
			return
		}
		if len(w.groups) > 1 {
			w.join(g)
		}
	}
}

// exit ends lanes of the group.
func (s *step) exit(m uint32) {
	w := s.w
	w.leave(s.g, m)
	w.live &^= m
	c := w.cta.cluster
	for x := m; x != 0; x &= x - 1 { // whoever has arrived at the cluster's barrier counts no more
		if w.clusterGen[bits.TrailingZeros32(x)] > c.barrier.gen {
			c.barrier.arrived--
		}
	}
	w.cta.live -= bits.OnesCount32(m)
	c.progress++
	if w.live != 0 {
		return
	}
	c.warps = slices.DeleteFunc(c.warps, func(x *warp) bool { return x == w })
	if t := &w.tensor; t.inFlight > 0 {
		s.find(Race, -1, "the warp exits with %d wgmma in flight", t.inFlight)
	}
	if w.cta.live == 0 {
		s.ctaEnds()
	}
}

// ctaEnds looks at what a CTA leaves behind.
func (s *step) ctaEnds() {
	c := s.w.cta
	for _, t := range c.cluster.async {
		if t.to == c || t.bar.cta == c {
			s.find(Race, -1, "the CTA exits while a bulk copy to it is in flight")
			break
		}
	}
	for at, b := range c.smem.bars {
		if b.tx != 0 {
			s.find(BarrierMisuse, -1, "the CTA exits with %d bytes outstanding on the mbarrier at %#x", b.tx, at)
			break
		}
	}
	s.checkVisits()
	s.tensorEnds()
}

// deferred is an access to global memory that waits for the end of the round.
type deferred struct {
	s    step
	wait *globalWait
	do   func(s *step)
}

// globalWait is the wait for global memory.
type globalWait struct{ done bool }

func (x *globalWait) ready(*warp, *group) bool      { return x.done }
func (x *globalWait) describe(*warp, *group) string { return "global memory" }
func (c *cluster) finished() bool                   { return len(c.warps) == 0 }
func (d *deferred) apply()                          { d.do(&d.s); d.wait.done = true }

// later makes the group wait until the access has been done at the end of the round.
func (s *step) later(do func(s *step)) {
	x := &globalWait{}
	s.g.wait = x
	c := s.w.cta.cluster
	c.deferred = append(c.deferred, deferred{*s, x, do})
	c.progress++
}
