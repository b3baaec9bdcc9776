package bench

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
)

func TestMatrixIsNormal(t *testing.T) {
	const rows, hidden, deviation = 3000, 300, 0.25
	m := newMatrix(rand.New(rand.NewPCG(1, 2)), hidden, deviation)
	var n, sum, square, large float64
	for i := range rows {
		for _, x := range m.row(i) {
			v := float64(model.BF16(x).Float32()) / deviation
			n, sum, square = n+1, sum+v, square+v*v
			if math.Abs(v) > 2 {
				large++
			}
		}
	}
	assert.InDelta(t, 0, sum/n, 0.01)
	assert.InDelta(t, 1, square/n, 0.01)
	assert.InDelta(t, 0.0455, large/n, 0.002, "tails of a normal distribution")
}

func TestRowsDiffer(t *testing.T) {
	m := newMatrix(rand.New(rand.NewPCG(1, 2)), 64, 1)
	seen := map[*uint16]bool{}
	for i := range 10000 {
		seen[&m.row(i)[0]] = true
	}
	assert.Greater(t, len(seen), 9950, "two of 10,000 rows begin at one place by chance, not by construction")
	dst := make([]uint16, 3*64)
	require.NoError(t, m.ReadRows(t.Context(), dst, 5, 3))
	for i := range 3 {
		assert.Equal(t, m.row(5+i), dst[i*64:(i+1)*64])
	}
}

func TestWideRowsFitTheirPool(t *testing.T) {
	m := newMatrix(rand.New(rand.NewPCG(1, 2)), poolValues, 1)
	for i := range 100 {
		assert.Len(t, m.row(i), poolValues)
	}
}

func TestCheckLogitsFindsAWrongOne(t *testing.T) {
	d := newData(ir.Shape{Vocab: 50, Hidden: 128})
	right := func(row, token int) (uint16, error) { return uint16(model.FromFloat64(d.logit(row, token))), nil }
	require.NoError(t, d.checkLogits(3, right))
	assert.ErrorContains(t, d.checkLogits(3, func(row, token int) (uint16, error) { return right(row, (token+1)%50) }), "logit of row")
	assert.ErrorContains(t, d.checkLogits(3, func(int, int) (uint16, error) { return 0xffff, nil }), "is NaN: want")
	lost := errors.New("lost")
	assert.ErrorIs(t, d.checkLogits(3, func(int, int) (uint16, error) { return 0, lost }), lost)
}

func TestCheckTokens(t *testing.T) {
	assert.NoError(t, checkTokens([]int32{0, 9}, []int32{0, 0}, 10))
	for want, c := range map[string]struct{ tokens, status []int32 }{
		"row 1 was not written":                     {[]int32{0, poison}, []int32{0, 0}},
		"row 0 was not written":                     {[]int32{3, 3}, []int32{poison, 0}},
		"row 1 was not sampled: status nan":         {[]int32{0, -1}, []int32{0, 2}},
		"row 0 has token -1 of a vocabulary of 10":  {[]int32{-1, 0}, []int32{0, 0}},
		"row 1 has token 10 of a vocabulary of 10":  {[]int32{9, 10}, []int32{0, 0}},
		"row 0 was not sampled: status status(-12)": {[]int32{9, 10}, []int32{-12, 0}},
	} {
		assert.EqualError(t, checkTokens(c.tokens, c.status, 10), want)
	}
	assert.NoError(t, sameTokens([]int32{1, 2}, []int32{1, 2}))
	assert.EqualError(t, sameTokens([]int32{1, 2}, []int32{1, 3}), "row 1 has token 3, and 2 in another run on the same inputs")
	assert.Error(t, sameTokens([]int32{1, 2}, []int32{1}))
}

func TestRowsOf(t *testing.T) {
	shape := ir.Shape{Vocab: 70000, Hidden: 8}
	c := ir.Computation{Chain: ir.Chain{Temperature: true, Bias: ir.BiasMatrix, Mask: true}}
	r := first(rowsOf(c, shape, 5), c, shape, 2)
	assert.Len(t, r.Seeds, 2)
	assert.NotEqual(t, r.Seeds[0], r.Seeds[1])
	assert.Len(t, r.Temperature, 2)
	assert.Len(t, r.Bias, 2*70000)
	assert.NotZero(t, r.Bias[2*70000-1])
	assert.Len(t, r.Mask, 2*2188)
	allowed := 0
	for _, w := range r.Mask {
		for ; w != 0; w &= w - 1 {
			allowed++
		}
	}
	assert.InDelta(t, 0.875, float64(allowed)/float64(32*len(r.Mask)), 0.01)

	c = ir.Computation{Truncation: ir.Truncation{TopK: true, MinP: true}}
	r = first(rowsOf(c, shape, 5), c, shape, 2)
	assert.Equal(t, []int32{50, 50}, r.TopK)
	assert.Equal(t, []float32{0.05, 0.05}, r.MinP)
	assert.Nil(t, r.TopP)

	none := rowsOf(ir.Computation{Sampler: ir.Greedy}, shape, 5)
	assert.Zero(t, none, "a computation's rows have what it takes and no more")
}
