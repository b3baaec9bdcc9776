//go:build !fsgen_nocuda

package bench

import (
	"context"
	"time"

	"github.com/fsgen/fsgen/sampler"
)

// What the host's time of a launch is a median of: rounds of so many launches, which the driver's queue holds at once (it
// has room for about a thousand), so that none waits for the device.
const (
	hostRounds   = 9
	hostLaunches = 64
)

// hostTime is the host's time of a launch, in microseconds, the driver's own in it: launches back to back with arguments
// that stay the same, as those of a server do that does not capture graphs.
func (x *sampling) hostTime(ctx context.Context) (float64, error) {
	var rounds []float64
	for range hostRounds {
		begin := time.Now()
		for range hostLaunches {
			if err := x.launch(); err != nil {
				return 0, err
			}
		}
		rounds = append(rounds, microseconds(time.Since(begin))/hostLaunches)
		if err := x.r.stream.Synchronize(ctx); err != nil {
			return 0, err
		}
	}
	return round(median(rounds), 2), nil
}

// coldStart files the cold start of a plan.
func (r *Report) coldStart(ctx context.Context, contender string, head *sampler.Head, spec sampler.Spec) error {
	kernels, plan, err := head.ColdStart(ctx, spec)
	if err != nil {
		return err
	}
	c := ColdStart{Contender: contender, Plan: coldKernel(plan)}
	for _, k := range kernels {
		c.Kernels = append(c.Kernels, coldKernel(k))
	}
	r.ColdStarts = append(r.ColdStarts, c)
	return nil
}

func coldKernel(c sampler.ColdStart) ColdKernel {
	ms := func(d time.Duration) float64 { return round(microseconds(d)/1e3, 2) }
	return ColdKernel{Kernel: c.Kernel, Whole: c.Whole, Emit: ms(c.Emit), PTX: ms(c.PTX), Cached: ms(c.Cached)}
}
