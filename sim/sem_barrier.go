package sim

import (
	"fmt"
	"math/bits"
)

// namedBarrier is one of the 16 barriers of a CTA (PTX ISA, "bar"). Warps arrive as a whole.
type namedBarrier struct {
	arrived int // threads
	want    int // threads; 0 while nobody has come
	gen     int
	acc     [3]int // of bar.red: popc, and, or
	result  [3]int
	members []*warp
	heard   clock
	told    clock // by the phase before
}

// barWait is a wait for a named barrier.
type barWait struct {
	b   *namedBarrier
	id  int
	gen int
}

func (x *barWait) ready(w *warp, _ *group) bool {
	if x.b.gen == x.gen {
		return false
	}
	w.hear(x.b.told)
	return true
}

func (x *barWait) describe(*warp, *group) string {
	return fmt.Sprintf("barrier %d: %d of %d threads have come", x.id, x.b.arrived, x.b.want)
}

// comeTo counts the warp in at a barrier; it returns what to wait for.
func (s *step) comeTo(id uint64, n int, full bool) *barWait {
	c := s.w.cta
	lane := bits.TrailingZeros32(s.m)
	if id > 15 {
		s.find(BarrierMisuse, lane, "barrier %d: there are 0 to 15", id)
		return nil
	}
	b := &c.named[id]
	if full {
		n = c.threads()
	}
	switch {
	case n == 0 || n%warpSize != 0:
		s.find(BarrierMisuse, lane, "barrier %d of %d threads: want a positive multiple of 32", id, n)
		return nil
	case b.want != 0 && b.want != n:
		s.find(BarrierMisuse, lane, "barrier %d of %d threads; others came to it with %d", id, n, b.want)
	case n > volume(c.cluster.grid.p.manifest.Launch.Block):
		s.find(BarrierMisuse, lane, "barrier %d of %d threads, more than the CTA has", id, n)
	}
	for _, w := range b.members {
		if w == s.w {
			s.find(BarrierMisuse, lane, "the warp arrives twice in one phase of barrier %d", id)
		}
	}
	b.members = append(b.members, s.w)
	s.w.sendTo(&b.heard, allLanes)
	b.want = n
	b.arrived += warpSize
	c.cluster.progress++
	x := &barWait{b, int(id), b.gen}
	b.turn()
	return x
}

// turn lets everyone go when all have come.
func (b *namedBarrier) turn() {
	if b.want == 0 || b.arrived < b.want {
		return
	}
	b.result = b.acc
	*b = namedBarrier{gen: b.gen + 1, result: b.result, told: b.heard}
}

// threads are the CTA's threads in warps that have not exited.
func (c *cta) threads() int {
	n := 0
	for _, w := range c.warps {
		if w.live != 0 {
			n += warpSize
		}
	}
	return n
}

// buildBar makes bar and barrier instructions; wait tells sync from arrive.
func buildBar(wait bool) builder {
	return func(a *asm) exec {
		a.o.sync = syncWarp // barrier without .aligned too: the warp comes as a whole here
		id, n := a.src(a.index("a")), slot(-1)
		if i := a.index("b"); i >= 0 {
			n = a.src(i)
		}
		return func(s *step) {
			lane := bits.TrailingZeros32(s.m)
			count := 0
			if n >= 0 {
				count = int(s.w.r[n][lane])
			}
			s.uniform(id)
			if x := s.comeTo(s.w.r[id][lane], count, n < 0); x != nil && wait {
				s.g.wait = x
			}
		}
	}
}

// uniform checks that a value is the same in all lanes of the group.
func (s *step) uniform(r slot) {
	first := s.w.r[r][bits.TrailingZeros32(s.m)]
	for m := s.m; m != 0; m &= m - 1 {
		if l := bits.TrailingZeros32(m); s.w.r[r][l] != first {
			s.find(Divergence, l, "operand %#x differs from the warp's first lane, %#x", s.w.r[r][l], first)
			return
		}
	}
}

