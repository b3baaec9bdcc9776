//go:build linux && (amd64 || arm64)

package driver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLaunch(t *testing.T) {
	f := openFake(t)
	c := f.context()
	s, b := f.stream(c), f.buffer(c, 400)
	fn := f.function(c, "fill")
	p, err := NewParams(8, 4, 4)
	require.NoError(t, err)
	assert.Equal(t, 3, p.Len())
	p.SetPtr(0, b.Ptr())
	p.SetUint32(1, 0x01020304)
	p.SetInt32(2, 100)
	require.NoError(t, fn.SetMaxDynamicShared(200_000))
	cfg := LaunchConfig{
		Grid: Dim3{132, 2, 3}, Block: Dim3{X: 384}, Cluster: Dim3{X: 2}, SharedBytes: 199_000, Programmatic: true,
	}
	require.NoError(t, s.Launch(fn, cfg, p))
	got := f.lastLaunch()
	assert.Equal(t, Dim3{132, 2, 3}, got.grid)
	assert.Equal(t, Dim3{384, 1, 1}, got.block)
	assert.Equal(t, Dim3{2, 1, 1}, got.cluster)
	assert.EqualValues(t, 199_000, got.shared)
	assert.EqualValues(t, 1, got.programmatic)
	assert.EqualValues(t, s.Handle(), got.stream)
	data := make([]byte, 400)
	require.NoError(t, b.Download(data, 0))
	assert.True(t, bytes.Equal(bytes.Repeat([]byte{4, 3, 2, 1}, 100), data))

	require.NoError(t, s.Launch(fn, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}, p))
	got = f.lastLaunch()
	assert.Equal(t, Dim3{}, got.cluster)
	assert.EqualValues(t, 0, got.programmatic)
	assert.EqualValues(t, 0, got.shared)

	require.NoError(t, fn.LaunchOn(2, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}, p))
	assert.EqualValues(t, 2, f.lastLaunch().stream)
}

func TestLaunchTensorMaps(t *testing.T) {
	f := openFake(t)
	c := f.context()
	s, fn := f.stream(c), f.function(c, "maps")
	spec := tile()
	a, err := c.EncodeTiled(&spec)
	require.NoError(t, err)
	spec.Address += 1 << 20
	b, err := c.EncodeTiled(&spec)
	require.NoError(t, err)
	p, err := NewParams(TensorMapBytes, 8, TensorMapBytes)
	require.NoError(t, err)
	p.SetTensorMap(0, &a)
	p.SetUint64(1, 42)
	p.SetTensorMap(2, &b)
	require.NoError(t, s.Launch(fn, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, p))
	got := f.lastLaunch()
	assert.EqualValues(t, 3, got.params)
	assert.EqualValues(t, 1, got.aligned, "maps lie on 64 bytes")
	mapA, mapB := a.Bytes(), b.Bytes()
	assert.True(t, bytes.Equal(mapA[:], got.values[:128]))
	assert.EqualValues(t, 42, binary.LittleEndian.Uint64(got.values[128:]))
	assert.True(t, bytes.Equal(mapB[:], got.values[136:264]))
	word := func(m [128]byte, i int) uint64 { return binary.LittleEndian.Uint64(m[8*i:]) }
	for i, want := range []uint64{
		uint64(BFloat16), 2, uint64(spec.Address), 0, uint64(Swizzle128B), uint64(L2Promotion256B), 0, 4096, 151936, 8192,
		64, 128, 1, 1,
	} {
		assert.Equal(t, want, word(mapB, i), "word %d", i)
	}
}

func TestParams(t *testing.T) {
	p, err := NewParams(1, 4, 8, 128, 12)
	require.NoError(t, err)
	p.SetBytes(0, []byte{7})
	p.SetFloat32(1, 1.5)
	p.SetUint64(2, 1<<40)
	p.SetTensorMap(3, &TensorMap{words: [16]uint64{15: 9}})
	p.SetBytes(4, []byte("twelve bytes"))
	require.True(t, p.err == nil)
	assert.Equal(t, []byte{7}, p.Bytes(0))
	assert.EqualValues(t, math.Float32bits(1.5), binary.LittleEndian.Uint32(p.Bytes(1)))
	assert.EqualValues(t, uint64(1<<40), binary.LittleEndian.Uint64(p.Bytes(2)))
	assert.EqualValues(t, 9, p.Bytes(3)[120])
	assert.Equal(t, "twelve bytes", string(p.Bytes(4)))
	for i := range p.Len() {
		place := *at[uintptr](p.block, paramPointers+8*i) - address(p.block)
		assert.EqualValues(t, p.places[i], place)
	}
	for _, size := range []int{0, -1, 40_000} {
		var e *ParamError
		_, err := NewParams(8, size)
		require.ErrorAs(t, err, &e)
		assert.Equal(t, 1, e.Index)
	}
	big, err := NewParams(32764, 32764, 32764)
	require.NoError(t, err)
	big.SetBytes(2, make([]byte, 32764))
	assert.True(t, big.err == nil)
}

