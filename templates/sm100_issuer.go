package templates

import "github.com/fsgen/fsgen/ptx"

// Instruction descriptor of tcgen05.mma kind::f16 (PTX ISA, "Instruction descriptor"): accumulator float32 (1) in bits 4-5,
// A and B bf16 (1) in 7-9 and 10-12, both K-major (0) in 15 and 16, N/8 in 17-22, M/16 in 24-28.
func instructionDescriptor(m, n int) int64 {
	return 1<<4 | 1<<7 | 1<<10 | int64(n/8)<<17 | int64(m/16)<<24
}

// Shared-memory descriptor of tcgen05 for K-major tiles with the 128-byte swizzle (PTX ISA, "Shared memory descriptor"):
// address >> 4 in bits 0-13, leading offset 1 (unused with this swizzle) in 16-29, 1024 bytes from one group of 8 rows to
// the next in 32-45, 1 in 46, swizzle mode 2 in 61-63.
const sm100DescriptorHigh = 2<<29 | 1<<14 | 1024>>4

// issuer emits the role of one thread of the issuing warp: it waits for a stage, issues its products, and has the tensor core
// signal when they are done: the stage is empty then, and after the last one the accumulator is full.
func (k *sm100) issuer() {
	f := k.f
	f.Comment("Issuer: one thread starts the products.")
	leader := f.Pred("leader")
	f.ElectSync(leader, ptx.Imm(fullWarp)) // ptxas knows then that one thread issues; it wraps a loop over threads otherwise
	f.Bra(k.done).IfNot(leader)
	descriptor := f.B32("instruction_desc")
	f.MovB32(descriptor, ptx.Imm(instructionDescriptor(k.t.M, k.t.N)))

	r, b := k.newRing(0), k.newRing(1) // the first wait on each empty accumulator passes at once
	n, more := f.B32("item"), f.Pred("more")
	f.MovB32(n, k.first)
	loop := f.Here("issue_item")
	f.SetpU32(ptx.GE, more, n, k.work)
	f.Bra(k.done).If(more)
	slot := k.bufferAt(b.stage)
	k.wait(slot.Off(k.emptyTile(0)), b.phase, "wait_tile_empty")
	f.Tcgen05FenceAfterThreadSync()
	acc, step := f.B32("accumulator"), f.B32("step")
	f.MadLoU32(acc, b.stage, ptx.Imm(k.t.N), k.tensor)
	f.MovB32(step, ptx.Imm(0))

	stage := f.Here("issue_stage")
	bar := k.barrier(r.stage, "slot")
	k.wait(bar.Off(k.plan.Storage.Full), r.phase, "wait_full")
	f.Tcgen05FenceAfterThreadSync()
	k.products(r, acc, descriptor, step)
	k.commitStage(bar)
	k.advance(r)
	f.AddU32(step, step, ptx.Imm(1))
	f.SetpU32(ptx.LT, more, step, k.ksteps)
	f.Bra(stage).If(more)
	f.Tcgen05Commit(1, slot.Off(k.fullTile(0)))
	k.nextBuffer(b)
	f.AddU32(n, n, k.stride)
	f.Bra(loop)
}

// products issues the four products of k = 16 of a stage; the first of a tile overwrites the accumulator.
func (k *sm100) products(r ring, acc, descriptor, step ptx.B32) {
	f, s := k.f, k.plan.Storage
	base, hidden := f.B32("stage_base"), f.B32("stage_hidden")
	f.MadLoU32(base, r.stage, ptx.Imm(s.Stage), k.smem)
	f.AddU32(hidden, base, ptx.Imm(s.WeightStage))
	a, b := descriptorOf(f, base, sm100DescriptorHigh, "weights_desc"), descriptorOf(f, hidden, sm100DescriptorHigh, "hidden_desc")
	accumulate := f.Pred("accumulate")
	f.SetpU32(ptx.NE, accumulate, step, ptx.Imm(0))
	for i := range k.t.K / 16 {
		if i > 0 {
			a, b = advanceDescriptor(f, a, kAdvance), advanceDescriptor(f, b, kAdvance)
		}
		f.Tcgen05MmaF16(1, acc, a, b, descriptor, accumulate)
		if i == 0 {
			f.SetpU32(ptx.EQ, accumulate, step, step)
		}
	}
}

// commitStage has the stage's "empty" barrier, in every CTA of the cluster that filled it, hear of the products' end.
func (k *sm100) commitStage(bar ptx.B32) {
	f := k.f
	if k.t.Cluster == 1 {
		f.Tcgen05Commit(1, bar.Off(k.plan.Storage.Empty))
		return
	}
	mask := f.B16("peers")
	f.MovB16(mask, ptx.Imm(1<<k.t.Cluster-1))
	f.Tcgen05Commit(1, bar.Off(k.plan.Storage.Empty), ptx.Multicast(mask))
}
