package sampler

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A matrix that does not hold what is asked of it says so, on any device.
func TestMatrixIsHeldToItsBounds(t *testing.T) {
	data := make([]uint16, 10*8)
	for _, c := range []struct {
		m      Matrix
		vocab  int
		hidden int
		says   string
	}{
		{Matrix{Data: data, Hidden: 8}, 11, 8, "want 11 rows"},
		{Matrix{Data: data, Hidden: 8}, 200, 8, "want"},
		{Matrix{Data: data, Hidden: 8}, 10, 4, "hidden size"},
		{Matrix{Data: data, Hidden: 8, Stride: 3}, 10, 8, "matrix stride"},
		{Matrix{Data: data, Hidden: 8, Stride: -1}, 10, 8, "matrix stride"},
	} {
		for _, name := range []string{"cpu", "sim:sm_90"} {
			dev, err := Open(name)
			require.NoError(t, err)
			_, err = dev.LoadHead(t.Context(), Weights{Source: c.m, Vocab: c.vocab, Hidden: c.hidden})
			require.ErrorContains(t, err, c.says, "%s %+v", name, c)
			require.NoError(t, dev.Close())
		}
	}
}
