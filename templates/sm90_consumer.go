package templates

import (
	"github.com/fsgen/fsgen/ptx"
)

// consumer is the thread of a consumer warpgroup: it multiplies and samples.
type consumer struct {
	*samplers
	warp    ptx.B32 // among those that sample a tile together
	colInN  ptx.B32 // the thread's first column in a block of 8
	acc     []ptx.F32
	maskBit [2]ptx.B32 // the thread's bits in its warp's mask word
	ring    ring
	layout  codeLayout
	// ownPeaks are the largest logits so far in each of the thread's columns, where it keeps them (peaks.go).
	ownPeaks []ptx.F32
}

// productRows is the rows of one product: of a warpgroup, which has one of a tile, or all where warpgroups take turns.
const productRows = 64

// products is the products of 64 rows that a warpgroup has of a tile.
func (c *consumer) products() int {
	if c.t.PingPong {
		return c.t.M / productRows
	}
	return 1
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
	c.layout = sm90Codes(k.t.N, c.products())
	c.begin()
	c.beginSums()
	c.beginPeaks()
	c.ring = k.newRing(0)
	c.clearAccumulators()

	c.eachItem("consume_item", func(s span) {
		tiles := c.newTiles(s)
		c.locate(s)
		shared, tops := c.publishBests(), c.newTops()
		fetch := func() {
			c.fetchBests(shared)
			c.fetchTops(tops)
		}
		c.prepareAhead(s.row, fetch)
		c.multiply(s.rows, func() { c.prepareBehind(s.row, fetch) })
		c.adoptBests(shared)
		c.adoptTops(tops)
		if c.editing() {
			c.edit(c.logits(s, tiles), func() { c.sumUnedited(tiles) })
		}
		c.epilogue(tiles)
	}, c.passItem)
}

// clearAccumulators gives a value to those that a warpgroup may sample from before it has had a product for them: where its
// first tile is low. What they hold does not count, but a register that nobody has written may not be read.
func (c *consumer) clearAccumulators() {
	always := 0
	if c.t.PingPong {
		always = c.t.N / 2 // every tile has rows of the first product
	}
	for _, acc := range c.acc[always:] {
		c.f.MovF32(acc, ptx.F32Imm(0))
	}
}

// drawTile draws the noise of the warp's 16 rows of the tile.
func (c *consumer) drawTile(row ptx.B32) {
	c.drawCodes(c.layout, c.warpBlock(row), imm(c.f, 0))
}

// prepareAhead does for a warpgroup's last tile of some rows, ahead of its turn, what prepareBehind does for all other tiles behind the
// products, when the other warpgroup has the tensor core: it draws the tile's noise. Nothing hides behind the products of a last tile, and
// ahead of them there is time while the other warpgroup has its turn; ahead of those of other tiles it would delay them. Where rows
// have lists the others' bests are fetched with it, older than they could be: that costs rows without lists more than it gains
// (docs/NOTES.md, section 22).
func (c *consumer) prepareAhead(row ptx.B32, fetch func()) {
	if !c.drawsAhead() {
		return
	}
	c.where(c.final, "draws_behind", func() {
		if c.collecting() {
			fetch()
		}
		c.drawTile(row)
	})
}

func (c *consumer) prepareBehind(row ptx.B32, fetch func()) {
	prepare := func() {
		c.serveRows()
		fetch()
		c.drawTile(row)
	}
	switch {
	case !c.drawsAhead():
		prepare()
	case c.collecting():
		c.unlessFinal("prepared_ahead", prepare)
	default:
		c.serveRows()
		fetch()
		c.unlessFinal("drawn_ahead", func() { c.drawTile(row) })
	}
}

// unlessFinal runs body but for the last tile of some rows.
func (c *consumer) unlessFinal(otherwise string, body func()) {
	early := c.f.Pred("early")
	c.f.NotPred(early, c.final)
	c.where(early, otherwise, body)
}

// drawsAhead reports whether there is noise, and a turn ahead of which to draw it.
func (c *consumer) drawsAhead() bool { return c.t.PingPong && c.c.Sampler.Random() }

// warpBlock is the number of the block that the warp's first 16 rows are.
func (c *consumer) warpBlock(row ptx.B32) ptx.B32 {
	block := c.f.B32("warp_block")
	c.f.ShrU32(block, row, ptx.Imm(4))
	c.f.AddU32(block, block, c.warp)
	return block
}

