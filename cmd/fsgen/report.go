package main

import (
	"encoding/json"
	"fmt"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// report is what sample prints as JSON.
type report struct {
	Tokens []int32     `json:"tokens"`
	Status []ir.Status `json:"status"`
	Scores []any       `json:"scores,omitempty"`
	Seeds  []uint64    `json:"seeds,omitempty"`
	Device string      `json:"device"`
	GPU    string      `json:"gpu,omitempty"`
	RNG    string      `json:"rng,omitempty"`
	Kernel string      `json:"kernel,omitempty"`
	// Transform and Sampler say what was computed.
	Transform string `json:"transform"`
	Sampler   string `json:"sampler"`
}

func (o *sampling) print(e *env, dev *sampler.Device, spec sampler.Spec, res *sampler.Result) error {
	if !e.json {
		for i, t := range res.Tokens {
			fmt.Fprintln(e.stdout, t)
			if res.Status[i] != ir.StatusOK {
				e.note("row %d has no token: %s", i, res.Status[i])
			}
		}
		return nil
	}
	info := dev.Info()
	r := report{Tokens: append([]int32{}, res.Tokens...), Status: append([]ir.Status{}, res.Status...), Seeds: res.Seeds, Device: info.Name, Kernel: res.Kernel,
		Transform: spec.Computation().Normalize().Chain.String(), Sampler: spec.Sampler.String()}
	if info.Driver != "" {
		r.GPU = info.Product
	}
	if spec.Sampler == ir.Gumbel {
		r.RNG = ir.NoiseName
	}
	if o.score {
		for i, s := range res.Scores {
			if res.Status[i] == ir.StatusOK {
				r.Scores = append(r.Scores, s)
			} else {
				r.Scores = append(r.Scores, nil) // JSON has no NaN
			}
		}
	}
	return json.NewEncoder(e.stdout).Encode(r)
}
