package sim

// tensorState is what a warp has under way in the tensor core.
type tensorState struct {
	// clock counts wgmma.fence; touched is its value when each register was last used by an ordinary instruction.
	clock    uint32
	touched  []uint32
	busy     []int32 // products in flight that own each register
	inFlight int     // products and loads in flight
	open     []*product
	groups   [][]*product // committed, oldest first
	loads    []tensorLoadOp
	stores   []tensorLoadOp
	after    uint64 // clock of tensor memory at the last tcgen05.fence::after_thread_sync
	before   uint64 // and ::before_thread_sync
}

// product is one wgmma.mma_async in flight.
type product struct {
	regs  []slot
	marks []mark
}

// mmaShape is the part of a wgmma that the form fixes.
type mmaShape struct {
	n              int
	acc, regA      []slot
	descA, descB   slot
	scaleD         slot
	negA, negB     bool
	transA, transB bool
	decode         func(uint64) float32
	packed         bool // f16 accumulators
}

func buildWgmma(a *asm) exec {
	sh := mmaShape{n: a.form.Alt(0).N, acc: a.raw(0), scaleD: a.src(a.index("scale-d")), decode: decodeBF16}
	if a.form.Has("f32.f16.f16") || a.form.Has("f16.f16.f16") {
		sh.decode = decodeF16
	}
	sh.packed = a.form.Has("f16.f16.f16")
	if i := a.index("a"); i >= 0 {
		sh.regA = a.srcs(i)
	} else {
		sh.descA = a.src(a.index("a-desc"))
		sh.transA = a.imm(a.index("imm-trans-a")) == 1
	}
	sh.descB = a.src(a.index("b-desc"))
	sh.transB = a.imm(a.index("imm-trans-b")) == 1
	sh.negA, sh.negB = a.imm(a.index("imm-scale-a")) < 0, a.imm(a.index("imm-scale-b")) < 0
	return func(s *step) { s.multiply(&sh) }
}

// multiply does the warp's 16 rows of a product: warp i of a warpgroup holds rows 16i on (PTX ISA, "Register Fragments").
func (s *step) multiply(sh *mmaShape) {
	s.checkWarpgroup()
	p := &product{regs: sh.acc}
	s.checkFenced(sh)
	var ta [16 * 16]float32
	tb := make([]float32, sh.n*16)
	if sh.regA != nil {
		s.fragmentA(sh, &ta)
	} else {
		s.uniform(sh.descA)
		m := s.wgmmaMatrix(s.w.r[sh.descA][0], sh.transA)
		m.decode = sh.decode
		p.marks = s.tile(&m, s.w.id%4*16, 16, ta[:], p.marks, "wgmma")
	}
	s.uniform(sh.descB)
	s.uniform(sh.scaleD)
	m := s.wgmmaMatrix(s.w.r[sh.descB][0], sh.transB)
	m.decode = sh.decode
	p.marks = s.tile(&m, 0, sh.n, tb, p.marks, "wgmma")
	if sh.negA != sh.negB {
		for i := range ta {
			ta[i] = -ta[i]
		}
	}
	s.accumulate(sh, &ta, tb, s.w.r[sh.scaleD][0]&1 == 1)
	t := &s.w.tensor
	t.open = append(t.open, p)
	t.inFlight++
	for _, r := range sh.acc {
		t.busy[r]++
		s.w.valid[r] = allLanes
	}
}

// checkWarpgroup wants a whole warp of a CTA that has whole warpgroups.
func (s *step) checkWarpgroup() {
	if s.w.live != allLanes {
		s.find(Divergence, -1, "lanes %08x take part in a wgmma; want all", s.w.live)
	}
}

