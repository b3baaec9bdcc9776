//go:build linux && (amd64 || arm64)

package driver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestManyGoroutines uses two devices from 200 goroutines on 16 threads that swap at every chance. A call that met the
// wrong context, or none, would fail: error 201 or 400.
func TestManyGoroutines(t *testing.T) {
	f := openFake(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	goroutines, rounds := 200, 5
	if testing.Short() {
		goroutines = 50
	}
	contexts := []*Context{f.contextOf(0), f.contextOf(1)}
	functions := []*Function{f.function(contexts[0], "fill"), f.function(contexts[1], "fill")}
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for r := range rounds {
				i := (g + r) % 2
				if err := fillAndCheck(contexts[i], functions[i], uint32(g*rounds+r)); err != nil {
					t.Errorf("goroutine %d: %v", g, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// fillAndCheck goes the way of a sampling call: memory, a launch, a wait, the result.
func fillAndCheck(c *Context, fn *Function, value uint32) (err error) {
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	runtime.Gosched()
	b, err := c.Alloc(256)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	p, err := NewParams(8, 4, 4)
	if err != nil {
		return err
	}
	p.SetPtr(0, b.Ptr())
	p.SetUint32(1, value)
	p.SetUint32(2, 64)
	runtime.Gosched()
	if err := s.Launch(fn, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 64}}, p); err != nil {
		return err
	}
	runtime.Gosched()
	if err := s.Synchronize(noCancel); err != nil {
		return err
	}
	got := make([]byte, 256)
	if err := b.Download(got, 0); err != nil {
		return err
	}
	v := []byte{byte(value), byte(value >> 8), byte(value >> 16), byte(value >> 24)}
	if want := bytes.Repeat(v, 64); !bytes.Equal(want, got) {
		return fmt.Errorf("want %v, got %v", want[:8], got[:8])
	}
	return nil
}

// TestMovingStacks makes calls from new goroutines deep in recursion, where each call is likely to be the one that
// grows the stack, and moves it.
func TestMovingStacks(t *testing.T) {
	f := openFake(t)
	c := f.context()
	fn := f.function(c, "fill")
	var dive func(depth int) error
	dive = func(depth int) error {
		var pad [200]byte
		pad[depth%200] = 1
		if depth == 0 {
			return fillAndCheck(c, fn, 77)
		}
		if err := dive(depth - 1); err != nil {
			return err
		}
		var local [16]byte // on the stack, until copies make it escape
		if _, _, err := c.MemoryInfo(); err != nil {
			return err
		}
		runtime.KeepAlive(pad)
		runtime.KeepAlive(local)
		return nil
	}
	var wg sync.WaitGroup
	for depth := range 60 {
		wg.Go(func() { assert.NoError(t, dive(depth)) })
	}
	wg.Wait()
}

// TestUnderTheCollectorsEye runs the tests that pass memory to the driver once more, with the collector always at work,
// checking pointers, and overwriting what it frees.
func TestUnderTheCollectorsEye(t *testing.T) {
	if os.Getenv("GOGC") == "1" || testing.Short() {
		t.Skip("runs other tests again")
	}
	fakeLibrary(t)
	exe, err := os.Executable()
	must(t, err)
	args := []string{"-test.run=^(TestCopies|TestStreamCopies|TestLaunch|TestLaunchTensorMaps|TestGraph|TestMovingStacks|" +
		"TestManyGoroutines|TestLoadPTXAndFunctions|TestCompileThenLoadImage|TestEvents|TestDevices)$", "-test.short"}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "GOGC=1", "GODEBUG=cgocheck=1,clobberfree=1,invalidptr=1,gccheckmark=0")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestSignals is TestGPUSignals without a GPU: it shows that foreign calls of either kind of build bear signals.
func TestSignals(t *testing.T) {
	f := openFake(t)
	c := f.context()
	fn := f.function(c, "fill")
	signalStorm(t, func() error { return fillAndCheck(c, fn, 5) })
}

func TestGuard(t *testing.T) {
	var g guard
	assert.True(t, g.enter())
	closed := make(chan bool)
	go func() { closed <- g.close() }()
	for !g.closed() {
		runtime.Gosched()
	}
	assert.False(t, g.enter())
	assert.False(t, g.close())
	select {
	case <-closed:
		t.Error("closed under a call")
	default:
	}
	g.leave()
	assert.True(t, <-closed)
}

func TestBlocks(t *testing.T) {
	for _, n := range []int{1, 512, 513, 4096, 65536, 65537, 1 << 20} {
		b, err := newBlock(n)
		require.NoError(t, err)
		assert.True(t, len(b) >= n)
		align := uintptr(min(max(n, 512), 4096))
		assert.EqualValues(t, 0, address(b)%min(align, 512))
		assert.True(t, bytes.Count(b, []byte{0}) == len(b), "not zeroed")
		copy(b, bytes.Repeat([]byte{0xff}, len(b)))
		freeBlock(b)
	}
	b, err := newBlock(600)
	require.NoError(t, err)
	assert.True(t, bytes.Count(b, []byte{0}) == len(b), "a used block comes back zeroed")
	freeBlock(b)
}
