package reference

import "math"

// unit is the largest relative error of one float32 rounding to nearest.
const unit = 0x1p-24

// bounded is a real number (to float64's precision) with a bound on how far a float32 computation of it may be off.
type bounded struct {
	value, err float64
}

// slack covers the roundings of float64 in value and in err themselves.
const slack = 0x1p-48

// rounded is a result of one float32 operation whose operands were off by x.err altogether. An exact operand gives an
// exact result wherever the result is a float32.
func (x bounded) rounded() bounded {
	if math.Abs(x.value)-x.err > math.MaxFloat32 {
		return bounded{math.Copysign(math.Inf(1), x.value), 0}
	}
	if math.IsInf(x.value, 0) || x.err == 0 && float64(float32(x.value)) == x.value {
		return x
	}
	x.err += (math.Abs(x.value)+x.err)*(unit+slack) + 0x1p-149
	return x
}

func (x bounded) plus(y bounded) bounded {
	return bounded{x.value + y.value, x.err + y.err}.rounded()
}

func (x bounded) times(c float64) bounded {
	return bounded{x.value * c, x.err * math.Abs(c)}.rounded()
}

// approximated adds an absolute error.
func (x bounded) approximated(err float64) bounded {
	x.err += err
	return x
}

// dotBound is the exact dot product of two bf16 vectors with the bound for float32 sums of the products in any order,
// also for tensor cores, which align the terms of a step to the largest and cut them off: each of at most n additions
// errs by one unit in the last place of a partial sum, and no partial sum exceeds the sum of magnitudes by more than
// those errors. A tensor core adds at most one more term (the accumulator) for every 16 products; counting one for every
// 8 makes up for the errors' own errors.
//
// Where every product is a multiple of one quantum and the sum of magnitudes below 2^24 quanta, every partial sum is a
// float32 and the bound is 0. That is how planted logits are exact.
func dotBound(h, w []uint16) bounded {
	sum, mag, quantum, terms := 0.0, 0.0, math.Inf(1), 0
	for k := range h {
		p := float64(bf16(h[k])) * float64(bf16(w[k]))
		if p == 0 {
			continue
		}
		terms++
		sum += p
		mag += math.Abs(p)
		quantum = min(quantum, lowestBit(p))
	}
	if terms <= 1 || mag <= 0x1p24*quantum {
		return bounded{sum, 0}.rounded()
	}
	return bounded{sum, dotAdditions(len(h))*2*unit*mag + float64(len(h))*0x1p-149}
}

// dotAdditions is how many additions count in a dot product of n terms.
func dotAdditions(n int) float64 { return float64(n + n/8 + 16) }

// lowestBit is the value of the lowest set bit of x.
func lowestBit(x float64) float64 {
	frac, exp := math.Frexp(x)
	m := int64(math.Ldexp(math.Abs(frac), 53))
	return math.Ldexp(float64(m&-m), exp-53)
}
