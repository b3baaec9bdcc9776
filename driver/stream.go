package driver

import (
	"context"
	"runtime"
)

// Stream is a queue of work on a device.
type Stream struct {
	resource
	handle  uintptr
	wrapped bool
}

const streamNonBlocking = 1 // CU_STREAM_NON_BLOCKING: does not wait for the legacy default stream

// NewStream makes a stream that is independent of every other, the legacy default stream included.
func (c *Context) NewStream() (*Stream, error) {
	if err := c.use(); err != nil {
		return nil, err
	}
	defer c.done()
	f := getFrame()
	defer putFrame(f)
	if err := c.primary.call(f, cuStreamCreate, f.out(0), streamNonBlocking); err != nil {
		return nil, err
	}
	s := &Stream{handle: f.handle(0)}
	track(s, &s.resource, c.primary, "stream")
	return s, nil
}

// WrapStream makes a Stream of another library's CUstream, 0 for the legacy default stream. Its Close leaves the
// stream itself alone, and may be forgotten. The stream must belong to the device's primary context.
func (c *Context) WrapStream(handle uintptr) (*Stream, error) {
	if err := c.use(); err != nil {
		return nil, err
	}
	defer c.done()
	s := &Stream{handle: handle, wrapped: true}
	c.primary.addRef()
	s.primary, s.kind = c.primary, "wrapped stream"
	s.leak = runtime.AddCleanup(s, func(p *primary) { _ = p.release() }, c.primary)
	return s, nil
}

// Handle returns the CUstream, for other libraries.
func (s *Stream) Handle() uintptr { return s.handle }

// Device returns the device of the stream.
func (s *Stream) Device() *Device { return s.primary.dev }

// Close destroys the stream. Work enqueued on it still runs to its end.
func (s *Stream) Close() error {
	if s.wrapped {
		return s.destroy(0, 0)
	}
	return s.destroy(cuStreamDestroy, s.handle)
}

// Query reports whether all work enqueued so far is done.
func (s *Stream) Query() (done bool, err error) { return s.ready(cuStreamQuery, s.handle) }

// Wait makes work enqueued from here on wait for the last record of an event.
func (s *Stream) Wait(e *Event) error {
	if err := e.use(); err != nil {
		return err
	}
	defer e.done()
	return s.call(cuStreamWaitEvent, s.handle, e.handle, 0)
}

// Synchronize waits until the work enqueued so far is done. If ctx ends first it returns ctx's error, and the work
// runs on. With a ctx that never ends the thread waits inside the driver, which is the quickest to notice.
func (s *Stream) Synchronize(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Done() == nil {
		return s.call(cuStreamSynchronize, s.handle)
	}
	if err := s.use(); err != nil {
		return err
	}
	defer s.done()
	event, err := s.primary.takeEvent()
	if err != nil {
		return err
	}
	defer s.primary.putEvent(event) // pending or not: the next record replaces this one
	f := getFrame()
	defer putFrame(f)
	if err := s.primary.call(f, cuEventRecord, event, s.handle); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) { return s.primary.ready(f, cuEventQuery, event) })
}

// ready makes a call that answers ErrNotReady for "not yet".
func (r *resource) ready(s symbol, handle uintptr) (bool, error) {
	if err := r.use(); err != nil {
		return false, err
	}
	defer r.done()
	f := getFrame()
	defer putFrame(f)
	return r.primary.ready(f, s, handle)
}

func (p *primary) ready(f *frame, s symbol, handle uintptr) (bool, error) {
	code, err := p.try(f, s, handle)
	switch {
	case err != nil || code == success:
		return err == nil, err
	case code == ErrNotReady:
		return false, nil
	}
	return false, p.newError(s, code)
}

// takeEvent returns an event for a wait, and putEvent keeps it for the next.
func (p *primary) takeEvent() (uintptr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.events); n > 0 {
		e := p.events[n-1]
		p.events = p.events[:n-1]
		return e, nil
	}
	f := getFrame()
	defer putFrame(f)
	if err := p.call(f, cuEventCreate, f.out(0), eventDisableTiming); err != nil {
		return 0, err
	}
	return f.handle(0), nil
}

func (p *primary) putEvent(e uintptr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

// CopyToDevice enqueues a copy of n bytes at an offset of src to device memory. The bytes must stay as they are, and
// src open, until the copy is done.
func (s *Stream) CopyToDevice(dst DevicePtr, src *HostBuffer, offset, n int) error {
	return s.copyHost(cuMemcpyHtoDAsync, dst, src, offset, n)
}

// CopyFromDevice enqueues a copy of n bytes of device memory to an offset of dst.
func (s *Stream) CopyFromDevice(dst *HostBuffer, offset, n int, src DevicePtr) error {
	return s.copyHost(cuMemcpyDtoHAsync, src, dst, offset, n)
}

func (s *Stream) copyHost(fn symbol, device DevicePtr, host *HostBuffer, offset, n int) error {
	if err := host.use(); err != nil {
		return err
	}
	defer host.done()
	if offset < 0 || n < 0 || n > len(host.bytes)-offset {
		return &RangeError{uint64(offset), uint64(n), uint64(len(host.bytes))}
	}
	if n == 0 {
		return nil
	}
	host.used.Store(true)
	a, b := uintptr(device), host.ptr+uintptr(offset)
	if fn == cuMemcpyDtoHAsync {
		a, b = b, a
	}
	return s.call(fn, a, b, uintptr(n), s.handle)
}

// CopyWithinDevice enqueues a copy of n bytes from device memory to device memory.
func (s *Stream) CopyWithinDevice(dst, src DevicePtr, n uint64) error {
	if n == 0 {
		return nil
	}
	return s.call(cuMemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(n), s.handle)
}

// MemsetD8 enqueues filling n bytes of device memory with a byte.
func (s *Stream) MemsetD8(dst DevicePtr, value byte, n uint64) error {
	if n == 0 {
		return nil
	}
	return s.call(cuMemsetD8Async, uintptr(dst), uintptr(value), uintptr(n), s.handle)
}

// MemsetD32 enqueues filling n 32-bit words of device memory, which must be aligned to 4 bytes.
func (s *Stream) MemsetD32(dst DevicePtr, value uint32, n uint64) error {
	if n == 0 {
		return nil
	}
	return s.call(cuMemsetD32Async, uintptr(dst), uintptr(value), uintptr(n), s.handle)
}
