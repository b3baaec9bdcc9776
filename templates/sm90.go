package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// sm90 is the Hopper skeleton: warpgroup 0 produces and draws noise, the others multiply by wgmma and sample from their accumulators.
type sm90 struct{ *skeleton }

// SM90 builds the kernel of a plan for sm_90.
func SM90(plan *tiling.Plan, c ir.Computation, o Options) (*Kernel, error) {
	c = c.Normalize()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	base, m, shared := newSkeleton(plan, c, o, "wgmma")
	k := &sm90{base}
	k.moreBarriers = k.initNoiseBarriers
	k.prologue(shared)

	f := k.f
	consumer, role := f.Label("consumer"), f.Pred("is_consumer")
	f.SetpU32(ptx.GE, role, k.tid, ptx.Imm(128))
	f.Bra(consumer).If(role)
	if n := plan.Pipeline.ProducerRegisters; n > 0 {
		f.SetmaxnregDec(n)
	}
	draw := f.Label("noise")
	if c.Sampler == ir.Gumbel {
		k.toWarp(noiseWarp, draw)
	}
	f.Comment("Producer: one thread feeds the ring.")
	k.producer()
	if c.Sampler == ir.Gumbel {
		f.Place(draw)
		k.noise(codeLayout{2, codeOffsets(plan.Tile.N)})
	}
	f.Place(consumer)
	k.consumer()
	return k.finishKernel(m)
}

// codeOffsets are the columns that a thread holds of each group, as wgmma deals them out: two of every block of 8.
func codeOffsets(n int) []int {
	if n < 16 {
		return []int{0, 1}
	}
	return []int{0, 1, 8, 9}
}
