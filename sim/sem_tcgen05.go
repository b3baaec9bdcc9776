package sim

import (
	"math/bits"
	"slices"
)

func buildTcgenAlloc(a *asm) exec {
	x, n := a.addr(0), a.src(1)
	return func(s *step) {
		l := bits.TrailingZeros32(s.m)
		c, at := s.shared(l, x.of(s.w, l), 4, 4)
		cols := int(s.w.r[n][l])
		if c == nil {
			return
		}
		t := &c.tmem
		switch {
		case !validColumns(cols):
			s.find(TensorMemory, -1, "allocates %d columns: want a power of two from 32 to %d", cols, tensorColumns)
			return
		case t.relinquished:
			s.find(TensorMemory, -1, "allocates after relinquish_alloc_permit")
		}
		first := t.findFree(cols)
		if first < 0 {
			s.g.pc--
			s.g.wait = &allocWait{t, cols}
			return
		}
		if t.data == nil {
			t.data = make([][tensorColumns]uint32, tensorLanes)
		}
		t.allocations++
		for i := first; i < first+cols; i++ {
			t.owner[i], t.wrote[i] = t.allocations, [2]uint64{}
		}
		store(s.writeShared(c, l, at, 4), 4, uint64(first))
		c.smem.granules[at/granuleBytes].writer = nil
		c.cluster.progress++
	}
}

func buildTcgenDealloc(a *asm) exec {
	x, n := a.src(0), a.src(1)
	return func(s *step) {
		l := bits.TrailingZeros32(s.m)
		t := &s.w.cta.tmem
		first, cols := int(s.w.r[x][l]&0xffff), int(s.w.r[n][l])
		if !validColumns(cols) || first+cols > tensorColumns || t.owner[first] == 0 || t.owner[first] != t.owner[first+cols-1] {
			s.find(TensorMemory, -1, "frees columns %d to %d, which are no allocation", first, first+cols-1)
			return
		}
		for i := first; i < first+cols; i++ {
			if t.columns[i].products > 0 || t.columns[i].loads != [4]int{} || t.columns[i].stores != [4]int{} {
				s.find(Race, -1, "frees column %d of tensor memory, which an instruction in flight uses", i)
			}
			t.owner[i] = 0
		}
		s.w.cta.cluster.progress++
	}
}

func buildRelinquish(*asm) exec { return func(s *step) { s.w.cta.tmem.relinquished = true } }

// instruction is a decoded instruction descriptor (PTX ISA, "Instruction descriptor").
type instruction struct {
	m, n           int
	decA, decB     func(uint64) float32
	negA, negB     bool
	transA, transB bool
}

var halfFormats = [8]func(uint64) float32{decodeF16, decodeBF16}

// decodeInstruction reads the bits of kind::f16: sparsity in 0-2, saturation in 3, accumulator type in 4-5, A and B types in
// 7-9 and 10-12, negation in 13 and 14, transposition in 15 and 16, N/8 in 17-22, M/16 in 24-28, shift in 30-31.
func (s *step) decodeInstruction(d uint64, group int) (x instruction, ok bool) {
	x = instruction{m: int(d>>24&31) * 16, n: int(d>>17&63) * 8, decA: halfFormats[d>>7&7], decB: halfFormats[d>>10&7],
		negA: d>>13&1 == 1, negB: d>>14&1 == 1, transA: d>>15&1 == 1, transB: d>>16&1 == 1}
	switch {
	case d&0xf != 0 || d>>29 != 0:
		s.find(Unsupported, -1, "instruction descriptor %#x asks for sparsity, saturation or a shift", d)
	case d>>4&3 != 1:
		s.find(Unsupported, -1, "instruction descriptor %#x: accumulators that are not float32", d)
	case d>>6&1 != 0 || d>>23&1 != 0 || x.decA == nil || x.decB == nil:
		s.find(Unsupported, -1, "instruction descriptor %#x is reserved", d)
	case x.m != 128*group && !(x.m == 64 && group == 1):
		s.find(Unsupported, -1, "M is %d with cta_group::%d", x.m, group)
	case x.n < 8 || x.n > 256 || x.m > 64 && x.n%(16*group) != 0:
		s.find(Unsupported, -1, "N is %d with M %d", x.n, x.m)
	default:
		return x, true
	}
	return x, false
}

