package verify

import (
	"context"
	"fmt"
	"strings"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// smallShapes are vocabularies, hidden sizes and batches below, at and above the tiles' sizes, one check a vocabulary.
func smallShapes(*run) []item {
	var items []item
	for _, v := range []int{1, 2, 3, 31, 32, 33, 127, 128, 129, 255, 256, 257} {
		items = append(items, item{name: fmt.Sprintf("small shapes, V=%d", v), from: "B9", f: func(ctx context.Context, p *probe) error {
			for _, d := range []int{8, 16, 24, 64, 72} {
				pr := p.random(p.weights(v, d), ir.Shape{Vocab: v, Hidden: d}, 65, p.noisy("temperature"), false)
				if err := p.batches(ctx, pr, []int{1, 2, 15, 16, 17, 63, 64, 65}); err != nil {
					return err
				}
			}
			return p.everyTile(ctx, v)
		}})
	}
	return items
}

// everyTile runs a vocabulary through every tile of the device, where it has any.
func (p *probe) everyTile(ctx context.Context, v int) error {
	spec := p.noisy("bias,mask,temperature")
	for _, d := range []int{8, 136} {
		pr := p.random(p.weights(v, d), ir.Shape{Vocab: v, Hidden: d}, 65, spec, false)
		for _, tile := range tiles(p.info.Arch, spec, 300) {
			pr.spec.Tile = tile
			if err := p.batches(ctx, pr, []int{1, 17, 65}); err != nil {
				return err
			}
		}
	}
	return nil
}

func oddVocabs(ctx context.Context, p *probe) error {
	for _, v := range []int{40001, 50257, 128257, 151669, 32003} {
		spec := p.noisy("bias=rows,mask,temperature")
		pr := p.random(p.weights(v, 16), ir.Shape{Vocab: v, Hidden: 16}, 5, spec, false)
		if _, err := p.verify(ctx, pr); err != nil {
			return err
		}
		pr.rows.BiasStride = v + 10
		pr.rows.Bias = p.floats(4*(v+10) + v)
		if _, err := p.verify(ctx, pr); err != nil {
			return fmt.Errorf("bias stride V+10: %w", err)
		}
	}
	return nil
}

func emptyBatch(ctx context.Context, p *probe) error {
	for _, v := range []int{128, 163840} {
		for _, spec := range []sampler.Spec{p.noisy("none"), p.greedy("none")} {
			pr := plant(spec, zeros(v)).pick(nil)
			pr.rows = sampler.Rows{}
			got, err := func() (got *sampler.Result, err error) {
				err = p.with(ctx, pr, func(s *session) error {
					got, err = s.sample(ctx, pr)
					return err
				})
				return got, err
			}()
			if err != nil {
				return err
			}
			if len(got.Tokens)+len(got.Status)+len(got.Scores) != 0 {
				return fmt.Errorf("at V=%d: %d tokens for no rows", v, len(got.Tokens))
			}
		}
	}
	return nil
}

// oddHiddens are computed, or refused in words that name the size.
func oddHiddens(ctx context.Context, p *probe) error {
	for _, d := range []int{1, 7, 12, 300, 2047, 4100} {
		pr := p.random(p.weights(257, d), ir.Shape{Vocab: 257, Hidden: d}, 17, p.noisy("temperature"), false)
		s, err := p.open(ctx, pr)
		if err != nil {
			if !strings.Contains(err.Error(), fmt.Sprint(d)) {
				return fmt.Errorf("the refusal does not name hidden size %d: %w", d, err)
			}
			p.Detail += fmt.Sprintf("D=%d is refused: %v\n", d, err)
			continue
		}
		_, err = p.verifyOn(ctx, s, pr)
		s.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// padding has rows of weights past V: zeros that would beat the real logits, and larger ones.
func padding(ctx context.Context, p *probe) error {
	const v, rows = 1000, 64
	for _, pad := range []float32{0, 100, nan32} {
		levels := with(with(zeros(1024), -20, span(0, v)...), pad, span(v, 24)...)
		pr := plant(p.noisy("temperature"), levels).repeat(rows)
		pr.shape.Vocab = v
		for _, t := range []float32{0, 1, 30} {
			got, err := p.verify(ctx, pr.at(t))
			if err != nil {
				return err
			}
			for b, token := range got.Tokens {
				if token < 0 || token >= v {
					return fmt.Errorf("row %d: token %d of %d", b, token, v)
				}
			}
		}
	}
	return nil
}
