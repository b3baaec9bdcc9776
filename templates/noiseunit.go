package templates

import (
	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// Entries and shape of the kernels that expose the noise alone.
const (
	NoiseEntry     = "fsgen_noise"
	NoiseScanEntry = "fsgen_noise_scan"
	NoiseThreads   = 256
)

// NoiseUnit builds two kernels that expose the noise as the epilogue computes it, for tests.
//
// fsgen_noise(seeds, positions, draw, stream_tag, count, bits, noise) writes the 64 random bits of their own and the noise of
// the tokens 0 to count-1 of one row; count is a multiple of 16.
//
// fsgen_noise_scan(start, step, count, out) runs over the bits x = start + i step, i < count, of a block and of a token, for
// the block's first token and for another, and leaves in out four
// u64: the smallest and largest noise as keys of order (the sign bit flipped, or all bits of a negative number), how many
// were not finite, and how many passed the bound that skips them.
func NoiseUnit(a arch.Arch) (*Kernel, error) {
	m := ptx.NewModule(a.Target)
	m.Comment("The noise alone, as the epilogue computes it.")
	u := &noiseUnit{noise: ir.Noise(), bound: ir.NoiseCeiling()}
	u.tokens(m.Entry(NoiseEntry))
	u.scan(m.Entry(NoiseScanEntry))
	if err := m.Err(); err != nil {
		return nil, err
	}
	return &Kernel{Module: m, Entry: m.Entries()[0]}, nil
}

type noiseUnit struct {
	noise, bound *ir.Graph
}

// globalThread returns the thread's number in the grid and the number of threads.
func globalThread(f *ptx.Func) (index, threads ptx.B64) {
	tid, cta, ctas := f.B32("thread"), f.B32("cta"), f.B32("ctas")
	f.MovB32(tid, ptx.TidX)
	f.MovB32(cta, ptx.CtaidX)
	f.MovB32(ctas, ptx.NctaidX)
	index, threads = f.B64("index"), f.B64("threads")
	f.CvtU64U32(index, tid)
	f.MadWideU32(index, cta, ptx.Imm(NoiseThreads), index)
	f.MulWideU32(threads, ctas, ptx.Imm(NoiseThreads))
	return index, threads
}

func (u *noiseUnit) tokens(f *ptx.Func) {
	f.Reqntid(NoiseThreads, 1, 1)
	sig := signature{f: f}
	seeds, positions := sig.pointer("seeds", "u64", "1", "read"), sig.pointer("positions", "u64", "1", "read")
	draw, tag, count := sig.scalar("draw"), sig.scalar("stream_tag"), sig.scalar("count")
	bits, noise := sig.pointer("bits", "u64", "count", "write"), sig.pointer("noise", "f32", "count", "write")

	seed, position := f.NewB32s("seed", 2), f.NewB32s("position", 2)
	f.LdGlobalV2B32(seed, loadPointer(f, seeds, "seeds"))
	f.LdGlobalV2B32(position, loadPointer(f, positions, "positions"))
	row := rowState(f, [4]ptx.B32{position[0], position[1], loadU32(f, draw, "draw"), loadU32(f, tag, "tag")}, [2]ptx.B32{seed[0], seed[1]})
	n, out, g := loadU32(f, count, "count"), loadPointer(f, bits, "bits"), loadPointer(f, noise, "noise")

	// Thread i takes the i-th pair: token (i/8)*16 + i%8 and the one 8 further.
	wide, threads := globalThread(f)
	i, step, id, past := f.B32("pair"), f.B32("step"), f.B32("token"), f.Pred("past")
	f.CvtU32U64(i, wide)
	f.CvtU32U64(step, threads)
	loop, done := f.Here("pairs"), f.Label("done")
	high := f.B32()
	f.AndB32(high, i, ptx.Imm(0xFFFFFFF8))
	f.AddU32(id, i, high)
	f.SetpU32(ptx.GE, past, id, n)
	f.Bra(done).If(past)
	state, block := tokenRounds(f, row, pairState(f, id)), f.B32("block")
	f.ShrU32(block, id, ptx.Imm(4))
	f.OrB32(block, block, imm(f, blockBit))
	shared := tokenRounds(f, row, pairState(f, block))
	blockHigh, blockLow, firstPlace := shared.high(f)[0], shared.low(f)[0], shared.first(f)
	for j, h := range state.high(f) {
		low := state.low(f)[j]
		place, first := f.B32(), f.Pred("is_first")
		f.AndB32(place, id, ptx.Imm(7))
		f.AddU32(place, place, ptx.Imm(8*j))
		f.SetpU32(ptx.EQ, first, place, firstPlace)
		in := inputs{p: map[ir.Input]ptx.Pred{ir.InFirst: first}, u: map[ir.Input]ptx.B32{
			ir.InLow: low, ir.InHigh: h, ir.InBlockLow: blockLow, ir.InBlockHigh: blockHigh}}
		token, at, value := f.B32(), f.B64(), f.B64()
		f.AddU32(token, id, ptx.Imm(8*j))
		f.MovPackB64(value, low, h)
		f.MadWideU32(at, token, ptx.Imm(8), out)
		f.StGlobalB64(at, value)
		f.StGlobalF32(rowAddr(f, g, token), lower(f, u.noise, in))
	}
	f.AddU32(i, i, step)
	f.Bra(loop)
	f.Place(done)
	f.Ret()
}

func (u *noiseUnit) scan(f *ptx.Func) {
	f.Reqntid(NoiseThreads, 1, 1)
	start, step, count := f.ParamU64("start"), f.ParamU64("step"), f.ParamU64("count")
	out := f.ParamU64("out")
	x0, dx, n := f.B64("start"), f.B64("step"), f.B64("count")
	f.LdParamB64(x0, start)
	f.LdParamB64(dx, step)
	f.LdParamB64(n, count)
	results := loadPointer(f, out, "out")
	i, threads := globalThread(f)
	s := newScanState(f)
	past, done := f.Pred("past"), f.Label("scanned")
	loop, x := f.Here("scan"), f.B64("x")
	f.SetpU64(ptx.GE, past, i, n)
	f.Bra(done).If(past)
	f.MadLoU64(x, i, dx, x0)
	low, high := f.B32("low"), f.B32("high")
	f.MovUnpackB64(low, high, x)
	code := codeValue(f, packCodes(f, []ptx.B32{codeOf(f, high), codeOf(f, high)}), 1)
	bound := lower(f, u.bound, inputs{f: map[ir.Input]ptx.F32{ir.InCode: code}})
	for _, first := range []ptx.Cmp{ptx.EQ, ptx.NE} { // the bits as those of a block, for its first token and for another
		is := f.Pred("is_first")
		f.SetpU64(first, is, x, x)
		s.note(lower(f, u.noise, inputs{p: map[ir.Input]ptx.Pred{ir.InFirst: is}, u: map[ir.Input]ptx.B32{
			ir.InLow: low, ir.InHigh: high, ir.InBlockLow: low, ir.InBlockHigh: high}}), bound)
	}
	f.AddU64(i, i, threads)
	f.Bra(loop)
	f.Place(done)
	s.publish(results)
	f.Ret()
}

// scanState is what a thread has seen.
type scanState struct {
	f                      *ptx.Func
	low, high, odd, passed ptx.B32
}

func newScanState(f *ptx.Func) *scanState {
	s := &scanState{f, f.B32("smallest"), f.B32("largest"), f.B32("odd"), f.B32("passed")}
	f.MovB32(s.low, ptx.Imm(0xFFFFFFFF))
	for _, r := range []ptx.B32{s.high, s.odd, s.passed} {
		f.MovB32(r, ptx.Imm(0))
	}
	return s
}

func (s *scanState) note(g, bound ptx.F32) {
	f := s.f
	bits, sign, key, plain := f.B32(), f.B32(), f.B32(), f.B32()
	f.MovB32(bits, g)
	f.ShrS32(sign, bits, ptx.Imm(31))
	f.Lop3B32(key, bits, sign, ptx.Imm(0x80000000), lut(func(a, b, c uint8) uint8 { return a ^ (b | c) }))
	f.MinU32(s.low, s.low, key)
	f.MaxU32(s.high, s.high, key)
	f.AndB32(plain, bits, ptx.Imm(0x7FFFFFFF))
	odd, passed := f.Pred("not_finite"), f.Pred("passes_bound")
	f.SetpU32(ptx.GE, odd, plain, ptx.Imm(0x7F800000))
	f.AddU32(s.odd, s.odd, ptx.Imm(1)).If(odd)
	f.SetpF32(ptx.GTU, passed, g, bound)
	f.AddU32(s.passed, s.passed, ptx.Imm(1)).If(passed)
}

func (s *scanState) publish(out ptx.B64) {
	f := s.f
	wide := f.B64()
	for i, r := range []ptx.B32{s.low, s.high, s.odd, s.passed} {
		f.CvtU64U32(wide, r)
		switch i {
		case 0:
			f.RedGlobalMinU64(out, wide)
		case 1:
			f.RedGlobalMaxU64(out.Off(8), wide)
		default:
			f.RedGlobalAddU64(out.Off(8*i), wide)
		}
	}
}
