package reference

import (
	"math"
	"math/bits"
)

// Coefficients c1 to c6 of docs/truncation.md.
var powerCoefficients = [...]uint32{0x3F317218, 0x3E75FDEE, 0x3D635774, 0x3C1D96A6, 0x3AAF9F2A, 0x3920FDDE}

// weights holds what the weights of one row at one temperature depend on.
type weights struct {
	top, scale float32
	length     int // bits of the vocabulary size
}

// weightsAt are the weights at temperature t of a row whose first candidate has z = top.
func weightsAt(t, top float32, vocab int) weights {
	if t == 0 {
		t = 1
	}
	t = max(t, 0x1p-126)
	log2e := math.Float32frombits(0x3FB8AA3B)
	return weights{top: top, scale: float32(float32(1/t) * log2e), length: bits.Len(uint(vocab))}
}

// most is the weight of the first candidate.
func (w weights) most() uint64 { return 1 << (62 - w.length) }

// of is the weight of a candidate (docs/truncation.md, section 1).
func (w weights) of(z float32) uint64 {
	if z == w.top {
		return w.most()
	}
	x := float32(float32(z-w.top) * w.scale)
	if x != x || x <= -64 {
		return 0
	}
	n := float32(math.RoundToEven(float64(x)))
	f := x - n
	y := math.Float32frombits(powerCoefficients[5])
	for i := 4; i >= 0; i-- {
		y = fma32(y, f, math.Float32frombits(powerCoefficients[i]))
	}
	y = fma32(y, f, 1)
	m := uint64(math.Ldexp(float64(y), 62))
	switch s := w.length - int(n); {
	case s > 63:
		return 0
	default:
		return (m + 1<<(s-1)) >> s
	}
}

// sum is the weight of candidates together.
func (w weights) sum(list []candidate) (total uint64) {
	for _, c := range list {
		total += w.of(c.score)
	}
	return total
}
