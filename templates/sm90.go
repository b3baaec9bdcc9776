package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// sm90 is the Hopper skeleton: warpgroups of consumers multiply by wgmma and sample from their accumulators; of the two warps
// behind them one produces and one draws noise.
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

	f, consumers := k.f, plan.Pipeline.Samplers
	consumer, draw, role := f.Label("consumer"), f.Label("noise"), f.Pred("is_consumer")
	f.SetpU32(ptx.LT, role, k.tid, ptx.Imm(consumers))
	f.Bra(consumer).If(role)
	if n := plan.Pipeline.ProducerRegisters; n > 0 {
		f.SetmaxnregDec(n)
	}
	producerWarp, noiseWarp := consumers/warpSize, consumers/warpSize+1
	if c.Sampler == ir.Gumbel {
		k.toWarp(noiseWarp, draw)
	}
	f.Comment("Producer: one thread feeds the ring.")
	k.producer(producerWarp)
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
