package templates

import (
	"github.com/fsgen/fsgen/ptx"
)

// consumer is the thread of a consumer warpgroup: it multiplies and samples.
type consumer struct {
	*samplers
	group   ptx.B32 // warpgroup among the consumers
	warp    ptx.B32 // among the consumers
	colInN  ptx.B32 // the thread's first column in a block of 8
	acc     []ptx.F32
	maskBit [2]ptx.B32 // the thread's bits in its warp's mask word
	ring    ring
	layout  codeLayout
}

// consumer emits the warpgroups that multiply and sample.
func (k *sm90) consumer() {
	f := k.f
	f.Comment("Consumers: multiply, transform, sample.")
	if k.plan.Pipeline.ProducerRegisters > 0 {
		f.SetmaxnregInc(k.plan.Pipeline.ConsumerRegisters)
	}
	c := &consumer{samplers: &samplers{skeleton: k.skeleton, blocks: sm90Blocks, sums: sums{lanes: sm90SumLanes}}, acc: f.NewF32s("acc", k.plan.Pipeline.Accumulators)}
	c.coordinates()
	c.layout = sm90Codes(k.t.N)
	c.begin()
	c.beginSums()
	c.ring = k.newRing(0)

	c.eachItem("consume_item", func(row ptx.B32) {
		tile := c.newTile(row)
		shared := c.publishBests()
		c.multiply(func() {
			c.fetchBests(shared)
			c.drawTile(row)
		})
		c.adoptBests(shared)
		c.epilogue(tile)
	})
}

// drawTile draws the noise of the warp's 16 rows of the tile.
func (c *consumer) drawTile(row ptx.B32) {
	block := c.f.B32("warp_block")
	c.f.ShrU32(block, row, ptx.Imm(4))
	c.f.AddU32(block, block, c.warp)
	c.drawCodes(c.layout, block, imm(c.f, 0))
}

// coordinates places the thread in the tile: lane l of warp w of a warpgroup holds accumulator rows 16w + l/4 and 8
// further, columns 2(l%4) and the next of every block of 8 (PTX ISA, "Register Fragments for wgmma", figure of D).
func (c *consumer) coordinates() {
	f := c.f
	c.thread, c.group, c.warp = c.tid, f.B32("warpgroup"), f.B32("warp")
	f.ShrU32(c.group, c.thread, ptx.Imm(7))
	f.ShrU32(c.warp, c.thread, ptx.Imm(5))
	c.rowInTile, c.colInN = f.B32("row_in_tile"), f.B32("column_in_block")
	f.ShrU32(c.rowInTile, c.lane, ptx.Imm(2))
	f.MadLoU32(c.rowInTile, c.warp, ptx.Imm(16), c.rowInTile)
	f.AndB32(c.colInN, c.lane, ptx.Imm(3))
	f.ShlB32(c.colInN, c.colInN, ptx.Imm(1))
	if c.c.Chain.Mask {
		one := f.B32("one")
		f.MovB32(one, ptx.Imm(1))
		c.maskBit = [2]ptx.B32{f.B32("bit_low"), f.B32("bit_high")}
		shift := f.B32()
		f.AndB32(shift, c.rowInTile, ptx.Imm(31))
		f.ShlB32(c.maskBit[0], one, shift)
		f.ShlB32(c.maskBit[1], c.maskBit[0], ptx.Imm(8))
	}
}

// multiply accumulates one tile over all stages. While the tensor core works on a stage, the one before is given back;
// while it works on the last, meanwhile is emitted.
func (c *consumer) multiply(meanwhile func()) {
	f, s := c.f, c.plan.Storage
	f.Comment("Multiply: all k steps of one tile.")
	step, prev := f.B32("step"), f.B32("previous_stage")
	f.MovB32(step, ptx.Imm(0))
	f.MovB32(prev, ptx.Imm(0))
	accumulate, head := f.Pred("accumulate"), f.Here("multiply_stage")
	bar := c.barrier(c.ring.stage, "slot")
	c.wait(bar.Off(s.Full), c.ring.phase, "wait_full")
	f.SetpU32(ptx.NE, accumulate, step, ptx.Imm(0))
	f.WgmmaFence()
	c.stageProducts(accumulate)
	f.WgmmaCommitGroup()

	first := f.Label("first_stage")
	f.Bra(first).IfNot(accumulate)
	f.WgmmaWaitGroup(1)
	c.release(prev)
	f.Place(first)
	f.MovB32(prev, c.ring.stage)
	c.advance(c.ring)
	f.AddU32(step, step, ptx.Imm(1))
	more := f.Pred("more")
	f.SetpU32(ptx.LT, more, step, c.ksteps)
	f.Bra(head).If(more)
	meanwhile()
	f.WgmmaWaitGroup(0)
	c.release(prev)
}

