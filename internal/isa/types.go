package isa

// Type is a PTX fundamental or packed type, as written in a type modifier.
type Type uint8

// The types, in the order of typeInfo.
const (
	None Type = iota
	Pred
	B8
	U8
	S8
	B16
	U16
	S16
	F16
	BF16
	E4M3x2
	E5M2x2
	B32
	U32
	S32
	F32
	TF32
	F16x2
	BF16x2
	B64
	U64
	S64
	F64
	F32x2
	NumTypes
)

// Kind says how the bits of a type are read.
type Kind uint8

// The kinds of types.
const (
	KindBits Kind = iota // untyped bits: agrees with every type of its width
	KindPred
	KindUnsigned
	KindSigned
	KindFloat
	KindPacked // several floats, or a float that PTX keeps in an untyped register
)

// Class is a class of registers, as declared by .reg.
type Class uint8

// The register classes.
const (
	NoClass Class = iota
	ClassPred
	Class16
	Class32
	Class64
	ClassF32
	ClassF64
	NumClasses
)

type typeRow struct {
	text  string
	goID  string
	bits  int
	kind  Kind
	class Class // of a register that holds it
}

var typeInfo = [NumTypes]typeRow{
	None:   {"", "", 0, KindBits, NoClass},
	Pred:   {"pred", "Pred", 1, KindPred, ClassPred},
	B8:     {"b8", "B8", 8, KindBits, Class16},
	U8:     {"u8", "U8", 8, KindUnsigned, Class16},
	S8:     {"s8", "S8", 8, KindSigned, Class16},
	B16:    {"b16", "B16", 16, KindBits, Class16},
	U16:    {"u16", "U16", 16, KindUnsigned, Class16},
	S16:    {"s16", "S16", 16, KindSigned, Class16},
	F16:    {"f16", "F16", 16, KindPacked, Class16},
	BF16:   {"bf16", "BF16", 16, KindPacked, Class16},
	E4M3x2: {"e4m3x2", "E4M3x2", 16, KindPacked, Class16},
	E5M2x2: {"e5m2x2", "E5M2x2", 16, KindPacked, Class16},
	B32:    {"b32", "B32", 32, KindBits, Class32},
	U32:    {"u32", "U32", 32, KindUnsigned, Class32},
	S32:    {"s32", "S32", 32, KindSigned, Class32},
	F32:    {"f32", "F32", 32, KindFloat, ClassF32},
	TF32:   {"tf32", "TF32", 32, KindPacked, Class32},
	F16x2:  {"f16x2", "F16x2", 32, KindPacked, Class32},
	BF16x2: {"bf16x2", "BF16x2", 32, KindPacked, Class32},
	B64:    {"b64", "B64", 64, KindBits, Class64},
	U64:    {"u64", "U64", 64, KindUnsigned, Class64},
	S64:    {"s64", "S64", 64, KindSigned, Class64},
	F64:    {"f64", "F64", 64, KindFloat, ClassF64},
	F32x2:  {"f32x2", "F32x2", 64, KindPacked, Class64},
}

// String returns the type as PTX spells it, without the dot.
func (t Type) String() string { return typeInfo[t].text }

// GoID returns the part of a constructor's name that stands for the type.
func (t Type) GoID() string { return typeInfo[t].goID }

// Bits returns the width of the type.
func (t Type) Bits() int { return typeInfo[t].bits }

// Bytes returns the size of the type in memory.
func (t Type) Bytes() int { return typeInfo[t].bits / 8 }

// Kind returns how the type's bits are read.
func (t Type) Kind() Kind { return typeInfo[t].kind }

// Class returns the class of the registers that hold the type.
func (t Type) Class() Class { return typeInfo[t].class }

// Wide returns the integer type of twice the width, the result of mul.wide.
func (t Type) Wide() Type {
	want := typeRow{bits: 2 * t.Bits(), kind: t.Kind()}
	for u := None + 1; u < NumTypes; u++ {
		if typeInfo[u].bits == want.bits && typeInfo[u].kind == want.kind {
			return u
		}
	}
	return None
}

