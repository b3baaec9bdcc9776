//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package sampler

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/internal/dynlib"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// fakeCUDA is a device on driver's stand-in for libcuda: kernels do nothing there, but launches are looked at.
type fakeCUDA struct {
	*Device
	t   testing.TB
	lib *dynlib.Library
}

func openFake(t testing.TB) *fakeCUDA {
	t.Helper()
	source, err := os.ReadFile("../driver/testdata/fakecuda.c")
	if errors.Is(err, fs.ErrNotExist) && os.Getenv(cfake.RequireEnv) == "" {
		t.Skipf("runs in a checkout: %v", err) // a test binary on another machine has no sources
	}
	require.NoError(t, err)
	t.Setenv(driver.EnvLibrary, cfake.Build(t, source))
	dev, err := Open(CUDA)
	require.NoError(t, err)
	f := &fakeCUDA{Device: dev, t: t}
	f.lib, err = dynlib.Open(os.Getenv(driver.EnvLibrary))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, dev.Close())
		assert.Zero(t, f.control("fake_live")+f.control("fake_bad_handles"), "objects left, or calls with dead handles")
	})
	return f
}

func (f *fakeCUDA) control(name string, args ...uintptr) int {
	f.t.Helper()
	fn, err := f.lib.Func(name)
	require.NoError(f.t, err)
	return int(int32(fn.Call(args...)))
}

// What C reads and writes stands still here, as it would not on a goroutine's stack.
var (
	fakeText [64]byte
	fakeLast fakeLaunch
)

// calls returns how often a function of the driver was called.
func (f *fakeCUDA) calls(name string) int {
	f.t.Helper()
	require.Less(f.t, copy(fakeText[:], name+"\x00"), len(fakeText))
	return f.control("fake_calls", uintptr(unsafe.Pointer(&fakeText)))
}

// fail has the driver be out of memory in one call of a function, after some that go well.
func (f *fakeCUDA) fail(name string, skip int) {
	f.t.Helper()
	require.Less(f.t, copy(fakeText[:], name+"\x00"), len(fakeText))
	f.control("fake_fail", uintptr(unsafe.Pointer(&fakeText)), 2, uintptr(skip), 1)
}

// fakeLaunch is what the fake remembers of the last launch.
type fakeLaunch struct {
	_            [7]uint32 // grid, block and shared memory
	cluster      [3]uint32
	programmatic uint32
	_            [3]uint32 // facts about the parameters
	stream       uint64
	params       [2048]byte
}

func (f *fakeCUDA) last() fakeLaunch {
	f.t.Helper()
	f.control("fake_last_launch", uintptr(unsafe.Pointer(&fakeLast)))
	return fakeLast
}

// launcher makes a plan for temperature, its launcher, and arguments at invented addresses.
func (f *fakeCUDA) launcher(spec Spec, batch int) (*Launcher, *DeviceArgs) {
	f.t.Helper()
	head, err := f.WrapHead(DeviceWeights{Ptr: 1 << 20, Vocab: 1000, Hidden: 64})
	require.NoError(f.t, err)
	spec.Chain = ir.Chain{Temperature: true}
	plan, err := head.Plan(f.t.Context(), spec)
	require.NoError(f.t, err)
	l, err := plan.NewLauncher(batch)
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		for _, close := range []func() error{l.Close, plan.Close, head.Close} {
			assert.NoError(f.t, close())
		}
	})
	return l, &DeviceArgs{Batch: batch, Hidden: 2 << 20, Seeds: 3 << 20, Positions: 4 << 20, Temperature: 5 << 20, Tokens: 6 << 20, Status: 7 << 20}
}

// param reads a parameter of the last launch, whose values the fake packs without gaps.
func (f *fakeCUDA) param(l *Launcher, name string) uint64 {
	f.t.Helper()
	return f.paramOf(l.kernel, name)
}

// paramOf is param where the last launch was of another kernel than the launcher's.
func (f *fakeCUDA) paramOf(k *cudaKernel, name string) uint64 {
	f.t.Helper()
	last, at := f.last(), 0
	for _, p := range k.Manifest.Params {
		if p.Name == name && p.Size == 8 {
			return binary.LittleEndian.Uint64(last.params[at:])
		}
		if p.Name == name {
			return uint64(binary.LittleEndian.Uint32(last.params[at:]))
		}
		at += p.Size
	}
	f.t.Fatalf("no parameter %s", name)
	return 0
}

