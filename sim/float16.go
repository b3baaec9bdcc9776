package sim

import "math"

// half is a 16-bit float format.
type half struct {
	mantissa int // bits, without the hidden one
	bias     int
}

var (
	f16  = half{10, 15}
	bf16 = half{7, 127}
)

const halfNaN = 0x7fff

// wide converts to float64, exactly.
func (h half) wide(v uint64) float64 {
	exp := int(v>>h.mantissa) & (1<<(15-h.mantissa) - 1)
	frac := float64(v & mask(h.mantissa))
	sign := 1.0
	if v>>15&1 == 1 {
		sign = -1
	}
	one := float64(uint64(1) << h.mantissa)
	switch exp {
	case 1<<(15-h.mantissa) - 1:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	case 0:
		return sign * math.Ldexp(frac/one, 1-h.bias)
	}
	return sign * math.Ldexp(1+frac/one, exp-h.bias)
}

// narrow rounds a float64 to the format: to nearest even, or to zero.
func (h half) narrow(x float64, mode rounding) uint64 {
	if math.IsNaN(x) {
		return halfNaN
	}
	sign := uint64(0)
	if math.Signbit(x) {
		sign, x = 1<<15, -x
	}
	top := 1<<(15-h.mantissa) - 1
	inf := uint64(top) << h.mantissa
	if math.IsInf(x, 0) {
		return sign | inf
	}
	if x == 0 {
		return sign
	}
	_, e := math.Frexp(x)
	exp := max(e-1, 1-h.bias)
	scaled := math.Ldexp(x, h.mantissa-exp) // in units of the last place
	n := uint64(scaled)
	if rest := scaled - float64(n); mode == toNearest && (rest > 0.5 || rest == 0.5 && n&1 == 1) {
		n++
	}
	v := n
	if exp > 1-h.bias || n >= 1<<h.mantissa {
		v = n + uint64(exp+h.bias-1)<<h.mantissa
	}
	if v >= inf {
		if mode == toZero {
			return sign | inf - 1
		}
		return sign | inf
	}
	return sign | v
}
