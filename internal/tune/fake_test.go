//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package tune

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/cache"
	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/internal/dynlib"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/templates"
)

// The tests here run on driver's stand-in for libcuda, whose memory is the host's and whose clock gives every replay the
// same time, taught to do something for a sampling kernel: it writes row numbers as tokens, and statuses of 0; from launch
// BREAK on, if that is not 0, token 9 in row 0.
const fakeKernel = `
static int launches;
static int sampling(struct func *f, struct launch *l) {
  if (strncmp(f->name, "fsgen_sm_", 9)) return 0;
  unsigned batch; int *tokens, *status, at[32], end = 0;
  for (int i = 0; i < f->nparams; end += f->params[i++].size) at[i] = end;
  memcpy(&batch, l->params + at[BATCH], 4); memcpy(&tokens, l->params + at[TOKENS], 8); memcpy(&status, l->params + at[STATUS], 8);
  launches++; last = *l;
  for (unsigned row = 0; row < batch; row++) { tokens[row] = row; status[row] = 0; }
  if (BREAK && launches >= BREAK) tokens[0] = 9;
  return 1;
}
`

// fakeDevice opens a GPU of the fake libcuda, with a cache directory of the test's own.
func fakeDevice(t *testing.T, c ir.Computation, breakAt int) (*sampler.Device, *autotune.Store) {
	t.Helper()
	text, err := os.ReadFile("../../driver/testdata/fakecuda.c")
	if errors.Is(err, fs.ErrNotExist) && os.Getenv(cfake.RequireEnv) == "" {
		t.Skipf("runs in a checkout: %v", err)
	}
	require.NoError(t, err)
	k, err := gen.Emit(gen.Request{Arch: arch.SM90, Shape: ir.Shape{Vocab: 64, Hidden: 64}, Batch: 8, Computation: c})
	require.NoError(t, err)
	defines := fmt.Sprintf("#define BREAK %d\n", breakAt)
	for i, p := range k.Manifest.Params {
		defines += map[string]string{templates.ParamBatch: fmt.Sprintf("#define BATCH %d\n", i),
			templates.ParamTokens: fmt.Sprintf("#define TOKENS %d\n", i), templates.ParamStatus: fmt.Sprintf("#define STATUS %d\n", i)}[p.Name]
	}
	const hook = "static void run(struct func *f, struct launch *l) {\n"
	require.Contains(t, string(text), hook)
	source := defines + strings.Replace(string(text), hook, fakeKernel+hook+"  if (sampling(f, l)) return;\n", 1)
	t.Setenv(cache.EnvDir, t.TempDir())
	t.Setenv(driver.EnvLibrary, cfake.Build(t, []byte(source)))
	dev, err := sampler.Open("cuda:0")
	require.NoError(t, err)
	t.Cleanup(func() {
		broken := dev.Healthy() != nil // nothing can be given back then
		require.NoError(t, dev.Close())
		assert.True(t, broken || control(t, "fake_live") == 0, "objects left in the fake driver")
		assert.Zero(t, control(t, "fake_bad_handles"))
	})
	return dev, autotune.OpenStore(cache.Open(cache.Options{}), func(s string) { t.Error(s) })
}

// control calls a control of the fake driver.
func control(t *testing.T, name string, args ...uintptr) int {
	t.Helper()
	lib, err := dynlib.Open(os.Getenv(driver.EnvLibrary)) // the same one that the driver has opened
	require.NoError(t, err)
	f, err := lib.Func(name)
	require.NoError(t, err)
	return int(f.Call(args...))
}

