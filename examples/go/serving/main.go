// Command serving is a loop with continuous batching over fsgen's sampler: requests join the batch when there is room and leave
// when they are done, and every step samples one token for each row. Each request has a seed of its own and counts its own
// positions, so that its tokens do not depend on who else was in the batch: at the end every request is run once more,
// alone, and the tokens are compared.
//
//	go run ./examples/go/serving                     a GPU if there is one, else the CPU
//	go run ./examples/go/serving -device sim:sm_90
//
// On a GPU each batch size of a few has a CUDA graph, captured once: copies in, sampling, copies out. A model would run ahead
// of it in the same graph; here hidden states are made up of a request's past.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// options are the sizes of the scene.
type options struct {
	device                            string
	vocab, hidden, requests, maxBatch int
}

func main() {
	o := options{}
	flag.StringVar(&o.device, "device", sampler.Auto, "auto, cpu, cuda:N, sim:sm_90 or sim:sm_100")
	flag.IntVar(&o.vocab, "vocab", 4000, "tokens of the vocabulary")
	flag.IntVar(&o.hidden, "hidden", 128, "hidden size")
	flag.IntVar(&o.requests, "requests", 24, "requests to serve")
	flag.IntVar(&o.maxBatch, "batch", 8, "rows of the largest batch")
	flag.Parse()
	if err := run(context.Background(), o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "serving:", err)
		os.Exit(1)
	}
}

// run opens the device, serves the requests, and compares.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	if o.vocab < 1 || o.hidden < 1 || o.requests < 1 || o.maxBatch < 1 {
		return fmt.Errorf("sizes are 1 or more: vocab %d, hidden %d, requests %d, batch %d", o.vocab, o.hidden, o.requests, o.maxBatch)
	}
	dev, err := sampler.Open(o.device)
	if err != nil {
		return err
	}
	defer dev.Close()
	head, err := dev.LoadHead(ctx, sampler.Weights{Source: newHead(o), Vocab: o.vocab, Hidden: o.hidden, Layout: sampler.Packed})
	if err != nil {
		return err
	}
	defer head.Close()
	plan, err := head.Plan(ctx, sampler.Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: o.maxBatch})
	if err != nil {
		return err
	}
	defer plan.Close()

	buckets := bucketsFor(o.maxBatch)
	step, err := newStepper(ctx, dev, plan, o.hidden, buckets)
	if err != nil {
		return err
	}
	defer step.close()
	requests := newRequests(o)
	s := &server{step: step, hidden: o.hidden, buckets: buckets}
	if err := s.serve(ctx, requests); err != nil {
		return err
	}
	alone, err := aloneTokens(ctx, plan, o.hidden, requests)
	if err != nil {
		return err
	}
	return report(out, dev.Info(), step, s, requests, alone)
}

// newHead makes up the weights of an LM head.
func newHead(o options) sampler.Matrix {
	rng := rand.New(rand.NewPCG(7, 7))
	m := sampler.Matrix{Data: make([]uint16, o.vocab*o.hidden), Hidden: o.hidden}
	for i := range m.Data {
		m.Data[i] = bf16(rng.NormFloat64() / 8)
	}
	return m
}

// report prints a table, and fails if a request got other tokens than alone.
func report(out io.Writer, dev sampler.Info, step stepper, s *server, requests []*request, alone [][]int32) error {
	tokens, differ := 0, 0
	for i, r := range requests {
		tokens += len(r.tokens)
		if !slices.Equal(r.tokens, alone[i]) {
			differ++
			fmt.Fprintf(out, "request %d: %v in the batch, %v alone\n", i, r.tokens, alone[i])
		}
	}
	fmt.Fprintf(out, "%s (%s), %s\n%d requests, %d tokens in %d steps\n", dev.Name, dev.Product, step.how(), len(requests), tokens, s.steps)
	fmt.Fprintf(out, "%8s %6s %6s %7s\n", "bucket", "steps", "rows", "padded")
	for _, b := range s.buckets {
		fmt.Fprintf(out, "%8d %6d %6d %7d\n", b, s.count[b].steps, s.count[b].rows, s.count[b].steps*b-s.count[b].rows)
	}
	fmt.Fprintf(out, "%d of %d requests have the tokens that they have alone\n", len(requests)-differ, len(requests))
	if differ > 0 {
		return fmt.Errorf("%d requests have other tokens than alone", differ)
	}
	return nil
}
