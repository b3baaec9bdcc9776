package sim

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// exactly rounds a rational to float32 in a mode, by the definition.
func exactly(x *big.Rat, mode rounding) float32 {
	y, _ := x.Float32()
	if mode == toNearest || !math.IsInf(float64(y), 0) && new(big.Rat).SetFloat64(float64(y)).Cmp(x) == 0 {
		return y
	}
	above := math.IsInf(float64(y), 1) || !math.IsInf(float64(y), -1) && new(big.Rat).SetFloat64(float64(y)).Cmp(x) > 0
	down := mode == toMinus || mode == toZero && x.Sign() > 0
	switch {
	case above && down:
		return math.Nextafter32(y, float32(math.Inf(-1)))
	case !above && !down:
		return math.Nextafter32(y, float32(math.Inf(1)))
	}
	return y
}

// someFloat covers the whole range, subnormals too, and near equal exponents often.
func someFloat(rng *rand.Rand) float32 {
	for {
		bits := rng.Uint32()
		switch rng.IntN(4) {
		case 0:
			bits = bits&0x807fffff | (120+rng.Uint32N(16))<<23
		case 1:
			bits &= 0x80ffffff // subnormal or nearly so
		}
		if x := math.Float32frombits(bits); !math.IsInf(float64(x), 0) && x == x && x != 0 {
			return x
		}
	}
}

// Every operation in every mode against exact rational arithmetic.
func TestFloatsRoundOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	rat := func(x float32) *big.Rat { return new(big.Rat).SetFloat64(float64(x)) }
	for range 10000 {
		a, b, c := someFloat(rng), someFloat(rng), someFloat(rng)
		if rng.IntN(3) == 0 {
			c = -a * b // cancellation
		}
		if math.IsInf(float64(c), 0) {
			continue
		}
		for mode := toNearest; mode <= toPlus; mode++ {
			sum, prod := new(big.Rat).Add(rat(a), rat(b)), new(big.Rat).Mul(rat(a), rat(b))
			if sum.Sign() != 0 {
				same(t, exactly(sum, mode), add32(a, b, mode), "add", a, b, mode)
			}
			same(t, exactly(prod, mode), mul32(a, b, mode), "mul", a, b, mode)
			if f := new(big.Rat).Add(prod, rat(c)); f.Sign() != 0 {
				same(t, exactly(f, mode), fma32(a, b, c, mode), "fma", a, b, c, mode)
			}
			same(t, exactly(new(big.Rat).Quo(rat(a), rat(b)), mode), div32(a, b, mode), "div", a, b, mode)
		}
		checkRoot(t, a)
	}
}

func same(t *testing.T, want, got float32, what ...any) {
	t.Helper()
	if want != got {
		require.Equal(t, math.Float32bits(want), math.Float32bits(got), "%v", what)
	}
}

// checkRoot checks that the square root's neighbours are on the right sides of it.
func checkRoot(t *testing.T, x float32) {
	t.Helper()
	if x < 0 {
		x = -x
	}
	down, up := sqrt32(x, toMinus), sqrt32(x, toPlus)
	square := func(v float32) *big.Rat {
		r := new(big.Rat).SetFloat64(float64(v))
		return r.Mul(r, r)
	}
	target := new(big.Rat).SetFloat64(float64(x))
	require.LessOrEqual(t, square(down).Cmp(target), 0, "%g", x)
	require.GreaterOrEqual(t, square(up).Cmp(target), 0, "%g", x)
	require.True(t, up == down || math.Nextafter32(down, up) == up, "%g", x)
}

// A 16-bit float survives widening and rounding back, and ties go to even.
func TestHalves(t *testing.T) {
	for _, h := range []half{f16, bf16} {
		for v := range uint64(1 << 16) {
			x := h.wide(v)
			if math.IsNaN(x) {
				continue
			}
			require.Equal(t, v, h.narrow(x, toNearest), "%#x", v)
			next := h.wide(v + 1)
			if math.IsInf(next, 0) || math.IsNaN(next) || math.IsInf(x, 0) {
				continue
			}
			require.Equal(t, v+v&1, h.narrow((x+next)/2, toNearest), "tie after %#x", v)
			require.Equal(t, v, h.narrow((x+next)/2, toZero), "%#x", v)
		}
	}
}

// Swizzled operands: what a copy puts where, a descriptor finds, for every mode and both majors.
func TestDescriptorsFindWhatCopiesPut(t *testing.T) {
	for _, span := range []int{0, 32, 64, 128} {
		for _, byRow := range []bool{true, false} {
			m := matrix{start: 1024, leading: 16384, stride: 1024, span: span, byRow: byRow}
			seen := map[uint32]bool{}
			for i := range 64 {
				for j := range 2 {
					if !byRow && i >= 16 {
						continue
					}
					at := swizzled(m.chunk(i, j), span)
					require.Zero(t, at%16)
					require.False(t, seen[at], "span %d: two chunks at %#x", span, at)
					seen[at] = true
				}
			}
		}
	}
	// 128-byte rows: chunk c of row r lies at chunk c^r (PTX ISA, figure of the 128B swizzle).
	m := matrix{start: 2048, stride: 1024, span: 128, byRow: true}
	for r := range 16 {
		for c := range 2 {
			require.Equal(t, uint32(2048+r*128+16*(c^r%8)), swizzled(m.chunk(r, c), 128))
		}
	}
}
