package driver

import (
	"fmt"

	"github.com/fsgen/fsgen/arch"
)

// Device is one GPU of a driver.
type Device struct {
	drv     *Driver
	ordinal int
	handle  int32
	name    string
	uuid    UUID
	cc      arch.ComputeCapability
}

// UUID identifies a GPU, or a part of one, for good; ordinals change with the environment.
type UUID [16]byte

// String returns the UUID as nvidia-smi spells it.
func (u UUID) String() string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// Attribute selects what Device.Attribute returns.
type Attribute int32

// Device attributes (CUDA Driver API, CUdevice_attribute).
const (
	MaxThreadsPerBlock  Attribute = 1
	ClockKHz            Attribute = 13
	Multiprocessors     Attribute = 16
	Integrated          Attribute = 18
	ComputeMode         Attribute = 20
	ECC                 Attribute = 32
	PCIBus              Attribute = 33
	PCIDevice           Attribute = 34
	MemoryClockKHz      Attribute = 36
	MemoryBusBits       Attribute = 37
	L2Bytes             Attribute = 38
	PCIDomain           Attribute = 50
	ccMajor             Attribute = 75
	ccMinor             Attribute = 76
	SharedPerMP         Attribute = 81
	RegistersPerMP      Attribute = 82
	SharedPerBlockOptin Attribute = 97
	VirtualMemory       Attribute = 102
	FileHandles         Attribute = 103
	ReservedShared      Attribute = 111
	ClusterLaunch       Attribute = 120
	TensorMapAccess     Attribute = 127
)

// Count returns the number of GPUs that the process may use.
func (d *Driver) Count() (int, error) {
	f := getFrame()
	defer putFrame(f)
	if err := d.call(f, cuDeviceGetCount, f.out(0)); err != nil {
		return 0, err
	}
	return f.int(0), nil
}

// Device returns the GPU of an ordinal; errors.Is finds ErrInvalidDevice for one that is not there.
func (d *Driver) Device(ordinal int) (*Device, error) {
	f := getFrame()
	defer putFrame(f)
	dev := &Device{drv: d, ordinal: ordinal}
	if ordinal < 0 || ordinal > 1<<20 {
		err := d.newError(cuDeviceGet, ErrInvalidDevice)
		err.Detail = fmt.Sprintf("device %d", ordinal)
		return nil, err
	}
	if err := d.call(f, cuDeviceGet, f.out(0), uintptr(ordinal)); err != nil {
		return nil, withDetail(err, "device %d", ordinal)
	}
	dev.handle = int32(f.int(0))
	if err := dev.identify(f); err != nil {
		return nil, withDetail(err, "device %d", ordinal)
	}
	return dev, nil
}

// identify fills in what never changes.
func (dev *Device) identify(f *frame) (err error) {
	space := f.mem[frameSpace:]
	clear(space)
	if err = dev.drv.call(f, cuDeviceGetName, address(space), uintptr(len(space)), dev.arg()); err != nil {
		return err
	}
	dev.name = cText(space)
	if err = dev.drv.call(f, cuDeviceGetUuid, address(space), dev.arg()); err != nil {
		return err
	}
	copy(dev.uuid[:], space)
	if dev.cc.Major, err = dev.Attribute(ccMajor); err == nil {
		dev.cc.Minor, err = dev.Attribute(ccMinor)
	}
	return err
}

// Devices returns every GPU that the process may use, by ordinal.
func (d *Driver) Devices() ([]*Device, error) {
	n, err := d.Count()
	if err != nil {
		return nil, err
	}
	var list []*Device
	for i := range n {
		dev, err := d.Device(i)
		if err != nil {
			return nil, err
		}
		list = append(list, dev)
	}
	return list, nil
}

func (dev *Device) arg() uintptr { return uintptr(uint32(dev.handle)) }

// Driver returns the driver of the device.
func (dev *Device) Driver() *Driver { return dev.drv }

// Ordinal returns the device's number among those that the process may use.
func (dev *Device) Ordinal() int { return dev.ordinal }

// Name returns the product name.
func (dev *Device) Name() string { return dev.name }

// UUID returns the identity of the device.
func (dev *Device) UUID() UUID { return dev.uuid }

// ComputeCapability returns the version of the device's instruction set.
func (dev *Device) ComputeCapability() arch.ComputeCapability { return dev.cc }

// String returns the device as "cuda:0 (NVIDIA H200)".
func (dev *Device) String() string { return fmt.Sprintf("cuda:%d (%s)", dev.ordinal, dev.name) }

// Attribute returns one number of the device.
func (dev *Device) Attribute(a Attribute) (int, error) {
	f := getFrame()
	defer putFrame(f)
	if err := dev.drv.call(f, cuDeviceGetAttribute, f.out(0), uintptr(a), dev.arg()); err != nil {
		return 0, withDetail(err, "attribute %d of device %d", a, dev.ordinal)
	}
	return f.int(0), nil
}

// TotalMemory returns the size of the device's memory in bytes. Context.MemoryInfo says how much of it is free.
func (dev *Device) TotalMemory() (uint64, error) {
	f := getFrame()
	defer putFrame(f)
	if err := dev.drv.call(f, cuDeviceTotalMem, f.out(0), dev.arg()); err != nil {
		return 0, err
	}
	return f.word(0), nil
}

// withDetail says in a driver error what was attempted; other errors it leaves alone.
func withDetail(err error, format string, args ...any) error {
	if e, ok := err.(*Error); ok && e.Detail == "" {
		e.Detail = fmt.Sprintf(format, args...)
	}
	return err
}