// tcgenSwizzles are the modes of bits 61-63.
var tcgenSwizzles = map[uint64]int{0: 0, 2: 128, 4: 64, 6: 32}

// tcgenMatrix decodes a shared-memory descriptor: as wgmma's, with 1 in bits 46-48 and the swizzle in 61-63.
func (s *step) tcgenMatrix(d uint64, transposed bool, decode func(uint64) float32) (matrix, bool) {
	span, known := tcgenSwizzles[d>>61]
	switch {
	case d>>46&7 != 1:
		s.find(Unsupported, -1, "descriptor %#x has %d in bits 46-48: want 1", d, d>>46&7)
		known = false
	case !known || d>>49&15 != 0 || d&(3<<14|3<<30|0xff<<53) != 0:
		s.find(Unsupported, -1, "descriptor %#x has a reserved swizzle, base offset, absolute leading offset or reserved bits", d)
		known = false
	}
	m := matrixFields(d)
	m.span, m.byRow, m.decode = span, !transposed, decode
	return m, known
}

func buildTcgenMma(a *asm) exec {
	if !a.form.Has("kind::f16") {
		a.refuse("only kind::f16 is modelled")
	}
	d, da, db, di := a.addr(0), a.src(1), a.src(2), a.src(3)
	var disabled []slot
	if a.has(4) {
		disabled = a.srcs(4)
	}
	add, group := a.src(5), a.form.Alt(0).N
	return func(s *step) {
		l := s.oneThread()
		r := s.w.r
		x, ok := s.decodeInstruction(r[di][l], group)
		ma, okA := s.tcgenMatrix(r[da][l], x.transA, x.decA)
		mb, okB := s.tcgenMatrix(r[db][l], x.transB, x.decB)
		_, col, okD := s.region(d.of(s.w, l), x.n)
		if !ok || !okA || !okB || !okD {
			return
		}
		skip := make([]uint64, len(disabled))
		for i, reg := range disabled {
			skip[i] = r[reg][l]
		}
		s.tensorMultiply(x, ma, mb, col, r[add][l]&1 == 1, group, skip)
	}
}

// pair lists the CTAs that an instruction of a CTA group works in.
func (s *step) pair(group int) []*cta {
	c := s.w.cta
	if group == 1 {
		return []*cta{c}
	}
	first := c.rank &^ 1
	if first+1 >= len(c.cluster.ctas) {
		s.find(Divergence, -1, "cta_group::2 in a CTA without a peer")
		return nil
	}
	return c.cluster.ctas[first : first+2]
}

// tensorMultiply does D = A B + D. With two CTAs each holds half of A's rows, half of B's rows, and its rows of D.
func (s *step) tensorMultiply(x instruction, ma, mb matrix, col int, add bool, group int, skip []uint64) {
	ctas := s.pair(group)
	p := &tensorProduct{}
	tb := make([]float32, x.n*16)
	share := x.n / max(len(ctas), 1)
	for i, c := range ctas {
		mb.cta = c
		p.marks = s.tile(&mb, 0, share, tb[i*share*16:], p.marks, "tcgen05.mma")
	}
	rows := x.m / max(len(ctas), 1)
	ta := make([]float32, rows*16)
	for _, c := range ctas {
		ma.cta = c
		p.marks = s.tile(&ma, 0, rows, ta, p.marks, "tcgen05.mma")
		s.checkColumns(c, col, x.n)
		c.accumulateTensor(s, ta, tb, rows, x, col, add, skip)
		p.parts = append(p.parts, tensorPart{c, col, x.n})
		for i := col; i < col+x.n; i++ {
			c.tmem.columns[i].products++
		}
	}
	s.w.cta.tmem.queue = append(s.w.cta.tmem.queue, p)
	s.w.cta.cluster.progress++
}

