package verify

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/sampler"
)

// streams is how many goroutines draw at once, so that counting on the host overlaps the device. It is fixed: which
// tokens are neighbours in a stream must not depend on the machine.
const streams = 4

// draws samples the first row of a problem n times, at positions 0 to n-1, and hands the tokens of each of the streams, in
// order, to a sink of its own.
func (p *probe) draws(ctx context.Context, pr *problem, n int64, sink func(stream int) func(token int32)) error {
	return p.results(ctx, pr, n, func(stream int) func(*sampler.Result) {
		add := sink(stream)
		return func(got *sampler.Result) {
			for _, token := range got.Tokens {
				add(token)
			}
		}
	})
}

// results is draws for whatever else a call reports.
func (p *probe) results(ctx context.Context, pr *problem, n int64, sink func(stream int) func(got *sampler.Result)) error {
	one := pr.pick([]int{0})
	return p.with(ctx, one, func(s *session) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		errs := make([]error, streams)
		var group sync.WaitGroup
		for i := range streams {
			add := sink(i)
			group.Go(func() {
				if errs[i] = p.stream(ctx, s, one, n, i, add); errs[i] != nil {
					cancel()
				}
			})
		}
		group.Wait()
		p.Rows += int(n)
		return firstCause(errs)
	})
}

// firstCause drops the errors of streams that only stopped because another failed.
func firstCause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// stream draws the batches i, i+streams, ... of the n positions.
func (p *probe) stream(ctx context.Context, s *session, one *problem, n int64, i int, add func(got *sampler.Result)) error {
	batch := p.drawBatch(one.shape.Vocab)
	rows := one.pick(make([]int, batch))
	rows.rows.Positions = make([]uint64, batch)
	for first := int64(i) * int64(batch); first < n; first += streams * int64(batch) {
		if m := n - first; m < int64(batch) {
			rows = one.pick(make([]int, m))
			rows.rows.Positions = make([]uint64, m)
		}
		for j := range rows.rows.Positions {
			rows.rows.Positions[j] = uint64(first) + uint64(j)
		}
		got, err := s.sample(ctx, rows)
		if err != nil {
			return err
		}
		if err := inside(got.Tokens, rows); err != nil {
			return err
		}
		add(got)
		if i == 0 {
			p.progress(fmt.Sprintf("%d%% of %d draws", 100*first/n, n))
		}
	}
	return nil
}

// drawBatch is how many rows a call draws: enough to hide its overhead.
func (p *probe) drawBatch(vocab int) int {
	switch {
	case !p.gpu:
		return 256
	case vocab < 1000:
		return 8192
	default:
		return 2048
	}
}

// inside reports a token that is no token of the problem, or a row too few.
func inside(tokens []int32, pr *problem) error {
	if len(tokens) != pr.batch {
		return fmt.Errorf("%s: %d tokens for %d rows", pr, len(tokens), pr.batch)
	}
	for b, token := range tokens {
		if token < 0 || int(token) >= pr.shape.Vocab {
			return fmt.Errorf("%s: row %d: token %d", pr, b, token)
		}
	}
	return nil
}

// counter counts tokens in cells of known probability.
type counter struct {
	name   string
	prob   []float64
	counts []int64
}

func (c *counter) add(cell int) { c.counts[cell]++ }

// cells is a counter for each stream.
type cells []*counter

func newCells(name string, prob []float64) cells {
	c := make(cells, streams)
	for i := range c {
		c[i] = &counter{name, prob, make([]int64, len(prob))}
	}
	return c
}

func (c cells) merged() []int64 {
	sum := make([]int64, len(c[0].counts))
	for _, part := range c {
		for i, n := range part.counts {
			sum[i] += n
		}
	}
	return sum
}

func (c cells) result() stats.Result { return stats.ChiSquared(c[0].name, c.merged(), c[0].prob) }

// binomial judges one cell against all others.
func (c cells) binomial(which int) stats.Result {
	counts := c.merged()
	var n int64
	for _, k := range counts {
		n += k
	}
	return stats.Binomial(c[0].name, counts[which], n, c[0].prob[which])
}
