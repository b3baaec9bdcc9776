package sim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sim"
)

// snippet is a small kernel: `threads` threads in each CTA of one cluster, an output of `words` 64-bit words at %out.
type snippet struct {
	body          string
	threads, ctas int
	words         int
	blackwell     bool
	seed          uint64
}

func (s snippet) run(t testing.TB) (*sim.Report, []uint64) {
	t.Helper()
	a, version := arch.SM90, "8.0"
	if s.blackwell {
		a, version = arch.SM100, "8.8"
	}
	s.threads, s.ctas, s.words = max(s.threads, 32), max(s.ctas, 1), max(s.words, 1)
	cluster := ""
	if s.ctas > 1 {
		cluster = fmt.Sprintf(".explicitcluster\n.reqnctapercluster %d, 1, 1\n", s.ctas)
	}
	text := fmt.Sprintf(".version %s\n.target %s\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"+
		".visible .entry k(.param .u64 out)\n.reqntid %d, 1, 1\n%s{\n.reg .pred %%p<8>;\n.reg .b16 %%h<8>;\n.reg .b32 %%r<64>;\n.reg .b64 %%d<16>;\n"+
		".reg .f32 %%f<64>;\n.reg .f64 %%g<8>;\n.reg .b64 %%out;\nld.param.b64 %%out, [out];\n%s\nret;\n}\n", version, a.Target, s.threads, cluster, s.body)
	m := &manifest.Kernel{Entry: "k", Arch: a.Name, Params: []manifest.Param{{Name: "out", Kind: manifest.Pointer, Size: 8}},
		Launch: manifest.Launch{Cluster: [3]int{s.ctas, 1, 1}, Block: [3]int{s.threads, 1, 1}, SharedBytes: 8192}}
	p, err := sim.Load(text, m)
	require.NoError(t, err)
	mem := sim.NewMemory()
	out := mem.Alloc("out", 8*s.words)
	rep, err := p.Run(context.Background(), mem, sim.Launch{CTAs: s.ctas, Pointers: map[string]uint64{"out": out.Addr}, Seed: s.seed})
	require.NoError(t, err)
	raw := make([]byte, out.Size())
	out.Read(0, raw)
	words := make([]uint64, s.words)
	for i := range words {
		for j := range 8 {
			words[i] |= uint64(raw[8*i+j]) << (8 * j)
		}
	}
	return rep, words
}

// line is that of a text within the snippet's body: the body begins after a head of so many lines.
func (s snippet) line(text string) int {
	head := 16
	if s.ctas > 1 {
		head += 2
	}
	return head + strings.Count(s.body[:strings.Index(s.body, text)], "\n")
}

