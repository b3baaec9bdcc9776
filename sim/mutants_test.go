package sim_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/golden"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sim"
)

// fault changes an emitted kernel: the nth match (from 0) of a pattern, or every one, becomes another text.
type fault struct {
	name    string
	pattern string
	to      string
	nth     int
}

// hopperFaults are planted in an sm_90 kernel: two CTAs a cluster, two stages, several tiles a CTA.
var hopperFaults = []fault{
	{"producer's first phase flipped", `mov.b32 +%phase, 1;`, `mov.b32 %phase, 0;`, 0},
	{"consumer's first phase flipped", `mov.b32 +%phase_1, 0;`, `mov.b32 %phase_1, 1;`, 0},
	{"producer never flips its phase", `@%wrap xor.b32 +%phase, %phase, 1;`, ``, 0},
	{"consumer never flips its phase", `@%wrap_1 xor.b32 +%phase_1, %phase_1, 1;`, ``, 0},
	{"producer counts three stages", `setp.eq.u32 +%wrap, %stage, 2;`, `setp.eq.u32 %wrap, %stage, 3;`, 0},
	{"consumer counts one stage", `setp.eq.u32 +%wrap_1, %stage_1, 2;`, `setp.eq.u32 %wrap_1, %stage_1, 1;`, 0},
	{"release of a stage dropped", `@%leader mbarrier.arrive[^;]*;`, ``, 0},
	{"release of the last stage dropped", `@%leader_1 mbarrier.arrive[^;]*;`, ``, 0},
	{"released by every lane", `@%leader mbarrier.arrive`, `mbarrier.arrive`, 0},
	{"released twice", `(@%leader mbarrier.arrive[^;]*;)`, "$1\n$1", 0},
	{"the other CTA is not told of the release", `mapa.shared::cluster.u32 +%remote, %released, %lane;`, `mapa.shared::cluster.u32 %remote, %released, %rank;`, 0},
	{"stage released before its products are done", `(wgmma.wait_group.sync.aligned 1;)((?s).*?)(@%leader mbarrier.arrive[^;]*;)`, "$2$3\n$1", 0},
	{"wrong stage released", `mov.b32 +%previous_stage, %stage_1;`, `mov.b32 %previous_stage, 0;`, 0},
	{"wait for all but two groups", `wgmma.wait_group.sync.aligned 1;`, `wgmma.wait_group.sync.aligned 2;`, 0},
	{"no wait for a group", `wgmma.wait_group.sync.aligned 1;`, ``, 0},
	{"last wait leaves one group", `wgmma.wait_group.sync.aligned 0;`, `wgmma.wait_group.sync.aligned 1;`, 0},
	{"products never committed", `wgmma.commit_group.sync.aligned;`, ``, 0},
	{"wgmma.fence removed", `wgmma.fence.sync.aligned;`, ``, 0},
	{"barrier initialisation not fenced", `fence.mbarrier_init.release.cluster;`, ``, 0},
	{"expect_tx 16 bytes too many", `(mbarrier.arrive.expect_tx[^;]*), 20480;`, `$1, 20496;`, 0},
	{"expect_tx 16 bytes too few", `(mbarrier.arrive.expect_tx[^;]*), 20480;`, `$1, 20464;`, 0},
	{"expect_tx forgets the hidden states", `(mbarrier.arrive.expect_tx[^;]*), 20480;`, `$1, 16384;`, 0},
	{"arrival without expect_tx", `mbarrier.arrive.expect_tx.shared.b64 _, (\[[^\]]*\]), 20480;`, `mbarrier.arrive.shared.b64 _, $1;`, 0},
	{"full barrier wants two arrivals", `(mbarrier.init[^;]*), 1;`, `$1, 2;`, 0},
	{"empty barrier wants half the arrivals", `(mbarrier.init[^;]*), 16;`, `$1, 8;`, 1},
	{"empty barrier wants too many arrivals", `(mbarrier.init[^;]*), 16;`, `$1, 17;`, 0},
	{"barrier not initialised", `mbarrier.init[^;]*, 1;`, ``, 1},
	{"hidden states sent to one CTA only", `mov.b16 +%peers, 3;`, `mov.b16 %peers, 1;`, 0},
	{"multicast past the cluster", `mov.b16 +%peers, 3;`, `mov.b16 %peers, 7;`, 0},
	{"both CTAs fetch the same share", `(mad.lo.u32 +%batch_row), %rank,`, `$1, 0,`, 0},
	{"shares on top of one another", `mad.lo.u32 +%share, %rank, 2048, %dst;`, `mov.b32 %share, %dst;`, 0},
	{"copy to an address that the swizzle does not allow", `\[%dst\], \[%weights_map`, `[%dst+64], [%weights_map`, 0},
	{"copy past the stage", `\[%dst\], \[%weights_map`, `[%dst+1024], [%weights_map`, 0},
	{"coordinates swapped", `\{%x, %row\}`, `{%row, %x}`, 0},
	{"k step of half a stage", `add.u32 +%x, %x, 64;`, `add.u32 %x, %x, 32;`, 0},
	{"swizzle bits of A wrong", `mov.b32 +%r100, 0x40000040;`, `mov.b32 %r100, 0x80000040;`, 0},
	{"swizzle bits of B missing", `mov.b32 +%r102, 0x40000040;`, `mov.b32 %r102, 0x00000040;`, 0},
	{"descriptor stride halved", `mov.b32 +%r102, 0x40000040;`, `mov.b32 %r102, 0x40000020;`, 0},
	{"descriptor address not shifted", `shr.u32 +%r99, %stage_rows, 4;`, `shr.u32 %r99, %stage_rows, 3;`, 0},
	{"descriptor advances twice as far", `add.u64 +%rd28, %weights_desc, 2;`, `add.u64 %rd28, %weights_desc, 4;`, 0},
	{"descriptor of B never advances", `add.u64 +%rd29, %hidden_desc, 2;`, `add.u64 %rd29, %hidden_desc, 0;`, 0},
	{"second warpgroup reads the first's rows", `mad.lo.u32 +%stage_rows, %warpgroup, 8192,`, `mad.lo.u32 %stage_rows, %warpgroup, 0,`, 0},
	{"first product accumulates", `setp.ne.u32 +%accumulate, %step_1, 0;`, `setp.eq.u32 %accumulate, %step_1, %step_1;`, 0},
	{"no product accumulates over stages", `setp.ne.u32 +%accumulate, %step_1, 0;\n`, "setp.ne.u32 %accumulate, %step_1, %step_1;\n", 0},
	{"wrong column offset", `mad.lo.u32 +%columns_2, %group_2, 16,`, `mad.lo.u32 %columns_2, %group_2, 8,`, 0},
	{"stage base of another size", `mad.lo.u32 +%stage_base, %stage_1, 20480,`, `mad.lo.u32 %stage_base, %stage_1, 20416,`, 0},
	{"named barrier counts too many", `bar.sync +1, 256;`, `bar.sync 1, 288;`, 1},
	{"named barriers differ", `bar.sync +1, 256;`, `bar.sync 2, 512;`, 1},
	{"no barrier after the ticket", `bar.sync +1, 256;`, ``, 5},
	{"cluster does not wait at the end", `barrier.cluster.wait;`, ``, 1},
	{"cluster does not wait at the start", `barrier.cluster.arrive;\s*barrier.cluster.wait;`, `bar.sync 0;`, 0},
	{"no arrival at the cluster's barrier", `barrier.cluster.arrive;`, ``, 0},
	{"ticket off by one", `sub.u32 +%last_ticket, %last_ticket, 1;`, ``, 0},
	{"keys are left behind", `atom.relaxed.gpu.global.exch.b64 +(%key_6), \[%rd145\], 0;`, `ld.global.b64 $1, [%rd145];`, 0},
	{"tokens written twice as far apart", `mad.wide.u32 +%rd146, %batch_row_14, 4, %tokens;`, `mad.wide.u32 %rd146, %batch_row_14, 8, %tokens;`, 0},
	{"seeds read at half their distance", `mad.wide.u32 +%rd1, %r4, 8, %seeds;`, `mad.wide.u32 %rd1, %r4, 4, %seeds;`, 0},
	{"guard of a reduction lost", `@%active red.relaxed.gpu.global.max.u64`, `red.relaxed.gpu.global.max.u64`, 0},
	{"mask words off by one", `shr.u32 +%mask_word_index, %token_low, 5;`, `shr.u32 %mask_word_index, %token_low, 4;`, 0},
	{"mask read where there is none", `setp.lt.u32 +%has_mask, %mask_word_index, %mask_words;`, `setp.eq.u32 %has_mask, %mask_words, %mask_words;`, 0},
	{"vote without half the warp", `(vote.sync.any.pred +%any, %hit), 0xffffffff;`, `$1, 0xffff;`, 0},
	{"ballot of half the warp", `(vote.sync.ballot.b32 +%lanes, %mine), 0xffffffff;`, `$1, 0xffff;`, 0},
	{"row constants stored misaligned", `(st.shared.v4.f32 +\[%r95)\+41984`, `$1+41988`, 0},
	{"lanes part before an aligned instruction", `(mov.b32 +%step_1, 0;)`, "$1\nsetp.eq.u32 %more_1, %lane, 5;\n@%more_1 bra finish;", 0},
	{"a warp leaves early", `(mov.b32 +%step_1, 0;)`, "$1\nsetp.eq.u32 %more_1, %warp, 2;\n@%more_1 exit;", 0},
	{"writes the stage that is being multiplied", `(wgmma.commit_group.sync.aligned;)`, "$1\nst.shared.b32 [%stage_rows], %lane;", 0},
	{"reads an accumulator in flight", `(wgmma.commit_group.sync.aligned;)`, "$1\nmov.f32 %alpha, %acc0;", 0},
}

