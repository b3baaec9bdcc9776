package reference

import (
	"testing"

	"github.com/fsgen/fsgen/ir"
	"github.com/stretchr/testify/require"
)

func TestValidateNamesTheField(t *testing.T) {
	for _, c := range []struct {
		field string
		spoil func(r *Request)
	}{
		{"Batch", func(r *Request) { r.Batch = -1 }},
		{"len(H)", func(r *Request) { r.H = r.H[1:] }},
		{"len(W)", func(r *Request) { r.W = r.W[1:] }},
		{"LDH", func(r *Request) { r.LDH = 7 }},
		{"LDW", func(r *Request) { r.LDW = -8 }},
		{"len(Seeds)", func(r *Request) { r.Seeds = r.Seeds[:2] }},
		{"len(Seeds)", func(r *Request) { r.Seeds = nil }},
		{"len(Positions)", func(r *Request) { r.Positions = nil }},
		{"len(Temperature)", func(r *Request) { r.Temperature = []float32{1} }},
		{"len(Temperature)", func(r *Request) { withTemperature(r, 1, 1) }},
		{"Temperature", func(r *Request) { withTemperature(r, 1, 1, -1) }},
		{"Temperature", func(r *Request) { withTemperature(r, nan()) }},
		{"len(Bias)", func(r *Request) { r.Bias = make([]float32, 100) }},
		{"len(Bias)", func(r *Request) { r.Computation.Chain.Bias, r.Bias = ir.BiasVector, make([]float32, 99) }},
		{"BiasStride", func(r *Request) { r.Computation.Chain.Bias, r.BiasStride = ir.BiasVector, 100 }},
		{"BiasStride", func(r *Request) { r.Computation.Chain.Bias, r.Bias = ir.BiasMatrix, make([]float32, 300) }},
		{"len(Bias)", func(r *Request) {
			r.Computation.Chain.Bias, r.BiasStride, r.Bias = ir.BiasMatrix, 101, make([]float32, 301)
		}},
		{"len(Mask)", func(r *Request) { r.Mask = make([]uint32, 4) }},
		{"len(Mask)", func(r *Request) { allowing(r, 1); r.MaskStride = 4 }},
		{"MaskWords", func(r *Request) { allowing(r, 1); r.MaskWords = -1 }},
		{"MaskStride", func(r *Request) { allowing(r, 1); r.MaskStride = 3 }},
		{"Logits", func(r *Request) { r.Logits = make([]float32, 300) }},
		{"len(Logits)", func(r *Request) { r.Logits, r.H, r.W = make([]float32, 200), nil, nil }},
		{"len(Noise)", func(r *Request) { r.Noise = make([]float32, 100) }},
		{"Noise", func(r *Request) { r.Noise = make([]float32, 300); r.Computation.Sampler = ir.Greedy }},
	} {
		r := randomRequest(3, 100, 8)
		require.NoError(t, r.Validate())
		c.spoil(r)
		var field *FieldError
		require.ErrorAs(t, r.Validate(), &field, c.field)
		require.Equal(t, c.field, field.Field)
		require.ErrorContains(t, field, "reference: "+c.field)
		if c.field != "Temperature" {
			_, err := Sample(t.Context(), r)
			require.ErrorAs(t, err, &field)
		}
	}
	for _, shape := range []ir.Shape{{Vocab: 0, Hidden: 8}, {Vocab: 100, Hidden: 0}, {Vocab: ir.MaxVocab + 1, Hidden: 8}} {
		r := randomRequest(3, 100, 8)
		r.Shape = shape
		require.Error(t, r.Validate())
	}
	r := randomRequest(3, 100, 8)
	r.Computation.Chain.Softcap = -1
	require.Error(t, r.Validate())
}

func TestFieldErrorText(t *testing.T) {
	err := withTemperature(randomRequest(3, 100, 8), 1, -2, 1).Validate()
	require.EqualError(t, err, "reference: Temperature[1] is -2: want a number from 0 to 2^100")
	r := randomRequest(3, 100, 8)
	r.H = r.H[:20]
	require.EqualError(t, r.Validate(), "reference: len(H) is 20: want at least 24: 3 rows of 8, 8 apart")
}