// checkColumns wants loads from the columns to have ended, and fences on both sides of whatever told the issuer so
// (PTX ISA, "tcgen05.fence").
func (s *step) checkColumns(c *cta, col, n int) {
	for i := col; i < col+n; i++ {
		x := &c.tmem.columns[i]
		if x.loads != [4]int{} || x.stores != [4]int{} {
			s.find(Race, -1, "writes column %d of tensor memory, which a tcgen05.ld or tcgen05.st in flight uses", i)
			return
		}
		for _, r := range x.uses {
			switch {
			case r.w == nil || x.products > 0:
			case r.w.tensor.before < r.at:
				s.find(MissingFence, -1, "writes column %d of tensor memory, which warp %d used without tcgen05.fence::before_thread_sync after", i, r.w.id)
				return
			case r.w != s.w && s.w.tensor.after < r.w.tensor.before && s.w.tensor.after < r.at:
				s.find(MissingFence, -1, "writes column %d of tensor memory, which warp %d used, without tcgen05.fence::after_thread_sync", i, r.w.id)
				return
			}
		}
	}
}

// accumulateTensor adds products in ascending k. Row r of M = 128 is lane r; of M = 64 they are 16 lanes of each quarter.
func (c *cta) accumulateTensor(s *step, ta, tb []float32, rows int, x instruction, col int, add bool, skip []uint64) {
	t := &c.tmem
	sign := float32(1)
	if x.negA != x.negB {
		sign = -1
	}
	for r := range rows {
		lane := r
		if rows == 64 {
			lane = r/16*32 + r%16
		}
		if len(skip) > lane/32 && skip[lane/32]>>(lane%32)&1 == 1 {
			continue
		}
		line := &t.data[lane]
		va := ta[r*16 : r*16+16]
		for n := range x.n {
			acc := float32(0)
			if add {
				if !t.isWritten(lane, col+n) {
					s.find(Uninitialised, -1, "accumulates onto lane %d, column %d of tensor memory, which nobody wrote", lane, col+n)
				}
				acc = f32(uint64(line[col+n]))
			}
			vb := tb[n*16 : n*16+16]
			for k := range va {
				acc += float32(sign * float32(va[k]*vb[k]))
			}
			line[col+n] = uint32(bits32(acc))
			t.markWritten(lane, col+n)
		}
	}
}

// buildTcgenCommit has barriers hear of the end of all products so far.
func buildTcgenCommit(a *asm) exec {
	x, ctaMask := a.addr(0), a.optional("ctaMask")
	return func(s *step) {
		l := s.oneThread()
		c := s.w.cta
		b := s.barrierAt(l, x.of(s.w, l))
		if b == nil {
			return
		}
		bars := []*mbarrier{b}
		if ctaMask >= 0 {
			bars = s.peerBarriers(s.w.r[ctaMask][l], b.at)
		}
		var last *tensorProduct
		if n := len(c.tmem.queue); n > 0 {
			last = c.tmem.queue[n-1]
		}
		for _, b := range bars {
			s.asyncArrives(b)
			s.start(nil, b, func(t *transfer) {
				if last != nil {
					c.retireProducts(last)
				}
				t.s.arrive(-1, b, 1)
			})
		}
	}
}

// peerBarriers are the barriers at the same place in each CTA of a mask.
func (s *step) peerBarriers(m uint64, at uint32) []*mbarrier {
	var out []*mbarrier
	for ; m != 0; m &= m - 1 {
		rank := bits.TrailingZeros64(m)
		if rank >= len(s.w.cta.cluster.ctas) {
			s.find(OutOfBounds, -1, "multicast to CTA %d of a cluster of %d", rank, len(s.w.cta.cluster.ctas))
			continue
		}
		c := s.w.cta.cluster.ctas[rank]
		if b := c.smem.bars[at]; b != nil {
			s.useBarrier(-1, b)
			out = append(out, b)
		} else {
			s.find(BarrierMisuse, -1, "multicast: no mbarrier at %#x of CTA %d", at, c.id)
		}
	}
	return out
}