// fakeJob is a job whose Runner takes the reference's word for the small problem, which the fake cannot solve.
func fakeJob(t *testing.T, dev *sampler.Device, c ir.Computation, batches ...int) autotune.Job {
	t.Helper()
	saved := smallShape
	smallShape = ir.Shape{Vocab: 300, Hidden: 72}
	t.Cleanup(func() { smallShape = saved })
	j, err := New(dev).Job(Config{Name: "fake", Shape: ir.Shape{Vocab: 900, Hidden: 68}, Computation: c, Layout: "rowmajor", Batches: batches})
	require.NoError(t, err)
	open := j.Open
	j.Open = func(ctx context.Context) (autotune.ClosableRunner, error) {
		opened, err := open(ctx)
		if err != nil {
			return nil, err
		}
		r := opened.(*runner)
		r.sample = func(ctx context.Context, p *sampler.Plan, in *inputs) (*sampler.Result, error) {
			res, err := sampleOnce(ctx, p, in)
			if err == nil && in == r.at.oracle.in {
				res.Tokens, res.Status, res.LogSumExp = r.at.oracle.res.Tokens, r.at.oracle.res.Status, r.at.oracle.res.LogSumExp
			}
			return res, err
		}
		return r, nil
	}
	return j
}

func TestJobFromEndToEnd(t *testing.T) {
	for _, c := range []ir.Computation{tempered, {Sampler: ir.Greedy}, {Sampler: ir.Grouped, LogSumExp: true, Chain: tempered.Chain},
		{Chain: ir.Chain{Bias: ir.BiasMatrix, Mask: true, Temperature: true}, Score: true}} {
		dev, store := fakeDevice(t, c, 0)
		j := fakeJob(t, dev, c, 1, 200)
		assert.Equal(t, autotune.GPU{Name: "Fake GPU 0", Multiprocessors: 132, Driver: j.Buckets[0].Key.Driver}, j.Buckets[0].Key.GPU)
		assert.True(t, strings.HasPrefix(j.Buckets[0].Key.Driver, "12.4"))
		var list []autotune.Outcome
		o := autotune.Options{Store: store, GPU: dev.Info().UUID, Finished: func(x autotune.Outcome) { list = append(list, x) }}
		require.NoError(t, autotune.Run(t.Context(), []autotune.Job{j}, o))
		require.Len(t, list, 2)
		for i, x := range list {
			require.NoError(t, x.Err)
			assert.Empty(t, x.Search.Rejected())
			assert.Equal(t, j.Buckets[i].Candidates[0].String(), x.Entry.Candidate, "all tie: the default wins")
			assert.Equal(t, x.Entry.Default, x.Entry.Microseconds)
			assert.InDelta(t, 1500.0/112, x.Entry.Microseconds, 0.01, "the fake's clock: 1.5 ms a replay of 100 launches, 112 in whole turns of 16 copies")
		}
	}
}

// TestExhaustiveJobsHaveEveryCandidate, and others the short list.
func TestExhaustiveJobsHaveEveryCandidate(t *testing.T) {
	dev, _ := fakeDevice(t, tempered, 0)
	cfg := Config{Shape: ir.Shape{Vocab: 151936, Hidden: 1024}, Computation: tempered, Layout: "packed"}
	some, err := New(dev).Job(cfg)
	require.NoError(t, err)
	cfg.Exhaustive = true
	all, err := New(dev).Job(cfg)
	require.NoError(t, err)
	for i, b := range all.Buckets {
		assert.Equal(t, autotune.Candidates(b.Request), b.Candidates)
		assert.Equal(t, autotune.Shortlist(b.Request), some.Buckets[i].Candidates)
		assert.Less(t, len(some.Buckets[i].Candidates), len(b.Candidates))
		assert.Equal(t, b.Key, some.Buckets[i].Key, "an entry holds for either")
	}
}

