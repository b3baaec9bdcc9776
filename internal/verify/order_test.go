package verify

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInOrder(t *testing.T) {
	for _, jobs := range []int{1, 3, 100} {
		var running, most atomic.Int32
		var got []int
		err := inOrder(t.Context(), 20, jobs, func(_ context.Context, i int) int {
			now := running.Add(1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			time.Sleep(time.Duration(i%3) * time.Millisecond) // later ones end first
			running.Add(-1)
			return i * i
		}, func(v int) error {
			got = append(got, v)
			return nil
		})
		require.NoError(t, err)
		require.Len(t, got, 20)
		for i, v := range got {
			require.Equal(t, i*i, v)
		}
		require.LessOrEqual(t, int(most.Load()), jobs)
	}
}

func TestInOrderEnds(t *testing.T) {
	failed := errors.New("failed")
	var begun atomic.Int32
	slow := func(ctx context.Context, i int) int {
		begun.Add(1)
		if i > 1 {
			<-ctx.Done()
		}
		return i
	}
	err := inOrder(t.Context(), 1000, 4, slow, func(v int) error {
		if v == 1 {
			return failed
		}
		return nil
	})
	require.ErrorIs(t, err, failed)
	require.LessOrEqual(t, int(begun.Load()), 6, "what had begun was cancelled, and nothing else began")
	require.ErrorIs(t, inOrder(t.Context(), 3, 2, func(context.Context, int) int { runtime.Goexit(); return 0 }, func(int) error { return nil }), errGone)

	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	err = inOrder(ctx, 1000, 3, func(ctx context.Context, i int) int {
		if i == 7 {
			cancel()
		}
		return i
	}, func(v int) error {
		require.Less(t, v, 10, "results of a cancelled run are dropped")
		seen++
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.LessOrEqual(t, seen, 10)
	require.NoError(t, inOrder(t.Context(), 0, 3, func(context.Context, int) int { return 0 }, func(int) error { return failed }))
}

// TestJobsChangeNothing runs checks one by one and side by side: the reports are the same but for the times.
func TestJobsChangeNothing(t *testing.T) {
	report := func(jobs int) *Report {
		var heard []string
		rep, err := Run(t.Context(), cpu(t), Options{Seed: 3, Match: "random heads: greedy, (none|mask|bias)$", Jobs: jobs,
			Progress: func(done, total int, what string) { heard = append(heard, what) }, Done: func(c Check) { heard = append(heard, c.Name) }})
		require.NoError(t, err)
		require.NotEmpty(t, heard)
		for i := range rep.Checks {
			rep.Checks[i].Elapsed = 0
		}
		return rep
	}
	require.Equal(t, report(1), report(5))
}
