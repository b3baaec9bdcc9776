package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/internal/stats"
)

// pairVocab is the vocabulary of tests of pairs, whose differences fall in as many bins.
const pairVocab = 131072

// keyed samples rows of equal logits, row b under key(b), in batches that the device likes.
func (p *probe) keyed(ctx context.Context, vocab, n int, key func(b int) (seed, position uint64, draw uint32)) ([]int32, error) {
	pr := p.flat(vocab)
	var tokens []int32
	err := p.with(ctx, pr, func(s *session) error {
		for first := 0; first < n; {
			rows, next := keyedRows(pr, first, n, key)
			got, err := s.sample(ctx, rows)
			if err != nil {
				return err
			}
			if err := inside(got.Tokens, rows); err != nil {
				return err
			}
			tokens, first = append(tokens, got.Tokens...), next
		}
		return nil
	})
	p.Rows += n
	return tokens, err
}

// keyedRows makes a batch of rows from first on that share a draw index.
func keyedRows(pr *problem, first, n int, key func(b int) (seed, position uint64, draw uint32)) (*problem, int) {
	const most = 1024
	var seeds, positions []uint64
	_, _, draw := key(first)
	b := first
	for ; b < n && len(seeds) < most; b++ {
		s, at, d := key(b)
		if d != draw {
			break
		}
		seeds, positions = append(seeds, s), append(positions, at)
	}
	rows := pr.pick(make([]int, len(seeds)))
	rows.rows.Seeds, rows.rows.Positions, rows.rows.Draw = seeds, positions, draw
	return rows, b
}

func pairsOfRows(ctx context.Context, p *probe) error {
	tokens, err := p.keyed(ctx, pairVocab, 256, func(b int) (uint64, uint64, uint32) { return uint64(b), 0, 0 })
	if err != nil {
		return err
	}
	return p.judge(stats.LargestDifference("pairs of rows in the fullest difference", tokens, pairVocab), stats.MeanIndex(tokens, pairVocab))
}

// pairsOfDraws takes 16 draws of 16 rows.
func pairsOfDraws(ctx context.Context, p *probe) error {
	seed := p.rng.Uint64()
	tokens, err := p.keyed(ctx, pairVocab, 256, func(b int) (uint64, uint64, uint32) { return seed + uint64(b%16), 7, uint32(b / 16) })
	if err != nil {
		return err
	}
	return p.judge(stats.LargestDifference("pairs of draws in the fullest difference", tokens, pairVocab), stats.MeanIndex(tokens, pairVocab))
}

// judgeStream judges one stream of tokens, and the pairs of its first.
func (p *probe) judgeStream(tokens []int32, vocab int) error {
	u := stats.NewUniform(vocab)
	for _, token := range tokens {
		u.Add(token)
	}
	pairs := stats.LargestDifference("pairs in the fullest difference", tokens[:min(256, len(tokens))], vocab)
	return p.judge(append(u.Results(), pairs)...)
}

func consecutivePositions(ctx context.Context, p *probe) error {
	v, seed := p.size(pairVocab, pairVocab/8), p.rng.Uint64()
	tokens, err := p.keyed(ctx, v, 10000, func(b int) (uint64, uint64, uint32) { return seed, uint64(b), 0 })
	if err != nil {
		return err
	}
	return p.judgeStream(tokens, v)
}

func consecutiveSeeds(ctx context.Context, p *probe) error {
	v, seed := p.size(pairVocab, pairVocab/32), p.rng.Uint64()
	tokens, err := p.keyed(ctx, v, 20000, func(b int) (uint64, uint64, uint32) { return seed + uint64(b), 3, 0 })
	if err != nil {
		return err
	}
	return p.judgeStream(tokens, v)
}

// closeSeeds compares the streams of a seed and of ones near it, position by position.
func closeSeeds(ctx context.Context, p *probe) error {
	const n = 5000
	v, seed := p.size(pairVocab, pairVocab/32), p.rng.Uint64()
	stream := func(offset uint64) ([]int32, error) {
		return p.keyed(ctx, v, n, func(b int) (uint64, uint64, uint32) { return seed + offset, uint64(b), 0 })
	}
	base, err := stream(0)
	if err != nil {
		return err
	}
	var results []stats.Result
	for _, offset := range []uint64{1, 100, 1000, 1 << 32} {
		other, err := stream(offset)
		if err != nil {
			return err
		}
		results = append(results, stats.Correlation(fmt.Sprintf("correlation with seed + %d", offset), base, other, v),
			differences(fmt.Sprintf("differences from seed + %d", offset), base, other, v))
	}
	return p.judge(results...)
}

// differences judges a[i] - b[i] modulo V, which should be uniform: in buckets, where a constant shift would stand out.
func differences(name string, a, b []int32, vocab int) stats.Result {
	const buckets = 64
	counts := make([]int64, buckets)
	for i := range a {
		counts[(int(a[i])-int(b[i])+vocab)%vocab*buckets/vocab]++
	}
	return stats.ChiSquared(name, counts, slices.Repeat([]float64{1.0 / buckets}, buckets))
}