// barrierFaults need rows that several warps prepare, and tiles of one k step: the ring of stages orders longer ones anyway.
var barrierFaults = []fault{
	{"named barrier counts too few", `bar.sync +1, 256;`, `bar.sync 1, 128;`, 1},
	{"no barrier before the old rows go out", `bar.sync +1, 256;`, ``, 0},
	{"no barrier after the rows are prepared", `bar.sync +1, 256;`, ``, 1},
	{"no barrier after the ticket", `bar.sync +1, 256;`, ``, 5},
}

// ticketFaults need rows that many warps of many CTAs publish.
var ticketFaults = []fault{
	{"no barrier before the ticket", `bar.sync +1, 256;`, ``, 4},
}

// registerFaults need a kernel with setmaxnreg.
var registerFaults = []fault{
	{"producer keeps its registers", `setmaxnreg.dec.sync.aligned.u32 +40;`, ``, 0},
	{"consumers take more than there is", `setmaxnreg.inc.sync.aligned.u32 +232;`, `setmaxnreg.inc.sync.aligned.u32 240;`, 0},
	{"consumers ask for no more", `setmaxnreg.inc.sync.aligned.u32 +232;`, ``, 0},
	{"consumers give registers away", `setmaxnreg.inc.sync.aligned.u32 +232;`, `setmaxnreg.dec.sync.aligned.u32 96;`, 0},
	{"setmaxnreg raises with dec", `setmaxnreg.inc.sync.aligned.u32 +232;`, `setmaxnreg.dec.sync.aligned.u32 232;`, 0},
}

