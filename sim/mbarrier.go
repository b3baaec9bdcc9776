package sim

import (
	"fmt"
	"math/bits"
)

// mbarrier is the state of a barrier object in shared memory (PTX ISA, "mbarrier").
type mbarrier struct {
	cta      *cta
	at       uint32
	expected int // arrivals of each phase
	pending  int // that the current phase still lacks
	tx       int // bytes that the current phase still lacks
	phase    uint64

	initBy    *warp // until a fence has made the initialisation visible to the async proxy
	initEpoch uint32
	born      event

	heard, done clock // what arrivals of the current phase, and of those before, know
}

const (
	maxArrivals = 1<<20 - 1
	maxTx       = 1<<20 - 1
)

// barrierAt finds the mbarrier at a shared address, or reports why there is none.
func (s *step) barrierAt(lane int, addr uint64) *mbarrier {
	c, at := s.shared(lane, addr, 8, 8)
	if c == nil {
		return nil
	}
	b := c.smem.bars[at]
	if b == nil {
		s.find(BarrierMisuse, lane, "no mbarrier was initialised at %#x of CTA %d", at, c.id)
		return nil
	}
	s.useBarrier(lane, b)
	return b
}

// useBarrier checks that the initialisation is ordered before the use.
func (s *step) useBarrier(lane int, b *mbarrier) {
	if !b.born.before(s.w, lane) {
		s.find(Race, lane, "nothing orders the initialisation of %s by %s before its use", b, b.born.who(s.w))
		b.born = event{}
	}
	if b.cta != s.w.cta {
		b.cta.remote(s.w)
	}
}

func (s *step) initBarrier(lane int, addr uint64, count int) {
	c, at := s.shared(lane, addr, 8, 8)
	if c == nil {
		return
	}
	if count < 1 || count > maxArrivals {
		s.find(BarrierMisuse, lane, "an mbarrier of %d arrivals: want 1 to %d", count, maxArrivals)
		return
	}
	if c.smem.bars[at] != nil {
		s.find(BarrierMisuse, lane, "the mbarrier at %#x is initialised again without mbarrier.inval", at)
		delete(c.smem.bars, at)
	}
	store(s.writeShared(c, lane, at, 8), 8, 0x6d62_6172_0000_0000|uint64(count))
	c.smem.granules[at/granuleBytes].writer = nil
	c.smem.bars[at] = &mbarrier{cta: c, at: at, expected: count, pending: count, initBy: s.w, initEpoch: s.w.proxyFences, born: s.w.now(lane)}
	c.cluster.progress++
}

// arrive counts arrivals off the current phase.
func (s *step) arrive(lane int, b *mbarrier, n int) {
	if n < 1 || n > maxArrivals {
		s.find(BarrierMisuse, lane, "%d arrivals at once", n)
		return
	}
	b.cta.cluster.progress++
	lanes := uint32(allLanes) // of a copy or a tensor core: what the warp did before it
	if lane >= 0 {
		lanes = 1 << lane
	}
	s.w.sendTo(&b.heard, lanes)
	if b.pending -= n; b.pending < 0 {
		s.find(BarrierMisuse, lane, "more arrivals than the %d that %s was initialised with", b.expected, b)
		b.pending = 0
	}
	b.turn()
}

// expect adds bytes to what the phase waits for; negative ones have come.
func (s *step) expect(lane int, b *mbarrier, n int) {
	b.cta.cluster.progress++
	if b.tx += n; b.tx > maxTx || b.tx < -maxTx {
		s.find(BarrierMisuse, lane, "%s has %d bytes outstanding; it counts to %d", b, b.tx, maxTx)
	}
}

// turn begins the next phase if the current one lacks nothing.
func (b *mbarrier) turn() {
	if b.pending == 0 && b.tx == 0 {
		b.phase++
		b.done = append(clock(nil), b.heard...)
		b.pending = b.expected
	}
}

// passed reports whether the phase of a parity has completed.
func (b *mbarrier) passed(parity uint64) bool { return b.phase&1 != parity&1 }

func (b *mbarrier) String() string {
	return fmt.Sprintf("the mbarrier at %#x of CTA %d", b.at, b.cta.id)
}

func (b *mbarrier) state() string {
	return fmt.Sprintf("%s: phase %d is current (parity %d) and lacks %d of %d arrivals and %d bytes", b, b.phase, b.phase&1, b.pending, b.expected, b.tx)
}

// asyncArrives checks that the async proxy may see the barrier: its initialisation must have been fenced.
func (s *step) asyncArrives(b *mbarrier) {
	if b.initBy == nil {
		return
	}
	if b.initEpoch == b.initBy.proxyFences {
		s.find(MissingFence, -1, "%s was initialised without fence.mbarrier_init or fence.proxy.async before a bulk copy uses it", b)
	}
	b.initBy = nil
}

// phaseWait is a wait for a phase, with a time limit.
type phaseWait struct {
	bars   [warpSize]*mbarrier
	phases [warpSize]uint64 // parity or phase
	parity bool
}

func (x *phaseWait) done(lane int) bool {
	b := x.bars[lane]
	if b == nil {
		return true
	}
	if x.parity {
		return b.passed(x.phases[lane])
	}
	return b.phase != x.phases[lane]
}

func (x *phaseWait) ready(_ *warp, g *group) bool {
	for m := g.mask; m != 0; m &= m - 1 {
		if x.done(bits.TrailingZeros32(m)) {
			return true
		}
	}
	return false
}

func (x *phaseWait) describe(_ *warp, g *group) string {
	lane := bits.TrailingZeros32(g.mask)
	if x.bars[lane] == nil {
		return "an mbarrier that is none"
	}
	if x.parity {
		return fmt.Sprintf("the phase of parity %d of %s", x.phases[lane]&1, x.bars[lane].state())
	}
	return fmt.Sprintf("phase %d of %s", x.phases[lane], x.bars[lane].state())
}
