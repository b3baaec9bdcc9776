package templates

import "github.com/fsgen/fsgen/ptx"

// Where warpgroups take turns, each has whole tiles: while one samples, the other multiplies, so that the tensor core does
// not wait for an epilogue. They use the ring of stages one after the other, in the order of the tiles.
//
// A turn is a barrier that the other warpgroup's warps arrive at once they have started their tile's last products. Only then
// do the stages of the next tile wait for the phases that the ring is in.

// initTurns initialises the barriers of the turns: one arrival a warp.
func (k *sm90) initTurns() {
	for i := range k.plan.Pipeline.Consumers {
		k.f.MbarrierInit(k.smem.Off(k.plan.Storage.Turns+8*i), ptx.Imm(k.plan.Pipeline.Team/warpSize))
	}
}

// waitTurn waits until the other warpgroup has started all products of the tile before. The first warpgroup's first turn is open
// from the start. The phase is that of the warpgroup's tiles: half the items that there have been, its own among them.
func (c *consumer) waitTurn() {
	if !c.t.PingPong {
		return
	}
	f, bar, phase := c.f, c.barrier(c.group, "turn_barrier"), c.f.B32("turn_phase")
	f.ShrU32(phase, c.turn, ptx.Imm(1))
	f.NotB32(phase, phase)
	f.AndB32(phase, phase, ptx.Imm(1))
	c.wait(bar.Off(c.plan.Storage.Turns), phase, "wait_turn")
}

// endTurn lets the other warpgroup have the tensor core.
func (c *consumer) endTurn() {
	if !c.t.PingPong {
		return
	}
	f, other, leader := c.f, c.f.B32("other_group"), c.f.Pred("leader")
	f.XorB32(other, c.group, ptx.Imm(1))
	f.SetpU32(ptx.EQ, leader, c.lane, ptx.Imm(0))
	f.MbarrierArrive(c.barrier(other, "turn_barrier").Off(c.plan.Storage.Turns)).If(leader)
}

// passItem moves past the stages of the other warpgroup's tile.
func (c *consumer) passItem() {
	f, turns, back := c.f, c.f.B32("ring_turns"), c.f.B32()
	f.AddU32(c.ring.stage, c.ring.stage, c.ksteps)
	divideBy(f, turns, c.ring.stage, c.t.Stages)
	f.MulLoU32(back, turns, ptx.Imm(c.t.Stages))
	f.SubU32(c.ring.stage, c.ring.stage, back)
	f.AndB32(turns, turns, ptx.Imm(1))
	f.XorB32(c.ring.phase, c.ring.phase, turns)
}
