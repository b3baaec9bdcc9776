package sim

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/fsgen/fsgen/internal/isa"
)

const (
	warpSize = 32
	allLanes = 1<<warpSize - 1
)

// lanes holds one register of each lane, as bits, zero-extended.
type lanes [warpSize]uint64

// group is a set of lanes of a warp that stand at the same instruction (PTX ISA, "Independent Thread Scheduling").
type group struct {
	pc    int32
	mask  uint32
	stack []int32 // return addresses
	wait  waiter  // what keeps it from running; nil if nothing does
	// expired is set when everything stands still: a wait with a time limit gives up.
	expired bool
}

// waiter is what a group waits for.
type waiter interface {
	ready(w *warp, g *group) bool
	// describe says for a report what is missing.
	describe(w *warp, g *group) string
}

// warp is 32 threads with their registers.
type warp struct {
	cta   *cta
	id    int // in the CTA
	index int // in the cluster
	time  clock
	meets uint32           // meetings of its lanes
	met   [warpSize]uint32 // the last that each lane was at
	echo  echo
	speed int // see turn
	// asleepUntil is the round before which the warp does nothing.
	asleepUntil int
	live        uint32
	groups      []*group
	r           []lanes
	valid       []uint32 // lanes that hold a value, by register
	local       [warpSize][]byte

	proxyFences uint32 // fence.proxy.async so far
	tensor      tensorState
	copies      copyGroups
	carry       [warpSize]uint64 // CC.CF
	clusterGen  [warpSize]int    // generation of the cluster barrier that the lane has arrived for, plus one
	maxRegs     int              // that setmaxnreg granted; 0 before it was used
	granted     int              // that a finding is measured by
}

func newWarp(c *cta, id, threads int) *warp {
	p := c.cluster.grid.p
	w := &warp{cta: c, id: id, live: uint32(mask(threads)), r: make([]lanes, p.slots), valid: make([]uint32, p.slots)}
	w.index = c.rank*len(c.warps) + id
	w.time = make(clock, len(c.cluster.ctas)*len(c.warps))
	w.time[w.index] = 1
	w.groups = []*group{{mask: w.live}}
	for v, s := range p.consts {
		for l := range warpSize {
			w.r[s][l] = v
		}
		w.valid[s] = allLanes
	}
	for s, row := range p.specials {
		for l := range warpSize {
			w.r[s][l] = w.specialValue(row, l)
		}
		w.valid[s] = allLanes
	}
	if p.locals > 0 {
		for l := range warpSize {
			w.local[l] = make([]byte, p.locals)
		}
	}
	w.granted = math.MaxInt / 2
	if p.shares {
		w.granted = w.registers()
	}
	w.tensor.touched = make([]uint32, p.regs)
	w.tensor.busy = make([]int32, p.regs)
	return w
}

// xyz splits a linear index by a shape.
func xyz(i int, shape [3]int) [3]int {
	return [3]int{i % shape[0], i / shape[0] % shape[1], i / shape[0] / shape[1]}
}

