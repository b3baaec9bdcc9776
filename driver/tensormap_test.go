package driver

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// tile is the tensor map of a weight matrix: [151936, 4096] bf16 in tiles of 128 by 64, swizzled.
func tile() TensorMapSpec {
	return TensorMapSpec{
		Type: BFloat16, Rank: 2, Address: 1 << 30, Dims: [5]uint64{4096, 151936}, Strides: [4]uint64{8192},
		Box: [5]uint32{64, 128}, Swizzle: Swizzle128B, L2Promotion: L2Promotion256B,
	}
}

func TestTensorMapRules(t *testing.T) {
	good := tile()
	assert.NoError(t, good.Check())
	for _, c := range []struct {
		field  string
		value  uint64
		change func(*TensorMapSpec)
	}{
		{"tensorDataType", 13, func(s *TensorMapSpec) { s.Type = numElementTypes }},
		{"interleave", 3, func(s *TensorMapSpec) { s.Interleave = 3 }},
		{"swizzle", 4, func(s *TensorMapSpec) { s.Swizzle = 4 }},
		{"l2Promotion", 4, func(s *TensorMapSpec) { s.L2Promotion = 4 }},
		{"oobFill", 2, func(s *TensorMapSpec) { s.OOBFill = 2 }},
		{"tensorRank", 0, func(s *TensorMapSpec) { s.Rank = 0 }},
		{"tensorRank", 6, func(s *TensorMapSpec) { s.Rank = 6 }},
		{"tensorRank", 2, func(s *TensorMapSpec) { s.Interleave = Interleave16B }},
		{"globalAddress", 0, func(s *TensorMapSpec) { s.Address = 0 }},
		{"globalAddress", 1<<30 + 8, func(s *TensorMapSpec) { s.Address += 8 }},
		{"globalAddress", 1<<30 + 15, func(s *TensorMapSpec) { s.Address += 15 }},
		{"globalAddress", 1<<30 + 16, func(s *TensorMapSpec) { volume(s); s.Interleave = Interleave32B; s.Address += 16 }},
		{"globalDim[0]", 0, func(s *TensorMapSpec) { s.Dims[0] = 0 }},
		{"globalDim[1]", 0, func(s *TensorMapSpec) { s.Dims[1] = 0 }},
		{"globalDim[1]", 1<<32 + 1, func(s *TensorMapSpec) { s.Dims[1] = 1<<32 + 1 }},
		{"globalStrides[0]", 8200, func(s *TensorMapSpec) { s.Strides[0] = 8200 }},
		{"globalStrides[0]", 0, func(s *TensorMapSpec) { s.Strides[0] = 0 }},
		{"globalStrides[0]", 8176, func(s *TensorMapSpec) { s.Strides[0] = 8176 }},
		{"globalStrides[0]", 1 << 40, func(s *TensorMapSpec) { s.Strides[0] = 1 << 40 }},
		{"globalStrides[0]", 1<<64 - 16, func(s *TensorMapSpec) { s.Strides[0] = 1<<64 - 16 }},
		{"globalStrides[0]", 8208, func(s *TensorMapSpec) { volume(s); s.Interleave = Interleave32B; s.Strides[0] = 8208 }},
		{"globalStrides[1]", 8192, func(s *TensorMapSpec) { volume(s); s.Strides[1] = 8192 }},
		{"boxDim[0]", 0, func(s *TensorMapSpec) { s.Box[0] = 0 }},
		{"boxDim[1]", 257, func(s *TensorMapSpec) { s.Box[1] = 257 }},
		{"boxDim in bytes", 64 * 256 * 8 * 2, func(s *TensorMapSpec) {
			s.Rank, s.Dims[2], s.Strides[1], s.Box[1], s.Box[2] = 3, 8, s.Strides[0]*s.Dims[1], 256, 8
		}},
		{"boxDim[0] in bytes", 120, func(s *TensorMapSpec) { s.Box[0] = 60 }},
		{"boxDim[0] in bytes", 144, func(s *TensorMapSpec) { s.Box[0] = 72 }},
		{"boxDim[0] in bytes", 80, func(s *TensorMapSpec) { s.Box[0], s.Swizzle = 40, Swizzle64B }},
		{"boxDim[0] in bytes", 48, func(s *TensorMapSpec) { s.Box[0], s.Swizzle = 24, Swizzle32B }},
		{"elementStrides[1]", 9, func(s *TensorMapSpec) { s.ElementStrides[1] = 9 }},
		{"swizzle", 3, func(s *TensorMapSpec) { volume(s); s.Interleave = Interleave32B }},
		{"oobFill", 1, func(s *TensorMapSpec) { s.Type, s.OOBFill = Int32, OOBFillNaN; s.Box[0] = 32; s.Strides[0] *= 2 }},
	} {
		s := tile()
		c.change(&s)
		var e *TensorMapError
		if assert.ErrorAs(t, s.Check(), &e, "%s = %d", c.field, c.value) {
			assert.Equal(t, c.field, e.Field)
			assert.Equal(t, c.value, e.Value)
			assert.ErrorContains(t, e, c.field)
		}
	}
}