// One instruction each, with constants: the value is what the manual's definition gives.
func TestInstructions(t *testing.T) {
	cases := []struct {
		code string // leaves its result in the register named last
		reg  string
		want uint64
	}{
		{"mov.b32 %r1, 7; add.u32 %r0, %r1, -9;", "%r0", 0xfffffffe},
		{"mov.b32 %r1, 0x7fffffff; add.sat.s32 %r0, %r1, 1;", "%r0", 0x7fffffff},
		{"mov.b32 %r1, 0x80000000; sub.sat.s32 %r0, %r1, 1;", "%r0", 0x80000000},
		{"mov.b32 %r1, 0x80000000; mul.hi.s32 %r0, %r1, -1;", "%r0", 0},
		{"mov.b32 %r1, 0x80000001; mul.hi.u32 %r0, %r1, 6;", "%r0", 3},
		{"mov.b64 %d1, -3; mul.hi.s64 %d0, %d1, 5;", "%d0", 0xffffffffffffffff},
		{"mov.b64 %d1, -3; mul.hi.u64 %d0, %d1, 5;", "%d0", 4},
		{"mov.b32 %r1, -5; mul.wide.s32 %d0, %r1, 7;", "%d0", 0xffffffffffffffdd},
		{"mov.b32 %r1, -5; mul.wide.u32 %d0, %r1, 7;", "%d0", 0x6ffffffdd},
		{"mov.b64 %d1, 10; mov.b32 %r1, -5; mad.wide.s32 %d0, %r1, 3, %d1;", "%d0", 0xfffffffffffffffb},
		{"mov.b32 %r1, -7; div.s32 %r0, %r1, 2;", "%r0", 0xfffffffd},
		{"mov.b32 %r1, -7; rem.s32 %r0, %r1, 2;", "%r0", 0xffffffff},
		{"mov.b32 %r1, 0x80000000; div.s32 %r0, %r1, -1;", "%r0", 0x80000000},
		{"mov.b16 %h1, -7; abs.s16 %h0, %h1;", "%h0", 7},
		{"mov.b32 %r1, -1; min.u32 %r0, %r1, 5;", "%r0", 5},
		{"mov.b32 %r1, -1; min.s32 %r0, %r1, 5;", "%r0", 0xffffffff},
		{"mov.b32 %r1, 0xf0f0; popc.b32 %r0, %r1;", "%r0", 8},
		{"mov.b32 %r1, 1; clz.b32 %r0, %r1;", "%r0", 31},
		{"mov.b64 %d1, 0; clz.b64 %r0, %d1;", "%r0", 64},
		{"mov.b32 %r1, 0x100; bfind.u32 %r0, %r1;", "%r0", 8},
		{"mov.b32 %r1, -1; bfind.s32 %r0, %r1;", "%r0", 0xffffffff},
		{"mov.b32 %r1, 0x100; bfind.shiftamt.u32 %r0, %r1;", "%r0", 23},
		{"mov.b32 %r1, 1; brev.b32 %r0, %r1;", "%r0", 0x80000000},
		{"mov.b32 %r1, 0xabcd1234; bfe.u32 %r0, %r1, 8, 12;", "%r0", 0xd12},
		{"mov.b32 %r1, 0xabcd1234; bfe.s32 %r0, %r1, 8, 12;", "%r0", 0xfffffd12},
		{"mov.b32 %r1, 0xabcd1234; bfe.s32 %r0, %r1, 28, 12;", "%r0", 0xfffffffa},
		{"mov.b32 %r1, 0xff; mov.b32 %r2, 0x12345678; bfi.b32 %r0, %r1, %r2, 8, 4;", "%r0", 0x12345f78},
		{"mov.b32 %r1, -1; add.cc.u32 %r2, %r1, 1; addc.u32 %r0, %r2, 5;", "%r0", 6},
		{"mov.b32 %r1, 0; sub.cc.u32 %r2, %r1, 1; subc.u32 %r0, %r2, 0;", "%r0", 0xfffffffe},
		{"mov.b64 %d1, -1; add.cc.u64 %d2, %d1, 1; addc.u64 %d0, %d2, 5;", "%d0", 6},
		{"mov.b32 %r1, 0xf0f0f0f0; lop3.b32 %r0, %r1, 0xff00ff00, 0x0f0f0f0f, 0xe8;", "%r0", 0xff00ff00},
		{"mov.b32 %r1, 1; shl.b32 %r0, %r1, 32;", "%r0", 0},
		{"mov.b32 %r1, 0x80000000; shr.s32 %r0, %r1, 40;", "%r0", 0xffffffff},
		{"mov.b32 %r1, 0x11111111; mov.b32 %r2, 0x22222222; shf.l.wrap.b32 %r0, %r1, %r2, 36;", "%r0", 0x22222221},
		{"mov.b32 %r1, 0x11111111; mov.b32 %r2, 0x22222222; shf.r.clamp.b32 %r0, %r1, %r2, 36;", "%r0", 0x22222222},
		{"mov.b32 %r1, 0x33221100; mov.b32 %r2, 0xf7665544; prmt.b32 %r0, %r1, %r2, 0xf740;", "%r0", 0xfff74400},
		{"mov.b32 %r1, 0x33221100; mov.b32 %r2, 0x77665544; prmt.b32.f4e %r0, %r1, %r2, 1;", "%r0", 0x44332211},
		{"mov.b32 %r1, 3; setp.lt.s32 %p1, %r1, 4; selp.b32 %r0, 8, 9, %p1;", "%r0", 8},
		{"mov.f32 %f1, 0f7fc00000; setp.ltu.f32 %p1, %f1, %f1; selp.b32 %r0, 8, 9, %p1;", "%r0", 8},
		{"mov.f32 %f1, 0f7fc00000; setp.ne.f32 %p1, %f1, %f1; selp.b32 %r0, 8, 9, %p1;", "%r0", 9},
		{"mov.f32 %f1, 0f3f800000; add.rp.f32 %f0, %f1, 0f00000001;", "%f0", 0x3f800001},
		{"mov.f32 %f1, 0f3f800000; sub.rz.f32 %f0, %f1, 0f00000001;", "%f0", 0x3f7fffff},
		{"mov.f32 %f1, 0f00000001; add.ftz.f32 %f0, %f1, 0f00000001;", "%f0", 0},
		{"mov.f32 %f1, 0f40000000; add.sat.f32 %f0, %f1, 0f3f800000;", "%f0", 0x3f800000},
		{"mov.f32 %f1, 0fff800000; add.f32 %f0, %f1, 0f7f800000;", "%f0", 0x7fffffff},
		{"mov.f32 %f1, 0f7fc00000; min.f32 %f0, %f1, 0f40000000;", "%f0", 0x40000000},
		{"mov.f32 %f1, 0f7fc00000; min.NaN.f32 %f0, %f1, 0f40000000;", "%f0", 0x7fffffff},
		{"mov.f32 %f1, 0fbf800000; copysign.f32 %f0, %f1, 0f40000000;", "%f0", 0xc0000000},
		{"mov.f32 %f1, 0f40400000; ex2.approx.f32 %f0, %f1;", "%f0", 0x41000000},
		{"mov.f32 %f1, 0f41000000; lg2.approx.f32 %f0, %f1;", "%f0", 0x40400000},
		{"mov.f32 %f1, 0f40200000; cvt.rni.s32.f32 %r0, %f1;", "%r0", 2},
		{"mov.f32 %f1, 0fc0200000; cvt.rmi.s32.f32 %r0, %f1;", "%r0", 0xfffffffd},
		{"mov.f32 %f1, 0f5f000000; cvt.rzi.u32.f32 %r0, %f1;", "%r0", 0xffffffff},
		{"mov.b32 %r1, 0x01000001; cvt.rn.f32.u32 %f0, %r1;", "%f0", 0x4b800000},
		{"mov.b32 %r1, 0x01000001; cvt.rp.f32.u32 %f0, %r1;", "%f0", 0x4b800001},
		{"mov.b32 %r1, 0x80; cvt.s32.s8 %r0, %r1;", "%r0", 0xffffff80},
		{"mov.b32 %r1, 300; cvt.sat.u8.u32 %r0, %r1;", "%r0", 255},
		{"mov.f32 %f1, 0f3f808000; cvt.rn.bf16.f32 %h0, %f1;", "%h0", 0x3f80},
		{"mov.f32 %f1, 0f3f818000; cvt.rn.bf16.f32 %h0, %f1;", "%h0", 0x3f82},
		{"mov.f32 %f1, 0f3f800000; mov.f32 %f2, 0f40000000; cvt.rn.bf16x2.f32 %r0, %f1, %f2;", "%r0", 0x3f804000},
		{"mov.f32 %f1, 0f33000000; cvt.rn.f16.f32 %h0, %f1;", "%h0", 0},
		{"mov.f32 %f1, 0f33000001; cvt.rn.f16.f32 %h0, %f1;", "%h0", 1},
		{"mov.f32 %f1, 0f3fa00000; mov.b32 %r1, 0; cvt.rn.satfinite.e4m3x2.f32 %h0, %f1, 0f44800000;", "%h0", 0x3a7e},
		{"mov.b32 %r1, %laneid; mov.b32 %r2, 31; shfl.sync.bfly.b32 %r0, %r1, 5, 31, 0xffffffff;", "%r0", 5},
		{"mov.b32 %r1, %laneid; shfl.sync.down.b32 %r0, %r1, 3, 31, 0xffffffff;", "%r0", 3},
		{"mov.b32 %r1, %laneid; shfl.sync.idx.b32 %r0, %r1, 9, 0x1f, 0xffffffff;", "%r0", 9},
		{"mov.b32 %r1, %laneid; setp.gt.u32 %p1, %r1, 29; vote.sync.ballot.b32 %r0, %p1, 0xffffffff;", "%r0", 0xc0000000},
		{"mov.b32 %r1, %laneid; redux.sync.add.u32 %r0, %r1, 0xffffffff;", "%r0", 496},
		{"mov.b32 %r1, %laneid; and.b32 %r1, %r1, 3; match.any.sync.b32 %r0, %r1, 0xffffffff;", "%r0", 0x11111111},
		{"elect.sync %r0|%p1, 0xffff0000;", "%r0", 16},
	}
	var body strings.Builder
	for i, c := range cases {
		if strings.HasPrefix(c.code, "elect") { // by the lanes of the mask only
			c.code = "mov.b32 %r1, %laneid; mov.b32 %r0, 16; setp.lt.u32 %p2, %r1, 16;\n@%p2 bra past;\n" + c.code + "\npast:"
		}
		fmt.Fprintf(&body, "%s\n", strings.ReplaceAll(c.code, "; ", ";\n"))
		switch c.reg[1] {
		case 'r':
			fmt.Fprintf(&body, "cvt.u64.u32 %%d3, %s;\n", c.reg)
		case 'h':
			fmt.Fprintf(&body, "cvt.u64.u16 %%d3, %s;\n", c.reg)
		case 'f':
			fmt.Fprintf(&body, "mov.b32 %%r3, %s;\ncvt.u64.u32 %%d3, %%r3;\n", c.reg)
		default:
			fmt.Fprintf(&body, "mov.b64 %%d3, %s;\n", c.reg)
		}
		// One lane writes.
		fmt.Fprintf(&body, "mov.b32 %%r9, %%laneid;\nsetp.eq.u32 %%p7, %%r9, 0;\n@%%p7 st.global.b64 [%%out+%d], %%d3;\n", 8*i)
	}
	rep, got := snippet{body: body.String(), words: len(cases)}.run(t)
	require.NoError(t, rep.Err())
	for i, c := range cases {
		require.Equal(t, fmt.Sprintf("%#x", c.want), fmt.Sprintf("%#x", got[i]), c.code)
	}
}