// Shared-memory matrix descriptor of wgmma for K-major tiles with the 128-byte swizzle (PTX ISA, "Matrix Descriptor
// Format"): address >> 4 in bits 0-13, leading offset 1 (unused with this swizzle) in 16-29, 1024 bytes from one group
// of 8 rows to the next in 32-45, swizzle mode 1 in 62-63.
const (
	descriptorHigh = 1<<30 | 1024>>4
	descriptorLow  = 1 << 16
	// kAdvance is 16 elements of K in units of 16 bytes.
	kAdvance = 16 * 2 / 16
)

// stageProducts issues the four products of k = 16 of a stage.
func (c *consumer) stageProducts(accumulate ptx.Pred) {
	f, s := c.f, c.plan.Storage
	base, rows := f.B32("stage_base"), f.B32("stage_rows")
	f.MadLoU32(base, c.ring.stage, ptx.Imm(s.Stage), c.smem)
	f.MadLoU32(rows, c.group, ptx.Imm(64*128), base)
	f.AddU32(base, base, ptx.Imm(s.WeightStage))
	a, b := descriptorOf(f, rows, descriptorHigh, "weights_desc"), descriptorOf(f, base, descriptorHigh, "hidden_desc")
	yes := f.Pred("yes")
	f.SetpU32(ptx.EQ, yes, c.lane, c.lane)
	for i := range c.t.K / 16 {
		scaleD := yes
		if i == 0 {
			scaleD = accumulate
		} else {
			a, b = nextDescriptor(f, a), nextDescriptor(f, b)
		}
		f.WgmmaMmaAsyncF32BF16(c.t.N, c.acc, a, b, scaleD, 1, 1, 0, 0)
	}
}

// descriptorOf puts the low word of a shared-memory matrix descriptor (address and leading offset) under a high word.
func descriptorOf(f *ptx.Func, addr ptx.B32, highWord int64, name string) ptx.B64 {
	low, d := f.B32(), f.B64(name)
	f.ShrU32(low, addr, ptx.Imm(4))
	f.OrB32(low, low, ptx.Imm(descriptorLow))
	high := f.B32()
	f.MovB32(high, ptx.Imm(highWord))
	f.MovPackB64(d, low, high)
	return d
}

// nextDescriptor moves a descriptor 16 columns on.
func nextDescriptor(f *ptx.Func, d ptx.B64) ptx.B64 {
	n := f.B64()
	f.AddU64(n, d, ptx.Imm(kAdvance))
	return n
}

// release gives a stage back: one arrival for each warp, since the four warps of a warpgroup finish apart. The remote
// arrival stays without .release.cluster: consumers only read the stage, and the fence that it would cost doubles the
// time of a k step (measured on an H200).
func (c *consumer) release(stage ptx.B32) {
	f := c.f
	bar := c.barrier(stage, "released")
	leader := f.Pred("leader")
	if c.t.Cluster == 1 {
		f.SetpU32(ptx.EQ, leader, c.lane, ptx.Imm(0))
		f.MbarrierArrive(bar.Off(c.plan.Storage.Empty)).If(leader)
		return
	}
	f.SetpU32(ptx.LT, leader, c.lane, ptx.Imm(c.t.Cluster))
	remote := f.B32("remote")
	f.MapaU32(remote, bar, c.lane)
	f.MbarrierArriveSharedCluster(remote.Off(c.plan.Storage.Empty)).If(leader)
}
