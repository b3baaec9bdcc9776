//go:build !fsgen_nocuda

package verify

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sampler"
)

// TestGPURecord runs the corpus on the first GPU and holds the simulator against its answers. With FSGEN_RECORD_OUT=FILE
// it writes them down: the recording that TestRecorded compares with where there is no GPU. FSGEN_RECORD_DATE=2026-12-31
// dates it (else the clock does); FSGEN_RECORD_DRIVER names the driver where the system does not.
func TestGPURecord(t *testing.T) {
	g := openGPU(t)
	trials := corpus(t)
	rec := &recording{GPU: g.dev.Name(), Driver: g.driver(t), Date: os.Getenv("FSGEN_RECORD_DATE")}
	if rec.Date == "" {
		rec.Date = time.Now().UTC().Format(time.DateOnly)
	}
	for _, tr := range trials {
		res, err := g.record(t.Context(), tr)
		require.NoError(t, err, "%s (%s)", tr.name, tr.pr)
		rec.Trials = append(rec.Trials, newRecordedRun(tr, res))
	}
	if path := os.Getenv("FSGEN_RECORD_OUT"); path != "" {
		text, err := rec.encode()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o644))
		t.Logf("%d trials of %s, driver %s, %s: %s", len(rec.Trials), rec.GPU, rec.Driver, rec.Date, path)
	}
	tiles, err := hold(t.Context(), trials, rec)
	require.NoError(t, err)
	t.Log(total(tiles))
}

// recorder launches kernels on a GPU by their manifests alone: no plan, no checks of arguments, no other grid than asked.
type recorder struct {
	drv *driver.Driver
	dev *driver.Device
	ctx *driver.Context
	sms int
}

// openGPU opens the first GPU if the corpus is for it, or skips with the reason; with FSGEN_REQUIRE_GPU set it fails.
func openGPU(t *testing.T) *recorder {
	g, err := newRecorder()
	if err != nil {
		if os.Getenv("FSGEN_REQUIRE_GPU") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, g.ctx.Close()) })
	return g
}

func newRecorder() (g *recorder, err error) {
	g = &recorder{}
	if g.drv, err = driver.Open(); err != nil {
		return nil, err
	}
	if g.dev, err = g.drv.Device(0); err != nil {
		return nil, err
	}
	if cc := g.dev.ComputeCapability(); !corpusArch.Target.RunsOn(cc) {
		return nil, fmt.Errorf("%s has compute capability %s; the corpus is for %s", g.dev.Name(), cc, corpusArch.Target)
	}
	if g.sms, err = g.dev.Attribute(driver.Multiprocessors); err != nil {
		return nil, err
	}
	g.ctx, err = g.dev.Context()
	return g, err
}

// driver is the exact release of the driver: a recording without one is worth little.
func (g *recorder) driver(t *testing.T) string {
	if name := os.Getenv("FSGEN_RECORD_DRIVER"); name != "" {
		return name
	}
	release := g.drv.Release()
	if os.Getenv("FSGEN_RECORD_OUT") != "" {
		require.NotEmpty(t, release, "the system does not tell the driver's release: set FSGEN_RECORD_DRIVER")
	}
	return release
}

// record runs a trial with the simulator's few CTAs and with all of the GPU, which must give the same bits, and holds them
// against the reference.
func (g *recorder) record(ctx context.Context, tr *trial) (*sampler.Result, error) {
	mod, err := g.ctx.LoadPTX(tr.kernel.PTX, driver.JITOptions{})
	if err != nil {
		return nil, err
	}
	defer mod.Close()
	few, err := g.launch(ctx, mod, tr, tr.ctas(corpusCTAs))
	if err != nil {
		return nil, err
	}
	cluster := tr.kernel.Manifest.Launch.Cluster[0]
	all, err := g.launch(ctx, mod, tr, tr.ctas(g.sms/cluster*cluster))
	if err != nil {
		return nil, err
	}
	if err := sameRows(all, few, span(0, tr.pr.batch)); err != nil {
		return nil, fmt.Errorf("on another grid: %w", err)
	}
	o, err := ask(ctx, tr.pr)
	if err != nil {
		return nil, err
	}
	return few, o.judge(&Check{}, nil, few)
}

