package reference

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// However the candidates are split and in whatever order the parts meet, the two best are the same, and a NaN stays.
func TestMergeHasNoOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 8))
	for range 2000 {
		parts, whole := bests(1+rng.IntN(5)), newBest()
		for id := range 1 + rng.IntN(12) {
			c := candidate{[]float32{negInf, -1, 0, 0, 1, inf()}[rng.IntN(6)], int32(id)}
			parts[rng.IntN(len(parts))].add(c)
			whole.add(c)
		}
		if rng.IntN(2) == 0 {
			parts[rng.IntN(len(parts))].nan, whole.nan = true, true
		}
		got := newBest()
		for _, i := range rng.Perm(len(parts)) {
			got.merge(parts[i])
		}
		require.Equal(t, whole, got)
	}
}

func TestBestKeepsTheOrder(t *testing.T) {
	b := newBest()
	for _, c := range []candidate{{1, 9}, {1, 4}, {2, 7}, {2, 8}, {negInf, 0}} {
		b.add(c)
	}
	require.Equal(t, best{first: candidate{2, 7}, second: candidate{2, 8}}, b)
}
