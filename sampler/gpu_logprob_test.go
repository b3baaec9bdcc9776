//go:build !fsgen_nocuda

package sampler

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// mostOverPlain is what a launch that gives log-probabilities may take over one that does not.
const mostOverPlain = 1.02

// TestGPULogProbsCostLittle holds every mode to it, up to 64 rows, by medians of ratios of replays in turn.
func TestGPULogProbsCostLittle(t *testing.T) {
	if os.Getenv("FSGEN_TIME") == "" {
		t.Skip("set FSGEN_TIME=1 to time")
	}
	timedOverPlain(t, mostOverPlain, func(int) (specs []Spec) {
		for _, mode := range []ir.LogProb{ir.RawLogProb, ir.TemperatureLogProb, ir.ProcessedLogProb} {
			specs = append(specs, Spec{LogProb: mode})
		}
		return specs
	})
}

// holdTo holds the median of a contender's times over those of another, replay by replay, to a limit.
func (c *contender) holdTo(t *testing.T, plain *contender, most float64) {
	t.Helper()
	var ratios []float64
	for i, us := range c.times {
		ratios = append(ratios, us/plain.times[i])
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	t.Logf("B=%2d %-32s %8.1f us, %.4f of plain", c.batch, c.name, c.quantile(0.5), median)
	require.LessOrEqual(t, median, most, "B=%d %s", c.batch, c.name)
}
