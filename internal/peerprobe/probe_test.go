//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package peerprobe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/internal/dynlib"
	"github.com/fsgen/fsgen/internal/rendezvous"
)

// rig is two devices of driver's stand-in for libcuda.
type rig struct {
	t       *testing.T
	library *dynlib.Library
	a, b    *driver.Context
}

func openTwo(t *testing.T) *rig {
	t.Helper()
	return openRig(t, buildFake(t))
}

func buildFake(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("../../driver/testdata/fakecuda.c")
	if errors.Is(err, os.ErrNotExist) && os.Getenv(cfake.RequireEnv) == "" {
		t.Skipf("runs in a checkout: %v", err)
	}
	require.NoError(t, err)
	return cfake.Build(t, source)
}

func openRig(t *testing.T, path string) *rig {
	t.Helper()
	d, err := driver.OpenLibrary(path)
	require.NoError(t, err)
	lib, err := dynlib.Open(path)
	require.NoError(t, err)
	r := &rig{t: t, library: lib}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		for deadline := time.Now().Add(3 * time.Second); r.control("fake_live") != 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // what a probe that gave up gives back late
		}
		assert.Zero(t, r.control("fake_live"), "objects left")
		assert.Zero(t, r.control("fake_bad_handles"))
	})
	r.a, r.b = r.context(d, 0), r.context(d, 1)
	return r
}

func (r *rig) context(d *driver.Driver, ordinal int) *driver.Context {
	r.t.Helper()
	dev, err := d.Device(ordinal)
	require.NoError(r.t, err)
	c, err := dev.Context()
	require.NoError(r.t, err)
	r.t.Cleanup(func() { assert.NoError(r.t, c.Close()) })
	return c
}

func (r *rig) control(name string, args ...uintptr) int {
	f, err := r.library.Func(name)
	require.NoError(r.t, err)
	return int(int32(f.Call(args...)))
}

// fail makes a function of the driver fail once, after some good calls.
func (r *rig) fail(name string, code, skip int) {
	f, err := r.library.Func("fake_fail")
	require.NoError(r.t, err)
	text := append([]byte(name), 0)
	f.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(code), uintptr(skip), 1)
}

// paths are both ways by which a can have memory of b's: peer access, and memory made to be shared.
func (r *rig) paths() map[string]Path {
	r.t.Helper()
	require.NoError(r.t, r.a.EnablePeerAccess(r.b))
	peer, err := r.b.Alloc(Bytes)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { assert.NoError(r.t, peer.Close()) })
	shared, err := r.b.AllocShared(Bytes)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { assert.NoError(r.t, shared.Close()) })
	file, err := shared.Export()
	require.NoError(r.t, err)
	mapped, err := r.a.ImportShared(file, shared.Size())
	require.NoError(r.t, err)
	require.NoError(r.t, file.Close())
	r.t.Cleanup(func() { assert.NoError(r.t, mapped.Close()) })
	return map[string]Path{
		"peer access": {r.a, peer.Ptr(), r.b, peer.Ptr()},
		"shared":      {r.a, mapped.Ptr(), r.b, shared.Ptr()},
	}
}

func TestStoresThatArrive(t *testing.T) {
	r := openTwo(t)
	for name, p := range r.paths() {
		assert.NoError(t, Run(t.Context(), p, 0), name)
		assert.NoError(t, Run(t.Context(), p, 0), "%s again", name)
	}
}

// Peer access that reports and does not deliver.
func TestStoresThatAreDropped(t *testing.T) {
	r := openTwo(t)
	paths := r.paths()
	for name, p := range paths {
		require.NoError(t, Run(t.Context(), p, 0), name) // whose pattern lies there when the next is dropped
		r.control("fake_drop_peer_stores", 1)
		err := Run(t.Context(), p, 0)
		r.control("fake_drop_peer_stores", 0)
		var veto *Veto
		require.ErrorAs(t, err, &veto, name)
		assert.Equal(t, words, veto.Wrong)
		assert.Equal(t, 0, veto.Offset)
		assert.Equal(t, ^veto.Wrote, veto.Saw, "what Clear has left there")
		assert.EqualError(t, err, fmt.Sprintf("peerprobe: peer access from cuda:0 (Fake GPU 0) to cuda:1 (Fake GPU 1) loses stores: "+
			"1024 of 1024 words differ, the first at byte 0: wrote %#08x, saw %#08x", veto.Wrote, veto.Saw))
		assert.NoError(t, Run(t.Context(), p, 0), name)
	}
	p := paths["shared"]
	r.control("fake_drop_peer_stores", 1)
	assert.NoError(t, Run(t.Context(), Path{r.b, p.Local, r.b, p.Local}, 0), "a device's own memory is no peer's")
	r.control("fake_drop_peer_stores", 0)
}

