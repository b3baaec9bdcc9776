package model

// DType is an element type by its safetensors name, such as "BF16".
type DType string

// The element types that ReadBF16 converts from. The other types of the format are known by size, so that a file
// holding them opens, but they are not read as weights.
const (
	BF16Type DType = "BF16"
	F16      DType = "F16"
	F32      DType = "F32"
	F64      DType = "F64"
)

// dtypeBits is the whole list of the safetensors format (its Rust crate, enum Dtype) with the width of one element in
// bits. Sub-byte types are packed; their tensors must fill whole bytes.
var dtypeBits = map[DType]int64{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"I16": 16, "U16": 16, F16: 16, BF16Type: 16,
	"I32": 32, "U32": 32, F32: 32,
	"I64": 64, "U64": 64, F64: 64, "C64": 64,
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}

// Bits is the width of one element, 0 for a name the format does not know.
func (d DType) Bits() int { return int(dtypeBits[d]) }

// Float says whether ReadBF16 converts from d.
func (d DType) Float() bool {
	switch d {
	case BF16Type, F16, F32, F64:
		return true
	}
	return false
}

// size is the width in bytes of a type for which Float holds.
func (d DType) size() int64 { return dtypeBits[d] / 8 }
