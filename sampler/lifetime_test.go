package sampler_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/sampler"
)

// plan is what Plan and GroupPlan have in common.
type plan interface {
	Sample(ctx context.Context, hidden []uint16, rows sampler.Rows) (*sampler.Result, error)
	Close() error
}

// lineage is a device or a group, a head of it, how plans are made of that, and one.
type lineage struct {
	device, head interface{ Close() error }
	more         func() (plan, error)
	plan         plan
}

// lineages opens one of every kind that needs no GPU.
func lineages(t *testing.T) map[string]lineage {
	t.Helper()
	w := sampler.Weights{Source: sampler.Matrix{Data: make([]uint16, 40*8), Hidden: 8}, Vocab: 40, Hidden: 8}
	all := map[string]lineage{}
	for _, name := range []string{"cpu", "sim:sm_90"} {
		dev, err := sampler.Open(name)
		require.NoError(t, err)
		head, err := dev.LoadHead(t.Context(), w)
		require.NoError(t, err)
		all[name] = lineage{dev, head, func() (plan, error) { return head.Plan(t.Context(), sampler.Spec{MaxBatch: 1}) }, nil}

		group, err := sampler.OpenGroup(t.Context(), sampler.GroupConfig{Devices: []string{name, name}})
		require.NoError(t, err)
		shared, err := group.LoadHead(t.Context(), w, nil)
		require.NoError(t, err)
		all["two of "+name] = lineage{group, shared, func() (plan, error) { return shared.Plan(t.Context(), sampler.Spec{MaxBatch: 1}) }, nil}
	}
	for name, l := range all {
		var err error
		l.plan, err = l.more()
		require.NoError(t, err, name)
		all[name] = l
	}
	return all
}

// TestClosingClosesWhatWasMade: a plan whose head or device is gone samples no more, and is closed already.
func TestClosingClosesWhatWasMade(t *testing.T) {
	for _, which := range []string{"head", "device"} {
		for name, l := range lineages(t) {
			_, err := l.plan.Sample(t.Context(), make([]uint16, 8), sampler.Rows{})
			require.NoError(t, err, name)
			if which == "head" {
				require.NoError(t, l.head.Close(), name)
			} else {
				require.NoError(t, l.device.Close(), name)
			}
			_, err = l.plan.Sample(t.Context(), make([]uint16, 8), sampler.Rows{})
			require.ErrorIs(t, err, sampler.ErrClosed, name)
			_, err = l.more()
			require.ErrorIs(t, err, sampler.ErrClosed, name)
			for _, c := range []interface{ Close() error }{l.plan, l.head, l.device, l.plan} {
				require.NoError(t, c.Close(), name)
			}
		}
	}
}

// TestClosingBesideCalls has plans made, used and closed by many while their head is closed: each call is done, or says that it is too late.
func TestClosingBesideCalls(t *testing.T) {
	for name, l := range lineages(t) {
		var all sync.WaitGroup
		began := make(chan struct{}, 100)
		for i := range 4 {
			all.Go(func() {
				for n := 0; ; n++ {
					p, err := l.plan, error(nil)
					if i%2 == 0 {
						p, err = l.more()
					}
					if err == nil {
						_, err = p.Sample(t.Context(), make([]uint16, 8), sampler.Rows{})
					}
					if err == nil && i%2 == 0 && n%2 == 0 {
						err = p.Close()
					}
					if err != nil {
						assert.True(t, errors.Is(err, sampler.ErrClosed), "%s: %v", name, err)
						return
					}
					select {
					case began <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 8 {
			<-began
		}
		for _, c := range []interface{ Close() error }{l.head, l.device, l.head} {
			all.Go(func() { assert.NoError(t, c.Close(), name) })
		}
		all.Wait()
	}
}
