//go:build !fsgen_nocuda

package sampler

import (
	"bytes"
	"context"
	"fmt"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/cache"
)

func init() { openCUDA = newCUDA }

// cudaDevice is one GPU, through its primary context.
type cudaDevice struct {
	drv     *driver.Driver
	dev     *driver.Device
	ctx     *driver.Context
	arch    arch.Arch
	cache   *cache.Cache
	tunings *tuner
	name    string
}

func newCUDA(ordinal int) (backend, error) {
	drv, err := driver.Open()
	if err != nil {
		return nil, err
	}
	dev, err := drv.Device(ordinal)
	if err != nil {
		return nil, err
	}
	cc := dev.ComputeCapability()
	a, err := arch.ForDevice(dev.Name(), cc)
	if err != nil {
		return nil, err
	}
	if have := drv.Version().PTX(); have.Less(a.MinPTX) {
		return nil, fmt.Errorf("driver %s reads PTX up to %s; kernels for %s need %s: update the driver", drv.Version(), have, a.Target, a.MinPTX)
	}
	ctx, err := dev.Context()
	if err != nil {
		return nil, err
	}
	d := &cudaDevice{drv: drv, dev: dev, ctx: ctx, arch: a, cache: cache.Open(cache.Options{}), name: fmt.Sprintf("cuda:%d", ordinal)}
	d.tunings = &tuner{d.gpu(), autotune.OpenStore(d.cache, nil), autotune.Builtin}
	return d, nil
}

// gpu names the driver by its release too, where the system tells: releases of one CUDA version bring other compilers.
func (d *cudaDevice) gpu() autotune.GPU {
	version := d.drv.Version().String()
	if r := d.drv.Release(); r != "" {
		version += " (" + r + ")"
	}
	return autotune.GPU{Name: d.dev.Name(), Multiprocessors: d.sms(), Driver: version}
}

func (d *cudaDevice) tuner() *tuner { return d.tunings }

func (d *cudaDevice) info() Info {
	return Info{Name: d.name, Product: d.dev.Name(), Arch: d.arch.Name, Driver: d.drv.Version().String(), UUID: fmt.Sprint(d.dev.UUID())}
}

func (d *cudaDevice) healthy() error { return d.ctx.Err() }
func (d *cudaDevice) close() error   { return d.ctx.Close() }

// wholeProgram reports whether the PTX has to be compiled as a whole program. An image to keep comes from the driver's
// linker alone: nothing in the driver's interface gives back that of a module that was compiled as it was loaded. And the
// linker compiles for a program of which there may be more, where setmaxnreg is ignored (ptxas C7504).
func wholeProgram(ptx []byte) bool { return bytes.Contains(ptx, []byte("setmaxnreg")) }

// load compiles a kernel, or finds it compiled in the cache, and loads it. What the driver must compile as a whole stands in
// the driver's own cache instead. An image that the driver will not take is forgotten, and the PTX compiled again.
func (d *cudaDevice) load(ctx context.Context, ptx []byte) (*driver.Module, error) {
	opts := driver.JITOptions{}
	if wholeProgram(ptx) {
		return d.ctx.LoadPTX(ptx, opts)
	}
	key := d.ctx.ImageKey(ptx, opts)
	image, err := d.cache.GetOrMake(ctx, key, func(context.Context) ([]byte, error) {
		img, err := d.ctx.CompilePTX(ptx, opts)
		if err != nil {
			return nil, err
		}
		return img.Cubin, nil
	})
	if err != nil {
		return nil, err
	}
	mod, err := d.ctx.LoadImage(image)
	if err == nil {
		return mod, nil
	}
	d.cache.Remove(key)
	return d.ctx.LoadPTX(ptx, opts)
}
