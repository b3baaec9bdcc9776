package driver

import (
	"errors"
)

// Function is a kernel of a module, usable while the module is open.
type Function struct {
	mod    *Module
	name   string
	handle uintptr
}

// FuncAttributes are the numbers that the compiler gave a kernel.
type FuncAttributes struct {
	MaxThreadsPerBlock int
	// StaticShared, Const and Local are bytes of static shared memory, constant memory, and local memory per thread.
	StaticShared, Const, Local int
	Registers                  int
	// PTXVersion and BinaryVersion are the architectures of the PTX and of the machine code, times ten.
	PTXVersion, BinaryVersion int
	// MaxDynamicShared is the present limit of dynamic shared memory, in bytes.
	MaxDynamicShared int
}

// Function attributes (CUDA Driver API, CUfunction_attribute).
const (
	funcMaxThreads         = 0
	funcStaticShared       = 1
	funcConst              = 2
	funcLocal              = 3
	funcRegisters          = 4
	funcPTXVersion         = 5
	funcBinaryVersion      = 6
	funcMaxDynamicShared   = 8
	funcSharedCarveout     = 9
	funcNonPortableCluster = 14
)

// Name returns the kernel's entry name.
func (fn *Function) Name() string { return fn.name }

// Handle returns the CUfunction, for other libraries.
func (fn *Function) Handle() uintptr { return fn.handle }

// preload loads the kernel's code now: left to itself the driver does it at the first launch (CUDA Programming Guide,
// "Lazy Loading"), which costs time there and fails in a capture. A driver without cuFuncLoad loads a kernel when its
// attributes are asked for.
func (fn *Function) preload(f *frame) error {
	p := fn.mod.primary
	err := p.call(f, cuFuncLoad, fn.handle)
	var missing *SymbolError
	if errors.As(err, &missing) {
		return p.call(f, cuFuncGetAttribute, f.out(0), funcRegisters, fn.handle)
	}
	return err
}

func (fn *Function) get(attribute uintptr) (int, error) {
	if err := fn.mod.use(); err != nil {
		return 0, err
	}
	defer fn.mod.done()
	f := getFrame()
	defer putFrame(f)
	if err := fn.mod.primary.call(f, cuFuncGetAttribute, f.out(0), attribute, fn.handle); err != nil {
		return 0, withDetail(err, "kernel %q, attribute %d", fn.name, attribute)
	}
	return f.int(0), nil
}

// Attributes returns the kernel's numbers.
func (fn *Function) Attributes() (a FuncAttributes, err error) {
	for _, row := range []struct {
		attribute uintptr
		to        *int
	}{
		{funcMaxThreads, &a.MaxThreadsPerBlock},
		{funcStaticShared, &a.StaticShared},
		{funcConst, &a.Const},
		{funcLocal, &a.Local},
		{funcRegisters, &a.Registers},
		{funcPTXVersion, &a.PTXVersion},
		{funcBinaryVersion, &a.BinaryVersion},
		{funcMaxDynamicShared, &a.MaxDynamicShared},
	} {
		if *row.to, err = fn.get(row.attribute); err != nil {
			return FuncAttributes{}, err
		}
	}
	return a, nil
}

func (fn *Function) set(attribute, value uintptr) error {
	err := fn.mod.call(cuFuncSetAttribute, fn.handle, attribute, value)
	return withDetail(err, "kernel %q, attribute %d = %d", fn.name, attribute, value)
}

// SetMaxDynamicShared allows launches with up to n bytes of dynamic shared memory; without it 48 KiB are the most.
func (fn *Function) SetMaxDynamicShared(n int) error { return fn.set(funcMaxDynamicShared, uintptr(n)) }

// PreferShared asks for all of a multiprocessor's memory as shared memory. Kernels that follow each other should agree: to divide it
// anew a multiprocessor must be idle.
func (fn *Function) PreferShared() error { return fn.set(funcSharedCarveout, 100) }

// SetNonPortableCluster allows clusters that are larger than every device of the architecture takes: more than 8.
func (fn *Function) SetNonPortableCluster(allowed bool) error {
	value := uintptr(0)
	if allowed {
		value = 1
	}
	return fn.set(funcNonPortableCluster, value)
}

// ParamSizes returns the sizes in bytes of the kernel's parameters in order, as the compiler laid them out: a check on
// whoever describes the kernel. It needs a driver for CUDA 12.4; older ones give a *SymbolError.
func (fn *Function) ParamSizes() ([]int, error) {
	if err := fn.mod.use(); err != nil {
		return nil, err
	}
	defer fn.mod.done()
	f := getFrame()
	defer putFrame(f)
	var sizes []int
	for {
		args := []uintptr{fn.handle, uintptr(len(sizes)), f.out(0), f.out(1)}
		code, err := fn.mod.primary.try(f, cuFuncGetParamInfo, args...)
		switch {
		case err != nil:
			return nil, err
		case code == ErrInvalidValue: // there is no such parameter
			return sizes, nil
		case code != success:
			return nil, fn.mod.primary.newError(cuFuncGetParamInfo, code)
		}
		sizes = append(sizes, int(f.word(1)))
	}
}

// MaxActiveBlocks returns how many blocks of the kernel fit on one multiprocessor.
func (fn *Function) MaxActiveBlocks(threads, dynamicShared int) (int, error) {
	if err := fn.mod.use(); err != nil {
		return 0, err
	}
	defer fn.mod.done()
	f := getFrame()
	defer putFrame(f)
	err := fn.mod.primary.call(f, cuOccupancyMaxActiveBlocksPerMultiprocessor,
		f.out(0), fn.handle, uintptr(threads), uintptr(dynamicShared))
	if err != nil {
		return 0, withDetail(err, "kernel %q", fn.name)
	}
	return f.int(0), nil
}

// MaxActiveClusters returns how many clusters of a launch fit on the device at a time, which bounds a persistent grid.
// The launch must name its cluster; its grid only has to be valid.
func (fn *Function) MaxActiveClusters(cfg LaunchConfig) (int, error) {
	if err := cfg.check(); err != nil {
		return 0, &LaunchError{Kernel: fn.name, Config: cfg, Err: err}
	}
	if err := fn.mod.use(); err != nil {
		return 0, err
	}
	defer fn.mod.done()
	f := getFrame()
	defer putFrame(f)
	block := f.mem[frameSpace:]
	cfg.Programmatic = false // says nothing about what fits
	writeLaunch(block, &cfg, 0)
	err := fn.mod.primary.call(f, cuOccupancyMaxActiveClusters, f.out(0), fn.handle, address(block))
	if err != nil {
		return 0, &LaunchError{Kernel: fn.name, Config: cfg, Err: err}
	}
	return f.int(0), nil
}
