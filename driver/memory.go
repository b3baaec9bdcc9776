package driver

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// DevicePtr is an address in device memory. One that another library allocated is as good as a Buffer's.
type DevicePtr uint64

// Buffer is device memory of its own.
type Buffer struct {
	resource
	ptr  DevicePtr
	size uint64
}

// Alloc allocates device memory, aligned to 256 bytes or more. Its contents are undefined. Size 0 gives a Buffer with
// address 0.
func (c *Context) Alloc(size uint64) (*Buffer, error) {
	if err := c.use(); err != nil {
		return nil, err
	}
	defer c.done()
	b := &Buffer{size: size}
	if size > 0 {
		f := getFrame()
		defer putFrame(f)
		if err := c.primary.call(f, cuMemAlloc, f.out(0), uintptr(size)); err != nil {
			return nil, c.explainAlloc(err, size, "of device memory")
		}
		b.ptr = DevicePtr(f.word(0))
	}
	track(b, &b.resource, c.primary, fmt.Sprintf("buffer of %d bytes", size))
	return b, nil
}

func (c *Context) explainAlloc(err error, size uint64, what string) error {
	free, total, infoErr := c.MemoryInfo()
	if infoErr != nil {
		return withDetail(err, "allocating %d bytes %s on %v", size, what, c.dev)
	}
	return withDetail(err, "allocating %d bytes %s on %v, which has %d free of %d", size, what, c.dev, free, total)
}

// Ptr returns the address.
func (b *Buffer) Ptr() DevicePtr { return b.ptr }

// Size returns the size in bytes.
func (b *Buffer) Size() uint64 { return b.size }

// Device returns the device whose memory it is.
func (b *Buffer) Device() *Device { return b.primary.dev }

// Close frees the memory; a second Close does nothing. The driver waits for work in flight, but work that is enqueued
// later on the address is the caller's fault.
func (b *Buffer) Close() error { return b.destroy(cuMemFree, uintptr(b.ptr)) }

// Free is Close for those who mean to own the buffer: freeing it twice is a *ClosedError.
func (b *Buffer) Free() error {
	if b.guard.closed() {
		return &ClosedError{b.kind}
	}
	return b.Close()
}

// RangeError is an access outside a buffer.
type RangeError struct {
	Offset, Length, Size uint64
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("driver: %d bytes at offset %d are outside a buffer of %d bytes", e.Length, e.Offset, e.Size)
}

func checkRange(offset, length, size uint64) error {
	if offset > size || length > size-offset {
		return &RangeError{offset, length, size}
	}
	return nil
}

// Upload copies src into the buffer at an offset and returns when it is there. See Context.CopyToDevice.
func (b *Buffer) Upload(offset uint64, src []byte) error {
	if err := b.use(); err != nil {
		return err
	}
	defer b.done()
	if err := checkRange(offset, uint64(len(src)), b.size); err != nil {
		return err
	}
	return b.primary.copy(cuMemcpyHtoDAsync, b.ptr+DevicePtr(offset), src)
}

// Download copies from the buffer at an offset into dst. See Context.CopyFromDevice.
func (b *Buffer) Download(dst []byte, offset uint64) error {
	if err := b.use(); err != nil {
		return err
	}
	defer b.done()
	if err := checkRange(offset, uint64(len(dst)), b.size); err != nil {
		return err
	}
	return b.primary.copy(cuMemcpyDtoHAsync, b.ptr+DevicePtr(offset), dst)
}

// CopyToDevice copies src to device memory and returns when it is there. It waits for no other stream: work that
// still uses dst must be finished first.
func (c *Context) CopyToDevice(dst DevicePtr, src []byte) error {
	if err := c.use(); err != nil {
		return err
	}
	defer c.done()
	return c.primary.copy(cuMemcpyHtoDAsync, dst, src)
}

// CopyFromDevice copies device memory to dst. It waits for no other stream: the work that writes src must be finished
// first.
func (c *Context) CopyFromDevice(dst []byte, src DevicePtr) error {
	if err := c.use(); err != nil {
		return err
	}
	defer c.done()
	return c.primary.copy(cuMemcpyDtoHAsync, src, dst)
}