// blackwellFaults are planted in an sm_100 kernel.
var blackwellFaults = []fault{
	{"producer's first phase flipped", `mov.b32 +%phase, 1;`, `mov.b32 %phase, 0;`, 0},
	{"issuer's first phase flipped", `mov.b32 +%phase_1, 0;`, `mov.b32 %phase_1, 1;`, 0},
	{"issuer does not wait for the accumulator", `mov.b32 +%phase_2, 1;`, `mov.b32 %phase_2, 0;`, 0},
	{"samplers' first phase flipped", `mov.b32 +%phase_3, 0;`, `mov.b32 %phase_3, 1;`, 0},
	{"issuer never flips the accumulator's phase", `@%wrap_2 xor.b32 +%phase_2, %phase_2, 1;`, ``, 0},
	{"stage never given back", `tcgen05.commit[^;]*%peers_1;`, ``, 0},
	{"stage given back to one CTA only", `(tcgen05.commit[^;]*)multicast::cluster.b64 (\[[^\]]*\]), %peers_1;`, `${1}b64 $2;`, 0},
	{"stage given back before the products", `(tcgen05.mma((?s).*?))(mov.b16 +%peers_1, 3;\s*)(tcgen05.commit[^;]*%peers_1;)`, "$3$4\n$1", 0},
	{"accumulator never announced", `tcgen05.commit[^;]*\[%tile_slot\+50992\];`, ``, 0},
	{"accumulator announced on the wrong barrier", `(tcgen05.commit[^;]*\[%tile_slot)\+50992\]`, `$1+51008]`, 0},
	{"accumulator never given back", `@%leader_1 mbarrier.arrive[^;]*;`, ``, 0},
	{"accumulator given back by every lane", `@%leader_1 mbarrier.arrive`, `mbarrier.arrive`, 0},
	{"samplers' barrier wants half the arrivals", `(mbarrier.init[^;]*), 8;`, `$1, 4;`, 0},
	{"barrier initialisation not fenced", `fence.mbarrier_init.release.cluster;`, ``, 0},
	{"expect_tx 16 bytes too many", `(mbarrier.arrive.expect_tx[^;]*), 20480;`, `$1, 20496;`, 0},
	{"no fence after the accumulator is full", `tcgen05.fence::after_thread_sync;`, ``, 3},
	{"no fence after the accumulator is empty", `tcgen05.fence::after_thread_sync;((?s).*?)tcgen05.fence::after_thread_sync;`, "$1", 1},
	{"no fence before the accumulator is given back", `tcgen05.fence::before_thread_sync;`, ``, 1},
	{"loads not waited for", `tcgen05.wait::ld.sync.aligned;`, ``, 0},
	{"tensor memory not freed", `tcgen05.dealloc[^;]*;`, ``, 0},
	{"half of tensor memory freed", `(tcgen05.dealloc[^;]*), 64;`, `$1, 32;`, 0},
	{"too little tensor memory", `(tcgen05.alloc[^;]*), 64;`, `$1, 32;`, 0},
	{refusedFault, `(tcgen05.alloc[^;]*), 64;`, `$1, 48;`, 0},
	{"allocates after giving up the permit", `(tcgen05.alloc[^;]*;)\s*(tcgen05.relinquish[^;]*;)`, "$2\n$1", 0},
	{"freed before the samplers are done", `barrier.sync +0;`, ``, 0},
	{"N of the instruction wrong", `0x8080490`, `0x8040490`, 0},
	{"M of the instruction wrong", `0x8080490`, `0x4080490`, 0},
	{"types of the instruction wrong", `0x8080490`, `0x8080010`, 0},
	{"B transposed", `0x8080490`, `0x8090490`, 0},
	{"swizzle bits wrong", `mov.b32 +%r2, 0x40004040;`, `mov.b32 %r2, 0x80004040;`, 0},
	{"descriptor without its constant", `mov.b32 +%r2, 0x40004040;`, `mov.b32 %r2, 0x40000040;`, 0},
	{"descriptor stride wrong", `mov.b32 +%r4, 0x40004040;`, `mov.b32 %r4, 0x40004080;`, 0},
	{"descriptor never advances", `add.u64 +%rd0, %weights_desc, 2;`, `add.u64 %rd0, %weights_desc, 0;`, 0},
	{"first product accumulates", `setp.ne.u32 +%accumulate, %step_1, 0;`, `setp.eq.u32 %accumulate, %step_1, %step_1;`, 0},
	{"lanes of another warp", `shl.b32 +%warp_lanes, %quarter, 21;`, `shl.b32 %warp_lanes, %quarter, 20;`, 0},
	{"accumulators overlap", `mad.lo.u32 +%accumulator, %stage_2, 32,`, `mad.lo.u32 %accumulator, %stage_2, 16,`, 0},
	{"samplers read the other accumulator", `mad.lo.u32 +%tensor_column, %stage_3, 32,`, `mad.lo.u32 %tensor_column, %stage_3, 0,`, 0},
	{"every lane issues products", `@!%leader bra +done;`, ``, 0},
}

