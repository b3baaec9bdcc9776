//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/templates"
)

// floorContender reads a head's weights once and does nothing else (templates.Stream).
func floorContender(t *testing.T, dev *Device, head *Head) []*contender {
	d, h := dev.b.(*cudaDevice), head.b.(*cudaHead)
	k, err := templates.Stream(d.arch)
	require.NoError(t, err)
	mod, err := d.load(context.Background(), []byte(k.Module.String()))
	require.NoError(t, err)
	t.Cleanup(func() { mod.Close() })
	fn, err := mod.Function(templates.StreamEntry)
	require.NoError(t, err)
	require.NoError(t, fn.SetMaxDynamicShared(templates.StreamShared))
	params, err := driver.NewParams(8, 4, 8)
	require.NoError(t, err)
	blocks := h.buf.Size() / templates.StreamBlock
	params.SetPtr(0, h.ptr)
	params.SetUint32(1, uint32(blocks))
	params.SetPtr(2, driver.DevicePtr(upload(t, dev, []uint32{0})))
	cfg := driver.LaunchConfig{Grid: driver.Dim3{X: uint32(d.sms()), Y: 1, Z: 1},
		Block: driver.Dim3{X: templates.StreamThreads, Y: 1, Z: 1}, SharedBytes: templates.StreamShared}
	return []*contender{{name: "floor", launch: func(s *driver.Stream) error { return s.Launch(fn, cfg, params) }}}
}
