//go:build !fsgen_nocuda

package sampler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// What a plan may take: from PTX, and from what a process before has left in the caches.
const (
	coldBudget = 200 * time.Millisecond
	warmBudget = 15 * time.Millisecond
)

// TestGPUColdStart prints how long the kernels of every default tile width take to be ready, each by itself and all of them
// as a plan has them, beside what they may take. Kernels do not depend on the size of the head.
func TestGPUColdStart(t *testing.T) {
	dev := gpu(t)
	w := DeviceWeights{Ptr: upload(t, dev, make([]uint16, 200*64)), Vocab: 200, Hidden: 64}
	for _, w.Layout = range []Layout{RowMajor, Packed} {
		head, err := dev.WrapHead(w)
		require.NoError(t, err)
		kernels, plan, err := head.ColdStart(t.Context(), Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: 256, Tuning: Untuned})
		require.NoError(t, err)
		require.NoError(t, head.Close())
		t.Logf("%-8s %-58s %8s %9s %9s  %s", "weights", "kernel", "emit", "from PTX", "cached", "cached by")
		for _, c := range append(kernels, plan) {
			t.Logf("%-8s %-58s %8s %9s %9s  %s", w.Layout, c.Kernel, inTime(c.Emit, warmBudget), inTime(c.PTX, coldBudget), inTime(c.Cached, warmBudget), cachedBy(c))
			if !c.Whole {
				require.Less(t, c.Cached, c.PTX, "the kernel cache does not help %s", c.Kernel)
			}
		}
	}
}

// inTime writes a time, marked if it is over its budget.
func inTime(d, budget time.Duration) string {
	mark := " "
	if d > budget {
		mark = "!"
	}
	digit := 10 * time.Microsecond
	if budget < time.Millisecond {
		digit = 10 * time.Nanosecond
	}
	return d.Round(digit).String() + mark
}

func cachedBy(c ColdStart) string {
	if c.Whole {
		return "the driver"
	}
	return "fsgen"
}
