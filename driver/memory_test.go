//go:build linux && (amd64 || arm64)

package driver

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// noCancel is a context that never ends.
var noCancel = context.Background()

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(b)
	return b
}

func TestCopies(t *testing.T) {
	f := openFake(t)
	c := f.context()
	data := randomBytes(1 << 20)
	b := f.buffer(c, uint64(len(data)))
	assert.EqualValues(t, len(data), b.Size())
	require.NoError(t, b.Upload(0, data))
	got := make([]byte, 1000)
	require.NoError(t, b.Download(got, 77))
	assert.True(t, bytes.Equal(data[77:1077], got))
	require.NoError(t, c.CopyToDevice(b.Ptr()+5, []byte("hello")))
	require.NoError(t, c.CopyFromDevice(got[:5], b.Ptr()+5))
	assert.Equal(t, "hello", string(got[:5]))
	assert.NoError(t, b.Upload(b.Size(), nil))

	var r *RangeError
	for _, err := range []error{
		b.Upload(b.Size(), data[:1]), b.Download(got, b.Size()-999), b.Upload(1<<63, data), b.Download(got, ^uint64(0)),
	} {
		assert.ErrorAs(t, err, &r)
	}
	err := c.CopyToDevice(b.Ptr()+DevicePtr(b.Size()), data)
	assert.ErrorIs(t, err, ErrInvalidValue)
	assert.ErrorContains(t, err, "copying 1048576 bytes at device address 0x")
	assert.Equal(t, 1, f.calls(cuStreamCreate), "one stream for all of them")
}

func TestFreeTwice(t *testing.T) {
	f := openFake(t)
	c := f.context()
	b := f.buffer(c, 64)
	assert.NoError(t, b.Free())
	assert.ErrorIs(t, b.Free(), ErrClosed)
	assert.NoError(t, b.Close())
	assert.ErrorIs(t, b.Upload(0, []byte{1}), ErrClosed)
	assert.ErrorContains(t, b.Download([]byte{1}, 0), "the buffer of 64 bytes is closed")
	assert.Equal(t, 1, f.calls(cuMemFree))
}

func TestEmptyBuffers(t *testing.T) {
	f := openFake(t)
	c := f.context()
	b := f.buffer(c, 0)
	assert.EqualValues(t, 0, b.Ptr())
	assert.NoError(t, b.Upload(0, nil))
	h, err := c.AllocHost(0)
	require.NoError(t, err)
	s := f.stream(c)
	assert.NoError(t, s.CopyToDevice(0, h, 0, 0))
	assert.NoError(t, s.MemsetD8(0, 0, 0))
	assert.NoError(t, s.MemsetD32(0, 0, 0))
	assert.NoError(t, s.CopyWithinDevice(0, 0, 0))
	assert.NoError(t, h.Close())
	assert.Equal(t, 0, f.calls(cuMemAlloc)+f.calls(cuMemHostAlloc))
}

func TestStreamCopies(t *testing.T) {
	f := openFake(t)
	c := f.context()
	s, b := f.stream(c), f.buffer(c, 4096)
	h, err := c.AllocHost(4096)
	require.NoError(t, err)
	assert.Equal(t, 4096, h.Size())
	copy(h.Bytes(), randomBytes(2048))
	require.NoError(t, s.CopyToDevice(b.Ptr(), h, 0, 2048))
	require.NoError(t, s.CopyWithinDevice(b.Ptr()+2048, b.Ptr(), 2048))
	require.NoError(t, s.CopyFromDevice(h, 2048, 2048, b.Ptr()+2048))
	require.NoError(t, s.Synchronize(t.Context()))
	assert.True(t, bytes.Equal(h.Bytes()[:2048], h.Bytes()[2048:]))
	require.NoError(t, s.MemsetD8(b.Ptr(), 7, 100))
	require.NoError(t, s.MemsetD32(b.Ptr()+100, 0x01020304, 10))
	require.NoError(t, s.CopyFromDevice(h, 0, 200, b.Ptr()))
	require.NoError(t, s.Synchronize(noCancel))
	assert.Equal(t, []byte{7, 7, 4, 3, 2, 1, 4}, h.Bytes()[98:105])

	var r *RangeError
	assert.ErrorAs(t, s.CopyToDevice(b.Ptr(), h, 4090, 7), &r)
	assert.ErrorAs(t, s.CopyToDevice(b.Ptr(), h, -1, 7), &r)
	assert.ErrorAs(t, s.CopyFromDevice(h, 0, -1, b.Ptr()), &r)
	require.NoError(t, h.Close())
	assert.Equal(t, 1, f.calls(cuCtxSynchronize), "a copy might have been in flight")
	assert.ErrorIs(t, s.CopyToDevice(b.Ptr(), h, 0, 1), ErrClosed)
}

