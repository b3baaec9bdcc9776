package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sampler"
)

// severalChains are chains whose draws find a row's largest logits in different ways: in registers from tile to tile, and tile by tile
// for tokens that a mask leaves out and for those whose logits a bias reorders.
var severalChains = []string{"temperature", "mask,temperature", "bias,temperature"}

// severalDraws holds every draw of rows to the reference's: logits are exact, so that no draw may differ. Rows draw one token and
// many, at all temperatures, and have fewer tokens than they draw.
func severalDraws(ctx context.Context, p *probe) error {
	for _, kind := range []ir.Draws{ir.WithoutReplacement, ir.WithReplacement} {
		for _, chain := range severalChains {
			if err := p.drawSeveral(ctx, kind, chain); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *probe) drawSeveral(ctx context.Context, kind ir.Draws, chain string) error {
	v, n := 20011, 48
	switch {
	case p.sim:
		v, n = 301, 9
	case !p.gpu:
		v, n = 5003, 24
	}
	spec := gumbel(chain)
	spec.Draws, spec.MaxDraws, spec.MaxBatch = kind, 12, n
	pr := p.drawers(spec, v, n)
	want, err := reference.Sample(ctx, pr.request())
	if err != nil {
		return err
	}
	p.Rows += n
	return p.with(ctx, pr, func(s *session) error {
		got, err := s.sample(ctx, pr)
		if err != nil {
			return err
		}
		if len(got.Draws) != n*spec.MaxDraws {
			return fmt.Errorf("%s %s: %d draws, want %d of each of %d rows", pr, kind, len(got.Draws), spec.MaxDraws, n)
		}
		for b := range n {
			at := b * spec.MaxDraws
			if got.Status[b] != want.Status[b] || !slices.Equal(got.Draws[at:][:spec.MaxDraws], want.Draws[at:][:spec.MaxDraws]) {
				return fmt.Errorf("%s %s row %d: draws %v (%s), want %v (%s)", pr, kind, b, got.Draws[at:][:spec.MaxDraws], got.Status[b],
					want.Draws[at:][:spec.MaxDraws], want.Status[b])
			}
		}
		return nil
	})
}

// drawers are rows of planted logits that draw different numbers of tokens.
func (p *probe) drawers(spec sampler.Spec, v, n int) *problem {
	var rows [][]float32
	for range n {
		row := make([]float32, v)
		for i := range row {
			row[i] = 2 * float32(p.rng.NormFloat64())
		}
		rows = append(rows, row)
	}
	pr := plant(spec, rows...)
	for b := range n {
		pr.rows.DrawCounts = append(pr.rows.DrawCounts, []int32{int32(spec.MaxDraws), 1, 5, 2}[b%4])
		pr.rows.Temperature = append(pr.rows.Temperature, []float32{1, 0, 0.3, 3, 0.7}[b%5])
	}
	if spec.Chain.Mask {
		p.maskDrawers(pr, v, n)
	}
	if spec.Chain.Bias == ir.BiasVector {
		for range v {
			pr.rows.Bias = append(pr.rows.Bias, 3*float32(p.rng.NormFloat64()))
		}
	}
	return pr
}

// maskDrawers leaves n rows all tokens, half of them, and three.
func (p *probe) maskDrawers(pr *problem, v, n int) {
	pr.rows.MaskWords = (v + 31) / 32
	for b := range n {
		mask := make([]uint32, pr.rows.MaskWords)
		for i := range mask {
			switch b % 3 {
			case 0:
				mask[i] = math.MaxUint32
			case 1:
				mask[i] = p.rng.Uint32()
			}
		}
		if b%3 == 2 {
			mask[p.rng.IntN(v/32)] = 0b10110
		}
		pr.rows.Mask = append(pr.rows.Mask, mask...)
	}
}
