package gen

import (
	"context"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/internal/ptxas"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/tiling"
)

// constants are what kernels of other scales and caps differ in: float immediates, and the words that name them.
var constants = regexp.MustCompile(`0f[0-9A-F]{8}|//.*|fsgen_sm_\w+`)

// TestAssembles puts every emitted kernel through ptxas for its target: no spills, no local memory, no warning, and no more
// registers than the plan counts on. Of kernels that differ in constants alone it takes one.
func TestAssembles(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of runs of ptxas")
	}
	tool := ptxas.ForTest(t)
	seen := map[string]bool{}
	var g errgroup.Group
	g.SetLimit(2)
	for _, v := range everything(t) {
		text := constants.ReplaceAllString(string(v.PTX), "")
		if seen[text] {
			continue
		}
		seen[text] = true
		g.Go(func() error {
			assembles(t, tool, v)
			return nil
		})
	}
	_ = g.Wait()
	t.Logf("%d kernels", len(seen))
}

func assembles(t *testing.T, tool ptxas.Tool, v variant) {
	r, err := tool.Assemble(context.Background(), string(v.PTX), v.Manifest.Target, ptxas.Options{})
	if !assert.NoError(t, err, v.name()) {
		return
	}
	assert.Empty(t, r.Warnings, v.name())
	k := r.Kernel(v.Manifest.Entry)
	if !assert.NotNil(t, k, "%s: no report of the kernel\n%s", v.name(), r.Log) {
		return
	}
	assert.True(t, k.Entry)
	for _, stage := range stageKernels(v.Manifest) {
		stageAssembles(t, v, stage, r.Kernel(stage.Entry))
	}
	assert.Zero(t, k.Stack, "%s: bytes of local memory", v.name())
	assert.Zero(t, k.SpillStores+k.SpillLoads, "%s: bytes of spills", v.name())
	assert.Zero(t, k.Shared, "%s: all shared memory is dynamic", v.name())

	tile, err := tiling.ParseTile(v.Manifest.Tile.Name)
	if !assert.NoError(t, err) {
		return
	}
	plan, err := tiling.NewPlan(v.Arch, tile, v.Computation)
	if assert.NoError(t, err) {
		assert.Positive(t, k.Registers)
		assert.LessOrEqual(t, k.Registers, plan.Pipeline.LaunchRegisters, "%s: registers", v.name())
	}
}

// stageAssembles holds a further stage of a kernel to as much: its CTAs have to fit the registers of a multiprocessor.
func stageAssembles(t *testing.T, v variant, stage *manifest.Kernel, k *ptxas.Kernel) {
	if !assert.NotNil(t, k, "%s: no report of %s", v.name(), stage.Entry) {
		return
	}
	assert.True(t, k.Entry)
	assert.Zero(t, k.Stack, "%s: bytes of local memory", stage.Entry)
	assert.Zero(t, k.SpillStores+k.SpillLoads, "%s: bytes of spills", stage.Entry)
	assert.Zero(t, k.Shared, "%s: all shared memory is dynamic", stage.Entry)
	assert.Positive(t, k.Registers)
	assert.LessOrEqual(t, k.Registers*stage.Launch.Block[0], 65536, "%s: registers", stage.Entry)
}
