//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package peerprobe

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
)

func gpuDevices(t *testing.T) []*driver.Device {
	t.Helper()
	d, err := driver.Open()
	var list []*driver.Device
	if err == nil {
		list, err = d.Devices()
	}
	if err == nil && len(list) > 0 {
		return list
	}
	if os.Getenv("FSGEN_REQUIRE_GPU") != "" {
		t.Fatalf("no usable GPU: %v", err)
	}
	t.Skipf("no usable GPU: %v", err)
	return nil
}

func contextOf(t *testing.T, dev *driver.Device) *driver.Context {
	t.Helper()
	c, err := dev.Context()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// probeShared has a device write to memory of another, or of its own by another address.
func probeShared(t *testing.T, writer, owner *driver.Context) {
	t.Helper()
	mine, err := owner.AllocShared(Bytes)
	require.NoError(t, err)
	defer func() { assert.NoError(t, mine.Close()) }()
	file, err := mine.Export()
	require.NoError(t, err)
	mapped, err := writer.ImportShared(file, mine.Size())
	require.NoError(t, err)
	defer func() { assert.NoError(t, mapped.Close()) }()
	require.NoError(t, file.Close())
	assert.NoError(t, Run(t.Context(), Path{writer, mapped.Ptr(), owner, mine.Ptr()}, 0))
}

func TestGPUProbeOfItself(t *testing.T) {
	c := contextOf(t, gpuDevices(t)[0])
	probeShared(t, c, c)
}

func TestGPUProbeOfPeers(t *testing.T) {
	devices := gpuDevices(t)
	if len(devices) < 2 {
		t.Skip("one GPU: peers need two")
	}
	a, b := contextOf(t, devices[0]), contextOf(t, devices[1])
	if yes, err := a.Device().CanAccessPeer(b.Device()); err != nil || !yes {
		t.Skipf("%v does not reach %v: %v", a.Device(), b.Device(), err)
	}
	probeShared(t, a, b)
	probeShared(t, b, a)
	require.NoError(t, a.EnablePeerAccess(b))
	own, err := b.Alloc(Bytes)
	require.NoError(t, err)
	defer func() { assert.NoError(t, own.Close()) }()
	assert.NoError(t, Run(t.Context(), Path{a, own.Ptr(), b, own.Ptr()}, 0))
}
