package verify

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/sampler"
)

// TestSimulatedQuick runs the kernels of every architecture through the quick suite: the checks in turn on one architecture and the next,
// which have the epilogue in common, and with FSGEN_ALL=1 all of them on all.
func TestSimulatedQuick(t *testing.T) {
	archs := arch.All()
	for i, a := range archs {
		t.Run(a.Name, func(t *testing.T) {
			dev, err := sampler.Open("sim:" + a.Name)
			require.NoError(t, err)
			defer dev.Close()
			n := i
			checks := only(t, device{dev}, Options{Suite: "quick", Seed: 1}, func(item) bool {
				n++
				return n%len(archs) == 0 || os.Getenv("FSGEN_ALL") != ""
			})
			for _, c := range checks {
				require.True(t, c.OK, "%s: %s", c.Name, c.Detail)
				require.Zero(t, c.Undecided, "%s: a call makes as many passes as rows take", c.Name)
			}
		})
	}
}
