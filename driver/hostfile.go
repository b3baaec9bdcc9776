package driver

import (
	"fmt"
	"os"
)

// NewHostFile makes host memory that processes can share: a file without a name, of zeros, that travels over a Unix socket as
// the file of a SharedBuffer does. Context.MapHostFile lets devices use it.
func NewHostFile(size int) (*os.File, error) {
	if size <= 0 {
		return nil, &SharedSizeError{uint64(max(size, 0))}
	}
	fd, err := newHostFile(size)
	if err != nil {
		return nil, fmt.Errorf("driver: %d bytes of host memory to share: %w", size, err)
	}
	return os.NewFile(uintptr(fd), "host memory"), nil
}

// MapHostFile maps a file of NewHostFile, page-locked and within reach of devices as memory of AllocHostMapped is. The file may
// be closed afterwards; the memory lives until the last process that has mapped it closes its buffer.
func (c *Context) MapHostFile(file *os.File, size int) (*HostBuffer, error) {
	if size <= 0 {
		return nil, &SharedSizeError{uint64(max(size, 0))}
	}
	if err := c.use(); err != nil {
		return nil, err
	}
	defer c.done()
	h := &HostBuffer{mapped: true}
	err := withFile(file, func(fd uintptr) (err error) {
		if h.bytes, err = mapFile(fd, size); err != nil {
			err = fmt.Errorf("driver: mapping %d bytes of a file: %w", size, err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	h.ptr = address(h.bytes)
	f := getFrame()
	defer putFrame(f)
	if err := c.primary.call(f, cuMemHostRegister, h.ptr, uintptr(size), hostPortable|hostMapped); err != nil {
		_ = munmap(h.bytes)
		return nil, c.explainAlloc(err, uint64(size), "of shared host memory, page-locked,")
	}
	track(h, &h.resource, c.primary, fmt.Sprintf("shared host buffer of %d bytes", size))
	return h, nil
}

// unmap is Close for a buffer of MapHostFile.
func (h *HostBuffer) unmap() error {
	return h.destroyBy(func(f *frame) error {
		err := h.primary.call(f, cuMemHostUnregister, h.ptr)
		if err == nil { // else a device may still reach it
			err = munmap(h.bytes)
		}
		return err
	})
}
