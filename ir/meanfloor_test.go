package ir

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// meanOf is the mean of a block's logits as a warp adds them up.
func meanOf(logits [16]float32) float32 {
	sums := logits
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			sums[i] += sums[i+n]
		}
	}
	return sums[0] / 16
}

// blocksOfLogits are blocks of all sizes and spreads: alike, a few units in the last place apart, with one token far above or below
// the others, and of numbers that cancel.
func blocksOfLogits(n int, f func(logits [16]float32)) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range n {
		size, spread := math.Exp2(rng.Float64()*240-130), math.Exp2(-rng.Float64()*60)
		var z [16]float32
		at := float32(size * rng.NormFloat64())
		for i := range z {
			switch rng.IntN(3) {
			case 0:
				z[i] = at
			case 1:
				z[i] = at + float32(spread*size*rng.NormFloat64())
			default:
				z[i] = math.Nextafter32(at, float32(math.Inf(rng.IntN(2)*2-1)))
			}
		}
		switch rng.IntN(5) {
		case 0:
			z[rng.IntN(16)] = float32(size * rng.NormFloat64() * math.Exp2(rng.Float64()*4))
		case 1:
			for i := range z {
				z[i] = at * float32(1-2*(i%2))
			}
		}
		f(z)
	}
}

// The floor is no higher than the block's score, whatever the approximations of a GPU make of that within their documentation.
func TestMeanFloorIsBelowTheScore(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, c := range []Computation{warm, {Sampler: Grouped}} {
		term, score, base, floor, known := BlockTerm(c), BlockScore(c), Base(c), MeanFloor(c), 0
		blocksOfLogits(30000, func(z [16]float32) {
			l := limitCase{alpha: 1, tau: 1}
			switch temperature := math.Exp2(rng.Float64()*120 - 100); {
			case !c.Chain.Temperature:
			case rng.IntN(20) == 0:
				l.tau = 0
			default:
				l.alpha, l.tau = scalesOf(float32(temperature))
			}
			x := rng.Uint64() >> rng.IntN(60)
			code := NoiseCode(uint32(x >> 32))
			if code < FloorCode {
				return
			}
			l.code = CodeValue(code)
			in := l.values(meanOf(z))
			in.F[InBase] = Eval(base, in)
			least := Eval(floor, in)
			if math.IsNaN(float64(least)) || math.IsInf(float64(least), 0) {
				return // which the kernel takes for no floor
			}
			var bases [16]float32
			top := float32(math.Inf(-1))
			for i := range z {
				bases[i] = Eval(base, l.values(z[i]))
				top = max(top, bases[i])
			}
			at := blockValues(massOf(term, bases, l.tau, Eval), x)
			at.F[InTop], at.F[InTau] = top, l.tau
			known++
			worstCases(score, at, func(s float64) {
				require.LessOrEqual(t, float64(least), s, "logits %v, %+v, bits %x", z, l, x)
			})
		})
		require.Greater(t, known, 10000)
	}
}

// What it is for: of normal logits the floor is nearer to the score than that of the largest one.
func TestMeanFloorIsClose(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	term, score, mean, largest := BlockTerm(warm), BlockScore(warm), MeanFloor(warm), Floor(warm)
	var short, shorter float64
	const blocks = 2000
	for range blocks {
		var z [16]float32
		top := float32(math.Inf(-1))
		for i := range z {
			z[i] = float32(rng.NormFloat64())
			top = max(top, z[i])
		}
		x := rng.Uint64() >> 8 // little exponentials, as winners have
		l := limitCase{alpha: 1, tau: 1, code: CodeValue(NoiseCode(uint32(x >> 32)))}
		at := blockValues(massOf(term, z, 1, Eval), x)
		at.F[InTop], at.F[InTau] = top, 1
		s, in := float64(Eval(score, at)), l.values(0)
		in.F[InBase] = meanOf(z)
		shorter += (s - float64(Eval(mean, in))) / blocks
		in.F[InBase] = top
		short += (s - float64(Eval(largest, in))) / blocks
	}
	t.Logf("%.2f short of the score, from the largest %.2f", shorter, short)
	require.Less(t, shorter, 1.0)
	require.Greater(t, short, shorter+0.7)
}
