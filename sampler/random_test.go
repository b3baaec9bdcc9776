package sampler

import (
	"context"
	"math/rand/v2"

	"github.com/fsgen/fsgen/model"
)

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