func TestLaunchErrors(t *testing.T) {
	f := openFake(t)
	c := f.context()
	s, fn := f.stream(c), f.function(c, "fill")
	cfg := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}
	expect := func(err error, part string) {
		t.Helper()
		var launch *LaunchError
		assert.ErrorAs(t, err, &launch)
		assert.ErrorContains(t, err, "launching fill")
		assert.ErrorContains(t, err, part)
	}
	for part, change := range map[string]func(*LaunchConfig){
		"grid {0 1 1}":             func(c *LaunchConfig) { c.Grid = Dim3{} },
		"grid {1 70000 1}":         func(c *LaunchConfig) { c.Grid.Y = 70000 },
		"block {0 1 1}":            func(c *LaunchConfig) { c.Block.X = 0 },
		"block {1025 1 1}":         func(c *LaunchConfig) { c.Block.X = 1025 },
		"block {1 1 65}":           func(c *LaunchConfig) { c.Block = Dim3{1, 1, 65} },
		"cluster {17 1 1}":         func(c *LaunchConfig) { c.Grid.X, c.Cluster.X = 17, 17 },
		"multiple of the cluster":  func(c *LaunchConfig) { c.Grid.X, c.Cluster.X = 3, 2 },
		"CUDA_ERROR_INVALID_VALUE": func(c *LaunchConfig) { c.SharedBytes = 50_000 },
	} {
		bad := cfg
		change(&bad)
		p, err := NewParams(8, 4, 4)
		require.NoError(t, err)
		expect(s.Launch(fn, bad, p), part)
	}

	p, err := NewParams(8, 4, 4)
	require.NoError(t, err)
	p.SetUint64(1, 3)
	p.SetUint64(9, 3)
	expect(s.Launch(fn, cfg, p), "kernel parameter 1: has 4 bytes, was set to a value of 8")
	p, err = NewParams(8, 4, 4)
	require.NoError(t, err)
	p.SetUint64(3, 3)
	expect(s.Launch(fn, cfg, p), "kernel parameter 3: the kernel has 3")

	p, err = NewParams(8, 4, 4)
	require.NoError(t, err)
	p.busy.Store(true)
	err = s.Launch(fn, cfg, p)
	assert.ErrorIs(t, err, ErrBusy)
	p.busy.Store(false)

	f.fail(cuLaunchKernelEx, ErrLaunchOutOfResources, 0, 1)
	err = s.Launch(fn, cfg, p)
	expect(err, "too many resources")
	assert.ErrorIs(t, err, ErrLaunchOutOfResources)

	other := f.stream(f.contextOf(1))
	expect(other.Launch(fn, cfg, p), "the kernel is loaded on cuda:0 (Fake GPU 0), the stream is on cuda:1 (Fake GPU 1)")
	require.NoError(t, s.Close())
	assert.ErrorIs(t, s.Launch(fn, cfg, p), ErrClosed)
	s = f.stream(c)
	require.NoError(t, fn.mod.Close())
	assert.ErrorIs(t, s.Launch(fn, cfg, p), ErrClosed)
}

