//go:build linux && (amd64 || arm64)

package driver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One device's memory by two addresses, and by another process: what virtual ranks on one GPU do.
func TestGPUSharedMemory(t *testing.T) {
	g := openGPU(t)
	b, err := g.AllocShared(1000)
	require.NoError(t, err)
	g.close(b.Close)
	t.Logf("1000 bytes take %d", b.Size())
	file, err := b.Export()
	require.NoError(t, err)
	again, err := g.ImportShared(file, b.Size())
	require.NoError(t, err)
	g.close(again.Close)
	require.NoError(t, file.Close())
	require.NoError(t, g.stream.MemsetD32(b.Ptr(), 0xfeedbeef, 250))
	require.NoError(t, g.stream.Synchronize(t.Context()))
	got := make([]byte, 4)
	require.NoError(t, g.CopyFromDevice(got, again.Ptr()+996))
	assert.Equal(t, []byte{0xef, 0xbe, 0xed, 0xfe}, got)
}

func TestGPUSharedMemoryOfAnotherProcess(t *testing.T) {
	g := openGPU(t)
	shareWithAnotherProcess(t, g.Context, func() *Context { return g.Context })
}

// The device stores into the host's memory.
func TestGPUMappedHostMemory(t *testing.T) {
	g := openGPU(t)
	own, err := g.AllocHostMapped(4096)
	require.NoError(t, err)
	file, err := NewHostFile(4096)
	require.NoError(t, err)
	shared, err := g.MapHostFile(file, 4096)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	for _, h := range []*HostBuffer{own, shared} {
		g.close(h.Close)
		storeToHost(t, g, h)
	}
}

func storeToHost(t *testing.T, g *gpu, h *HostBuffer) {
	t.Helper()
	p, err := h.DevicePtr(g.Context)
	require.NoError(t, err)
	require.NoError(t, g.stream.MemsetD32(p, 0x01020304, 1024))
	require.NoError(t, g.stream.Synchronize(t.Context()))
	assert.Equal(t, []byte{4, 3, 2, 1}, h.Bytes()[4092:])
}

func TestGPUPeers(t *testing.T) {
	devices := gpuDevices(t)
	if len(devices) < 2 {
		t.Skip("one GPU: peers need two")
	}
	a, b := onGPU(t, devices[0]), onGPU(t, devices[1])
	yes, err := a.Device().CanAccessPeer(b.Device())
	require.NoError(t, err)
	t.Logf("%v reaches %v: %v", a.Device(), b.Device(), yes)
	if !yes {
		assert.ErrorIs(t, a.EnablePeerAccess(b.Context), ErrPeerAccessUnsupported)
		return
	}
	require.NoError(t, a.EnablePeerAccess(b.Context))
	require.NoError(t, a.EnablePeerAccess(b.Context), "twice is no error")
	theirs := b.buffer(64)
	shared, err := b.AllocShared(64, a.Device())
	require.NoError(t, err)
	b.close(shared.Close)
	for i, p := range []DevicePtr{theirs.Ptr(), shared.Ptr()} {
		require.NoError(t, a.stream.MemsetD8(p, byte(3+i), 64))
		require.NoError(t, a.stream.Synchronize(t.Context()))
		got := make([]byte, 1)
		require.NoError(t, b.CopyFromDevice(got, p+63))
		assert.Equal(t, byte(3+i), got[0])
	}
}
