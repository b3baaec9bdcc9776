package driver

import (
	"errors"
	"fmt"
	"os"
	"structs"
)

// SharedBuffer is device memory that other devices of the process, and other processes of the host, can use: physical memory
// of one device, and an address range of this process that it is mapped to (CUDA Driver API, "Virtual Memory Management").
//
//	owner:  b, err := c.AllocShared(size)   file, err := b.Export()     send file and b.Size() to the other process
//	other:  b, err := c.ImportShared(file, size)                        and close the file
//
// The memory lives until everybody has closed what maps it, a process that dies included: the others' mappings stay valid.
type SharedBuffer struct {
	resource
	ptr    DevicePtr
	size   uint64
	memory uintptr // CUmemGenericAllocationHandle
	mapped bool
}

// cAllocationProp and cAccessDesc are the driver's structures (CUmemAllocationProp, CUmemAccessDesc).
type cAllocationProp struct {
	_           structs.HostLayout
	kind        uint32
	handleTypes uint32
	location    cMemLocation
	win32       uintptr
	compression uint8
	directRDMA  uint8
	usage       uint16
	reserved    [4]uint8
}

type cMemLocation struct {
	_    structs.HostLayout
	kind uint32
	id   int32
}

type cAccessDesc struct {
	_        structs.HostLayout
	location cMemLocation
	flags    uint32
}

const (
	allocationPinned    = 1 // CU_MEM_ALLOCATION_TYPE_PINNED
	handleFile          = 1 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	locationDevice      = 1 // CU_MEM_LOCATION_TYPE_DEVICE
	accessReadWrite     = 3 // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	granularityMinimum  = 0 // CU_MEM_ALLOC_GRANULARITY_MINIMUM
	accessBytes         = 12
	maxAccessingDevices = (frameBytes - frameSpace) / accessBytes
)

// SharedSizeError is a size that shared memory cannot have.
type SharedSizeError struct{ Size uint64 }

func (e *SharedSizeError) Error() string {
	return fmt.Sprintf("driver: shared memory of %d bytes: want 1 to 2^62", e.Size)
}

func checkSharedSize(size uint64) error {
	if size == 0 || size > 1<<62 {
		return &SharedSizeError{size}
	}
	return nil
}

// AllocShared allocates device memory that can be exported, for the device and others that it can reach (Device.CanAccessPeer).
// The size is rounded up to what the driver allocates at a time, 2 MiB: one buffer serves many purposes. Its contents are
// undefined. Where the device or the system cannot share memory by file, errors.Is finds ErrNotSupported or ErrNotPermitted.
func (c *Context) AllocShared(size uint64, others ...*Device) (*SharedBuffer, error) {
	if err := checkSharedSize(size); err != nil {
		return nil, err
	}
	if err := c.dev.sharesMemory(); err != nil {
		return nil, err
	}
	return c.newShared(others, func(f *frame, b *SharedBuffer) error {
		prop := f.mem[frameSpace:]
		*at[cAllocationProp](prop, 0) = cAllocationProp{
			kind: allocationPinned, handleTypes: handleFile, location: cMemLocation{kind: locationDevice, id: c.dev.handle},
		}
		if err := c.primary.call(f, cuMemGetAllocationGranularity, f.out(1), address(prop), granularityMinimum); err != nil {
			return err
		}
		b.size = (size + f.word(1) - 1) / f.word(1) * f.word(1)
		err := c.primary.call(f, cuMemCreate, f.out(0), uintptr(b.size), address(prop), 0)
		if err != nil {
			return c.explainAlloc(err, b.size, "of shared device memory")
		}
		return nil
	})
}

// sharesMemory says why the device cannot share memory by file, if it cannot.
func (dev *Device) sharesMemory() error {
	for _, a := range []Attribute{VirtualMemory, FileHandles} {
		yes, err := dev.Attribute(a)
		if err != nil {
			return err
		}
		if yes == 0 {
			return withDetail(dev.drv.newError(cuMemCreate, ErrNotSupported), "%v cannot share memory by file descriptors", dev)
		}
	}
	return nil
}

// ImportShared maps memory that another process, or another context of this one, has exported, for use by the context's
// device and others. The size is the exporter's SharedBuffer.Size. The file may be closed afterwards; its kind is not checked
// by anybody but the driver. Where the device cannot reach the memory, errors.Is finds one of the driver's codes.
func (c *Context) ImportShared(file *os.File, size uint64, others ...*Device) (*SharedBuffer, error) {
	if err := checkSharedSize(size); err != nil {
		return nil, err
	}
	return c.newShared(others, func(f *frame, b *SharedBuffer) error {
		b.size = size
		return withFile(file, func(fd uintptr) error {
			err := c.primary.call(f, cuMemImportFromShareableHandle, f.out(0), fd, handleFile)
			return withDetail(err, "importing %d bytes of shared memory on %v", size, c.dev)
		})
	})
}

