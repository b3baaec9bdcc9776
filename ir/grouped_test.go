package ir

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var warm = Computation{Sampler: Grouped, Chain: Chain{Temperature: true}}

// masses are block masses from 1 to 16, and what roundings and approximations may make of the largest.
func masses() []float32 {
	m := []float32{1, math.Nextafter32(1, 2), 16, 16 * (1 + 0x1p-20)}
	for s := float32(1.1); s < 16; s *= 1.37 {
		m = append(m, s)
	}
	return m
}

func blockValues(mass float32, x uint64) Values {
	return Values{F: map[Input]float32{InMass: mass}, U: map[Input]uint32{InBlockLow: uint32(x), InBlockHigh: uint32(x >> 32)}}
}

// A block's noise keeps the budget of the noise for every GPU that keeps to the manual, and stays between what bounds it.
func TestBlockNoiseBudget(t *testing.T) {
	noise, ceiling, floor := BlockNoise(), NoiseCeiling(), newBuilder()
	least := Optimize(floor.finish(groupedFloor(floor)))
	worst := 0.0
	check := func(mass float32, x uint64) {
		want := math.Log(float64(mass)) - math.Log(exactExponential(x))
		code := NoiseCode(uint32(x >> 32))
		in := Values{F: map[Input]float32{InCode: CodeValue(code)}}
		most, low := float64(Eval(ceiling, in)), float64(Eval(least, in))
		worstCases(noise, blockValues(mass, x), func(g float64) {
			worst = max(worst, math.Abs(g-want)/(1+math.Abs(want)))
			require.LessOrEqual(t, g, most, "mass %v, bits %x", mass, x)
			if code >= FloorCode {
				require.GreaterOrEqual(t, g, low, "mass %v, bits %x", mass, x)
			}
		})
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, mass := range masses() {
		for _, x := range words() {
			check(mass, x)
		}
	}
	for range 20000 {
		check(1+15*rng.Float32(), rng.Uint64()>>rng.IntN(64)^-(rng.Uint64()&1))
	}
	t.Logf("worst error %.3g (1 + |g|), budget %.3g", worst, 0x1p-20)
	require.Less(t, worst, 0x1p-20)
}

// runEnds are the first and the last high word of every code.
func runEnds() (words []uint64) {
	words = append(words, 0, math.MaxUint32)
	for high := uint64(1); high < 1<<32; {
		next := high
		for step := uint64(1) << 31; step > 0; step /= 2 {
			if next+step < 1<<32 && NoiseCode(uint32(next+step)) == NoiseCode(uint32(high)) {
				next += step
			}
		}
		words = append(words, high, next)
		high = next + 1
	}
	return words
}

// Noise falls as the high word grows and rises with the mass, so that the ends of each code's run bound what is between.
func TestEveryCodeBoundsItsBlocks(t *testing.T) {
	score, bound, floor := BlockScore(warm), Bound(warm), Floor(warm)
	for _, high := range runEnds() {
		code := NoiseCode(uint32(high))
		for _, low := range []uint64{0, math.MaxUint32} {
			for _, at := range [][2]float32{{0, 1}, {20.5, 1}, {-3, 0.7}, {1e30, 1e-30}, {5, 0}, {-1e-40, 1e-38}, {-math.MaxFloat32, 1}} {
				for _, mass := range []float32{1, 16 * (1 + 0x1p-20)} {
					in := blockValues(mass, high<<32|low)
					in.F[InTop], in.F[InBase], in.F[InTau], in.F[InCode] = at[0], at[0], at[1], CodeValue(code)
					s := Eval(score, in)
					require.GreaterOrEqual(t, s, float32(-math.MaxFloat32), "finite scores reach the threshold that rows start from")
					require.False(t, Eval(bound, in) < s, "word %x at %v", high, at)
					require.False(t, code >= FloorCode && Eval(floor, in) > s, "word %x at %v", high, at)
				}
			}
		}
	}
	at := func(g *Graph, code uint8) float32 {
		return Eval(g, Values{F: map[Input]float32{InCode: CodeValue(code), InTau: 1}})
	}
	for code := range uint8(100) {
		if code >= FloorCode {
			require.Less(t, at(bound, code)-at(floor, code), float32(4*math.Ln2+0.6), "code %d: the floor is loose", code)
		}
	}
}

// massOf adds up the mass of a block of 16 scores without noise, in the order of a warp's lanes.
func massOf(g *Graph, bases [16]float32, tau float32, eval func(*Graph, Values) float32) float32 {
	top := float32(math.Inf(-1))
	for _, a := range bases {
		top = max(top, a)
	}
	var terms [16]float32
	for i, a := range bases {
		terms[i] = eval(g, Values{F: map[Input]float32{InBase: a, InTop: top, InTau: tau}})
	}
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			terms[i] += terms[i+n]
		}
	}
	return terms[0]
}

