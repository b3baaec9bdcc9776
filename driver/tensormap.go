package driver

import (
	"unsafe"
)

// ElementType is the type of a tensor's elements (CUDA Driver API, CUtensorMapDataType).
type ElementType uint32

// Element types. The packed 4- and 6-bit types are left out.
const (
	Uint8 ElementType = iota
	Uint16
	Uint32
	Int32
	Uint64
	Int64
	Float16
	Float32
	Float64
	BFloat16
	Float32FTZ
	TFloat32
	TFloat32FTZ
	numElementTypes
)

// Swizzle is how 16-byte chunks are permuted in shared memory (CUtensorMapSwizzle).
type Swizzle uint32

// Swizzles: none, and those over spans of so many bytes.
const (
	SwizzleNone Swizzle = iota
	Swizzle32B
	Swizzle64B
	Swizzle128B
	numSwizzles
)

// Interleave is the layout of channels in memory (CUtensorMapInterleave).
type Interleave uint32

// Interleaves: none, or slices of so many bytes.
const (
	InterleaveNone Interleave = iota
	Interleave16B
	Interleave32B
	numInterleaves
)

// L2Promotion is how much the L2 cache fetches at a time (CUtensorMapL2promotion).
type L2Promotion uint32

// L2 promotions: none, or to so many bytes.
const (
	L2PromotionNone L2Promotion = iota
	L2Promotion64B
	L2Promotion128B
	L2Promotion256B
	numL2Promotions
)

// OOBFill is what elements outside the tensor read as (CUtensorMapFloatOOBfill).
type OOBFill uint32

// Fills: zeros, or NaNs that a fused multiply-add takes for zeros.
const (
	OOBFillZero OOBFill = iota
	OOBFillNaN
	numOOBFills
)

// TensorMapSpec describes a tensor in device memory and the box of it that one instruction copies. Dimensions go from
// the innermost, dimension 0, outwards.
type TensorMapSpec struct {
	Type    ElementType
	Rank    int
	Address DevicePtr
	// Dims are the tensor's sizes in elements.
	Dims [5]uint64
	// Strides are the distances in bytes between neighbours in dimensions 1 to Rank-1; those in dimension 0 touch.
	Strides [4]uint64
	// Box is the box's size in elements.
	Box [5]uint32
	// ElementStrides are the steps through the tensor in elements; 0 means 1.
	ElementStrides [5]uint32

	Interleave  Interleave
	Swizzle     Swizzle
	L2Promotion L2Promotion
	OOBFill     OOBFill
}

// TensorMap is an encoded tensor map, a kernel parameter by value. It holds the tensor's address, so it is good as
// long as the memory is.
type TensorMap struct{ words [16]uint64 }

// TensorMapBytes is the size of a tensor map.
const TensorMapBytes = 128

// Bytes returns the map as a kernel gets it. In memory it must be aligned to 64 bytes; Params does that.
func (t *TensorMap) Bytes() [TensorMapBytes]byte { return *(*[TensorMapBytes]byte)(unsafe.Pointer(t)) }

// Where encode lays out its arrays in a frame, from frameSpace on.
const (
	encMap     = frameSpace // aligned to 128 here; the driver asks for 64
	encDims    = encMap + TensorMapBytes
	encStrides = encDims + 5*8
	encBox     = encStrides + 4*8
	encSteps   = encBox + 5*4
)

// EncodeTiled makes a tensor map. A spec that breaks a rule is a *TensorMapError and never reaches the driver, whose
// only answer would be "invalid argument". It allocates nothing.
func (c *Context) EncodeTiled(spec *TensorMapSpec) (TensorMap, error) {
	if err := spec.Check(); err != nil {
		return TensorMap{}, err
	}
	return c.encode(spec)
}

func (c *Context) encode(spec *TensorMapSpec) (t TensorMap, err error) {
	if err := c.use(); err != nil {
		return t, err
	}
	defer c.done()
	f := getFrame()
	defer putFrame(f)
	for i := range 5 {
		*at[uint64](f.mem, encDims+8*i) = spec.Dims[i]
		*at[uint32](f.mem, encBox+4*i) = spec.Box[i]
		*at[uint32](f.mem, encSteps+4*i) = max(spec.ElementStrides[i], 1)
	}
	for i, stride := range spec.Strides {
		*at[uint64](f.mem, encStrides+8*i) = stride
	}
	base := address(f.mem)
	err = c.primary.call(f, cuTensorMapEncodeTiled, base+encMap, uintptr(spec.Type), uintptr(spec.Rank),
		uintptr(spec.Address), base+encDims, base+encStrides, base+encBox, base+encSteps,
		uintptr(spec.Interleave), uintptr(spec.Swizzle), uintptr(spec.L2Promotion), uintptr(spec.OOBFill))
	if err != nil {
		return t, withDetail(err, "tensor map %+v", *spec)
	}
	return *at[TensorMap](f.mem, encMap), nil
}
