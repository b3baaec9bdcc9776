//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"math"
	"math/rand/v2"
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
	dev := gpu(t)
	v, d := timedShape(t)
	head, err := dev.LoadHead(context.Background(), Weights{Source: pooledRows{normals(rand.New(rand.NewPCG(1, 2)), 1<<22, 1/math.Sqrt(float64(d))), d},
		Vocab: v, Hidden: d, Layout: Packed})
	require.NoError(t, err)
	defer head.Close()
	hidden := upload(t, dev, normals(rand.New(rand.NewPCG(1, 3)), 64*d, 1))
	for _, batch := range []int{1, 16, 64} {
		var list []*contender
		for _, mode := range []ir.LogProb{ir.NoLogProb, ir.RawLogProb, ir.TemperatureLogProb, ir.ProcessedLogProb} {
			list = append(list, timedPlan(t, dev, head, Spec{Chain: ir.Chain{Temperature: true}, LogProb: mode, MaxBatch: batch}, mode.String(), hidden, batch))
		}
		runTimed(t, dev, list)
		for _, c := range list[1:] {
			c.holdTo(t, list[0], mostOverPlain)
		}
	}
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
