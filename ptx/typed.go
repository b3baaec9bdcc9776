package ptx

// The types in this file are what authors hold. Each source or address operand of a constructor is a sealed interface that
// only the fitting types implement, so that a predicate in place of a number, or a global address in place of a shared
// one, does not compile. The interfaces pass one unexported method each.

// Pred is a predicate register.
type Pred struct{ r *Reg }

// B16 is an untyped 16-bit register; it holds u16, s16, f16 and bf16 values.
type B16 struct{ r *Reg }

// B32 is an untyped 32-bit register; it holds u32, s32, f16x2 and bf16x2 values and shared-memory addresses.
type B32 struct{ r *Reg }

// B64 is an untyped 64-bit register; it holds u64, s64 and f32x2 values, global and generic addresses, and descriptors.
type B64 struct{ r *Reg }

// F32 is a single-precision register.
type F32 struct{ r *Reg }

// F64 is a double-precision register.
type F64 struct{ r *Reg }

// Special32 is a 32-bit special register.
type Special32 struct{ s Special }

// Special64 is a 64-bit special register.
type Special64 struct{ s Special }

// SpecialPred is a special register that is a predicate.
type SpecialPred struct{ s Special }

// NotPred is the negation of a predicate register, where an instruction can read it; see Pred.Not.
type NotPred struct{ r *Reg }

// Not returns the negation of p as an operand.
func (p Pred) Not() NotPred { return NotPred(p) }

type argument interface{ operand() Operand }

func (p Pred) operand() Operand        { return regOperand(p.r) }
func (r B16) operand() Operand         { return regOperand(r.r) }
func (r B32) operand() Operand         { return regOperand(r.r) }
func (r B64) operand() Operand         { return regOperand(r.r) }
func (r F32) operand() Operand         { return regOperand(r.r) }
func (r F64) operand() Operand         { return regOperand(r.r) }
func (s Special32) operand() Operand   { return s.s.operand() }
func (s Special64) operand() Operand   { return s.s.operand() }
func (s SpecialPred) operand() Operand { return s.s.operand() }
func (i Imm) operand() Operand         { return i }
func (x F32Imm) operand() Operand      { return x }
func (x F64Imm) operand() Operand      { return x }
func (v Vec) operand() Operand         { return v }
func (t TensorMem) operand() Operand   { return t }

// The operand methods of what may be nil or zero return the nil Operand then, which check reports as missing.

func (p NotPred) operand() Operand {
	if p.r == nil {
		return nil
	}
	return Not{p.r}
}

func (s Special) operand() Operand {
	if s.Row == nil {
		return nil
	}
	return s
}

func (l *Label) operand() Operand {
	if l == nil {
		return nil
	}
	return l
}

func (t *Table) operand() Operand {
	if t == nil {
		return nil
	}
	return t
}

func (f *Func) operand() Operand {
	if f == nil {
		return nil
	}
	return FuncRef{f.Name}
}

// regOperand keeps a register that was never made (the zero B32) from becoming a typed nil.
func regOperand(r *Reg) Operand {
	if r == nil {
		return nil
	}
	return r
}

// Name returns the register's PTX name, "%tile".
func (p Pred) Name() string { return regName(p.r) }

// Name returns the register's PTX name, "%tile".
func (r B16) Name() string { return regName(r.r) }

// Name returns the register's PTX name, "%tile".
func (r B32) Name() string { return regName(r.r) }

// Name returns the register's PTX name, "%tile".
func (r B64) Name() string { return regName(r.r) }

// Name returns the register's PTX name, "%tile".
func (r F32) Name() string { return regName(r.r) }

// Name returns the register's PTX name, "%tile".
func (r F64) Name() string { return regName(r.r) }

func regName(r *Reg) string {
	if r == nil {
		return "?"
	}
	return r.Name
}

