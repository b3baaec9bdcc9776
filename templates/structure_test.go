package templates_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// kernel is an emitted kernel as its text says.
type kernel struct {
	plan     *tiling.Plan
	text     string
	manifest *manifest.Kernel
	entry    *ptx.Func
	code     []*ptx.Instr
}

var emitted map[string]kernel

// kernels emits the tiles that a tuner would try at some widths, for the least and the most that an epilogue does.
func kernels(t *testing.T) map[string]kernel {
	t.Helper()
	if emitted == nil {
		emitted = emitKernels(t)
	}
	return emitted
}

func emitKernels(t *testing.T) map[string]kernel {
	t.Helper()
	out := map[string]kernel{}
	for _, a := range arch.All() {
		for _, chain := range []string{"none", "softcap=30,bias=rows,mask,temperature"} {
			c, err := ir.ParseChain(chain)
			require.NoError(t, err)
			comp := ir.Computation{Chain: c}
			for i, batch := range []int{1, 64, 256} {
				for _, comp.Sampler = range []ir.Sampler{ir.Gumbel, ir.Grouped} {
					comp.LogSumExp = comp.Sampler == ir.Grouped && i > 0
					plans, _ := tiling.Candidates(a, comp, batch)
					for _, p := range plans {
						k := parse(t, gen.Request{Arch: a, Computation: comp, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Tile: p.Tile})
						k.plan = p
						out[k.entry.Name] = k
					}
				}
			}
		}
	}
	return out
}

// sm90 reports whether the kernel multiplies by wgmma; others do by tcgen05.
func (k kernel) sm90() bool { return k.plan.Arch.TMEMColumns == 0 }

func parse(t *testing.T, r gen.Request) kernel {
	t.Helper()
	a, err := gen.Emit(r)
	require.NoError(t, err)
	m, err := ptx.Parse(string(a.PTX))
	require.NoError(t, err)
	k := kernel{text: string(a.PTX), manifest: a.Manifest, entry: m.Entries()[0]}
	for _, s := range k.entry.Body {
		if in, ok := s.(*ptx.Instr); ok {
			k.code = append(k.code, in)
		}
	}
	return k
}

// find returns the instructions whose mnemonic starts with one of some prefixes, in order, and the place of the first.
func (k kernel) find(prefixes ...string) (found []*ptx.Instr, first int) {
	first = -1
	for i, in := range k.code {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(mnemonic(in), p) }) {
			if found = append(found, in); first < 0 {
				first = i
			}
		}
	}
	return found, first
}

// mnemonic is an instruction's text without guard and operands.
func mnemonic(in *ptx.Instr) string {
	fields := strings.Fields(in.String())
	if strings.HasPrefix(fields[0], "@") {
		fields = fields[1:]
	}
	return fields[0]
}

// offset is that of the instruction's address operand n.
func offset(t *testing.T, in *ptx.Instr, n int) int {
	t.Helper()
	m, ok := in.Args[n].(ptx.Mem)
	require.True(t, ok, "%s", in)
	return int(m.Off)
}

func TestDirectives(t *testing.T) {
	// The lowest version that has the target and its tensor core, and the target that travels furthest.
	headers := map[string]string{
		"sm_90": "\n.version 8.0\n.target sm_90a\n", "sm_100": "\n.version 8.8\n.target sm_100f\n",
	}
	for name, k := range kernels(t) {
		require.Contains(t, k.text, headers[k.plan.Arch.Name])
		require.Equal(t, [3]int{k.plan.Pipeline.Threads, 1, 1}, k.entry.ReqThreads, name)
		cluster := [3]int{}
		if c := k.plan.Tile.Cluster; c > 1 {
			cluster = [3]int{c, 1, 1}
		}
		require.Equal(t, cluster, k.entry.ReqCluster, name)

		require.Equal(t, k.plan.Pipeline.LaunchRegisters, k.entry.MaxRegs, name)
		slow, _ := k.find("div.rn.f32", "rcp.rn.f32", "call")
		require.Empty(t, slow, "%s: a call keeps the driver's linker from running wgmma side by side", name)
		shares, _ := k.find("setmaxnreg")
		require.Equal(t, k.plan.Pipeline.ProducerRegisters > 0, len(shares) > 0, name)
	}
}

