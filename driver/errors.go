package driver

import (
	"errors"
	"fmt"
	"strings"
)

// Code is a CUresult, the number by which the driver reports how a call went. The codes that programs act on have
// names, and errors.Is finds them: errors.Is(err, driver.ErrOutOfMemory).
type Code uint32

// Codes of the driver (CUDA Driver API, "Data types used by CUDA driver", CUresult).
const (
	success                  Code = 0
	ErrInvalidValue          Code = 1
	ErrOutOfMemory           Code = 2
	ErrNotInitialized        Code = 3
	ErrDeinitialized         Code = 4
	ErrStubLibrary           Code = 34
	ErrDeviceUnavailable     Code = 46
	ErrNoDevice              Code = 100
	ErrInvalidDevice         Code = 101
	ErrInvalidImage          Code = 200
	ErrInvalidContext        Code = 201
	ErrNoBinaryForGPU        Code = 209
	ErrECCUncorrectable      Code = 214
	ErrPeerAccessUnsupported Code = 217
	ErrInvalidPTX            Code = 218
	ErrNVLinkUncorrectable   Code = 220
	ErrJITCompilerNotFound   Code = 221
	ErrUnsupportedPTXVersion Code = 222
	ErrJITDisabled           Code = 223
	ErrInvalidHandle         Code = 400
	ErrNotFound              Code = 500
	ErrNotReady              Code = 600
	ErrIllegalAddress        Code = 700
	ErrLaunchOutOfResources  Code = 701
	ErrLaunchTimeout         Code = 702
	ErrPeerAccessEnabled     Code = 704
	ErrTooManyPeers          Code = 711
	ErrLaunchFailed          Code = 719
	ErrNotPermitted          Code = 800
	ErrNotSupported          Code = 801
	ErrSystemNotReady        Code = 802
	ErrSystemDriverMismatch  Code = 803
	ErrCaptureUnsupported    Code = 900
	ErrCaptureInvalidated    Code = 901
	ErrInvalidClusterSize    Code = 912
	ErrUnknown               Code = 999
)

// ErrPoisoned is what errors.Is finds in an error after which the context answers every call with the same error, and
// in those answers. Only a new process helps.
var ErrPoisoned = errors.New("driver: the context is poisoned by an earlier error")

// ErrClosed is what errors.Is finds in the error of a call on a closed object.
var ErrClosed = errors.New("driver: use of a closed object")

// Sticky reports whether the code says that the context can do no more work. These are the codes that cuda.h marks
// "leaves the process in an inconsistent state and any further CUDA work will return the same error", the hardware
// faults of like effect, and a destroyed context.
func (c Code) Sticky() bool {
	switch c {
	case ErrDeinitialized, ErrECCUncorrectable, ErrNVLinkUncorrectable, 226, // CONTAINED
		ErrIllegalAddress, ErrLaunchTimeout, 709, 710, // CONTEXT_IS_DESTROYED, ASSERT
		714, 715, 716, 717, 718, ErrLaunchFailed, // stack, instruction, alignment, address space, PC, launch
		721, 911: // TENSOR_MEMORY_LEAK, EXTERNAL_DEVICE
		return true
	}
	return false
}

// Error makes a code an error that errors.Is can look for. Errors of calls are of type *Error and say more.
func (c Code) Error() string { return fmt.Sprintf("CUDA error %d", uint32(c)) }

// Is makes a sticky code match ErrPoisoned.
func (c Code) Is(target error) bool { return target == ErrPoisoned && c.Sticky() }

// Error is a driver call that failed.
type Error struct {
	Code Code
	// Name and Text are the driver's own: "CUDA_ERROR_OUT_OF_MEMORY", "out of memory".
	Name, Text string
	// Call is the driver function, with its version: "cuMemAlloc_v2".
	Call string
	// Detail says what was attempted, if the call alone does not.
	Detail string
	// Log is what the driver's compiler wrote to its error log, if it was used and wrote anything.
	Log string
	// PTXPath is where the PTX was kept; "" unless FSGEN_DUMP names a directory.
	PTXPath string
}

// Error puts the driver's words, what was attempted and the compiler's log into one message.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "driver: %s: %s (%d): %s", e.Call, e.Name, uint32(e.Code), e.Text)
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	if e.Log != "" {
		fmt.Fprintf(&b, "\n%s", e.Log)
	}
	if e.PTXPath != "" {
		fmt.Fprintf(&b, "\nPTX kept in %s", e.PTXPath)
	}
	return b.String()
}

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Code }

// PoisonedError answers a call on a context that an earlier error has made useless. The call was not made.
type PoisonedError struct {
	// Call is the driver function that would have been called.
	Call string
	// Cause is the error that poisoned the context, as first seen.
	Cause *Error
}

func (e *PoisonedError) Error() string {
	return fmt.Sprintf("driver: %s: the context is unusable since an earlier error, and the process must be restarted: %v",
		e.Call, e.Cause)
}

// Unwrap returns the error that poisoned the context.
func (e *PoisonedError) Unwrap() error { return e.Cause }

// Is makes the error match ErrPoisoned, also if the cause is a code that is sticky only in this context.
func (e *PoisonedError) Is(target error) bool { return target == ErrPoisoned }

// ClosedError is a call on a closed object.
type ClosedError struct {
	// Object is what was closed: "stream", "buffer".
	Object string
}

func (e *ClosedError) Error() string { return "driver: the " + e.Object + " is closed" }

// Is makes the error match ErrClosed.
func (e *ClosedError) Is(target error) bool { return target == ErrClosed }
