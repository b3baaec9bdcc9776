package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// sm90 is the Hopper skeleton: warpgroup 0 produces, the others multiply by wgmma and sample from their accumulators.
type sm90 struct{ *skeleton }

// SM90 builds the kernel of a plan for sm_90.
func SM90(plan *tiling.Plan, c ir.Computation, o Options) (*Kernel, error) {
	c = c.Normalize()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	base, m, shared := newSkeleton(plan, c, o, "wgmma")
	k := &sm90{base}
	k.prologue(shared)

	consumer, isConsumer := k.f.Label("consumer"), k.f.Pred("is_consumer")
	k.f.SetpU32(ptx.GE, isConsumer, k.tid, ptx.Imm(128))
	k.f.Bra(consumer).If(isConsumer)
	k.f.Comment("Producer: one thread feeds the ring.")
	if n := plan.Pipeline.ProducerRegisters; n > 0 {
		k.f.SetmaxnregDec(n)
	}
	k.producer()
	k.f.Place(consumer)
	k.consumer()
	return k.finishKernel(m)
}
