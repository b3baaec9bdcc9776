package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/sampler"
)

// TestSimulatedQuick runs the kernels of every architecture through the quick suite, and through half of it those that run on hardware too.
func TestSimulatedQuick(t *testing.T) {
	for _, a := range arch.All() {
		t.Run(a.Name, func(t *testing.T) {
			dev, err := sampler.Open("sim:" + a.Name)
			require.NoError(t, err)
			defer dev.Close()
			n := 0
			for _, c := range only(t, device{dev}, Options{Suite: "quick", Seed: 1}, func(item) bool {
				n++
				return a.Name != arch.SM90.Name || n%2 == 0
			}) {
				require.True(t, c.OK, "%s: %s", c.Name, c.Detail)
				require.Zero(t, c.Undecided, "%s: a call makes as many passes as rows take", c.Name)
			}
			require.Greater(t, n, 40)
		})
	}
}
