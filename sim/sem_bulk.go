package sim

import (
	"math/bits"

	"github.com/fsgen/fsgen/internal/isa"
	"github.com/fsgen/fsgen/ptx"
)

// transfer is a copy in flight: it happens at a time of the scheduler's choosing.
type transfer struct {
	s      step
	to     *cta      // that it writes to, or nil
	bar    *mbarrier // that it reports to; one without a CTA if there is none
	finish func(t *transfer)
}

var noBarrier = &mbarrier{}

func (s *step) start(to *cta, bar *mbarrier, finish func(t *transfer)) {
	c := s.w.cta.cluster
	c.async = append(c.async, &transfer{*s, to, bar, finish})
	c.progress++
}

// completeTx reports bytes to the transfer's barrier.
func (t *transfer) completeTx(n int) {
	t.s.expect(-1, t.bar, -n)
	t.bar.turn()
}

// oneThread checks that an instruction that acts for a single thread is not executed by several by mistake.
func (s *step) oneThread() int {
	if bits.OnesCount32(s.m) > 1 {
		s.find(Divergence, -1, "%d lanes each start the copy", bits.OnesCount32(s.m))
	}
	return bits.TrailingZeros32(s.m)
}

// targets lists where a multicast goes: the same place in each CTA of the mask, and that CTA's barrier at the same place
// (PTX ISA, "cp.async.bulk": .multicast::cluster).
func (s *step) targets(lane int, dst, bar uint64, ctaMask slot, n, align int) (to []*cta, at uint32, bars []*mbarrier) {
	c, at := s.shared(lane, dst, n, align)
	b := s.barrierAt(lane, bar)
	if c == nil || b == nil {
		return nil, 0, nil
	}
	if ctaMask < 0 {
		return []*cta{c}, at, []*mbarrier{b}
	}
	peers := s.w.cta.cluster.ctas
	for m := s.w.r[ctaMask][lane] & 0xffff; m != 0; m &= m - 1 {
		rank := bits.TrailingZeros64(m)
		if rank >= len(peers) {
			s.find(OutOfBounds, lane, "multicast to CTA %d of a cluster of %d", rank, len(peers))
			continue
		}
		x := peers[rank].smem.bars[b.at]
		if x == nil {
			s.find(BarrierMisuse, lane, "multicast: no mbarrier at %#x of CTA %d", b.at, peers[rank].id)
			continue
		}
		s.useBarrier(lane, x)
		to, bars = append(to, peers[rank]), append(bars, x)
	}
	return to, at, bars
}

func (a *asm) optional(name string) slot {
	if i := a.index(name); i >= 0 {
		return a.src(i)
	}
	return -1
}

// tensorOperand is a tensor map's address and the box's coordinates.
func (a *asm) tensorOperand(i int) (address, []slot) {
	t := a.in.Args[i].(ptx.TensorMem)
	var coords []slot
	for _, x := range t.Coords {
		coords = append(coords, a.source(x, isa.S32))
	}
	return a.mem(t.Map), coords
}

func (s *step) coordinates(lane int, slots []slot) []int {
	out := make([]int, len(slots))
	for i, c := range slots {
		out[i] = int(int32(s.w.r[c][lane]))
	}
	return out
}

// buildTensorCopy is cp.async.bulk.tensor, into shared memory or out of it.
func buildTensorCopy(a *asm) exec {
	if a.form.Row.Args[0].Role == isa.Tensor {
		return a.tensorStore()
	}
	dst, bar := a.addr(0), a.addr(2)
	at, coords := a.tensorOperand(1)
	ctaMask := a.optional("ctaMask")
	a.hint()
	return func(s *step) {
		s.oneThread()
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			s.w.cta.cluster.at = *s
			s.tensorLoad(l, dst.of(s.w, l), bar.of(s.w, l), s.tensorMap(l, at.of(s.w, l)), s.coordinates(l, coords), ctaMask)
		}
	}
}

func (s *step) tensorLoad(lane int, dst, bar uint64, m *TensorMap, coords []int, ctaMask slot) {
	if m == nil || !s.rankFits(lane, m, coords) {
		return
	}
	n := m.boxBytes()
	to, at, bars := s.targets(lane, dst, bar, ctaMask, n, 128)
	if s.checkBox(lane, m, coords) {
		return
	}
	for i, c := range to {
		s.asyncArrives(bars[i])
		s.beginWrite(c, at, n)
		s.start(c, bars[i], func(t *transfer) {
			m.fill(c, at, coords, t.s.w.cta.cluster.grid.mem)
			endWrite(c, at, n)
			t.completeTx(n)
		})
	}
}