// coordinates places the thread in the tile: lane l of warp w of a warpgroup holds accumulator rows 16w + l/4 and 8
// further, columns 2(l%4) and the next of every block of 8 (PTX ISA, "Register Fragments for wgmma", figure of D).
func (c *consumer) coordinates() {
	f := c.f
	c.thread, c.group, c.warp = c.tid, f.B32("warpgroup"), f.B32("warp")
	f.ShrU32(c.group, c.thread, ptx.Imm(7))
	f.ShrU32(c.warp, c.thread, ptx.Imm(5))
	if c.t.PingPong {
		f.AndB32(c.warp, c.warp, ptx.Imm(3))
	}
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

// multiply accumulates one tile over all stages, without the products past its rows. While the tensor core is at the last
// stage, meanwhile is emitted. Where warpgroups take turns it is at the other's stages then, for which the ring wants the last one back
// first: held for as long as noise takes to draw, it costs 3% of a launch of 256 rows (docs/NOTES.md).
func (c *consumer) multiply(rows ptx.B32, meanwhile func()) {
	f := c.f
	f.Comment("Multiply: all k steps of one tile.")
	c.waitTurn()
	prev, done := f.B32("previous_stage"), f.Label("multiplied")
	last := 0 // a warpgroup with one product may have none; of those with all of a tile, each has some
	if c.t.PingPong {
		last = 1
	}
	for products := c.products(); products >= last; products-- {
		if products == last {
			c.multiplyStages(products, prev)
			break
		}
		less, fewer := f.Label("fewer_products"), f.Pred("fewer")
		f.SetpU32(ptx.LE, fewer, rows, c.rowsBelow(products))
		f.Bra(less).If(fewer)
		c.multiplyStages(products, prev)
		f.Bra(done)
		f.Place(less)
	}
	f.Place(done)
	c.endTurn()
	if !c.t.PingPong {
		meanwhile()
	}
	f.WgmmaWaitGroup(0)
	c.release(prev)
	if c.t.PingPong {
		meanwhile()
	}
}

// rowsBelow is the tile's rows ahead of the last of a number of the warpgroup's products.
func (c *consumer) rowsBelow(products int) ptx.Src32 {
	if c.t.PingPong {
		return ptx.Imm((products - 1) * productRows)
	}
	below := c.f.B32("rows_below")
	c.f.MulLoU32(below, c.group, ptx.Imm(productRows))
	return below
}

// multiplyStages issues a number of products for all stages. While the tensor core works on a stage, the one before is given
// back; prev is the last one.
func (c *consumer) multiplyStages(products int, prev ptx.B32) {
	f := c.f
	step := f.B32("step")
	f.MovB32(step, ptx.Imm(0))
	f.MovB32(prev, ptx.Imm(0))
	accumulate, head := f.Pred("accumulate"), f.Here("multiply_stage")
	bar := c.barrier(c.ring.stage, "slot")
	c.wait(bar.Off(c.plan.Storage.Full), c.ring.phase, "wait_full")
	f.SetpU32(ptx.NE, accumulate, step, ptx.Imm(0))
	if products > 0 {
		f.WgmmaFence()
		c.stageProducts(products, accumulate)
		f.WgmmaCommitGroup()
	}
	first := f.Label("first_stage")
	f.Bra(first).IfNot(accumulate)
	if products > 0 {
		f.WgmmaWaitGroup(1)
	}
	c.release(prev)
	f.Place(first)
	f.MovB32(prev, c.ring.stage)
	c.advance(c.ring)
	f.AddU32(step, step, ptx.Imm(1))
	more := f.Pred("more")
	f.SetpU32(ptx.LT, more, step, c.ksteps)
	f.Bra(head).If(more)
}

// Shared-memory matrix descriptor of wgmma for K-major tiles with the 128-byte swizzle (PTX ISA, "Matrix Descriptor
// Format"): address >> 4 in bits 0-13, leading offset 1 (unused with this swizzle) in 16-29, 1024 bytes from one group
// of 8 rows to the next in 32-45, swizzle mode 1 in 62-63.
const (
	descriptorHigh = 1<<30 | 1024>>4
	descriptorLow  = 1 << 16
	// kAdvance is 16 elements of K in units of 16 bytes.
	kAdvance = 16 * 2 / 16
	// productBytes is the weights of one product in a stage.
	productBytes = productRows * 128
)

// stageProducts issues products of a stage: four of k = 16 for each 64 rows.
func (c *consumer) stageProducts(products int, accumulate ptx.Pred) {
	f := c.f
	base, rows := f.B32("stage_base"), f.B32("stage_rows")
	f.MadLoU32(base, c.ring.stage, ptx.Imm(c.plan.Storage.Stage), c.smem)
	if c.t.PingPong {
		rows = base
	} else {
		f.MadLoU32(rows, c.group, ptx.Imm(productBytes), base)
	}
	hidden := f.B32("stage_hidden")
	f.AddU32(hidden, base, ptx.Imm(c.plan.Storage.WeightStage))
	a, b := descriptorOf(f, rows, descriptorHigh, "weights_desc"), descriptorOf(f, hidden, descriptorHigh, "hidden_desc")
	for p := range products {
		if p > 0 {
			a = advanceDescriptor(f, a, productBytes/16)
		}
		c.product(c.acc[p*c.t.N/2:(p+1)*c.t.N/2], a, b, accumulate)
	}
}

// product issues the four products of k = 16 of 64 rows of a stage.
func (c *consumer) product(acc []ptx.F32, a, b ptx.B64, accumulate ptx.Pred) {
	f, yes := c.f, c.f.Pred("yes")
	f.SetpU32(ptx.EQ, yes, c.lane, c.lane)
	for i := range c.t.K / 16 {
		scaleD := yes
		if i == 0 {
			scaleD = accumulate
		} else {
			a, b = advanceDescriptor(f, a, kAdvance), advanceDescriptor(f, b, kAdvance)
		}
		f.WgmmaMmaAsyncF32BF16(c.t.N, acc, a, b, scaleD, 1, 1, 0, 0)
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

// advanceDescriptor moves a descriptor on by a number of 16-byte units.
func advanceDescriptor(f *ptx.Func, d ptx.B64, units int) ptx.B64 {
	n := f.B64()
	f.AddU64(n, d, ptx.Imm(units))
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
