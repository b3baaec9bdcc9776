//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package sampler

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

// globalMaps emits a kernel for temperature that is given addresses of its tensor maps.
func globalMaps(t testing.TB, a arch.Arch, batch int, layout Layout) *gen.Artifact {
	t.Helper()
	out, err := gen.Emit(gen.Request{Arch: a, Computation: ir.Computation{Chain: ir.Chain{Temperature: true}}, Batch: batch,
		Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Options: templates.Options{Weights: layout, TensorMaps: templates.InGlobal}})
	require.NoError(t, err)
	return out
}

// mapAt reads what lies at an address of the fake's device memory: the address and the size of a matrix, as the fake encodes them.
func (f *fakeCUDA) mapAt(at uint64) (address, rows uint64) {
	f.t.Helper()
	raw := make([]byte, driver.TensorMapBytes)
	require.NoError(f.t, f.b.(*cudaDevice).ctx.CopyFromDevice(raw, driver.DevicePtr(at)))
	return binary.LittleEndian.Uint64(raw[16:]), binary.LittleEndian.Uint64(raw[64:])
}

func TestTensorMapsInDeviceMemory(t *testing.T) {
	f := openFake(t)
	l, args := f.launcher(Spec{MaxBatch: 8, Artifact: globalMaps(t, f.b.(*cudaDevice).arch, 8, RowMajor)}, 8)
	seen := map[uint64]DeviceArgs{}
	for range 2 {
		for i := range 6 {
			a := *args
			a.Hidden, a.Batch = args.Hidden+uint64(i%3)<<12, 8-i/3
			require.NoError(t, l.Launch(0, &a))
			address, rows := f.mapAt(f.param(l, templates.ParamWeights))
			assert.Equal(t, []uint64{1 << 20, 1000}, []uint64{address, rows})
			at := f.param(l, templates.ParamHidden)
			address, rows = f.mapAt(at)
			assert.Equal(t, []uint64{a.Hidden, uint64(a.Batch)}, []uint64{address, rows})
			assert.Zero(t, at%64)
			if old, there := seen[at]; there {
				assert.Equal(t, old, a, "a place stays that of its matrix: graphs name it")
			}
			seen[at] = a
		}
	}
	assert.Len(t, seen, 6)
}

func TestPlacesForTensorMapsEnd(t *testing.T) {
	f := openFake(t)
	l, args := f.launcher(Spec{MaxBatch: 8, Artifact: globalMaps(t, f.b.(*cudaDevice).arch, 8, RowMajor)}, 8)
	a := *args
	for i := range storedMaps {
		a.Hidden = args.Hidden + uint64(i)<<12
		require.NoError(t, l.Launch(0, &a))
	}
	a.Hidden = args.Hidden - 1<<12
	var e *InputError
	require.ErrorAs(t, l.Launch(0, &a), &e)
	assert.Equal(t, storedMaps, e.Value)
	require.NoError(t, l.Launch(0, args), "what is known stays so")
	l.laid[0].stored.forget()
	require.NoError(t, l.Launch(0, &a), "calls of Sample begin anew")
}

func TestSimGlobalTensorMaps(t *testing.T) {
	dev, err := Open("sim:sm_90")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	sameTokensByGlobalMaps(t, dev, arch.SM90)
}

func TestGPUGlobalTensorMaps(t *testing.T) {
	dev := gpu(t)
	sameTokensByGlobalMaps(t, dev, dev.b.(*cudaDevice).arch)
}

func sameTokensByGlobalMaps(t *testing.T, dev *Device, a arch.Arch) {
	p := newProblem(rand.New(rand.NewPCG(5, 6)), 300, 64, 9)
	cpu, err := Open(CPU)
	require.NoError(t, err)
	weights := Weights{Source: Matrix{Data: p.w, Hidden: p.d}, Vocab: p.v, Hidden: p.d}
	spec := Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: 16}
	want := sampleOn(t, cpu, weights, spec, p)
	for _, weights.Layout = range []Layout{RowMajor, Packed} {
		spec.Artifact = globalMaps(t, a, 16, weights.Layout)
		require.Equal(t, manifest.TensorMapPointer, spec.Artifact.Manifest.Param(templates.ParamHidden).Kind)
		require.Equal(t, want.Tokens, sampleOn(t, dev, weights, spec, p).Tokens)
	}
}

// sampleOn loads a head, plans and samples, twice.
func sampleOn(t *testing.T, dev *Device, w Weights, spec Spec, p *problem) *Result {
	t.Helper()
	head, err := dev.LoadHead(t.Context(), w)
	require.NoError(t, err)
	defer head.Close()
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	defer plan.Close()
	first, err := plan.Sample(t.Context(), p.h, p.rowsFor(spec))
	require.NoError(t, err)
	again, err := plan.Sample(t.Context(), p.h, p.rowsFor(spec))
	require.NoError(t, err)
	require.Equal(t, first.Tokens, again.Tokens)
	return first
}
