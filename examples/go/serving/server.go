package main

import (
	"context"
	"slices"

	"github.com/fsgen/fsgen/sampler"
)

// rows are the inputs of a step: one of each for a row, hidden states one behind the other.
type rows struct {
	hidden           []uint16
	seeds, positions []uint64
	temperature      []float32
}

func (r *rows) clear() {
	r.hidden, r.seeds, r.positions, r.temperature = r.hidden[:0], r.seeds[:0], r.positions[:0], r.temperature[:0]
}

// stepper samples a token for every row of a batch of no more than a bucket.
type stepper interface {
	step(ctx context.Context, bucket int, in *rows) ([]int32, error)
	how() string // in a word, for the report
	close() error
}

// bucketsFor are the batch sizes that a step is made for: the powers of two, and the largest batch.
func bucketsFor(maxBatch int) (out []int) {
	for n := 1; n < maxBatch; n *= 2 {
		out = append(out, n)
	}
	return append(out, maxBatch)
}

// server is the loop.
type server struct {
	step    stepper
	hidden  int
	buckets []int
	active  []*request
	in      rows
	steps   int
	count   map[int]tally // by bucket
}

// tally is what went through a bucket.
type tally struct{ steps, rows int }

// serve runs requests, in the order of their arrival, until all are done.
func (s *server) serve(ctx context.Context, queue []*request) error {
	s.count = map[int]tally{}
	for tick := 0; len(queue)+len(s.active) > 0; tick++ {
		for len(queue) > 0 && queue[0].arrives <= tick && len(s.active) < s.buckets[len(s.buckets)-1] {
			s.active = append(s.active, queue[0]) // joins
			queue = queue[1:]
		}
		if len(s.active) == 0 {
			continue
		}
		if err := s.round(ctx); err != nil {
			return err
		}
		s.active = slices.DeleteFunc(s.active, (*request).done) // leave; the others move up
	}
	return nil
}

// round samples a token for every active request.
func (s *server) round(ctx context.Context) error {
	s.in.clear()
	for _, r := range s.active {
		at := len(s.in.hidden)
		s.in.hidden = slices.Grow(s.in.hidden, s.hidden)[:at+s.hidden]
		r.state(s.in.hidden[at:])
		s.in.seeds = append(s.in.seeds, r.seed)
		s.in.positions = append(s.in.positions, r.position)
		s.in.temperature = append(s.in.temperature, r.temperature)
	}
	i, _ := slices.BinarySearch(s.buckets, len(s.active))
	bucket := s.buckets[i]
	tokens, err := s.step.step(ctx, bucket, &s.in)
	if err != nil {
		return err
	}
	for i, r := range s.active {
		r.take(tokens[i])
	}
	s.steps++
	c := s.count[bucket]
	s.count[bucket] = tally{c.steps + 1, c.rows + len(s.active)}
	return nil
}

// plainStepper samples by plain calls, on any device: a bucket makes no difference to these.
type plainStepper struct{ plan *sampler.Plan }

func (p plainStepper) how() string  { return "plain calls" }
func (p plainStepper) close() error { return nil }

func (p plainStepper) step(ctx context.Context, _ int, in *rows) ([]int32, error) {
	res, err := p.plan.Sample(ctx, in.hidden, sampler.Rows{Seeds: in.seeds, Positions: in.positions, Temperature: in.temperature})
	if err != nil {
		return nil, err
	}
	return res.Tokens, nil
}
