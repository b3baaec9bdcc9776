//go:build fsgen_nocuda

package main

import (
	"context"

	"github.com/fsgen/fsgen/sampler"
)

// newStepper makes plain calls: this build has no CUDA.
func newStepper(_ context.Context, _ *sampler.Device, plan *sampler.Plan, _ int, _ []int) (stepper, error) {
	return plainStepper{plan}, nil
}