// plant applies a fault; it must change the text.
func (f fault) plant(t testing.TB, text string) string {
	t.Helper()
	re := regexp.MustCompile(f.pattern)
	all := re.FindAllStringSubmatchIndex(text, -1)
	require.Greater(t, len(all), max(f.nth, 0), "%s: the kernel has no %s", f.name, f.pattern)
	if f.nth != every {
		all = all[f.nth : f.nth+1]
	}
	out, done := "", 0
	for _, m := range all {
		out += text[done:m[0]] + string(re.ExpandString(nil, f.to, text, m))
		done = m[1]
	}
	out += text[done:]
	require.NotEqual(t, text, out, f.name)
	return out
}

const (
	notCaught = "NOT CAUGHT"
	refused   = "refused"
	// refusedFault is the one that the instruction set's tables know.
	refusedFault = "an odd number of columns"
)

// mutantSeeds is how many orders a mutant has to give itself away.
const mutantSeeds = 48

// verdict runs a mutant until something shows: findings, a wrong answer, or a workspace that is not left zero.
func verdict(t testing.TB, text string, k *kernelUnderTest, seeds uint64) string {
	if _, err := sim.Load(text, k.art.Manifest); err != nil {
		return refused
	}
	for seed := range seeds {
		rep, b := runKernel(t, text, k.art.Manifest, k.p, k.ctas, seed)
		if len(rep.Findings) > 0 {
			kinds := map[string]bool{}
			for _, f := range rep.Findings {
				kinds[string(f.Kind)] = true
			}
			return "reported: " + strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
		}
		if wrong := k.wrong(b); wrong != "" {
			return wrong
		}
	}
	return notCaught
}

