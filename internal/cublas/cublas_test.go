//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package cublas

import (
	_ "embed"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/internal/dynlib"
)

//go:embed testdata/fakecublaslt.c
var fakeSource []byte

// fake is an open fake library; at the end of the test everything must have been given back to it.
func fake(t *testing.T, without ...string) *Library {
	t.Helper()
	t.Setenv(EnvLibrary, cfake.Build(t, fakeSource, without...))
	l, err := Open()
	require.NoError(t, err)
	t.Cleanup(func() { assert.Zero(t, control(t, l, "fake_live"), "objects left") })
	return l
}

func control(t *testing.T, l *Library, name string, args ...uintptr) int {
	t.Helper()
	f, err := l.lib.Func(name)
	require.NoError(t, err)
	return int(int32(f.Call(args...)))
}

// fail makes a function fail from now on.
func fail(t *testing.T, l *Library, f function, s Status) {
	f2, err := l.lib.Func("fake_fail")
	require.NoError(t, err)
	name := append([]byte(functionNames[f]), 0)
	f2.Call(uintptr(unsafe.Pointer(&name[0])), uintptr(s))
}

func create(t *testing.T, l *Library) *Handle {
	t.Helper()
	h, err := l.Create()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	return h
}

// matrix returns rows of random bf16 values, ld values apart, with a NaN between them that no sum may meet.
func matrix(rng *rand.Rand, rows, n, ld int) []uint16 {
	out := make([]uint16, rows*ld)
	for i := range out {
		out[i] = 0x7fc0
		if i%ld < n {
			out[i] = uint16(math.Float32bits(float32(rng.NormFloat64())) >> 16)
		}
	}
	return out
}

func value(x uint16) float64 { return float64(math.Float32frombits(uint32(x) << 16)) }

func address(x []uint16) uint64 { return uint64(uintptr(unsafe.Pointer(&x[0]))) }

func TestMatmulGivesTheLogits(t *testing.T) {
	l := fake(t)
	assert.Equal(t, "13.1.2", l.Version())
	s := Shape{Batch: 3, Vocab: 11, Hidden: 5, HiddenLD: 8, WeightsLD: 7}
	rng := rand.New(rand.NewPCG(1, 2))
	w, h := matrix(rng, s.Vocab, s.Hidden, s.WeightsLD), matrix(rng, s.Batch, s.Hidden, s.HiddenLD)
	m, err := create(t, l).NewMatmul(s, 8)
	require.NoError(t, err)
	defer func() { assert.NoError(t, m.Close()) }()
	assert.Equal(t, 1, m.Algorithms(), "of three, one is not for the device and one wants too much workspace")
	logits := make([]uint16, s.Batch*s.Vocab)
	require.NoError(t, m.Enqueue(0, 77, Args{Hidden: address(h), Weights: address(w), Logits: address(logits)}))
	for b := range s.Batch {
		for v := range s.Vocab {
			want := 0.0
			for k := range s.Hidden {
				want += value(h[b*s.HiddenLD+k]) * value(w[v*s.WeightsLD+k])
			}
			assert.InDelta(t, want, value(logits[b*s.Vocab+v]), 0.01*(1+math.Abs(want)), "row %d, token %d", b, v)
		}
	}
	assert.Equal(t, 77, control(t, l, "fake_last_stream"))
	assert.Equal(t, WorkspaceBytes, control(t, l, "fake_last_workspace"))
	assert.NoError(t, m.Close())
}

func TestMatmulByEachAlgorithm(t *testing.T) {
	l := fake(t)
	control(t, l, "fake_algorithms", 6)
	m, err := create(t, l).NewMatmul(Shape{Batch: 1, Vocab: 1, Hidden: 1, HiddenLD: 1, WeightsLD: 1}, 4)
	require.NoError(t, err)
	defer m.Close()
	require.Equal(t, 3, m.Algorithms(), "four proposed, one of them not for the device")
	x := make([]uint16, 1)
	for i, want := range []int{0, 2, 3} {
		require.NoError(t, m.Enqueue(i, 0, Args{Hidden: address(x), Weights: address(x), Logits: address(x)}))
		assert.Equal(t, want, control(t, l, "fake_last_algorithm"))
	}
}

func TestEveryCallCanFail(t *testing.T) {
	s := Shape{Batch: 1, Vocab: 2, Hidden: 1, HiddenLD: 1, WeightsLD: 1}
	for _, f := range []function{fnDescCreate, fnDescSet, fnLayoutCreate, fnPreferenceCreate, fnPreferenceSet, fnHeuristic} {
		l := fake(t)
		h := create(t, l)
		fail(t, l, f, 14)
		_, err := h.NewMatmul(s, 3)
		var e *Error
		require.ErrorAs(t, err, &e, functionNames[f])
		assert.Equal(t, functionNames[f], e.Call)
		assert.ErrorIs(t, err, Status(14))
		assert.ErrorContains(t, err, functionNames[f]+": CUBLAS_STATUS_INTERNAL_ERROR (14)")
	}
	l := fake(t)
	m, err := create(t, l).NewMatmul(s, 3)
	require.NoError(t, err)
	fail(t, l, fnMatmul, 99)
	assert.ErrorContains(t, m.Enqueue(0, 0, Args{}), "cublas: cublasLtMatmul: CUBLAS_STATUS_? (99): algorithm 0")
	assert.NoError(t, m.Close())

	fail(t, l, fnCreate, ErrNotInitialized)
	_, err = l.Create()
	assert.ErrorIs(t, err, ErrNotInitialized)
}

func TestNoAlgorithmIsNotSupported(t *testing.T) {
	l := fake(t)
	control(t, l, "fake_algorithms", 0)
	_, err := create(t, l).NewMatmul(Shape{Batch: 1, Vocab: 1, Hidden: 1, HiddenLD: 1, WeightsLD: 1}, 3)
	assert.ErrorIs(t, err, ErrNotSupported)
	assert.ErrorContains(t, err, "no algorithm for {Batch:1 Vocab:1")
}

func TestShapesAreChecked(t *testing.T) {
	h := create(t, fake(t))
	for _, s := range []Shape{{}, {Batch: 1, Vocab: 1, Hidden: 8, HiddenLD: 8, WeightsLD: 7}, {Batch: 1, Vocab: 1, Hidden: 8, HiddenLD: 7, WeightsLD: 8}} {
		_, err := h.NewMatmul(s, 1)
		assert.ErrorContains(t, err, "want sizes of 1 or more")
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	t.Setenv(EnvLibrary, filepath.Join(t.TempDir(), "libcublasLt.so.13"))
	_, err := Open()
	assert.ErrorIs(t, err, dynlib.ErrNotFound)
	t.Setenv(EnvLibrary, cfake.Build(t, fakeSource, "cublasLtMatmul"))
	_, err = Open()
	var missing *dynlib.SymbolError
	require.ErrorAs(t, err, &missing)
	assert.Equal(t, "cublasLtMatmul", missing.Symbol)
}
