package templates

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/ptxas"
	"github.com/fsgen/fsgen/ptx"
)

// TestUnitKernels: the stream and noise kernels verify and assemble.
func TestUnitKernels(t *testing.T) {
	for name, build := range map[string]func(arch.Arch) (*Kernel, error){"stream": Stream, "noise": NoiseUnit} {
		k, err := build(arch.SM90)
		require.NoError(t, err, name)
		require.NoError(t, ptx.Verify(k.Module), name)
		res, err := ptxas.ForTest(t).Assemble(t.Context(), k.Module.String(), arch.SM90.Target, ptxas.Options{})
		require.NoError(t, err, name)
		require.Empty(t, res.Warnings, name)
	}
}
