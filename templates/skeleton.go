package templates

import (
	"math/bits"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// skeleton is what the kernels of all architectures share: a persistent, warp-specialised grid. One thread produces (it
// feeds a ring of stages by TMA), others multiply, others sample. Work goes out in items: one tile of M weights rows for
// each CTA of the cluster, times one tile of N batch rows.
//
// Every row's best is one 64-bit key: the score's bits in an order-preserving form above the complement of the token id,
// so that the largest key is the largest score and, among equals, the lowest id. Keys meet in shared memory, then in
// global memory; the last CTA to finish turns them into tokens and leaves the workspace zero for the next launch.
type skeleton struct {
	f      *ptx.Func
	t      tiling.Tile
	plan   *tiling.Plan
	c      ir.Computation // behind the edits
	whole  ir.Computation // with them
	behind int            // bytes of partial sums of a row and CTA that lie before those at hand (second_sum.go)
	score  *ir.Graph
	base   *ir.Graph
	logit  *ir.Graph
	bound  *ir.Graph
	floor  *ir.Graph
	// limits and blockFloor are there where logits are compared with limits: of logits, and of a block from one number (sm90_floors.go).
	limits, blockFloor *ir.Graph
	grouped            groupedGraphs
	sum                sumGraphs
	likeliest          topGraphs
	sig                *params
	options            Options
	shared             ptx.SharedVar

	smem  ptx.B32 // base of dynamic shared memory
	tid   ptx.B32
	lane  ptx.B32
	rank  ptx.B32 // of the CTA in its cluster; not set for clusters of one
	vocab ptx.B32
	batch ptx.B32
	dealt ptx.B32 // rows of the weights that are dealt out: one for each id

	ksteps ptx.B32 // stages of one item
	deal           // samplers recall theirs
	first  ptx.B32 // this cluster's first item
	stride ptx.B32 // clusters in the grid

	done *ptx.Label
	gone *ptx.Label // past the end of what a kernel that has begun must do

	producing *producerState // the producer, once it is there

	// What an architecture adds: barriers of its own, what every thread does before and after the first barrier, and at the end.
	moreBarriers, allocate, afterBarrier, beforeEnd func()
}

func run(f func()) {
	if f != nil {
		f()
	}
}

// newSkeleton starts a module with the kernel of a plan.
func newSkeleton(plan *tiling.Plan, c ir.Computation, o Options, multiply string) (k *skeleton, m *ptx.Module, shared ptx.SharedVar) {
	m = ptx.NewModule(plan.Arch.Target)
	m.Comment("Fused LM head: logits by " + multiply + ", " + c.Sampler.String() + " sampling in the epilogue.")
	m.Comment("Tile " + plan.Tile.String() + ", transform " + c.Chain.String() + ".")
	shared = m.ExternShared("fsgen_shared", 1024)
	f := m.Entry(EntryName(plan.Arch.Name, plan.Tile, c, o))
	f.Reqntid(plan.Pipeline.Threads, 1, 1)
	// One CTA fills a multiprocessor's shared memory. Without a bound ptxas saves registers for a second one, and spills.
	// And ptxas honours setmaxnreg only when it knows the count at entry.
	f.MaxRegs = plan.Pipeline.LaunchRegisters
	if plan.Tile.Cluster > 1 {
		f.Reqnctapercluster(plan.Tile.Cluster, 1, 1)
	}
	whole := c
	c.Chain = c.Chain.Unedited()
	k = &skeleton{f: f, t: plan.Tile, plan: plan, c: c, whole: whole, options: o, shared: shared,
		score: ir.Score(c), base: ir.Base(c), logit: ir.Logit(c), bound: ir.Bound(c), floor: ir.Floor(c), sig: newParams(f, plan, whole, o), done: f.Label("done")}
	if o.Further {
		k.gone = f.Label("gone")
	}
	if plan.Limited() {
		k.limits, k.blockFloor = ir.Limit(c), k.floor
		if c.Sampler == ir.Grouped {
			k.blockFloor = ir.MeanFloor(c)
		}
	}
	if c.Sampler == ir.Grouped {
		k.grouped = groupedGraphs{term: ir.BlockTerm(c), block: ir.BlockScore(c), race: ir.Race(c)}
	}
	if c.AddsUp() {
		k.sum = newSumGraphs(c, k.addedUp())
		if whole.SumsDisallowed() {
			k.sum = k.sum.numeric(k.addedUp())
		}
	}
	if k.tops() || c.Rank || whole.FindsPeaks() {
		k.likeliest = newTopGraphs(c)
	}
	return k, m, shared
}

// finishKernel closes the kernel: every role ends at done.
func (k *skeleton) finishKernel(m *ptx.Module) (*Kernel, error) {
	k.f.Place(k.done)
	run(k.beforeEnd)
	if k.t.Cluster > 1 {
		k.f.Comment("A CTA must outlive the arrivals that its peers send it.")
		k.f.BarrierClusterArrive()
		k.f.BarrierClusterWait()
	}
	if k.options.Further {
		k.f.Place(k.gone)
	}
	k.f.Ret()
	if err := m.Err(); err != nil {
		return nil, err
	}
	kernel := &Kernel{Module: m, Entry: k.f, Params: k.sig.finish()}
	if k.collecting() {
		kernel.Resolve = newResolve(m, k.shared, k.whole, k.options, k.f.Name+"_resolve")
		if err := m.Err(); err != nil {
			return nil, err
		}
	}
	if k.tops() {
		kernel.Top = newTop(m, k.shared, k.whole, k.options, k.f.Name+"_top")
		if err := m.Err(); err != nil {
			return nil, err
		}
	}
	if gathers(k.c) {
		kernel.Gather = newGather(m, k, k.f.Name+"_gather")
		if err := m.Err(); err != nil {
			return nil, err
		}
	}
	if k.c.Shard == ir.ShardRecords {
		kernel.Join = newJoin(m, k, k.f.Name+"_join")
		if err := m.Err(); err != nil {
			return nil, err
		}
	}
	if k.c.Listed && !k.options.Further {
		kernel.Listed = newListed(m, k.whole, k.options, k.f.Name+"_listed")
		if err := m.Err(); err != nil {
			return nil, err
		}
	}
	if gathersReports(k.c) {
		k.gatherReports(m, kernel)
		if err := m.Err(); err != nil {
			return nil, err
		}
	}
	return kernel, nil
}

// gatherReports adds the stages that exchange what others report.
func (k *skeleton) gatherReports(m *ptx.Module, kernel *Kernel) {
	if kernel.Top != nil {
		kernel.TopGather = newReportGather(m, k, reportTops, k.f.Name+"_top_gather")
		kernel.TopMerge = newTopMerge(m, k.shared, k.whole, k.options, k.f.Name+"_top_merge")
	}
	if kernel.Listed != nil {
		kernel.ListedGather = newReportGather(m, k, reportListed, k.f.Name+"_listed_gather")
	}
	if k.options.Ranks {
		kernel.RanksGather = newReportGather(m, k, reportRanks, k.f.Name+"_ranks_gather")
	}
}

// packed reports whether the weights are.
func (k *skeleton) packed() bool { return k.options.Layout() == manifest.Packed }

// boxed reports whether weights come by boxes of a tensor map, and not as a run of bytes: row-major ones, and packed ones that a
// cluster has in common. Plain copies to all of a cluster are slower, the more so the smaller they are (docs/NOTES.md, section 18).
func (k *skeleton) boxed() bool { return !k.packed() || k.t.Split }

// prologue reads what every role needs and initialises the barriers, which the producer's thread does: where no CTA shares weights
// with another, it goes on to copy before the others know of them. Roles wait for the grid before this one themselves
// (griddepcontrol.wait), before they read what it may write.
func (k *skeleton) prologue(shared ptx.SharedVar, producer int) {
	f := k.f
	k.smem, k.tid, k.lane = f.B32("smem"), f.B32("thread"), f.B32("lane")
	f.MovVarB32(k.smem, shared)
	f.MovB32(k.tid, ptx.TidX)
	f.AndB32(k.lane, k.tid, ptx.Imm(31))
	if k.t.Cluster > 1 {
		k.rank = f.B32("rank")
		f.MovB32(k.rank, ptx.ClusterCtarank)
	}
	if k.options.Further {
		k.leaveClosed()
	}
	f.Comment("The next grid may begin: it waits for this one before it reads what this one writes.")
	f.GriddepcontrolLaunchDependents()
	k.initBarriers(producer)
	run(k.allocate)
	k.sizes()
	k.startProducer(producer)
	if k.t.Cluster > 1 {
		f.BarrierClusterArrive()
		f.BarrierClusterWait()
	} else {
		f.BarSync(ptx.Imm(0))
	}
	run(k.afterBarrier)
}

func (k *skeleton) initBarriers(producer int) {
	f := k.f
	skip := f.Label("barriers_done")
	k.unlessProducer(producer, skip)
	k.prefetchMaps()
	for s := range k.t.Stages {
		f.MbarrierInit(k.smem.Off(k.plan.Storage.Full+8*s), ptx.Imm(1))
		f.MbarrierInit(k.smem.Off(k.plan.Storage.Empty+8*s), ptx.Imm(k.plan.Pipeline.EmptyArrivals))
	}
	run(k.moreBarriers)
	f.FenceMbarrierInitReleaseCluster()
	f.Place(skip)
}

// sizes computes the bounds of the work from the problem's shape.
func (k *skeleton) sizes() {
	f := k.f
	k.vocab = loadU32(f, k.sig.vocab, "vocab")
	k.batch = loadU32(f, k.sig.batch, "batch")
	k.dealt = k.vocab
	if k.sharded() {
		k.dealShard()
	}
	width := loadU32(f, k.sig.width, "hidden_size")
	k.ksteps = k.ceilDiv(width, k.t.K, "ksteps")
	k.first, k.stride = k.clusters()
	columns := k.ceilDiv(k.batch, k.t.Width(), "columns")
	k.share(columns)
	k.work = f.B32("work")
	f.MulLoU32(k.work, columns, k.groups)
}

// clusters returns the number of the CTA's cluster, and of clusters in the grid.
func (k *skeleton) clusters() (first, stride ptx.B32) {
	f := k.f
	first, stride = f.B32("first"), f.B32("stride")
	f.MovB32(first, ptx.CtaidX)
	f.MovB32(stride, ptx.NctaidX)
	if shift := bits.TrailingZeros(uint(k.t.Cluster)); shift > 0 {
		f.ShrU32(first, first, ptx.Imm(shift))
		f.ShrU32(stride, stride, ptx.Imm(shift))
	}
	return first, stride
}

func (k *skeleton) ceilDiv(x ptx.B32, by int, name string) ptx.B32 {
	d := k.f.B32(name)
	k.f.AddU32(d, x, ptx.Imm(by-1))
	divideBy(k.f, d, d, by)
	return d
}

// ring is a role's place in the ring of stages.
type ring struct {
	stage ptx.B32
	phase ptx.B32
}

func (k *skeleton) newRing(phase int) ring {
	r := ring{k.f.B32("stage"), k.f.B32("phase")}
	k.f.MovB32(r.stage, ptx.Imm(0))
	k.f.MovB32(r.phase, ptx.Imm(phase))
	return r
}

// advance moves to the next stage; past the last one the phase flips.
func (k *skeleton) advance(r ring) { k.advanceOver(r, k.t.Stages) }

func (k *skeleton) advanceOver(r ring, stages int) {
	f := k.f
	wrap := f.Pred("wrap")
	f.AddU32(r.stage, r.stage, ptx.Imm(1))
	f.SetpU32(ptx.EQ, wrap, r.stage, ptx.Imm(stages))
	f.MovB32(r.stage, ptx.Imm(0)).If(wrap)
	f.XorB32(r.phase, r.phase, ptx.Imm(1)).If(wrap)
}

// barrier returns the address register of a stage's barrier in one of the two arrays.
func (k *skeleton) barrier(stage ptx.B32, name string) ptx.B32 {
	d := k.f.B32(name)
	k.f.MadLoU32(d, stage, ptx.Imm(8), k.smem)
	return d
}

// wait spins until the phase of a barrier has completed.
func (k *skeleton) wait(bar ptx.SharedAddr, phase ptx.B32, name string) {
	again, ready := k.f.Here(name), k.f.Pred("ready")
	k.f.MbarrierTryWaitParity(ready, bar, phase)
	k.f.Bra(again).IfNot(ready)
}

// toWarp branches where the thread is of one warp.
func (k *skeleton) toWarp(warp int, role *ptx.Label) {
	number, is := k.f.B32("warp"), k.f.Pred("role")
	k.f.ShrU32(number, k.tid, ptx.Imm(5))
	k.f.SetpU32(ptx.EQ, is, number, ptx.Imm(warp))
	k.f.Bra(role).If(is)
}