// launch runs a trial once on a grid of a number of CTAs.
func (g *recorder) launch(ctx context.Context, mod *driver.Module, tr *trial, ctas int) (*sampler.Result, error) {
	m := tr.kernel.Manifest
	fn, err := mod.Function(m.Entry)
	if err != nil {
		return nil, err
	}
	if err := fn.SetMaxDynamicShared(m.Launch.SharedBytes); err != nil {
		return nil, err
	}
	mem := &gpuMemory{ctx: g.ctx, blocks: map[string]*driver.Buffer{}}
	defer mem.close()
	params, err := mem.fill(m, tr.in)
	if err != nil {
		return nil, err
	}
	if err := g.once(ctx, fn, config(m, ctas), params); err != nil {
		return nil, err
	}
	return mem.results(m, tr.in)
}

func (g *recorder) once(ctx context.Context, fn *driver.Function, cfg driver.LaunchConfig, params *driver.Params) error {
	stream, err := g.ctx.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := stream.Launch(fn, cfg, params); err != nil {
		return err
	}
	return stream.Synchronize(ctx)
}

func config(m *manifest.Kernel, ctas int) driver.LaunchConfig {
	dims := func(d [3]int) driver.Dim3 { return driver.Dim3{X: uint32(d[0]), Y: uint32(d[1]), Z: uint32(d[2])} }
	cfg := driver.LaunchConfig{Grid: dims([3]int{ctas, 1, 1}), Block: dims(m.Launch.Block), SharedBytes: uint32(m.Launch.SharedBytes)}
	if m.Launch.Cluster[0] > 1 {
		cfg.Cluster = dims(m.Launch.Cluster)
	}
	return cfg
}

// gpuMemory holds the arrays of one launch, by the manifest's names.
type gpuMemory struct {
	ctx    *driver.Context
	blocks map[string]*driver.Buffer
}

func (g *gpuMemory) close() {
	for _, b := range g.blocks {
		b.Close()
	}
}

// guard is how many bytes lie behind what a kernel may touch, and must stay as they are.
const guard = 256

var untouched = bytes.Repeat([]byte{poison}, guard)

func (g *gpuMemory) put(name string, data []byte) (driver.DevicePtr, error) {
	b, err := g.ctx.Alloc(uint64(len(data) + guard))
	if err != nil {
		return 0, err
	}
	g.blocks[name] = b
	return b.Ptr(), b.Upload(0, slices.Concat(data, untouched))
}

// fill uploads the inputs, poisons the outputs, zeroes the workspace and sets the parameters.
func (g *gpuMemory) fill(m *manifest.Kernel, in *inputs) (*driver.Params, error) {
	params, err := driver.NewParams(m.ParamSizes()...)
	if err != nil {
		return nil, err
	}
	for i, p := range m.Params {
		switch p.Kind {
		case manifest.Scalar:
			params.SetUint32(i, in.scalars[p.Name])
		case manifest.TensorMap:
			err = g.setTensor(params, i, p, in.tensors[p.Name])
		case manifest.Pointer:
			var ptr driver.DevicePtr
			ptr, err = g.put(p.Name, in.contents(p))
			params.SetPtr(i, ptr)
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.Name, err)
		}
	}
	return params, nil
}

func (g *gpuMemory) setTensor(params *driver.Params, i int, p manifest.Param, t tensor) error {
	ptr, err := g.put(p.Name, t.data)
	if err != nil {
		return err
	}
	promotion := map[int]driver.L2Promotion{64: driver.L2Promotion64B, 128: driver.L2Promotion128B, 256: driver.L2Promotion256B}
	encoded, err := g.ctx.EncodeTiled(&driver.TensorMapSpec{
		Type: driver.BFloat16, Rank: 2, Address: ptr,
		Dims: [5]uint64{uint64(t.cols), uint64(t.rows)}, Strides: [4]uint64{uint64(t.stride)}, Box: [5]uint32{p.Map.Box[0], p.Map.Box[1]},
		Swizzle: driver.Swizzle128B, L2Promotion: promotion[p.Map.L2Promote],
	})
	if err == nil {
		params.SetTensorMap(i, &encoded)
	}
	return err
}

// results downloads what the kernel wrote; what lies behind every array must be as it was.
func (g *gpuMemory) results(m *manifest.Kernel, in *inputs) (*sampler.Result, error) {
	raw := map[string][]byte{}
	for name, b := range g.blocks {
		all := make([]byte, b.Size())
		if err := b.Download(all, 0); err != nil {
			return nil, err
		}
		end := len(all) - guard
		if !bytes.Equal(all[end:], untouched) {
			return nil, fmt.Errorf("%s are written past their end", name)
		}
		raw[name] = all[:end]
	}
	return in.outputs(m, func(name string) []byte { return raw[name] })
}
