package driver

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Context is a hold on the primary context of a device, the one that the CUDA runtime and every library built on it
// use too: memory and streams can be exchanged with them.
type Context struct {
	resource
	dev *Device
}

// primary is the primary context of one device. There is one for a device, however many Contexts and objects hold
// it; the driver's own count sees one holder.
type primary struct {
	dev       *Device
	push, pop uintptr // functions that every call needs
	poison    atomic.Pointer[Error]

	mu     sync.Mutex
	refs   int
	handle uintptr   // set while refs > 0
	copies uintptr   // the stream of synchronous copies, made when first needed
	events []uintptr // events of waits, for the next wait
}

// Context retains the primary context. Close it when done.
func (dev *Device) Context() (*Context, error) {
	p, err := dev.primary()
	if err != nil {
		return nil, err
	}
	if err := p.retain(); err != nil {
		return nil, withDetail(err, "%v", dev)
	}
	c := &Context{dev: dev}
	track(c, &c.resource, p, "context")
	return c, p.release() // track has its own hold
}

// primary returns the device's one primary.
func (dev *Device) primary() (*primary, error) {
	d := dev.drv
	push, err := d.lookup(cuCtxPushCurrent)
	if err != nil {
		return nil, err
	}
	pop, err := d.lookup(cuCtxPopCurrent)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.primaries[dev.ordinal]
	if p == nil {
		p = &primary{dev: dev, push: push, pop: pop}
		d.primaries[dev.ordinal] = p
	}
	return p, nil
}

// retain adds a hold, the first of which makes the context.
func (p *primary) retain() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs == 0 {
		f := getFrame()
		defer putFrame(f)
		if err := p.dev.drv.call(f, cuDevicePrimaryCtxRetain, f.out(0), p.dev.arg()); err != nil {
			return err
		}
		p.handle = f.handle(0)
		p.poison.Store(nil) // if another library keeps the old context alive, the next call finds out again
	}
	p.refs++
	return nil
}

// addRef adds a hold for one who has one.
func (p *primary) addRef() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs == 0 {
		panic("BUG: driver: new hold on a released context")
	}
	p.refs++
}

// release drops a hold. With the last one the context goes, unless other libraries hold it.
func (p *primary) release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs--; p.refs > 0 {
		return nil
	}
	f := getFrame()
	defer putFrame(f)
	if p.poison.Load() == nil {
		if p.copies != 0 {
			_ = p.call(f, cuStreamDestroy, p.copies)
		}
		for _, e := range p.events {
			_ = p.call(f, cuEventDestroy, e)
		}
	}
	p.handle, p.copies, p.events = 0, 0, nil
	return p.dev.drv.call(f, cuDevicePrimaryCtxRelease, p.dev.arg())
}

// call makes a driver call with the context current and maps its result.
func (p *primary) call(f *frame, s symbol, args ...uintptr) error {
	code, err := p.try(f, s, args...)
	if err != nil || code == success {
		return err
	}
	return p.newError(s, code)
}

// try is call for those who expect codes other than success.
func (p *primary) try(f *frame, s symbol, args ...uintptr) (Code, error) {
	if cause := p.poison.Load(); cause != nil {
		return success, &PoisonedError{Call: symbols[s].name, Cause: cause}
	}
	fn, err := p.dev.drv.lookup(s)
	if err != nil {
		return success, err
	}
	c := &f.call
	copy(c.args[:], args)
	c.push, c.fn, c.pop, c.ctx, c.popped = p.push, fn, p.pop, p.handle, f.poppedAt()
	return f.bracket(), nil
}

func (p *primary) pushCurrent(f *frame) Code {
	f.one[0] = p.handle
	return invoke(p.push, f.one[:])
}

func (p *primary) popCurrent(f *frame) Code {
	f.one[0] = f.poppedAt()
	return invoke(p.pop, f.one[:])
}

// newError describes a failed call, and remembers it if nothing can follow.
func (p *primary) newError(s symbol, code Code) *Error {
	err := p.dev.drv.newError(s, code)
	if code.Sticky() {
		p.poison.CompareAndSwap(nil, err)
	}
	return err
}

// Close lets the context go. Objects made in it stay usable until they are closed too.
func (c *Context) Close() error { return c.destroy(0, 0) }

// Device returns the device of the context.
func (c *Context) Device() *Device { return c.dev }

// Err returns the error that poisoned the context, or nil. It only knows what calls have reported: a kernel's fault is
// met by the next call that waits for it.
func (c *Context) Err() error {
	if cause := c.primary.poison.Load(); cause != nil {
		return cause
	}
	return nil
}

// Healthy reports whether the context can do work, as far as calls have reported.
func (c *Context) Healthy() bool { return c.primary.poison.Load() == nil }

// Handle returns the CUcontext, for other libraries. It is valid until Close.
func (c *Context) Handle() uintptr { return c.primary.handle }

// Do runs f with the context current on a thread that is f's alone, for calls into other libraries. The thread has its
// former context back afterwards, also if f panics. Methods of this package need no Do.
func (c *Context) Do(f func() error) (err error) {
	if err := c.use(); err != nil {
		return err
	}
	c.primary.addRef() // instead of the guard, so that f may close c
	c.done()
	defer func() {
		if releaseErr := c.primary.release(); err == nil {
			err = releaseErr
		}
	}()
	return c.primary.do(f)
}

func (p *primary) do(f func() error) (err error) {
	if cause := p.poison.Load(); cause != nil {
		return &PoisonedError{Call: symbols[cuCtxPushCurrent].name, Cause: cause}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	scratch := getFrame()
	defer putFrame(scratch)
	if code := p.pushCurrent(scratch); code != success {
		return p.newError(cuCtxPushCurrent, code)
	}
	defer func() {
		if code := p.popCurrent(scratch); code != success && err == nil {
			err = p.newError(cuCtxPopCurrent, code)
		}
	}()
	return f()
}

// Synchronize waits for all work of the device's primary context.
func (c *Context) Synchronize() error { return c.call(cuCtxSynchronize) }

// MemoryInfo returns the free and total device memory in bytes.
func (c *Context) MemoryInfo() (free, total uint64, err error) {
	if err := c.use(); err != nil {
		return 0, 0, err
	}
	defer c.done()
	f := getFrame()
	defer putFrame(f)
	if err := c.primary.call(f, cuMemGetInfo, f.out(0), f.out(1)); err != nil {
		return 0, 0, err
	}
	return f.word(0), f.word(1), nil
}
