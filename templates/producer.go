package templates

import "github.com/fsgen/fsgen/ptx"

// producerState is what the thread that keeps the ring full knows.
type producerState struct {
	*skeleton
	weights      weightSource
	hidden       ptx.B64 // address of the tensor map
	once, keep   ptx.B64 // cache policies
	ring         ring
	column, row  ptx.B32
	rows         ptx.B32 // of the item
	batchRow, x  ptx.B32
	primed, step ptx.B32 // stages of the first item whose weights are under way already; the stage of the item
}

// newProducer reads what the producer needs.
func (k *skeleton) newProducer() *producerState {
	f := k.f
	p := &producerState{skeleton: k, weights: k.weightSource(), hidden: k.tensorMap(k.sig.hidden, "hidden_map"),
		once: f.B64("evict_first"), keep: f.B64("evict_last"), primed: f.B32("primed")}
	// Weights pass through once; hidden states come back for every tile.
	f.CreatepolicyFractionalL2EvictFirst(p.once)
	f.CreatepolicyFractionalL2EvictLast(p.keep)
	if k.boxed() {
		k.acquireMap(p.weights.tensor)
	}
	p.ring = k.newRing(1) // the first wait on every empty stage passes at once
	p.batchRow, p.x, p.step = f.B32("batch_row"), f.B32("x"), f.B32("step")
	return p
}

// unlessProducer branches in all threads but the one that produces, the first of a warp.
func (k *skeleton) unlessProducer(warp int, to *ptx.Label) {
	other := k.f.Pred("not_producer")
	k.f.SetpU32(ptx.NE, other, k.tid, ptx.Imm(warpSize*warp))
	k.f.Bra(to).If(other)
}

// startProducer has the producer's thread tell the others what there is to do, and begin the first copies.
func (k *skeleton) startProducer(warp int) {
	started := k.f.Label("started")
	k.unlessProducer(warp, started)
	k.keepDeal()
	if !k.t.Split {
		k.producing = k.newProducer()
		k.producing.prime()
	}
	k.f.Place(started)
}

// producer emits the role of the first thread of a warp, which keeps the ring full; the others wait at the end.
func (k *skeleton) producer(warp int) {
	f := k.f
	k.unlessProducer(warp, k.done)
	p := k.producing
	if p == nil {
		p = k.newProducer()
		p.prime()
	}
	f.Comment("Everything below reads memory that the grid before this one may still write.")
	f.GriddepcontrolWait()
	p.acquireMap(p.hidden)
	n, more := f.B32("item"), f.Pred("more")
	f.MovB32(n, k.first)
	loop := f.Here("produce_item")
	f.SetpU32(ptx.GE, more, n, k.work)
	f.Bra(k.done).If(more)
	p.column, p.row, p.rows = k.item(n, k.deal)
	f.MulLoU32(p.batchRow, p.column, ptx.Imm(k.t.N))
	if k.t.Cluster > 1 && !k.t.Split {
		f.MadLoU32(p.batchRow, k.rank, ptx.Imm(k.t.N/k.t.Cluster), p.batchRow)
	}
	p.begin()
	stage := f.Here("produce_stage")
	p.fill()
	k.advance(p.ring)
	p.next(stage, k.ksteps)
	f.AddU32(n, n, k.stride)
	f.Bra(loop)
}

// begin goes to the first stage of an item.
func (p *producerState) begin() {
	p.weights.begin(p.row, p.rows)
	p.f.MovB32(p.x, ptx.Imm(0))
	p.f.MovB32(p.step, ptx.Imm(0))
}

// next moves on by a stage of the item and branches back, unless it was the last.
func (p *producerState) next(loop *ptx.Label, stages ptx.B32) {
	f, more := p.f, p.f.Pred("more")
	f.AddU32(p.x, p.x, ptx.Imm(p.t.K))
	f.AddU32(p.step, p.step, ptx.Imm(1))
	f.SetpU32(ptx.LT, more, p.step, stages)
	f.Bra(loop).If(more)
}

// prime starts the copies of the first item's weights into the empty ring while the grid before this one may still run:
// weights are there from the start, hidden states and the rows' parameters may be its results.
func (p *producerState) prime() {
	f := p.f
	none, primed := f.Pred("no_work"), f.Label("primed")
	f.MovB32(p.primed, ptx.Imm(0))
	f.SetpU32(ptx.GE, none, p.first, p.work)
	f.Bra(primed).If(none)
	f.MinU32(p.primed, p.ksteps, ptx.Imm(p.t.Stages))
	_, p.row, p.rows = p.item(p.first, p.deal)
	f.MovB32(p.rows, ptx.Imm(p.t.M)) // a new ring is filled up (shares)
	p.begin()
	stage := f.Here("prime_stage")
	p.startWeights(p.barrier(p.step, "slot"), p.slot(p.step))
	p.next(stage, p.primed)
	f.Place(primed)
}

// slot returns the address register of a stage.
func (p *producerState) slot(stage ptx.B32) ptx.B32 {
	dst := p.f.B32("dst")
	p.f.MadLoU32(dst, stage, ptx.Imm(p.plan.Storage.Stage), p.smem)
	return dst
}

// fill waits for a stage to be empty and starts its copies. Rows and columns past the tensors arrive as zeros, and count
// in full.
func (p *producerState) fill() {
	f := p.f
	bar, dst := p.barrier(p.ring.stage, "slot"), p.slot(p.ring.stage)
	started, hidden := f.Pred("weights_started"), f.Label("fill_hidden")
	left := f.B32()
	f.SubU32(left, p.primed, ptx.Imm(1))
	f.SetpU32(ptx.NE, started, p.primed, ptx.Imm(0))
	f.MovB32(p.primed, left).If(started)
	p.weights.skip(started)
	f.Bra(hidden).If(started)
	p.wait(bar.Off(p.plan.Storage.Empty), p.ring.phase, "wait_empty")
	p.startWeights(bar, dst)
	f.Place(hidden)
	p.startHidden(bar, dst)
}

// startWeights says what the stage is to hold and starts the copy of its weights.
func (p *producerState) startWeights(bar, dst ptx.B32) {
	full := bar.Off(p.plan.Storage.Full)
	p.f.MbarrierArriveExpectTx(full, p.weights.expect)
	p.weights.copy(dst, full, p.x, p.row, p.once)
}

// startHidden starts the copy of a stage's hidden states.
func (p *producerState) startHidden(bar, dst ptx.B32) {
	f, s := p.f, p.plan.Storage
	full := bar.Off(s.Full)
	if p.t.Cluster == 1 || p.t.Split {
		f.CpAsyncBulkTensorSharedClusterGlobal(dst.Off(s.WeightStage), ptx.Tensor(p.hidden, p.x, p.batchRow), full, ptx.CacheHint(p.keep))
		return
	}
	// Each CTA of the cluster fetches its share of the hidden states for all of them.
	share := f.B32("share")
	f.MadLoU32(share, p.rank, ptx.Imm(s.HiddenStage/p.t.Cluster), dst)
	f.CpAsyncBulkTensorSharedClusterGlobal(share.Off(s.WeightStage), ptx.Tensor(p.hidden, p.x, p.batchRow), full,
		ptx.Multicast(p.everyPeer()), ptx.CacheHint(p.keep))
}

// everyPeer is the multicast mask of the whole cluster.
func (k *skeleton) everyPeer() ptx.B16 {
	mask := k.f.B16("peers")
	k.f.MovB16(mask, ptx.Imm(1<<k.t.Cluster-1))
	return mask
}
