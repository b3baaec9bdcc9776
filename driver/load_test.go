//go:build linux && (amd64 || arm64)

package driver

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, contents string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(contents), 0o700))
		return path
	}
	for _, c := range []struct {
		path   string
		reason LoadReason
	}{
		{filepath.Join(dir, "none.so"), LibraryMissing},
		{"libcuda-of-no-one.so.1", LibraryMissing},
		{file("text.so", "this is not a library, but long enough that the loader reads a header of it..........."), NotALibrary},
		{file("empty.so", ""), NotALibrary},
		{file("elf32.so", "\x7fELF\x01\x01\x01"+string(make([]byte, 100))), WrongClass},
	} {
		t.Setenv(EnvLibrary, c.path)
		_, err := Open()
		var load *LoadError
		require.ErrorAs(t, err, &load)
		assert.Equal(t, c.reason, load.Reason, "%v", err)
		assert.Equal(t, c.path, load.Path)
		assert.ErrorContains(t, err, c.path)
	}
}

func TestAnotherLibraryIsNoDriver(t *testing.T) {
	_, err := OpenLibrary("libc.so.6")
	var e *SymbolError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "cuInit", e.Symbol)
	assert.ErrorContains(t, err, "libc.so.6 has no cuInit, which is needed for starting the driver")
}

// TestInitErrors loads libraries that do not start. Each is another file, since a started driver is kept.
func TestInitErrors(t *testing.T) {
	library := fakeLibrary(t)
	for code, hint := range map[Code]string{
		ErrStubLibrary: "stub", ErrNoDevice: "no CUDA-capable device", ErrSystemDriverMismatch: "reboot",
		ErrSystemNotReady: "fabric manager",
	} {
		path := fakeCopy(t, library)
		d, err := load(path)
		must(t, err)
		f := &fake{Driver: d, t: t}
		f.fail(cuInit, code, 0, 1)
		_, err = OpenLibrary(path)
		var loadErr *LoadError
		require.ErrorAs(t, err, &loadErr)
		assert.Equal(t, InitFailed, loadErr.Reason)
		assert.ErrorIs(t, err, code)
		assert.ErrorContains(t, err, hint)
		_, err = OpenLibrary(path)
		assert.NoError(t, err, "a failure is not remembered")
	}
}

func TestOpenIsOnce(t *testing.T) {
	path := fakeLibrary(t)
	t.Setenv(EnvLibrary, path)
	var wg sync.WaitGroup
	seen := make([]*Driver, 32)
	for i := range seen {
		wg.Go(func() {
			d, err := Open()
			assert.NoError(t, err)
			seen[i] = d
		})
	}
	wg.Wait()
	for _, d := range seen {
		assert.True(t, d == seen[0])
	}
	assert.Equal(t, path, seen[0].Path())
}

// TestEachSymbolMissing takes one function at a time from the driver. Nothing may panic, and the error that comes of
// it names the function, what it is for, and the library.
func TestEachSymbolMissing(t *testing.T) {
	if testing.Short() {
		t.Skip("links a library for each function")
	}
	for s := range numSymbols {
		path := fakeLibrary(t, symbols[s].name)
		var missing *SymbolError
		for _, err := range useEverything(path) {
			var e *SymbolError
			switch {
			case err == nil:
			case errors.As(err, &e):
				missing = e
				assert.Equal(t, symbols[s].name, e.Symbol)
				assert.Equal(t, path, e.Library)
				assert.ErrorContains(t, err, symbols[s].feature)
			default:
				t.Errorf("without %v: %v", s, err)
			}
		}
		switch s {
		case cuGetErrorName, cuGetErrorString, cuFuncLoad: // done without
			assert.True(t, missing == nil, "%v", s)
		default:
			assert.True(t, missing != nil, "%v is used by nothing", s)
		}
	}
}