func TestGraph(t *testing.T) {
	f := openFake(t)
	c := f.context()
	s, b := f.stream(c), f.buffer(c, 16)
	fn := f.function(c, "fill")
	p, err := NewParams(8, 4, 4)
	require.NoError(t, err)
	p.SetPtr(0, b.Ptr())
	p.SetUint32(2, 4)
	require.NoError(t, b.Upload(0, make([]byte, 16)))
	cfg := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}, Programmatic: true}
	g, err := s.Capture(func() error {
		capturing, err := s.IsCapturing()
		assert.NoError(t, err)
		assert.True(t, capturing)
		for v := range uint32(3) {
			p.SetUint32(1, v+7)
			runtime.Gosched()
			if err := s.Launch(fn, cfg, p); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	capturing, err := s.IsCapturing()
	assert.NoError(t, err)
	assert.False(t, capturing)
	e, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, g.Close())
	got := make([]byte, 16)
	require.NoError(t, b.Download(got, 0))
	assert.EqualValues(t, 0, got[0], "captured, not run")
	require.NoError(t, e.Launch(s))
	require.NoError(t, b.Download(got, 0))
	assert.EqualValues(t, 9, got[0])
	assert.EqualValues(t, 1, f.lastLaunch().programmatic)
	require.NoError(t, e.Close())
	assert.ErrorIs(t, e.Launch(s), ErrClosed)
	_, err = g.Instantiate()
	assert.ErrorIs(t, err, ErrClosed)
}

func TestCaptureFails(t *testing.T) {
	f := openFake(t)
	c := f.context()
	s := f.stream(c)
	boom := errors.New("boom")
	_, err := s.Capture(func() error { return boom })
	assert.ErrorIs(t, err, boom)
	func() {
		defer func() { assert.Equal(t, any("oh"), recover()) }()
		_, _ = s.Capture(func() error { panic("oh") })
	}()
	f.fail(cuStreamEndCapture, ErrCaptureInvalidated, 0, 1)
	_, err = s.Capture(func() error { return nil })
	assert.ErrorIs(t, err, ErrCaptureInvalidated)
	_, err = s.Capture(func() error { return nil })
	assert.ErrorIs(t, err, ErrInvalidValue, "this fake's stream is still capturing")
	capturing, err := s.IsCapturing()
	assert.NoError(t, err)
	assert.True(t, capturing)
	f.crashed = true // so its graph is never given back
}

// TestLaunchPathAllocatesNothing holds what runs for every token to no allocation at all.
func TestLaunchPathAllocatesNothing(t *testing.T) {
	f := openFake(t)
	c := f.context()
	s, b := f.stream(c), f.buffer(c, 64)
	fn := f.function(c, "fill")
	p, err := NewParams(8, 4, 4)
	require.NoError(t, err)
	h, err := c.AllocHost(64)
	require.NoError(t, err)
	e, err := c.NewEvent(false)
	require.NoError(t, err)
	g, err := s.Capture(func() error { return s.MemsetD8(b.Ptr(), 1, 64) })
	require.NoError(t, err)
	ge, err := g.Instantiate()
	require.NoError(t, err)
	spec := tile()
	cfg := LaunchConfig{Grid: Dim3{X: 132}, Block: Dim3{X: 384}, Cluster: Dim3{X: 2}, Programmatic: true}
	for name, call := range map[string]func() error{
		"launch": func() error {
			p.SetPtr(0, b.Ptr())
			p.SetUint32(1, 3)
			p.SetInt32(2, 16)
			return s.Launch(fn, cfg, p)
		},
		"foreign":   func() error { return fn.LaunchOn(s.Handle(), cfg, p) },
		"graph":     func() error { return ge.Launch(s) },
		"event":     func() error { return e.Record(s) },
		"query":     func() error { _, err := e.Query(); return err },
		"wait":      func() error { return s.Wait(e) },
		"upload":    func() error { return s.CopyToDevice(b.Ptr(), h, 0, 64) },
		"download":  func() error { return s.CopyFromDevice(h, 0, 64, b.Ptr()) },
		"memset":    func() error { return s.MemsetD32(b.Ptr(), 1, 16) },
		"sync":      func() error { return s.Synchronize(noCancel) },
		"capturing": func() error { _, err := s.IsCapturing(); return err },
		"encode":    func() error { _, err := c.EncodeTiled(&spec); return err },
	} {
		require.NoError(t, call(), name)
		n := testing.AllocsPerRun(100, func() { _ = call() })
		assert.True(t, n == 0 || raceEnabled, "%s: %v allocations", name, n)
	}
	for _, close := range []func() error{h.Close, e.Close, g.Close, ge.Close} {
		assert.NoError(t, close())
	}
}

func TestParamsInTwoGoroutines(t *testing.T) {
	f := openFake(t)
	c := f.context()
	fn := f.function(c, "crash")
	f.fail(cuLaunchKernelEx, ErrUnknown, 0, 1<<30)
	p, err := NewParams()
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	busy := 0
	f.control("fake_delay", 20)
	for range 8 {
		s := f.stream(c)
		wg.Go(func() {
			for range 50 {
				if err := s.Launch(fn, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, p); errors.Is(err, ErrBusy) {
					mu.Lock()
					busy++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	assert.True(t, busy > 0, "the misuse was never noticed")
}

func BenchmarkLaunch(b *testing.B) {
	f := openFake(b)
	c := f.context()
	s, fn := f.stream(c), f.function(c, "fill")
	p, err := NewParams(8, 4, 4)
	must(b, err)
	cfg := LaunchConfig{Grid: Dim3{X: 132}, Block: Dim3{X: 384}, Cluster: Dim3{X: 2}}
	f.control("fake_quick", 1)
	defer f.control("fake_quick", 0)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Launch(fn, cfg, p); err != nil { // must would take longer than the launch
			b.Fatal(err)
		}
	}
}

// BenchmarkCall is the price of one crossing into C.
func BenchmarkCall(b *testing.B) {
	f := openFake(b)
	fn, err := dlsym(f.handle, "fake_depth")
	must(b, err)
	args := make([]uintptr, 4)
	b.ReportAllocs()
	for b.Loop() {
		invoke(fn, args)
	}
}
