package sim

import (
	"fmt"
	"math/bits"

	"github.com/fsgen/fsgen/internal/isa"
)

// copyGroups are the groups of asynchronous copies of each thread: bulk copies and cp.async count apart.
type copyGroups struct {
	bulk, plain [warpSize]copyQueue
}

// copyQueue holds the copies not yet committed, and the groups committed, oldest first.
type copyQueue struct {
	open      *copyGroup
	committed []*copyGroup
}

type copyGroup struct{ pending int }

// begin adds a copy to the open group.
func (q *copyQueue) begin() *copyGroup {
	if q.open == nil {
		q.open = &copyGroup{}
	}
	q.open.pending++
	return q.open
}

func (q *copyQueue) commit() {
	if q.open == nil {
		q.open = &copyGroup{} // an empty group counts too
	}
	q.committed = append(q.committed, q.open)
	q.open = nil
}

// atMost reports whether at most n of the latest groups are pending.
func (q *copyQueue) atMost(n int) bool {
	for i := 0; i < len(q.committed)-n; i++ {
		if q.committed[i].pending > 0 {
			return false
		}
	}
	if k := len(q.committed) - n; k > 0 {
		q.committed = q.committed[k:]
	}
	return true
}

func (w *warp) queue(bulk bool, lane int) *copyQueue {
	if bulk {
		return &w.copies.bulk[lane]
	}
	return &w.copies.plain[lane]
}

func buildCommitCopies(bulk bool) builder {
	return func(*asm) exec {
		return func(s *step) {
			for m := s.m; m != 0; m &= m - 1 {
				s.w.queue(bulk, bits.TrailingZeros32(m)).commit()
			}
		}
	}
}

// copyWait waits until at most n groups of each lane are pending.
type copyWait struct {
	bulk bool
	n    int
	m    uint32
}

func (x *copyWait) ready(w *warp, _ *group) bool {
	for m := x.m; m != 0; m &= m - 1 {
		if !w.queue(x.bulk, bits.TrailingZeros32(m)).atMost(x.n) {
			return false
		}
	}
	return true
}

func (x *copyWait) describe(*warp, *group) string {
	return fmt.Sprintf("all but %d groups of its copies", x.n)
}

func buildWaitCopies(bulk bool) builder {
	return func(a *asm) exec {
		n := 0
		if len(a.in.Args) > 0 {
			n = int(a.imm(0))
		}
		return func(s *step) { s.g.wait = &copyWait{bulk, n, s.m} }
	}
}

func buildWaitAllCopies(*asm) exec {
	return func(s *step) {
		for m := s.m; m != 0; m &= m - 1 {
			s.w.queue(false, bits.TrailingZeros32(m)).commit()
		}
		s.g.wait = &copyWait{false, 0, s.m}
	}
}

// buildCpAsync copies 4 to 16 bytes; bytes past src-size are zero.
func buildCpAsync(a *asm) exec {
	dst, src, size := a.addr(0), a.addr(1), int(a.imm(2))
	have := a.optional("src-size")
	a.hint()
	return func(s *step) {
		for m := s.m; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			n := size
			if have >= 0 {
				n = min(size, int(s.w.r[have][l]))
			}
			s.cpAsync(l, dst.of(s.w, l), src.of(s.w, l), size, n)
		}
	}
}

func (s *step) cpAsync(lane int, dst, src uint64, size, n int) {
	c, at := s.shared(lane, dst, size, size)
	if c == nil {
		return
	}
	var data []byte
	if n > 0 {
		if data = s.read(isa.Global, lane, src, n, 4); data == nil {
			return
		}
	}
	first := at &^ (granuleBytes - 1)
	g := &c.smem.granules[first/granuleBytes]
	g.writing++
	group := s.w.copies.plain[lane].begin()
	s.start(c, noBarrier, func(*transfer) {
		clear(c.smem.data[at : at+uint32(size)])
		copy(c.smem.data[at:], data)
		g.writing--
		for i := range size {
			c.smem.wrote[int(at)+i] = true
		}
		group.pending--
	})
}

// buildCopyArrive makes the barrier's arrival wait for the thread's copies so far.
func buildCopyArrive(a *asm) exec {
	x := a.addr(0)
	counted := !a.form.Has("noinc")
	return func(s *step) {
		s.eachBarrier(x, func(l int, b *mbarrier) {
			if counted {
				b.pending++
			}
			q := &s.w.copies.plain[l]
			groups := append([]*copyGroup(nil), q.committed...)
			if q.open != nil {
				groups = append(groups, q.open)
			}
			s.start(nil, b, func(t *transfer) { t.arriveAfter(groups) })
		})
	}
}

// arriveAfter arrives if all groups are done, else tries again later.
func (t *transfer) arriveAfter(groups []*copyGroup) {
	for _, g := range groups {
		if g.pending > 0 {
			c := t.s.w.cta.cluster
			c.async = append(c.async, t)
			return
		}
	}
	t.s.arrive(-1, t.bar, 1)
}

var copySemantics = map[string]builder{
	"CpAsyncCA": buildCpAsync, "CpAsyncCG": buildCpAsync, "CpAsyncCommitGroup": buildCommitCopies(false),
	"CpAsyncWaitGroup": buildWaitCopies(false), "CpAsyncWaitAll": buildWaitAllCopies, "CpAsyncMbarrierArrive": buildCopyArrive,
}
