//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package nccl

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/internal/dynlib"
)

//go:embed testdata/fakenccl.c
var fakeSource []byte

// fake is an open fake library; at the end of the test everything must have been given back to it.
func fake(t *testing.T, without ...string) *Library {
	t.Helper()
	t.Setenv(EnvLibrary, cfake.Build(t, fakeSource, without...))
	l, err := Open()
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.Zero(t, control(t, l, "fake_live"), "communicators left")
		assert.Zero(t, control(t, l, "fake_bad"), "calls on dead communicators")
	})
	return l
}

func control(t *testing.T, l *Library, name string, args ...uintptr) int {
	t.Helper()
	f, err := l.lib.Func(name)
	require.NoError(t, err)
	return int(int32(f.Call(args...)))
}

// calls returns what was called since.
func calls(t *testing.T, l *Library) []string {
	t.Helper()
	f, err := l.lib.Func("fake_log")
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(f.Text(1)), "\n")
}

// fail makes a function fail from now on; "" is none.
func fail(t *testing.T, l *Library, name string, r Result) {
	t.Helper()
	f, err := l.lib.Func("fake_fail")
	require.NoError(t, err)
	text := append([]byte(name), 0)
	f.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(r))
}

// ranks makes a communicator of n goroutines.
func ranks(t *testing.T, l *Library, n int, blocking bool) []*Comm {
	t.Helper()
	id, err := l.UniqueID()
	require.NoError(t, err)
	comms := make([]*Comm, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() {
			var err error
			comms[rank], err = l.Init(t.Context(), Config{World: n, Rank: rank, ID: id, Blocking: blocking})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
	return comms
}

func at(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func TestAllGather(t *testing.T) {
	l := fake(t)
	assert.Equal(t, "2.20.5", l.Version().String())
	for _, c := range []struct {
		n, progress int
		blocking    bool
	}{{1, 0, true}, {1, 3, false}, {4, 0, true}, {4, 0, false}, {4, 105, false}} {
		control(t, l, "fake_progress", uintptr(c.progress))
		comms := ranks(t, l, c.n, c.blocking)
		recv := make([][]byte, c.n)
		for rank, comm := range comms {
			assert.Equal(t, [2]int{rank, c.n}, [2]int{comm.Rank(), comm.World()})
			recv[rank] = make([]byte, 3*c.n)
			send := recv[rank][3*rank : 3*rank+3] // in place
			copy(send, fmt.Sprint("r", rank, "."))
			require.NoError(t, comm.AllGather(at(send), at(recv[rank]), 3, 77))
			require.NoError(t, comm.AsyncError())
		}
		for _, got := range recv {
			assert.Equal(t, "r0.r1.r2.r3."[:3*c.n], string(got))
		}
		for _, comm := range comms {
			require.NoError(t, comm.Close(t.Context()))
			assert.NoError(t, comm.Close(t.Context()))
			assert.NoError(t, comm.Abort())
			assert.ErrorIs(t, comm.AllGather(1, 1, 1, 0), ErrClosed)
			assert.ErrorIs(t, comm.AsyncError(), ErrClosed)
		}
	}
}

func TestCallsAsRecorded(t *testing.T) {
	l := fake(t)
	id := UniqueID{}
	for i := range id {
		id[i] = byte(255 - i)
	}
	sum := uint32(0)
	for _, b := range id {
		sum = sum*31 + uint32(b)
	}
	b := make([]byte, 16)
	first, err := l.Init(t.Context(), Config{World: 2, Rank: 0, ID: id})
	require.NoError(t, err)
	second, err := l.Init(t.Context(), Config{World: 2, Rank: 1, ID: id, Blocking: true})
	require.NoError(t, err)
	require.NoError(t, first.AllGather(at(b), at(b), 8, 1<<20))
	require.NoError(t, first.AllGather(at(b), at(b), 0, 1), "nothing is gathered without a call")
	require.NoError(t, second.AllGather(at(b[8:]), at(b), 8, 2))
	require.NoError(t, second.Close(t.Context()))
	require.NoError(t, first.Abort())
	assert.Equal(t, []string{
		fmt.Sprintf("init n=2 rank=0 id=%08x blocking=0", sum), fmt.Sprintf("init n=2 rank=1 id=%08x blocking=1", sum),
		"gather rank=0 bytes=8 stream=1048576", "gather rank=1 bytes=8 stream=2", "finalize rank=1", "destroy rank=1", "abort rank=0",
	}, calls(t, l))
}

func TestRankThatNeverComes(t *testing.T) {
	l := fake(t)
	control(t, l, "fake_progress", uintptr(1<<64-1))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := l.Init(ctx, Config{World: 2, Rank: 1})
	var wait *WaitError
	require.ErrorAs(t, err, &wait)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.EqualError(t, wait, "nccl: ncclCommInitRankConfig has not ended: rank 1 of 2: context deadline exceeded (are all ranks there?)")
	assert.Contains(t, calls(t, l), "abort rank=1")
	_, err = l.Init(ctx, Config{World: 2, Rank: 1})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, []string{""}, calls(t, l), "nothing is begun for a context that has ended")
}

// A gather that waits for a rank that died is ended by Abort from elsewhere, and so is a Close by its context.
func TestAbortEndsWaiting(t *testing.T) {
	l := fake(t)
	comms := ranks(t, l, 2, false)
	control(t, l, "fake_progress", uintptr(1<<64-1))
	b := make([]byte, 2)
	gathered := make(chan error)
	go func() { gathered <- comms[0].AllGather(at(b), at(b), 1, 0) }()
	require.Eventually(t, func() bool { return slices.Contains(calls(t, l), "gather rank=0 bytes=1 stream=0") }, 5*time.Second, time.Millisecond)
	assert.NoError(t, comms[0].AsyncError(), "at work")
	require.NoError(t, comms[0].Abort())
	assert.ErrorIs(t, <-gathered, ErrClosed)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := comms[1].Close(ctx)
	assert.ErrorAs(t, err, new(*WaitError))
	assert.ErrorContains(t, err, "ncclCommFinalize has not ended: rank 1 of 2")
	assert.NoError(t, comms[1].Close(t.Context()))
}

func TestErrorsOfTheDevice(t *testing.T) {
	l := fake(t)
	c := ranks(t, l, 1, false)[0]
	require.NoError(t, c.AsyncError())
	control(t, l, "fake_async", c.handle, uintptr(ErrRemote))
	err := c.AsyncError()
	assert.ErrorIs(t, err, ErrRemote)
	assert.EqualError(t, err, "nccl: ncclCommGetAsyncError: ncclRemoteError (6): remote process exited or there was a network error: "+
		"rank 0 of 1: socket closed by peer")
	b := make([]byte, 1)
	assert.ErrorIs(t, c.AllGather(at(b), at(b), 1, 0), ErrRemote)
	require.NoError(t, c.Abort())
}

func TestEveryCallCanFail(t *testing.T) {
	l := fake(t)
	for f, name := range functionNames {
		if function(f) == fnErrorString || name == "" {
			continue
		}
		b := make([]byte, 1)
		var comm *Comm
		if function(f) != fnInit && function(f) != fnGetUniqueID {
			comm = ranks(t, l, 1, false)[0]
		}
		if function(f) == fnAsyncError {
			control(t, l, "fake_progress", 1)
		}
		fail(t, l, name, ErrSystem)
		var err error
		switch function(f) {
		case fnInit:
			_, err = l.Init(t.Context(), Config{World: 1})
		case fnGetUniqueID:
			_, err = l.UniqueID()
		case fnAllGather, fnAsyncError:
			err = comm.AllGather(at(b), at(b), 1, 0)
		case fnFinalize, fnDestroy:
			err = comm.Close(t.Context())
		case fnAbort:
			err = comm.Abort()
		}
		var e *Error
		if assert.ErrorAs(t, err, &e, name) {
			assert.Equal(t, name, e.Call)
			assert.ErrorIs(t, err, ErrSystem)
			assert.ErrorContains(t, err, "nccl: "+name+": ncclSystemError (2): unhandled system error")
			assert.ErrorContains(t, err, "as the test wanted")
		}
		fail(t, l, "", success)
		control(t, l, "fake_progress", 0)
		if comm != nil && (function(f) == fnAllGather || function(f) == fnAsyncError) {
			require.NoError(t, comm.Close(t.Context()))
		}
	}
	assert.Equal(t, 2, control(t, l, "fake_live"), "what could not be destroyed or aborted")
	control(t, l, "fake_forget")
}

func TestConfigsAreChecked(t *testing.T) {
	l := fake(t)
	for _, cfg := range []Config{{}, {World: 1, Rank: 1}, {World: 2, Rank: -1}} {
		_, err := l.Init(t.Context(), cfg)
		assert.ErrorAs(t, err, new(*ConfigError))
	}
	c := ranks(t, l, 1, true)[0]
	assert.ErrorAs(t, c.AllGather(1, 1, 1<<63, 0), new(*ConfigError))
	require.NoError(t, c.Close(t.Context()))
}

func TestManyGoroutines(t *testing.T) {
	l := fake(t)
	control(t, l, "fake_progress", 2)
	comms := ranks(t, l, 1, false)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			b := make([]byte, 1)
			for range 20 {
				err := comms[0].AllGather(at(b), at(b), 1, 0)
				if err != nil {
					assert.ErrorIs(t, err, ErrClosed)
					return
				}
				_ = comms[0].AsyncError()
			}
			if g%4 == 0 {
				assert.NoError(t, comms[0].Close(t.Context()))
			} else {
				assert.NoError(t, comms[0].Abort())
			}
		})
	}
	wg.Wait()
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	t.Setenv(EnvLibrary, filepath.Join(t.TempDir(), "libnccl.so.2"))
	_, err := Open()
	var load *LoadError
	require.ErrorAs(t, err, &load)
	assert.ErrorIs(t, err, dynlib.ErrNotFound)
	assert.ErrorContains(t, err, "nccl: no libnccl.so.2 here: ")
	assert.NotContains(t, err.Error(), "\n")
	for _, name := range []string{"ncclAllGather", "ncclCommInitRankConfig", "ncclGetVersion"} {
		t.Setenv(EnvLibrary, cfake.Build(t, fakeSource, name))
		_, err = Open()
		require.ErrorAs(t, err, &load)
		assert.ErrorContains(t, err, "has no "+name)
		assert.NotErrorIs(t, err, dynlib.ErrNotFound)
	}
	l := fake(t, "ncclGetLastError")
	fail(t, l, "ncclGetUniqueId", ErrInternal)
	_, err = l.UniqueID()
	assert.EqualError(t, err, "nccl: ncclGetUniqueId: ncclInternalError (3): internal error", "an older library has no last words")
}

func TestVersions(t *testing.T) {
	l := fake(t)
	for code, text := range map[int]string{2708: "2.7.8", 21304: "2.13.4", 30000: "3.0.0"} {
		control(t, l, "fake_version", uintptr(code))
		_, err := Open() // the same library, loaded once
		var version *VersionError
		require.ErrorAs(t, err, &version)
		assert.Equal(t, Version(code), version.Have)
		assert.ErrorContains(t, err, "is NCCL "+text+": want 2.14.0 or later of 2.x")
	}
	control(t, l, "fake_version", 23005)
	_, err := Open()
	assert.NoError(t, err)
	assert.Equal(t, "ncclResult_t (99)", Result(99).Error())
}
