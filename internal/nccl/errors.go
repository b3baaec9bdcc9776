package nccl

import (
	"errors"
	"fmt"

	"github.com/fsgen/fsgen/internal/dynlib"
)

// ErrClosed is what calls on a communicator return after Close or Abort.
var ErrClosed = errors.New("nccl: the communicator is closed")

// Result is an ncclResult_t.
type Result int32

// Results that programs act on (nccl.h).
const (
	success            Result = 0
	ErrUnhandledCUDA   Result = 1
	ErrSystem          Result = 2
	ErrInternal        Result = 3
	ErrInvalidArgument Result = 4
	ErrInvalidUsage    Result = 5
	ErrRemote          Result = 6
	inProgress         Result = 7
)

var resultNames = map[Result]string{
	success: "ncclSuccess", ErrUnhandledCUDA: "ncclUnhandledCudaError", ErrSystem: "ncclSystemError", ErrInternal: "ncclInternalError",
	ErrInvalidArgument: "ncclInvalidArgument", ErrInvalidUsage: "ncclInvalidUsage", ErrRemote: "ncclRemoteError",
	inProgress: "ncclInProgress", 8: "ncclTimeout",
}

// Error makes a result an error that errors.Is can look for. Errors of calls are of type *Error and say more.
func (r Result) Error() string {
	if name, ok := resultNames[r]; ok {
		return fmt.Sprintf("%s (%d)", name, int32(r))
	}
	return fmt.Sprintf("ncclResult_t (%d)", int32(r))
}

// Error is an NCCL call that failed.
type Error struct {
	Result Result
	// Call is the function: "ncclAllGather".
	Call string
	// Text is the library's words for the result, Last its words for what happened, if it has any.
	Text, Last string
	// Detail says which rank it was.
	Detail string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("nccl: %s: %v: %s", e.Call, e.Result, e.Text)
	for _, more := range []string{e.Detail, e.Last} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// Unwrap returns the result.
func (e *Error) Unwrap() error { return e.Result }

// WaitError says that ctx ended before NCCL had done something, for which all ranks are needed.
type WaitError struct {
	Call, Detail string
	// Err is ctx's.
	Err error
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("nccl: %s has not ended: %s: %v (are all ranks there?)", e.Call, e.Detail, e.Err)
}

// Unwrap returns ctx's error.
func (e *WaitError) Unwrap() error { return e.Err }

// LoadError says that there is no NCCL, or none that can be loaded; errors.Is finds dynlib.ErrNotFound where there is none.
type LoadError struct{ Err error }

func (e *LoadError) Error() string {
	if errors.Is(e.Err, dynlib.ErrNotFound) {
		return fmt.Sprintf("nccl: no libnccl.so.2 here: %v (it comes with the packages libnccl2 and nvidia-nccl-cu12; %s can name it)",
			e.Err, EnvLibrary)
	}
	return fmt.Sprintf("nccl: %v", e.Err)
}

// Unwrap returns the loader's error.
func (e *LoadError) Unwrap() error { return e.Err }

// VersionError says that the library is not of a version that this package speaks to.
type VersionError struct {
	Library   string
	Have, Min Version
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("nccl: %s is NCCL %v: want %v or later of %d.x", e.Library, e.Have, e.Min, e.Min.Major())
}

// ConfigError is a rank or size that no communicator or gather has.
type ConfigError struct{ Reason string }

func (e *ConfigError) Error() string { return "nccl: " + e.Reason }
