package driver

import (
	"fmt"
	"runtime"
	"structs"
)

// Dim3 is a size in up to three dimensions; 0 in Y or Z means 1.
type Dim3 struct{ X, Y, Z uint32 }

func (d Dim3) full() Dim3 { return Dim3{d.X, max(d.Y, 1), max(d.Z, 1)} }

// Count returns the product of the dimensions.
func (d Dim3) Count() uint64 {
	d = d.full()
	return uint64(d.X) * uint64(d.Y) * uint64(d.Z)
}

// LaunchConfig is the shape of a launch.
type LaunchConfig struct {
	// Grid is in blocks, Block in threads.
	Grid, Block Dim3
	// Cluster is in blocks; the zero value means that the launch names none, and the kernel's own .reqnctapercluster
	// applies.
	Cluster Dim3
	// SharedBytes is the dynamic shared memory of a block; more than 48 KiB needs Function.SetMaxDynamicShared.
	SharedBytes uint32
	// Programmatic lets the kernel begin once every block of the kernel ahead of it in the stream has ended or said
	// griddepcontrol.launch_dependents. It has to wait for the rest itself, by griddepcontrol.wait, before it touches what
	// that one may write (CUDA Programming Guide, "Programmatic Dependent Launch and Synchronization"). Where what is
	// ahead of it is no kernel (a copy, a fill, an event), it begins when that has ended, as without. A captured launch
	// becomes a node with a programmatic edge.
	Programmatic bool
}

// LaunchError is a launch that was refused, here or by the driver.
type LaunchError struct {
	Kernel string
	Config LaunchConfig
	Err    error
}

func (e *LaunchError) Error() string {
	c := e.Config
	return fmt.Sprintf("driver: launching %s, grid %v block %v cluster %v, %d bytes of dynamic shared memory: %v",
		e.Kernel, c.Grid.full(), c.Block.full(), c.Cluster, c.SharedBytes, e.Err)
}

// Unwrap returns what was wrong.
func (e *LaunchError) Unwrap() error { return e.Err }

// ConfigError is a launch configuration that no device takes.
type ConfigError struct{ Reason string }

func (e *ConfigError) Error() string { return e.Reason }

// check holds the configuration to what every device asks (CUDA Programming Guide, appendix "Compute Capabilities").
func (c *LaunchConfig) check() error {
	grid, block, cluster := c.Grid.full(), c.Block.full(), c.Cluster.full()
	switch {
	case grid.X == 0 || grid.X > 1<<31-1 || grid.Y > 65535 || grid.Z > 65535:
		return &ConfigError{fmt.Sprintf("grid %v: want 1 to 2^31-1 by 65535 by 65535", grid)}
	case block.X == 0 || block.Count() > 1024 || block.Z > 64:
		return &ConfigError{fmt.Sprintf("block %v: want 1 to 1024 threads, z at most 64", block)}
	case c.Cluster == Dim3{}:
		return nil
	case cluster.X == 0 || cluster.Count() > 16:
		return &ConfigError{fmt.Sprintf("cluster %v: want 1 to 16 blocks", cluster)}
	case grid.X%cluster.X != 0 || grid.Y%cluster.Y != 0 || grid.Z%cluster.Z != 0:
		return &ConfigError{fmt.Sprintf("grid %v: want a multiple of the cluster %v", grid, cluster)}
	}
	return nil
}

// cLaunchConfig and cLaunchAttribute are the driver's structures (CUlaunchConfig, CUlaunchAttribute).
type cLaunchConfig struct {
	_           structs.HostLayout
	grid, block Dim3
	sharedBytes uint32
	_           uint32
	stream      uintptr
	attributes  uintptr
	count       uint32
	_           uint32
}

type cLaunchAttribute struct {
	_     structs.HostLayout
	id    uint32
	_     uint32
	value [16]uint32
}

const (
	attributeCluster      = 4 // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
	attributeProgrammatic = 6 // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

	launchAttributes = 64  // where the attributes begin in a block, after the configuration
	launchBytes      = 256 // what both take
)

// writeLaunch lays out a launch at the beginning of a block outside the Go heap.
func writeLaunch(block []byte, cfg *LaunchConfig, stream uintptr) {
	count := uint32(0)
	attribute := func(id uint32, x, y, z uint32) {
		a := at[cLaunchAttribute](block, launchAttributes+72*int(count))
		*a = cLaunchAttribute{id: id}
		a.value[0], a.value[1], a.value[2] = x, y, z
		count++
	}
	if (cfg.Cluster != Dim3{}) {
		c := cfg.Cluster.full()
		attribute(attributeCluster, c.X, c.Y, c.Z)
	}
	if cfg.Programmatic {
		attribute(attributeProgrammatic, 1, 0, 0)
	}
	*at[cLaunchConfig](block, 0) = cLaunchConfig{
		grid: cfg.Grid.full(), block: cfg.Block.full(), sharedBytes: cfg.SharedBytes,
		stream: stream, attributes: address(block) + launchAttributes, count: count,
	}
}

// Launch enqueues a kernel. It allocates nothing, never waits for the device, and may be captured into a graph. The
// parameters are copied before it returns; params may be nil for a kernel without any. On top of the driver's own time
// it takes about 0.2 microseconds, nearly half of it for the crossing into C.
func (s *Stream) Launch(fn *Function, cfg LaunchConfig, params *Params) error {
	err := s.use()
	if err == nil {
		defer s.done()
		if fn.mod.primary == s.primary {
			return fn.LaunchOn(s.handle, cfg, params)
		}
		err = &ConfigError{fmt.Sprintf("the kernel is loaded on %v, the stream is on %v", fn.mod.primary.dev, s.primary.dev)}
	}
	return &LaunchError{Kernel: fn.name, Config: cfg, Err: err}
}

// LaunchOn is Stream.Launch on another library's CUstream, which must belong to the kernel's device.
func (fn *Function) LaunchOn(stream uintptr, cfg LaunchConfig, params *Params) error {
	if err := fn.launch(stream, &cfg, params); err != nil {
		return &LaunchError{Kernel: fn.name, Config: cfg, Err: err}
	}
	return nil
}

func (fn *Function) launch(stream uintptr, cfg *LaunchConfig, params *Params) error {
	if err := cfg.check(); err != nil {
		return err
	}
	if err := fn.mod.use(); err != nil {
		return err
	}
	defer fn.mod.done()
	if params == nil {
		f := getFrame()
		defer putFrame(f)
		block := f.mem[frameSpace:]
		writeLaunch(block, cfg, stream)
		return fn.mod.primary.call(f, cuLaunchKernelEx, address(block), fn.handle, 0, 0)
	}
	if !params.busy.CompareAndSwap(false, true) {
		return ErrBusy
	}
	defer params.busy.Store(false)
	if params.err != nil {
		return params.err
	}
	writeLaunch(params.block, cfg, stream)
	base := address(params.block)
	err := fn.mod.primary.call(params.frame, cuLaunchKernelEx, base, fn.handle, base+paramPointers, 0)
	runtime.KeepAlive(params)
	return err
}
