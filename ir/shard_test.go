package ir

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidSpans(t *testing.T) {
	greedy, grouped := Computation{Sampler: Greedy}, Computation{Sampler: Grouped}
	for _, vocab := range []int{1, 63, 64, 65, 32001, 49159, 151936} {
		for n := 1; n < 9; n++ {
			spans := EvenSpans(vocab, n)
			require.NoError(t, greedy.ValidSpans(spans, vocab), "%d on %d", vocab, n)
			require.NoError(t, grouped.ValidSpans(spans, vocab), "%d on %d", vocab, n)
		}
	}
	require.NoError(t, greedy.ValidSpans([]Span{{0, 20000}, {7, 0}, {20000, 12001}}, 32001))
	for _, bad := range []struct {
		c     Computation
		spans []Span
		text  string
	}{
		{greedy, []Span{{0, 10}, {11, 21}}, "shard 1 is [11, 32): want a start of 10, where the shards before it end"},
		{greedy, []Span{{0, 10}, {9, 23}}, "shard 1 is [9, 32): want a start of 10"},
		{greedy, []Span{{0, 10}, {10, 21}}, "want shards that have every id below 32"},
		{greedy, []Span{{0, 33}}, "want one inside the vocabulary of 32"},
		{greedy, []Span{{-1, 33}}, "want one inside the vocabulary of 32"},
		{greedy, []Span{{0, 1 << 62}, {1 << 62, 1 << 62}}, "want one inside the vocabulary of 32"},
		{grouped, []Span{{0, 10}, {10, 22}}, "shard 0 is [0, 10): want an end that is a multiple of 16"},
	} {
		var err *SpanError
		require.ErrorAs(t, bad.c.ValidSpans(bad.spans, 32), &err)
		require.ErrorContains(t, err, bad.text)
	}
}
