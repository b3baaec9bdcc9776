//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package nvml

import (
	_ "embed"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/internal/dynlib"
)

//go:embed testdata/fakenvml.c
var fakeSource []byte

const fakeUUID = "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0"

// fake opens the fake library and its GPU.
func fake(t *testing.T, without ...string) (*Library, *Device) {
	t.Helper()
	t.Setenv(EnvLibrary, cfake.Build(t, fakeSource, without...))
	l, err := Open()
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, l.Close())
		assert.Zero(t, control(t, l, "fake_started"), "stopped as often as started")
	})
	d, err := l.Device(fakeUUID)
	require.NoError(t, err)
	return l, d
}

func control(t *testing.T, l *Library, name string, args ...uintptr) int {
	t.Helper()
	f, err := l.lib.Func(name)
	require.NoError(t, err)
	return int(int32(f.Call(args...)))
}

func TestRead(t *testing.T) {
	_, d := fake(t)
	assert.Equal(t, "Fake GPU 0", d.Name())
	assert.Equal(t, 700.0, d.PowerLimit())
	r, err := d.Read()
	require.NoError(t, err)
	assert.Equal(t, Reading{SMClock: 1755, MemoryClock: 3201, Power: 612.345, Temperature: 63, Throttle: 0x24}, r)
	assert.Equal(t, []string{"sw power cap", "sw thermal slowdown"}, r.Throttle.Names())
}

func TestMissingValuesAreZero(t *testing.T) {
	_, d := fake(t, "nvmlDeviceGetPowerUsage", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetName")
	r, err := d.Read()
	require.NoError(t, err)
	assert.Equal(t, Reading{SMClock: 1755, MemoryClock: 3201, Temperature: 63, Throttle: 8}, r, "the reasons under their older name")
	assert.Empty(t, d.Name())
}

func TestDeadGPUIsAnError(t *testing.T) {
	l, d := fake(t)
	control(t, l, "fake_break", 3)
	r, err := d.Read()
	assert.Zero(t, r)
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, Error{3, "Not Supported", "nvmlDeviceGetClockInfo"}, *e)
	assert.Zero(t, d.PowerLimit())
	control(t, l, "fake_break", 0)
}

func TestUnknownDevice(t *testing.T) {
	l, _ := fake(t)
	_, err := l.Device("GPU-other")
	assert.EqualError(t, err, "nvml: nvmlDeviceGetHandleByUUID: Not Found (6)")
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	t.Setenv(EnvLibrary, filepath.Join(t.TempDir(), "libnvidia-ml.so.1"))
	_, err := Open()
	assert.ErrorIs(t, err, dynlib.ErrNotFound)
	t.Setenv(EnvLibrary, cfake.Build(t, fakeSource, "nvmlInit_v2"))
	_, err = Open()
	assert.ErrorContains(t, err, "has no nvmlInit_v2")
}

func TestThrottleNames(t *testing.T) {
	assert.Empty(t, Throttle(0).Names())
	assert.Equal(t, []string{"gpu idle"}, Idle.Names())
	assert.Equal(t, []string{"display clocks setting", "unknown reason"}, Throttle(1<<8|1<<40).Names())
}
