package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// sm100 is the skeleton of data-centre Blackwell. Warp 0 produces, warp 1 issues the products (tcgen05.mma, one thread)
// into tensor memory, warps 4 and up sample from there. Tensor memory holds two accumulators, so that one tile is sampled
// while the next is multiplied.
type sm100 struct {
	*skeleton
	warp   ptx.B32
	tensor ptx.B32 // address of the allocated tensor memory
}

// Warps by role. Warps 2 and 3 have none.
const (
	producerWarp = 0
	issuerWarp   = 1
	samplerWarp  = 4 // the first that samples: a multiple of 4, since a warp reaches the lanes 32 (warp mod 4) on
)

// SM100 builds the kernel of a plan for sm_100.
func SM100(plan *tiling.Plan, c ir.Computation, o Options) (*Kernel, error) {
	c = c.Normalize()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	base, m, shared := newSkeleton(plan, c, o, "tcgen05")
	k := &sm100{skeleton: base}
	k.moreBarriers = k.initTileBarriers
	k.allocate = k.allocateTensorMemory
	k.afterBarrier = func() {
		k.f.Tcgen05FenceAfterThreadSync()
		k.f.LdSharedB32(k.tensor, k.smem.Off(plan.Storage.Place))
	}
	k.prologue(shared, producerWarp)

	f := k.f
	sample, issue := f.Label("sampler"), f.Label("issuer")
	role := f.Pred("role")
	f.SetpU32(ptx.GE, role, k.warp, ptx.Imm(samplerWarp))
	f.Bra(sample).If(role)
	k.toWarp(issuerWarp, issue)
	f.Comment("Producer: one thread feeds the ring.")
	k.producer(producerWarp)
	f.Place(issue)
	k.issuer()
	f.Place(sample)
	k.sampler()
	k.beforeEnd = k.freeTensorMemory
	return k.finishKernel(m)
}

// initTileBarriers initialises, for each accumulator, the barrier "full" (one commit) and "empty" (one arrival a sampling
// warp).
func (k *sm100) initTileBarriers() {
	for b := range k.plan.Tensor.Buffers {
		k.f.MbarrierInit(k.smem.Off(k.fullTile(b)), ptx.Imm(1))
		k.f.MbarrierInit(k.smem.Off(k.emptyTile(b)), ptx.Imm(k.plan.Pipeline.Samplers/32))
	}
}

func (k *sm100) fullTile(buffer int) int { return k.plan.Storage.Tiles + 8*buffer }
func (k *sm100) emptyTile(buffer int) int {
	return k.plan.Storage.Tiles + 8*(k.plan.Tensor.Buffers+buffer)
}

// allocateTensorMemory has the issuer's warp allocate; the address reaches the others through shared memory.
func (k *sm100) allocateTensorMemory() {
	f := k.f
	k.warp, k.tensor = f.B32("warp"), f.B32("tensor_memory")
	f.ShrU32(k.warp, k.tid, ptx.Imm(5))
	other, skip := f.Pred("not_issuer"), f.Label("allocated")
	f.SetpU32(ptx.NE, other, k.warp, ptx.Imm(issuerWarp))
	f.Bra(skip).If(other)
	f.Tcgen05Alloc(1, k.smem.Off(k.plan.Storage.Place), ptx.Imm(k.plan.Tensor.Alloc))
	f.Tcgen05RelinquishAllocPermit(1)
	f.Place(skip)
	f.Tcgen05FenceBeforeThreadSync()
}

// freeTensorMemory waits for every role and gives the tensor memory back: a CTA must, before it ends.
func (k *sm100) freeTensorMemory() {
	f := k.f
	f.BarrierSync(ptx.Imm(0))
	other, skip := f.Pred("not_issuer"), f.Label("freed")
	f.SetpU32(ptx.NE, other, k.warp, ptx.Imm(issuerWarp))
	f.Bra(skip).If(other)
	f.BarWarpSync(ptx.Imm(0xFFFFFFFF))
	f.Tcgen05Dealloc(1, k.tensor, ptx.Imm(k.plan.Tensor.Alloc))
	f.Place(skip)
}

// bufferAt returns the address register of an accumulator's barrier.
func (k *sm100) bufferAt(buffer ptx.B32) ptx.B32 { return k.barrier(buffer, "tile_slot") }

// nextBuffer moves to the other accumulator; past the last one the phase flips.
func (k *sm100) nextBuffer(r ring) { k.advanceOver(r, k.plan.Tensor.Buffers) }
