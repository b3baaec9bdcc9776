package ir

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChainText(t *testing.T) {
	for text, want := range map[string]string{
		"": "none", "none": "none", "scale=1": "none",
		"temperature,mask,bias,softcap=30":     "softcap=30,bias,mask,temperature",
		"scale=0.0625, bias=rows":              "scale=0.0625,bias=rows",
		"mask,ids,bias=sparse":                 "bias=sparse,ids,mask",
		"bias-last,temperature,penalties,bias": "bias,penalties,bias-last,temperature",
	} {
		c, err := ParseChain(text)
		require.NoError(t, err, text)
		require.Equal(t, want, c.String())
		again, err := ParseChain(c.String())
		require.NoError(t, err)
		require.Equal(t, c.String(), again.String())
	}
	for _, bad := range []string{"softcap", "softcap=0", "softcap=-1", "softcap=nan", "scale=x", "mask=1", "mask,mask",
		"bias=3", "top-k", "penalties=1", "ids=3", "bias-last", "bias-last,bias", "bias-last,penalties", "temperature=0.7", ",", "softcap=1e-40"} {
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

// exactExponential is -log1p(-w) in float64, with w or 1-w formed without cancellation.
func exactExponential(x uint64) float64 {
	if x < 1<<63 {
		return -math.Log1p(-(math.Ldexp(float64(x), -64) + math.Ldexp(1, -65)))
	}
	return -math.Log(math.Ldexp(float64(^x), -64) + math.Ldexp(1, -65))
}

// drawn are the random bits of a token.
type drawn struct {
	block, token uint64
	first        bool
}

func (d drawn) exact() float64 {
	e := exactExponential(d.block) / 16
	if !d.first {
		e += exactExponential(d.token)
	}
	return -math.Log(e)
}

func (d drawn) values(f map[Input]float32) Values {
	return Values{F: f, B: map[Input]bool{InFirst: d.first}, U: map[Input]uint32{
		InLow: uint32(d.token), InHigh: uint32(d.token >> 32),
		InBlockLow: uint32(d.block), InBlockHigh: uint32(d.block >> 32)}}
}

// draws goes through pairs of patterns.
func draws(f func(drawn)) {
	for _, x := range words() {
		f(drawn{block: x, first: true})
		for _, y := range []uint64{0, 1, 1 << 30, 1 << 60, 1 << 62, 1<<63 - 1, 1 << 63, ^uint64(0), x, ^x, x / 16} {
			f(drawn{block: x, token: y})
		}
	}
}

func TestNoiseWithinBoundAtEveryExponent(t *testing.T) {
	g := Noise()
	draws(func(d drawn) {
		got, want := float64(Eval(g, d.values(nil))), d.exact()
		require.LessOrEqual(t, math.Abs(got-want), math.Ldexp(1+math.Abs(want), -20), "%+v got %v want %v", d, got, want)
	})
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
	d := drawn{block: 1 << 40, token: 0x8000000000000005}
	in := d.values(map[Input]float32{InLogit: 60, InBias: 1, InAlpha: 0.5, InTau: 1})
	in.B[InAllowed] = true
	want := (30*math.Tanh(120.0/30)+1)*0.5 + d.exact()
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
	score, base, bound, floor := Score(c), Base(c), Bound(c), Floor(c)
	draws(func(d drawn) {
		code := NoiseCode(uint32(d.block >> 32))
		for _, at := range [][3]float32{{0, 1, 1}, {20.5, 0.25, 1}, {-3, 1, 0.7}, {1e30, 1, 1e-30}, {5, 1, 0}, {-1e-40, 1, 1e-38}} {
			in := d.values(map[Input]float32{InLogit: at[0], InAlpha: at[1], InTau: at[2], InCode: CodeValue(code)})
			in.F[InBase] = Eval(base, in)
			s, b := Eval(score, in), Eval(bound, in)
			require.False(t, b < s, "%+v at %v: score %v passes its bound %v", d, at, s, b)
			if d.first && code >= FloorCode {
				low := Eval(floor, in)
				require.False(t, low > s, "%+v at %v: score %v is below its floor %v", d, at, s, low)
			}
		}
	})
}

// Noise falls as its block's high word grows, and a code stands for a run of words: the largest noise of each run is at its
// start, the least at its end.
func TestEveryCodeBoundsItsWords(t *testing.T) {
	g, ceiling, floor := Noise(), NoiseCeiling(), NoiseFloor()
	value := func(g *Graph, code uint8) float32 {
		return Eval(g, Values{F: map[Input]float32{InCode: CodeValue(code)}})
	}
	noise := func(high, low uint32) float32 {
		return Eval(g, drawn{block: uint64(high)<<32 | uint64(low), first: true}.values(nil))
	}
	require.EqualValues(t, 255, NoiseCode(0))
	require.Greater(t, value(ceiling, 255), noise(0, 0))
	require.LessOrEqual(t, value(floor, 255), noise(0, math.MaxUint32))
	seen := map[uint8]bool{}
	for e := range 32 {
		for m := range uint64(4) {
			first, last := uint32((1<<e*(4+m)+3)/4), uint32((uint64(1)<<e*(5+m)+3)/4-1)
			code := NoiseCode(first)
			seen[code] = true
			if last < first {
				continue // 1, 2 and 3 have no quarters
			}
			require.Equal(t, code, NoiseCode(last), "words %#x to %#x", first, last)
			require.GreaterOrEqual(t, value(ceiling, code), noise(first, 0), "word %#x", first)
			if code < FloorCode { // past a half, e leaves w
				continue
			}
			require.Less(t, value(ceiling, code)-noise(first, 0), float32(0.5), "word %#x: the bound is loose", first)
			low := value(floor, code)
			require.LessOrEqual(t, low, noise(last, math.MaxUint32), "word %#x", last)
			require.Less(t, noise(first, 0)-low, float32(20), "word %#x", first)
			if e > 7 {
				require.Less(t, noise(first, 0)-low, float32(0.6), "word %#x: the floor is loose", first)
			}
		}
	}
	require.Greater(t, len(seen), 120)
	require.Zero(t, NoiseCode(math.MaxUint32), "the smallest noise")
}

func TestUnknownKindsAreRefused(t *testing.T) {
	require.ErrorContains(t, Computation{Chain: Chain{Bias: BiasSparse + 1}}.Validate(), "unknown kind of bias 4")
	require.ErrorContains(t, Computation{Sampler: Grouped + 1}.Validate(), "unknown sampler 3")
}
