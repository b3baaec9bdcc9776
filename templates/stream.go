package templates

import (
	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ptx"
)

// Shape of the stream kernel: a ring of bulk copies as deep as in-flight reads need to be.
const (
	streamStages = 12
	StreamBlock  = 16384 // bytes of one copy
	// StreamShared is its dynamic shared memory: the ring and its barriers.
	StreamShared  = streamStages*StreamBlock + 8*streamStages
	StreamThreads = 32
	StreamEntry   = "fsgen_stream"
)

// Stream builds the kernel that measures the memory floor: it reads an array once through shared memory by bulk copies
// and does no arithmetic. No kernel that reads as much can be faster. Parameters: the address, the number of blocks of
// StreamBlock bytes, and a sink that is never written in practice but keeps the reads alive.
func Stream(a arch.Arch) (*Kernel, error) {
	m := ptx.NewModule(a.Target)
	m.Comment("Reads an array once: the memory floor.")
	shared := m.ExternShared("fsgen_shared", 1024)
	f := m.Entry(StreamEntry)
	f.Reqntid(StreamThreads, 1, 1)
	sig := signature{f: f}
	data := sig.pointer("data", "u8", "blocks x 16384", "read")
	count := sig.scalar("blocks")
	sink := sig.pointer("sink", "u32", "1", "write")
	s := &stream{f: f}
	s.build(shared, data, count, sink)
	if err := m.Err(); err != nil {
		return nil, err
	}
	return &Kernel{Module: m, Entry: f, Params: sig.finish()}, nil
}

type stream struct {
	f    *ptx.Func
	smem ptx.B32
	base ptx.B64
}

func (s *stream) build(shared ptx.SharedVar, data, count, sink ptx.Param) {
	f := s.f
	done, other, tid := f.Label("done"), f.Pred("other"), f.B32("thread")
	f.MovB32(tid, ptx.TidX)
	f.SetpU32(ptx.NE, other, tid, ptx.Imm(0))
	f.Bra(done).If(other)
	s.smem = f.B32("smem")
	f.MovVarB32(s.smem, shared)
	for i := range streamStages {
		f.MbarrierInit(s.smem.Off(streamStages*StreamBlock+8*i), ptx.Imm(1))
	}
	f.FenceMbarrierInitReleaseCluster()
	s.base = loadPointer(f, data, "data")
	blocks, next, stride := loadU32(f, count, "blocks"), f.B32("next"), f.B32("stride")
	f.MovB32(next, ptx.CtaidX)
	f.MovB32(stride, ptx.NctaidX)
	for i := range streamStages {
		s.issue(s.smem.Off(i*StreamBlock), s.smem.Off(streamStages*StreamBlock+8*i), next, blocks)
		f.AddU32(next, next, stride)
	}
	s.drain(next, stride, blocks, sink, done)
	f.Place(done)
	f.Ret()
}

// issue starts the copy of a block, if there is one.
func (s *stream) issue(dst, bar ptx.SharedAddr, block, blocks ptx.B32) {
	f := s.f
	there, src := f.Pred("there"), f.B64("src")
	f.SetpU32(ptx.LT, there, block, blocks)
	f.MadWideU32(src, block, ptx.Imm(StreamBlock), s.base)
	f.MbarrierArriveExpectTx(bar, ptx.Imm(StreamBlock)).If(there)
	f.CpAsyncBulkSharedClusterGlobal(dst, src, ptx.Imm(StreamBlock), bar).If(there)
}

// drain waits for the blocks in order, reads one word of each and refills the ring.
func (s *stream) drain(next, stride, blocks ptx.B32, sink ptx.Param, done *ptx.Label) {
	f := s.f
	mine, sum, word := f.B32("block"), f.B32("sum"), f.B32("word")
	f.MovB32(mine, ptx.CtaidX)
	f.MovB32(sum, ptx.Imm(0))
	stage, phase, end, past := f.B32("stage"), f.B32("phase"), f.Label("end"), f.Pred("past")
	f.MovB32(stage, ptx.Imm(0))
	f.MovB32(phase, ptx.Imm(0))
	loop, bar, dst := f.Here("drain"), f.B32("bar"), f.B32("dst")
	f.SetpU32(ptx.GE, past, mine, blocks)
	f.Bra(end).If(past)
	f.MadLoU32(bar, stage, ptx.Imm(8), s.smem)
	f.MadLoU32(dst, stage, ptx.Imm(StreamBlock), s.smem)
	again, ready := f.Here("wait"), f.Pred("ready")
	f.MbarrierTryWaitParity(ready, bar.Off(streamStages*StreamBlock), phase)
	f.Bra(again).IfNot(ready)
	f.LdSharedB32(word, dst, ptx.Volatile)
	f.XorB32(sum, sum, word)
	s.issue(dst, bar.Off(streamStages*StreamBlock), next, blocks)
	f.AddU32(next, next, stride)
	f.AddU32(mine, mine, stride)
	wrap := f.Pred("wrap")
	f.AddU32(stage, stage, ptx.Imm(1))
	f.SetpU32(ptx.EQ, wrap, stage, ptx.Imm(streamStages))
	f.MovB32(stage, ptx.Imm(0)).If(wrap)
	f.XorB32(phase, phase, ptx.Imm(1)).If(wrap)
	f.Bra(loop)
	f.Place(end)
	magic := f.Pred("magic")
	f.SetpU32(ptx.NE, magic, sum, ptx.Imm(0x5F5E1001))
	f.Bra(done).If(magic)
	f.StGlobalB32(loadPointer(f, sink, "sink"), sum)
}