func TestOneWordThatDiffers(t *testing.T) {
	want := pattern(7)
	got := append([]byte{}, want...)
	assert.NoError(t, compare(want, got, "d"))
	got[4001] ^= 0x10
	assert.Equal(t, &Veto{Owner: "d", Wrong: 1, Words: words, Offset: 4000, Wrote: binary.LittleEndian.Uint32(want[4000:]),
		Saw: binary.LittleEndian.Uint32(got[4000:])}, compare(want, got, "d"))
	seen := map[uint32]bool{}
	for at := 0; at < Bytes; at += 4 {
		seen[binary.LittleEndian.Uint32(want[at:])] = true
	}
	assert.Len(t, seen, words, "no two words alike")
	assert.NotEqual(t, want[:4], pattern(8)[:4])
}

func TestCopyThatDoesNotEnd(t *testing.T) {
	r := openTwo(t)
	p := r.paths()["peer access"]
	live := r.control("fake_live")
	r.control("fake_hold", 1)
	err := Run(t.Context(), p, 20*time.Millisecond)
	var veto *Veto
	require.ErrorAs(t, err, &veto)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "from cuda:0 (Fake GPU 0) to cuda:1 (Fake GPU 1): the copy did not end: context deadline exceeded")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = Run(ctx, p, time.Minute)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.False(t, errors.As(err, &veto), "the caller's patience is no evidence")
	assert.Greater(t, r.control("fake_live"), live, "the device may still write there")
	r.control("fake_hold", 0)
}

func TestCallsThatFail(t *testing.T) {
	r := openTwo(t)
	p := r.paths()["peer access"]
	for _, name := range []string{
		"cuStreamCreate", "cuMemHostAlloc", "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2", "cuEventRecord",
		"cuEventQuery", "cuMemcpyDtoHAsync_v2",
	} {
		r.fail(name, 999, 0)
		err := Run(t.Context(), p, 0)
		assert.ErrorIs(t, err, driver.ErrUnknown, name)
		assert.False(t, errors.As(err, new(*Veto)), name)
	}
	require.NoError(t, r.a.Close())
	assert.ErrorIs(t, Run(t.Context(), p, 0), driver.ErrClosed)
}

const envLibrary = "FSGEN_TEST_PROBE_LIB"

// Two processes probe each other's memory in step: what a group of ranks does when it is opened.
func TestTwoProcesses(t *testing.T) {
	if path := os.Getenv(envLibrary); path != "" {
		assertRank(t, openRig(t, path), 1, os.Getenv("FSGEN_TEST_GROUP"))
		return
	}
	path := buildFake(t)
	r := openRig(t, path)
	for _, drop := range []string{"", "1"} {
		group := fmt.Sprintf("probe-%d-%s", os.Getpid(), drop)
		cmd := exec.Command(os.Args[0], "-test.run", "^TestTwoProcesses$", "-test.count", "1")
		cmd.Env = append(os.Environ(), envLibrary+"="+path, "FSGEN_TEST_GROUP="+group)
		if drop != "" {
			cmd.Env = append(cmd.Env, "FAKE_DROP_PEER_STORES=1")
		}
		done := make(chan error)
		var out []byte
		go func() {
			var err error
			out, err = cmd.CombinedOutput()
			done <- err
		}()
		assertRank(t, r, 0, group)
		require.NoError(t, <-done, "%s", out)
	}
}

// assertRank writes to the other rank's memory, and sees in its own that the other's stores arrive: unless it is rank 0 and
// the other process has been told to lose its stores.
func assertRank(t *testing.T, r *rig, rank int, group string) {
	t.Helper()
	c := []*driver.Context{r.a, r.b}[rank]
	mine, err := c.AllocShared(Bytes)
	require.NoError(t, err)
	defer func() { assert.NoError(t, mine.Close()) }()
	file, err := mine.Export()
	require.NoError(t, err)
	g, err := rendezvous.Join(t.Context(), rendezvous.Config{Group: group, Rank: rank, World: 2, Files: []*os.File{file}})
	require.NoError(t, err)
	require.NoError(t, file.Close())
	defer func() { assert.NoError(t, g.Close()) }()
	theirs, err := c.ImportShared(g.Members()[1-rank].Files[0], mine.Size())
	require.NoError(t, err)
	defer func() { assert.NoError(t, theirs.Close()) }()

	require.NoError(t, Clear(t.Context(), c, mine.Ptr(), 5))
	require.NoError(t, g.Barrier(t.Context()))
	require.NoError(t, Write(t.Context(), c, theirs.Ptr(), 5))
	require.NoError(t, g.Barrier(t.Context()))
	err = Verify(t.Context(), c, mine.Ptr(), 5)
	require.NoError(t, g.Barrier(t.Context()))
	if rank == 0 && group[len(group)-1] == '1' {
		assert.ErrorContains(t, err, "from a peer to cuda:0 (Fake GPU 0) loses stores")
	} else {
		assert.NoError(t, err)
	}
}
