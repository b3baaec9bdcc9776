//go:build fsgen_nocuda

package bench

import (
	"context"
	"errors"

	"github.com/fsgen/fsgen/sampler"
)

// supported leaves the refusal to the device, which this build cannot open.
func supported(string) error { return nil }

// RunRanks cannot be reached either.
func RunRanks(context.Context, RanksConfig) (*RanksReport, error) {
	return nil, errors.New("this build has no CUDA support")
}

// Run cannot be reached: no device of this build is a GPU.
func Run(context.Context, *sampler.Device, Config) (*Report, error) {
	return nil, errors.New("this build has no CUDA support")
}