// quarter checks that a warp stays within the lanes that it may touch: those of its number modulo 4 (PTX ISA, "Access
// restrictions" of tensor memory).
func (s *step) quarter(addr uint64, n int) (lane, col int, ok bool) {
	lane, col, ok = s.region(addr, n)
	if ok && lane != s.w.id%4*warpSize {
		s.find(TensorMemory, -1, "warp %d touches lanes from %d of tensor memory; its own begin at %d", s.w.id, lane, s.w.id%4*warpSize)
		return 0, 0, false
	}
	return lane, col, ok
}

// buildTcgenLd is tcgen05.ld.32x32b: thread i of the warp takes adjacent columns of its lane i.
func buildTcgenLd(a *asm) exec {
	a.onlyWholeLanes()
	regs, x := a.raw(0), a.addr(1)
	per := 1
	if a.form.Has("pack::16b") {
		per = 2
	}
	return func(s *step) {
		s.uniform(x.base)
		n := len(regs) * per
		lane, col, ok := s.quarter(x.of(s.w, bits.TrailingZeros32(s.m)), n)
		if !ok {
			return
		}
		s.checkLoad(col, n, lane)
		t := &s.w.cta.tmem
		for i, r := range regs {
			for l := range warpSize {
				v := uint64(t.data[lane+l][col+i*per])
				if per == 2 {
					v = v&0xffff | uint64(t.data[lane+l][col+2*i+1])<<16&mask(32)
				}
				s.w.r[r][l] = v
			}
			s.w.valid[r] = allLanes
		}
		s.w.tensor.hold(regs, col, n, lane/warpSize, t)
	}
}

func (a *asm) onlyWholeLanes() {
	if a.form.Row.Go != "Tcgen05Ld32x32b" && a.form.Row.Go != "Tcgen05St32x32b" {
		a.refuse("only the shape 32x32b is modelled")
	}
}

// checkLoad wants products to have ended, and a fence after whatever told the warp so.
func (s *step) checkLoad(col, n, lane int) {
	t := &s.w.cta.tmem
	for i := col; i < col+n; i++ {
		switch x := &t.columns[i]; {
		case s.afterProducts(x, i, "reads"):
			return
		case x.stores[lane/warpSize] > 0:
			s.find(Race, -1, "reads column %d of tensor memory, which a tcgen05.st in flight writes", i)
			return
		case !t.isWritten(lane, i):
			s.find(Uninitialised, -1, "reads lane %d, column %d of tensor memory, which nobody wrote", lane, i)
			return
		}
	}
}

// afterProducts finds an access to a column that a product writes, or has written without a fence since.
func (s *step) afterProducts(x *column, i int, does string) bool {
	switch {
	case x.products > 0:
		s.find(Race, -1, "%s column %d of tensor memory, which a tcgen05.mma in flight writes", does, i)
	case x.doneAt > s.w.tensor.after:
		s.find(MissingFence, -1, "%s column %d of tensor memory without tcgen05.fence::after_thread_sync since the product ended", does, i)
	default:
		return false
	}
	return true
}

// checkStore wants products to have ended, as loads do, and those who use the same lanes. Warps of one quarter of the lanes tell
// each other by fences.
func (s *step) checkStore(col, n, lane int) {
	t, quarter := &s.w.cta.tmem, lane/warpSize
	for i := col; i < col+n; i++ {
		x := &t.columns[i]
		last := x.uses[quarter]
		switch {
		case s.afterProducts(x, i, "writes"):
			return
		case x.loads[quarter] > 0 || x.stores[quarter] > 0:
			s.find(Race, -1, "writes column %d of tensor memory, which a tcgen05.ld or tcgen05.st in flight uses", i)
			return
		case last.w != nil && last.w != s.w && (last.w.tensor.before < last.at || s.w.tensor.after < last.at):
			s.find(MissingFence, -1, "writes column %d of tensor memory, which warp %d used, without fences between", i, last.w.id)
			return
		}
	}
}

// tensorLoadOp is a tcgen05.ld in flight, or a tcgen05.st, which keeps no registers.
type tensorLoadOp struct {
	regs   []slot
	col, n int
}

