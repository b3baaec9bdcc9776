package driver

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
)

// Params is the parameter block of a kernel: the values, outside the Go heap, and the array of pointers to them that
// the driver takes, built once. The driver copies the values at launch, so a block may be changed and launched again
// at once; but it belongs to one goroutine at a time, and a launch that meets it in use elsewhere is an error.
//
// The Set methods do not return errors: the first one is what Launch returns.
type Params struct {
	block  []byte
	sizes  []int
	places []int // offsets of the values in block
	err    error
	busy   atomic.Bool
	frame  *frame // for launches, so that they need not take one
}

// The block's layout: the launch itself, the pointers, the values. Values are aligned to 128 bytes where they are
// tensor maps, for which the driver asks 64, and to 16 otherwise.
const paramPointers = launchBytes

// ParamError is a parameter that does not fit what NewParams was told.
type ParamError struct {
	Index  int
	Reason string
}

func (e *ParamError) Error() string {
	return fmt.Sprintf("driver: kernel parameter %d: %s", e.Index, e.Reason)
}

// ErrBusy is what errors.Is finds when an object that belongs to one goroutine at a time is used by two.
var ErrBusy = errors.New("driver: Params used by two goroutines at a time")

// NewParams makes a block for parameters of the given sizes in bytes, in the kernel's order: 4, 8, or TensorMapBytes,
// or what a structure takes. The values are zero.
func NewParams(sizes ...int) (*Params, error) {
	p := &Params{sizes: append([]int(nil), sizes...), places: make([]int, len(sizes))}
	end := paramPointers + 8*len(sizes)
	for i, size := range sizes {
		if size < 1 || size > 32764 { // PTX ISA, "Kernel Function Parameters"
			return nil, &ParamError{i, fmt.Sprintf("has %d bytes: want 1 to 32764", size)}
		}
		align := 16
		if size%64 == 0 {
			align = 128
		}
		p.places[i] = (end + align - 1) &^ (align - 1)
		end = p.places[i] + size
	}
	block, err := newBlock(end)
	if err != nil {
		return nil, err
	}
	p.block, p.frame = block, getFrame()
	for i, place := range p.places {
		*at[uintptr](block, paramPointers+8*i) = address(block) + uintptr(place)
	}
	runtime.AddCleanup(p, freeBlock, block)
	runtime.AddCleanup(p, putFrame, p.frame)
	return p, nil
}

// Len returns the number of parameters.
func (p *Params) Len() int { return len(p.sizes) }

// fits notes an error unless parameter i exists and has the size.
func (p *Params) fits(i, size int) bool {
	switch {
	case i < 0 || i >= len(p.sizes):
		p.fail(i, fmt.Sprintf("the kernel has %d", len(p.sizes)))
	case p.sizes[i] != size:
		p.fail(i, fmt.Sprintf("has %d bytes, was set to a value of %d", p.sizes[i], size))
	default:
		return true
	}
	return false
}

func (p *Params) fail(i int, reason string) {
	if p.err == nil {
		p.err = &ParamError{i, reason}
	}
}

// SetPtr sets a pointer.
func (p *Params) SetPtr(i int, v DevicePtr) { p.SetUint64(i, uint64(v)) }

// SetUint64 sets a value of 8 bytes.
func (p *Params) SetUint64(i int, v uint64) {
	if p.fits(i, 8) {
		*at[uint64](p.block, p.places[i]) = v
		runtime.KeepAlive(p) // the block is another's once p is collected
	}
}

// SetUint32 sets a value of 4 bytes.
func (p *Params) SetUint32(i int, v uint32) {
	if p.fits(i, 4) {
		*at[uint32](p.block, p.places[i]) = v
		runtime.KeepAlive(p)
	}
}

// SetInt32 sets a value of 4 bytes.
func (p *Params) SetInt32(i int, v int32) { p.SetUint32(i, uint32(v)) }

// SetFloat32 sets a value of 4 bytes.
func (p *Params) SetFloat32(i int, v float32) { p.SetUint32(i, math.Float32bits(v)) }

// SetTensorMap sets a tensor map.
func (p *Params) SetTensorMap(i int, t *TensorMap) {
	if p.fits(i, TensorMapBytes) {
		*at[TensorMap](p.block, p.places[i]) = *t
		runtime.KeepAlive(p)
	}
}

// SetBytes sets a value of any size.
func (p *Params) SetBytes(i int, v []byte) {
	if p.fits(i, len(v)) {
		copy(p.block[p.places[i]:], v)
		runtime.KeepAlive(p)
	}
}

// Bytes returns a copy of value i as the kernel gets it, for tests and messages.
func (p *Params) Bytes(i int) []byte {
	v := append([]byte(nil), p.block[p.places[i]:p.places[i]+p.sizes[i]]...)
	runtime.KeepAlive(p)
	return v
}
