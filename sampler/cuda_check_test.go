//go:build !fsgen_nocuda

package sampler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// TestLaunchArgumentsAreChecked needs no GPU: nothing that fails here reaches the driver.
func TestLaunchArgumentsAreChecked(t *testing.T) {
	head := &cudaHead{shape: ir.Shape{Vocab: 1000, Hidden: 64}, ld: 64}
	l := &Launcher{plan: &cudaPlan{head: head, spec: Spec{Chain: ir.Chain{Bias: ir.BiasMatrix, Mask: true}}}, rows: 8}
	ok := DeviceArgs{Batch: 8, Hidden: 1 << 20, BiasStride: 1000, MaskStride: 32, MaskWords: 32}
	require.NoError(t, l.check(&ok))
	for name, change := range map[string]func(*DeviceArgs){
		"batch":                func(a *DeviceArgs) { a.Batch = 9 },
		"negative batch":       func(a *DeviceArgs) { a.Batch = -1 },
		"hidden address":       func(a *DeviceArgs) { a.Hidden += 8 },
		"hidden rows":          func(a *DeviceArgs) { a.HiddenLD = 60 },
		"bias stride in bytes": func(a *DeviceArgs) { a.BiasStride = 1 << 30 },
		"negative bias stride": func(a *DeviceArgs) { a.BiasStride = -1 },
		"mask stride in bytes": func(a *DeviceArgs) { a.MaskStride = 1 << 30 },
		"negative mask stride": func(a *DeviceArgs) { a.MaskStride = -32 },
		"spans off by four":    func(a *DeviceArgs) { a.BiasLists.Spans = 1<<20 + 4 },
		"pairs off by four":    func(a *DeviceArgs) { a.CountLists = DeviceLists{Spans: 1 << 20, Entries: 1<<20 + 4, Count: 3} },
		"ids off by two":       func(a *DeviceArgs) { a.BanIDs = DeviceLists{Spans: 1 << 20, Entries: 1<<20 + 2, Count: 3} },
		"entries nowhere":      func(a *DeviceArgs) { a.AllowIDs = DeviceLists{Spans: 1 << 20, Count: 3} },
		"negative entries":     func(a *DeviceArgs) { a.BiasLists.Count = -1 },
		"count stride":         func(a *DeviceArgs) { a.TokenCountStride = 1 << 30 },
		"mask rows overlap":    func(a *DeviceArgs) { a.MaskStride = 31 },
	} {
		bad := ok
		change(&bad)
		var input *InputError
		require.ErrorAs(t, l.check(&bad), &input, name)
	}
}
