package cublas

import (
	"errors"
	"fmt"
	"structs"
	"unsafe"
)

// WorkspaceBytes is the workspace that the heuristic may count on. 32 MiB is what cuBLAS itself takes on Hopper (cuBLAS
// Library, "cublasSetWorkspace").
const WorkspaceBytes = 32 << 20

// Numbers of library_types.h, cublas_api.h and cublasLt.h, the same in CUDA 12 and 13.
const (
	typeF32             = 0  // CUDA_R_32F
	typeBF16            = 14 // CUDA_R_16BF
	computeF32          = 68 // CUBLAS_COMPUTE_32F
	opTransposed  int32 = 1  // CUBLAS_OP_T
	descTransA          = 3  // CUBLASLT_MATMUL_DESC_TRANSA
	prefWorkspace       = 1  // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
)

// Shape is a problem: logits [Batch, Vocab] = hidden [Batch, Hidden] times weights [Vocab, Hidden] transposed. Rows of
// hidden states and weights are HiddenLD and WeightsLD values apart, those of the logits Vocab.
type Shape struct {
	Batch, Vocab, Hidden int
	HiddenLD, WeightsLD  int
}

func (s Shape) check() error {
	if s.Batch < 1 || s.Vocab < 1 || s.Hidden < 1 || s.HiddenLD < s.Hidden || s.WeightsLD < s.Hidden {
		return fmt.Errorf("cublas: shape %+v: want sizes of 1 or more, and rows that do not overlap", s)
	}
	return nil
}

// algo is cublasLtMatmulAlgo_t, which only the library reads.
type algo [8]uint64

// heuristicResult is cublasLtMatmulHeuristicResult_t.
type heuristicResult struct {
	_         structs.HostLayout
	algo      algo
	workspace uint64
	status    Status
	waves     float32
	_         [4]int32
}

// Matmul is a multiplication ready to be enqueued, with the algorithms to choose from.
type Matmul struct {
	h    *Handle
	desc uintptr
	// Layouts, column by column as cuBLAS counts: a [V, D] matrix by rows is a [D, V] one by columns.
	weights, hidden, logits uintptr
	algos                   []heuristicResult
}

// NewMatmul asks the heuristic for up to n algorithms, best guess first. Close the Matmul when done.
func (h *Handle) NewMatmul(s Shape, n int) (*Matmul, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	m := &Matmul{h: h}
	if err := m.prepare(s, n); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Matmul) prepare(s Shape, n int) (err error) {
	l := m.h.lib
	status := l.fn[fnDescCreate].Call(uintptr(unsafe.Pointer(&m.desc)), computeF32, typeF32)
	if err = l.check(fnDescCreate, status, ""); err != nil {
		return err
	}
	op := opTransposed
	status = l.fn[fnDescSet].Call(m.desc, descTransA, uintptr(unsafe.Pointer(&op)), unsafe.Sizeof(op))
	if err = l.check(fnDescSet, status, "transposed weights"); err != nil {
		return err
	}
	for _, x := range []struct {
		to             *uintptr
		rows, cols, ld int
	}{{&m.weights, s.Hidden, s.Vocab, s.WeightsLD}, {&m.hidden, s.Hidden, s.Batch, s.HiddenLD}, {&m.logits, s.Vocab, s.Batch, s.Vocab}} {
		status = l.fn[fnLayoutCreate].Call(uintptr(unsafe.Pointer(x.to)), typeBF16, uintptr(x.rows), uintptr(x.cols), uintptr(x.ld))
		if err = l.check(fnLayoutCreate, status, fmt.Sprintf("%d x %d, %d apart", x.rows, x.cols, x.ld)); err != nil {
			return err
		}
	}
	return m.propose(s, n)
}

// propose fills in the algorithms.
func (m *Matmul) propose(s Shape, n int) error {
	l := m.h.lib
	var preference uintptr
	status := l.fn[fnPreferenceCreate].Call(uintptr(unsafe.Pointer(&preference)))
	if err := l.check(fnPreferenceCreate, status, ""); err != nil {
		return err
	}
	defer l.fn[fnPreferenceDestroy].Call(preference)
	limit := uint64(WorkspaceBytes)
	status = l.fn[fnPreferenceSet].Call(preference, prefWorkspace, uintptr(unsafe.Pointer(&limit)), unsafe.Sizeof(limit))
	if err := l.check(fnPreferenceSet, status, "workspace"); err != nil {
		return err
	}
	results, found := make([]heuristicResult, max(n, 1)), int32(0)
	status = l.fn[fnHeuristic].Call(m.h.handle, m.desc, m.weights, m.hidden, m.logits, m.logits, preference,
		uintptr(len(results)), uintptr(unsafe.Pointer(&results[0])), uintptr(unsafe.Pointer(&found)))
	if err := l.check(fnHeuristic, status, fmt.Sprintf("%+v", s)); err != nil {
		return err
	}
	for _, r := range results[:min(int(found), len(results))] {
		if r.status == success && r.workspace <= WorkspaceBytes {
			m.algos = append(m.algos, r)
		}
	}
	if len(m.algos) == 0 {
		return &Error{Status: ErrNotSupported, Call: functionNames[fnHeuristic], Detail: fmt.Sprintf("no algorithm for %+v", s)}
	}
	return nil
}

// Algorithms returns how many algorithms there are, 1 or more.
func (m *Matmul) Algorithms() int { return len(m.algos) }

// Args are the device addresses of one multiplication. Workspace has WorkspaceBytes.
type Args struct {
	Hidden, Weights, Logits, Workspace uint64
}

// Enqueue enqueues the multiplication by an algorithm, counted from 0, on a CUstream.
func (m *Matmul) Enqueue(algorithm int, stream uintptr, a Args) error {
	l, choice := m.h.lib, &m.algos[algorithm]
	one, zero := float32(1), float32(0)
	status := l.fn[fnMatmul].Call(m.h.handle, m.desc, uintptr(unsafe.Pointer(&one)), uintptr(a.Weights), m.weights,
		uintptr(a.Hidden), m.hidden, uintptr(unsafe.Pointer(&zero)), uintptr(a.Logits), m.logits, uintptr(a.Logits), m.logits,
		uintptr(unsafe.Pointer(&choice.algo)), uintptr(a.Workspace), WorkspaceBytes, stream)
	return l.check(fnMatmul, status, fmt.Sprintf("algorithm %d", algorithm))
}

// Close destroys the descriptors. Work that was enqueued runs on.
func (m *Matmul) Close() error {
	l := m.h.lib
	var errs []error
	for _, x := range []struct {
		f      function
		handle *uintptr
	}{{fnLayoutDestroy, &m.logits}, {fnLayoutDestroy, &m.hidden}, {fnLayoutDestroy, &m.weights}, {fnDescDestroy, &m.desc}} {
		if *x.handle != 0 {
			errs = append(errs, l.check(x.f, l.fn[x.f].Call(*x.handle), ""))
			*x.handle = 0
		}
	}
	return errors.Join(errs...)
}
