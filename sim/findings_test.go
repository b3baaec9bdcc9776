package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/sim"
)

const initBarrier = `mov.b32 %r0, smem;
mov.b32 %r1, %tid.x;
setp.eq.u32 %p0, %r1, 0;
@%p0 mbarrier.init.shared.b64 [%r0], 1;
fence.mbarrier_init.release.cluster;
bar.sync 0;
`

// neighbours leaves addresses: %r2 of the lane's own word, %r3 of the word of the lane beside it.
const neighbours = `mov.b32 %r0, smem;
mov.b32 %r1, %tid.x;
mad.lo.u32 %r2, %r1, 4, %r0;
xor.b32 %r3, %r1, 1;
mad.lo.u32 %r3, %r3, 4, %r0;
`

// Each fault yields a finding of its kind at the line that is to blame, with the warp and lane.
func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name string
		s    snippet
		kind sim.Kind
		at   string // text of the line
		warp int
		lane int
		text string // part of the finding's
	}{
		{"global, past the end", snippet{body: "mov.b32 %r1, %tid.x;\nmad.wide.u32 %d0, %r1, 8, %out;\nst.global.b64 [%d0], %d0;", words: 40, threads: 64},
			sim.OutOfBounds, "st.global", 1, 8, `8 bytes at address 0x70000000140 is 320 bytes into "out", which has 320`},
		{"global, misaligned", snippet{body: "st.global.b32 [%out+2], 1;"}, sim.Misaligned, "st.global", 0, 0, "no multiple of 4"},
		{"global, nobody wrote", snippet{body: "ld.global.b32 %r0, [%out];"}, sim.Uninitialised, "ld.global", 0, 0, `reads 4 bytes at 0 of "out"`},
		{"shared, past the end", snippet{body: "mov.b32 %r0, smem;\nst.shared.b32 [%r0+8192], 1;"}, sim.OutOfBounds, "st.shared", 0, 0, "lies outside the CTA's"},
		{"shared, reserved by the system", snippet{body: "mov.b32 %r0, 512;\nst.shared.b32 [%r0], 1;"}, sim.OutOfBounds, "st.shared", 0, 0, "1024 to"},
		{"shared, nobody wrote", snippet{body: "mov.b32 %r0, smem;\nld.shared.b32 %r1, [%r0+64];"}, sim.Uninitialised, "ld.shared", 0, 0, "nobody wrote"},
		{"guard, nobody wrote", snippet{body: "@%p0 ld.global.b32 %r0, [%out];"}, sim.Uninitialised, "ld.global", 0, 0, "%p0"},
		{"register, nobody wrote", snippet{body: "add.u32 %r1, %r2, 1;"}, sim.Uninitialised, "add.u32", 0, 0, "%r2"},
		{"two warps, no barrier", snippet{body: "mov.b32 %r0, smem;\nst.shared.b32 [%r0], %r0;", threads: 64}, sim.Race, "st.shared", -2, -2, "nothing to order"},
		{"other CTA, no cluster barrier", snippet{body: "mov.b32 %r0, smem;\nst.shared.b32 [%r0], %r0;\nmapa.shared::cluster.u32 %r1, %r0, 0;\n" +
			"st.shared::cluster.b32 [%r1], %r0;", ctas: 2}, sim.Race, "st.shared::cluster", -2, -2, ""},
		{"barrier nobody initialised", snippet{body: "mov.b32 %r0, smem;\nmbarrier.arrive.shared.b64 _, [%r0];"}, sim.BarrierMisuse, "mbarrier.arrive", 0, 0, "no mbarrier"},
		{"too many arrivals", snippet{body: initBarrier + "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r0], 16;\nmbarrier.arrive.shared.b64 _, [%r0];"},
			sim.BarrierMisuse, "mbarrier.arrive", 0, 1, "more arrivals than the 1"},
		{"barrier as memory", snippet{body: initBarrier + "ld.shared.b64 %d0, [%r0];"}, sim.BarrierMisuse, "ld.shared", 0, 0, "as memory"},
		{"deadlock", snippet{body: initBarrier + "wait:\nmbarrier.try_wait.parity.shared.b64 %p1, [%r0], 0;\n@!%p1 bra wait;"},
			sim.Deadlock, "mbarrier.try_wait", 0, -1,
			"waits for the phase of parity 0 of the mbarrier at 0x400 of CTA 0: phase 0 is current (parity 0) and lacks 1 of 1 arrivals and 0 bytes"},
		{"livelock", snippet{body: "again:\nbra again;"}, sim.Livelock, "bra again", 0, -1, "circles"},
		{"named barrier that few come to", snippet{body: "bar.sync 3, 96;", threads: 64}, sim.Deadlock, "bar.sync", 0, -1, "barrier 3: 64 of 96 threads have come"},
		{"divergence", snippet{body: "mov.b32 %r1, %tid.x;\nsetp.eq.u32 %p0, %r1, 3;\n@%p0 bra other;\nbar.sync 1;\nother:\nbar.sync 0;"},
			sim.Divergence, "bar.sync 1", 0, -1, "lanes fffffff7 wait for lanes 00000008"},
		{"guard of an aligned instruction", snippet{body: "mov.b32 %r1, %tid.x;\nsetp.eq.u32 %p0, %r1, 3;\n@%p0 bar.sync 0;"}, sim.Divergence, "@%p0 bar.sync", 0, 0, "differs"},
		{"shuffle with a lane that is not named", snippet{body: "mov.b32 %r1, %tid.x;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, 0xfffffffe;"}, sim.Divergence, "shfl", 0, 0, "does not name it"},
		{"trap", snippet{body: "trap;"}, sim.Trapped, "trap", 0, 0, ""},
		{"copy without a fence", snippet{body: "mov.b32 %r0, smem;\nmov.b32 %r1, %tid.x;\nsetp.eq.u32 %p0, %r1, 0;\n@!%p0 ret;\n" +
			"st.shared.v4.b32 [%r0], {%r0, %r0, %r0, %r0};\ncp.async.bulk.global.shared::cta.bulk_group [%out], [%r0], 16;\n" +
			"cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;", words: 2}, sim.MissingFence, "cp.async.bulk.global", 0, -1, "fence.proxy.async"},
		{"source of a copy changed", snippet{body: "mov.b32 %r0, smem;\nmov.b32 %r1, %tid.x;\nsetp.eq.u32 %p0, %r1, 0;\n@!%p0 ret;\n" +
			"st.shared.v4.b32 [%r0], {%r0, %r0, %r0, %r0};\nfence.proxy.async;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [%r0], 16;\n" +
			"cp.async.bulk.commit_group;\nst.shared.b32 [%r0+4], 0;\ncp.async.bulk.wait_group 0;", words: 2}, sim.Race, "st.shared.b32", 0, 0, "still reads"},
		{"a word of another lane", snippet{body: neighbours + "st.shared.b32 [%r2], %r1;\nld.shared.b32 %r4, [%r3];"},
			sim.Race, "ld.shared", 0, 0, "lane 1 wrote"},
		{"a vote is no barrier", snippet{body: neighbours + "st.shared.b32 [%r2], %r1;\nsetp.eq.u32 %p0, %r1, 0;\nvote.sync.any.pred %p1, %p0, 0xffffffff;\nld.shared.b32 %r4, [%r3];"},
			sim.Race, "ld.shared", 0, 0, "lane 1 wrote"},
		{"a word that another lane still reads", snippet{body: neighbours + "st.shared.b32 [%r2], %r1;\nbar.warp.sync 0xffffffff;\nld.shared.b32 %r4, [%r3];\nst.shared.b32 [%r2], %r4;"},
			sim.Race, "st.shared.b32 [%r2], %r4", 0, 0, "lane 1 uses"},
		{"a word that several lanes read", snippet{body: neighbours + "st.shared.b32 [%r2], %r1;\nbar.warp.sync 0xffffffff;\nld.shared.b32 %r4, [%r0];\nsetp.eq.u32 %p0, %r1, 31;\n@%p0 st.shared.v4.b32 [%r0], {%r1, %r1, %r1, %r1};"},
			sim.Race, "@%p0 st.shared.v4", 0, 31, "another lane uses"},
		{"one word of all lanes", snippet{body: neighbours + "st.shared.b32 [%r0], %r1;"}, sim.Race, "st.shared", 0, 1, "lane 0 wrote"},
		{"half the warp meets", snippet{body: neighbours + "st.shared.b32 [%r2], %r1;\nsetp.ge.u32 %p0, %r1, 16;\n@%p0 bra on;\nbar.warp.sync 0xffff;\non:\nld.shared.b32 %r4, [%r3];"},
			sim.Race, "ld.shared", 0, 16, "lane 17 wrote"},
		{"tensor memory not freed", snippet{body: "mov.b32 %r0, smem;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;", blackwell: true},
			sim.TensorMemory, "ret", 0, -1, "without freeing"},
		{"tensor memory of another warp", snippet{body: "mov.b32 %r0, smem;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;\nld.shared.b32 %r1, [%r0];\n" +
			"add.u32 %r1, %r1, 0x200000;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1];\ntcgen05.wait::ld.sync.aligned;", blackwell: true},
			sim.TensorMemory, "tcgen05.ld", 0, -1, "its own begin at 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, _ := c.s.run(t)
			require.Error(t, rep.Err())
			var found *sim.Finding
			for _, f := range rep.Findings {
				if f.Kind == c.kind && found == nil {
					found = f
				}
			}
			require.NotNil(t, found, "%v", rep.Err())
			if c.at != "ret" && c.warp >= 0 {
				require.Equal(t, c.s.line(c.at), found.Line, "%s", found)
			}
			if c.warp >= 0 {
				require.Equal(t, [2]int{c.warp, c.lane}, [2]int{found.Warp, found.Lane}, "%s", found)
			}
			require.Contains(t, found.Text, c.text)
			require.Equal(t, "k", found.Kernel)
		})
	}
}

