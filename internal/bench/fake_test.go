//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/internal/cublas"
	"github.com/fsgen/fsgen/internal/dynlib"
	"github.com/fsgen/fsgen/internal/nvml"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/templates"
)

// The tests here run on the stand-ins of the packages below: driver's for libcuda, whose memory is the host's, taught to
// write tokens for a sampling kernel; cublas's, which really multiplies; nvml's.

// fakeKernel is what the fake libcuda does for a sampling kernel: it writes row numbers as tokens, and statuses of 0. From
// the BREAK-th launch on it writes another token to the last row.
const fakeKernel = `
static int launches;
static int sampling(struct func *f, struct launch *l) {
  if (strncmp(f->name, "fsgen_sm_", 9)) return 0;
  if (strstr(f->name, "_resolve") || strstr(f->name, "_further")) return 1; /* nothing is left to write */
  unsigned batch; int *tokens, *status, at[64], end = 0;
  for (int i = 0; i < f->nparams; end += f->params[i++].size) at[i] = end;
  memcpy(&batch, l->params + at[BATCH], 4); memcpy(&tokens, l->params + at[TOKENS], 8); memcpy(&status, l->params + at[STATUS], 8);
  launches++;
  for (unsigned row = 0; row < batch; row++) { tokens[row] = row; status[row] = 0; }
  if (BREAK && launches >= BREAK) tokens[batch - 1] = WRITE;
  return 1;
}
`

// fakeSource reads the source of a fake of another package, which a test binary away from its checkout does not have.
func fakeSource(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv(cfake.RequireEnv) == "" {
		t.Skipf("runs in a checkout: %v", err)
	}
	require.NoError(t, err)
	return string(text)
}

// fakeGPU makes the fake libraries those of the process, for kernels of a computation. From launch breakAt on, if not 0,
// kernels write a token.
func fakeGPU(t *testing.T, c ir.Computation, breakAt, token int) {
	t.Helper()
	cuda := fakeSource(t, "../../driver/testdata/fakecuda.c")
	const hook = "static void run(struct func *f, struct launch *l) {\n"
	require.Contains(t, cuda, hook)
	k, err := gen.Emit(gen.Request{Arch: arch.SM90, Shape: ir.Shape{Vocab: 64, Hidden: 64}, Batch: 8, Computation: c})
	require.NoError(t, err)
	defines := fmt.Sprintf("#define BREAK %d\n#define WRITE %d\n", breakAt, token)
	for i, p := range k.Manifest.Params {
		defines += map[string]string{templates.ParamBatch: fmt.Sprintf("#define BATCH %d\n", i),
			templates.ParamTokens: fmt.Sprintf("#define TOKENS %d\n", i), templates.ParamStatus: fmt.Sprintf("#define STATUS %d\n", i)}[p.Name]
	}
	source := defines + strings.Replace(cuda, hook, fakeKernel+hook+"  if (sampling(f, l)) return;\n", 1)
	t.Setenv("FSGEN_CACHE_DIR", "off")
	t.Setenv(driver.EnvLibrary, cfake.Build(t, []byte(source)))
	for env, path := range map[string]string{cublas.EnvLibrary: "../cublas/testdata/fakecublaslt.c", nvml.EnvLibrary: "../nvml/testdata/fakenvml.c"} {
		t.Setenv(env, cfake.Build(t, []byte(fakeSource(t, path))))
	}
}

func runFake(t *testing.T, ctx context.Context, cfg Config) (*Report, error) {
	t.Helper()
	dev, err := sampler.Open("cuda:0")
	require.NoError(t, err)
	defer func() {
		require.NoError(t, dev.Close())
		assert.Zero(t, control(t, "fake_live"), "objects left in the fake driver")
	}()
	return Run(ctx, dev, cfg)
}

// control calls a control of the fake driver.
func control(t *testing.T, name string, args ...uintptr) int {
	lib, err := dynlib.Open(os.Getenv(driver.EnvLibrary)) // the same one that the driver has opened
	require.NoError(t, err)
	f, err := lib.Func(name)
	require.NoError(t, err)
	return int(f.Call(args...))
}