// specialValue is the value of a special register in a lane (PTX ISA, "Special Registers"). Clocks are read elsewhere.
func (w *warp) specialValue(row *isa.Special, lane int) uint64 {
	c := w.cta
	g := c.cluster.grid
	m := g.p.manifest.Launch
	thread := w.id*warpSize + lane
	shape := [3]int{g.ctas, 1, 1}
	clusters := [3]int{g.ctas / len(c.cluster.ctas), 1, 1}
	axes := map[string][3]int{
		"%tid": xyz(thread, m.Block), "%ntid": m.Block, "%ctaid": xyz(c.id, shape), "%nctaid": shape,
		"%clusterid": xyz(c.cluster.id, clusters), "%nclusterid": clusters,
		"%cluster_ctaid": xyz(c.rank, m.Cluster), "%cluster_nctaid": m.Cluster,
	}
	name := row.Text
	if n := len(name); name[n-2] == '.' {
		return uint64(axes[name[:n-2]][name[n-1]-'x'])
	}
	bit := uint64(1) << lane
	return map[string]uint64{
		"%cluster_ctarank": uint64(c.rank), "%cluster_nctarank": uint64(len(c.cluster.ctas)), "%is_explicit_cluster": b2u(len(c.cluster.ctas) > 1),
		"%laneid": uint64(lane), "%warpid": uint64(w.id), "%smid": uint64(c.id), "%nwarpid": uint64(len(c.warps)),
		"%nsmid": uint64(g.ctas), "%lanemask_eq": bit, "%lanemask_lt": bit - 1, "%lanemask_le": bit<<1 - 1,
		"%lanemask_ge": ^(bit - 1) & allLanes, "%lanemask_gt": ^(bit<<1 - 1) & allLanes,
		"%total_smem_size": uint64(len(c.smem.data)), "%dynamic_smem_size": uint64(m.SharedBytes), "%aggr_smem_size": uint64(len(c.smem.data)),
	}[name]
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// step is one instruction of one group under execution.
type step struct {
	w  *warp
	g  *group
	m  uint32 // lanes whose guard holds
	op *op
}

// find reports a finding at the instruction under execution. Lane -1 blames the warp.
func (s *step) find(kind Kind, lane int, format string, args ...any) {
	f := Finding{Kind: kind, Lane: lane, Warp: s.w.id, CTA: s.w.cta.id, Text: fmt.Sprintf(format, args...)}
	f.Kernel = s.w.cta.cluster.grid.p.manifest.Entry
	if s.op != nil {
		f.Line = s.op.line
		if s.op.in != nil {
			f.Instr = instrText(s.op)
		}
	}
	s.w.cta.cluster.found.add(f)
}

// guarded returns the lanes whose guard holds.
func (w *warp) guarded(o *op, m uint32) uint32 {
	if o.guard < 0 {
		return m
	}
	out := uint32(0)
	r := &w.r[o.guard]
	want := uint64(1)
	if o.negate {
		want = 0
	}
	for x := m; x != 0; x &= x - 1 {
		l := bits.TrailingZeros32(x)
		if r[l]&1 == want {
			out |= 1 << l
		}
	}
	return out
}

// written finds lanes that read a register that nobody wrote.
func (s *step) written(r slot, lanes uint32) {
	w := s.w
	if bad := lanes &^ w.valid[r]; bad != 0 {
		s.find(Uninitialised, bits.TrailingZeros32(bad), "reads register %s, which nobody wrote", w.cta.cluster.grid.p.names[r])
		w.valid[r] |= bad
	}
}

// fetch checks the registers of an instruction: values that nobody wrote, and registers that a tensor core still owns.
func (s *step) fetch() {
	w := s.w
	for _, r := range s.op.reads {
		s.written(r, s.m)
		w.tensor.touched[r] = w.tensor.clock
	}
	for _, r := range s.op.writes {
		w.valid[r] |= s.m
		w.tensor.touched[r] = w.tensor.clock
	}
	if w.tensor.inFlight > 0 {
		s.checkBusy()
	}
}

func (s *step) checkBusy() {
	t := &s.w.tensor
	for _, list := range [2][]slot{s.op.reads, s.op.writes} {
		for _, r := range list {
			if t.busy[r] > 0 {
				s.find(Race, -1, "touches register %s while a tensor-core instruction in flight owns it", s.w.cta.cluster.grid.p.names[r])
			}
		}
	}
}

// leave takes lanes out of a group; the group vanishes when none is left.
func (w *warp) leave(g *group, m uint32) {
	g.mask &^= m
	if g.mask == 0 {
		w.groups = slices.DeleteFunc(w.groups, func(x *group) bool { return x == g })
	}
}

// split moves lanes of a group to another place.
func (w *warp) split(g *group, m uint32, pc int32) {
	if m == 0 {
		return
	}
	if m == g.mask {
		g.pc = pc
		return
	}
	g.mask &^= m
	w.groups = append(w.groups, &group{pc: pc, mask: m, stack: slices.Clone(g.stack)})
}

// join merges groups that meet at the same instruction.
func (w *warp) join(g *group) {
	for _, x := range w.groups {
		if x != g && x.pc == g.pc && x.wait == nil && slices.Equal(x.stack, g.stack) {
			g.mask |= x.mask
			x.mask = 0
		}
	}
	w.groups = slices.DeleteFunc(w.groups, func(x *group) bool { return x.mask == 0 })
}
