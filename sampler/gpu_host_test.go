//go:build !fsgen_nocuda

package sampler

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// launchBudget is what the host may take for a launch, the driver's share in it.
const launchBudget = 4 * time.Microsecond

// TestGPULaunchHostTime prints the host's time of a launch, both ways of launching, with the same arguments again and with
// hidden states at another address each time: the median of nine rounds, none of which fills the driver's queue.
func TestGPULaunchHostTime(t *testing.T) {
	dev := gpu(t)
	const rounds, launches, places = 9, 64, 16
	p := newProblem(rand.New(rand.NewPCG(11, 12)), 3000, 64, 13)
	l := newLaunched(t, dev, p)
	head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: p.w, Hidden: p.d}, Vocab: p.v, Hidden: p.d})
	require.NoError(t, err)
	defer head.Close()
	room := upload(t, dev, make([]uint16, (p.n+places)*p.d))
	for _, serial := range []bool{false, true} {
		plan, err := head.Plan(t.Context(), Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: p.n, SerialLaunch: serial})
		require.NoError(t, err)
		launcher, err := plan.NewLauncher(p.n)
		require.NoError(t, err)
		for _, moving := range []bool{false, true} {
			var times []time.Duration
			for range rounds {
				begin := time.Now()
				for i := range launches {
					l.args.Hidden = room
					if moving {
						l.args.Hidden += uint64(2 * p.d * (i % places))
					}
					if err := launcher.Launch(l.stream.Handle(), l.args); err != nil { // require takes longer than that
						t.Fatal(err)
					}
				}
				times = append(times, time.Since(begin)/launches)
				require.NoError(t, l.stream.Synchronize(t.Context()))
			}
			slices.Sort(times)
			t.Logf("serial %-5v moving %-5v %s", serial, moving, inTime(times[rounds/2], launchBudget))
		}
		require.NoError(t, launcher.Close())
		require.NoError(t, plan.Close())
	}
}
