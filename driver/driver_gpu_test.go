//go:build linux && (amd64 || arm64)

package driver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests named TestGPU run on a real device, and skip with a reason where there is none; FSGEN_REQUIRE_GPU makes
// that a failure. They need nothing but the test binary: go test -c -o driver.test ./driver, then on the machine with
// the GPU ./driver.test -test.v -test.run GPU -test.bench GPU.

// gpu is a context and what most tests need in it.
type gpu struct {
	*Context
	t      testing.TB
	module *Module
	stream *Stream
}

func gpuDevices(t testing.TB) []*Device {
	t.Helper()
	d, err := Open()
	var list []*Device
	if err == nil {
		list, err = d.Devices()
	}
	if err == nil && (len(list) == 0 || list[0].ComputeCapability().Major < 9) {
		err = errors.New("none of compute capability 9.0 or later")
	}
	if err == nil {
		return list
	}
	if os.Getenv("FSGEN_REQUIRE_GPU") != "" {
		t.Fatalf("no usable GPU: %v", err)
	}
	t.Skipf("no usable GPU: %v", err)
	return nil
}

func openGPU(t testing.TB) *gpu {
	t.Helper()
	return onGPU(t, gpuDevices(t)[0])
}

func onGPU(t testing.TB, dev *Device) *gpu {
	t.Helper()
	c, err := dev.Context()
	must(t, err)
	g := &gpu{Context: c, t: t}
	g.close(c.Close)
	g.module, err = c.LoadPTX([]byte(gpuPTX), JITOptions{})
	must(t, err)
	g.close(g.module.Close)
	g.stream, err = c.NewStream()
	must(t, err)
	g.close(g.stream.Close)
	return g
}

func (g *gpu) close(f func() error) { g.t.Cleanup(func() { assert.NoError(g.t, f()) }) }

func (g *gpu) function(name string) *Function {
	g.t.Helper()
	fn, err := g.module.Function(name)
	must(g.t, err)
	return fn
}

func (g *gpu) buffer(n uint64) *Buffer {
	g.t.Helper()
	b, err := g.Alloc(n)
	must(g.t, err)
	g.close(b.Close)
	return b
}

func (g *gpu) params(sizes ...int) *Params {
	g.t.Helper()
	p, err := NewParams(sizes...)
	must(g.t, err)
	return p
}

// spin keeps the stream busy.
func (g *gpu) spin(d time.Duration) {
	g.t.Helper()
	p := g.params(8)
	p.SetUint64(0, uint64(d.Nanoseconds()))
	must(g.t, g.stream.Launch(g.function("spin"), LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, p))
}

func TestGPUDevice(t *testing.T) {
	for _, dev := range gpuDevices(t) {
		sms, err := dev.Attribute(Multiprocessors)
		assert.NoError(t, err)
		total, err := dev.TotalMemory()
		assert.NoError(t, err)
		t.Logf("%v %v cc %v, %d multiprocessors, %d MiB; CUDA %v, PTX %v, release %q, library %s", dev, dev.UUID(),
			dev.ComputeCapability(), sms, total>>20, dev.Driver().Version(), dev.Driver().Version().PTX(),
			dev.Driver().Release(), dev.Driver().Path())
		assert.True(t, sms > 0 && total > 1<<30 && dev.UUID() != UUID{})
	}
	_, err := gpuDevices(t)[0].Driver().Device(1000)
	assert.ErrorIs(t, err, ErrInvalidDevice)
	t.Log(err)
}

func TestGPUMemory(t *testing.T) {
	g := openGPU(t)
	data := randomBytes(64<<20 + 3)
	b := g.buffer(uint64(len(data)))
	require.NoError(t, b.Upload(0, data))
	got := make([]byte, len(data))
	require.NoError(t, b.Download(got, 0))
	assert.True(t, bytes.Equal(data, got))
	h, err := g.AllocHost(1 << 20)
	require.NoError(t, err)
	require.NoError(t, g.stream.MemsetD32(b.Ptr(), 0x04030201, 1000))
	require.NoError(t, g.stream.MemsetD8(b.Ptr()+4000, 9, 10))
	require.NoError(t, g.stream.CopyWithinDevice(b.Ptr()+8000, b.Ptr(), 4010))
	require.NoError(t, g.stream.CopyFromDevice(h, 0, 1<<20, b.Ptr()))
	require.NoError(t, g.stream.Synchronize(t.Context()))
	assert.True(t, bytes.Equal(append(bytes.Repeat([]byte{1, 2, 3, 4}, 1000), bytes.Repeat([]byte{9}, 10)...), h.Bytes()[8000:12010]))
	require.NoError(t, h.Close())
	free, total, err := g.MemoryInfo()
	require.NoError(t, err)
	assert.True(t, free > 0 && free < total)
	_, err = g.Alloc(1 << 50)
	assert.ErrorIs(t, err, ErrOutOfMemory)
	t.Log(err)
	assert.True(t, g.Healthy())
}

