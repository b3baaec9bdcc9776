package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// sm90 is the Hopper skeleton: warpgroups of consumers multiply by wgmma and sample from their accumulators; a warp behind
// them produces.
type sm90 struct{ *skeleton }

// SM90 builds the kernel of a plan for sm_90.
func SM90(plan *tiling.Plan, c ir.Computation, o Options) (*Kernel, error) {
	c = c.Normalize()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	base, m, shared := newSkeleton(plan, c, o, "wgmma")
	k := &sm90{base}
	if plan.Tile.PingPong {
		k.moreBarriers = k.initTurns
	}
	consumers := plan.Pipeline.Samplers
	k.prologue(shared, consumers/warpSize)

	f := k.f
	consumer, role := f.Label("consumer"), f.Pred("is_consumer")
	f.SetpU32(ptx.LT, role, k.tid, ptx.Imm(consumers))
	f.Bra(consumer).If(role)
	if n := plan.Pipeline.ProducerRegisters; n > 0 {
		f.SetmaxnregDec(n)
	}
	f.Comment("Producer: one thread feeds the ring.")
	k.producer(consumers / warpSize)
	f.Place(consumer)
	k.consumer()
	return k.finishKernel(m)
}

// sm90Codes is what a warp draws: its 16 rows of each product are one block, and of each 8 columns wgmma deals a thread two.
func sm90Codes(n, products int) codeLayout {
	l := codeLayout{blocks: products, between: productRows / tiling.BlockRows, groups: 1, stride: 16, step: 2, offsets: []int{0, 1}}
	if n >= 16 {
		l.groups, l.offsets = n/16, []int{0, 1, 8, 9}
	}
	return l
}
