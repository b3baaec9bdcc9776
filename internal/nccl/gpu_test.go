//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package nccl

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/dynlib"
)

// One rank on a real GPU with the real library, eagerly, and blocking from a captured graph too.
func TestGPUAllGatherAlone(t *testing.T) {
	d, err := driver.Open()
	var dev *driver.Device
	if err == nil {
		dev, err = d.Device(0)
	}
	if err != nil && os.Getenv("FSGEN_REQUIRE_GPU") == "" {
		t.Skipf("no usable GPU: %v", err)
	}
	require.NoError(t, err)
	l, err := Open()
	if errors.Is(err, dynlib.ErrNotFound) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Logf("%s: NCCL %v", l.Path(), l.Version())
	c, err := dev.Context()
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	for _, blocking := range []bool{false, true} {
		require.NoError(t, c.Do(func() error { return gatherAlone(t, l, c, blocking) }), "blocking %v", blocking)
	}
}

func gatherAlone(t *testing.T, l *Library, c *driver.Context, blocking bool) error {
	id, err := l.UniqueID()
	require.NoError(t, err)
	comm, err := l.Init(t.Context(), Config{World: 1, ID: id, Blocking: blocking})
	require.NoError(t, err)
	b, err := c.Alloc(2048)
	require.NoError(t, err)
	defer func() { assert.NoError(t, b.Close()) }()
	s, err := c.NewStream()
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	gather := func() error { return comm.AllGather(uint64(b.Ptr()), uint64(b.Ptr())+1024, 1024, s.Handle()) }
	got := make([]byte, 1024)
	captured := func() error {
		graph, err := s.Capture(gather)
		if err != nil {
			return err
		}
		exec, err := graph.Instantiate()
		if err != nil {
			return errors.Join(err, graph.Close())
		}
		err = errors.Join(exec.Launch(s), s.Synchronize(context.Background()))
		return errors.Join(err, exec.Close(), graph.Close())
	}
	runs := []func() error{gather, captured}
	if !blocking {
		runs = runs[:1]
	}
	for i, run := range runs {
		require.NoError(t, s.MemsetD8(b.Ptr(), byte(5+i), 1024))
		require.NoError(t, run())
		require.NoError(t, s.Synchronize(t.Context()))
		require.NoError(t, comm.AsyncError())
		require.NoError(t, b.Download(got, 1024))
		assert.Equal(t, byte(5+i), got[1023])
	}
	return comm.Close(t.Context())
}
