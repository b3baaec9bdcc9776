package reference

import (
	"testing"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/stretchr/testify/require"
)

// Case A11 (i): a weak mix of the seed shows between rows, not within one.
func TestNeighbouringSeedsAreIndependent(t *testing.T) {
	const vocab = 131072
	res := sample(t, flat(256, make([]float32, vocab)))
	r := stats.LargestDifference("seeds 0..255", res.Tokens, vocab)
	report(t, r)
	require.LessOrEqual(t, r.Statistic, 8.0)
	report(t, stats.MeanIndex(res.Tokens, vocab))
}

// rowsAt samples n rows of equal logits; set gives each its place in the streams.
func rowsAt(t *testing.T, vocab, n int, set func(r *Request, i int)) []int32 {
	r := flat(n, make([]float32, vocab))
	r.Positions = make([]uint64, n)
	for i := range n {
		set(r, i)
	}
	return sample(t, r).Tokens
}

// Case A11 (ii): positions of one row.
func TestPositionsAreIndependent(t *testing.T) {
	const vocab = 8192
	tokens := rowsAt(t, vocab, draws(10_000, 10_000), func(r *Request, i int) { r.Seeds[i], r.Positions[i] = 77, uint64(i) })
	u := stats.NewUniform(vocab)
	for _, token := range tokens {
		u.Add(token)
	}
	report(t, append(u.Results(), stats.LargestDifference("positions", tokens[:min(len(tokens), 2000)], vocab))...)
}

// Case A11 (iii): seeds that differ by little.
func TestShiftedSeedsAreIndependent(t *testing.T) {
	const vocab = 4096
	n := draws(5000, 5000)
	stream := func(seed uint64) []int32 {
		return rowsAt(t, vocab, n, func(r *Request, i int) { r.Seeds[i], r.Positions[i] = seed, uint64(i) })
	}
	const seed = 0x9E3779B97F4A7C15
	base := stream(seed)
	for _, shift := range []uint64{1, 2, 100, 1000, 1 << 31, 1 << 32, 1 << 63} {
		other := stream(seed + shift)
		report(t, stats.Correlation("shifted seed", base, other, vocab))
		requireCollisions(t, base, other, vocab)
		report(t, stats.Correlation("shifted seed and position", base[1:], other[:n-1], vocab))
		requireCollisions(t, base[1:], other[:n-1], vocab)
	}
}

// requireCollisions judges how often two streams have the same token in one place.
func requireCollisions(t *testing.T, a, b []int32, vocab int) {
	t.Helper()
	same := int64(0)
	for i := range a {
		if a[i] == b[i] {
			same++
		}
	}
	report(t, stats.Binomial("same token", same, int64(len(a)), 1/float64(vocab)))
}

// Case A11 (iv), and the stream tag: they move the noise as much as the seed does.
func TestDrawAndTagAreIndependent(t *testing.T) {
	const vocab = 4096
	n := draws(3000, 3000)
	stream := func(draw, tag uint32) []int32 {
		return rowsAt(t, vocab, n, func(r *Request, i int) {
			r.Draw, r.StreamTag, r.Seeds[i], r.Positions[i] = draw, tag, 5, uint64(i)
		})
	}
	all := [][]int32{stream(0, 0), stream(1, 0), stream(0, 1), stream(1, 1), stream(15, 0), stream(0, 1<<31)}
	for i, a := range all {
		for _, b := range all[i+1:] {
			report(t, stats.Correlation("draws and tags", a, b, vocab))
			requireCollisions(t, a, b, vocab)
		}
	}
}

// Case A11 (v).
func TestConsecutiveSeedsHaveNoSerialCorrelation(t *testing.T) {
	const vocab = 8192
	tokens := rowsAt(t, vocab, draws(20_000, 20_000), func(r *Request, i int) { r.Seeds[i] = uint64(i) })
	s := stats.NewSerial(vocab)
	for _, token := range tokens {
		s.Add(token)
	}
	report(t, s.Result(), stats.LargestDifference("seeds", tokens[:min(len(tokens), 2000)], vocab))
}

// Case C4: the position moves the noise at every step.
func TestPositionAdvances(t *testing.T) {
	const vocab = 8
	u := stats.NewUniform(vocab)
	for _, token := range rowsAt(t, vocab, 10_000, func(r *Request, i int) { r.Seeds[i], r.Positions[i] = 1, uint64(i) }) {
		u.Add(token)
	}
	report(t, u.Results()...)
}

// The words of the row state: no bit of seed, position, draw or tag is lost.
func TestEveryBitOfTheRowCounts(t *testing.T) {
	base := Row(0, 0, 0, 0)
	seen := map[RowState]bool{base: true}
	for bit := range 64 {
		seen[Row(1<<bit, 0, 0, 0)] = true
		seen[Row(0, 1<<bit, 0, 0)] = true
	}
	for bit := range 32 {
		seen[Row(0, 0, 1<<bit, 0)] = true
		seen[Row(0, 0, 0, 1<<bit)] = true
	}
	require.Len(t, seen, 1+4*48)
}