// TestTunedGridsReachTheDriver looks at the last launch that the fake saw.
func TestTunedGridsReachTheDriver(t *testing.T) {
	dev, _ := fakeDevice(t, tempered, 0)
	j := fakeJob(t, dev, tempered, 16)
	r, err := j.Open(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for ctas, want := range map[int]uint32{0: 8, 3: 3, 1: 1, 100: 8} { // 900 tokens are eight tiles of 128
		c := autotune.Candidate{Tile: j.Buckets[0].Candidates[0].Tile, CTAs: ctas}
		_, err := r.Time(t.Context(), []autotune.Candidate{c}, 16, 1)
		require.NoError(t, err)
		launch := make([]byte, 4096)
		control(t, "fake_last_launch", uintptr(unsafe.Pointer(&launch[0])))
		assert.Equal(t, want, binary.LittleEndian.Uint32(launch), "%d CTAs", ctas)
	}
}

// TestPartsOfAGPU: what is tuned for a rank that shares its GPU is filed under the multiprocessors that it has, and takes no more CTAs.
func TestPartsOfAGPU(t *testing.T) {
	dev, _ := fakeDevice(t, tempered, 0)
	cfg := Config{Shape: ir.Shape{Vocab: 900, Hidden: 68}, Computation: tempered, Layout: "rowmajor", Batches: []int{16}, Multiprocessors: 5}
	j, err := New(dev).Job(cfg)
	require.NoError(t, err)
	assert.Equal(t, 5, j.Buckets[0].Key.Multiprocessors)
	r, err := j.Open(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	_, err = r.Time(t.Context(), j.Buckets[0].Candidates[:1], 16, 1)
	require.NoError(t, err)
	launch := make([]byte, 4096)
	control(t, "fake_last_launch", uintptr(unsafe.Pointer(&launch[0])))
	assert.EqualValues(t, 5, binary.LittleEndian.Uint32(launch))
	for _, n := range []int{-1, 133} {
		cfg.Multiprocessors = n
		_, err = New(dev).Job(cfg)
		assert.ErrorContains(t, err, "has 132 multiprocessors")
	}
}

// TestWrongTokensWhileTimingEndTheRun has the kernels go wrong when launches follow each other, which verifying alone
// would not see.
func TestWrongTokensWhileTimingEndTheRun(t *testing.T) {
	dev, store := fakeDevice(t, tempered, 200)
	err := autotune.Run(t.Context(), []autotune.Job{fakeJob(t, dev, tempered, 8)}, autotune.Options{Store: store, GPU: "GPU-1"})
	require.ErrorIs(t, err, autotune.ErrTokens)
	assert.ErrorContains(t, err, "after it was timed")
	list, err := store.List()
	require.NoError(t, err)
	assert.Empty(t, list)
}

func TestCancelledJobGivesEverythingBack(t *testing.T) {
	for _, at := range []string{"loading weights", "verifying", "timing"} {
		dev, store := fakeDevice(t, tempered, 0)
		ctx, cancel := context.WithCancel(t.Context())
		o := autotune.Options{Store: store, GPU: "GPU-1", Progress: func(p autotune.Progress) {
			if p.Doing == at {
				cancel()
			}
		}}
		assert.ErrorIs(t, autotune.Run(ctx, []autotune.Job{fakeJob(t, dev, tempered, 8)}, o), context.Canceled, at)
	}
}

// TestFailingDriverGivesEverythingBack fails a call of each kind once.
func TestFailingDriverGivesEverythingBack(t *testing.T) {
	for _, call := range []string{"cuMemAlloc_v2", "cuEventCreate", "cuGraphInstantiateWithFlags", "cuEventElapsedTime"} {
		dev, store := fakeDevice(t, tempered, 0)
		name := append([]byte(call), 0)
		control(t, "fake_fail", uintptr(unsafe.Pointer(&name[0])), 2, 0, 1) // out of memory
		err := autotune.Run(t.Context(), []autotune.Job{fakeJob(t, dev, tempered, 8)}, autotune.Options{Store: store, GPU: "GPU-1"})
		assert.Error(t, err, call)
	}
}

// TestBrokenGPUIsNotAWrongCandidate fails every launch in the way that stays.
func TestBrokenGPUIsNotAWrongCandidate(t *testing.T) {
	dev, store := fakeDevice(t, tempered, 0)
	name := []byte("cuLaunchKernelEx\x00")
	control(t, "fake_fail", uintptr(unsafe.Pointer(&name[0])), 700, 3, 1000) // an illegal address
	err := autotune.Run(t.Context(), []autotune.Job{fakeJob(t, dev, tempered, 8)}, autotune.Options{Store: store, GPU: "GPU-1"})
	assert.ErrorIs(t, err, autotune.ErrGPU)
	assert.NotErrorIs(t, err, autotune.ErrTokens)
}