func TestRunFromEndToEnd(t *testing.T) {
	fakeGPU(t, plain, 0, 0)
	control(t, "fake_delay", 200) // microseconds a call
	cfg := small()
	cfg.Launches = LaunchNames
	said := map[string]bool{}
	cfg.Progress = func(done, total int, what string) {
		said[what] = true
		assert.LessOrEqual(t, done, total)
	}
	rep, err := runFake(t, t.Context(), cfg)
	require.NoError(t, err)
	assert.Empty(t, rep.Skipped)
	assert.Equal(t, Device{Name: "Fake GPU 0", Driver: "CUDA 12.4", PowerLimit: 700}, rep.Device)
	assert.Equal(t, Problem{"small", 1003, 68, "temperature", "gumbel", false, "", ""}, rep.Problem)
	var got []string
	read := 0
	for _, x := range rep.Results {
		got = append(got, strings.Join(strings.Fields(fmt.Sprint(x.Batch, " ", x.Contender, " ", x.Launch, " ", x.Kernel)), " "))
		assert.Equal(t, strings.HasPrefix(x.Contender, "fsgen"), x.Host > 0)
		assert.Len(t, x.Times, 9)
		assert.Equal(t, 375.0, x.Median, "the fake's clock: 1.5 ms a replay of 4 launches")
		assert.Equal(t, 1.0, x.XFloor)
		assert.Equal(t, 1.0, x.XCublas)
		if x.Clocks != nil { // a replay of the fake may be over before anybody looks at the clocks
			read++
			assert.Equal(t, &Clocks{SMClock: 1755, MemoryClock: 3201, Power: 612.3, Temperature: 63, Throttle: []string{"sw power cap", "sw thermal slowdown"}}, x.Clocks)
		}
	}
	assert.Positive(t, read, "contenders with clocks")
	assert.Equal(t, []string{
		"1 floor overlap fsgen_stream, 132 CTAs", "1 floor serial fsgen_stream, 132 CTAs",
		"1 fsgen-rowmajor overlap fsgen_sm_90_m128n8k64s12c1_gumbel_temperature", "1 fsgen-rowmajor serial fsgen_sm_90_m128n8k64s12c1_gumbel_temperature",
		"1 cublas cublasLt 13.1.2, algorithm 0 of 1",
		"9 floor overlap fsgen_stream, 132 CTAs", "9 floor serial fsgen_stream, 132 CTAs",
		"9 fsgen-rowmajor overlap fsgen_sm_90_m128n16k64s12c1_gumbel_temperature", "9 fsgen-rowmajor serial fsgen_sm_90_m128n16k64s12c1_gumbel_temperature",
		"9 cublas cublasLt 13.1.2, algorithm 0 of 1"}, got)
	require.Len(t, rep.ColdStarts, 1)
	assert.Equal(t, "all 2", rep.ColdStarts[0].Plan.Kernel)
	assert.Len(t, rep.ColdStarts[0].Kernels, 2)
	for _, what := range []string{"loading weights", "preparing kernels", "batch 2 of 2 (B = 9): timing"} {
		assert.True(t, said[what], what)
	}
}

func TestKernelThatWritesNonsenseIsNotTimed(t *testing.T) {
	fakeGPU(t, plain, 2, 1003) // the first launch is that of Plan.Sample
	_, err := runFake(t, t.Context(), small())
	assert.ErrorContains(t, err, "fsgen-rowmajor (overlap) at batch 1: row 0 has token 1003 of a vocabulary of 1003")

	fakeGPU(t, plain, 2, 5)
	_, err = runFake(t, t.Context(), small())
	assert.ErrorContains(t, err, "row 0 has token 5, and 0 in another run on the same inputs")
}

func TestTokensAreCheckedAfterTimingToo(t *testing.T) {
	fakeGPU(t, plain, 20, -1)
	_, err := runFake(t, t.Context(), small())
	assert.ErrorContains(t, err, "after it was timed: row 0 has token -1")
}

func TestMissingLibrariesAreNoErrors(t *testing.T) {
	fakeGPU(t, plain, 0, 0)
	t.Setenv(cublas.EnvLibrary, "/nowhere/libcublasLt.so.13")
	t.Setenv(nvml.EnvLibrary, "/nowhere/libnvidia-ml.so.1")
	rep, err := runFake(t, t.Context(), small())
	require.NoError(t, err)
	require.Len(t, rep.Skipped, 1)
	assert.Equal(t, Cublas, rep.Skipped[0].Contender)
	assert.Contains(t, rep.Skipped[0].Why, "/nowhere/libcublasLt.so.13")
	for _, x := range rep.Results {
		assert.Nil(t, x.Clocks)
		assert.Zero(t, x.XCublas)
		assert.NotEqual(t, Cublas, x.Contender)
	}
}

// TestWrongProductIsNoPeer has cuBLAS multiply with rows at the wrong distance.
func TestWrongProductIsNoPeer(t *testing.T) {
	fakeGPU(t, plain, 0, 0)
	text := fakeSource(t, "../cublas/testdata/fakecublaslt.c")
	wrong := strings.Replace(text, "a[m * al->ld + k]", "a[(m + 1) % dl->rows * al->ld + k]", 1)
	require.NotEqual(t, text, wrong)
	t.Setenv(cublas.EnvLibrary, cfake.Build(t, []byte(wrong)))
	rep, err := runFake(t, t.Context(), small())
	require.NoError(t, err)
	require.Len(t, rep.Skipped, 2)
	assert.Equal(t, "cublas at batch 1", rep.Skipped[0].Contender)
	assert.Regexp(t, `algorithm 0: logit of row \d, token \d+ is .*: want `, rep.Skipped[0].Why)
}

func TestCancelledRunGivesEverythingBack(t *testing.T) {
	fakeGPU(t, plain, 0, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cfg := small()
	cfg.Progress = func(done, _ int, what string) {
		if done == 5 && strings.HasSuffix(what, "timing") {
			cancel()
		}
	}
	_, err := runFake(t, ctx, cfg)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestEveryTransformAndSampler(t *testing.T) {
	for _, bias := range []ir.Bias{ir.BiasVector, ir.BiasMatrix} {
		for _, s := range []ir.Sampler{ir.Gumbel, ir.Greedy, ir.Grouped} {
			cfg := small()
			cfg.Peers, cfg.Batches = nil, []int{3}
			cfg.Computation = ir.Computation{Chain: ir.Chain{Scale: 0.5, Softcap: 30, Bias: bias, Mask: true, Temperature: true}, Sampler: s}
			cfg.Computation.LogSumExp = s == ir.Grouped
			switch {
			case s == ir.Gumbel && bias == ir.BiasVector:
				cfg.Computation.LogProb = ir.RawLogProb
			case s == ir.Gumbel:
				cfg.Computation.Truncation = ir.Truncation{TopK: true, TopP: true, MinP: true}
			}
			fakeGPU(t, cfg.Computation, 0, 0)
			rep, err := runFake(t, t.Context(), cfg)
			require.NoError(t, err)
			require.Len(t, rep.Results, 2)
		}
	}
}
