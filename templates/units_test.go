package templates_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/ptxas"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/templates"
)

// The kernels that tests and benchmarks launch beside the real ones: legal, and clean in ptxas too.
func TestUnitKernelsAssemble(t *testing.T) {
	tool := ptxas.ForTest(t)
	for _, a := range arch.All() {
		for _, build := range []func(arch.Arch) (*templates.Kernel, error){templates.Stream, templates.NoiseUnit} {
			k, err := build(a)
			require.NoError(t, err)
			require.NoError(t, ptx.Verify(k.Module))
			r, err := tool.Assemble(context.Background(), k.Module.String(), a.Target, ptxas.Options{})
			require.NoError(t, err)
			require.Empty(t, r.Warnings)
			for _, entry := range r.Kernels {
				require.Zero(t, entry.Stack+entry.SpillLoads+entry.SpillStores, entry.Name)
			}
		}
	}
}
