package reference

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

func TestNoiseName(t *testing.T) { require.Equal(t, ir.NoiseName, NoiseName) }

const bigPrecision = 256

func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(bigPrecision).SetFloat64(x) }

// bigLog is log x = e log 2 + 2 atanh((m-1)/(m+1)) for x = m 2^e, m in [1/2, 1): 90 terms of at most 3^-2 each.
func bigLog(x *big.Float) *big.Float {
	m := new(big.Float).SetPrec(bigPrecision)
	e := x.MantExp(m)
	sum := atanh2(m)
	two := atanh2(bigFloat(2)) // log 2
	return sum.Add(sum, two.Mul(two, bigFloat(float64(e))))
}

// atanh2 is 2 atanh((m-1)/(m+1)) = log m.
func atanh2(m *big.Float) *big.Float {
	z := new(big.Float).Quo(new(big.Float).Sub(m, bigFloat(1)), new(big.Float).Add(m, bigFloat(1)))
	square, power, sum := new(big.Float).Mul(z, z), bigFloat(2), bigFloat(0)
	power.Mul(power, z)
	for n := 1.0; n < 180; n += 2 {
		sum.Add(sum, new(big.Float).Quo(power, bigFloat(n)))
		power.Mul(power, square)
	}
	return sum
}

// bigGumbel is -log(-log(1-w)) with 1-w exact.
func bigGumbel(x uint64) float64 {
	complement := new(big.Float).SetPrec(bigPrecision).SetUint64(^x)
	complement.Add(complement, bigFloat(0.5))
	complement.SetMantExp(complement, -64)
	e := bigLog(complement)
	g, _ := new(big.Float).Neg(bigLog(e.Neg(e))).Float64()
	return g
}

// wordsOfEveryExponent has words at every exponent of w and of 1-w.
func wordsOfEveryExponent() []uint64 {
	xs := []uint64{0, 1, 2, 1 << 31, 1<<31 - 1, 1<<32 - 2, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<63 + 1}
	for e := range 64 {
		for _, m := range []uint64{0, 1, 0x5555555555555555, 0x123456789abcdef, math.MaxUint64} {
			xs = append(xs, 1<<e|m&(1<<e-1))
		}
	}
	for _, x := range slices.Clone(xs) {
		xs = append(xs, ^x)
	}
	return xs
}

func TestGumbelAtEveryExponent(t *testing.T) {
	for _, x := range wordsOfEveryExponent() {
		want := bigGumbel(x)
		require.InDelta(t, want, Gumbel(x), 0x1p-51*(1+math.Abs(want)), "x=%#x", x)
	}
}

// Values of mpmath 1.3 with 60 digits.
func TestGumbelAgainstMpmath(t *testing.T) {
	for x, want := range map[uint64]float64{
		0x0:                45.054566736396445,
		0x1:                43.95595444772834,
		0x3039:             34.94037265264979,
		0x100001:           30.498474514127114,
		0x80000000:         22.873856958187158,
		0xffffffff:         22.18070977791825,
		0x100000000:        22.18070977768542,
		0x10000003039:      16.635532292408197,
		0x10000000000001:   8.317644083987389,
		0x20000000000001:   7.624374795849304,
		0x1000000000000000: 2.740493006510356,
		0x2000000000000000: 2.013418678039948,
		0x4000000000000000: 1.2458993237072382,
		0x7fffffffffffffff: 0.36651292058166435,
		0x8000000000000000: 0.36651292058166435,
		0xc000000000000000: -0.326634259978281,
		0xa1b2c3d4e5f60718: 0.0013226399407550876,
		0x123456789abcdef0: 2.6068553214364227,
		0xffffff0000000000: -2.8115409097663084,
		0xffffffff00000000: -3.099222982223311,
		0xfffffffffffffffe: -3.783188097268924,
		0xffffffffffffffff: -3.807874349313973,
	} {
		require.InDelta(t, want, Gumbel(x), 0x1p-51*(1+math.Abs(want)), "x=%#x", x)
		require.Equal(t, want, bigGumbel(x), "x=%#x", x)
	}
}

// Case A1: no word reaches an endpoint, and the noise never rises with the word.
func TestGumbelFiniteAndMonotone(t *testing.T) {
	xs := wordsOfEveryExponent()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		xs = append(xs, rng.Uint64()>>rng.UintN(64))
	}
	for _, x := range slices.Clone(xs) {
		xs = append(xs, x+1, x-1)
	}
	slices.Sort(xs)
	last := math.Inf(1)
	for _, x := range xs {
		g := Gumbel(x)
		require.False(t, math.IsNaN(g) || math.IsInf(g, 0), "x=%#x", x)
		require.LessOrEqual(t, g, last, "x=%#x", x)
		last = g
		w, complement := Uniform(x)
		require.True(t, w > 0 && complement > 0, "x=%#x", x)
	}
	require.InDelta(t, 65*math.Ln2, Gumbel(0), 1e-12)
	require.InDelta(t, -math.Log(65*math.Ln2), Gumbel(math.MaxUint64), 1e-12)
}

// Cases A1 and A15: the 32-bit edges give different noise.
func TestGumbelTellsEdgesApart(t *testing.T) {
	edges := []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 2, 1<<32 - 1, 1 << 32, 1<<62 - 1<<20, 1 << 62, 1 << 63, 1<<63 + 1<<30,
		math.MaxUint64 - 1<<32, math.MaxUint64 - 1, math.MaxUint64}
	for i := range edges[1:] {
		require.Greater(t, Gumbel(edges[i]), Gumbel(edges[i+1]), "x=%#x", edges[i])
	}
}

func TestGumbelBoundHolds(t *testing.T) {
	for _, x := range wordsOfEveryExponent() {
		n := bits.LeadingZeros64(x)
		require.LessOrEqual(t, float32(Gumbel(x)), gumbelBound[n], "x=%#x", x)
	}
	for n := range 64 {
		smallest := uint64(1) << (63 - n)
		require.LessOrEqual(t, float32(Gumbel(smallest)), gumbelBound[n], "%d leading zeros", n)
	}
}

func TestPairIsBits(t *testing.T) {
	r := Row(1<<40+7, 1<<35+3, 2, 9)
	for _, id := range []int{0, 7, 8, 15, 16, 151935, 151936, 1<<31 - 2} {
		low, high := r.Pair(id)
		require.Equal(t, low, r.Bits(id&^8))
		require.Equal(t, high, r.Bits(id|8))
		w := Philox([4]uint32{uint32(id &^ 8), r.s0, r.s1, r.s2}, [2]uint32{elementKey0, elementKey1})
		require.Equal(t, [4]uint32{uint32(low), uint32(low >> 32), uint32(high), uint32(high >> 32)}, w)
	}
}