func TestProductsFillTheAccumulators(t *testing.T) {
	for name, k := range kernels(t) {
		if !k.sm90() {
			products, _ := k.find("tcgen05.mma.cta_group::1.kind::f16")
			require.Len(t, products, k.plan.Tile.K/16, name)
			continue
		}
		// A loop for each number of 64 rows that a warpgroup may have of a tile.
		sets, loops := k.plan.Pipeline.Accumulators/(k.plan.Tile.N/2), 0
		for n := sets; n > 0; n-- {
			loops += n
		}
		products, _ := k.find("wgmma.mma_async")
		require.Len(t, products, loops*k.plan.Tile.K/16, name)
		used := map[string]bool{}
		for _, p := range products {
			require.Equal(t, fmt.Sprintf("wgmma.mma_async.sync.aligned.m64n%dk16.f32.bf16.bf16", k.plan.Tile.N), mnemonic(p))
			require.Len(t, p.Args[0], k.plan.Tile.N/2, name)
			used[fmt.Sprint(p.Args[0])] = true
		}
		require.Len(t, used, sets, "%s: one set of accumulators for each 64 rows", name)
	}
}

// The noise of a tile takes as long to draw as two stages to multiply. A warpgroup that hands the tensor core over gives its last stage
// back first, for the other to have it filled, and draws the noise of its last tile ahead of its turn, since nothing hides it behind; one
// that multiplies alone draws while its last products are made.
func TestNoiseIsDrawnWhereNobodyWaits(t *testing.T) {
	for name, k := range kernels(t) {
		if !k.sm90() {
			continue
		}
		place := func(text string, from int) int {
			at := strings.Index(k.text[from:], text)
			require.NotEqual(t, -1, at, "%s: %s", name, text)
			return from + at
		}
		drawn, last := place("draw_word:", 0), place("wgmma.wait_group.sync.aligned 0;", 0)
		back := place("mbarrier.arrive", last)
		if !k.plan.Tile.PingPong {
			require.Less(t, drawn, back, name)
			continue
		}
		require.Less(t, drawn, place("wait_turn:", 0), name)
		require.Greater(t, place("draw_word_1:", 0), back, name)
	}
}

// Tensor memory is allocated once, the permit to allocate given up, and as many columns given back: a CTA that ends with
// columns allocated hangs the next.
func TestTensorMemoryIsGivenBack(t *testing.T) {
	for name, k := range kernels(t) {
		alloc, _ := k.find("tcgen05.alloc")
		permit, _ := k.find("tcgen05.relinquish_alloc_permit")
		free, _ := k.find("tcgen05.dealloc")
		if k.sm90() {
			require.Empty(t, alloc, name)
			continue
		}
		require.Equal(t, []int{1, 1, 1}, []int{len(alloc), len(permit), len(free)}, name)
		columns := ptx.Operand(ptx.Imm(k.plan.Tensor.Alloc))
		require.Equal(t, columns, alloc[0].Args[1], name)
		require.Equal(t, columns, free[0].Args[1], name)
	}
}

// Every barrier that is waited for, armed or arrived at has been initialised with the arrivals that it will get.
func TestBarriersAreInitialised(t *testing.T) {
	for name, k := range kernels(t) {
		s, l, x := k.plan.Storage, k.plan.Pipeline, k.plan.Tensor
		want := map[int]ptx.Operand{}
		for i := range k.plan.Tile.Stages {
			want[s.Full+8*i] = ptx.Imm(1) // the producer's arrival
			want[s.Empty+8*i] = ptx.Imm(l.EmptyArrivals)
		}
		if k.plan.Tile.PingPong {
			want[s.Turns], want[s.Turns+8] = ptx.Imm(4), ptx.Imm(4) // a warpgroup's warps
		}
		for i := range x.Buffers {
			want[s.Tiles+8*i] = ptx.Imm(1) // a commit
			want[s.Tiles+8*(x.Buffers+i)] = ptx.Imm(l.Samplers / 32)
		}
		got := map[int]ptx.Operand{}
		inits, _ := k.find("mbarrier.init")
		for _, in := range inits {
			got[offset(t, in, 0)] = in.Args[1]
		}
		require.Equal(t, want, got, name)
		require.Len(t, inits, len(want), name)

		// Rings are indexed from their first barrier: every role waits for the first of one of them.
		waited := map[int]bool{}
		waits, wait := k.find("mbarrier.try_wait", "mbarrier.test_wait")
		for _, in := range waits {
			waited[offset(t, in, 1)] = true
		}
		rings := map[int]bool{s.Full: true, s.Empty: true}
		if k.plan.Tile.PingPong {
			rings[s.Turns] = true
		}
		if x.Buffers > 0 {
			rings[s.Tiles], rings[s.Tiles+8*x.Buffers] = true, true
		}
		require.Equal(t, rings, waited, name)

		_, fence := k.find("fence.mbarrier_init")
		_, sync := k.find("barrier.cluster.wait", "bar.sync", "barrier.sync")
		require.True(t, 0 < fence && fence < sync && sync < wait, "%s: initialised, seen by all, then used", name)
	}
}

