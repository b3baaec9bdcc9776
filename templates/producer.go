package templates

import "github.com/fsgen/fsgen/ptx"

// producer emits the role of the first thread of a warp, which keeps the ring full; the others wait at the end.
func (k *skeleton) producer(warp int) {
	f := k.f
	other := f.Pred("not_producer")
	f.SetpU32(ptx.NE, other, k.tid, ptx.Imm(32*warp))
	f.Bra(k.done).If(other)

	weights, hidden := k.weightSource(), k.tensorMap(k.sig.hidden, "hidden_map")
	// Weights pass through once; hidden states come back for every tile.
	once, keep := f.B64("evict_first"), f.B64("evict_last")
	f.CreatepolicyFractionalL2EvictFirst(once)
	f.CreatepolicyFractionalL2EvictLast(keep)

	r := k.newRing(1) // the first wait on every empty stage passes at once
	n, more := f.B32("item"), f.Pred("more")
	f.MovB32(n, k.first)
	loop, step := f.Here("produce_item"), f.B32("step")
	f.SetpU32(ptx.GE, more, n, k.work)
	f.Bra(k.done).If(more)
	column, row := k.item(n)
	batchRow, x := f.B32("batch_row"), f.B32("x")
	f.MulLoU32(batchRow, column, ptx.Imm(k.t.N))
	if k.t.Cluster > 1 && !k.t.Split {
		f.MadLoU32(batchRow, k.rank, ptx.Imm(k.t.N/k.t.Cluster), batchRow)
	}
	weights.begin(row)
	f.MovB32(x, ptx.Imm(0))
	f.MovB32(step, ptx.Imm(0))

	stage := f.Here("produce_stage")
	k.fill(r, weights, hidden, once, keep, x, row, batchRow)
	k.advance(r)
	f.AddU32(x, x, ptx.Imm(k.t.K))
	f.AddU32(step, step, ptx.Imm(1))
	f.SetpU32(ptx.LT, more, step, k.ksteps)
	f.Bra(stage).If(more)
	f.AddU32(n, n, k.stride)
	f.Bra(loop)
}

// fill waits for a stage to be empty and starts its copies. Rows and columns past the tensors arrive as zeros, and count
// in full.
func (k *skeleton) fill(r ring, weights weightSource, hidden, once, keep ptx.B64, x, row, batchRow ptx.B32) {
	f, s := k.f, k.plan.Storage
	bar := k.barrier(r.stage, "slot")
	k.wait(bar.Off(s.Empty), r.phase, "wait_empty")
	f.MbarrierArriveExpectTx(bar.Off(s.Full), ptx.Imm(s.Stage))
	dst := f.B32("dst")
	f.MadLoU32(dst, r.stage, ptx.Imm(s.Stage), k.smem)
	weights.copy(dst, bar.Off(s.Full), x, row, once)
	if k.t.Cluster == 1 || k.t.Split {
		f.CpAsyncBulkTensorSharedClusterGlobal(dst.Off(s.WeightStage), ptx.Tensor(hidden, x, batchRow), bar.Off(s.Full), ptx.CacheHint(keep))
		return
	}
	// Each CTA of the cluster fetches its share of the hidden states for all of them.
	share := f.B32("share")
	f.MadLoU32(share, k.rank, ptx.Imm(s.HiddenStage/k.t.Cluster), dst)
	mask := k.everyPeer()
	f.CpAsyncBulkTensorSharedClusterGlobal(share.Off(s.WeightStage), ptx.Tensor(hidden, x, batchRow), bar.Off(s.Full),
		ptx.Multicast(mask), ptx.CacheHint(keep))
}

// everyPeer is the multicast mask of the whole cluster.
func (k *skeleton) everyPeer() ptx.B16 {
	mask := k.f.B16("peers")
	k.f.MovB16(mask, ptx.Imm(1<<k.t.Cluster-1))
	return mask
}

// tensorMap returns the generic address of a tensor map in parameter memory.
func (k *skeleton) tensorMap(p ptx.Param, name string) ptx.B64 {
	r := k.f.B64(name)
	k.f.MovVarB64(r, p)
	k.f.CvtaParamU64(r, r)
	return r
}
