//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"fmt"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

// cudaKernel is a loaded kernel. Everything that a launch needs is read from its manifest.
type cudaKernel struct {
	m        *manifest.Kernel
	mod      *driver.Module
	fn       *driver.Function
	resident int  // CTAs that the GPU holds at once
	overlaps bool // it may begin beside the kernel before it
	ctas     int  // as tuned; 0: the grid's rule
	weights  driver.TensorMap
	setters  []setter
}

// setter fills in one parameter of a launch.
type setter func(l *Launcher, p *driver.Params, i int, a *DeviceArgs) error

func (h *cudaHead) loadKernel(ctx context.Context, b bucket, serial bool) (*cudaKernel, error) {
	a := b.Artifact
	d, k := h.dev, &cudaKernel{m: a.Manifest, ctas: b.CTAs, overlaps: a.Manifest.Launch.Programmatic && !serial}
	if err := gen.CheckPTX(a.Manifest, a.PTX); err != nil {
		return nil, err
	}
	if !a.Manifest.Target.RunsOn(h.dev.dev.ComputeCapability()) {
		return nil, &InputError{"kernel target", "want one that runs on " + d.dev.Name(), a.Manifest.Target}
	}
	for _, p := range a.Manifest.Params {
		set, ok := setters[p.Name]
		if !ok {
			return nil, &InputError{"kernel parameter", "this fsgen does not know it", p.Name}
		}
		k.setters = append(k.setters, set)
	}
	var err error
	if k.mod, err = d.load(ctx, a.PTX); err != nil {
		return nil, err
	}
	if err := k.prepare(h); err != nil {
		k.mod.Close()
		return nil, err
	}
	return k, nil
}

// prepare encodes the weights' tensor map, finds the entry, raises its shared memory and asks how many CTAs fit.
func (k *cudaKernel) prepare(h *cudaHead) error {
	d := h.dev
	var err error
	if h.layout == RowMajor {
		p := k.m.Param(templates.ParamWeights)
		if p == nil || p.Map == nil {
			return &InputError{"kernel parameter", "a kernel has a tensor map of the weights", templates.ParamWeights}
		}
		if k.weights, err = h.encode(&driver.TensorMapSpec{}, p.Map, h.ptr, h.shape.Vocab, h.ld); err != nil {
			return err
		}
	}
	if k.fn, err = k.mod.Function(k.m.Entry); err != nil {
		return err
	}
	if err := k.fn.SetMaxDynamicShared(k.m.Launch.SharedBytes); err != nil {
		return err
	}
	if cluster := k.m.Launch.Cluster[0]; cluster > 1 {
		cfg := k.config(d.sms() / cluster * cluster)
		clusters, err := k.fn.MaxActiveClusters(cfg)
		if err != nil {
			return err
		}
		k.resident = clusters * cluster
	} else {
		blocks, err := k.fn.MaxActiveBlocks(k.m.Launch.Block[0], k.m.Launch.SharedBytes)
		if err != nil {
			return err
		}
		k.resident = blocks * d.sms()
	}
	if k.resident < k.m.Launch.Cluster[0] {
		return fmt.Errorf("kernel %s does not fit on %s", k.m.Entry, d.dev.Name())
	}
	return nil
}

func (k *cudaKernel) config(ctas int) driver.LaunchConfig {
	cfg := driver.LaunchConfig{
		Grid:        driver.Dim3{X: uint32(ctas), Y: 1, Z: 1},
		Block:       driver.Dim3{X: uint32(k.m.Launch.Block[0]), Y: 1, Z: 1},
		SharedBytes: uint32(k.m.Launch.SharedBytes), Programmatic: k.overlaps,
	}
	if c := k.m.Launch.Cluster[0]; c > 1 {
		cfg.Cluster = driver.Dim3{X: uint32(c), Y: 1, Z: 1}
	}
	return cfg
}

