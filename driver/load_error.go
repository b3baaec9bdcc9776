package driver

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// ErrUnsupportedPlatform is what errors.Is finds where CUDA cannot be used at all.
var ErrUnsupportedPlatform = errors.New("driver: CUDA needs Linux on amd64 or arm64")

// platformError is an ErrUnsupportedPlatform that names the platform at hand.
type platformError struct{}

func (platformError) Error() string {
	return fmt.Sprintf("%v; this is %s on %s", ErrUnsupportedPlatform, runtime.GOOS, runtime.GOARCH)
}
func (platformError) Is(target error) bool { return target == ErrUnsupportedPlatform }

// LoadReason says why the driver library could not be used.
type LoadReason string

// The reasons of a LoadError.
const (
	LibraryMissing LoadReason = "not found"
	WrongClass     LoadReason = "built for another processor or word size"
	NotALibrary    LoadReason = "not a shared library"
	CannotLoad     LoadReason = "cannot be loaded"
	InitFailed     LoadReason = "cannot be started"
)

// LoadError says that the driver library is missing, unfit, or does not start.
type LoadError struct {
	// Path is the library as it was asked for.
	Path   string
	Reason LoadReason
	// Err is the loader's message, or the *Error of cuInit.
	Err error
}

func (e *LoadError) Error() string {
	why := strings.TrimPrefix(fmt.Sprint(e.Err), e.Path+": ") // as glibc begins
	return fmt.Sprintf("driver: %s is %s: %s%s", e.Path, e.Reason, why, e.hint())
}

// Unwrap returns the loader's or the driver's error.
func (e *LoadError) Unwrap() error { return e.Err }

// hint says what usually helps.
func (e *LoadError) hint() string {
	switch {
	case e.Reason == LibraryMissing:
		return " (is the NVIDIA driver installed, and given to this container? FSGEN_CUDA_LIB can name the library)"
	case errors.Is(e.Err, ErrStubLibrary):
		return " (this is the stub that programs are linked against; the real one comes with the NVIDIA driver)"
	case errors.Is(e.Err, ErrSystemDriverMismatch):
		return " (the library and the kernel module are of different driver versions; after an update, reboot)"
	case errors.Is(e.Err, ErrSystemNotReady):
		return " (the system's GPUs are not ready yet; on NVSwitch systems the fabric manager must be running)"
	}
	return ""
}

// loadReason reads glibc's message: dlerror has no codes.
func loadReason(err error) LoadReason {
	text := err.Error()
	has := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case has("wrong ELF class"), has("wrong ELF data"), has("cannot open shared object file") && has("Exec format"):
		return WrongClass
	case has("invalid ELF header"), has("file too short"), has("not a dynamic"), has("cannot read file data"):
		return NotALibrary
	case has("No such file or directory"):
		return LibraryMissing
	}
	return CannotLoad
}

// SymbolError says that the driver library lacks a function: it is older than the feature, or not a driver.
type SymbolError struct {
	// Symbol is the exported name, with its version suffix.
	Symbol string
	// Feature is what cannot be had without it.
	Feature string
	// Library is the library as it was asked for.
	Library string
}

func (e *SymbolError) Error() string {
	return fmt.Sprintf("driver: %s has no %s, which is needed for %s: update the NVIDIA driver", e.Library, e.Symbol, e.Feature)
}
