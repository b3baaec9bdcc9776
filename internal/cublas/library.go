package cublas

import (
	"fmt"
	"unsafe"

	"github.com/fsgen/fsgen/internal/dynlib"
)

// EnvLibrary names the environment variable that names another libcublasLt.
const EnvLibrary = "FSGEN_CUBLASLT_LIB"

// function is one function of cuBLASLt.
type function int

const (
	fnGetVersion function = iota
	fnCreate
	fnDestroy
	fnDescCreate
	fnDescDestroy
	fnDescSet
	fnLayoutCreate
	fnLayoutDestroy
	fnPreferenceCreate
	fnPreferenceDestroy
	fnPreferenceSet
	fnHeuristic
	fnMatmul
	numFunctions
)

var functionNames = [numFunctions]string{
	fnGetVersion:        "cublasLtGetVersion",
	fnCreate:            "cublasLtCreate",
	fnDestroy:           "cublasLtDestroy",
	fnDescCreate:        "cublasLtMatmulDescCreate",
	fnDescDestroy:       "cublasLtMatmulDescDestroy",
	fnDescSet:           "cublasLtMatmulDescSetAttribute",
	fnLayoutCreate:      "cublasLtMatrixLayoutCreate",
	fnLayoutDestroy:     "cublasLtMatrixLayoutDestroy",
	fnPreferenceCreate:  "cublasLtMatmulPreferenceCreate",
	fnPreferenceDestroy: "cublasLtMatmulPreferenceDestroy",
	fnPreferenceSet:     "cublasLtMatmulPreferenceSetAttribute",
	fnHeuristic:         "cublasLtMatmulAlgoGetHeuristic",
	fnMatmul:            "cublasLtMatmul",
}

// Library is a loaded libcublasLt.
type Library struct {
	lib *dynlib.Library
	fn  [numFunctions]dynlib.Func
}

// Open loads libcublasLt: the one that FSGEN_CUBLASLT_LIB names, else of CUDA 13 or 12 where the loader or the usual
// folders have it. errors.Is finds dynlib.ErrNotFound where there is none.
func Open() (*Library, error) {
	return openFirst(dynlib.Candidates(EnvLibrary, "libcublasLt.so.13", "libcublasLt.so.12"))
}

func openFirst(names []string) (*Library, error) {
	lib, err := dynlib.Open(names...)
	if err != nil {
		return nil, fmt.Errorf("cublas: %w", err)
	}
	l := &Library{lib: lib}
	for i, name := range functionNames {
		if l.fn[i], err = lib.Func(name); err != nil {
			return nil, fmt.Errorf("cublas: %w", err)
		}
	}
	return l, nil
}

// Path returns the library's path or name.
func (l *Library) Path() string { return l.lib.Name() }

// Version returns the library's version, such as 13.1.1.
func (l *Library) Version() string {
	v := int(l.fn[fnGetVersion].Call())
	return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) // cublas_api.h, CUBLAS_VERSION
}

// Handle is a cuBLASLt handle of the current context's device.
type Handle struct {
	lib    *Library
	handle uintptr
}

// Create makes a handle.
func (l *Library) Create() (*Handle, error) {
	h := &Handle{lib: l}
	status := l.fn[fnCreate].Call(uintptr(unsafe.Pointer(&h.handle)))
	return h, l.check(fnCreate, status, "")
}

// Close destroys the handle.
func (h *Handle) Close() error {
	if h.handle == 0 {
		return nil
	}
	status := h.lib.fn[fnDestroy].Call(h.handle)
	h.handle = 0
	return h.lib.check(fnDestroy, status, "")
}

// check makes a status an error. Only the low half of the word that C returned is the enumeration.
func (l *Library) check(f function, status uintptr, detail string) error {
	if s := Status(int32(uint32(status))); s != success {
		return &Error{Status: s, Call: functionNames[f], Detail: detail}
	}
	return nil
}
