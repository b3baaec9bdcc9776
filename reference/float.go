package reference

import "math"

// bf16 widens a bf16 number; every bf16 is a float32.
func bf16(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }

var negInf = float32(math.Inf(-1))

// fma32 returns x*y + z rounded once. The product is exact in float64. Where the sum is not, its last bit is made odd,
// away from every halfway point between two float32, so that rounding it again goes where the exact sum would.
func fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := float64(p) + c
	if s == 0 || math.IsInf(s, 0) || math.IsNaN(s) {
		return float32(s)
	}
	t := s - c
	rest := (p - t) + (c - (s - t))
	if rest != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Copysign(math.Inf(1), rest))
	}
	return float32(s)
}
