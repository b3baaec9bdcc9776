package verify

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInOrder(t *testing.T) {
	for _, jobs := range []int{1, 3, 100} {
		var running, most atomic.Int32
		var got []int
		err := inOrder(t.Context(), 20, jobs, func(_ context.Context, i int) (int, error) {
			now := running.Add(1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			time.Sleep(time.Duration(i%3) * time.Millisecond) // later ones end first
			running.Add(-1)
			return i * i, nil
		}, func(v int) { got = append(got, v) })
		require.NoError(t, err)
		require.Len(t, got, 20)
		for i, v := range got {
			require.Equal(t, i*i, v)
		}
		require.LessOrEqual(t, int(most.Load()), jobs)
	}
	require.NoError(t, inOrder(t.Context(), 0, 3, func(context.Context, int) (int, error) { return 0, nil }, func(int) {}))
}

// An error ends what has not begun; all that was made is handed on, with what came with the error.
func TestInOrderFails(t *testing.T) {
	failed := errors.New("failed")
	for _, jobs := range []int{1, 4} {
		var begun atomic.Int32
		var got []int
		slow := make(chan struct{})
		err := inOrder(t.Context(), 1000, jobs, func(_ context.Context, i int) (int, error) {
			begun.Add(1)
			switch {
			case i == 2:
				close(slow)
				return i, failed
			case i == 0 && jobs > 1: // ends after the one that fails
				<-slow
			}
			return i, nil
		}, func(v int) { got = append(got, v) })
		require.ErrorIs(t, err, failed)
		require.Subset(t, got, []int{0, 1, 2})
		require.Len(t, got, int(begun.Load()))
		require.IsIncreasing(t, got)
	}
	gone := func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil }
	require.ErrorIs(t, inOrder(t.Context(), 3, 2, gone, func(int) { t.Error("handed on") }), errGone)
}

// The context ends all; what it has not cut short is handed on, gaps or not.
func TestInOrderCancelled(t *testing.T) {
	for _, jobs := range []int{1, 3} {
		ctx, cancel := context.WithCancel(t.Context())
		var got []int
		err := inOrder(ctx, 1000, jobs, func(ctx context.Context, i int) (int, error) {
			switch {
			case i == 7:
				cancel()
			case i == 0 && jobs > 1:
				<-ctx.Done()
			}
			return i, nil
		}, func(v int) { got = append(got, v) })
		require.ErrorIs(t, err, context.Canceled)
		require.IsIncreasing(t, got)
		require.Subset(t, got, []int{1, 2, 3})
		require.NotContains(t, got, 7)
	}
}

// A device that fails is the end: the report has the checks that ran, and the error names them.
func TestDeviceFailsBesideOthers(t *testing.T) {
	lost := errors.New("illegal address")
	var sick atomic.Bool
	slow := make(chan struct{})
	dev := &lens{target: device{cpu(t)}, health: func() error {
		if sick.Load() {
			return lost
		}
		return nil
	}}
	items := func(*run) []item {
		var items []item
		for i := range 40 {
			items = append(items, item{name: fmt.Sprint("check ", i), f: func(context.Context, *probe) error {
				switch i {
				case 1: // ends after the device has failed
					<-slow
				case 2:
					sick.Store(true)
					close(slow)
					return lost
				case 0:
				default: // while others run, the one that failed may have to wait for a processor
					time.Sleep(20 * time.Millisecond)
				}
				return nil
			}})
		}
		return items
	}
	rep, err := newRun(dev, Options{Jobs: 3}).do(t.Context(), suite{"forty", items})
	require.ErrorIs(t, err, lost)
	require.Contains(t, err.Error(), `"check 2"`)
	require.Less(t, len(rep.Checks), 10)
	require.Equal(t, 1, rep.Failed)
	require.True(t, slices.ContainsFunc(rep.Checks, func(c Check) bool { return c.Name == "check 2" && c.Detail == lost.Error() }))
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