// What is in order yields none: copies both ways, atomics of all, a cluster that exchanges words.
func TestNoFindings(t *testing.T) {
	for name, s := range map[string]snippet{
		"copies": {words: 2, body: initBarrier + "@!%p0 ret;\nmov.b32 %r2, 16;\nst.shared.v4.b32 [%r0+64], {%r2, %r2, %r2, %r2};\nfence.proxy.async;\n" +
			"cp.async.bulk.global.shared::cta.bulk_group [%out], [%r0+64], 16;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n" +
			"mbarrier.arrive.expect_tx.shared.b64 _, [%r0], 16;\n" +
			"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0+128], [%out], 16, [%r0];\n" +
			"wait:\nmbarrier.try_wait.parity.shared.b64 %p1, [%r0], 0;\n@!%p1 bra wait;\nld.shared.b32 %r3, [%r0+132];\nst.global.b32 [%out], %r3;"},
		"cluster": {words: 1, ctas: 2, body: "mov.b32 %r0, smem;\nmov.b32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;\nmov.b32 %r4, %tid.x;\n" +
			"mad.lo.u32 %r5, %r4, 4, %r0;\nmapa.shared::cluster.u32 %r3, %r5, %r2;\nst.shared::cluster.b32 [%r3], %r1;\n" +
			"barrier.cluster.arrive;\nbarrier.cluster.wait;\nld.shared.b32 %r6, [%r5];\nsetp.ne.u32 %p0, %r6, %r2;\n@%p0 trap;\n" +
			"setp.eq.u32 %p1, %r4, 0;\n@%p1 st.global.b32 [%out], %r6;"},
		"atomics": {words: 1, threads: 96, body: "mov.b32 %r0, smem;\nmov.b32 %r1, %tid.x;\nsetp.eq.u32 %p0, %r1, 0;\n@%p0 st.shared.b32 [%r0], 0;\nbar.sync 0;\n" +
			"atom.shared.add.u32 %r2, [%r0], %r1;\nbar.sync 0;\nld.shared.b32 %r3, [%r0];\nsetp.ne.u32 %p1, %r3, 4560;\n@%p1 trap;"},
		"lanes": {body: neighbours + "st.shared.b32 [%r2], %r1;\nbar.warp.sync 0xffffffff;\nld.shared.b32 %r4, [%r3];\nbar.warp.sync 0xffffffff;\n" +
			"st.shared.b32 [%r2], %r4;\nld.shared.b32 %r5, [%r2];\nbar.sync 0;\nld.shared.b32 %r4, [%r3];"},
		"call": {body: "mov.b32 %r0, 1;\nadd.u32 %r0, %r0, 1;"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8) {
				s.seed = seed
				rep, _ := s.run(t)
				require.NoError(t, rep.Err())
			}
		})
	}
}

func TestRunStops(t *testing.T) {
	comp := chain(t, "none")
	a := mustEmit(t, comp, "", arch.SM90)
	p, err := sim.Load(string(a.PTX), a.Manifest)
	require.NoError(t, err)
	b := newBench(newProblem(comp, 5000, 512, 16, 1), 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = p.Run(ctx, b.mem, b.launch)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
