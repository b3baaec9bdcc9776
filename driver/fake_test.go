//go:build linux && (amd64 || arm64)

package driver

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/fsgen/fsgen/arch"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The fake driver: see the head of testdata/fakecuda.c. It is compiled once for a test process.
//
//go:embed testdata/fakecuda.c
var fakeSource []byte

var fakeDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if fakeDir != "" {
		_ = os.RemoveAll(fakeDir)
	}
	os.Exit(code)
}

var fakeObject = sync.OnceValues(func() (object string, err error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", err
	}
	if fakeDir, err = os.MkdirTemp("", "fsgen-fake-"); err != nil {
		return "", err
	}
	source := filepath.Join(fakeDir, "fakecuda.c")
	if err = os.WriteFile(source, fakeSource, 0o600); err != nil {
		return "", err
	}
	object = filepath.Join(fakeDir, "fakecuda.o")
	out, err := exec.Command(cc, "-c", "-fPIC", "-O1", "-g", "-Wall", "-o", object, source).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return object, err
})

// fakeLibrary links a fake driver without some of its functions and returns its path.
func fakeLibrary(t testing.TB, without ...string) string {
	t.Helper()
	object, err := fakeObject()
	if err != nil {
		if os.Getenv("FSGEN_REQUIRE_CC") != "" {
			t.Fatalf("no C compiler: %v", err)
		}
		t.Skipf("the fake driver needs a C compiler: %v", err)
	}
	base := filepath.Join(filepath.Dir(object), "libcuda")
	script := "{ global: *; };"
	if len(without) > 0 {
		base += "-" + without[0]
		script = "{ global: *; local: " + without[0] + "; };"
	}
	library := base + ".so"
	if _, err := os.Stat(library); err == nil {
		return library
	}
	must(t, os.WriteFile(base+".map", []byte(script), 0o600))
	out, err := exec.Command("cc", "-shared", "-o", library, object, "-lpthread", "-Wl,--version-script="+base+".map").CombinedOutput()
	if err != nil {
		t.Fatalf("linking the fake driver: %v: %s", err, out)
	}
	return library
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fake is an open fake driver and its controls.
type fake struct {
	*Driver
	t       testing.TB
	crashed bool // objects of a crashed context cannot be given back
}

// fakeCopy copies a library, so that it is loaded apart from every other and has state of its own.
func fakeCopy(t testing.TB, library string) string {
	t.Helper()
	code, err := os.ReadFile(library)
	must(t, err)
	path := filepath.Join(t.TempDir(), "libcuda.so")
	must(t, os.WriteFile(path, code, 0o700))
	return path
}

// openFake opens a fake driver of the test's own, and checks at the end that everything was given back to it.
func openFake(t testing.TB) *fake {
	t.Helper()
	d, err := OpenLibrary(fakeCopy(t, fakeLibrary(t)))
	must(t, err)
	f := &fake{Driver: d, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		assert.True(t, f.crashed || f.control("fake_live") == 0, "%d objects left", f.control("fake_live"))
		assert.EqualValues(t, 0, f.control("fake_refs", 0)+f.control("fake_refs", 1), "contexts left")
		assert.EqualValues(t, 0, f.control("fake_bad_handles"), "calls with dead or foreign handles")
	})
	return f
}

// context returns the context of device 0, closed at the end of the test.
func (f *fake) context() *Context {
	f.t.Helper()
	return f.contextOf(0)
}

func (f *fake) contextOf(ordinal int) *Context {
	f.t.Helper()
	dev, err := f.Device(ordinal)
	must(f.t, err)
	c, err := dev.Context()
	must(f.t, err)
	f.t.Cleanup(func() { assert.NoError(f.t, c.Close()) })
	return c
}

// control calls a control function, on the calling thread.
func (f *fake) control(name string, args ...uintptr) int {
	f.t.Helper()
	fn, err := dlsym(f.handle, name)
	must(f.t, err)
	words := append(make([]uintptr, 0, 8), args...)
	return int(int32(invoke(fn, words)))
}

// fail makes a driver function return a code, after some good calls, some times.
func (f *fake) fail(s symbol, code Code, skip, times int) {
	name := f.text(s.String())
	defer freeBlock(name)
	f.control("fake_fail", address(name), uintptr(code), uintptr(skip), uintptr(times))
}

// calls returns how often a driver function was called.
func (f *fake) calls(s symbol) int {
	name := f.text(s.String())
	defer freeBlock(name)
	return f.control("fake_calls", address(name))
}

