package bench

import (
	"math/rand/v2"
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// What every row's filters are, where the computation truncates: what requests ask for most.
const (
	TopK = 50
	TopP = 0.95
	MinP = 0.05
)

// rowsOf makes the parameters of some rows, as many of them as the computation takes: a seed and a temperature a row, one
// position, a bias of normal values, a mask that drops an eighth of the tokens of each row, and filters that are all the same.
func rowsOf(c ir.Computation, shape ir.Shape, rows int) sampler.Rows {
	rng := rand.New(rand.NewPCG(5, 6))
	var out sampler.Rows
	if c.Sampler.Random() {
		out.Seeds, out.Positions = make([]uint64, rows), []uint64{7}
		for i := range out.Seeds {
			out.Seeds[i] = rng.Uint64()
		}
	}
	if c.Chain.Temperature {
		out.Temperature = make([]float32, rows)
		for i := range out.Temperature {
			out.Temperature[i] = 0.7 + 0.2*float32(i%5)
		}
	}
	addFilters(&out, c.Truncation, rows)
	switch c.Chain.Bias {
	case ir.BiasVector:
		out.Bias = biases(rng, shape.Vocab)
	case ir.BiasMatrix:
		out.Bias = biases(rng, rows*shape.Vocab)
	}
	if c.Chain.Mask {
		out.Mask = make([]uint32, rows*maskWords(shape))
		for i := range out.Mask {
			out.Mask[i] = rng.Uint32() | rng.Uint32() | rng.Uint32()
		}
	}
	return out
}

// addFilters gives every row its own value, as a server does, though all are the same.
func addFilters(out *sampler.Rows, t ir.Truncation, rows int) {
	if t.TopK {
		out.TopK = slices.Repeat([]int32{TopK}, rows)
	}
	if t.TopP {
		out.TopP = slices.Repeat([]float32{TopP}, rows)
	}
	if t.MinP {
		out.MinP = slices.Repeat([]float32{MinP}, rows)
	}
}

// biases repeats a short list of normal values, since a matrix of them has tens of millions.
func biases(rng *rand.Rand, n int) []float32 {
	out, drawn := make([]float32, n), min(n, 1<<16+1)
	for i := range out[:drawn] {
		out[i] = float32(rng.NormFloat64())
	}
	for i := drawn; i < n; i += drawn {
		copy(out[i:], out[:drawn])
	}
	return out
}

func maskWords(shape ir.Shape) int { return (shape.Vocab + 31) / 32 }

// first keeps the parameters of the first rows.
func first(r sampler.Rows, c ir.Computation, shape ir.Shape, rows int) sampler.Rows {
	if c.Sampler.Random() {
		r.Seeds = r.Seeds[:rows]
	}
	if c.Chain.Temperature {
		r.Temperature = r.Temperature[:rows]
	}
	if c.Truncation.TopK {
		r.TopK = r.TopK[:rows]
	}
	if c.Truncation.TopP {
		r.TopP = r.TopP[:rows]
	}
	if c.Truncation.MinP {
		r.MinP = r.MinP[:rows]
	}
	if c.Chain.Bias == ir.BiasMatrix {
		r.Bias = r.Bias[:rows*shape.Vocab]
	}
	if c.Chain.Mask {
		r.Mask = r.Mask[:rows*maskWords(shape)]
	}
	return r
}