// wrong says what of a result is not the reference's.
func (k *kernelUnderTest) wrong(b *bench) string {
	if !slices.Equal(k.want.Tokens, ints(b.tokens)) {
		return "wrong tokens"
	}
	status, scores := ints(b.status), ints(b.scores)
	for i, want := range k.want.Scores {
		if status[i] != int32(k.want.Status[i]) {
			return "wrong status"
		}
		got := float64(math.Float32frombits(uint32(scores[i])))
		if off := math.Abs(got - float64(want)); got != float64(want) && off > 1e-4*(1+math.Abs(got)) || math.IsNaN(got) != math.IsNaN(float64(want)) {
			return "wrong scores"
		}
	}
	if k.wrongSums(b) {
		return "wrong log-sum-exp"
	}
	if k.wrongLogProbs(b) {
		return "wrong log-probabilities"
	}
	for _, w := range b.workspace {
		if slices.ContainsFunc(ints(w), func(v int32) bool { return v != 0 }) {
			return "workspace not left zero"
		}
	}
	return ""
}

// kernelUnderTest is a kernel with a problem and the right answer.
type kernelUnderTest struct {
	name string
	art  *gen.Artifact
	p    *problem
	ctas int
	want *reference.Result
	lse  []float64 // nil where it is not asked for
}

func underTest(t testing.TB, a arch.Arch, tile, transforms string, vocab, hidden, batch, ctas int) *kernelUnderTest {
	comp := chain(t, transforms)
	k := &kernelUnderTest{name: a.Name + " " + tile, art: frozen(t, comp, tile, a), p: newProblem(comp, vocab, hidden, batch, 3), ctas: ctas}
	k.p.addOddRows()
	k.answer(t)
	return k
}

