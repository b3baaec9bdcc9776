package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

func unseededNeighbour(ctx context.Context, p *probe) error {
	pr := plant(p.noisy("none"), zeros(8192)).repeat(2)
	pr.rows.Seeds = []uint64{42, 7}
	return p.with(ctx, pr, func(s *session) error {
		base, err := p.verifyOn(ctx, s, pr)
		if err != nil {
			return err
		}
		drawn := map[uint64]bool{}
		for range 10 {
			mixed := *pr
			mixed.rows.Unseeded = []bool{false, true}
			got, err := s.sample(ctx, &mixed)
			if err != nil {
				return err
			}
			if err := sameRow(got, 0, base, 0); err != nil {
				return err
			}
			if len(got.Seeds) != 2 || got.Seeds[0] != 42 || drawn[got.Seeds[1]] {
				return fmt.Errorf("seeds used: %v; every drawn one is fresh", got.Seeds)
			}
			drawn[got.Seeds[1]] = true
			mixed.rows.Unseeded, mixed.rows.Seeds = nil, got.Seeds
			if _, err := p.verifyOn(ctx, s, &mixed); err != nil {
				return fmt.Errorf("with the seed that was drawn: %w", err)
			}
		}
		return nil
	})
}

func seedsOfRows(ctx context.Context, p *probe) error {
	const v, rows = 131072, 64
	pr := plant(p.noisy("none"), zeros(v)).repeat(rows)
	return p.with(ctx, pr, func(s *session) error {
		got, err := p.verifyOn(ctx, s, pr)
		if err != nil {
			return err
		}
		distinct := map[int32]bool{}
		for _, token := range got.Tokens {
			distinct[token] = true
		}
		if len(distinct) < rows-2 {
			return fmt.Errorf("%d rows with seeds of their own have %d tokens", rows, len(distinct))
		}
		idx := p.rng.Perm(rows)
		permuted, err := s.sample(ctx, pr.pick(idx))
		if err != nil {
			return err
		}
		return sameRows(permuted, got, idx)
	})
}

func positionsMove(ctx context.Context, p *probe) error {
	const v, steps = 8, 10000
	pr := plant(p.noisy("none"), zeros(v)).repeat(steps)
	pr.rows.Seeds = []uint64{p.rng.Uint64()}
	pr.rows.Positions = make([]uint64, steps)
	for i := range pr.rows.Positions {
		pr.rows.Positions[i] = uint64(i)
	}
	got, err := p.verify(ctx, pr)
	if err != nil {
		return err
	}
	counts := make([]int64, v)
	serial := stats.NewSerial(v)
	for _, token := range got.Tokens {
		counts[token]++
		serial.Add(token)
	}
	return p.judge(stats.ChiSquared("tokens over positions", counts, slices.Repeat([]float64{1.0 / v}, v)), serial.Result())
}

// change is one parameter that differs; the tokens must, too.
type change struct {
	name string
	f    func(pr *problem)
}

var changes = []change{
	{"seeds", func(pr *problem) { pr.rows.Seeds = gather(pr.rows.Seeds, 1, pr.reversed()) }},
	{"low word of the seed", func(pr *problem) { pr.rows.Seeds = plus(pr.rows.Seeds, 1) }},
	{"high word of the seed", func(pr *problem) { pr.rows.Seeds = plus(pr.rows.Seeds, 1<<32) }},
	{"low word of the position", func(pr *problem) { pr.rows.Positions = plus(pr.rows.Positions, 1) }},
	{"high word of the position", func(pr *problem) { pr.rows.Positions = plus(pr.rows.Positions, 1<<32) }},
	{"draw", func(pr *problem) { pr.rows.Draw++ }},
	{"stream tag", func(pr *problem) { pr.rows.StreamTag = anotherTag(pr.rows.StreamTag) }},
	{"temperature", func(pr *problem) { pr.rows.Temperature = []float32{0.5} }},
	{"bias", func(pr *problem) { pr.rows.Bias = with(pr.rows.Bias, 2, every(len(pr.rows.Bias)/2)...) }},
	{"mask", func(pr *problem) { pr.allow(every(pr.shape.Vocab / 2)) }},
	{"mask words", func(pr *problem) {
		pr.rows.MaskWords = pr.maskWords() / 2
		pr.rows.Mask = pr.rows.Mask[:pr.rows.MaskWords]
	}},
	{"hidden states", func(pr *problem) { pr.hidden = gather(pr.hidden, pr.shape.Hidden, pr.reversed()) }},
	{"scale", func(pr *problem) { pr.spec.Chain.Scale = 2 }},
	{"softcap", func(pr *problem) { pr.spec.Chain.Softcap = 1 }},
}

func plus(v []uint64, n uint64) []uint64 {
	v = slices.Clone(v)
	for i := range v {
		v[i] += n
	}
	return v
}

func (pr *problem) reversed() []int {
	idx := span(0, pr.batch)
	slices.Reverse(idx)
	return idx
}

// everyParameter changes one parameter at a time.
func everyParameter(ctx context.Context, p *probe) error {
	const v, d, rows = 4096, 64, 48
	fresh := func() *problem {
		q := *p
		q.rng = newRNG(p.o.Seed, "every parameter")
		pr := q.random(q.weights(v, d), ir.Shape{Vocab: v, Hidden: d}, rows, p.noisy(everyTransform), false)
		pr.rows.MaskWords = 0
		return pr.at(1).allow(every(v))
	}
	base, err := p.verify(ctx, fresh())
	if err != nil {
		return err
	}
	for _, c := range changes {
		pr := fresh()
		c.f(pr)
		got, err := p.verify(ctx, pr)
		if err != nil {
			return fmt.Errorf("%s changed: %w", c.name, err)
		}
		if n := differ(got, base); n < rows/8 {
			return fmt.Errorf("%s changed, but only %d of %d rows did", c.name, n, rows)
		}
	}
	return nil
}

// differ counts rows whose token or score differs.
func differ(a, b *sampler.Result) (n int) {
	for i := range a.Tokens {
		if sameRow(a, i, b, i) != nil {
			n++
		}
	}
	return n
}

// anotherTag is a stream tag that callers may have, and not the given one.
func anotherTag(tag uint32) uint32 {
	if tag == ir.StreamUser {
		return tag + 1
	}
	return ir.StreamUser
}
