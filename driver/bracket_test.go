//go:build linux && (amd64 || arm64)

package driver

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBracketIsThreeCalls compares the two ways of making a call: results, the context stack, and all twelve arguments.
func TestBracketIsThreeCalls(t *testing.T) {
	runtime.LockOSThread() // whose context stack is looked at
	defer runtime.UnlockOSThread()
	f := openFake(t)
	c := f.context()
	spec := tile()
	want, err := c.EncodeTiled(&spec)
	require.NoError(t, err)
	fr := getFrame() // the one that has just been used: its call is laid out
	defer putFrame(fr)
	for name, way := range map[string]func() Code{"bracket": fr.bracket, "three calls": fr.threeCalls} {
		clear(fr.mem[encMap : encMap+TensorMapBytes])
		assert.Equal(t, success, way(), name)
		assert.Equal(t, want, *at[TensorMap](fr.mem, encMap), name)
		for _, failing := range [][]symbol{{cuCtxPushCurrent}, {cuTensorMapEncodeTiled}, {cuTensorMapEncodeTiled, cuCtxPopCurrent}, {cuCtxPopCurrent}} {
			for i, s := range failing {
				f.fail(s, Code(712+i), 0, 1)
			}
			assert.EqualValues(t, 712, way(), "%s: the first failure of %v counts", name, failing)
			for f.control("fake_depth") > 0 { // a pop that failed has left the context where it was
				assert.Contains(t, failing, cuCtxPopCurrent, name)
				require.Zero(t, f.invokeName("cuCtxPopCurrent_v2"))
			}
		}
	}
}