// TestGPUUploadThenLaunch overwrites the host's copy as soon as an upload returns, and reads on another stream what it
// left on the device: an upload that returned early would show.
func TestGPUUploadThenLaunch(t *testing.T) {
	g := openGPU(t)
	b, back := g.buffer(1<<20), g.buffer(1<<20)
	host, got := make([]byte, 1<<20), make([]byte, 1<<20)
	for r := range 300 {
		for i := range host {
			host[i] = byte(r)
		}
		must(t, b.Upload(0, host))
		clear(host)
		must(t, g.stream.CopyWithinDevice(back.Ptr(), b.Ptr(), 1<<20))
		must(t, g.stream.Synchronize(noCancel))
		must(t, back.Download(got, 0))
		if bytes.Count(got, []byte{byte(r)}) != len(got) {
			t.Fatalf("round %d: not what was uploaded", r)
		}
	}
}

func TestGPULaunchAndGraph(t *testing.T) {
	g := openGPU(t)
	const n = 100_000
	b := g.buffer(4 * n)
	fn := g.function("fill")
	sizes, err := fn.ParamSizes()
	if assert.NoError(t, err) {
		assert.Equal(t, []int{8, 4, 4}, sizes)
	}
	attributes, err := fn.Attributes()
	assert.NoError(t, err)
	t.Logf("%+v", attributes)
	p := g.params(8, 4, 4)
	p.SetPtr(0, b.Ptr())
	p.SetUint32(2, n)
	cfg := LaunchConfig{Grid: Dim3{X: n/256 + 1}, Block: Dim3{X: 256}}
	check := func(v uint32) {
		t.Helper()
		require.NoError(t, g.stream.Synchronize(t.Context()))
		got := make([]byte, 4*n)
		require.NoError(t, b.Download(got, 0))
		for i := 0; i < len(got); i += 4 {
			require.Equal(t, v, binary.LittleEndian.Uint32(got[i:]))
		}
	}
	p.SetUint32(1, 7)
	require.NoError(t, g.stream.Launch(fn, cfg, p))
	check(7)
	cfg.Programmatic = true
	graph, err := g.stream.Capture(func() error {
		capturing, err := g.stream.IsCapturing()
		assert.True(t, err == nil && capturing)
		other := make(chan error) // allocation elsewhere must not disturb a thread-local capture
		go func() {
			extra, err := g.Alloc(1 << 20)
			if err == nil {
				err = extra.Close()
			}
			other <- err
		}()
		assert.NoError(t, <-other)
		for v := range uint32(20) {
			p.SetUint32(1, 100+v)
			if err := g.stream.Launch(fn, cfg, p); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	if programmatic, all, known := programmaticEdges(t, g, graph); known {
		assert.Equal(t, []int{19, 19}, []int{programmatic, all}, "edges between 20 launches")
	}
	exec, err := graph.Instantiate()
	require.NoError(t, err)
	require.NoError(t, graph.Close())
	check(7)
	for range 3 {
		require.NoError(t, exec.Launch(g.stream))
	}
	check(119)
	require.NoError(t, exec.Close())
}

// programmaticEdges counts the edges of a graph that are programmatic, and all of them, if the driver tells (CUDA 12.3).
func programmaticEdges(t *testing.T, g *gpu, graph *Graph) (programmatic, all int, known bool) {
	t.Helper()
	fn, err := dlsym(g.dev.drv.handle, "cuGraphGetEdges_v2")
	if err != nil {
		t.Log(err)
		return 0, 0, false
	}
	const room = 64
	block, err := newBlock(8 + 3*8*room)
	require.NoError(t, err)
	defer freeBlock(block)
	*at[uint64](block, 0) = room
	base := address(block)
	from, to, data := base+8, base+8+8*room, base+8+16*room
	require.NoError(t, g.Do(func() error {
		if code := invoke(fn, []uintptr{graph.handle, from, to, data, base}); code != success {
			return code
		}
		return nil
	}))
	all = int(*at[uint64](block, 0))
	for i := range all {
		const kind, programmaticKind = 2, 1 // CUgraphEdgeData.type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
		if block[8+16*room+8*i+kind] == programmaticKind {
			programmatic++
		}
	}
	return programmatic, all, true
}

func TestGPUClusters(t *testing.T) {
	g := openGPU(t)
	fn := g.function("ranks")
	require.NoError(t, fn.SetMaxDynamicShared(200<<10))
	for _, cluster := range []uint32{1, 2, 4, 8, 16} {
		if cluster > 8 {
			require.NoError(t, fn.SetNonPortableCluster(true))
		}
		cfg := LaunchConfig{Grid: Dim3{X: 4 * cluster}, Block: Dim3{X: 32}, Cluster: Dim3{X: cluster}, SharedBytes: 200 << 10}
		most, err := fn.MaxActiveClusters(cfg)
		require.NoError(t, err)
		t.Logf("cluster %d: %d at a time", cluster, most)
		if most == 0 {
			continue
		}
		b := g.buffer(uint64(4 * cfg.Grid.X))
		p := g.params(8)
		p.SetPtr(0, b.Ptr())
		require.NoError(t, g.stream.Launch(fn, cfg, p))
		require.NoError(t, g.stream.Synchronize(noCancel))
		got := make([]byte, b.Size())
		require.NoError(t, b.Download(got, 0))
		for i := 0; i < len(got); i += 4 {
			assert.Equal(t, cluster<<16|200<<2, binary.LittleEndian.Uint32(got[i:]))
		}
	}
	blocks, err := fn.MaxActiveBlocks(1024, 200<<10)
	assert.NoError(t, err)
	assert.Equal(t, 1, blocks)
	err = g.stream.Launch(fn, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}, SharedBytes: 230 << 10}, g.params(8))
	assert.ErrorIs(t, err, ErrInvalidValue)
	assert.True(t, g.Healthy())
	t.Log(err)
}

func TestGPUWaits(t *testing.T) {
	g := openGPU(t)
	start, err := g.NewEvent(true)
	require.NoError(t, err)
	g.close(start.Close)
	end, err := g.NewEvent(true)
	require.NoError(t, err)
	g.close(end.Close)
	require.NoError(t, start.Record(g.stream))
	g.spin(200 * time.Millisecond)
	require.NoError(t, end.Record(g.stream))
	done, err := end.Query()
	assert.NoError(t, err)
	assert.False(t, done)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	assert.ErrorIs(t, g.stream.Synchronize(ctx), context.DeadlineExceeded)
	assert.ErrorIs(t, end.Synchronize(ctx), context.DeadlineExceeded)
	assert.True(t, time.Since(began) < 150*time.Millisecond, "%v", time.Since(began))
	assert.NoError(t, end.Synchronize(t.Context()))
	took, err := Elapsed(start, end)
	assert.NoError(t, err)
	assert.True(t, took > 190*time.Millisecond && took < time.Second, "%v", took)
	for _, wait := range []context.Context{t.Context(), noCancel} { // what each kind of wait adds to a short kernel
		const rounds = 200
		began := time.Now()
		for range rounds {
			g.spin(200 * time.Microsecond)
			require.NoError(t, g.stream.Synchronize(wait))
		}
		t.Logf("200us kernel, cancellable %v: %v", wait.Done() != nil, time.Since(began)/rounds)
	}
}

func TestGPUCompile(t *testing.T) {
	g := openGPU(t)
	began := time.Now()
	image, err := g.CompilePTX([]byte(gpuPTX), JITOptions{Verbose: true})
	require.NoError(t, err)
	t.Logf("%d bytes in %v; key %s; log:\n%s", len(image.Cubin), time.Since(began), g.ImageKey([]byte(gpuPTX), JITOptions{}), image.Log)
	m, err := g.LoadImage(image.Cubin)
	require.NoError(t, err)
	fn, err := m.Function("spin")
	require.NoError(t, err)
	require.NoError(t, g.stream.Launch(fn, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, g.params(8)))
	require.NoError(t, g.stream.Synchronize(noCancel))
	require.NoError(t, m.Close())

	var bad *ImageError
	_, err = g.LoadImage(image.Cubin[:len(image.Cubin)/2])
	assert.ErrorAs(t, err, &bad)
	t.Log(err)

	for _, compile := range []func(string) error{
		func(ptx string) error { _, err := g.LoadPTX([]byte(ptx), JITOptions{}); return err },
		func(ptx string) error { _, err := g.CompilePTX([]byte(ptx), JITOptions{}); return err },
	} {
		var e *Error
		err := compile(badPTX)
		require.ErrorAs(t, err, &e)
		assert.ErrorIs(t, err, ErrInvalidPTX)
		assert.Contains(t, e.Log, "line 7")
		assert.Contains(t, e.Log, "7 | \tbad.instruction")
		t.Log(err)
		var version *PTXVersionError
		err = compile(strings.Replace(gpuPTX, ".version 8.0", ".version 99.0", 1))
		assert.ErrorAs(t, err, &version)
		t.Log(err)
		err = compile(strings.Replace(strings.Replace(gpuPTX, "sm_90", "sm_100a", 1), "8.0", "8.6", 1))
		t.Log(err)
		assert.True(t, err != nil || g.dev.cc.Major == 10)
	}
	assert.True(t, g.Healthy())
}

// TestGPUTensorMap copies boxes by the tensor-map engine and compares every byte, so that the map that arrives in the
// kernel is the one that was encoded.
func TestGPUTensorMap(t *testing.T) {
	g := openGPU(t)
	const rows, cols = 100, 256
	data := randomBytes(rows * cols * 2)
	src, out := g.buffer(uint64(len(data))), g.buffer(1024)
	require.NoError(t, src.Upload(0, data))
	for _, swizzle := range []Swizzle{SwizzleNone, Swizzle128B} {
		spec := TensorMapSpec{
			Type: BFloat16, Rank: 2, Address: src.Ptr(), Dims: [5]uint64{cols, rows}, Strides: [4]uint64{cols * 2},
			Box: [5]uint32{64, 8}, Swizzle: swizzle, L2Promotion: L2Promotion256B,
		}
		m, err := g.EncodeTiled(&spec)
		require.NoError(t, err)
		for _, at := range [][2]int{{0, 0}, {64, 24}, {192, 96}, {224, 92}} { // the last two reach outside
			p := g.params(TensorMapBytes, 8, 4, 4)
			p.SetTensorMap(0, &m)
			p.SetPtr(1, out.Ptr())
			p.SetUint32(2, uint32(at[0]))
			p.SetUint32(3, uint32(at[1]))
			require.NoError(t, g.stream.Launch(g.function("tile"), LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 64}}, p))
			require.NoError(t, g.stream.Synchronize(t.Context()))
			got := make([]byte, 1024)
			require.NoError(t, out.Download(got, 0))
			want := make([]byte, 1024)
			for i := range 512 {
				row, col := at[1]+i/64, at[0]+i%64
				place := 2 * i
				if swizzle == Swizzle128B {
					place ^= (i / 64) << 4 // the chunk's number is XORed with the row's
				}
				if row < rows && col < cols {
					copy(want[place:place+2], data[2*(row*cols+col):])
				}
			}
			assert.True(t, bytes.Equal(want, got), "swizzle %d at %v", swizzle, at)
		}
	}
}