// answer computes the right answer.
func (k *kernelUnderTest) answer(t testing.TB) {
	var err error
	k.want, err = reference.Sample(context.Background(), &k.p.req)
	require.NoError(t, err)
}

// setNaN makes the first row fail by one token.
func (k *kernelUnderTest) setNaN(t testing.TB, token int) {
	r := &k.p.req
	r.Bias[token] = float32(math.NaN())
	r.Mask[token/32] |= 1 << (token % 32)
	k.answer(t)
}

// addOddRows makes some rows of a problem with temperature, mask and bias ones that the epilogue has to treat apart. Each
// kind stands in places that several column tiles have.
func (p *problem) addOddRows() {
	r, n, inf, nan := &p.req, p.req.Batch, float32(math.Inf(1)), float32(math.NaN())
	if r.Temperature == nil || r.Mask == nil || r.Bias == nil || n < 24 {
		return
	}
	vocab := p.shape.Vocab
	bias := func(row int) []float32 { return r.Bias[row*vocab:][:vocab] }
	mask := func(row int) []uint32 { return r.Mask[row*r.MaskStride:][:r.MaskWords] }
	for i, t := range []float32{0, nan, -1, inf} {
		r.Temperature[1+i] = t
	}
	for row, token := range map[int]int{5: vocab - 10, 6: 3, n - 4: vocab * 7 / 10, n - 3: vocab * 4 / 5} {
		bias(row)[token] = nan
		mask(row)[token/32] |= 1 << (token % 32)
	}
	for _, row := range []int{7, n - 2} {
		clear(mask(row)) // no token is allowed
	}
	for i := range bias(8) {
		bias(8)[i] = -inf
	}
	for row := 9; row < 17; row++ { // of one block of equal logits, the first token wins
		clear(mask(row))
		clear(r.H[row*p.shape.Hidden:][:p.shape.Hidden])
		clear(bias(row))
		block := row - 9
		mask(row)[block/2] = 0xFFFF << (16 * (block % 2))
	}
	bias(17)[vocab/2] = inf
	mask(17)[vocab/64] |= 1 << (vocab / 2 % 32)
	for _, row := range []int{18, n - 1} { // all scores are equal: the lowest id wins, unless a floor does
		r.Temperature[row] = 0
		clear(r.H[row*p.shape.Hidden:][:p.shape.Hidden])
		clear(bias(row))
		mask(row)[0] &^= 1
	}
}

// freeze emits the kernels of testdata anew: go test ./sim -freeze. Faults name registers, so that those that no longer find
// their place have to be ported; the test says which.
var freeze = flag.Bool("freeze", false, "emit the frozen kernels of testdata anew")

// frozen is the kernel that faults are planted in: as it was emitted when they were written.
func frozen(t testing.TB, comp ir.Computation, tile string, a arch.Arch) *gen.Artifact {
	t.Helper()
	base := filepath.Join("testdata", a.Name+"_"+tile)
	if *freeze {
		out := mustEmit(t, comp, tile, a)
		require.NoError(t, os.WriteFile(base+".ptx", out.PTX, 0o644))
		require.NoError(t, os.WriteFile(base+".json", out.Manifest.Encode(), 0o644))
	}
	text, err := os.ReadFile(base + ".ptx")
	require.NoError(t, err)
	data, err := os.ReadFile(base + ".json")
	require.NoError(t, err)
	m, err := manifest.Decode(data)
	require.NoError(t, err)
	return &gen.Artifact{PTX: text, Manifest: m}
}