func TestWrappedStream(t *testing.T) {
	f := openFake(t)
	c := f.context()
	own, b := f.stream(c), f.buffer(c, 64)
	for _, handle := range []uintptr{0, own.Handle()} {
		s, err := c.WrapStream(handle)
		require.NoError(t, err)
		assert.Equal(t, handle, s.Handle())
		assert.NoError(t, s.MemsetD8(b.Ptr(), 1, 64))
		assert.NoError(t, s.Synchronize(t.Context()))
		assert.NoError(t, s.Close())
		assert.ErrorIs(t, s.MemsetD8(b.Ptr(), 1, 64), ErrClosed)
	}
	assert.Equal(t, 0, f.calls(cuStreamDestroy))

	_, err := c.WrapStream(7)
	require.NoError(t, err)
	held := func() int { f.primaries[0].mu.Lock(); defer f.primaries[0].mu.Unlock(); return f.primaries[0].refs }
	for deadline := time.Now().Add(5 * time.Second); held() > 3 && time.Now().Before(deadline); runtime.Gosched() {
		runtime.GC()
	}
	assert.Equal(t, 3, held(), "context, stream and buffer: a forgotten wrapper lets go")
}

func TestEvents(t *testing.T) {
	f := openFake(t)
	c := f.context()
	s := f.stream(c)
	a, err := c.NewEvent(true)
	require.NoError(t, err)
	b, err := c.NewEvent(false)
	require.NoError(t, err)
	require.NoError(t, a.Record(s))
	require.NoError(t, s.Wait(a))
	require.NoError(t, b.Record(s))
	d, err := Elapsed(a, b)
	require.NoError(t, err)
	assert.Equal(t, 1500*time.Microsecond, d)

	f.control("fake_hold", 1)
	for _, query := range []func() (bool, error){a.Query, s.Query} {
		done, err := query()
		assert.NoError(t, err)
		assert.False(t, done)
	}
	f.control("fake_hold", 0)
	done, err := s.Query()
	assert.NoError(t, err)
	assert.True(t, done)
	assert.NoError(t, a.Synchronize(t.Context()))
	assert.NoError(t, a.Close())
	assert.NoError(t, b.Close())
	_, err = Elapsed(a, b)
	assert.ErrorIs(t, err, ErrClosed)
	_, err = a.Query()
	assert.ErrorIs(t, err, ErrClosed)
}

// TestSynchronizeIsCancelled holds that a wait ends with its context, leaves the stream usable and no event behind.
func TestSynchronizeIsCancelled(t *testing.T) {
	f := openFake(t)
	c := f.context()
	s := f.stream(c)
	e, err := c.NewEvent(false)
	require.NoError(t, err)
	require.NoError(t, e.Record(s))
	live := f.control("fake_live")
	f.control("fake_hold", 1)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		assert.ErrorIs(t, s.Synchronize(ctx), context.DeadlineExceeded)
		assert.ErrorIs(t, s.Synchronize(ctx), context.DeadlineExceeded)
		assert.ErrorIs(t, e.Synchronize(ctx), context.DeadlineExceeded)
		cancel()
	}
	assert.Equal(t, live+1, f.control("fake_live"), "one event is kept for the next wait")
	waited := make(chan error)
	go func() { waited <- s.Synchronize(t.Context()) }()
	time.Sleep(10 * time.Millisecond)
	f.control("fake_hold", 0)
	assert.NoError(t, <-waited)
	assert.NoError(t, e.Close())
}

func TestWaitFindsCrash(t *testing.T) {
	f := openFake(t)
	c := f.context()
	s := f.stream(c)
	f.fail(cuEventQuery, 700, 3, 1)
	f.control("fake_hold", 1)
	assert.ErrorIs(t, s.Synchronize(t.Context()), ErrIllegalAddress)
	f.control("fake_hold", 0)
	assert.False(t, c.Healthy())
	f.crashed = true
}

func TestLeakIsWarnedOfAndNotFreed(t *testing.T) {
	f := openFake(t)
	c := f.context()
	var mu sync.Mutex
	var lines []string
	SetWarnHandler(func(s string) { mu.Lock(); defer mu.Unlock(); lines = append(lines, s) })
	defer SetWarnHandler(nil)
	func() {
		for range 3 {
			_, err := c.Alloc(4321)
			must(t, err)
		}
		closed, err := c.Alloc(1234)
		must(t, err)
		must(t, closed.Close())
	}()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		runtime.GC()
		mu.Lock()
		n := len(lines)
		mu.Unlock()
		if n >= 3 {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, lines, 3)
	assert.True(t, strings.Contains(lines[0], "a buffer of 4321 bytes on cuda:0 (Fake GPU 0) was dropped without Close"), lines[0])
	assert.Equal(t, 1, f.calls(cuMemFree))
	f.crashed = true
	f.drop(3)
}

// drop gives back holds on the context that a test lost on purpose.
func (f *fake) drop(holds int) {
	for range holds {
		assert.NoError(f.t, f.primaries[0].release())
	}
}
