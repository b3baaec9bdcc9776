package ptx_test

import (
	"testing"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ptx"
)

// hopper builds a kernel in the shape of the real ones: a TMA producer, a wgmma consumer, mbarriers, an epilogue.
func hopper() *ptx.Module {
	m := ptx.NewModule(arch.SM90.Target)
	m.Comment("a small TMA and wgmma kernel")
	smem := m.ExternShared("smem", 1024)
	f := m.Entry("gemm")
	f.Reqntid(256, 1, 1)
	f.Reqnctapercluster(2, 1, 1)
	w, out := f.ParamTensorMap("w"), f.ParamU64("out")
	bars := f.Shared("bars", 8, 16)
	tid, parity := f.B32("thread"), f.B32("parity")
	f.MovB32(tid, ptx.TidX)
	f.MovB32(parity, ptx.Imm(0))

	leader := f.Pred("leader")
	f.SetpU32(ptx.EQ, leader, tid, ptx.Imm(0))
	f.MbarrierInit(bars, ptx.Imm(1)).If(leader)
	f.FenceMbarrierInitReleaseCluster().If(leader)
	f.BarrierClusterArrive(ptx.Aligned)
	f.BarrierClusterWait(ptx.Aligned)

	consumer, producer, done := f.Label("consumer"), f.Pred("producer"), f.Label("done")
	f.SetpU32(ptx.LT, producer, tid, ptx.Imm(128))
	f.Bra(consumer).IfNot(producer)
	f.SetmaxnregDec(40)
	wp, base := f.B64("wp"), f.B32("base")
	f.MovVarB64(wp, w)
	f.CvtaParamU64(wp, wp)
	f.MovVarB32(base, smem)
	f.MbarrierArriveExpectTx(bars, ptx.Imm(16384)).If(leader)
	f.CpAsyncBulkTensorSharedClusterGlobal(base, ptx.Tensor(wp, ptx.Imm(0), tid), bars, ptx.Multicast(ptx.Imm(3))).If(leader)
	f.Bra(done)

	f.Place(consumer)
	f.SetmaxnregInc(232)
	acc := f.NewF32s("acc", 16)
	for _, a := range acc {
		f.MovF32(a, ptx.F32Imm(0))
	}
	wait, ready, yes := f.Here("wait"), f.Pred("ready"), f.Pred("yes")
	f.MbarrierTryWaitParity(ready, bars, parity)
	f.Bra(wait).IfNot(ready)
	descs := f.NewB64s("desc", 2)
	f.MovB64(descs[0], ptx.Imm(0x4000004000010000))
	f.AddS64(descs[1], descs[0], ptx.Imm(1024))
	f.SetpU32(ptx.NE, yes, tid, ptx.Imm(0))
	f.WgmmaFence()
	f.WgmmaMmaAsyncF32BF16(32, acc, descs[0], descs[1], yes, 1, 1, 0, 0)
	f.WgmmaCommitGroup()
	f.WgmmaWaitGroup(0)
	op := f.B64("op")
	f.LdParamB64(op, out)
	for i := 0; i < len(acc); i += 4 {
		f.StGlobalV4F32(op.Off(4*i), acc[i:i+4])
	}
	f.Place(done)
	f.Exit()
	return m
}

func TestHopper(t *testing.T) {
	m := hopper()
	if err := m.Err(); err != nil {
		t.Fatal(err)
	}
	if got := m.Version(); got != arch.V(8, 0) {
		t.Fatalf("version %s, want 8.0", got)
	}
}
