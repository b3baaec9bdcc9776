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

// bigExponential is -log(1-w) with 1-w exact.
func bigExponential(x uint64) *big.Float {
	complement := new(big.Float).SetPrec(bigPrecision).SetUint64(^x)
	complement.Add(complement, bigFloat(0.5))
	complement.SetMantExp(complement, -64)
	e := bigLog(complement)
	return e.Neg(e)
}

// bigGumbel is -log E with the definition's E.
func bigGumbel(x Bits) float64 {
	e := bigExponential(x.Block)
	e.Quo(e, bigFloat(16))
	if !x.First {
		e.Add(e, bigExponential(x.Token))
	}
	g, _ := new(big.Float).Neg(bigLog(e)).Float64()
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

// bitsOfEveryExponent has blocks and tokens at every exponent, in all combinations of every stride-th word.
func bitsOfEveryExponent(stride int) (out []Bits) {
	words := wordsOfEveryExponent()
	for i, block := range words {
		out = append(out, Bits{Block: block, First: true})
		for j := i % stride; j < len(words); j += stride {
			out = append(out, Bits{Block: block, Token: words[j]})
		}
	}
	return out
}

func TestGumbelAtEveryExponent(t *testing.T) {
	for _, x := range bitsOfEveryExponent(29) {
		want := bigGumbel(x)
		require.InDelta(t, want, x.Gumbel(), 0x1p-51*(1+math.Abs(want)), "%#v", x)
	}
}

// Values of mpmath 1.3 with 60 digits.
func TestGumbelAgainstMpmath(t *testing.T) {
	for _, c := range []struct {
		bits Bits
		want float64
	}{
		{Bits{0x0, 0x0, true}, 47.82715545863623},
		{Bits{0x0, 0x0, false}, 44.99394211458001},
		{Bits{0x0, 0x3039, false}, 34.94037012136629},
		{Bits{0x1, 0x0, true}, 46.72854316996812},
		{Bits{0x3039, 0x0, true}, 37.712961374889574},
		{Bits{0x100001, 0x80000000, false}, 22.87382644103104},
		{Bits{0x80000000, 0x0, true}, 25.64644568042694},
		{Bits{0xffffffff, 0xffffffff, false}, 22.120085156101815},
		{Bits{0x100000000, 0x0, true}, 24.9532984999252},
		{Bits{0x10000003039, 0x10000000, false}, 19.404222374384698},
		{Bits{0x10000000000001, 0x10000000000001, false}, 8.257019462170955},
		{Bits{0x10000000000001, 0x0, true}, 11.09023280622717},
		{Bits{0x123456789abcdef0, 0x3039, false}, 5.379444043676059},
		{Bits{0x123456789abcdef0, 0x2000000000000000, false}, 1.9794747515376947},
		{Bits{0x123456789abcdef0, 0x0, true}, 5.379444043676204},
		{Bits{0x7fffffffffffffff, 0x7fffffffffffffff, false}, 0.3058882987652295},
		{Bits{0x8000000000000000, 0x8000000000000000, false}, 0.3058882987652295},
		{Bits{0xc000000000000000, 0x0, true}, 2.4459544622615},
		{Bits{0xa1b2c3d4e5f60718, 0xa1b2c3d4e5f60718, false}, -0.059301981875679755},
		{Bits{0xffffff0000000000, 0xffffffff00000000, false}, -3.145032518254371},
		{Bits{0xffffffffffffffff, 0x0, true}, -1.0352856270741915},
		{Bits{0xffffffffffffffff, 0x0, false}, -1.0352856270741915},
		{Bits{0x0, 0xffffffffffffffff, false}, -3.807874349313973},
		{Bits{0xffffffffffffffff, 0xffffffffffffffff, false}, -3.8684989711304074},
	} {
		require.InDelta(t, c.want, c.bits.Gumbel(), 0x1p-51*(1+math.Abs(c.want)), "%#v", c.bits)
		require.Equal(t, c.want, bigGumbel(c.bits), "%#v", c.bits)
	}
}

// manyWords are words at and beside every exponent and at random, sorted.
func manyWords(random int) []uint64 {
	xs := wordsOfEveryExponent()
	rng := rand.New(rand.NewPCG(1, 1))
	for range random {
		xs = append(xs, rng.Uint64()>>rng.UintN(64))
	}
	for _, x := range slices.Clone(xs) {
		xs = append(xs, x+1, x-1)
	}
	slices.Sort(xs)
	return xs
}

// Case A1: no word reaches an endpoint, and the noise never rises with a word.
func TestGumbelFiniteAndMonotone(t *testing.T) {
	xs := manyWords(100_000)
	falls := func(bits func(x uint64) Bits) {
		last := math.Inf(1)
		for _, x := range xs {
			g := bits(x).Gumbel()
			if math.IsNaN(g) || math.IsInf(g, 0) || g > last {
				t.Fatalf("%#v: %v after %v", bits(x), g, last)
			}
			last = g
		}
	}
	falls(func(x uint64) Bits { return Bits{Block: x, First: true} })
	for _, other := range []uint64{0, 1, 1 << 20, 1<<32 - 1, 1 << 52, 1 << 63, math.MaxUint64} {
		falls(func(x uint64) Bits { return Bits{Block: x, Token: other} })
		falls(func(x uint64) Bits { return Bits{Block: other, Token: x} })
	}
	for _, x := range xs {
		w, complement := Uniform(x)
		require.True(t, w > 0 && complement > 0, "x=%#x", x)
	}
}

func TestGumbelRange(t *testing.T) {
	all := uint64(math.MaxUint64)
	require.InDelta(t, 65*math.Ln2+math.Log(16), Bits{First: true}.Gumbel(), 1e-12)
	require.InDelta(t, -math.Log(65*math.Ln2*17/16), Bits{Block: all, Token: all}.Gumbel(), 1e-12)
}

// No token of a block lies above its first.
func TestFirstIsLargest(t *testing.T) {
	for _, x := range bitsOfEveryExponent(7) {
		first := Bits{Block: x.Block, First: true}.Gumbel()
		require.LessOrEqual(t, x.Gumbel(), first, "%#v", x)
	}
}

// Cases A1 and A15: the 32-bit edges give different noise.
func TestGumbelTellsEdgesApart(t *testing.T) {
	edges := []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 2, 1<<32 - 1, 1 << 32, 1<<62 - 1<<20, 1 << 62, 1 << 63, 1<<63 + 1<<30,
		math.MaxUint64 - 1<<32, math.MaxUint64 - 1, math.MaxUint64}
	for i := range edges[1:] {
		x, y := edges[i], edges[i+1]
		require.Greater(t, Bits{Block: x, First: true}.Gumbel(), Bits{Block: y, First: true}.Gumbel(), "block %#x", x)
		require.Greater(t, Bits{Token: x}.Gumbel(), Bits{Token: y}.Gumbel(), "token %#x", x)
	}
}

