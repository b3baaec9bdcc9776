package sim

import "math/bits"

// buildProxyFence orders the warp's generic accesses before those of the async proxy.
func buildProxyFence(*asm) exec { return func(s *step) { s.w.proxyFences++ } }

// buildTensormapAcquire lets the CTA use the tensor map at its address; tensor maps are never rewritten here.
func buildTensormapAcquire(a *asm) exec {
	x := a.addr(0)
	return func(s *step) {
		l := bits.TrailingZeros32(s.m)
		if addr := x.of(s.w, l); s.mapAt(l, addr) != nil {
			s.w.cta.acquire(addr)
		}
	}
}

func (c *cta) acquire(tensorMap uint64) {
	if c.acquired == nil {
		c.acquired = map[uint64]bool{}
	}
	c.acquired[tensorMap] = true
}

// buildFence lets what the rank has stored in the memory of others arrive, if the fence is one of the system's.
func buildFence(a *asm) exec {
	system := a.form.Has("sys")
	return func(s *step) {
		if system {
			s.w.cta.cluster.grid.link.settle()
		}
	}
}

// Memory is sequentially consistent here, but for what goes to other ranks, so that the other fences have nothing to do.
var fenceSemantics = map[string]builder{
	"Membar": nothing, "Fence": buildFence, "FenceProxyAlias": nothing,
	"FenceProxyAsync": buildProxyFence, "FenceMbarrierInitReleaseCluster": buildProxyFence,
	"FenceProxyTensormapGenericRelease": nothing, "FenceProxyTensormapGenericAcquire": buildTensormapAcquire,
}

// buildSetmaxnreg keeps the account of the CTA's registers: what one warpgroup takes another must have given (PTX ISA,
// "setmaxnreg"). A warp waits until there are enough.
func buildSetmaxnreg(a *asm) exec {
	n, inc := int(a.imm(0)), a.form.Has("inc")
	return func(s *step) {
		w := s.w
		have := w.registers()
		switch {
		case inc && n < have:
			s.find(Registers, -1, "setmaxnreg.inc to %d, below the %d that the warp has", n, have)
		case !inc && n > have:
			s.find(Registers, -1, "setmaxnreg.dec to %d, above the %d that the warp has", n, have)
		}
		x := &registerWait{w.cta, n}
		if !x.ready(w, s.g) {
			s.g.pc--
			s.g.wait = x
			return
		}
		w.maxRegs, w.granted = n, n
		w.cta.cluster.progress++
	}
}

// registers is what a thread of the warp has.
func (w *warp) registers() int {
	if w.maxRegs > 0 {
		return w.maxRegs
	}
	return w.cta.cluster.grid.p.launchRegisters()
}

// launchRegisters is what threads begin with: .maxnreg, else an even share of the register file.
func (p *Program) launchRegisters() int {
	if p.entry.MaxRegs > 0 {
		return p.entry.MaxRegs
	}
	share := p.arch.Registers / volume(p.manifest.Launch.Block) / p.arch.RegisterUnit * p.arch.RegisterUnit
	return min(share, p.arch.MaxRegistersPerThread)
}

// registerWait waits for registers that other warps give back.
type registerWait struct {
	c *cta
	n int
}

func (x *registerWait) ready(w *warp, _ *group) bool {
	total := 0
	for _, y := range x.c.warps {
		n := y.registers()
		if y == w {
			n = x.n
		}
		total += n * warpSize
	}
	return total <= w.cta.cluster.grid.p.launchRegisters()*warpSize*len(x.c.warps)
}

func (x *registerWait) describe(*warp, *group) string {
	return "registers that other warps would have to give back"
}

var miscSemantics = map[string]builder{
	"Nanosleep":  func(a *asm) exec { a.src(0); return func(*step) {} },
	"Setmaxnreg": buildSetmaxnreg, "GriddepcontrolWait": nothing, "GriddepcontrolLaunchDependents": nothing,
}
