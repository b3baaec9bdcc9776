package cublas

import "fmt"

// Status is a cublasStatus_t.
type Status int32

// statusNames are the names of cublas_api.h.
var statusNames = map[Status]string{
	0: "CUBLAS_STATUS_SUCCESS", 1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED",
	7: "CUBLAS_STATUS_INVALID_VALUE", 8: "CUBLAS_STATUS_ARCH_MISMATCH", 11: "CUBLAS_STATUS_MAPPING_ERROR",
	13: "CUBLAS_STATUS_EXECUTION_FAILED", 14: "CUBLAS_STATUS_INTERNAL_ERROR", 15: "CUBLAS_STATUS_NOT_SUPPORTED",
	16: "CUBLAS_STATUS_LICENSE_ERROR",
}

// Statuses that programs act on.
const (
	success           Status = 0
	ErrNotInitialized Status = 1
	ErrInvalidValue   Status = 7
	ErrNotSupported   Status = 15
)

// Error makes a status an error that errors.Is can look for. Errors of calls are of type *Error and say more.
func (s Status) Error() string {
	if name, ok := statusNames[s]; ok {
		return fmt.Sprintf("%s (%d)", name, int32(s))
	}
	return fmt.Sprintf("CUBLAS_STATUS_? (%d)", int32(s))
}

// Error is a cuBLASLt call that failed.
type Error struct {
	Status Status
	// Call is the function: "cublasLtMatmul".
	Call string
	// Detail says what was attempted, if the call alone does not.
	Detail string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("cublas: %s: %v", e.Call, e.Status)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Unwrap returns the status.
func (e *Error) Unwrap() error { return e.Status }
