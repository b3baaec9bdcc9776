package sampler

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLifetimes: the last made is the first to close, whatever goes wrong, and what is closed is forgotten.
func TestLifetimes(t *testing.T) {
	var order []string
	ends := func(name string, err error) func() error {
		return func() error { order = append(order, name); return err }
	}
	wrong, worse := errors.New("wrong"), errors.New("worse")
	var device, head, plan, other lifetime
	device.begin(nil, ends("device", nil))
	head.begin(&device, ends("head", worse))
	plan.begin(&head, ends("plan", wrong))
	other.begin(&head, ends("other", nil))
	require.NoError(t, other.close())
	require.Equal(t, []*lifetime{&plan}, head.made)
	err := device.close()
	require.ErrorIs(t, err, wrong)
	require.ErrorIs(t, err, worse)
	require.Equal(t, []string{"other", "plan", "head", "device"}, order)
	require.Empty(t, device.made)
	require.NoError(t, device.close())
	require.ErrorIs(t, plan.enter(), ErrClosed)
}
