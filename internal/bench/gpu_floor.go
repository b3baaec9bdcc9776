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

// floor reads the weights once and computes nothing (templates.Stream).
func (r *rig) floor() (Contender, error) {
	a, err := arch.Lookup(r.dev.Info().Arch)
	if err != nil {
		return Contender{}, err
	}
	k, err := templates.Stream(a)
	if err != nil {
		return Contender{}, err
	}
	mod, err := r.ctx.LoadPTX([]byte(k.Module.String()), driver.JITOptions{})
	if err != nil {
		return Contender{}, err
	}
	r.Keep(mod)
	fn, err := mod.Function(templates.StreamEntry)
	if err != nil {
		return Contender{}, err
	}
	if err := fn.SetMaxDynamicShared(templates.StreamShared); err != nil {
		return Contender{}, err
	}
	return r.floorContender(fn)
}

// floorContender launches the stream kernel with one CTA, which its shared memory fills, on each multiprocessor.
func (r *rig) floorContender(fn *driver.Function) (Contender, error) {
	ctas, err := r.gpu.Attribute(driver.Multiprocessors)
	if err != nil {
		return Contender{}, err
	}
	sink, err := alloc(r.ctx, &r.Scope, 4)
	if err != nil {
		return Contender{}, err
	}
	params, err := driver.NewParams(8, 4, 8)
	if err != nil {
		return Contender{}, err
	}
	params.SetPtr(0, r.weights.Ptr())
	params.SetUint32(1, uint32(r.weights.Size()/templates.StreamBlock))
	params.SetPtr(2, sink.Ptr())
	cfg := driver.LaunchConfig{Grid: driver.Dim3{X: uint32(ctas)}, Block: driver.Dim3{X: templates.StreamThreads}, SharedBytes: templates.StreamShared}
	return r.graph(&r.Scope, Floor, fmt.Sprintf("%s, %d CTAs", templates.StreamEntry, ctas), func() error { return r.stream.Launch(fn, cfg, params) })
}