// volume makes a spec of rank 3.
func volume(s *TensorMapSpec) {
	s.Rank, s.Dims[2], s.Strides[1], s.Box[2] = 3, 4, s.Strides[0]*s.Dims[1], 1
}

func TestTensorMapLimits(t *testing.T) {
	for _, change := range []func(*TensorMapSpec){
		func(s *TensorMapSpec) { s.Address += 16 },
		func(s *TensorMapSpec) { s.Address = 1<<30 + 48 },
		func(s *TensorMapSpec) { s.Dims[1] = 1 << 32 },
		func(s *TensorMapSpec) { s.Strides[0] = 1<<40 - 16 },
		func(s *TensorMapSpec) { s.Box[1] = 256 },
		func(s *TensorMapSpec) { s.Box[0], s.Swizzle = 256, SwizzleNone },
		func(s *TensorMapSpec) { s.ElementStrides = [5]uint32{1, 8} },
		func(s *TensorMapSpec) { s.OOBFill = OOBFillNaN },
		func(s *TensorMapSpec) { s.Rank = 1 },
		func(s *TensorMapSpec) { volume(s); s.Interleave, s.Swizzle = Interleave32B, Swizzle32B },
		volume,
	} {
		s := tile()
		change(&s)
		assert.NoError(t, s.Check())
	}
	for ty := range numElementTypes {
		assert.True(t, ty.Size() > 0)
	}
	assert.Equal(t, 0, numElementTypes.Size())
}

// randomSpec makes a spec that breaks a rule or two now and then.
func randomSpec(rng *rand.Rand, base DevicePtr) TensorMapSpec {
	odd := func() bool { return rng.IntN(12) == 0 }
	s := TensorMapSpec{
		Type: ElementType(rng.UintN(uint(numElementTypes))), Rank: 1 + rng.IntN(5), Address: base + DevicePtr(16*rng.IntN(8)),
		Swizzle: Swizzle(rng.UintN(uint(numSwizzles))), L2Promotion: L2Promotion(rng.UintN(uint(numL2Promotions))),
	}
	if odd() {
		s.Interleave = Interleave(rng.UintN(uint(numInterleaves)))
	}
	if odd() {
		s.Address += DevicePtr(rng.IntN(16))
	}
	if odd() {
		s.OOBFill = OOBFillNaN
	}
	for i := range s.Dims {
		s.Dims[i] = 1 + rng.Uint64N(1<<rng.IntN(12))
		s.Box[i] = 1 + rng.Uint32N(256)
		if odd() {
			s.ElementStrides[i] = rng.Uint32N(10)
		}
		if odd() {
			s.Dims[i] = rng.Uint64N(1 << 33)
		}
		if odd() {
			s.Box[i] = rng.Uint32N(300)
		}
	}
	s.Box[0] = uint32(16 / s.Type.Size() * (1 + rng.IntN(10)))
	span := s.Dims[0] * uint64(s.Type.Size())
	for i := range s.Strides {
		s.Strides[i] = (span + 15) &^ 15
		if odd() {
			s.Strides[i] += rng.Uint64N(64)
		}
		span = s.Strides[i] * s.Dims[i+1]
	}
	return s
}

func TestRandomSpecs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	good := 0
	for range 20_000 {
		s := randomSpec(rng, 1<<30)
		if s.Check() == nil {
			good++
		}
	}
	assert.True(t, good > 1000 && good < 19_000, "%d of 20000", good)
}
