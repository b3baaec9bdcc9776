package ptx

// address is an argument that can stand in brackets.
type address interface {
	argument
	mem() Mem
}

type (
	// GlobalAddr is an address in global memory: B64, B64.Off, or a GlobalVar.
	GlobalAddr interface {
		address
		inGlobal()
	}
	// GenericAddr is a generic address: B64 or B64.Off.
	GenericAddr interface {
		address
		inGeneric()
	}
	// SharedAddr is an address in shared memory (of the CTA or the cluster): B32, B32.Off, or a SharedVar.
	SharedAddr interface {
		address
		inShared()
	}
	// LocalAddr is an address in local memory: B32, B64, their Off, or a LocalVar.
	LocalAddr interface {
		address
		inLocal()
	}
	// ConstAddr is an address in constant memory: B32, B64, their Off, or a ConstVar.
	ConstAddr interface {
		address
		inConst()
	}
	// ParamAddr is a kernel parameter, or its Off, or an address in parameter space.
	ParamAddr interface {
		address
		inParam()
	}
	// TMemAddr is an address in tensor memory: B32 or B32.Off.
	TMemAddr interface {
		address
		inTMem()
	}
	// Variable is a variable or parameter whose address MovVarB32 and MovVarB64 take.
	Variable interface {
		ref() Operand
	}
)

// Off32 is a 32-bit register plus a byte offset.
type Off32 struct{ m Mem }

// Off64 is a 64-bit register plus a byte offset.
type Off64 struct{ m Mem }

// Off returns the address that lies off bytes after the one in the register.
func (r B32) Off(off int) Off32 { return Off32{Mem{regOperand(r.r), int64(off)}} }

// Off returns the address that lies off bytes after the one in the register.
func (r B64) Off(off int) Off64 { return Off64{Mem{regOperand(r.r), int64(off)}} }

// Off returns the address that lies off bytes further.
func (a Off32) Off(off int) Off32 { a.m.Off += int64(off); return a }

// Off returns the address that lies off bytes further.
func (a Off64) Off(off int) Off64 { a.m.Off += int64(off); return a }

// SharedVar is a variable in shared memory.
type SharedVar struct{ v VarRef }

// GlobalVar is a variable in global memory.
type GlobalVar struct{ v VarRef }

// ConstVar is a variable in constant memory.
type ConstVar struct{ v VarRef }

// LocalVar is a variable in local memory.
type LocalVar struct{ v VarRef }

// Param is a parameter of a kernel.
type Param struct{ v VarRef }

// Off returns the address off bytes into the variable.
func (v SharedVar) Off(off int) SharedVar { v.v.Off += int64(off); return v }

// Off returns the address off bytes into the variable.
func (v GlobalVar) Off(off int) GlobalVar { v.v.Off += int64(off); return v }

// Off returns the address off bytes into the variable.
func (v ConstVar) Off(off int) ConstVar { v.v.Off += int64(off); return v }

// Off returns the address off bytes into the variable.
func (v LocalVar) Off(off int) LocalVar { v.v.Off += int64(off); return v }

// Off returns the address off bytes into the parameter.
func (p Param) Off(off int) Param { p.v.Off += int64(off); return p }

func (v VarRef) mem() Mem {
	if v.Var == nil {
		return Mem{}
	}
	return Mem{VarRef{Var: v.Var}, v.Off}
}

// ref keeps a variable that was never declared from becoming an operand.
func (v VarRef) ref() Operand {
	if v.Var == nil {
		return nil
	}
	return v
}

func (v SharedVar) ref() Operand { return v.v.ref() }
func (v GlobalVar) ref() Operand { return v.v.ref() }
func (v ConstVar) ref() Operand  { return v.v.ref() }
func (v LocalVar) ref() Operand  { return v.v.ref() }
func (p Param) ref() Operand     { return p.v.ref() }

func (r B32) mem() Mem       { return Mem{regOperand(r.r), 0} }
func (r B64) mem() Mem       { return Mem{regOperand(r.r), 0} }
func (a Off32) mem() Mem     { return a.m }
func (a Off64) mem() Mem     { return a.m }
func (v SharedVar) mem() Mem { return v.v.mem() }
func (v GlobalVar) mem() Mem { return v.v.mem() }
func (v ConstVar) mem() Mem  { return v.v.mem() }
func (v LocalVar) mem() Mem  { return v.v.mem() }
func (p Param) mem() Mem     { return p.v.mem() }

func (a Off32) operand() Operand     { return a.m }
func (a Off64) operand() Operand     { return a.m }
func (v SharedVar) operand() Operand { return v.v.mem() }
func (v GlobalVar) operand() Operand { return v.v.mem() }
func (v ConstVar) operand() Operand  { return v.v.mem() }
func (v LocalVar) operand() Operand  { return v.v.mem() }
func (p Param) operand() Operand     { return p.v.mem() }

// at and refTo turn the arguments of constructors into operands.
func at(a address) argument {
	if a == nil {
		return wrapped{nil}
	}
	return wrapped{a.mem()}
}

func refTo(v Variable) argument {
	if v == nil {
		return wrapped{nil}
	}
	return wrapped{v.ref()}
}

type wrapped struct{ x Operand }

func (w wrapped) operand() Operand { return w.x }

func (B64) inGlobal()       {}
func (Off64) inGlobal()     {}
func (GlobalVar) inGlobal() {}
func (B64) inGeneric()      {}
func (Off64) inGeneric()    {}
func (B32) inShared()       {}
func (Off32) inShared()     {}
func (SharedVar) inShared() {}
func (B32) inLocal()        {}
func (Off32) inLocal()      {}
func (B64) inLocal()        {}
func (Off64) inLocal()      {}
func (LocalVar) inLocal()   {}
func (B32) inConst()        {}
func (Off32) inConst()      {}
func (B64) inConst()        {}
func (Off64) inConst()      {}
func (ConstVar) inConst()   {}
func (Param) inParam()      {}
func (B64) inParam()        {}
func (Off64) inParam()      {}
func (B32) inTMem()         {}
func (Off32) inTMem()       {}
