package driver

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// EnvLibrary names the environment variable that names another driver library.
const EnvLibrary = "FSGEN_CUDA_LIB"

// Driver is a loaded and started driver library. There is one for each library, for the life of the process.
type Driver struct {
	path    string
	handle  uintptr
	version Version
	addr    [numSymbols]atomic.Uintptr

	mu        sync.Mutex
	primaries map[int]*primary // by ordinal
}

var drivers struct {
	sync.Mutex
	open map[string]*Driver
}

// Open loads and starts the driver: the library that FSGEN_CUDA_LIB names, else the system's. Later calls return the
// same Driver; a failure is not remembered, so that a later call may succeed. Errors are a *LoadError, a *SymbolError
// or one that is ErrUnsupportedPlatform.
func Open() (*Driver, error) { return OpenLibrary(os.Getenv(EnvLibrary)) }

// OpenLibrary is Open for a library given by path, or by name where the system's loader finds it; "" is the system's
// driver.
func OpenLibrary(path string) (*Driver, error) {
	if len(libraryNames) == 0 {
		return nil, platformError{}
	}
	drivers.Lock()
	defer drivers.Unlock()
	if d := drivers.open[path]; d != nil {
		return d, nil
	}
	d, err := load(path)
	if err != nil {
		return nil, err
	}
	if err := d.start(); err != nil {
		return nil, err
	}
	if drivers.open == nil {
		drivers.open = map[string]*Driver{}
	}
	drivers.open[path] = d
	return d, nil
}

func load(path string) (*Driver, error) {
	names := []string{path}
	if path == "" {
		names = libraryNames
	}
	var first *LoadError
	for _, name := range names {
		handle, err := dlopen(name)
		if err == nil {
			return &Driver{path: name, handle: handle, primaries: map[int]*primary{}}, nil
		}
		failure := &LoadError{Path: name, Reason: loadReason(err), Err: err}
		// A library that is there but unfit explains more than one that is not there.
		if first == nil || first.Reason == LibraryMissing && failure.Reason != LibraryMissing {
			first = failure
		}
	}
	return nil, first
}

// start runs cuInit, which every other call needs.
func (d *Driver) start() error {
	f := getFrame()
	defer putFrame(f)
	if err := d.call(f, cuInit, 0); err != nil {
		return initError(d.path, err)
	}
	if err := d.call(f, cuDriverGetVersion, f.out(0)); err != nil {
		return initError(d.path, err)
	}
	d.version = Version(f.int(0))
	return nil
}

// initError makes a failed call a LoadError and leaves a missing symbol as it is.
func initError(path string, err error) error {
	var call *Error
	if errors.As(err, &call) {
		return &LoadError{Path: path, Reason: InitFailed, Err: call}
	}
	return err
}

// Path returns the library's path or name.
func (d *Driver) Path() string { return d.path }

// Version returns the newest CUDA version that the driver supports.
func (d *Driver) Version() Version { return d.version }

// Release returns the exact driver release, such as "580.95.05", or "" where the system does not say.
func (d *Driver) Release() string { return kernelModuleVersion() }

// lookup returns the address of a driver function, or a *SymbolError.
func (d *Driver) lookup(s symbol) (uintptr, error) {
	if p := d.addr[s].Load(); p != 0 {
		return p, nil
	}
	p, err := dlsym(d.handle, symbols[s].name)
	if err != nil || p == 0 {
		return 0, &SymbolError{Symbol: symbols[s].name, Feature: symbols[s].feature, Library: d.path}
	}
	d.addr[s].Store(p)
	return p, nil
}

// call makes a call that needs no context.
func (d *Driver) call(f *frame, s symbol, args ...uintptr) error {
	fn, err := d.lookup(s)
	if err != nil {
		return err
	}
	n := copy(f.call.args[:], args)
	code := invoke(fn, f.call.args[:n])
	runtime.KeepAlive(f)
	if code != success {
		return d.newError(s, code)
	}
	return nil
}

// newError describes a failed call in the driver's words.
func (d *Driver) newError(s symbol, code Code) *Error {
	f := getFrame()
	defer putFrame(f)
	return &Error{
		Code: code,
		Name: d.describe(f, cuGetErrorName, code, "CUDA_ERROR_?"),
		Text: d.describe(f, cuGetErrorString, code, "no description"),
		Call: symbols[s].name,
	}
}

func (d *Driver) describe(f *frame, s symbol, code Code, unknown string) string {
	fn, err := d.lookup(s)
	if err != nil {
		return unknown
	}
	n := copy(f.call.args[:], []uintptr{uintptr(code), f.out(0)})
	if invoke(fn, f.call.args[:n]) != success || f.cString(0) == "" {
		return unknown
	}
	return f.cString(0)
}
