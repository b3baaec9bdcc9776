//go:build linux && (amd64 || arm64)

package driver

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPeerAccess(t *testing.T) {
	f := openFake(t)
	a, b := f.contextOf(0), f.contextOf(1)
	yes, err := a.Device().CanAccessPeer(b.Device())
	require.NoError(t, err)
	assert.True(t, yes)

	s, theirs := f.stream(a), f.buffer(b, 64)
	assert.ErrorIs(t, s.MemsetD8(theirs.Ptr(), 7, 64), ErrInvalidValue, "before access is enabled")
	require.NoError(t, a.EnablePeerAccess(b))
	require.NoError(t, s.MemsetD8(theirs.Ptr(), 7, 64))
	got := make([]byte, 1)
	require.NoError(t, theirs.Download(got, 63))
	assert.Equal(t, []byte{7}, got)
	back, mine := f.stream(b), f.buffer(a, 64)
	assert.ErrorIs(t, back.MemsetD8(mine.Ptr(), 7, 64), ErrInvalidValue, "access is one way")
}

// Two groups over the same devices, or a caller that enabled peers before, meet error 704.
func TestPeerAccessTwice(t *testing.T) {
	f := openFake(t)
	a, b := f.contextOf(0), f.contextOf(1)
	require.NoError(t, a.EnablePeerAccess(b))
	assert.NoError(t, a.EnablePeerAccess(b))
	assert.NoError(t, f.contextOf(0).EnablePeerAccess(f.contextOf(1)))
	assert.Equal(t, 3, f.calls(cuCtxEnablePeerAccess))
	assert.True(t, a.Healthy())
}

func TestOwnMemoryNeedsNoPeerAccess(t *testing.T) {
	f := openFake(t)
	a := f.context()
	yes, err := a.Device().CanAccessPeer(a.Device())
	require.NoError(t, err)
	assert.True(t, yes)
	assert.NoError(t, a.EnablePeerAccess(f.context()))
	assert.Equal(t, 0, f.calls(cuDeviceCanAccessPeer)+f.calls(cuCtxEnablePeerAccess))
}

func TestPeerAccessRefused(t *testing.T) {
	f := openFake(t)
	a, b := f.contextOf(0), f.contextOf(1)
	f.control("fake_no_peers", 1)
	yes, err := a.Device().CanAccessPeer(b.Device())
	require.NoError(t, err)
	assert.False(t, yes)
	err = a.EnablePeerAccess(b)
	assert.ErrorIs(t, err, ErrPeerAccessUnsupported)
	assert.ErrorContains(t, err, "cuda:0 (Fake GPU 0) reaching cuda:1 (Fake GPU 1)")
	f.control("fake_no_peers", 0)

	f.fail(cuDeviceCanAccessPeer, ErrInvalidDevice, 0, 1)
	_, err = a.Device().CanAccessPeer(b.Device())
	assert.ErrorIs(t, err, ErrInvalidDevice)
	f.fail(cuCtxEnablePeerAccess, ErrTooManyPeers, 0, 1)
	assert.ErrorIs(t, a.EnablePeerAccess(b), ErrTooManyPeers)

	gone, err := b.Device().Context()
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	assert.ErrorIs(t, a.EnablePeerAccess(gone), ErrClosed)
	assert.ErrorIs(t, gone.EnablePeerAccess(a), ErrClosed)

	var mismatch *DriverMismatchError
	other := openFake(t).contextOf(1)
	assert.ErrorAs(t, a.EnablePeerAccess(other), &mismatch)
	_, err = a.Device().CanAccessPeer(other.Device())
	assert.ErrorAs(t, err, &mismatch)
}

func TestMappedHostMemory(t *testing.T) {
	f := openFake(t)
	a, b := f.contextOf(0), f.contextOf(1)
	h, err := a.AllocHostMapped(64)
	require.NoError(t, err)
	for i, c := range []*Context{a, b} {
		p, err := h.DevicePtr(c)
		require.NoError(t, err)
		s := f.stream(c)
		require.NoError(t, s.MemsetD8(p+DevicePtr(i), byte(3+i), 1))
	}
	assert.Equal(t, []byte{3, 4}, h.Bytes()[:2])

	plain, err := a.AllocHost(64)
	require.NoError(t, err)
	_, err = plain.DevicePtr(b)
	assert.ErrorIs(t, err, ErrInvalidValue)
	assert.ErrorContains(t, err, "pinned buffer of 64 bytes on cuda:1")
	empty, err := a.AllocHostMapped(0)
	require.NoError(t, err)
	p, err := empty.DevicePtr(a)
	assert.NoError(t, err)
	assert.Zero(t, p)
	for _, h := range []*HostBuffer{h, plain, empty} {
		require.NoError(t, h.Close())
		_, err = h.DevicePtr(a)
		assert.ErrorIs(t, err, ErrClosed)
	}
}

// Two contexts, as two processes would, map one file and see what the other's device has stored.
func TestHostMemoryOfAFile(t *testing.T) {
	f := openFake(t)
	before := openFiles(t)
	file, err := NewHostFile(100)
	require.NoError(t, err)
	var buffers []*HostBuffer
	for i, c := range []*Context{f.contextOf(0), f.contextOf(1)} {
		h, err := c.MapHostFile(file, 100)
		require.NoError(t, err)
		p, err := h.DevicePtr(c)
		require.NoError(t, err)
		require.NoError(t, f.stream(c).MemsetD8(p+DevicePtr(i), byte(3+i), 1))
		buffers = append(buffers, h)
	}
	require.NoError(t, file.Close())
	for _, h := range buffers {
		assert.Equal(t, []byte{3, 4, 0}, h.Bytes()[:3])
		assert.Equal(t, 100, h.Size())
	}
	for _, h := range buffers {
		require.NoError(t, h.Close())
		require.NoError(t, h.Close())
	}
	assert.Equal(t, 2, f.calls(cuMemHostUnregister))
	assert.Equal(t, before, openFiles(t))
}

func TestHostFilesAreChecked(t *testing.T) {
	f := openFake(t)
	c := f.context()
	file, err := NewHostFile(100)
	require.NoError(t, err)
	defer file.Close()
	assert.Error(t, file.Truncate(10), "nobody takes memory away that others have mapped")
	for _, n := range []int{0, -1} {
		_, err = NewHostFile(n)
		assert.ErrorAs(t, err, new(*SharedSizeError))
		_, err = c.MapHostFile(file, n)
		assert.ErrorAs(t, err, new(*SharedSizeError))
	}
	_, err = c.MapHostFile(file, 101)
	assert.EqualError(t, err, "driver: mapping 101 bytes of a file: it has 100 bytes")
	other, err := os.Open(os.Args[0])
	require.NoError(t, err)
	defer other.Close()
	_, err = c.MapHostFile(other, 100)
	assert.ErrorContains(t, err, "it is not of NewHostFile")
	f.fail(cuMemHostRegister, ErrOutOfMemory, 0, 1)
	_, err = c.MapHostFile(file, 100)
	assert.ErrorIs(t, err, ErrOutOfMemory)
	assert.ErrorContains(t, err, "allocating 100 bytes of shared host memory, page-locked, on cuda:0")
	h, err := c.MapHostFile(file, 100)
	require.NoError(t, err)
	f.fail(cuMemHostUnregister, ErrUnknown, 0, 1)
	assert.ErrorIs(t, h.Close(), ErrUnknown)
	f.crashed = true
}