// checkFenced wants a wgmma.fence between ordinary uses of the registers and the product (PTX ISA, "wgmma.fence").
func (s *step) checkFenced(sh *mmaShape) {
	t := &s.w.tensor
	if t.clock == 0 {
		s.find(MissingFence, -1, "no wgmma.fence before the first wgmma")
		return
	}
	for _, list := range [2][]slot{sh.acc, sh.regA} {
		for _, r := range list {
			if t.touched[r] == t.clock && t.busy[r] == 0 {
				s.find(MissingFence, -1, "register %s was used since the last wgmma.fence", s.w.cta.cluster.grid.p.names[r])
				return
			}
		}
	}
	if s.w.r[sh.scaleD][0]&1 == 1 {
		for _, r := range sh.acc {
			if s.w.valid[r] != allLanes {
				s.find(Uninitialised, -1, "accumulates onto register %s, which nobody wrote", s.w.cta.cluster.grid.p.names[r])
				return
			}
		}
	}
}

// fragmentA reads A from registers: lane l holds rows l/4 and 8 further, k 2(l%4) and the next, and those 8 further.
func (s *step) fragmentA(sh *mmaShape, ta *[256]float32) {
	for l := range warpSize {
		for i, r := range sh.regA {
			row, k := l/4+8*(i%2), 2*(l%4)+8*(i/2)
			v := s.w.r[r][l]
			ta[row*16+k], ta[row*16+k+1] = sh.decode(v&0xffff), sh.decode(v>>16&0xffff)
		}
	}
}

// accumulate adds the products in ascending k, each sum rounded to float32. Products of 16-bit floats are exact.
func (s *step) accumulate(sh *mmaShape, ta *[256]float32, tb []float32, add bool) {
	for l := range warpSize {
		for i := 0; i < 2*sh.n/4; i++ { // values of the lane
			row, col := l/4+i/2%2*8, i/4*8+2*(l%4)+i%2
			acc := float32(0)
			if add {
				acc = sh.get(s.w, i, l)
			}
			x, y := ta[row*16:row*16+16], tb[col*16:col*16+16]
			for k := range x {
				acc += float32(x[k] * y[k])
			}
			sh.set(s.w, i, l, acc)
		}
	}
}

func (sh *mmaShape) get(w *warp, i, l int) float32 {
	if sh.packed {
		return float32(f16.wide(w.r[sh.acc[i/2]][l] >> (16 * (i % 2)) & 0xffff))
	}
	return f32(w.r[sh.acc[i]][l])
}

func (sh *mmaShape) set(w *warp, i, l int, v float32) {
	if !sh.packed {
		w.r[sh.acc[i]][l] = bits32(v)
		return
	}
	r, shift := &w.r[sh.acc[i/2]][l], 16*(i%2)
	*r = *r&^(0xffff<<shift) | f16.narrow(float64(v), toNearest)<<shift
}

// retire ends products: registers and shared memory are free again.
func (t *tensorState) retire(ps []*product) {
	for _, p := range ps {
		t.inFlight--
		release(p.marks)
		for _, r := range p.regs {
			t.busy[r]--
		}
	}
}

func buildWgmmaCommit(*asm) exec {
	return func(s *step) {
		t := &s.w.tensor
		t.groups = append(t.groups, t.open)
		t.open = nil
	}
}

// buildWgmmaWait ends all groups but the latest n. Products complete at once here; what matters is that nobody may rely on
// it before this.
func buildWgmmaWait(a *asm) exec {
	n := int(a.imm(0))
	return func(s *step) {
		t := &s.w.tensor
		for len(t.groups) > n {
			t.retire(t.groups[0])
			t.groups = t.groups[1:]
		}
		if n == 0 && len(t.open) > 0 {
			s.find(MissingFence, -1, "%d wgmma were never committed to a group", len(t.open))
		}
	}
}

var wgmmaSemantics = map[string]builder{
	"WgmmaMmaAsyncF32BF16": buildWgmma, "WgmmaMmaAsyncF32F16": buildWgmma, "WgmmaMmaAsyncF16F16": buildWgmma,
	"WgmmaMmaAsyncRegF32BF16": buildWgmma, "WgmmaMmaAsyncRegF32F16": buildWgmma, "WgmmaMmaAsyncRegF16F16": buildWgmma,
	"WgmmaFence":       func(*asm) exec { return func(s *step) { s.w.tensor.clock++ } },
	"WgmmaCommitGroup": buildWgmmaCommit, "WgmmaWaitGroup": buildWgmmaWait,
}