// The mass adds little to what the noise may be off by: the logarithm of a block's mass keeps 2^-20 (1 + |log S|), with
// every approximation off by what is documented, to the same side.
func TestMassBudget(t *testing.T) {
	g, rng, worst := BlockTerm(warm), rand.New(rand.NewPCG(5, 6)), 0.0
	off := func(up float64) func(*Graph, Values) float32 {
		return func(g *Graph, in Values) float32 {
			var least, most float64 = math.Inf(1), math.Inf(-1)
			worstCases(g, in, func(x float64) { least, most = min(least, x), max(most, x) })
			if up > 0 {
				return float32(most)
			}
			return float32(least)
		}
	}
	for range 4000 {
		tau, spread := float32(math.Exp(-6*rng.Float64())), math.Exp(6*rng.Float64()-3)
		var bases [16]float32
		for i := range bases {
			bases[i] = float32(20*rng.NormFloat64()*0.01 + float64(tau)*spread*rng.Float64())
		}
		if rng.IntN(4) == 0 { // one token leads all the others, by what loses the most digits
			lead := bases[0] + 2.3*tau
			for i := range bases {
				bases[i] = bases[0]
			}
			bases[rng.IntN(16)] = lead
		}
		top, exact := float64(bases[0]), 0.0
		for _, a := range bases {
			top = max(top, float64(a))
		}
		for _, a := range bases {
			exact += math.Exp((float64(a) - top) / float64(tau))
		}
		for _, up := range []float64{1, -1} {
			got := math.Log(float64(massOf(g, bases, tau, off(up))))
			worst = max(worst, math.Abs(got-math.Log(exact))/(1+math.Log(exact)))
		}
	}
	t.Logf("worst error %.3g (1 + |log S|), budget %.3g", worst, 0x1p-20)
	require.Less(t, worst, 0x1p-20)
}

func TestBlockTermAtTheEnds(t *testing.T) {
	inf := float32(math.Inf(1))
	g, cold := BlockTerm(warm), BlockTerm(Computation{Sampler: Grouped})
	for _, c := range []struct{ base, top, tau, want float32 }{
		{3, 3, 0.5, 1}, {inf, inf, 0.5, 1}, {-inf, -inf, 0.5, 1}, {-inf, 3, 0.5, 0}, {3, inf, 0.5, 0}, {-inf, inf, 1, 0},
		{3, 3, 0, 1}, {2.999, 3, 0, 0}, {inf, inf, 0, 1}, {-inf, 3, 0, 0},
	} {
		in := Values{F: map[Input]float32{InBase: c.base, InTop: c.top, InTau: c.tau}}
		require.Equal(t, c.want, Eval(g, in), "%+v", c)
		if c.tau == 1 {
			require.Equal(t, c.want, Eval(cold, in), "%+v", c)
		}
	}
	// Where 1/tau is past float32, it is taken for the largest.
	top := float32(1e-39)
	in := Values{F: map[Input]float32{InBase: 0, InTop: top, InTau: 1e-44}}
	require.InEpsilon(t, math.Exp(-float64(top)*math.MaxFloat32), Eval(g, in), 1e-6)
	// 1/tau within a unit or two down to where it overflows.
	for tau := float32(1); tau > 3e-39; tau *= 0.71 {
		in := Values{F: map[Input]float32{InBase: -tau, InTop: 0, InTau: tau}}
		require.InEpsilon(t, 1/math.E, Eval(g, in), 1e-6, "tau %v", tau)
	}
}

func TestRaceBudget(t *testing.T) {
	g, worst := Race(Computation{Sampler: Grouped}), 0.0
	for _, x := range words() {
		in := Values{F: map[Input]float32{InBase: 0}, U: map[Input]uint32{InLow: uint32(x), InHigh: uint32(x >> 32)}}
		want := -math.Log(exactExponential(x))
		worstCases(g, in, func(s float64) { worst = max(worst, math.Abs(s-want)/(1+math.Abs(want))) })
	}
	require.Less(t, worst, 0x1p-20)
	for _, x := range []uint64{0, math.MaxUint64, 1 << 63} {
		in := Values{F: map[Input]float32{InBase: 7, InTau: 0}, U: map[Input]uint32{InLow: uint32(x), InHigh: uint32(x >> 32)}}
		require.Equal(t, float32(7), Eval(Race(warm), in), "T = 0 races without noise")
		in.F[InBase] = float32(math.Inf(1))
		require.Equal(t, float32(math.Inf(1)), Eval(Race(warm), in))
	}
}
