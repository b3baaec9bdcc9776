package tune

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
	"github.com/fsgen/fsgen/sampler"
)

// poolValues is how many random numbers a matrix is made of: 8 MB of bf16, drawn in a tenth of a second.
const poolValues = 1 << 22

// matrix is a random matrix in bf16: each row is a piece of a pool of normal values, from a place of its own, which costs
// a GPU the same time and power as values drawn singly.
type matrix struct {
	pool   []uint16
	hidden int
}

func newMatrix(rng *rand.Rand, hidden, values int, deviation float64) matrix {
	pool := make([]uint16, max(values, 2*hidden))
	for i := range pool {
		pool[i] = uint16(model.FromFloat64(rng.NormFloat64() * deviation))
	}
	return matrix{pool, hidden}
}

// newWeights makes the weights of a head whose logits are N(0, 1) for hidden states of N(0, 1).
func newWeights(hidden, values int) matrix {
	return newMatrix(rand.New(rand.NewPCG(1, 2)), hidden, values, 1/math.Sqrt(float64(hidden)))
}

// ReadRows implements sampler.RowReader.
func (m matrix) ReadRows(ctx context.Context, dst []uint16, first, n int) error {
	places := uint64(len(m.pool) - m.hidden + 1)
	for i := range n {
		at := uint64(first+i+1) * 0x9E3779B97F4A7C15 >> 20 % places
		copy(dst[i*m.hidden:(i+1)*m.hidden], m.pool[at:])
	}
	return ctx.Err()
}

// rows returns the first rows as one slice.
func (m matrix) rows(n int) []uint16 {
	out := make([]uint16, n*m.hidden)
	_ = m.ReadRows(context.Background(), out, 0, n) // fails only where the context does
	return out
}

// inputs are what a call takes: a batch of hidden states and the parameters of its rows.
type inputs struct {
	batch  int
	hidden []uint16
	rows   sampler.Rows
}

// newInputs makes the inputs of a computation that is normalized: seeds of their own for the rows and one position;
// temperatures about 1, and 0, greedy, for the first row; a bias of normal values; a mask that drops an eighth of the
// tokens of each row.
func newInputs(c ir.Computation, shape ir.Shape, batch int) *inputs {
	rng := rand.New(rand.NewPCG(3, uint64(batch)))
	in := &inputs{batch: batch, hidden: newMatrix(rng, shape.Hidden, 1<<18, 1).rows(batch)}
	if c.Sampler.Random() {
		in.rows.Positions = []uint64{rng.Uint64()}
		for range batch {
			in.rows.Seeds = append(in.rows.Seeds, rng.Uint64())
		}
	}
	if c.Chain.Temperature {
		for i := range batch {
			in.rows.Temperature = append(in.rows.Temperature, []float32{0, 0.7, 0.9, 1, 1.3}[min(i, 1+i%4)])
		}
	}
	switch c.Chain.Bias {
	case ir.BiasVector:
		in.rows.Bias = biases(rng, shape.Vocab)
	case ir.BiasMatrix:
		in.rows.Bias = biases(rng, batch*shape.Vocab)
	}
	if c.Chain.Mask {
		in.rows.Mask = make([]uint32, batch*maskWords(shape))
		for i := range in.rows.Mask {
			in.rows.Mask[i] = rng.Uint32() | rng.Uint32() | rng.Uint32()
		}
	}
	return in
}

// biases repeats a list of normal values of an odd length: a matrix of them has tens of millions.
func biases(rng *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	drawn := min(n, 1<<16+1)
	for i := range out[:drawn] {
		out[i] = float32(rng.NormFloat64() / 2)
	}
	for i := drawn; i < n; i++ {
		out[i] = out[i-drawn]
	}
	return out
}

func maskWords(shape ir.Shape) int { return (shape.Vocab + 31) / 32 }