func scalar(value func(l *Launcher, a *DeviceArgs) int) setter {
	return func(l *Launcher, p *driver.Params, i int, a *DeviceArgs) error {
		p.SetUint32(i, uint32(value(l, a)))
		return nil
	}
}

func pointer(name string, value func(l *Launcher, a *DeviceArgs) uint64) setter {
	return func(l *Launcher, p *driver.Params, i int, a *DeviceArgs) error {
		ptr := value(l, a)
		if ptr == 0 {
			return &InputError{name, "the kernel needs its device address", nil}
		}
		p.SetPtr(i, driver.DevicePtr(ptr))
		return nil
	}
}

func stride(perRow func(a *DeviceArgs) bool) setter {
	return scalar(func(_ *Launcher, a *DeviceArgs) int {
		if perRow(a) {
			return 1
		}
		return 0
	})
}

// setters know every parameter that fsgen's kernels have.
var setters = map[string]setter{
	templates.ParamWeights: func(l *Launcher, p *driver.Params, i int, _ *DeviceArgs) error {
		p.SetTensorMap(i, &l.kernel.weights)
		return nil
	},
	templates.ParamPackedWeights: pointer("packed weights", func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.plan.head.ptr) }),
	templates.ParamHidden: func(l *Launcher, p *driver.Params, i int, a *DeviceArgs) error {
		m, err := l.ready.hiddenMap(l, l.kernel.m.Params[i].Map, a)
		if err == nil {
			p.SetTensorMap(i, m)
		}
		return err
	},
	templates.ParamVocab:             scalar(func(l *Launcher, _ *DeviceArgs) int { return l.plan.head.shape.Vocab }),
	templates.ParamHiddenSize:        scalar(func(l *Launcher, _ *DeviceArgs) int { return l.plan.head.shape.Hidden }),
	templates.ParamBatch:             scalar(func(_ *Launcher, a *DeviceArgs) int { return a.Batch }),
	templates.ParamSeeds:             pointer("seeds", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Seeds }),
	templates.ParamSeedStride:        stride(func(a *DeviceArgs) bool { return !a.OneSeed }),
	templates.ParamPositions:         pointer("positions", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Positions }),
	templates.ParamPositionStride:    stride(func(a *DeviceArgs) bool { return !a.OnePosition }),
	templates.ParamDraw:              scalar(func(_ *Launcher, a *DeviceArgs) int { return int(a.Draw) }),
	templates.ParamStreamTag:         scalar(func(_ *Launcher, a *DeviceArgs) int { return int(a.StreamTag) }),
	templates.ParamTemperature:       pointer("temperature", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Temperature }),
	templates.ParamTemperatureStride: stride(func(a *DeviceArgs) bool { return !a.OneTemperature }),
	templates.ParamBias:              pointer("bias", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Bias }),
	templates.ParamBiasStride:        scalar(func(_ *Launcher, a *DeviceArgs) int { return a.BiasStride }),
	templates.ParamMask:              pointer("mask", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Mask }),
	templates.ParamMaskStride:        scalar(func(_ *Launcher, a *DeviceArgs) int { return a.MaskStride }),
	templates.ParamMaskWords:         scalar(func(_ *Launcher, a *DeviceArgs) int { return a.MaskWords }),
	templates.ParamTokens:            pointer("tokens", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Tokens }),
	templates.ParamStatus:            pointer("status", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Status }),
	templates.ParamScores:            pointer("scores", func(_ *Launcher, a *DeviceArgs) uint64 { return a.Scores }),
	templates.ParamLogSumExp:         pointer("log-sum-exp", func(_ *Launcher, a *DeviceArgs) uint64 { return a.LogSumExp }),
	templates.ParamKeys:              pointer("keys", func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.keys()) }),
	templates.ParamPartials:          pointer("partial sums", func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.partials()) }),
	templates.ParamTicket:            pointer("ticket", func(l *Launcher, _ *DeviceArgs) uint64 { return uint64(l.ticket()) }),
}
