package ir

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChainText(t *testing.T) {
	for text, want := range map[string]string{
		"": "none", "none": "none", "scale=1": "none",
		"temperature,mask,bias,softcap=30": "softcap=30,bias,mask,temperature",
		"scale=0.0625, bias=rows":          "scale=0.0625,bias=rows",
	} {
		c, err := ParseChain(text)
		require.NoError(t, err, text)
		require.Equal(t, want, c.String())
		again, err := ParseChain(c.String())
		require.NoError(t, err)
		require.Equal(t, c.String(), again.String())
	}
	for _, bad := range []string{"softcap", "softcap=0", "softcap=-1", "softcap=nan", "scale=x", "mask=1", "mask,mask",
		"bias=3", "top-k", "temperature=0.7", ",", "softcap=1e-40"} {
		_, err := ParseChain(bad)
		require.Error(t, err, bad)
	}
}

// words returns 64-bit patterns at every exponent of w and of 1-w.
func words() []uint64 {
	var xs []uint64
	for e := range 64 {
		for _, m := range []uint64{0, 1, 3, 0x5555555555555555, 0x123456789abcdef, ^uint64(0)} {
			low := uint64(1)<<e | m&(uint64(1)<<e-1)
			xs = append(xs, low, ^low)
		}
	}
	return append(xs, 0, 1, ^uint64(0), 1<<63, 1<<63-1, 1<<61-1, 1<<61, 1<<32-1, 1<<32)
}

// exactNoise is g = -log(-log1p(-w)) in float64, with w or 1-w formed without cancellation.
func exactNoise(x uint64) float64 {
	if x < 1<<63 {
		return -math.Log(-math.Log1p(-(math.Ldexp(float64(x), -64) + math.Ldexp(1, -65))))
	}
	return -math.Log(-math.Log(math.Ldexp(float64(^x), -64) + math.Ldexp(1, -65)))
}

func TestNoiseWithinBoundAtEveryExponent(t *testing.T) {
	g := Noise()
	for _, x := range words() {
		got := float64(Eval(g, Values{U: map[Input]uint32{InLow: uint32(x), InHigh: uint32(x >> 32)}}))
		want := exactNoise(x)
		require.LessOrEqual(t, math.Abs(got-want), math.Ldexp(1+math.Abs(want), -20), "x=%#x got %v want %v", x, got, want)
	}
}

func TestSoftcapWithinBound(t *testing.T) {
	g := Score(Computation{Sampler: Greedy, Chain: Chain{Softcap: 30}})
	for e := -20; e < 12; e++ {
		for m := 1.0; m < 2; m += 0.01 {
			for _, sign := range []float64{1, -1} {
				y := float32(sign * math.Ldexp(m, e))
				got := float64(Eval(g, Values{F: map[Input]float32{InLogit: y}}))
				want := 30 * math.Tanh(float64(y)/30)
				require.InDelta(t, want, got, 4e-7*math.Abs(want)+1e-30, "y=%v", y)
			}
		}
	}
	for y, want := range map[float64]float64{math.Inf(1): 30, math.Inf(-1): -30} {
		require.Equal(t, float32(want), Eval(g, Values{F: map[Input]float32{InLogit: float32(y)}}))
	}
	nan := Eval(g, Values{F: map[Input]float32{InLogit: float32(math.NaN())}})
	require.True(t, math.IsNaN(float64(nan)))
}

func TestScoreOrder(t *testing.T) {
	c, err := ParseChain("scale=2,softcap=30,bias,mask,temperature")
	require.NoError(t, err)
	g := Score(Computation{Chain: c})
	in := Values{
		F: map[Input]float32{InLogit: 60, InBias: 1, InAlpha: 0.5, InTau: 1},
		U: map[Input]uint32{InLow: 5, InHigh: 0x80000000},
		B: map[Input]bool{InAllowed: true},
	}
	want := (30*math.Tanh(120.0/30)+1)*0.5 + exactNoise(0x8000000000000005)
	require.InDelta(t, want, float64(Eval(g, in)), 1e-5)
	in.B[InAllowed] = false
	in.F[InLogit] = float32(math.NaN())
	require.True(t, math.IsInf(float64(Eval(g, in)), -1), "a masked NaN stays out")
}

