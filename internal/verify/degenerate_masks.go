package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/ir"
)

func narrowMask(ctx context.Context, p *probe) error {
	const v, covered, allowed = 151936, 151669, 5
	for _, spec := range []string{"mask", "mask,temperature"} {
		pr := plant(p.noisy(spec), with(zeros(v), 20, v-1, covered+3)).repeat(8)
		if pr.spec.Chain.Temperature {
			pr.at(1, 0, 1, 0, 1, 0, 1, 0)
		}
		pr.rows.MaskWords = (covered + 31) / 32
		pr.allow([]int{allowed})
		got, err := p.verify(ctx, pr)
		if err == nil {
			err = expect(got, slices.Repeat([]want{ok(allowed)}, 8)...)
		}
		if err != nil {
			return err
		}
	}
	return bitsPastVocab(ctx, p)
}

// bitsPastVocab sets mask bits of ids past V, which mean nothing.
func bitsPastVocab(ctx context.Context, p *probe) error {
	const v = 1001
	pr := plant(p.noisy("mask"), zeros(v)).repeat(40)
	pr.rows.MaskWords = 40
	pr.rows.Mask = make([]uint32, 40)
	for i := range pr.rows.Mask {
		pr.rows.Mask[i] = ^uint32(0)
	}
	for i := range v / 32 {
		pr.rows.Mask[i] = 0
	}
	got, err := p.verify(ctx, pr)
	if err != nil {
		return err
	}
	for b, token := range got.Tokens {
		if token < v/32*32 || token >= v {
			return fmt.Errorf("row %d: token %d where %d to %d are allowed", b, token, v/32*32, v-1)
		}
	}
	return nil
}

func fewAllowed(ctx context.Context, p *probe) error {
	const v, rows = 2000, 33
	masks := make([][]int, rows)
	for b := range masks {
		switch b % 3 {
		case 0:
			masks[b] = []int{b*61 + 7}
		case 2:
			masks[b] = every(v)
		}
	}
	pr := plant(p.noisy("mask,temperature"), with(zeros(v), 3, 11, 1999)).repeat(rows).allow(masks...).at(0.8)
	got, err := p.verify(ctx, pr)
	if err != nil {
		return err
	}
	for b := range rows {
		w := []want{ok(b*61 + 7), empty, {got.Tokens[b], ir.StatusOK}}[b%3]
		if (want{got.Tokens[b], got.Status[b]}) != w {
			return fmt.Errorf("row %d: token %d (%s), want %d (%s)", b, got.Tokens[b], got.Status[b], w.token, w.status)
		}
	}
	return nil
}

// onlyAllowed masks all but one id of a large vocabulary, for many seeds.
func onlyAllowed(ctx context.Context, p *probe) error {
	const v, allowed = 163840, 98765
	batch, calls := 256, 2
	if p.gpu {
		batch, calls = 2048, 500
	}
	pr := plantOne(p.noisy("mask"), zeros(v)).repeat(batch).allow([]int{allowed})
	return p.with(ctx, pr, func(s *session) error {
		for call := range calls {
			pr.rows.Positions = []uint64{uint64(call)}
			got, err := s.sample(ctx, pr)
			if err != nil {
				return err
			}
			if err := expect(got, slices.Repeat([]want{ok(allowed)}, batch)...); err != nil {
				return err
			}
			p.Rows += batch
		}
		return nil
	})
}

// neverSampled has tokens of probability 0 among others: masked ones, and one at -inf.
func neverSampled(ctx context.Context, p *probe) error {
	calls := 5
	if p.gpu {
		calls = 2000
	}
	masked := plantOne(p.noisy("mask"), zeros(100000)).repeat(64).allow([]int{1})
	small := plant(p.noisy("bias"), []float32{0, 0.03, 5, 0}).repeat(1024).biased(with(zeros(4), -inf32, 2))
	for _, pr := range []*problem{masked, small} {
		err := p.with(ctx, pr, func(s *session) error {
			for call := range calls {
				pr.rows.Positions = []uint64{uint64(call)}
				got, err := s.sample(ctx, pr)
				if err != nil {
					return err
				}
				for b, token := range got.Tokens {
					if token < 0 || token == 2 || pr == masked && token != 1 {
						return fmt.Errorf("%s: row %d, call %d: token %d of probability 0", pr, b, call, token)
					}
				}
				p.Rows += pr.batch
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
