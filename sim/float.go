package sim

import "math"

// rounding is a rounding mode of PTX.
type rounding uint8

const (
	toNearest rounding = iota // even
	toZero
	toMinus
	toPlus
)

// quietNaN is the NaN that arithmetic yields in single precision (PTX ISA, "Floating-Point Instructions").
const (
	quietNaN   = 0x7fffffff
	quietNaN64 = 0x7fffffffffffffff
)

// odd makes of a float64 and the sign of what it lacks the value rounded to odd: rounding that to float32, in any
// direction, rounds the exact value once (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
func odd(x, err float64) float64 {
	if err == 0 || math.IsInf(x, 0) || math.IsNaN(x) || math.IsNaN(err) {
		return x
	}
	bits := math.Float64bits(x)
	if bits&1 == 1 {
		return x
	}
	if x == 0 {
		return math.Copysign(math.SmallestNonzeroFloat64, err)
	}
	if (err > 0) == (x > 0) {
		bits++
	} else {
		bits--
	}
	return math.Float64frombits(bits)
}

// twoSum returns the float64 sum and what it lacks (Knuth).
func twoSum(a, b float64) (s, err float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// round32 rounds to float32.
func round32(x float64, mode rounding) float32 {
	y := float32(x)
	if mode == toNearest || float64(y) == x || math.IsNaN(x) {
		return y
	}
	up := float64(y) > x // rounded away upwards
	switch {
	case up && (mode == toMinus || mode == toZero && x > 0):
		return math.Nextafter32(y, float32(math.Inf(-1)))
	case !up && (mode == toPlus || mode == toZero && x < 0):
		return math.Nextafter32(y, float32(math.Inf(1)))
	}
	return y
}

// step64 moves a float64 that was rounded to nearest to where another mode puts it, given what it lacks.
func step64(x, err float64, mode rounding) float64 {
	switch {
	case mode == toNearest || err == 0 || math.IsNaN(x) || math.IsNaN(err):
		return x
	case err < 0 && (mode == toMinus || mode == toZero && x > 0):
		return math.Nextafter(x, math.Inf(-1))
	case err > 0 && (mode == toPlus || mode == toZero && x < 0):
		return math.Nextafter(x, math.Inf(1))
	}
	return x
}

// zeroSum gives the sum of zeros of both signs, or an exact cancellation, its sign: minus when rounding down.
func zeroSum(a, b, s float64, mode rounding) float64 {
	if s == 0 && mode == toMinus && (a != 0 || math.Signbit(a) != math.Signbit(b)) {
		return math.Copysign(0, -1)
	}
	return s
}

func add32(a, b float32, mode rounding) float32 {
	x, y := float64(a), float64(b)
	s, err := twoSum(x, y)
	return round32(zeroSum(x, y, odd(s, err), mode), mode)
}

// mul32 is exact before the rounding: 24 + 24 bits fit in 53.
func mul32(a, b float32, mode rounding) float32 { return round32(float64(a)*float64(b), mode) }

func fma32(a, b, c float32, mode rounding) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s, err := twoSum(p, z)
	return round32(zeroSum(p, z, odd(s, err), mode), mode)
}

// div32 finds the sign of the quotient's error from the remainder, which an FMA gives exactly.
func div32(a, b float32, mode rounding) float32 {
	x, y := float64(a), float64(b)
	q := x / y
	r := math.FMA(-q, y, x)
	if math.Signbit(y) {
		r = -r
	}
	return round32(odd(q, r), mode)
}

func sqrt32(a float32, mode rounding) float32 {
	x := float64(a)
	r := math.Sqrt(x)
	return round32(odd(r, math.FMA(-r, r, x)), mode)
}

func add64(a, b float64, mode rounding) float64 {
	s, err := twoSum(a, b)
	return step64(zeroSum(a, b, s, mode), err, mode)
}

func mul64(a, b float64, mode rounding) float64 {
	p := a * b
	return step64(p, math.FMA(a, b, -p), mode)
}

// fma64 rounds the exact sum of three: the error of the rounded one has the sign of product minus sum plus error of the product.
func fma64(a, b, c float64, mode rounding) float64 {
	s := math.FMA(a, b, c)
	p := a * b
	e := math.FMA(a, b, -p)
	t, te := twoSum(p, c)
	return step64(s, (t-s)+(te+e), mode)
}

func div64(a, b float64, mode rounding) float64 {
	q := a / b
	r := math.FMA(-q, b, a)
	if math.Signbit(b) {
		r = -r
	}
	return step64(q, r, mode)
}

func sqrt64(a float64, mode rounding) float64 {
	r := math.Sqrt(a)
	return step64(r, math.FMA(-r, r, a), mode)
}

// flush32 replaces subnormal values by zeros of the same sign: .ftz.
func flush32(x float32) float32 {
	if b := math.Float32bits(x); b&0x7f800000 == 0 {
		return math.Float32frombits(b & 0x80000000)
	}
	return x
}

// saturate clamps to [0, 1]; NaN becomes 0: .sat.
func saturate[T float32 | float64](x T) T {
	switch {
	case x >= 1:
		return 1
	case x > 0:
		return x
	}
	return 0
}

// bits32 and bits64 are a result's bits, NaNs in their one form.
func bits32(x float32) uint64 {
	if x != x {
		return quietNaN
	}
	return uint64(math.Float32bits(x))
}

func bits64(x float64) uint64 {
	if x != x {
		return quietNaN64
	}
	return math.Float64bits(x)
}

func f32(v uint64) float32 { return math.Float32frombits(uint32(v)) }
func f64(v uint64) float64 { return math.Float64frombits(v) }
