package driver

import "fmt"

// TensorMapError says which rule of cuTensorMapEncodeTiled (CUDA Driver API, "Tensor Map Object Management") a spec
// breaks.
type TensorMapError struct {
	// Rule is the rule: "must be a multiple of 16".
	Rule string
	// Field is what breaks it: "globalStrides[0]", by the manual's names.
	Field string
	// Value is what it is.
	Value uint64
}

func (e *TensorMapError) Error() string {
	return fmt.Sprintf("driver: tensor map: %s = %d: %s", e.Field, e.Value, e.Rule)
}

// elementSizes are the element types' sizes in bytes.
var elementSizes = [numElementTypes]uint64{
	Uint8: 1, Uint16: 2, Uint32: 4, Int32: 4, Uint64: 8, Int64: 8, Float16: 2, Float32: 4, Float64: 8,
	BFloat16: 2, Float32FTZ: 4, TFloat32: 4, TFloat32FTZ: 4,
}

// Size returns the element's size in bytes, 0 for an unknown type.
func (t ElementType) Size() int {
	if t >= numElementTypes {
		return 0
	}
	return int(elementSizes[t])
}

func (t ElementType) isFloat() bool { return t >= Float16 }

// swizzleSpans are the bytes over which each swizzle permutes.
var swizzleSpans = [numSwizzles]uint64{Swizzle32B: 32, Swizzle64B: 64, Swizzle128B: 128}

// Check holds the spec against every rule of the manual, in the manual's order.
func (s *TensorMapSpec) Check() error {
	for _, check := range [...]func(*TensorMapSpec) *TensorMapError{
		(*TensorMapSpec).checkKinds, (*TensorMapSpec).checkAddress, (*TensorMapSpec).checkDims,
		(*TensorMapSpec).checkStrides, (*TensorMapSpec).checkBox, (*TensorMapSpec).checkModes,
	} {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

// checkKinds comes first: the other checks index by what it admits.
func (s *TensorMapSpec) checkKinds() *TensorMapError {
	for _, k := range [...]struct {
		field    string
		value, n uint32
	}{
		{"tensorDataType", uint32(s.Type), uint32(numElementTypes)},
		{"interleave", uint32(s.Interleave), uint32(numInterleaves)},
		{"swizzle", uint32(s.Swizzle), uint32(numSwizzles)},
		{"l2Promotion", uint32(s.L2Promotion), uint32(numL2Promotions)},
		{"oobFill", uint32(s.OOBFill), uint32(numOOBFills)},
	} {
		if k.value >= k.n {
			return &TensorMapError{fmt.Sprintf("must be less than %d", k.n), k.field, uint64(k.value)}
		}
	}
	least := 1
	if s.Interleave != InterleaveNone {
		least = 3
	}
	if s.Rank < least || s.Rank > 5 {
		return &TensorMapError{fmt.Sprintf("must be %d to 5", least), "tensorRank", uint64(s.Rank)}
	}
	return nil
}

// alignment is what the address and the strides must be multiples of.
func (s *TensorMapSpec) alignment() uint64 {
	if s.Interleave == Interleave32B {
		return 32
	}
	return 16
}

func (s *TensorMapSpec) checkAddress() *TensorMapError {
	if s.Address == 0 {
		return &TensorMapError{"must be device memory", "globalAddress", 0}
	}
	if n := s.alignment(); uint64(s.Address)%n != 0 {
		return &TensorMapError{fmt.Sprintf("must be a multiple of %d", n), "globalAddress", uint64(s.Address)}
	}
	return nil
}

func (s *TensorMapSpec) checkDims() *TensorMapError {
	for i, d := range s.Dims[:s.Rank] {
		if d == 0 || d > 1<<32 {
			return &TensorMapError{"must be 1 to 2^32", fmt.Sprintf("globalDim[%d]", i), d}
		}
	}
	return nil
}

// checkStrides also holds each stride to span what it steps over: the manual derives each from the dimensions below
// it and padding.
func (s *TensorMapSpec) checkStrides() *TensorMapError {
	n := s.alignment()
	span := s.Dims[0] * elementSizes[s.Type]
	for i, stride := range s.Strides[:s.Rank-1] {
		bad := func(rule string) *TensorMapError {
			return &TensorMapError{rule, fmt.Sprintf("globalStrides[%d]", i), stride}
		}
		switch {
		case stride%n != 0:
			return bad(fmt.Sprintf("must be a multiple of %d", n))
		case stride >= 1<<40:
			return bad("must be less than 2^40")
		case stride < span:
			return bad(fmt.Sprintf("must be at least the %d bytes that it steps over", span))
		}
		if s.Dims[i+1] > (1<<63)/stride {
			span = 1 << 63 // more than any stride may be, without overflow
		} else {
			span = stride * s.Dims[i+1]
		}
	}
	return nil
}

// maxBoxBytes is the largest box that the driver takes: what one CTA may have of shared memory on compute capability 9.0.
// The manual does not say so; driver 580.159 on an H200 refuses larger boxes and no smaller ones. What counts is what
// arrives: element strides thin a box out.
const maxBoxBytes = 232448

func (s *TensorMapSpec) checkBox() *TensorMapError {
	bytes := elementSizes[s.Type]
	for i, b := range s.Box[:s.Rank] {
		if b == 0 || b > 256 {
			return &TensorMapError{"must be 1 to 256", fmt.Sprintf("boxDim[%d]", i), uint64(b)}
		}
		step := max(uint64(s.ElementStrides[i]), 1)
		if i == 0 && s.Interleave == InterleaveNone {
			step = 1 // the manual: the innermost stride is ignored without interleave
		}
		bytes *= (uint64(b) + step - 1) / step // at most 8 x 256^5: no overflow
	}
	if bytes > maxBoxBytes {
		return &TensorMapError{fmt.Sprintf("must be at most %d, the shared memory of a CTA", maxBoxBytes), "boxDim in bytes", bytes}
	}
	for i, e := range s.ElementStrides[:s.Rank] {
		if e > 8 {
			return &TensorMapError{"must be 1 to 8", fmt.Sprintf("elementStrides[%d]", i), uint64(e)}
		}
	}
	return nil
}

func (s *TensorMapSpec) checkModes() *TensorMapError {
	inner := uint64(s.Box[0]) * elementSizes[s.Type]
	const innerField = "boxDim[0] in bytes"
	span := swizzleSpans[s.Swizzle]
	switch {
	case s.Interleave == InterleaveNone && inner%16 != 0:
		return &TensorMapError{"must be a multiple of 16", innerField, inner}
	case s.Interleave == InterleaveNone && s.Swizzle != SwizzleNone && inner > span:
		return &TensorMapError{fmt.Sprintf("must be at most the swizzle span of %d", span), innerField, inner}
	case s.Interleave == Interleave32B && s.Swizzle != Swizzle32B:
		return &TensorMapError{"must be the 32-byte swizzle with 32-byte interleave", "swizzle", uint64(s.Swizzle)}
	case s.OOBFill == OOBFillNaN && !s.Type.isFloat():
		return &TensorMapError{"must be zero for element types that are not floating-point", "oobFill", uint64(s.OOBFill)}
	}
	return nil
}