func TestOptimizeKeepsEveryBit(t *testing.T) {
	b := newBuilder()
	x := b.input(InLogit)
	kept := b.op(OpAdd, b.op(OpMul, x, b.f(1)), b.op(OpAdd, b.f(2), b.f(3)))
	g := Optimize(b.finish(b.op(OpAdd, kept, b.f(0))))
	require.Len(t, g.Nodes, 5) // logit, 5, add, 0, add: the final +0 turns -0 into +0 and stays
	require.NoError(t, Check(g))
	require.Equal(t, float32(12), Eval(g, Values{F: map[Input]float32{InLogit: 7}}))
}

func TestFma32(t *testing.T) {
	require.Equal(t, float32(1+math.Ldexp(1, -23)), Fma32(1, float32(math.Ldexp(1, -24)), float32(1+math.Ldexp(1, -24)+0)+0)+float32(math.Ldexp(1, -23)))
	// A sum whose float64 rounding lands on a float32 tie: rounding twice would go to even, once goes up.
	x, y := float32(1+math.Ldexp(1, -12)), float32(1+math.Ldexp(1, -12))
	z := float32(math.Ldexp(1, -60))
	require.Equal(t, math.Float32frombits(math.Float32bits(float32(1+math.Ldexp(1, -11)))+1), Fma32(x, y, z))
}

func TestBoundHoldsAtEveryExponent(t *testing.T) {
	c := Computation{Chain: Chain{Temperature: true}}
	score, base, bound := Score(c), Base(c), Bound(c)
	for _, x := range words() {
		code := CodeValue(NoiseCode(uint32(x >> 32)))
		for _, at := range [][3]float32{{0, 1, 1}, {20.5, 0.25, 1}, {-3, 1, 0.7}, {1e30, 1, 1e-30}, {5, 1, 0}, {-1e-40, 1, 1e-38}} {
			in := Values{
				F: map[Input]float32{InLogit: at[0], InAlpha: at[1], InTau: at[2], InCode: code},
				U: map[Input]uint32{InLow: uint32(x), InHigh: uint32(x >> 32)},
			}
			in.F[InBase] = Eval(base, in)
			s, b := Eval(score, in), Eval(bound, in)
			require.False(t, b < s, "x=%#x at %v: score %v passes its bound %v", x, at, s, b)
		}
	}
}

// Noise falls as its high word grows, and a code stands for a run of words: the largest noise of each run is at its start.
func TestEveryCodeBoundsItsWords(t *testing.T) {
	g, ceiling := Noise(), NoiseCeiling()
	value := func(code uint8) float32 {
		return Eval(ceiling, Values{F: map[Input]float32{InCode: CodeValue(code)}})
	}
	noise := func(high, low uint32) float32 {
		return Eval(g, Values{U: map[Input]uint32{InHigh: high, InLow: low}})
	}
	require.EqualValues(t, 255, NoiseCode(0))
	require.Greater(t, value(255), noise(0, 0))
	seen := map[uint8]bool{}
	for e := range 32 {
		for m := range uint64(4) {
			first := uint32((1<<e*(4+m) + 3) / 4)
			code := NoiseCode(first)
			if last := uint32((uint64(1)<<e*(5+m)+3)/4 - 1); last >= first {
				require.Equal(t, code, NoiseCode(last), "words %#x to %#x", first, last)
			}
			seen[code] = true
			got, low := value(code), noise(first, 0)
			require.GreaterOrEqual(t, got, low, "word %#x", first)
			if e < 31 { // past a half, E leaves w
				require.Less(t, got-low, float32(0.5), "word %#x: the bound is loose", first)
			}
		}
	}
	require.Greater(t, len(seen), 120)
	require.Zero(t, NoiseCode(math.MaxUint32), "the smallest noise")
}