func (s *step) rankFits(lane int, m *TensorMap, coords []int) bool {
	if len(coords) != len(m.Dims) {
		s.find(OutOfBounds, lane, "%d coordinates for a tensor of %d dimensions", len(coords), len(m.Dims))
	}
	return len(coords) == len(m.Dims)
}

// checkBox reports a box whose elements nobody allocated or wrote.
func (s *step) checkBox(lane int, m *TensorMap, coords []int) (bad bool) {
	m.box(coords, func(_ int, addr uint64, _, n int) {
		if n > 0 && !bad && s.read(isa.Global, lane, addr, n, 1) == nil {
			bad = true
		}
	})
	return bad
}

// fill writes a box to shared memory, zeros where the tensor ends.
func (m *TensorMap) fill(c *cta, at uint32, coords []int, mem *Memory) {
	row := make([]byte, m.Box[0]*m.Element)
	m.box(coords, func(place int, addr uint64, zeros, n int) {
		clear(row)
		if n > 0 {
			if b, i := mem.find(addr, n); b != nil {
				copy(row[zeros:], b.data[i:i+n])
			}
		}
		for i := 0; i < len(row); i += granuleBytes {
			copy(c.smem.data[swizzled(at+uint32(place+i), m.Swizzle):], row[i:i+granuleBytes])
		}
	})
}

// tensorStore writes a box from shared memory to the tensor; what lies outside is dropped.
func (a *asm) tensorStore() exec {
	at, coords := a.tensorOperand(0)
	src := a.addr(1)
	a.hint()
	return func(s *step) {
		l := s.oneThread()
		m := s.tensorMap(l, at.of(s.w, l))
		xs := s.coordinates(l, coords)
		if m == nil || !s.rankFits(l, m, xs) {
			return
		}
		n := m.boxBytes()
		from, place := s.shared(l, src.of(s.w, l), n, 128)
		if from == nil {
			return
		}
		s.copyOut(l, from, place, n, func(s *step) {
			m.box(xs, func(r int, addr uint64, zeros, n int) {
				for i := 0; i < n; i++ {
					if data := s.write(isa.Global, l, addr+uint64(i), 1, 1); data != nil {
						data[0] = from.smem.data[swizzled(place+uint32(r+zeros+i), m.Swizzle)]
					}
				}
			})
		})
	}
}

// copyOut starts a copy from shared memory that ends in global memory, between rounds.
func (s *step) copyOut(lane int, from *cta, at uint32, n int, write func(s *step)) {
	for g := at &^ (granuleBytes - 1); g < at+uint32(n); g += granuleBytes {
		s.asyncRead(from, g, "a bulk copy")
		from.smem.granules[g/granuleBytes].reading++
	}
	group := s.w.copies.bulk[lane].begin()
	s.start(nil, noBarrier, func(t *transfer) {
		c := t.s.w.cta.cluster
		c.deferred = append(c.deferred, deferred{t.s, &globalWait{}, func(s *step) {
			write(s)
			for g := at &^ (granuleBytes - 1); g < at+uint32(n); g += granuleBytes {
				from.smem.granules[g/granuleBytes].reading--
			}
			group.pending--
		}})
	})
}

// buildBulk is cp.async.bulk, told apart by the spaces of its operands.
func buildBulk(a *asm) exec {
	switch dst, src := a.form.Row.Args[0].Space, a.form.Row.Args[1].Space; {
	case dst == isa.Global:
		return a.bulkStore(nil)
	case src == isa.Shared:
		return a.bulkPeer()
	}
	dst, src, size, bar := a.addr(0), a.addr(1), a.src(2), a.addr(3)
	ctaMask := a.optional("ctaMask")
	a.hint()
	return func(s *step) {
		s.oneThread()
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			s.bulkLoad(l, dst.of(s.w, l), src.of(s.w, l), int(s.w.r[size][l]), bar.of(s.w, l), ctaMask)
		}
	}
}