// ParseType finds a type by its PTX spelling.
func ParseType(s string) (Type, bool) {
	for t := None + 1; t < NumTypes; t++ {
		if typeInfo[t].text == s {
			return t, true
		}
	}
	return None, false
}

type classRow struct {
	text   string // the type that .reg declares
	prefix string // of anonymous registers
	bits   int
}

var classInfo = [NumClasses]classRow{
	NoClass:   {"", "", 0},
	ClassPred: {"pred", "p", 1},
	Class16:   {"b16", "h", 16},
	Class32:   {"b32", "r", 32},
	Class64:   {"b64", "rd", 64},
	ClassF32:  {"f32", "f", 32},
	ClassF64:  {"f64", "fd", 64},
}

// String returns the type with which .reg declares registers of the class.
func (c Class) String() string { return classInfo[c].text }

// Prefix returns the letters that anonymous registers of the class begin with.
func (c Class) Prefix() string { return classInfo[c].prefix }

// Bits returns the width of a register of the class.
func (c Class) Bits() int { return classInfo[c].bits }

// ClassOf returns the class that a .reg directive with type t declares.
func ClassOf(t Type) Class { return t.Class() }

// Holds reports whether a register of class c may stand where an operand of type t is wanted. An untyped operand or
// register agrees with every type of its width (PTX ISA, "Type Checking of Operands"); a wider register is accepted where
// wider says so (ld, st and cvt: "Operand Size Exceeding Instruction-Type Size").
func (t Type) Holds(c Class, wider bool) bool {
	want := t.Class()
	switch {
	case c == want:
		return true
	case want == ClassPred || c == ClassPred || c == NoClass:
		return false
	case wider && classInfo[c].bits > t.Bits():
		return isBits(c)
	case classInfo[c].bits != classInfo[want].bits:
		return false
	default:
		return isBits(c) && t.Kind() == KindFloat || t.Kind() == KindBits
	}
}

func isBits(c Class) bool { return c == Class16 || c == Class32 || c == Class64 }

// Space is a state space.
type Space uint8

// The state spaces.
const (
	NoSpace Space = iota
	Generic
	Global
	Shared        // of this CTA
	SharedCluster // of any CTA of the cluster
	Local
	Const
	Param
	TMem // tensor memory, sm_100
	NumSpaces
)

var spaceText = [NumSpaces]string{"", "generic", "global", "shared", "shared::cluster", "local", "const", "param", "tmem"}

// String returns the space as PTX spells it, or "generic".
func (s Space) String() string { return spaceText[s] }

// AddressBits lists the widths of registers that may hold an address in the space.
func (s Space) AddressBits() (min, max int) {
	switch s {
	case Generic, Global:
		return 64, 64
	case TMem:
		return 32, 32
	default:
		return 32, 64
	}
}

// Accepts reports whether an address operand in space s may be based on a variable of space v.
func (s Space) Accepts(v Space) bool { return s == v || s == SharedCluster && v == Shared }

// Effect is a set of things that an instruction does beyond computing its destinations.
type Effect uint32

// The effects.
const (
	Load     Effect = 1 << iota // reads memory at its address operands
	Store                       // writes memory at its address operands
	Atomic                      // reads and writes memory in one step
	Fence                       // orders memory accesses
	Barrier                     // waits for other threads or tells them something
	Async                       // completes later
	Proxy                       // acts through the async proxy
	Converge                    // all threads of a warp (or warpgroup) must execute it together: .aligned
	Jump                        // control may pass to a label or function
	End                         // control never passes to the next instruction unless guarded
	Keep                        // has an effect outside registers and memory
	WriteCC                     // writes the carry flag
	ReadCC                      // reads the carry flag
)

// HasSideEffects reports whether an instruction must stay even if nothing reads its destinations.
func (e Effect) HasSideEffects() bool {
	return e&(Store|Atomic|Fence|Barrier|Async|Jump|End|Keep|WriteCC) != 0
}
