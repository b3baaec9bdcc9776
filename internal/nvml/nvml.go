package nvml

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/fsgen/fsgen/internal/dynlib"
)

// EnvLibrary names the environment variable that names another management library.
const EnvLibrary = "FSGEN_NVML_LIB"

var libraryNames = []string{"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1",
	"/run/opengl-driver/lib/libnvidia-ml.so.1"}

// Error is a call that failed.
type Error struct {
	// Code is the nvmlReturn_t, Text the library's words for it.
	Code int
	Text string
	Call string
}

func (e *Error) Error() string { return fmt.Sprintf("nvml: %s: %s (%d)", e.Call, e.Text, e.Code) }

// Library is a loaded and started management library.
type Library struct {
	lib  *dynlib.Library
	text dynlib.Func // 0: the library has none
}

// Open loads and starts the library: the one that FSGEN_NVML_LIB names, else the system's. Close it when done.
func Open() (*Library, error) {
	names := libraryNames
	if name := os.Getenv(EnvLibrary); name != "" {
		names = []string{name}
	}
	lib, err := dynlib.Open(names...)
	if err != nil {
		return nil, fmt.Errorf("nvml: %w", err)
	}
	l := &Library{lib: lib}
	l.text, _ = lib.Func("nvmlErrorString")
	return l, l.call("nvmlInit_v2")
}

// Close stops the library.
func (l *Library) Close() error { return l.call("nvmlShutdown") }

// call calls a function by name.
//
//go:uintptrescapes
func (l *Library) call(name string, args ...uintptr) error {
	f, err := l.lib.Func(name)
	if err != nil {
		return err
	}
	code := int(int32(uint32(f.Call(args...))))
	if code == 0 {
		return nil
	}
	text := "error"
	if l.text != 0 {
		text = l.text.Text(code)
	}
	return &Error{code, text, name}
}

// Device is a GPU.
type Device struct {
	lib     *Library
	handle  uintptr
	reasons string // the function that gives the throttle reasons
}

// Device returns the GPU of a UUID, as in GPU-12345678-....
func (l *Library) Device(uuid string) (*Device, error) {
	d, text := &Device{lib: l}, append([]byte(uuid), 0)
	if err := l.call("nvmlDeviceGetHandleByUUID", uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&d.handle))); err != nil {
		return nil, err
	}
	d.reasons = "nvmlDeviceGetCurrentClocksEventReasons"
	if _, err := l.lib.Func(d.reasons); err != nil {
		d.reasons = "nvmlDeviceGetCurrentClocksThrottleReasons" // the name before CUDA 12.2
	}
	return d, nil
}

// Name returns the product name, or "".
func (d *Device) Name() string {
	text := make([]byte, 96) // NVML_DEVICE_NAME_V2_BUFFER_SIZE
	if d.lib.call("nvmlDeviceGetName", d.handle, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text))) != nil {
		return ""
	}
	name, _, _ := bytes.Cut(text, []byte{0})
	return string(name)
}

// PowerLimit returns the power that the GPU is held to, in watts, or 0.
func (d *Device) PowerLimit() float64 {
	milliwatts, _ := d.read("nvmlDeviceGetEnforcedPowerLimit")
	return float64(milliwatts) / 1000
}

// Reading is the state of a GPU at one moment; what could not be read is 0.
type Reading struct {
	// SMClock and MemoryClock are in MHz.
	SMClock, MemoryClock int
	// Power is in watts: the driver's average over about a second on data-center GPUs from Ampere on (NVML API Reference,
	// nvmlDeviceGetPowerUsage).
	Power float64
	// Temperature is in degrees Celsius.
	Temperature int
	// Throttle says what holds the clocks down.
	Throttle Throttle
}

// Clocks and sensors (nvml.h).
const (
	clockSM     = 1 // NVML_CLOCK_SM
	clockMemory = 2 // NVML_CLOCK_MEM
	sensorGPU   = 0 // NVML_TEMPERATURE_GPU
)

// Read reads the GPU's state. The error is that of a GPU that answers nothing; a value alone that cannot be had is 0.
func (d *Device) Read() (Reading, error) {
	var r Reading
	var errs []error
	word := func(name string, selector ...uintptr) int {
		v, err := d.read(name, selector...)
		errs = append(errs, err)
		return v
	}
	r.SMClock = word("nvmlDeviceGetClockInfo", clockSM)
	r.MemoryClock = word("nvmlDeviceGetClockInfo", clockMemory)
	r.Power = float64(word("nvmlDeviceGetPowerUsage")) / 1000
	r.Temperature = word("nvmlDeviceGetTemperature", sensorGPU)
	errs = append(errs, d.lib.call(d.reasons, d.handle, uintptr(unsafe.Pointer(&r.Throttle))))
	for _, err := range errs {
		if err == nil {
			return r, nil
		}
	}
	return r, errors.Join(errs...)
}

// read calls a function that takes the device, perhaps a selector, and the address of an unsigned int. The address has to
// stand in the call itself for the compiler to keep v where it is.
func (d *Device) read(name string, selector ...uintptr) (int, error) {
	var v uint32
	var err error
	if len(selector) == 0 {
		err = d.lib.call(name, d.handle, uintptr(unsafe.Pointer(&v)))
	} else {
		err = d.lib.call(name, d.handle, selector[0], uintptr(unsafe.Pointer(&v)))
	}
	return int(v), err
}
