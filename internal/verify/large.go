package verify

import (
	"context"
	"math"
	"runtime"
	"sync"

	"github.com/fsgen/fsgen/ir"
)

// pooledWeights are random weights for large heads: rows copied from a pool of random values, each from its own place.
// Drawing every value would take longer than all else.
func (p *probe) pooledWeights(vocab, hidden int) []uint16 {
	pool := normals(p.rng, 1<<20+hidden, logitSD/math.Sqrt(float64(hidden)))
	salt := p.rng.Uint64() | 1
	w := make([]uint16, vocab*hidden)
	workers := runtime.GOMAXPROCS(0)
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			for v := i * vocab / workers; v < (i+1)*vocab/workers; v++ {
				at := (uint64(v) + 1) * 0x9E3779B97F4A7C15 * salt >> 44
				copy(w[v*hidden:(v+1)*hidden], pool[at:])
			}
		})
	}
	group.Wait()
	return w
}

// largeHead has the size of a real model's, in the batch sizes around every tile's border.
func largeHead(ctx context.Context, p *probe) error {
	const v, d = 151936, 4096
	spec := p.noisy("softcap=30,temperature")
	spec.MaxBatch = mostRows
	pr := p.random(p.pooledWeights(v, d), ir.Shape{Vocab: v, Hidden: d}, mostRows, spec, false)
	return p.with(ctx, pr, func(s *session) error {
		base, err := s.sample(ctx, pr)
		if err != nil {
			return err
		}
		in := &invariant{p, pr, s, base}
		for _, n := range []int{1, 2, 8, 9, 16, 17, 32, 33, 64, 65, 96, 97, 128, 129, 192, 193, 255, 256, 257, mostRows} {
			for range 3 {
				if err := in.same(ctx, p.rng.Perm(mostRows)[:n]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
