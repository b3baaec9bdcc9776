package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/sampler"
)

// TestSimulatedQuick runs the kernels of every architecture through the quick suite.
func TestSimulatedQuick(t *testing.T) {
	for _, a := range arch.All() {
		t.Run(a.Name, func(t *testing.T) {
			dev, err := sampler.Open("sim:" + a.Name)
			require.NoError(t, err)
			defer dev.Close()
			rep, err := Run(t.Context(), dev, Options{Suite: "quick", Seed: 1})
			require.NoError(t, err)
			for _, c := range rep.Checks {
				require.True(t, c.OK, "%s: %s", c.Name, c.Detail)
				require.Zero(t, c.Undecided, "%s: a call makes as many passes as rows take", c.Name)
			}
		})
	}
}