func (f *fake) text(s string) []byte {
	block, err := newBlock(len(s) + 1)
	must(f.t, err)
	copy(block, s)
	return block
}

// launched is what the fake driver remembers of the last launch.
type launched struct {
	grid, block                      Dim3
	shared                           uint32
	cluster                          Dim3
	programmatic, params, aligned, _ uint32
	stream                           uint64
	values                           [2048]byte
}

func (f *fake) lastLaunch() launched {
	block, err := newBlock(4096)
	must(f.t, err)
	defer freeBlock(block)
	f.control("fake_last_launch", address(block))
	return *at[launched](block, 0)
}

// fillPTX is PTX as far as the fake driver reads it.
const fillPTX = `.version 8.0
.target sm_90a
.address_size 64
.visible .entry fill(.param .u64 p, .param .u32 value, .param .u32 n)
{ ret; }
.visible .entry maps(.param .align 64 .b8 a[128], .param .u64 p, .param .align 64 .b8 b[128])
{ ret; }
.visible .entry crash()
{ trap; }
`

func (f *fake) function(c *Context, name string) *Function {
	f.t.Helper()
	m, err := c.LoadPTX([]byte(fillPTX), JITOptions{})
	must(f.t, err)
	f.t.Cleanup(func() { _ = m.Close() })
	fn, err := m.Function(name)
	must(f.t, err)
	return fn
}

func (f *fake) stream(c *Context) *Stream {
	f.t.Helper()
	s, err := c.NewStream()
	must(f.t, err)
	f.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (f *fake) buffer(c *Context, n uint64) *Buffer {
	f.t.Helper()
	b, err := c.Alloc(n)
	must(f.t, err)
	f.t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestImportLoadsNothing(t *testing.T) {
	for s := range drivers.open {
		t.Logf("open: %q", s) // other tests' libraries; a fresh process has none
	}
	if len(symbols) != int(numSymbols) {
		t.Fatal("BUG: symbol table")
	}
	for s := range numSymbols {
		assert.True(t, symbols[s].name != "" && symbols[s].feature != "", "symbol %d", s)
	}
}

func TestDevices(t *testing.T) {
	f := openFake(t)
	n, err := f.Count()
	assert.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.Equal(t, "12.4", f.Version().String())
	list, err := f.Devices()
	require.NoError(t, err)
	require.Len(t, list, 2)
	dev := list[1]
	assert.Equal(t, "Fake GPU 1", dev.Name())
	assert.Equal(t, "cuda:1 (Fake GPU 1)", dev.String())
	assert.Equal(t, 1, dev.Ordinal())
	assert.Equal(t, "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1", dev.UUID().String())
	assert.Equal(t, arch.ComputeCapability{Major: 9, Minor: 0}, dev.ComputeCapability())
	for a, want := range map[Attribute]int{Multiprocessors: 132, L2Bytes: 60 << 20, SharedPerBlockOptin: 232448} {
		got, err := dev.Attribute(a)
		assert.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err = dev.Attribute(300)
	assert.ErrorIs(t, err, ErrInvalidValue)
	total, err := dev.TotalMemory()
	assert.NoError(t, err)
	assert.EqualValues(t, uint64(144)<<30, total)
	for _, ordinal := range []int{-1, 2, 1 << 32} {
		_, err = f.Device(ordinal)
		assert.ErrorIs(t, err, ErrInvalidDevice)
		assert.ErrorContains(t, err, fmt.Sprint("device ", ordinal))
	}
}

func TestErrorWords(t *testing.T) {
	f := openFake(t)
	c := f.context()
	_, err := c.Alloc(1 << 40)
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.ErrorIs(t, err, ErrOutOfMemory)
	assert.False(t, isPoison(err))
	assert.Equal(t, "CUDA_ERROR_OUT_OF_MEMORY", e.Name)
	assert.Equal(t, "out of memory", e.Text)
	assert.Equal(t, "cuMemAlloc_v2", e.Call)
	assert.ErrorContains(t, err, "allocating 1099511627776 bytes of device memory on cuda:0 (Fake GPU 0), which has 107374182400 free")

	f.fail(cuCtxSynchronize, 12345, 0, 1)
	err = c.Synchronize()
	assert.ErrorIs(t, err, Code(12345))
	assert.ErrorContains(t, err, "cuCtxSynchronize: CUDA_ERROR_? (12345): no description")
	assert.True(t, c.Healthy())
	runtime.KeepAlive(c)
}
