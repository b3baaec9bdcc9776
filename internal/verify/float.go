package verify

import (
	"math"

	"github.com/fsgen/fsgen/model"
)

func bf16(x float32) uint16 { return uint16(model.FromFloat32(x)) }

// widen is the number that a bf16 stands for.
func widen(x uint16) float64 { return float64(model.BF16(x).Float32()) }

var (
	inf32 = float32(math.Inf(1))
	nan32 = float32(math.NaN())
)

func abs(x float64) float64 { return math.Abs(x) }

// finite makes a number that JSON can hold of one that may be infinite or NaN.
func finite(x float64) float64 {
	if math.IsNaN(x) {
		return math.MaxFloat64
	}
	return max(-math.MaxFloat64, min(math.MaxFloat64, x))
}

// sameBits reports whether two float32 are the same number, any NaN being one.
func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}
