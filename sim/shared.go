package sim

// granule is what the async proxy moves: 16 bytes of shared memory, with what is known about accesses under way.
type granule struct {
	writing int32  // copies in flight that will write it
	reading int32  // products and copies in flight that read it
	writer  *warp  // that wrote it through the generic proxy last, if no fence has followed
	epoch   uint32 // of that warp's proxy fences at the time
}

const granuleBytes = 16

// sharedMem is the shared memory of one CTA.
type sharedMem struct {
	data     []byte
	wrote    []bool
	granules []granule
	shadows  []shadow
	bars     map[uint32]*mbarrier
}

func newSharedMem(n int) *sharedMem {
	return &sharedMem{data: make([]byte, n), wrote: make([]bool, n), granules: make([]granule, (n+granuleBytes-1)/granuleBytes),
		shadows: make([]shadow, (n+shadowBytes-1)/shadowBytes), bars: map[uint32]*mbarrier{}}
}

// Shared addresses of 32 bits: the low 24 are the place in a CTA's window; the rest is 0 for the own CTA, else one more than
// the rank in the cluster, as mapa makes them.
const (
	rankShift = 24
	placeMask = 1<<rankShift - 1
)

// shared resolves a shared address: the CTA it names and the place in it. Bad addresses are found and give nil.
func (s *step) shared(lane int, addr uint64, n, align int) (*cta, uint32) {
	c := s.w.cta
	if rank := addr >> rankShift; rank != 0 {
		if rank > uint64(len(c.cluster.ctas)) {
			s.find(OutOfBounds, lane, "shared address %#x names no CTA of the cluster", addr)
			return nil, 0
		}
		c = c.cluster.ctas[rank-1]
	}
	at := uint32(addr & placeMask)
	first := uint32(c.cluster.grid.p.arch.ReservedShared)
	switch {
	case at < first || int(at)+n > len(c.smem.data):
		s.find(OutOfBounds, lane, "shared address %#x, %d bytes, lies outside the CTA's %d to %d", addr, n, first, len(c.smem.data))
		return nil, 0
	case int(at)%align != 0:
		s.find(Misaligned, lane, "shared address %#x is no multiple of %d", addr, align)
		return nil, 0
	case c != s.w.cta && c.live == 0:
		s.find(Race, lane, "shared memory of CTA %d, which has exited", c.id)
		return nil, 0
	}
	return c, at
}

// readShared checks a generic read of shared memory and returns the bytes.
func (s *step) readShared(c *cta, lane int, at uint32, n int) []byte {
	m := c.smem
	for g := at / granuleBytes; g <= (at+uint32(n)-1)/granuleBytes; g++ {
		if m.granules[g].writing > 0 {
			s.find(Race, lane, "reads shared address %#x of CTA %d, which a bulk copy in flight writes", at, c.id)
			break
		}
	}
	for _, ok := range m.wrote[at : at+uint32(n)] {
		if !ok {
			s.find(Uninitialised, lane, "reads shared address %#x of CTA %d, which nobody wrote", at, c.id)
			break
		}
	}
	s.checkBarrier(c, lane, at, n)
	s.access(c, lane, at, n, false)
	return m.data[at : at+uint32(n)]
}

// writeShared checks a generic write of shared memory and returns the bytes to change.
func (s *step) writeShared(c *cta, lane int, at uint32, n int) []byte {
	m := c.smem
	for g := at / granuleBytes; g <= (at+uint32(n)-1)/granuleBytes; g++ {
		x := &m.granules[g]
		switch {
		case x.writing > 0:
			s.find(Race, lane, "writes shared address %#x of CTA %d, which a bulk copy in flight writes", at, c.id)
		case x.reading > 0:
			s.find(Race, lane, "writes shared address %#x of CTA %d, which a tensor core or copy still reads", at, c.id)
		}
		x.writer, x.epoch = s.w, s.w.proxyFences
	}
	for i := range n {
		m.wrote[int(at)+i] = true
	}
	s.checkBarrier(c, lane, at, n)
	s.access(c, lane, at, n, true)
	return m.data[at : at+uint32(n)]
}

func (s *step) checkBarrier(c *cta, lane int, at uint32, n int) {
	if len(c.smem.bars) == 0 {
		return
	}
	for a := at &^ 7; a < at+uint32(n); a += 8 {
		if c.smem.bars[a] != nil {
			s.find(BarrierMisuse, lane, "touches the mbarrier at %#x of CTA %d as memory", a, c.id)
		}
	}
}

// asyncRead checks a read of a granule through the async proxy: no copy may be writing it, it must hold something, and
// what the generic proxy wrote must have been fenced (PTX ISA, "Async proxy").
func (s *step) asyncRead(c *cta, at uint32, what string) {
	m := c.smem
	x := &m.granules[at/granuleBytes]
	if x.writing > 0 {
		s.find(Race, -1, "%s reads shared address %#x of CTA %d, which a bulk copy in flight writes", what, at, c.id)
	}
	if x.writer != nil {
		if x.epoch == x.writer.proxyFences {
			s.find(MissingFence, -1, "%s reads shared address %#x of CTA %d, which warp %d wrote without fence.proxy.async after it",
				what, at, c.id, x.writer.id)
		}
		x.writer = nil
	}
	for _, ok := range m.wrote[at : at+granuleBytes] {
		if !ok {
			s.find(Uninitialised, -1, "%s reads shared address %#x of CTA %d, which nobody wrote", what, at, c.id)
			break
		}
	}
}

// beginWrite marks granules that a copy will write.
func (s *step) beginWrite(c *cta, at uint32, n int) {
	for g := at / granuleBytes; g < (at+uint32(n)+granuleBytes-1)/granuleBytes; g++ {
		x := &c.smem.granules[g]
		switch {
		case x.reading > 0:
			s.find(Race, -1, "a bulk copy writes shared address %#x of CTA %d, which a tensor core or copy still reads", g*granuleBytes, c.id)
		case x.writing > 0:
			s.find(Race, -1, "a bulk copy writes shared address %#x of CTA %d, which another in flight writes", g*granuleBytes, c.id)
		}
		x.writing++
		x.writer = nil
	}
}

// endWrite takes the marks back and notes that the bytes hold something.
func endWrite(c *cta, at uint32, n int) {
	for g := at / granuleBytes; g < (at+uint32(n)+granuleBytes-1)/granuleBytes; g++ {
		c.smem.granules[g].writing--
	}
	for i := range n {
		c.smem.wrote[int(at)+i] = true
	}
}