// copy moves bytes between a Go slice and device memory on a stream of its own, and waits. cuMemcpyHtoD would not do:
// it returns while the last piece of pageable memory is still on its way from the driver's staging buffer (CUDA
// Driver API, "API synchronization behavior"), and a non-blocking stream does not wait for that.
func (p *primary) copy(s symbol, device DevicePtr, host []byte) error {
	if len(host) == 0 {
		return nil
	}
	f := getFrame()
	defer putFrame(f)
	stream, err := p.copyStream(f)
	if err != nil {
		return err
	}
	var pin runtime.Pinner
	pin.Pin(unsafe.SliceData(host))
	defer pin.Unpin()
	a, b := uintptr(device), address(host)
	if s == cuMemcpyDtoHAsync {
		a, b = b, a
	}
	if err := p.call(f, s, a, b, uintptr(len(host)), stream); err != nil {
		return withDetail(err, "copying %d bytes at device address %#x", len(host), uint64(device))
	}
	return p.call(f, cuStreamSynchronize, stream)
}

func (p *primary) copyStream(f *frame) (uintptr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.copies == 0 {
		if err := p.call(f, cuStreamCreate, f.out(0), streamNonBlocking); err != nil {
			return 0, err
		}
		p.copies = f.handle(0)
	}
	return p.copies, nil
}

// HostBuffer is page-locked host memory, the only kind that asynchronous copies take: the driver reads and writes it
// while the program runs on.
type HostBuffer struct {
	resource
	ptr    uintptr
	bytes  []byte
	mapped bool        // of a file, and not of the driver's
	used   atomic.Bool // by a copy that may be in flight
}

const (
	hostPortable = 1 // CU_MEMHOSTALLOC_PORTABLE
	hostMapped   = 2 // CU_MEMHOSTALLOC_DEVICEMAP
)

// AllocHost allocates page-locked host memory, visible to every context of the process.
func (c *Context) AllocHost(size int) (*HostBuffer, error) { return c.allocHost(size, hostPortable) }

// AllocHostMapped is AllocHost for memory that kernels read and write over the bus: HostBuffer.DevicePtr says where a device
// finds it. What is stored there by one side is seen by the other once it is ordered at system scope.
func (c *Context) AllocHostMapped(size int) (*HostBuffer, error) {
	return c.allocHost(size, hostPortable|hostMapped)
}

func (c *Context) allocHost(size int, flags uintptr) (*HostBuffer, error) {
	if err := c.use(); err != nil {
		return nil, err
	}
	defer c.done()
	h := &HostBuffer{}
	if size > 0 {
		f := getFrame()
		defer putFrame(f)
		if err := c.primary.call(f, cuMemHostAlloc, f.out(0), uintptr(size), flags); err != nil {
			return nil, c.explainAlloc(err, uint64(size), "of pinned host memory")
		}
		h.ptr, h.bytes = f.handle(0), f.cBytes(0, size)
	}
	track(h, &h.resource, c.primary, fmt.Sprintf("pinned buffer of %d bytes", size))
	return h, nil
}

// Bytes returns the memory. It must not be used after Close, nor while a copy is in flight.
func (h *HostBuffer) Bytes() []byte { return h.bytes }

// Size returns the size in bytes.
func (h *HostBuffer) Size() int { return len(h.bytes) }

// DevicePtr returns the address of the memory on the device of c, which may be another than it was allocated on. Memory of
// AllocHost may have none: errors.Is finds ErrInvalidValue. The address is valid until Close, and 0 if the size is.
func (h *HostBuffer) DevicePtr(c *Context) (DevicePtr, error) {
	if err := h.use(); err != nil {
		return 0, err
	}
	defer h.done()
	if err := c.use(); err != nil {
		return 0, err
	}
	defer c.done()
	if h.ptr == 0 {
		return 0, nil
	}
	f := getFrame()
	defer putFrame(f)
	if err := c.primary.call(f, cuMemHostGetDevicePointer, f.out(0), h.ptr, 0); err != nil {
		return 0, withDetail(err, "%s on %v", h.kind, c.dev)
	}
	return DevicePtr(f.word(0)), nil
}

// Close frees the memory, after all work of the context if a copy may still be using it.
func (h *HostBuffer) Close() error {
	if h.used.Swap(false) && !h.guard.closed() {
		_ = h.call(cuCtxSynchronize) // a fault in that work leaves the copy as finished as it will be
	}
	if h.mapped {
		return h.unmap()
	}
	return h.destroy(cuMemFreeHost, h.ptr)
}
