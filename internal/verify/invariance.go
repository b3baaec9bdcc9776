package verify

import (
	"context"
	"fmt"
	"sync"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// mostRows is the largest batch of the invariance checks: past the widest tile.
const mostRows = 300

// invariance holds a row's token and the bits of its score fixed while all else changes.
func invariance(r *run) []item {
	items := list([]check{
		{"every batch size", "C6", everyBatch},
		{"every slot", "A12", everySlot},
		{"beside rows of every kind", "A12", everyNeighbour},
		{"permuted rows", "C2", permuted},
		{"one value for all rows or one for each", "C10", sharedValues},
		{"every score in full, or skipped by a bound", "C11", exhaustive},
		{"unaligned hidden sizes", "C6", unaligned},
		{"64 goroutines on one plan", "H10", goroutines},
		{"a plan's maximal batch", "A12", maxBatches},
	})
	if len(tiles(r.info.Arch, gumbel(everyTransform), mostRows)) > 0 {
		items = append(items, item{name: "every tile", from: "A12", f: allTiles})
	}
	if r.gpu {
		items = append(items, item{name: "a large head in every batch size", from: "C6", f: largeHead})
	}
	items = append(both(items), truncatedInvariance(r)...)
	return append(items, item{name: "log-sum-exps repeat to the last bit", f: sumsRepeat, kind: groupedSums})
}

// invariant is a random problem with its rows as one run of all of them gives them, checked against the reference.
type invariant struct {
	*probe
	pr   *problem
	s    *session
	base *sampler.Result
}

// fixed opens a random problem and calls f.
func (p *probe) fixed(ctx context.Context, vocab, hidden int, spec sampler.Spec, f func(in *invariant) error) error {
	spec.MaxBatch = mostRows
	pr := p.random(p.weights(vocab, hidden), ir.Shape{Vocab: vocab, Hidden: hidden}, mostRows, spec, false)
	return p.with(ctx, pr, func(s *session) error {
		base, err := p.verifyOn(ctx, s, pr)
		if err != nil {
			return err
		}
		return f(&invariant{p, pr, s, base})
	})
}

// same samples some rows and compares them with the base.
func (in *invariant) same(ctx context.Context, idx []int) error {
	got, err := in.s.sample(ctx, in.pr.pick(idx))
	if err != nil {
		return fmt.Errorf("%s, %d rows: %w", in.pr, len(idx), err)
	}
	in.Rows += len(idx)
	err = sameRows(got, in.base, idx)
	if err == nil {
		err = sameSums(got, in.base, idx, in.pr.shape.Vocab)
	}
	if err != nil {
		return fmt.Errorf("%s, %d rows: %w", in.pr, len(idx), err)
	}
	return nil
}

// sizes are the batch sizes tried: all on a GPU.
func (p *probe) sizes() []int {
	if p.gpu {
		return span(1, mostRows)
	}
	return []int{1, 2, 7, 8, 9, 16, 17, 33, 64, 65, 97, 128, 129, 200, 255, 256, 257, 300}
}

// specs differ in what they store and compute.
func (p *probe) specs() []sampler.Spec {
	return []sampler.Spec{p.noisy("none"), p.noisy(everyTransform), p.noisy("bias=rows,temperature"), p.greedy("softcap=30,mask")}
}

func everyBatch(ctx context.Context, p *probe) error { return p.inEveryBatch(ctx, p.specs()...) }

func (p *probe) inEveryBatch(ctx context.Context, specs ...sampler.Spec) error {
	for _, spec := range specs {
		err := p.fixed(ctx, 1033, 72, spec, func(in *invariant) error {
			for _, n := range in.sizes() {
				if err := in.same(ctx, span(in.rng.IntN(mostRows-n+1), n)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// everySlot turns the batch round, one row at a time on a GPU.
func everySlot(ctx context.Context, p *probe) error {
	step := 1
	if !p.gpu {
		step = 31
	}
	return p.fixed(ctx, 517, 64, p.noisy(everyTransform), func(in *invariant) error {
		for turn := 0; turn < mostRows; turn += step {
			idx := append(span(turn, mostRows-turn), span(0, turn)...)
			if err := in.same(ctx, idx); err != nil {
				return err
			}
			// The same row in every slot.
			for i := range idx {
				idx[i] = turn
			}
			if err := in.same(ctx, idx[:1+turn%mostRows]); err != nil {
				return err
			}
		}
		return nil
	})
}

func permuted(ctx context.Context, p *probe) error { return p.inEveryOrder(ctx, p.specs()...) }

func (p *probe) inEveryOrder(ctx context.Context, specs ...sampler.Spec) error {
	for _, spec := range specs {
		err := p.fixed(ctx, 2051, 24, spec, func(in *invariant) error {
			for range 5 {
				if err := in.same(ctx, in.rng.Perm(mostRows)[:1+in.rng.IntN(mostRows)]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// everyNeighbour samples rows alone and beside NaN rows, empty rows, rows with infinite logits and greedy ones.
func everyNeighbour(ctx context.Context, p *probe) error {
	spec := p.noisy("bias=rows,mask,temperature")
	return p.fixed(ctx, 700, 64, spec, func(in *invariant) error {
		for kind := range 5 {
			changed := in.pr.pick(span(0, mostRows))
			var kept []int
			for b := range mostRows {
				if in.rng.IntN(3) == 0 {
					kept = append(kept, b)
				} else {
					spoil(changed, b, (kind+in.rng.IntN(2))%5)
				}
			}
			got, err := in.probe.verifyOn(ctx, in.s, changed)
			if err != nil {
				return err
			}
			for _, b := range kept {
				if err := sameRow(got, b, in.base, b); err != nil {
					return fmt.Errorf("beside rows of kind %d: %w", kind, err)
				}
			}
		}
		return nil
	})
}

// spoil makes a row one of five kinds.
func spoil(pr *problem, b, kind int) {
	d, v, words := pr.shape.Hidden, pr.shape.Vocab, pr.maskWords()
	switch kind {
	case 0:
		pr.hidden[b*d+b%d] = 0x7fc0
	case 1:
		clear(pr.rows.Mask[b*words : (b+1)*words])
	case 2:
		pr.rows.Temperature[b] = 0
	case 3:
		pr.rows.Bias[b*v+b%v] = inf32
	case 4:
		pr.rows.Bias[b*v+b%v] = nan32
		for w := range words {
			pr.rows.Mask[b*words+w] = ^uint32(0)
		}
	}
}

// sharedValues gives one seed, position and temperature for all rows, and then the same ones for each.
func sharedValues(ctx context.Context, p *probe) error {
	spec := p.noisy("temperature,mask")
	pr := p.random(p.weights(900, 40), ir.Shape{Vocab: 900, Hidden: 40}, 70, spec, true)
	return p.with(ctx, pr, func(s *session) error {
		base, err := p.verifyOn(ctx, s, pr)
		if err != nil {
			return err
		}
		for which := range 4 {
			spread := *pr
			r := &spread.rows
			all := make([]int, pr.batch)
			switch which {
			case 0:
				r.Seeds = gather(r.Seeds, 1, all)
			case 1:
				r.Positions = gather(r.Positions, 1, all)
			case 2:
				r.Temperature = gather(r.Temperature, 1, all)
			case 3:
				r.Mask = gather(r.Mask, pr.maskWords(), all)
			}
			got, err := s.sample(ctx, &spread)
			if err != nil {
				return err
			}
			if err := sameRows(got, base, span(0, pr.batch)); err != nil {
				return err
			}
		}
		return nil
	})
}

func exhaustive(ctx context.Context, p *probe) error {
	for _, spec := range p.specs() {
		err := p.fixed(ctx, 6007, 48, spec, func(in *invariant) error {
			full := in.pr.pick(span(0, mostRows))
			full.spec.Exhaustive = true
			got, err := in.probe.verify(ctx, full)
			if err != nil {
				return err
			}
			return sameRows(got, in.base, span(0, mostRows))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func unaligned(ctx context.Context, p *probe) error {
	for _, d := range []int{1, 7, 12, 63, 65, 300} {
		err := p.fixed(ctx, 333, d, p.noisy(everyTransform), func(in *invariant) error {
			for _, n := range []int{1, 2, 17, 65, 129, 257} {
				if err := in.same(ctx, in.rng.Perm(mostRows)[:n]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxBatches plans for other maximal batches, so that other kernels serve the same rows.
func maxBatches(ctx context.Context, p *probe) error {
	return p.fixed(ctx, 1500, 64, p.noisy(everyTransform), func(in *invariant) error {
		for _, n := range []int{1, 16, 64, 1000} {
			pr := *in.pr
			pr.spec.MaxBatch = n
			err := in.with(ctx, &pr, func(s *session) error {
				other := *in
				other.s = s
				return other.same(ctx, span(0, mostRows))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func allTiles(ctx context.Context, p *probe) error {
	for _, spec := range []sampler.Spec{p.noisy(everyTransform), p.noisy("none"), p.greedy("bias")} {
		if err := p.fixed(ctx, 1033, 200, spec, func(in *invariant) error { return in.onTiles(ctx, spec) }); err != nil {
			return err
		}
	}
	return nil
}

// onTiles samples some of the rows on every tile of a spec.
func (in *invariant) onTiles(ctx context.Context, spec sampler.Spec) error {
	for _, tile := range tiles(in.info.Arch, spec, mostRows) {
		pr := *in.pr
		pr.spec.Tile = tile
		err := in.with(ctx, &pr, func(s *session) error {
			other := *in
			other.s, other.pr = s, &pr
			for _, n := range []int{1, 17, 64, 129, mostRows} {
				if err := other.same(ctx, in.rng.Perm(mostRows)[:n]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("tile %s: %w", tile, err)
		}
	}
	return nil
}

// goroutines has 64 of them sample rows of one plan at once.
func goroutines(ctx context.Context, p *probe) error {
	const workers, rounds = 64, 4
	return p.fixed(ctx, 1201, 64, p.noisy(everyTransform), func(in *invariant) error {
		errs := make([]error, workers)
		var group sync.WaitGroup
		for i := range workers {
			rng := newRNG(p.o.Seed, fmt.Sprint("goroutine ", i))
			group.Go(func() {
				check := *in.Check
				own := *in
				own.probe = &probe{run: in.run, Check: &check, kind: in.kind, rng: rng}
				for range rounds {
					if errs[i] = own.same(ctx, rng.Perm(mostRows)[:1+rng.IntN(60)]); errs[i] != nil {
						return
					}
				}
			})
		}
		group.Wait()
		in.Rows += workers * rounds
		for i, err := range errs {
			if err != nil {
				return fmt.Errorf("goroutine %d: %w", i, err)
			}
		}
		return nil
	})
}
