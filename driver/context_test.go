//go:build linux && (amd64 || arm64)

package driver

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func isPoison(err error) bool { return errors.Is(err, ErrPoisoned) }

func TestPrimaryContextIsRetainedOnce(t *testing.T) {
	f := openFake(t)
	dev, err := f.Device(1)
	require.NoError(t, err)
	a, err := dev.Context()
	require.NoError(t, err)
	b, err := dev.Context()
	require.NoError(t, err)
	assert.Equal(t, 1, f.control("fake_refs", 1))
	assert.Equal(t, a.Handle(), b.Handle())
	buf, err := b.Alloc(16)
	require.NoError(t, err)
	assert.NoError(t, a.Close())
	assert.NoError(t, a.Close(), "Close is idempotent")
	_, err = a.Alloc(16)
	assert.ErrorIs(t, err, ErrClosed)
	assert.ErrorContains(t, err, "the context is closed")
	assert.ErrorIs(t, a.Do(func() error { return nil }), ErrClosed)
	assert.NoError(t, b.Close())
	assert.Equal(t, 1, f.control("fake_refs", 1), "the buffer holds the context")
	assert.NoError(t, buf.Upload(0, make([]byte, 16)), "and stays usable")
	assert.Equal(t, dev, buf.Device())
	assert.NoError(t, buf.Close())
	assert.Equal(t, 0, f.control("fake_refs", 1))
}

func TestRetainFails(t *testing.T) {
	f := openFake(t)
	f.fail(cuDevicePrimaryCtxRetain, ErrOutOfMemory, 0, 1)
	dev, err := f.Device(0)
	require.NoError(t, err)
	_, err = dev.Context()
	assert.ErrorIs(t, err, ErrOutOfMemory)
	assert.ErrorContains(t, err, "cuda:0")
	f.context() // the next one works
}

// TestCallersContextIsRestored makes another library's context current on this thread, does everything, and finds it
// current again after each call.
func TestCallersContextIsRestored(t *testing.T) {
	f := openFake(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f.control("fake_push_foreign")
	c := f.context()
	check := func(err error) bool {
		t.Helper()
		assert.NoError(t, err)
		assert.Equal(t, 1, f.control("fake_depth"))
		assert.Equal(t, 1, f.control("fake_current_is_foreign"))
		return err == nil
	}
	check(useMemory(c, check))
	check(useKernels(c, check))
	other, err := f.Device(1)
	check(err)
	check(useShared(c, other, check))
	check(c.Do(func() error {
		assert.Equal(t, 2, f.control("fake_depth"))
		return c.Synchronize()
	}))
	boom := errors.New("boom")
	assert.ErrorIs(t, c.Do(func() error { return boom }), boom)
	func() {
		defer func() { assert.Equal(t, any("oh"), recover()) }()
		_ = c.Do(func() error { panic("oh") })
	}()
	check(nil)
	for _, s := range []symbol{cuCtxSynchronize, cuCtxPushCurrent, cuCtxPopCurrent} {
		f.fail(s, ErrUnknown, 0, 1)
		assert.ErrorIs(t, c.Synchronize(), ErrUnknown, "%v", s)
		if s != cuCtxPopCurrent { // whose failure leaves the stack as it is
			check(nil)
		}
	}
	assert.Equal(t, 2, f.control("fake_depth"))
	_ = f.invokeName("cuCtxPopCurrent_v2")
	assert.Equal(t, 0, f.control("fake_pop_foreign"))
}

// invokeName calls a function that takes an out-pointer.
func (f *fake) invokeName(name string) int {
	frame := getFrame()
	defer putFrame(frame)
	return f.control(name, frame.out(0))
}

func TestDoMayCloseItsContext(t *testing.T) {
	f := openFake(t)
	dev, err := f.Device(0)
	require.NoError(t, err)
	c, err := dev.Context()
	require.NoError(t, err)
	assert.NoError(t, c.Do(c.Close))
	assert.Equal(t, 0, f.control("fake_refs", 0))
}

// TestPoisonedContext crashes a kernel: the next call meets the error, every later one is told of it without reaching
// the driver, and closing still gives everything back to a new context.
func TestPoisonedContext(t *testing.T) {
	f := openFake(t)
	dev, err := f.Device(0)
	require.NoError(t, err)
	c, err := dev.Context()
	require.NoError(t, err)
	s, b := f.stream(c), f.buffer(c, 64)
	fn := f.function(c, "crash")
	assert.True(t, c.Healthy())
	assert.NoError(t, c.Err())
	require.NoError(t, s.Launch(fn, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, nil))
	assert.True(t, c.Healthy(), "nothing has reported it yet")

	err = s.Synchronize(t.Context())
	assert.ErrorIs(t, err, ErrLaunchFailed)
	assert.ErrorIs(t, err, ErrPoisoned)
	assert.False(t, c.Healthy())
	assert.ErrorIs(t, c.Err(), ErrLaunchFailed)

	before := f.calls(cuCtxPushCurrent)
	out := []byte("old result")
	for _, err := range []error{
		b.Download(out, 0), s.MemsetD8(b.Ptr(), 0, 1), c.Synchronize(), c.Do(func() error { t.Error("ran"); return nil }),
		s.Launch(fn, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, nil),
	} {
		var p *PoisonedError
		assert.ErrorAs(t, err, &p)
		assert.ErrorIs(t, err, ErrLaunchFailed)
		assert.ErrorIs(t, err, ErrPoisoned)
		assert.ErrorContains(t, err, "the process must be restarted")
	}
	assert.Equal(t, before, f.calls(cuCtxPushCurrent))

	other := f.contextOf(1)
	assert.NoError(t, other.Synchronize(), "the other device is well")

	for _, close := range []func() error{s.Close, b.Close, fn.mod.Close} {
		assert.ErrorIs(t, close(), ErrPoisoned)
		assert.NoError(t, close())
	}
	assert.NoError(t, c.Close())
	assert.Equal(t, 0, f.control("fake_refs", 0))
	c = f.context()
	assert.True(t, c.Healthy())
	assert.NoError(t, c.Synchronize())
	f.crashed = true
}

func TestStickyCodes(t *testing.T) {
	for code, sticky := range map[Code]bool{
		success: false, ErrInvalidValue: false, ErrOutOfMemory: false, ErrNotReady: false, ErrInvalidPTX: false,
		ErrLaunchOutOfResources: false, ErrIllegalAddress: true, ErrLaunchTimeout: true, 710: true, 714: true, 715: true,
		716: true, 717: true, 718: true, ErrLaunchFailed: true, ErrCaptureInvalidated: false, ErrUnknown: false,
	} {
		assert.Equal(t, sticky, code.Sticky(), "%d", code)
		assert.Equal(t, sticky, errors.Is(&Error{Code: code}, ErrPoisoned), "%d", code)
	}
}

// TestCloseWaitsForCalls closes a stream while calls are slow: none may meet a destroyed handle.
func TestCloseWaitsForCalls(t *testing.T) {
	f := openFake(t)
	c := f.context()
	b := f.buffer(c, 64)
	f.control("fake_delay", 100)
	for range 20 {
		s := f.stream(c)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					err := s.MemsetD8(b.Ptr(), 1, 64)
					if errors.Is(err, ErrClosed) {
						return
					}
					if !assert.NoError(t, err) {
						return
					}
				}
			})
		}
		time.Sleep(time.Millisecond)
		assert.NoError(t, s.Close())
		wg.Wait()
	}
	f.control("fake_delay", 0)
	assert.Equal(t, 0, f.control("fake_bad_handles"))
}
