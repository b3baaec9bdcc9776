package sampler_test

import (
	"context"
	"fmt"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// Four ranks share a vocabulary of 1,000: on GPUs, on one GPU, or as here without any. What they come to is what one device comes to.
func ExampleOpenGroup() {
	ctx := context.Background()
	devices, _, err := sampler.GroupDevices(sampler.CPU, 4)
	if err != nil {
		panic(err)
	}
	group, err := sampler.OpenGroup(ctx, sampler.GroupConfig{Devices: devices})
	if err != nil {
		panic(err)
	}
	defer group.Close()

	const vocab, hidden = 1000, 16
	weights := make([]uint16, vocab*hidden)
	weights[700*hidden] = 0x4040 // 3 in bf16
	head, err := group.LoadHead(ctx, sampler.Weights{Source: sampler.Matrix{Data: weights, Hidden: hidden}, Vocab: vocab, Hidden: hidden}, nil)
	if err != nil {
		panic(err)
	}
	defer head.Close()
	plan, err := head.Plan(ctx, sampler.Spec{Sampler: ir.Greedy, Score: true})
	if err != nil {
		panic(err)
	}
	defer plan.Close()

	states := make([]uint16, hidden)
	states[0] = 0x3f80 // 1
	res, err := plan.Sample(ctx, states, sampler.Rows{})
	if err != nil {
		panic(err)
	}
	fmt.Println(head.Spans())
	fmt.Println(res.Tokens, res.Status, res.Scores)
	// Output:
	// [{0 256} {256 256} {512 256} {768 232}]
	// [700] [ok] [3]
}