func TestLaunchesOverlapUnlessSerial(t *testing.T) {
	f := openFake(t)
	for _, serial := range []bool{false, true} {
		for _, batch := range []int{8, 256} { // one CTA, and a cluster
			l, args := f.launcher(Spec{MaxBatch: 256, SerialLaunch: serial}, batch)
			require.NoError(t, l.Launch(2, args))
			got := f.last()
			assert.Equal(t, !serial, got.programmatic == 1, "serial %v, batch %d", serial, batch)
			assert.Equal(t, batch == 256, got.cluster[0] > 1)
			assert.EqualValues(t, 2, got.stream)
		}
	}
}

// TestKernelsThatDoNotWaitAreNotOverlapped: an artifact of a manifest without the word for it.
func TestKernelsThatDoNotWaitAreNotOverlapped(t *testing.T) {
	f := openFake(t)
	l, _ := f.launcher(Spec{MaxBatch: 8}, 8)
	m := *l.plan.list[0].Manifest
	m.Launch.Programmatic = false
	ptx, err := Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: 8, Tuning: Untuned}.buckets(f.b.(*cudaDevice).arch, l.plan.head.shape, RowMajor, nil)
	require.NoError(t, err)
	artifact := *ptx[0].Artifact
	artifact.Manifest = &m
	l, args := f.launcher(Spec{MaxBatch: 8, Artifact: &artifact}, 8)
	require.NoError(t, l.Launch(2, args))
	assert.Zero(t, f.last().programmatic)
}

// TestWhatChangesIsLaidOutAgain: a launcher keeps what it laid out for as long as it is asked for the same.
func TestWhatChangesIsLaidOutAgain(t *testing.T) {
	f := openFake(t)
	l, args := f.launcher(Spec{MaxBatch: 8}, 8)
	encoded := func() int { return f.calls("cuTensorMapEncodeTiled") }
	require.NoError(t, l.Launch(0, args))
	before := encoded()
	for _, a := range []DeviceArgs{*args, {}} {
		if a.Batch == 0 {
			a = *args
			a.Tokens = 8 << 20
		}
		require.NoError(t, l.Launch(0, &a))
		assert.Equal(t, a.Tokens, f.param(l, templates.ParamTokens))
	}
	assert.Equal(t, before, encoded(), "the same hidden states")
	for round := range 3 { // a server that takes turns with four buffers
		for i := range hiddenMaps {
			a := *args
			a.Hidden += uint64(i) << 12
			require.NoError(t, l.Launch(0, &a))
			last := f.last()
			assert.Contains(t, string(last.params[:512]), string(binary.LittleEndian.AppendUint64(nil, a.Hidden)), "round %d", round)
		}
	}
	assert.Equal(t, before+hiddenMaps-1, encoded())

	args.Batch = 3
	require.NoError(t, l.Launch(0, args))
	assert.EqualValues(t, 3, f.param(l, templates.ParamBatch))
	assert.Zero(t, args.HiddenLD, "the caller's arguments are the caller's")
	keys := f.param(l, templates.ParamKeys)
	require.NoError(t, l.grow(5000))
	require.NoError(t, l.Launch(0, args))
	assert.NotEqual(t, keys, f.param(l, templates.ParamKeys), "the workspace has moved")

	bad := *args
	bad.Batch = 9000
	require.Error(t, l.Launch(0, &bad))
	require.NoError(t, l.Launch(0, args))
	assert.EqualValues(t, 3, f.param(l, templates.ParamBatch), "what failed leaves nothing behind")
}

// TestLaunchesOfSlotsAndLogProbs: what a launch has to give for them, and where it goes.
func TestLaunchesOfSlotsAndLogProbs(t *testing.T) {
	f := openFake(t)
	l, args := f.launcher(Spec{MaxBatch: 8, Slots: true, LogProb: ir.RawLogProb}, 8)
	var input *InputError
	require.ErrorAs(t, l.Launch(0, args), &input)
	args.Slots, args.SlotCount = 8<<20, 3
	require.ErrorAs(t, l.Launch(0, args), &input)
	assert.ErrorContains(t, input, "log-probabilities")
	args.LogProbs = 9 << 20
	require.NoError(t, l.Launch(0, args))
	assert.EqualValues(t, 8<<20, f.param(l, templates.ParamSlots))
	assert.EqualValues(t, 3, f.param(l, templates.ParamSlotCount))
	assert.EqualValues(t, 9<<20, f.param(l, templates.ParamLogProb))
	assert.Equal(t, uint64(l.partials()), f.param(l, templates.ParamPartials))
	args.SlotCount = -1
	require.ErrorAs(t, l.Launch(0, args), &input)
}