// The bounds by which blocks are skipped hold for every token, after the rounding to float32.
func TestBlockBoundHolds(t *testing.T) {
	check := func(x Bits) {
		g := float32(x.Gumbel())
		require.LessOrEqual(t, g, blockBound[bits.LeadingZeros64(x.Block)], "%#v", x)
		_, first, bound := blockNoise(x.Block)
		require.LessOrEqual(t, g, bound, "%#v", x)
		if x.First {
			require.Equal(t, first, g, "%#v", x)
		}
	}
	for _, x := range bitsOfEveryExponent(7) {
		check(x)
	}
	rng := rand.New(rand.NewPCG(7, 1))
	for range 100_000 {
		check(Bits{Block: rng.Uint64() >> rng.UintN(64), Token: rng.Uint64() >> rng.UintN(64)})
	}
}

func TestBitsOfARow(t *testing.T) {
	r := Row(1<<40+7, 1<<35+3, 2, 9)
	key := [2]uint32{elementKey0, elementKey1}
	for _, id := range []int{0, 7, 8, 15, 16, 151935, 151936, 1<<31 - 2} {
		low, high := r.Pair(id)
		require.Equal(t, low, r.Token(id&^8))
		require.Equal(t, high, r.Token(id|8))
		w := Philox([4]uint32{uint32(id &^ 8), r.s0, r.s1, r.s2}, key)
		require.Equal(t, [4]uint32{uint32(low), uint32(low >> 32), uint32(high), uint32(high >> 32)}, w)
		x, place := r.Block(id)
		w = Philox([4]uint32{1<<31 + uint32(id>>4), r.s0, r.s1, r.s2}, key)
		require.Equal(t, uint64(w[1])<<32|uint64(w[0]), x)
		require.EqualValues(t, w[2]>>28, place)
		require.Equal(t, Bits{x, r.Token(id), id&15 == place}, r.Bits(id))
	}
}

// Every block has one first.
func TestOneFirst(t *testing.T) {
	r := Row(3, 1, 4, 1)
	for block := range 200 {
		firsts := 0
		for id := 16 * block; id < 16*(block+1); id++ {
			if r.Bits(id).First {
				firsts++
			}
		}
		require.Equal(t, 1, firsts)
	}
}