// withFile calls use while nobody can close the file.
func withFile(file *os.File, use func(fd uintptr) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("driver: the file of shared memory: %w", err)
	}
	var useErr error
	if err := raw.Control(func(fd uintptr) { useErr = use(fd) }); err != nil {
		return fmt.Errorf("driver: the file of shared memory: %w", err)
	}
	return useErr
}

// newShared makes a buffer of the physical memory that open leaves the handle of in word 0, and maps it. What was done before
// an error is undone.
func (c *Context) newShared(others []*Device, open func(*frame, *SharedBuffer) error) (*SharedBuffer, error) {
	if err := c.use(); err != nil {
		return nil, err
	}
	defer c.done()
	b := &SharedBuffer{}
	f := getFrame()
	defer putFrame(f)
	if err := open(f, b); err != nil {
		return nil, err
	}
	b.memory = f.handle(0)
	track(b, &b.resource, c.primary, fmt.Sprintf("shared buffer of %d bytes", b.size))
	if err := b.mapMemory(f); err != nil {
		return nil, errors.Join(withDetail(err, "mapping %d bytes of shared memory on %v", b.size, c.dev), b.Close())
	}
	if err := b.Allow(append([]*Device{c.dev}, others...)...); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// mapMemory gives the memory an address, which nobody may use yet.
func (b *SharedBuffer) mapMemory(f *frame) error {
	if err := b.primary.call(f, cuMemAddressReserve, f.out(0), uintptr(b.size), 0, 0, 0); err != nil {
		return err
	}
	b.ptr = DevicePtr(f.word(0))
	if err := b.primary.call(f, cuMemMap, uintptr(b.ptr), uintptr(b.size), 0, b.memory, 0); err != nil {
		return err
	}
	b.mapped = true
	return nil
}

// Allow lets further devices of the process read and write the memory, at the same address.
func (b *SharedBuffer) Allow(devices ...*Device) error {
	if err := b.use(); err != nil {
		return err
	}
	defer b.done()
	if len(devices) == 0 {
		return nil
	}
	if len(devices) > maxAccessingDevices {
		return fmt.Errorf("driver: shared memory for %d devices: want at most %d", len(devices), maxAccessingDevices)
	}
	f := getFrame()
	defer putFrame(f)
	list := f.mem[frameSpace:]
	for i, dev := range devices {
		if err := b.primary.dev.sameDriver(dev); err != nil {
			return err
		}
		*at[cAccessDesc](list, accessBytes*i) = cAccessDesc{
			location: cMemLocation{kind: locationDevice, id: dev.handle}, flags: accessReadWrite,
		}
	}
	err := b.primary.call(f, cuMemSetAccess, uintptr(b.ptr), uintptr(b.size), address(list), uintptr(len(devices)))
	return withDetail(err, "%s for %v", b.kind, devices)
}

// Export returns a file that stands for the memory, for another process to map (it travels over a Unix socket, SCM_RIGHTS)
// or another context of this one. Close it once it is sent; the memory lives on in whoever has received it. Programs that the
// process starts do not inherit it.
func (b *SharedBuffer) Export() (*os.File, error) {
	if err := b.use(); err != nil {
		return nil, err
	}
	defer b.done()
	f := getFrame()
	defer putFrame(f)
	if err := b.primary.call(f, cuMemExportToShareableHandle, f.out(0), b.memory, handleFile, 0); err != nil {
		return nil, withDetail(err, "%s on %v", b.kind, b.primary.dev)
	}
	fd := f.int(0)
	closeOnExec(fd)
	return os.NewFile(uintptr(fd), "cuda shared memory"), nil
}

// Ptr returns the address, the same for all devices that may use it.
func (b *SharedBuffer) Ptr() DevicePtr { return b.ptr }

// Size returns the size in bytes, which is what ImportShared needs.
func (b *SharedBuffer) Size() uint64 { return b.size }

// Device returns the device whose context made the buffer: the memory's own, if it was allocated and not imported.
func (b *SharedBuffer) Device() *Device { return b.primary.dev }

// Close takes the memory's address away and lets go of it; a second Close does nothing. Work that uses the address, on any
// device of the process, must be done: unlike freeing a Buffer this waits for nothing.
func (b *SharedBuffer) Close() error {
	return b.destroyBy(func(f *frame) (first error) {
		call := func(s symbol, args ...uintptr) {
			if err := b.primary.call(f, s, args...); first == nil {
				first = err
			}
		}
		if b.mapped {
			call(cuMemUnmap, uintptr(b.ptr), uintptr(b.size))
		}
		if b.ptr != 0 {
			call(cuMemAddressFree, uintptr(b.ptr), uintptr(b.size))
		}
		call(cuMemRelease, b.memory)
		return first
	})
}