type (
	// Bits32 is a register that an untyped 32-bit operand accepts: B32 or F32.
	Bits32 interface {
		argument
		bits32()
	}
	// Bits64 is a register that an untyped 64-bit operand accepts: B64 or F64.
	Bits64 interface {
		argument
		bits64()
	}
	// IntReg is an untyped register of 16, 32 or 64 bits, where a narrower value is widened.
	IntReg interface {
		argument
		intReg()
	}
	// SrcInt is an IntReg or an Imm.
	SrcInt interface {
		argument
		srcInt()
	}
	// SrcPred is a Pred or its negation.
	SrcPred interface {
		argument
		srcPred()
	}
	// Src16 is a B16 or an Imm.
	Src16 interface {
		argument
		src16()
	}
	// Src32 is a B32 or an Imm.
	Src32 interface {
		argument
		src32()
	}
	// Src64 is a B64 or an Imm.
	Src64 interface {
		argument
		src64()
	}
	// SrcBits32 is a B32, F32, Imm or F32Imm.
	SrcBits32 interface {
		argument
		srcBits32()
	}
	// SrcBits64 is a B64, F64, Imm or F64Imm.
	SrcBits64 interface {
		argument
		srcBits64()
	}
	// SrcF32 is an F32 or an F32Imm.
	SrcF32 interface {
		argument
		srcF32()
	}
	// SrcF64 is an F64 or an F64Imm.
	SrcF64 interface {
		argument
		srcF64()
	}
	// MovSrc32 is what MovB32 reads: a SrcBits32 or a Special32.
	MovSrc32 interface {
		argument
		movSrc32()
	}
	// MovSrc64 is what MovB64 reads: a SrcBits64 or a Special64.
	MovSrc64 interface {
		argument
		movSrc64()
	}
	// MovSrcPred is what MovPred reads: a Pred or a SpecialPred.
	MovSrcPred interface {
		argument
		movSrcPred()
	}
)

func (B32) bits32()             {}
func (F32) bits32()             {}
func (B64) bits64()             {}
func (F64) bits64()             {}
func (B16) intReg()             {}
func (B32) intReg()             {}
func (B64) intReg()             {}
func (B16) srcInt()             {}
func (B32) srcInt()             {}
func (B64) srcInt()             {}
func (Imm) srcInt()             {}
func (Pred) srcPred()           {}
func (NotPred) srcPred()        {}
func (B16) src16()              {}
func (Imm) src16()              {}
func (B32) src32()              {}
func (Imm) src32()              {}
func (B64) src64()              {}
func (Imm) src64()              {}
func (B32) srcBits32()          {}
func (F32) srcBits32()          {}
func (Imm) srcBits32()          {}
func (F32Imm) srcBits32()       {}
func (B64) srcBits64()          {}
func (F64) srcBits64()          {}
func (Imm) srcBits64()          {}
func (F64Imm) srcBits64()       {}
func (F32) srcF32()             {}
func (F32Imm) srcF32()          {}
func (F64) srcF64()             {}
func (F64Imm) srcF64()          {}
func (B32) movSrc32()           {}
func (F32) movSrc32()           {}
func (Imm) movSrc32()           {}
func (F32Imm) movSrc32()        {}
func (Special32) movSrc32()     {}
func (B64) movSrc64()           {}
func (F64) movSrc64()           {}
func (Imm) movSrc64()           {}
func (F64Imm) movSrc64()        {}
func (Special64) movSrc64()     {}
func (Pred) movSrcPred()        {}
func (SpecialPred) movSrcPred() {}

// vecOf makes a vector operand of registers.
func vecOf[T argument](regs []T) Vec {
	out := make(Vec, len(regs))
	for i, r := range regs {
		if any(r) != nil {
			out[i] = r.operand()
		}
	}
	return out
}

// Coordinates of a tensor box; see Tensor.
func coords(c []Src32) Vec { return vecOf(c) }

// Tensor is the box of the tensor with the given map at the given coordinates, innermost dimension first. The map's address
// is generic (CvtaParam of a tensor-map parameter).
func Tensor(tensorMap GenericAddr, at ...Src32) TensorMem {
	return TensorMem{Map: memOf(tensorMap), Coords: coords(at)}
}

func memOf(a address) Mem {
	if a == nil {
		return Mem{}
	}
	return a.mem()
}
