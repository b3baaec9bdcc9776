package model

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exactBF16 rounds by exhaustive reasoning in big.Float: 8 bits of precision, ties to even, then the exponent range.
func exactBF16(t *testing.T, f float64) BF16 {
	t.Helper()
	var sign BF16
	if math.Signbit(f) {
		sign = 0x8000
	}
	switch {
	case math.IsNaN(f):
		t.Fatal("NaN has no exact rounding")
	case math.IsInf(f, 0):
		return sign | 0x7f80
	}
	// A subnormal's step is 2^-133; a normal number's is 2^(exponent-7).
	a := new(big.Float).SetFloat64(math.Abs(f))
	exp := -126
	if f != 0 {
		exp = max(a.MantExp(nil)-1, -126)
	}
	scaled := new(big.Float).SetMantExp(a, 7-exp) // in steps
	n, _ := scaled.Int(nil)
	rest := new(big.Float).SetPrec(2000).Sub(scaled, new(big.Float).SetInt(n))
	switch rest.Cmp(big.NewFloat(0.5)) {
	case 1:
		n.Add(n, big.NewInt(1))
	case 0:
		if n.Bit(0) == 1 {
			n.Add(n, big.NewInt(1))
		}
	}
	// n steps from the bits of 2^exp (or of 0 for subnormals); a carry runs into the exponent by itself.
	bits := n.Int64() + int64(exp+126)<<7
	return sign | BF16(min(bits, 0x7f80))
}

func TestBF16AllValuesRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		x := BF16(i)
		f := x.Float32()
		require.Equal(t, uint32(i)<<16, math.Float32bits(f))
		require.Equal(t, f != f, x.IsNaN())
		require.Equal(t, math.IsInf(float64(f), 0), x.IsInf())
		want := x
		if x.IsNaN() {
			want |= bf16Quiet
		}
		require.Equal(t, want, FromFloat32(f), "%04x", i)
		require.Equal(t, want.IsNaN(), FromFloat64(float64(f)).IsNaN(), "%04x", i)
		if !x.IsNaN() {
			require.Equal(t, x, FromFloat64(float64(f)), "%04x", i)
		}
	}
}

// TestBF16Midpoints goes to every tie and one float32 to each side of it.
func TestBF16Midpoints(t *testing.T) {
	for i := range 0x7f80 {
		mid := uint32(i)<<16 | 0x8000
		even := BF16(i + i&1)
		for _, sign := range []uint32{0, 0x80000000} {
			s := BF16(sign >> 16)
			require.Equal(t, s|BF16(i), FromFloat32(math.Float32frombits(sign|mid-1)), "%04x below", i)
			require.Equal(t, s|even, FromFloat32(math.Float32frombits(sign|mid)), "%04x tie", i)
			require.Equal(t, s|BF16(i+1), FromFloat32(math.Float32frombits(sign|mid+1)), "%04x above", i)
		}
	}
}

func TestBF16RandomFloat32(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		b := rng.Uint32()
		f := math.Float32frombits(b)
		if f != f {
			got := FromFloat32(f)
			require.True(t, got.IsNaN(), "%08x", b)
			require.Equal(t, BF16(b>>16)|bf16Quiet, got, "%08x", b)
			continue
		}
		require.Equal(t, exactBF16(t, float64(f)), FromFloat32(f), "%08x", b)
	}
}

func TestBF16FromFloat64RoundsOnce(t *testing.T) {
	// Just above a bf16 tie by less than float32 sees: rounding twice would give the even neighbour below.
	tie := 1 + 0x1p-8
	assert.Equal(t, BF16(0x3f80), FromFloat64(tie))
	assert.Equal(t, BF16(0x3f81), FromFloat64(math.Nextafter(tie, 2)))
	assert.Equal(t, BF16(0x3f80), FromFloat64(math.Nextafter(tie, 0)))
	assert.Equal(t, BF16(0x7f80), FromFloat64(1e300))
	assert.Equal(t, BF16(0xff80), FromFloat64(-1e300))
	assert.Equal(t, BF16(0x8000), FromFloat64(-1e-300))
	assert.Equal(t, BF16(0x7f7f), FromFloat64(math.Nextafter(0x1.ffp127, 0)), "below the tie with infinity")
	assert.Equal(t, BF16(0x7f80), FromFloat64(0x1.ffp127))

	rng := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		// Exponents around the range of bf16, and mantissas near ties half of the time.
		m := rng.Uint64() >> 12
		if rng.IntN(2) == 0 {
			m = m>>44<<44 | 1<<44 | rng.Uint64()>>62
		}
		f := math.Float64frombits(rng.Uint64()>>63<<63 | uint64(1023-140+rng.IntN(270))<<52 | m)
		require.Equal(t, exactBF16(t, f), FromFloat64(f), "%x", f)
	}
}

// TestF16AllValues holds every binary16 value against its definition in float64.
func TestF16AllValues(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		sign, exp, man := 1.0, int(h>>10&0x1f), float64(h&0x3ff)
		if h&0x8000 != 0 {
			sign = -1
		}
		var want float64
		switch exp {
		case 0:
			want = math.Copysign(man*0x1p-24, sign)
		case 0x1f:
			want = math.Inf(int(sign))
			if man != 0 {
				want = math.NaN()
			}
		default:
			want = sign * math.Ldexp(1+man/1024, exp-15)
		}
		got := F16ToFloat32(h)
		if want != want {
			require.True(t, got != got, "%04x", i)
			require.True(t, FromFloat16(h).IsNaN())
			require.Equal(t, h>>15, uint16(FromFloat16(h))>>15, "sign of a NaN")
			continue
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(float64(got)), "%04x", i)
		require.Equal(t, exactBF16(t, want), FromFloat16(h), "%04x", i)
	}
}

func TestBF16Bulk(t *testing.T) {
	f32 := []float32{0, 1, -2.5, 1e-40, float32(math.Inf(1)), 3.3895314e38}
	f64 := make([]float64, len(f32))
	for i, f := range f32 {
		f64[i] = float64(f)
	}
	a, b, back := make([]uint16, 6), make([]uint16, 6), make([]float32, 6)
	BF16FromFloat32s(a, f32)
	BF16FromFloat64s(b, f64)
	assert.Equal(t, a, b)
	assert.Equal(t, []uint16{0, 0x3f80, 0xc020, 0x0001, 0x7f80, 0x7f7f}, a)
	Float32sFromBF16(back, a)
	assert.Equal(t, float32(-2.5), back[2])
	h := []uint16{0x3c00, 0x0001, 0xfc00}
	BF16FromFloat16s(h, h)
	assert.Equal(t, []uint16{0x3f80, 0x3380, 0xff80}, h)
	assert.Panics(t, func() { BF16FromFloat32s(a, f32[:1]) })
}
