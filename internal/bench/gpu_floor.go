//go:build !fsgen_nocuda

package bench

import (
	"fmt"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/templates"
)

// roundUp rounds a size in bytes up to whole blocks of the stream kernel.
func roundUp(size uint64) uint64 {
	return (size + templates.StreamBlock - 1) / templates.StreamBlock * templates.StreamBlock
}

// floors read the weights once and compute nothing (templates.Stream), in each way of launching: what kernels gain by
// overlapping, the floor has to gain too. It may, since it reads what nobody writes.
func (r *rig) floors() ([]Contender, error) {
	a, err := arch.Lookup(r.dev.Info().Arch)
	if err != nil {
		return nil, err
	}
	k, err := templates.Stream(a)
	if err != nil {
		return nil, err
	}
	mod, err := r.ctx.LoadPTX([]byte(k.Module.String()), driver.JITOptions{})
	if err != nil {
		return nil, err
	}
	r.Keep(mod)
	fn, err := mod.Function(templates.StreamEntry)
	if err != nil {
		return nil, err
	}
	if err := fn.SetMaxDynamicShared(templates.StreamShared); err != nil {
		return nil, err
	}
	return r.floorContenders(fn)
}

// floorContenders launch the stream kernel with one CTA, which its shared memory fills, on each multiprocessor.
func (r *rig) floorContenders(fn *driver.Function) (list []Contender, err error) {
	ctas, err := r.gpu.Attribute(driver.Multiprocessors)
	if err != nil {
		return nil, err
	}
	params, err := r.floorParams()
	if err != nil {
		return nil, err
	}
	for _, launch := range r.cfg.Launches {
		cfg := driver.LaunchConfig{Grid: driver.Dim3{X: uint32(ctas)}, Block: driver.Dim3{X: templates.StreamThreads},
			SharedBytes: templates.StreamShared, Programmatic: launch == Overlap}
		c, err := r.graph(&r.Scope, Floor, fmt.Sprintf("%s, %d CTAs", templates.StreamEntry, ctas), func() error { return r.stream.Launch(fn, cfg, params) })
		if err != nil {
			return nil, err
		}
		c.Launch = launch
		list = append(list, c)
	}
	return list, nil
}

func (r *rig) floorParams() (*driver.Params, error) {
	sink, err := alloc(r.ctx, &r.Scope, 4)
	if err != nil {
		return nil, err
	}
	params, err := driver.NewParams(8, 4, 8)
	if err != nil {
		return nil, err
	}
	params.SetPtr(0, r.weights.Ptr())
	params.SetUint32(1, uint32(r.weights.Size()/templates.StreamBlock))
	params.SetPtr(2, sink.Ptr())
	return params, nil
}
