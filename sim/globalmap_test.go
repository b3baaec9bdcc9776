package sim_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sim"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

func emitGlobalMap(t *testing.T, a arch.Arch, tile string, comp ir.Computation) *gen.Artifact {
	t.Helper()
	parsed, err := tiling.ParseTile(tile)
	require.NoError(t, err)
	out, err := gen.Emit(gen.Request{Arch: a, Computation: comp, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: 16, Tile: parsed,
		Options: templates.Options{TensorMaps: templates.InGlobal}})
	require.NoError(t, err)
	return out
}

// TestTensorMapsInGlobalMemory: kernels that are given the addresses of their tensor maps, one CTA and clusters.
func TestTensorMapsInGlobalMemory(t *testing.T) {
	comp := chain(t, "temperature")
	for _, c := range []struct {
		arch arch.Arch
		tile string
		ctas int
	}{
		{arch.SM90, "m64n16k64s3c1", 2}, {arch.SM90, "m64n32k64s4c2", 4}, {arch.SM100, "m128n16k64s4c1", 2}, {arch.SM100, "m128n32k64s4c2", 4},
	} {
		a := emitGlobalMap(t, c.arch, c.tile, comp)
		for _, name := range []string{"weights", "hidden"} {
			require.Equal(t, manifest.TensorMapPointer, a.Manifest.Param(name).Kind)
		}
		sameAsReference(t, a, newProblem(comp, 300, 200, 20, 3), c.ctas, 7)
	}
}

// TestTensorMapsHaveToBeAcquired: a copy by a tensor map in global memory that no fence orders after what wrote it.
func TestTensorMapsHaveToBeAcquired(t *testing.T) {
	comp := chain(t, "temperature")
	a := emitGlobalMap(t, arch.SM90, "m64n16k64s3c1", comp)
	p := newProblem(comp, 100, 64, 4, 3)
	for _, name := range []string{"weights_map", "hidden_map"} {
		text := strings.Replace(string(a.PTX), "fence.proxy.tensormap::generic.acquire.sys [%"+name+"], 128;", "", 1)
		require.NotEqual(t, string(a.PTX), text)
		rep, _ := runKernel(t, text, a.Manifest, p, 1, 1)
		require.Equal(t, sim.MissingFence, rep.Findings[0].Kind)
		require.ErrorContains(t, rep.Err(), "ahead of a fence.proxy.tensormap")
	}
	text := strings.Replace(string(a.PTX), "[%hidden_map], 128;", "[%weights_map+64], 128;", 1)
	rep, _ := runKernel(t, text, a.Manifest, p, 1, 1)
	require.ErrorContains(t, rep.Err(), "holds no tensor map")
}
