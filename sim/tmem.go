package sim

import (
	"fmt"
	"math/bits"
)

const (
	tensorLanes   = 128
	tensorColumns = 512
)

// tensorMem is the tensor memory of a CTA: 128 lanes of 512 columns of 32 bits (PTX ISA, "Tensor Memory").
type tensorMem struct {
	data         [][tensorColumns]uint32 // by lane; nil until something is allocated
	wrote        [tensorColumns][2]uint64
	owner        [tensorColumns]int // number of the allocation; 0 is free
	allocations  int
	relinquished bool
	columns      [tensorColumns]column
	queue        []*tensorProduct // in flight, in the order of issue
	clock        uint64           // counts events, for fences
}

// column is what is known of accesses to a column.
type column struct {
	products      int    // in flight
	loads, stores [4]int // in flight, of a quarter of the lanes
	doneAt        uint64 // clock when the last product ended
	uses          [4]lastUse
}

// lastUse is the last finished load from a quarter of the lanes, or store.
type lastUse struct {
	w  *warp
	at uint64
}

// tensorProduct is a tcgen05.mma in flight.
type tensorProduct struct {
	marks []mark
	parts []tensorPart
	done  bool
}

// tensorPart is the columns that a product writes in one CTA.
type tensorPart struct {
	c        *cta
	first, n int
}

func (t *tensorMem) tick() uint64 { t.clock++; return t.clock }

// findFree returns the first of n free adjacent columns; allocations start at a multiple of their size.
func (t *tensorMem) findFree(n int) int {
	for first := 0; first+n <= tensorColumns; first += n {
		free := true
		for _, o := range t.owner[first : first+n] {
			free = free && o == 0
		}
		if free {
			return first
		}
	}
	return -1
}

// allocWait waits for columns.
type allocWait struct {
	t *tensorMem
	n int
}

func (x *allocWait) ready(*warp, *group) bool { return x.t.findFree(x.n) >= 0 }
func (x *allocWait) describe(*warp, *group) string {
	return fmt.Sprintf("%d columns of tensor memory to become free", x.n)
}

func validColumns(n int) bool { return n >= 32 && n <= tensorColumns && bits.OnesCount(uint(n)) == 1 }

// region checks n columns at an address (lane in the upper half, column in the lower) and returns both.
func (s *step) region(addr uint64, n int) (lane, col int, ok bool) {
	t := &s.w.cta.tmem
	lane, col = int(addr>>16&0xffff), int(addr&0xffff)
	switch {
	case lane >= tensorLanes || col+n > tensorColumns:
		s.find(TensorMemory, -1, "tensor memory address %#x, %d columns; there are %d lanes of %d", addr, n, tensorLanes, tensorColumns)
		return 0, 0, false
	case t.data == nil || t.owner[col] == 0 || t.owner[col] != t.owner[col+n-1]:
		s.find(TensorMemory, -1, "columns %d to %d of tensor memory are not of one allocation", col, col+n-1)
		return 0, 0, false
	}
	return lane, col, true
}

func (t *tensorMem) isWritten(lane, col int) bool { return t.wrote[col][lane/64]>>(lane%64)&1 == 1 }
func (t *tensorMem) markWritten(lane, col int)    { t.wrote[col][lane/64] |= 1 << (lane % 64) }

// retire ends the products of a queue up to one.
func (c *cta) retireProducts(upTo *tensorProduct) {
	t := &c.tmem
	for len(t.queue) > 0 && !upTo.done {
		p := t.queue[0]
		t.queue = t.queue[1:]
		p.done = true
		release(p.marks)
		for _, part := range p.parts {
			m := &part.c.tmem
			now := m.tick()
			for i := part.first; i < part.first+part.n; i++ {
				m.columns[i].products--
				m.columns[i].doneAt = now
			}
		}
	}
}

// tensorEnds looks at what a CTA leaves in tensor memory.
func (s *step) tensorEnds() {
	t := &s.w.cta.tmem
	for i, o := range t.owner {
		if o != 0 {
			s.find(TensorMemory, -1, "the CTA exits without freeing tensor memory: column %d is still allocated", i)
			return
		}
	}
	if len(t.queue) > 0 {
		s.find(Race, -1, "the CTA exits with %d tcgen05.mma in flight", len(t.queue))
	}
}
