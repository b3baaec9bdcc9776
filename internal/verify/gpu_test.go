//go:build !fsgen_nocuda

package verify

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/sampler"
)

// TestGPUVerify runs the suites named in FSGEN_VERIFY (quick,degenerate,invariance) on the first GPU. FSGEN_VERIFY_SEED
// and FSGEN_VERIFY_DRAWS set the options; FSGEN_REQUIRE_GPU makes a missing GPU a failure.
func TestGPUVerify(t *testing.T) {
	dev, err := sampler.Open(sampler.CUDA)
	if err != nil {
		if os.Getenv("FSGEN_REQUIRE_GPU") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	defer dev.Close()
	names := os.Getenv("FSGEN_VERIFY")
	if names == "" {
		names = "quick,degenerate,invariance"
	}
	o := Options{Seed: number(t, "FSGEN_VERIFY_SEED", 1), Draws: int64(number(t, "FSGEN_VERIFY_DRAWS", 0))}
	t.Logf("%+v, seed %d", dev.Info(), o.Seed)
	for _, name := range strings.Split(names, ",") {
		t.Run(name, func(t *testing.T) {
			o.Suite = name
			begin := time.Now()
			o.Progress = func(done, total int, what string) {
				t.Logf("%8.2fs %d/%d %s", time.Since(begin).Seconds(), done, total, what)
			}
			rep, err := Run(t.Context(), dev, o)
			require.NoError(t, err)
			show(t, rep)
			require.Zero(t, rep.Failed)
		})
	}
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 0, 64)
	require.NoError(t, err, name)
	return n
}
