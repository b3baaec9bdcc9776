//go:build !fsgen_nocuda

package sampler

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// openGPU opens the first GPU, or skips with the reason; with FSGEN_REQUIRE_GPU set it fails instead.
func gpu(t testing.TB) *Device {
	t.Helper()
	dev, err := Open(CUDA)
	if err != nil {
		if os.Getenv("FSGEN_REQUIRE_GPU") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}

// upload copies values to new device memory that lives as long as the test.
func upload[T uint16 | uint32 | uint64 | int32 | float32](t testing.TB, dev *Device, v []T) uint64 {
	t.Helper()
	buf, err := dev.b.(*cudaDevice).ctx.Alloc(uint64(max(len(asBytes(v)), 16)))
	require.NoError(t, err)
	require.NoError(t, buf.Upload(0, asBytes(v)))
	t.Cleanup(func() { buf.Close() })
	return uint64(buf.Ptr())
}