func (t *tensorState) hold(regs []slot, col, n, quarter int, m *tensorMem) {
	t.inFlight++
	for _, r := range regs {
		t.busy[r]++
	}
	for i := col; i < col+n; i++ {
		m.columns[i].loads[quarter]++
	}
	t.loads = append(t.loads, tensorLoadOp{regs, col, n})
}

func buildTcgenWaitLd(*asm) exec {
	return func(s *step) {
		t, m := &s.w.tensor, &s.w.cta.tmem
		now := m.tick()
		for _, op := range t.loads {
			t.inFlight--
			for _, r := range op.regs {
				t.busy[r]--
			}
			for i := op.col; i < op.col+op.n; i++ {
				m.columns[i].loads[s.w.id%4]--
				m.columns[i].uses[s.w.id%4] = lastUse{s.w, now}
			}
		}
		t.loads = slices.Delete(t.loads, 0, len(t.loads))
	}
}

func buildTcgenWaitSt(*asm) exec {
	return func(s *step) {
		t, m := &s.w.tensor, &s.w.cta.tmem
		now := m.tick()
		for _, op := range t.stores {
			for i := op.col; i < op.col+op.n; i++ {
				m.columns[i].stores[s.w.id%4]--
				m.columns[i].uses[s.w.id%4] = lastUse{s.w, now}
			}
		}
		t.stores = slices.Delete(t.stores, 0, len(t.stores))
	}
}

func buildTcgenSt(a *asm) exec {
	a.onlyWholeLanes()
	x, regs := a.addr(0), a.srcs(1)
	if a.form.Has("unpack::16b") {
		a.refuse("unpack::16b is not modelled")
	}
	return func(s *step) {
		s.uniform(x.base)
		lane, col, ok := s.quarter(x.of(s.w, bits.TrailingZeros32(s.m)), len(regs))
		if !ok {
			return
		}
		s.checkStore(col, len(regs), lane)
		t := &s.w.cta.tmem
		for i, r := range regs {
			t.columns[col+i].stores[lane/warpSize]++
			for l := range warpSize {
				t.data[lane+l][col+i] = uint32(s.w.r[r][l])
				t.markWritten(lane+l, col+i)
			}
		}
		s.w.tensor.stores = append(s.w.tensor.stores, tensorLoadOp{col: col, n: len(regs)})
	}
}

func buildTcgenBefore(*asm) exec {
	return func(s *step) { s.w.tensor.before = s.w.cta.tmem.tick() }
}

func buildTcgenAfter(*asm) exec {
	return func(s *step) { s.w.tensor.after = s.w.cta.tmem.tick() }
}

func unmodelled(what string) builder {
	return func(a *asm) exec { a.refuse("%s is not modelled", what); return nil }
}

var tcgen05Semantics = map[string]builder{
	"Tcgen05Alloc": buildTcgenAlloc, "Tcgen05Dealloc": buildTcgenDealloc, "Tcgen05RelinquishAllocPermit": buildRelinquish,
	"Tcgen05WaitLd": buildTcgenWaitLd, "Tcgen05WaitSt": buildTcgenWaitSt, "Tcgen05FenceBeforeThreadSync": buildTcgenBefore,
	"Tcgen05FenceAfterThreadSync": buildTcgenAfter, "Tcgen05Commit": buildTcgenCommit, "Tcgen05Mma": buildTcgenMma,
	"Tcgen05MmaTMem": unmodelled("A in tensor memory"), "Tcgen05Cp": unmodelled("tcgen05.cp"), "Tcgen05ShiftDown": unmodelled("tcgen05.shift"),
	"Tcgen05Ld32x32b": buildTcgenLd, "Tcgen05Ld16x64b": buildTcgenLd, "Tcgen05Ld16x128b": buildTcgenLd, "Tcgen05Ld16x256b": buildTcgenLd,
	"Tcgen05Ld16x32bx2": buildTcgenLd, "Tcgen05St32x32b": buildTcgenSt, "Tcgen05St16x64b": buildTcgenSt, "Tcgen05St16x128b": buildTcgenSt,
	"Tcgen05St16x256b": buildTcgenSt, "Tcgen05St16x32bx2": buildTcgenSt,
}
