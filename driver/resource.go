package driver

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
)

// resource is what every object in a context has: the context, which it keeps retained, and its guard.
type resource struct {
	guard   guard
	primary *primary
	kind    string
	leak    runtime.Cleanup
}

// track makes r the resource of object, which is new: it retains the context for it and warns if the object is
// dropped without being closed.
func track[T any](object *T, r *resource, p *primary, kind string) {
	p.addRef()
	r.primary, r.kind = p, kind
	r.leak = runtime.AddCleanup(object, leaked, kind+" on "+p.dev.String())
}

// use begins a call on the object; done ends it.
func (r *resource) use() error {
	if !r.guard.enter() {
		return &ClosedError{r.kind}
	}
	return nil
}

func (r *resource) done() { r.guard.leave() }

// call makes one driver call on the object.
func (r *resource) call(s symbol, args ...uintptr) error {
	if err := r.use(); err != nil {
		return err
	}
	defer r.done()
	f := getFrame()
	defer putFrame(f)
	return r.primary.call(f, s, args...)
}

// destroy closes the object once, by a driver call with its handle unless that is 0, and lets the context go.
func (r *resource) destroy(s symbol, handle uintptr) error {
	return r.destroyBy(func(f *frame) error {
		if handle == 0 {
			return nil
		}
		return r.primary.call(f, s, handle)
	})
}

// destroyBy is destroy for an object that takes several calls to give back.
func (r *resource) destroyBy(giveBack func(*frame) error) error {
	if !r.guard.close() {
		return nil
	}
	r.leak.Stop()
	f := getFrame()
	err := giveBack(f)
	putFrame(f)
	if unrefErr := r.primary.release(); err == nil {
		err = unrefErr
	}
	return err
}

var warnHandler atomic.Pointer[func(string)]

// SetWarnHandler sends the package's warnings, of objects that were never closed and of dumps that could not be
// written, to a function instead of standard error. It may be called from any goroutine.
func SetWarnHandler(f func(string)) { warnHandler.Store(&f) }

func warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if f := warnHandler.Load(); f != nil && *f != nil {
		(*f)(text)
		return
	}
	fmt.Fprintln(os.Stderr, "fsgen: "+text)
}

// leaked warns of an object that was dropped without Close. It frees nothing: the GPU, or a library that was handed
// the address, may still be using it.
func leaked(what string) { warn("driver: a %s was dropped without Close and stays allocated", what) }