// buildBarRed reduces a predicate over the barrier's threads.
func buildBarRed(a *asm) exec {
	d, id, n := a.dst(0), a.src(a.index("a")), slot(-1)
	if i := a.index("b"); i >= 0 {
		n = a.src(i)
	}
	p, flip := a.pred(a.index("c"))
	kind := 0
	for i, text := range []string{"red.popc", "and", "or"} {
		if a.form.Has(text) {
			kind = i
		}
	}
	return func(s *step) {
		lane := bits.TrailingZeros32(s.m)
		count := 0
		if n >= 0 {
			count = int(s.w.r[n][lane])
		}
		got := bits.OnesCount32(ballot(s, p, flip))
		idv := s.w.r[id][lane]
		if idv > 15 {
			s.comeTo(idv, count, n < 0)
			return
		}
		b := &s.w.cta.named[idv]
		b.acc[0] += got
		b.acc[1] += bits.OnesCount32(s.m) - got // threads without it
		b.acc[2] += got
		if x := s.comeTo(idv, count, n < 0); x != nil {
			s.g.wait = &redWait{x, d, kind, s.m}
		}
	}
}

// redWait fills in the result when the barrier opens.
type redWait struct {
	*barWait
	d    slot
	kind int
	m    uint32
}

func (x *redWait) ready(w *warp, g *group) bool {
	if !x.barWait.ready(w, g) {
		return false
	}
	r := x.b.result
	v := [3]uint64{uint64(r[0]), b2u(r[1] == 0), b2u(r[2] > 0)}[x.kind]
	for m := x.m; m != 0; m &= m - 1 {
		w.r[x.d][bits.TrailingZeros32(m)] = v
	}
	return true
}

// clusterBarrier is the barrier of a cluster (PTX ISA, "barrier.cluster"): all threads that have not exited.
type clusterBarrier struct {
	arrived int
	gen     int
	heard   clock
	told    clock // by the phase before
}

// clusterWait waits for the cluster's barrier.
type clusterWait struct {
	c   *cluster
	gen int
}

func (x *clusterWait) ready(w *warp, _ *group) bool {
	x.c.openBarrier()
	if x.c.barrier.gen <= x.gen {
		return false
	}
	w.hear(x.c.barrier.told)
	return true
}

func (x *clusterWait) describe(*warp, *group) string {
	return fmt.Sprintf("the cluster's barrier: %d of %d threads have arrived", x.c.barrier.arrived, x.c.threads())
}

func (c *cluster) threads() int {
	n := 0
	for _, b := range c.ctas {
		n += b.live
	}
	return n
}

func (c *cluster) openBarrier() {
	if c.barrier.arrived > 0 && c.barrier.arrived >= c.threads() {
		c.barrier = clusterBarrier{gen: c.barrier.gen + 1, told: c.barrier.heard}
	}
}

func buildClusterArrive(*asm) exec {
	return func(s *step) {
		c := s.w.cta.cluster
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			if s.w.clusterGen[l] > c.barrier.gen {
				s.find(BarrierMisuse, l, "arrives at the cluster's barrier twice without waiting")
			}
			s.w.clusterGen[l] = c.barrier.gen + 1
		}
		c.progress++
		s.w.sendTo(&c.barrier.heard, s.m)
		c.barrier.arrived += bits.OnesCount32(s.m)
		c.openBarrier()
	}
}

func buildClusterWait(*asm) exec {
	return func(s *step) {
		l := bits.TrailingZeros32(s.m)
		gen := s.w.clusterGen[l]
		if gen == 0 {
			s.find(BarrierMisuse, l, "waits for the cluster's barrier without having arrived")
			return
		}
		s.g.wait = &clusterWait{s.w.cta.cluster, gen - 1}
	}
}

func buildBarWarp(a *asm) exec {
	a.member()
	return func(s *step) {
		s.checkMember()
		s.w.meetLanes(s.m)
	}
}

var barrierSemantics = map[string]builder{
	"BarSync": buildBar(true), "BarrierSync": buildBar(true), "BarArrive": buildBar(false), "BarrierArrive": buildBar(false),
	"BarRedPopc": buildBarRed, "BarRed": buildBarRed, "BarWarpSync": buildBarWarp,
	"BarrierClusterArrive": buildClusterArrive, "BarrierClusterWait": buildClusterWait,
}
