package reference

import (
	"maps"
	"math"
	"slices"

	"github.com/fsgen/fsgen/ir"
)

// largestWeight is the largest Euclidean norm of a row of weights. Rows with an element that is not finite are none: what their logits
// are, infinite or NaN, does not depend on the order of a sum.
func (r *Request) largestWeight() (largest float64) {
	if r.Logits != nil {
		return 0
	}
	for v := range r.Shape.Vocab {
		if n, _ := norm(r.weights(v)); n <= math.MaxFloat64 {
			largest = max(largest, n)
		}
	}
	return largest
}

// norm returns a vector's Euclidean norm and how many of its elements are not 0.
func norm(x []uint16) (length float64, nonzero int) {
	sum := 0.0
	for _, e := range x {
		if f := float64(bf16(e)); f != 0 {
			sum += f * f
			nonzero++
		}
	}
	return math.Sqrt(sum), nonzero
}

// logitBound bounds the size and the error of every logit of a row: those of dotBound, whose sum of magnitudes is at most the
// product of the norms, and those of the transforms.
func (r *Request) logitBound(w *row, b int, largest float64) (size, err float64) {
	if r.Logits == nil {
		length, nonzero := norm(r.hidden(b))
		size = length * largest
		if nonzero > 1 {
			err = dotAdditions(r.Shape.Hidden)*2*unit*size + float64(r.Shape.Hidden)*0x1p-149
		}
	} else {
		size = largestFinite(r.logits(b))
	}
	if s := math.Abs(float64(w.chain.Scale)); s != 0 {
		size, err = size*s, err*s+size*s*unit
	}
	if c := math.Abs(float64(w.chain.Softcap)); c != 0 {
		size = min(size, c)
		err += size * (softcapBudget + unit)
	}
	if w.bias != nil {
		size += largestFinite(w.bias)
		err += size * unit
	}
	if w.biases != nil {
		size += largestFinite(slices.Collect(maps.Values(w.biases)))
		err += size * unit
	}
	if w.chain.Penalties {
		return w.penaltyBound(size, err)
	}
	return size, err
}

// penaltyBound is what the penalties, in three operations, make of logits of a size with an error.
func (w *row) penaltyBound(size, err float64) (float64, float64) {
	p, most := w.penalty, uint32(0)
	for _, n := range w.counts {
		most = max(most, n&ir.CountOutput)
	}
	for _, n := range w.counted {
		most = max(most, n&ir.CountOutput)
	}
	steepest := float64(max(p.Repetition, 1/p.Repetition, 1))
	size = size*steepest + math.Abs(float64(p.Frequency))*float64(most) + math.Abs(float64(p.Presence))
	return size, err*steepest + 3*size*unit
}

// largestFinite is the largest magnitude of the finite numbers.
func largestFinite(x []float32) (largest float64) {
	for _, f := range x {
		if a := math.Abs(float64(f)); a <= math.MaxFloat32 {
			largest = max(largest, a)
		}
	}
	return largest
}
