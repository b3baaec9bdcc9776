package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// request is a sequence that is being generated.
type request struct {
	seed        uint64
	position    uint64 // of the next token; a resumed request begins where it stopped
	temperature float32
	length      int // tokens to generate
	arrives     int // step at which it may join
	tokens      []int32
}

// newRequests makes up requests: seeds, lengths and temperatures differ, and so do positions and arrivals.
func newRequests(o options) []*request {
	rng := rand.New(rand.NewPCG(11, 13))
	var out []*request
	for i := range o.requests {
		out = append(out, &request{
			seed: rng.Uint64(), position: uint64(rng.IntN(3) * 1000), temperature: []float32{1, 0.7, 0, 1.3}[i%4],
			length: 1 + rng.IntN(16), arrives: 2 * i / 3,
		})
	}
	return out
}

func (r *request) done() bool { return len(r.tokens) == r.length }

// state stands in for a model: the hidden state of the next token, made up of the request, its last token and its position. One
// wrong token changes all that follow.
func (r *request) state(dst []uint16) {
	last := uint64(0)
	if n := len(r.tokens); n > 0 {
		last = uint64(r.tokens[n-1]) + 1
	}
	rng := rand.New(rand.NewPCG(r.seed^last, r.position))
	for i := range dst {
		dst[i] = bf16(rng.NormFloat64())
	}
}

// take appends the token of a step.
func (r *request) take(token int32) {
	r.tokens = append(r.tokens, token)
	r.position++
}

// bf16 truncates a value.
func bf16(x float64) uint16 { return uint16(math.Float32bits(float32(x)) >> 16) }

// aloneTokens runs every request by itself, from its first position, without a batch or a graph.
func aloneTokens(ctx context.Context, plan *sampler.Plan, hidden int, requests []*request) ([][]int32, error) {
	out := make([][]int32, len(requests))
	for i, r := range requests {
		again := &request{seed: r.seed, position: r.position - uint64(len(r.tokens)), temperature: r.temperature, length: r.length}
		state := make([]uint16, hidden)
		for !again.done() {
			again.state(state)
			res, err := plan.Sample(ctx, state, sampler.Rows{Seeds: []uint64{again.seed}, Positions: []uint64{again.position},
				Temperature: []float32{again.temperature}})
			if err != nil {
				return nil, err
			}
			if res.Status[0] != ir.StatusOK {
				return nil, fmt.Errorf("request %d has no token at position %d: %v", i, again.position, res.Status[0])
			}
			again.take(res.Tokens[0])
		}
		out[i] = again.tokens
	}
	return out, nil
}
