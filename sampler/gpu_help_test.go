//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/model"
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

// normals returns n bf16 values drawn from N(0, sd^2).
func normals(rng *rand.Rand, n int, sd float64) []uint16 {
	out := make([]uint16, n)
	for i := range out {
		out[i] = uint16(model.FromFloat32(float32(rng.NormFloat64() * sd)))
	}
	return out
}

// pooledRows serves rows of random values out of a pool, each from its own place: large matrices of random data without
// the time to draw them.
type pooledRows struct {
	pool   []uint16
	hidden int
}

func (p pooledRows) ReadRows(_ context.Context, dst []uint16, first, n int) error {
	for i := range n {
		at := int(uint64(first+i) * 0x9E3779B97F4A7C15 >> 20 % uint64(len(p.pool)-p.hidden))
		copy(dst[i*p.hidden:(i+1)*p.hidden], p.pool[at:])
	}
	return nil
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