// A stage is armed where its weights are copied: ahead of the wait for the grid before, and in the ring. That it expects what
// arrives, the simulator sees: a stage that gets less or more never fills.
func TestStagesAreArmedWhereTheyAreFilled(t *testing.T) {
	for name, k := range kernels(t) {
		for _, p := range k.manifest.Params {
			if p.Map != nil && p.Map.Tensor == "weights" {
				require.Zero(t, k.plan.Storage.WeightStage/128%int(p.Map.Box[1]), "%s: whole boxes fill a stage", name)
			}
		}
		expect, _ := k.find("mbarrier.arrive.expect_tx")
		require.Len(t, expect, 2, name)
		require.Equal(t, expect[0].Args[2], expect[1].Args[2], name)
		copies, _ := k.find("cp.async.bulk.tensor")
		require.Len(t, copies, 3, name)
		for i, tensor := range []string{"weights", "weights", "hidden"} {
			require.Equal(t, k.plan.Tile.Cluster > 1 && k.sharedTensor() == tensor,
				strings.Contains(mnemonic(copies[i]), ".multicast::cluster"), "%s: %s", name, tensor)
		}
	}
}

// sharedTensor is what the CTAs of a cluster fetch for each other.
func (k kernel) sharedTensor() string {
	if k.plan.Tile.Split {
		return "weights"
	}
	return "hidden"
}

// .release.cluster on the arrival that frees a stage compiles to a fence and doubles the time of a k step (measured on an
// H200). Consumers only read the stage, so that the plain arrival is right.
func TestRemoteArrivalsHaveNoFence(t *testing.T) {
	for name, k := range kernels(t) {
		arrive, _ := k.find("mbarrier.arrive")
		remote := 0
		for _, in := range arrive {
			require.NotContains(t, mnemonic(in), ".release", name)
			if strings.Contains(mnemonic(in), "shared::cluster") {
				remote++
			}
		}
		require.Equal(t, k.sm90() && k.plan.Tile.Cluster > 1, remote > 0, name)
	}
}

// Scores stay float32 to the last comparison: nothing but the tensor core knows a 16-bit float.
func TestScoresAreNeverNarrowed(t *testing.T) {
	for name, k := range kernels(t) {
		for _, in := range k.code {
			if m := mnemonic(in); !strings.HasPrefix(m, "wgmma.") && !strings.HasPrefix(m, "tcgen05.mma") {
				require.NotRegexp(t, `\.(f16|bf16|tf32|e4m3|e5m2)`, m, name)
			}
		}
	}
}

// The launch before this one may still run when a kernel starts (programmatic dependent launch): it has to end before
// anything of its memory is read or written. Weights are nobody's result, and the first copies of them come before. The two
// roles that touch memory, which stand one after the other, wait each for itself.
func TestMemoryIsTouchedAfterTheWait(t *testing.T) {
	for name, k := range kernels(t) {
		dependents, next := k.find("griddepcontrol.launch_dependents")
		waits, produce := k.find("griddepcontrol.wait")
		require.Len(t, dependents, 1, name)
		require.Len(t, waits, 2, name)
		sample := produce + 1 + slices.IndexFunc(k.code[produce+1:], func(in *ptx.Instr) bool { return in == waits[1] })
		copies, first := k.find("cp.async.bulk.tensor")
		hidden := slices.Index(k.code, copies[2])
		_, touch := k.find("ld.global", "st.global", "atom", "red.global")
		require.True(t, next < first && first < produce && produce < hidden && hidden < sample && sample < touch,
			"%s: in order: dependents at %d, weights %d, wait %d, hidden states %d, wait %d, memory %d", name, next, first, produce, hidden, sample, touch)
	}
}

// A CTA of a cluster must outlive the arrivals of its peers: all meet before they return.
func TestClustersLeaveTogether(t *testing.T) {
	for name, k := range kernels(t) {
		last := k.code[len(k.code)-1]
		require.Equal(t, "ret", strings.TrimSuffix(mnemonic(last), ";"), name)
		rets, _ := k.find("ret", "exit")
		require.Len(t, rets, 1, "%s: one way out", name)
		before := mnemonic(k.code[len(k.code)-2])
		require.Equal(t, k.plan.Tile.Cluster > 1, strings.HasPrefix(before, "barrier.cluster.wait"), name)
	}
}