// TestLaunchesOfDraws: what a launch has to give for several draws of a row, where they go, and how many passes it makes.
func TestLaunchesOfDraws(t *testing.T) {
	f := openFake(t)
	for kind, passes := range map[ir.Draws]int{ir.WithoutReplacement: 2, ir.WithReplacement: 2} {
		l, args := f.launcher(Spec{MaxBatch: 8, Draws: kind, MaxDraws: 5}, 8)
		var input *InputError
		require.ErrorAs(t, l.Launch(0, args), &input)
		assert.ErrorContains(t, input, "draw counts: the kernel needs its device address")
		args.DrawCounts, args.OneDrawCount, args.Passes = 8<<20, true, 10<<20
		require.ErrorAs(t, l.Launch(0, args), &input)
		assert.ErrorContains(t, input, "draws: the kernel needs its device address")
		args.Draws, args.DrawScores = 9<<20, 11<<20
		before := f.calls("cuLaunchKernelEx")
		require.NoError(t, l.Launch(0, args))
		assert.Equal(t, 2*passes, f.calls("cuLaunchKernelEx")-before, "two kernels a pass")
		last := l.plan.further.stages[manifest.ResolveStage]
		assert.EqualValues(t, 5, f.paramOf(last, templates.ParamMaxDraws))
		assert.EqualValues(t, 8<<20, f.paramOf(last, templates.ParamDrawCounts))
		assert.Zero(t, f.paramOf(last, templates.ParamDrawCountStride))
		assert.EqualValues(t, 9<<20, f.paramOf(last, templates.ParamDraws))
		if kind == ir.WithoutReplacement {
			assert.EqualValues(t, 11<<20, f.paramOf(last, templates.ParamDrawScores))
		}
	}
}

// TestFurtherPassesThatSeldomRunTakeHalf: those of draws among all tokens, unless the caller has said how many CTAs there are.
func TestFurtherPassesThatSeldomRunTakeHalf(t *testing.T) {
	f := openFake(t)
	head, err := f.WrapHead(DeviceWeights{Ptr: 1 << 20, Vocab: 151936, Hidden: 64})
	require.NoError(t, err)
	for _, c := range []struct {
		spec Spec
		half bool
	}{
		{Spec{Draws: ir.WithReplacement, MaxDraws: 8}, true},
		{Spec{Draws: ir.WithoutReplacement, MaxDraws: 8, Rank: true, LogProb: ir.RawLogProb}, true},
		{Spec{Draws: ir.WithReplacement, MaxDraws: 8, LogProb: ir.RawLogProb}, false},
		{Spec{Draws: ir.WithReplacement, MaxDraws: 8, Truncation: ir.Truncation{TopP: true}}, false},
		{Spec{Truncation: ir.Truncation{TopK: true}}, false},
		{Spec{Draws: ir.WithReplacement, MaxDraws: 8, Tile: tiling.Tile{M: 128, N: 16, K: 64, Stages: 8, Cluster: 1, PingPong: true}, CTAs: 924}, false},
	} {
		c.spec.MaxBatch, c.spec.Chain = 8, ir.Chain{Temperature: true}
		plan, err := head.Plan(t.Context(), c.spec)
		require.NoError(t, err)
		p, want := plan.b.(*cudaPlan), 924 // what the fake says it holds
		if c.half {
			want /= 2
		}
		assert.Equal(t, want, p.grid(p.further, 8), "%+v", c.spec)
		require.NoError(t, plan.Close())
	}
	require.NoError(t, head.Close())
}

// TestLaunchesOfLists: the stage of listed ids is launched where something is asked for, with what it takes.
func TestLaunchesOfLists(t *testing.T) {
	f := openFake(t)
	l, args := f.launcher(Spec{MaxBatch: 8, LogProb: ir.RawLogProb, ListLogProbs: true}, 8)
	args.LogProbs = 9 << 20
	launches := func() int {
		before := f.calls("cuLaunchKernelEx")
		require.NoError(t, l.Launch(0, args))
		return f.calls("cuLaunchKernelEx") - before
	}
	require.Equal(t, 1, launches(), "nothing is listed")
	args.ListLength = 20
	var input *InputError
	require.ErrorAs(t, l.Launch(0, args), &input)
	require.ErrorContains(t, input, "listed ids")
	args.ListIDs, args.ListLogProbs = 10<<20, 11<<20
	require.Equal(t, 2, launches())
	require.EqualValues(t, 1, f.last().programmatic)
	require.Equal(t, 20, listedCTAs(l.plan.list[0].stages[manifest.ListedStage].Manifest, 8, args.ListLength))
	_, all := l.plan.spaceBytes(l.rows)
	require.GreaterOrEqual(t, all, manifest.CollectionStart(l.rows)+8*l.rows)
	require.LessOrEqual(t, uint64(l.masses()-l.space.Ptr())+8*uint64(l.rows), uint64(all))
	for _, bad := range []DeviceArgs{{ListLength: -1}, {ListLength: 1 << 30}, {ListLength: 20, ListStride: 19}, {ListLength: 20, ListStride: 1 << 29}} {
		a := *args
		a.ListLength, a.ListStride = bad.ListLength, bad.ListStride
		require.ErrorAs(t, l.Launch(0, &a), &input)
	}
}

