package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
)

// poolValues is how many random numbers a matrix is made of: 8 MB of bf16, drawn in a tenth of a second. A head has a
// hundred times as many values.
const poolValues = 1 << 22

// matrix is a random matrix of bf16 by rows: each row is a piece of a pool of normal values, from a place of its own. The
// values are as good as drawn singly for what a GPU does with them, in time and in power.
type matrix struct {
	pool   []uint16
	hidden int
}

func newMatrix(rng *rand.Rand, hidden int, deviation float64) matrix {
	pool := make([]uint16, max(poolValues, 2*hidden))
	for i := range pool {
		pool[i] = uint16(model.FromFloat64(rng.NormFloat64() * deviation))
	}
	return matrix{pool, hidden}
}

// row is a view of a row.
func (m matrix) row(i int) []uint16 {
	places := uint64(len(m.pool) - m.hidden + 1)
	at := uint64(i+1) * 0x9E3779B97F4A7C15 >> 20 % places
	return m.pool[at : at+uint64(m.hidden)]
}

// ReadRows makes the matrix a sampler.RowReader.
func (m matrix) ReadRows(ctx context.Context, dst []uint16, first, n int) error {
	for i := range n {
		copy(dst[i*m.hidden:(i+1)*m.hidden], m.row(first+i))
	}
	return ctx.Err()
}

// data is the input of every contender.
type data struct {
	shape   ir.Shape
	weights matrix // N(0, 1/D), so that logits are N(0, 1)
	hidden  matrix // N(0, 1)
}

func newData(shape ir.Shape) *data {
	rng := rand.New(rand.NewPCG(1, 2)) // every run has the same data
	return &data{shape, newMatrix(rng, shape.Hidden, 1/math.Sqrt(float64(shape.Hidden))), newMatrix(rng, shape.Hidden, 1)}
}

// logit is a logit in float64, to check peers by.
func (d *data) logit(row, token int) float64 {
	sum, w := 0.0, d.weights.row(token)
	for k, h := range d.hidden.row(row) {
		sum += float64(model.BF16(h).Float32()) * float64(model.BF16(w[k]).Float32())
	}
	return sum
}

// checkLogits compares places of a batch's logits [batch, vocab] with those in float64. A bf16 result is off by 2^-9 of
// itself; float32 sums in any order by far less at the sizes of models.
func (d *data) checkLogits(batch int, read func(row, token int) (uint16, error)) error {
	rng := rand.New(rand.NewPCG(3, uint64(batch)))
	for range 64 {
		row, token := rng.IntN(batch), rng.IntN(d.shape.Vocab)
		bits, err := read(row, token)
		if err != nil {
			return err
		}
		got, want := float64(model.BF16(bits).Float32()), d.logit(row, token)
		if !(math.Abs(got-want) <= 0.01*(1+math.Abs(want))) { // a NaN is wrong too
			return fmt.Errorf("logit of row %d, token %d is %v: want %v", row, token, got, want)
		}
	}
	return nil
}