// useEverything calls every driver function once and returns the errors.
func useEverything(path string) (errs []error) {
	note := func(err error) bool { errs = append(errs, err); return err == nil }
	d, err := OpenLibrary(path)
	if !note(err) {
		return errs
	}
	list, err := d.Devices()
	if !note(err) {
		return errs
	}
	_, err = list[0].TotalMemory()
	note(err)
	c, err := list[0].Context()
	if !note(err) {
		return errs
	}
	defer func() { note(c.Close()) }()
	note(c.Synchronize())
	_, _, err = c.MemoryInfo()
	note(err)
	if _, err := c.Alloc(1 << 40); errors.Is(err, ErrOutOfMemory) {
		err = nil
		note(err)
	}
	note(useMemory(c, note))
	note(useKernels(c, note))
	note(useShared(c, list[1], note))
	return errs
}

func useShared(c *Context, other *Device, note func(error) bool) error {
	_, err := c.Device().CanAccessPeer(other)
	note(err)
	if peer, err := other.Context(); note(err) {
		note(c.EnablePeerAccess(peer))
		note(peer.Close())
	}
	if h, err := c.AllocHostMapped(64); note(err) {
		_, err = h.DevicePtr(c)
		note(err)
		note(h.Close())
	}
	if file, err := NewHostFile(64); note(err) {
		if h, err := c.MapHostFile(file, 64); note(err) {
			note(h.Close())
		}
		note(file.Close())
	}
	b, err := c.AllocShared(1, other)
	if err != nil {
		return err
	}
	defer func() { note(b.Close()) }()
	file, err := b.Export()
	if err != nil {
		return err
	}
	defer func() { note(file.Close()) }()
	again, err := c.ImportShared(file, b.Size())
	if err != nil {
		return err
	}
	return again.Close()
}

func useMemory(c *Context, note func(error) bool) error {
	b, err := c.Alloc(1024)
	if err != nil {
		return err
	}
	defer func() { note(b.Close()) }()
	note(b.Upload(0, make([]byte, 1024)))
	note(b.Download(make([]byte, 1024), 0))
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	defer func() { note(s.Close()) }()
	if h, err := c.AllocHost(64); note(err) {
		note(s.CopyToDevice(b.Ptr(), h, 0, 64))
		note(s.CopyFromDevice(h, 0, 64, b.Ptr()))
		note(h.Close())
	}
	note(s.CopyWithinDevice(b.Ptr(), b.Ptr()+512, 512))
	note(s.MemsetD8(b.Ptr(), 1, 1024))
	note(s.MemsetD32(b.Ptr(), 1, 256))
	_, err = s.Query()
	note(err)
	if e, err := c.NewEvent(true); note(err) {
		note(e.Record(s))
		note(s.Wait(e))
		_, err = e.Query()
		note(err)
		note(e.Synchronize(noCancel))
		_, err = Elapsed(e, e)
		note(err)
		note(e.Close())
	}
	return s.Synchronize(noCancel)
}

func useKernels(c *Context, note func(error) bool) error {
	image, err := c.CompilePTX([]byte(fillPTX), JITOptions{})
	note(err)
	_ = image
	_, err = c.EncodeTiled(&TensorMapSpec{Type: BFloat16, Rank: 1, Address: 4096, Dims: [5]uint64{64}, Box: [5]uint32{64}})
	note(err)
	m, err := c.LoadPTX([]byte(fillPTX), JITOptions{})
	if err != nil {
		return err
	}
	defer func() { note(m.Close()) }()
	fn, err := m.Function("crash")
	if err != nil {
		return err
	}
	cfg := LaunchConfig{Grid: Dim3{X: 2}, Block: Dim3{X: 128}, Cluster: Dim3{X: 2}}
	_, err = fn.Attributes()
	note(err)
	note(fn.SetNonPortableCluster(true))
	_, err = fn.ParamSizes()
	note(err)
	_, err = fn.MaxActiveBlocks(128, 0)
	note(err)
	_, err = fn.MaxActiveClusters(cfg)
	note(err)
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	defer func() { note(s.Close()) }()
	_, err = s.IsCapturing()
	note(err)
	g, err := s.Capture(func() error { note(s.Launch(fn, cfg, nil)); return nil })
	if !note(err) {
		return nil
	}
	if e, err := g.Instantiate(); note(err) {
		if fn, err = m.Function("fill"); note(err) { // an empty graph: crash must not run
			_, err = c.dev.drv.lookup(cuGraphLaunch)
			note(err)
		}
		note(e.Close())
	}
	runtime.KeepAlive(image)
	return g.Close()
}
