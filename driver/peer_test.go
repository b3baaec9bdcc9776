//go:build linux && (amd64 || arm64)

package driver

import (
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
