package sampler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Names of devices for Open.
const (
	// Auto is a usable GPU if there is one, else the CPU.
	Auto = "auto"
	// CPU is the reference in plain Go.
	CPU = "cpu"
	// CUDA is the first GPU; "cuda:1" the second.
	CUDA = "cuda"
)

// ErrClosed is returned by calls on something that has been closed.
var ErrClosed = errors.New("sampler: closed")

// NoGPUError says why no GPU can be used.
type NoGPUError struct {
	Device string
	Err    error
}

func (e *NoGPUError) Error() string {
	return fmt.Sprintf("sampler: device %s: no usable GPU: %v", e.Device, e.Err)
}

// Unwrap returns the reason.
func (e *NoGPUError) Unwrap() error { return e.Err }

// Info describes an open device.
type Info struct {
	// Name is what Open takes: "cuda:0" or "cpu".
	Name string
	// Product is the hardware's own name.
	Product string
	// Arch is the architecture whose kernels run there; empty for the CPU.
	Arch string
	// Driver is the version of the GPU driver; empty for the CPU.
	Driver string
	// UUID identifies a GPU.
	UUID string
	// Fallback says why Auto did not take a GPU; nil if it did.
	Fallback error
}

// backend is a device under the API; heads and plans below it.
type backend interface {
	info() Info
	loadHead(ctx context.Context, w Weights) (headBackend, error)
	healthy() error
	close() error
}

type headBackend interface {
	plan(ctx context.Context, spec Spec) (planBackend, error)
	close() error
}

type planBackend interface {
	sample(ctx context.Context, b *batch) (*Result, error)
	kernels() []string
	close() error
}

// openCUDA is set by the CUDA backend, where it is built in.
var openCUDA func(ordinal int) (backend, error)

// Device is an open device.
type Device struct {
	b    backend
	open lifetime
}

func newDevice(b backend) *Device {
	d := &Device{b: b}
	d.open.begin(nil, b.close)
	return d
}

// Open opens a device: Auto, CPU, CUDA, "cuda:N", or "sim:sm_90" and "sim:sm_100", which run the kernels of an architecture
// on the CPU: slowly, and reporting every fault. Auto tells in Info.Fallback why it did not take a GPU. A name that there is none of
// is an *InputError.
func Open(name string) (*Device, error) {
	switch {
	case name == CPU:
		return newDevice(newCPU(nil)), nil
	case name == Auto:
		b, err := openGPU(CUDA, 0)
		if err != nil {
			b = newCPU(err)
		}
		return newDevice(b), nil
	case name == CUDA:
		return openDevice(name, 0)
	}
	if a, ok := strings.CutPrefix(name, "sim:"); ok {
		b, err := newSim(a)
		if err != nil {
			return nil, refuse("device", fmt.Errorf("sampler: device %s: %w", name, err))
		}
		return newDevice(b), nil
	}
	if n, ok := strings.CutPrefix(name, "cuda:"); ok {
		if ordinal, err := strconv.Atoi(n); err == nil && ordinal >= 0 {
			return openDevice(name, ordinal)
		}
	}
	return nil, unknownDevice(name)
}

func unknownDevice(name string) error {
	return refuse("device", fmt.Errorf("sampler: unknown device %q: want auto, cpu, cuda, cuda:N or sim:ARCH", name))
}

func openDevice(name string, ordinal int) (*Device, error) {
	b, err := openGPU(name, ordinal)
	if err != nil {
		return nil, err
	}
	return newDevice(b), nil
}

func openGPU(name string, ordinal int) (backend, error) {
	if openCUDA == nil {
		return nil, &NoGPUError{name, errors.New("this build has no CUDA support")}
	}
	b, err := openCUDA(ordinal)
	if err != nil {
		return nil, &NoGPUError{name, err}
	}
	return b, nil
}

// Info describes the device.
func (d *Device) Info() Info { return d.b.info() }

// Healthy returns nil, or the error that made the device useless: a poisoned context stays so, and a closed one is ErrClosed.
func (d *Device) Healthy() error { return d.open.healthy(d.b.healthy) }

// Close closes the device's heads, and releases it.
func (d *Device) Close() error { return d.open.close() }