func (s *step) bulkLoad(lane int, dst, src uint64, n int, bar uint64, ctaMask slot) {
	if !s.sizeFits(lane, n) || n == 0 {
		return
	}
	data := s.read(isa.Global, lane, src, n, 16)
	to, at, bars := s.targets(lane, dst, bar, ctaMask, n, 16)
	if data == nil {
		return
	}
	for i, c := range to {
		s.asyncArrives(bars[i])
		s.beginWrite(c, at, n)
		s.start(c, bars[i], func(t *transfer) {
			copy(c.smem.data[at:], data)
			endWrite(c, at, n)
			t.completeTx(n)
		})
	}
}

func (s *step) sizeFits(lane, n int) bool {
	if n%16 != 0 {
		s.find(Misaligned, lane, "a bulk copy of %d bytes, no multiple of 16", n)
	}
	return n%16 == 0
}

// bulkPeer copies from the own shared memory to another CTA's.
func (a *asm) bulkPeer() exec {
	dst, src, size, bar := a.addr(0), a.addr(1), a.src(2), a.addr(3)
	return func(s *step) {
		l := s.oneThread()
		n := int(s.w.r[size][l])
		if !s.sizeFits(l, n) || n == 0 {
			return
		}
		from, place := s.shared(l, src.of(s.w, l), n, 16)
		to, at := s.shared(l, dst.of(s.w, l), n, 16)
		b := s.barrierAt(l, bar.of(s.w, l))
		if from == nil || to == nil || b == nil {
			return
		}
		for g := place; g < place+uint32(n); g += granuleBytes {
			s.asyncRead(from, g, "a bulk copy")
			from.smem.granules[g/granuleBytes].reading++
		}
		s.beginWrite(to, at, n)
		s.start(to, b, func(t *transfer) {
			copy(to.smem.data[at:], from.smem.data[place:place+uint32(n)])
			for g := place; g < place+uint32(n); g += granuleBytes {
				from.smem.granules[g/granuleBytes].reading--
			}
			endWrite(to, at, n)
			t.completeTx(n)
		})
	}
}

// bulkStore copies or, given an element's update, reduces into global memory.
func (a *asm) bulkStore(reduce func(data []byte, from []byte)) exec {
	dst, src, size := a.addr(0), a.addr(1), a.src(2)
	a.hint()
	if reduce == nil {
		reduce = func(data, from []byte) { copy(data, from) }
	}
	return func(s *step) {
		l := s.oneThread()
		n, to := int(s.w.r[size][l]), dst.of(s.w, l)
		if !s.sizeFits(l, n) || n == 0 {
			return
		}
		from, place := s.shared(l, src.of(s.w, l), n, 16)
		if from == nil {
			return
		}
		s.copyOut(l, from, place, n, func(s *step) {
			if data := s.write(isa.Global, l, to, n, 16); data != nil {
				reduce(data, from.smem.data[place:place+uint32(n)])
			}
		})
	}
}

func buildBulkReduce(a *asm) exec {
	var typ isa.Type
	for i := range a.form.Row.Slots {
		if alt := a.form.Alt(i); alt != nil && alt.Type != isa.None {
			typ = alt.Type
		}
	}
	t, f := widthOf(typ), a.updateOf(typ)
	n := t.bits / 8
	return a.bulkStore(func(data, from []byte) {
		for i := 0; i+n <= len(data); i += n {
			store(data[i:], n, f(t, load(data[i:], n), load(from[i:], n), 0))
		}
	})
}

// buildBulkPrefetch reads its operands; what it fetches into the L2 cache nobody sees.
func buildBulkPrefetch(a *asm) exec {
	if a.form.Row.Args[0].Role == isa.Tensor {
		a.tensorOperand(0)
	} else {
		a.addr(0)
		a.src(1)
	}
	a.hint()
	return func(*step) {}
}

var bulkSemantics = map[string]builder{
	"CpAsyncBulk": buildBulk, "CpAsyncBulkTensor": buildTensorCopy, "CpReduceAsyncBulk": buildBulkReduce,
	"CpAsyncBulkPrefetchL2Global": buildBulkPrefetch, "CpAsyncBulkPrefetchTensor": buildBulkPrefetch,
	"CpAsyncBulkCommitGroup": buildCommitCopies(true), "CpAsyncBulkWaitGroup": buildWaitCopies(true),
}