// TestGPUTensorMapRules compares this package's rules with the driver's on random specs. What passes here must pass
// there; what only the driver takes is counted.
func TestGPUTensorMapRules(t *testing.T) {
	g := openGPU(t)
	rng := rand.New(rand.NewPCG(3, 4))
	base := g.buffer(1 << 20).Ptr()
	laxer, both := map[string]int{}, 0
	for range 20_000 {
		s := randomSpec(rng, base)
		_, theirs := g.encode(&s)
		var ours *TensorMapError
		switch err := s.Check(); {
		case err == nil && theirs != nil:
			t.Errorf("the driver refuses %+v: %v", s, theirs)
		case err == nil:
			both++
		case theirs == nil && errors.As(err, &ours):
			laxer[ours.Field+" "+ours.Rule]++
		}
	}
	t.Logf("accepted by both: %d; refused here alone: %v", both, laxer)
}

// TestGPUGoroutines uses every device from many goroutines and threads at once.
func TestGPUGoroutines(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	var gpus []*gpu
	for _, dev := range gpuDevices(t) {
		gpus = append(gpus, onGPU(t, dev))
	}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			for r := range 10 {
				g := gpus[(i+r)%len(gpus)]
				if err := fillAndCheck(g.Context, g.function("fill"), uint32(i*10+r)); err != nil {
					t.Errorf("goroutine %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestGPUSignals holds that the driver leaves signals to Go: calls go on through a storm of them, and they arrive.
func TestGPUSignals(t *testing.T) {
	g := openGPU(t)
	fn := g.function("fill")
	signalStorm(t, func() error { return fillAndCheck(g.Context, fn, 5) })
}

// signalStorm makes calls while signals rain, and wants every one of three deliberate ones.
func signalStorm(t *testing.T, call func() error) {
	t.Helper()
	received := make(chan os.Signal, 100)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1)
	defer signal.Stop(received)
	stop, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				_ = syscall.Kill(os.Getpid(), syscall.SIGURG)
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
	for i := range 150 {
		if i%50 == 25 {
			must(t, syscall.Kill(os.Getpid(), []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1}[i/50]))
		}
		must(t, call())
	}
	close(stop)
	<-ended
	for range 3 {
		select {
		case <-received:
		case <-time.After(5 * time.Second):
			t.Fatal("a signal got lost")
		}
	}
}

// TestGPUPoisoned crashes a kernel in a process of its own.
func TestGPUPoisoned(t *testing.T) {
	gpuDevices(t)
	const env = "FSGEN_GPU_TEST_CRASH"
	if os.Getenv(env) == "" {
		out, err := child(t, "^TestGPUPoisoned$", env+"=1")
		t.Logf("%s", out)
		if err != nil || !strings.Contains(out, "--- PASS") {
			t.Fatal(err)
		}
		return
	}
	dev := gpuDevices(t)[0]
	c, err := dev.Context()
	must(t, err)
	m, err := c.LoadPTX([]byte(gpuPTX), JITOptions{})
	must(t, err)
	fn, err := m.Function("crash")
	must(t, err)
	s, err := c.NewStream()
	must(t, err)
	b, err := c.Alloc(16)
	must(t, err)
	must(t, s.Launch(fn, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, nil))
	err = s.Synchronize(t.Context())
	t.Log(err)
	assert.ErrorIs(t, err, ErrPoisoned)
	assert.False(t, c.Healthy())
	out := []byte("untouched")
	assert.ErrorIs(t, b.Download(out, 0), ErrPoisoned)
	assert.Equal(t, "untouched", string(out))
	for _, close := range []func() error{b.Close, s.Close, m.Close} {
		assert.ErrorIs(t, close(), ErrPoisoned)
	}
	assert.NoError(t, c.Close())
	c, err = dev.Context()
	if err == nil {
		err = c.Synchronize()
	}
	t.Logf("a new context in this process: %v", err)
}

func child(t *testing.T, run, env string) (string, error) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, "-test.v", "-test.run="+run)
	cmd.Env = append(os.Environ(), strings.Fields(env)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestGPUUnderTheCollectorsEye runs the others with the collector always at work.
func TestGPUUnderTheCollectorsEye(t *testing.T) {
	gpuDevices(t)
	out, err := child(t, "^TestGPU(Memory|LaunchAndGraph|TensorMap|Goroutines|Compile)$",
		"GOGC=1 GODEBUG=cgocheck=1,clobberfree=1 FSGEN_REQUIRE_GPU=1")
	if err != nil || !strings.Contains(out, "PASS: TestGPUGoroutines") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func BenchmarkGPULaunch(b *testing.B) {
	g := openGPU(b)
	fn, buf := g.function("fill"), g.buffer(4)
	p := g.params(8, 4, 4)
	p.SetPtr(0, buf.Ptr())
	cfg := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		must(b, g.stream.Launch(fn, cfg, p))
		if n++; n%512 == 0 { // else the queue fills up and the launch waits for the device
			b.StopTimer()
			must(b, g.stream.Synchronize(noCancel))
			b.StartTimer()
		}
	}
}

func BenchmarkGPUEventRecord(b *testing.B) {
	g := openGPU(b)
	e, err := g.NewEvent(false)
	must(b, err)
	g.close(e.Close)
	b.ReportAllocs()
	for b.Loop() {
		must(b, e.Record(g.stream))
	}
}

func BenchmarkGPUEncodeTiled(b *testing.B) {
	g := openGPU(b)
	spec := tile()
	b.ReportAllocs()
	for b.Loop() {
		_, err := g.EncodeTiled(&spec)
		must(b, err)
	}
}