// plantAll plants faults one at a time and returns how each was seen; "" for one that was left out.
func (k *kernelUnderTest) plantAll(t *testing.T, faults []fault) []string {
	seen := make([]string, len(faults))
	t.Run(strings.ReplaceAll(k.name, " ", "_"), func(t *testing.T) {
		for i, f := range faults {
			if raceEnabled && (i%32 != 0 || len(faults) < 32) { // a sample is enough for the detector
				continue
			}
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				seen[i] = verdict(t, f.plant(t, string(k.art.PTX)), k, mutantSeeds)
				require.NotEqual(t, notCaught, seen[i])
				require.Equal(t, f.name == refusedFault, seen[i] == refused, "only text that is no PTX is refused")
			})
		}
	})
	return seen
}

// Every planted fault is reported or seen in the answer. The list with what gave each away is testdata/mutants.txt.
func TestMutants(t *testing.T) {
	const transforms = "bias=rows,mask,temperature"
	var out strings.Builder
	total := 0
	lone := underTest(t, arch.SM90, "m128n32k64s2c2", transforms, 1100, 328, 1, 4)
	lone.setNaN(t, 1000)
	hopper := underTest(t, arch.SM90, "m128n32k64s2c2", transforms, 1100, 328, 40, 4)
	wide := underTest(t, arch.SM90, "m128n256k64s4c2", "none", 300, 64, 20, 2)
	blackwell := underTest(t, arch.SM100, "m128n32k64s2c2", transforms, 1100, 328, 40, 4)
	for _, set := range []struct {
		k      *kernelUnderTest
		faults []fault
	}{
		{hopper, slices.Concat(hopperFaults, samplingFaults, hopperSamplingFaults)},
		{lone, loneRowFaults},
		{underTest(t, arch.SM90, "m128n64k64s4c1", transforms, 380, 40, 60, 3), barrierFaults},
		{underTest(t, arch.SM90, "m128n256k64s4c2", "none", 2000, 64, 250, 16), ticketFaults},
		{wide, slices.Concat(registerFaults, searchFaults)},
		{blackwell, slices.Concat(blackwellFaults, samplingFaults, blackwellSamplingFaults)},
		{summedUnderTest(t, arch.SM90, ir.Grouped, "m128n32k64s3c2", transforms, 1100, 72, 40, 16), slices.Concat(groupedFaults, sumFaults, hopperGroupedFaults)},
		{summedUnderTest(t, arch.SM100, ir.Grouped, "m128n32k64s3c2", transforms, 1100, 72, 40, 16), slices.Concat(groupedFaults, sumFaults, blackwellGroupedFaults)},
		{summedUnderTest(t, arch.SM90, ir.Gumbel, "m64n32k64s3c1", "temperature", 500, 72, 40, 3), passFaults},
		{underTest(t, arch.SM90, "m128n32k64s4c1p", transforms, 812, 328, 30, 2), turnsFaults},
		{limitUnderTest(t, ir.Gumbel, "m128n64k64s4c1p", false), limitFaults},
		{limitUnderTest(t, ir.Gumbel, "m128n64k64s4c1p", true), nanLimitFaults},
		{limitUnderTest(t, ir.Grouped, "m192n64k64s3c1p", false), meanFloorFaults},
		{logProbUnderTest(t, arch.SM90, "m128n32k64s5c1", transforms, 700, 72, 40, 3), slices.Concat(logProbFaults, slotFaults)},
		{truncatedUnderTest(t, arch.SM90, "m64n32k64s4c1", 400, 72, 24, 3), slices.Concat(collectFaults, resolveFaults)},
		{manyKeptUnderTest(t), bitonicFaults},
	} {
		if !raceEnabled {
			require.Equal(t, notCaught, verdict(t, string(set.k.art.PTX), set.k, 3), "the kernel itself is right")
		}
		fmt.Fprintf(&out, "%s\n", set.k.name)
		for i, seen := range set.k.plantAll(t, set.faults) {
			if seen != "" {
				fmt.Fprintf(&out, "  %-60s %s\n", set.faults[i].name, seen)
				total++
			}
		}
	}
	t.Logf("%d mutants", total)
	if raceEnabled {
		return
	}
	require.GreaterOrEqual(t, total, 200)
	golden.File(t, "testdata/mutants.txt", []byte(out.String()))
}
