package driver

import (
	"runtime"
	"structs"
)

// bracketed is a driver call between a push of its context and a pop. Code in assembly reads it.
type bracketed struct {
	_             structs.HostLayout
	push, fn, pop uintptr
	ctx, popped   uintptr     // what push takes, and where pop puts what it took off
	args          [12]uintptr // cuTensorMapEncodeTiled takes 12; what a function does not take it does not look at
}

// threeCalls makes the call with its context current: frame.bracket where there is no code to do it in one crossing into C.
// The thread is locked from push to pop, since the driver's context stack belongs to it.
func (f *frame) threeCalls() Code {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f.one[0] = f.call.ctx
	if code := invoke(f.call.push, f.one[:]); code != success {
		return code
	}
	code := invoke(f.call.fn, f.call.args[:])
	f.one[0] = f.call.popped
	if popped := invoke(f.call.pop, f.one[:]); code == success {
		code = popped
	}
	return code
}
