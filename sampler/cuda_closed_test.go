//go:build !fsgen_nocuda

package sampler

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is closed says so ahead of anything else, such as that it is of no GPU.
func TestClosedComesFirstInLaunches(t *testing.T) {
	w := Weights{Source: Matrix{Data: make([]uint16, 40*8), Hidden: 8}, Vocab: 40, Hidden: 8}
	g, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{CPU, CPU}})
	require.NoError(t, err)
	groupHead, err := g.LoadHead(t.Context(), w, nil)
	require.NoError(t, err)
	ranks, err := groupHead.Plan(t.Context(), Spec{})
	require.NoError(t, err)
	dev, err := Open(CPU)
	require.NoError(t, err)
	head, err := dev.LoadHead(t.Context(), w)
	require.NoError(t, err)
	plan, err := head.Plan(t.Context(), Spec{})
	require.NoError(t, err)
	for _, c := range []interface{ Close() error }{ranks, plan, head, dev} {
		require.NoError(t, c.Close())
	}
	_, err = plan.NewLauncher(0)
	require.ErrorIs(t, err, ErrClosed)
	_, err = ranks.NewLaunchers(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = head.ColdStart(t.Context(), Spec{MaxBatch: -1})
	require.ErrorIs(t, err, ErrClosed)
	_, err = dev.WrapHead(DeviceWeights{})
	require.ErrorIs(t, err, ErrClosed)
}