// TestLaunchesOfTops: the stage that sorts the likeliest tokens follows every launch.
func TestLaunchesOfTops(t *testing.T) {
	f := openFake(t)
	l, args := f.launcher(Spec{MaxBatch: 8, LogProb: ir.RawLogProb, TopN: 5, ListLogProbs: true}, 8)
	var input *InputError
	args.LogProbs = 9 << 20
	require.ErrorAs(t, l.Launch(0, args), &input)
	require.ErrorContains(t, input, "top ids")
	args.TopIDs, args.TopLogProbs, args.TopPass = 10<<20, 11<<20, 3
	before := f.calls("cuLaunchKernelEx")
	require.NoError(t, l.Launch(0, args))
	require.Equal(t, 2, f.calls("cuLaunchKernelEx")-before)
	require.EqualValues(t, 1, f.last().programmatic)
	top := l.plan.list[0].stages[manifest.TopStage]
	require.EqualValues(t, 10<<20, f.paramOf(top, templates.ParamTopIDs))
	require.EqualValues(t, 11<<20, f.paramOf(top, templates.ParamTopLogProbs))
	require.EqualValues(t, l.reports(manifest.TopKeys), f.paramOf(top, templates.ParamTopKeys))
	require.EqualValues(t, l.masses(), f.paramOf(top, templates.ParamMasses))
	zeroed, all := l.plan.spaceBytes(l.rows)
	require.EqualValues(t, l.reports(manifest.Masses)-l.space.Ptr(), zeroed)
	require.LessOrEqual(t, uint64(l.masses()-l.space.Ptr())+8*uint64(l.rows), uint64(all))
}

// TestLaunchesOfRanks: who gives no address for ranks saves the pass.
func TestLaunchesOfRanks(t *testing.T) {
	f := openFake(t)
	l, args := f.launcher(Spec{MaxBatch: 8, LogProb: ir.RawLogProb, Rank: true}, 8)
	args.LogProbs = 9 << 20
	for _, ranks := range []uint64{0, 10 << 20} {
		args.Ranks = ranks
		before := f.calls("cuLaunchKernelEx")
		require.NoError(t, l.Launch(0, args))
		require.Equal(t, 1+int(min(ranks, 1)), f.calls("cuLaunchKernelEx")-before)
	}
	require.EqualValues(t, 1, f.last().programmatic)
	require.EqualValues(t, args.Ranks, f.paramOf(l.plan.ranks, templates.ParamRanks))
	require.EqualValues(t, l.reports(manifest.RankKeys), f.paramOf(l.plan.ranks, templates.ParamRankKeys))
	_, all := l.plan.spaceBytes(l.rows)
	require.LessOrEqual(t, uint64(l.reports(manifest.RankKeys)-l.space.Ptr())+8*uint64(l.rows), uint64(all))
}

// TestLaunchesOfNarrowedReports: what reports of rows that filters narrow follows their further passes, and works in memory of its own.
func TestLaunchesOfNarrowedReports(t *testing.T) {
	f := openFake(t)
	l, args := f.launcher(Spec{MaxBatch: 8, Truncation: ir.Truncation{TopK: true}, LogProb: ir.ProcessedLogProb, TopN: 5, ListLogProbs: true, Rank: true}, 8)
	args.LogProbs, args.TopK, args.Passes, args.TopIDs, args.TopLogProbs, args.Ranks = 9<<20, 10<<20, 11<<20, 12<<20, 13<<20, 14<<20
	args.ListLength, args.ListIDs, args.ListLogProbs = 3, 15<<20, 16<<20
	before := f.calls("cuLaunchKernelEx")
	require.NoError(t, l.Launch(0, args))
	require.Equal(t, 2*listPasses+3, f.calls("cuLaunchKernelEx")-before, "two stages a pass, two that report and a pass that counts")
	require.EqualValues(t, args.Ranks, f.paramOf(l.plan.ranks, templates.ParamRanks))
	_, all := l.plan.spaceBytes(l.rows)
	end := l.collection(manifest.Masses) + driver.DevicePtr(8*l.rows)
	for _, array := range []string{manifest.TopMarks, manifest.RankKeys, manifest.Kept, manifest.TopKeys} {
		require.GreaterOrEqual(t, l.reports(array), end, array)
	}
	require.LessOrEqual(t, uint64(l.reports(manifest.TopKeys)-l.space.Ptr())+8*manifest.RowTopKeys*uint64(l.rows), uint64(all))
	args.Ranks = 0
	require.NoError(t, l.Launch(0, args))
	require.EqualValues(t, l.reports(manifest.Kept), f.paramOf(l.plan.list[0].stages[manifest.ListedStage], templates.ParamKept))
}

func TestLaunchAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	f := openFake(t)
	l, args := f.launcher(Spec{MaxBatch: 64}, 64)
	step := 0
	for name, change := range map[string]func(){"same": func() {}, "moving": func() { args.Hidden, step = 2<<20+uint64(step%8)<<12, step+1 },
		"batches": func() { args.Batch, step = 1+step%64, step+1 }} {
		launch := func() {
			change()
			if err := l.Launch(0, args); err != nil {
				t.Fatal(err)
			}
		}
		assert.Zero(t, testing.AllocsPerRun(100, launch), name)
	}
}

// BenchmarkLaunch is the host's time of a launch with a driver that takes none: the same arguments as before, as a server
// has them, and hidden states at ever new addresses, the most that can change.
func BenchmarkLaunch(b *testing.B) {
	f := openFake(b)
	l, args := f.launcher(Spec{MaxBatch: 64}, 64)
	for name, stride := range map[string]uint64{"same": 0, "moving": 1 << 12} {
		b.Run(name, func(b *testing.B) {
			f.control("fake_quick", 1)
			defer f.control("fake_quick", 0)
			b.ReportAllocs()
			for b.Loop() {
				args.Hidden += stride
				if err := l.Launch(0, args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLaunchersCloseWithTheirPlan: what was given to the device is given back once, and a launch comes too late.
func TestLaunchersCloseWithTheirPlan(t *testing.T) {
	f := openFake(t)
	l, a := f.launcher(Spec{MaxBatch: 8}, 8)
	require.NoError(t, l.Launch(2, a))
	freed := f.calls("cuMemFree_v2")
	require.NoError(t, f.Device.Close())
	require.Greater(t, f.calls("cuMemFree_v2"), freed)
	freed = f.calls("cuMemFree_v2")
	require.ErrorIs(t, l.Launch(2, a), ErrClosed)
	require.ErrorIs(t, l.Reset(), ErrClosed)
	require.NoError(t, l.Close())
	require.Equal(t, freed, f.calls("cuMemFree_v2"))
}

func TestColdStart(t *testing.T) {
	f := openFake(t)
	l, _ := f.launcher(Spec{MaxBatch: 8}, 8)
	head := &Head{b: l.plan.head, shape: l.plan.head.shape}
	linked, loaded := f.calls("cuLinkComplete"), f.calls("cuModuleLoadDataEx")
	kernels, plan, err := head.ColdStart(t.Context(), Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: 256, Tuning: Untuned})
	require.NoError(t, err)
	require.Len(t, kernels, 8)
	whole := 0
	for _, c := range append(kernels, plan) {
		assert.True(t, c.Emit > 0 && c.PTX > 0 && c.Cached > 0, "%+v", c)
		t.Logf("%-50s emit %v, from PTX %v, cached %v: the host's share", c.Kernel, c.Emit, c.PTX, c.Cached)
		if c.Whole {
			whole++
		}
	}
	assert.Equal(t, "all 8", plan.Kernel)
	linked, loaded = f.calls("cuLinkComplete")-linked, f.calls("cuModuleLoadDataEx")-loaded
	assert.Equal(t, 4*len(kernels), loaded, "each by itself and with the others, twice")
	assert.Equal(t, 2*(len(kernels)-(whole-1)), linked, "each by itself and with the others, once")

	cpu, err := Open(CPU)
	require.NoError(t, err)
	h, err := cpu.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, 80), Hidden: 8}, Vocab: 10, Hidden: 8})
	require.NoError(t, err)
	_, _, err = h.ColdStart(t.Context(), Spec{})
	var input *InputError
	assert.ErrorAs(t, err, &input)
}
