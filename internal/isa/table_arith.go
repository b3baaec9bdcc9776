package isa

// Alternatives that many arithmetic rows share.
var (
	rounds    = a("rn", "rz", "rm", "rp")
	intRounds = a("rni", "rzi", "rmi", "rpi")
	optRound  = opt(a("rn").named("RN"), a("rz").named("RZ"), a("rm").named("RM"), a("rp").named("RP"))
	ftz       = opt(a("ftz"))
	sat       = opt(a("sat"))
	nan       = opt(a("NaN").since(7, 0).sm(80))
)

// binary, unary and ternary are the operand shapes d = a op b, d = op a and d = op(a, b, c) of one type.
func binary(t Ref) []Arg  { return o(dst("d", t), src("a", t), src("b", t)) }
func unary(t Ref) []Arg   { return o(dst("d", t), src("a", t)) }
func ternary(t Ref) []Arg { return o(dst("d", t), src("a", t), src("b", t), src("c", t)) }

func integerRows() []Row {
	ints := types(U16, S16, U32, S32, U64, S64)
	carry := types(U32, S32)
	carry64 := named(ty(U64, S64).since(4, 3))
	both := named(carry.Alts, carry64.Alts)
	return section("Integer Arithmetic Instructions",
		Row{Go: "Add", Op: "add", Slots: s(ints), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "AddSat", Op: "add.sat", Slots: s(types(S32)), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Sub", Op: "sub", Slots: s(ints), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "SubSat", Op: "sub.sat", Slots: s(types(S32)), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Mul", Op: "mul", Slots: s(named(a("lo", "hi")), ints), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "MulWide", Op: "mul.wide", Slots: s(types(U16, S16, U32, S32)),
			Args: o(dst("d", Wide0), src("a", T0), src("b", T0)), Min: v(1, 0)},
		Row{Go: "Mad", Op: "mad", Slots: s(named(a("lo", "hi")), ints), Args: ternary(T0), Min: v(1, 0)},
		Row{Go: "MadWide", Op: "mad.wide", Slots: s(types(U16, S16, U32, S32)),
			Args: o(dst("d", Wide0), src("a", T0), src("b", T0), src("c", Wide0)), Min: v(1, 0)},
		Row{Go: "Div", Op: "div", Slots: s(ints), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Rem", Op: "rem", Slots: s(ints), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Abs", Op: "abs", Slots: s(types(S16, S32, S64)), Args: unary(T0), Min: v(1, 0)},
		Row{Go: "Neg", Op: "neg", Slots: s(types(S16, S32, S64)), Args: unary(T0), Min: v(1, 0)},
		Row{Go: "Min", Op: "min", Slots: s(ints), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Max", Op: "max", Slots: s(ints), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Popc", Op: "popc", Slots: s(types(B32, B64)), Args: o(dst("d", b(U32)), src("a", T0)), Min: v(2, 0)},
		Row{Go: "Clz", Op: "clz", Slots: s(types(B32, B64)), Args: o(dst("d", b(U32)), src("a", T0)), Min: v(2, 0)},
		Row{Go: "Bfind", Op: "bfind", Slots: s(opt(a("shiftamt").named("ShiftAmt")), types(U32, S32, U64, S64)),
			Args: o(dst("d", b(U32)), src("a", T0)), Min: v(2, 0)},
		Row{Go: "Brev", Op: "brev", Slots: s(types(B32, B64)), Args: unary(T0), Min: v(2, 0)},
		Row{Go: "Bfe", Op: "bfe", Slots: s(types(U32, S32, U64, S64)),
			Args: o(dst("d", T0), src("a", T0), src("b", b(U32)), src("c", b(U32))), Min: v(2, 0)},
		Row{Go: "Bfi", Op: "bfi", Slots: s(types(B32, B64)),
			Args: o(dst("f", T0), src("a", T0), src("b", T0), src("c", b(U32)), src("d", b(U32))), Min: v(2, 0)},
		Row{Go: "AddCC", Op: "add.cc", Slots: s(both), Args: binary(T0), Min: v(1, 2), Eff: WriteCC},
		Row{Go: "Addc", Op: "addc", Slots: s(both), Args: binary(T0), Min: v(1, 2), Eff: ReadCC},
		Row{Go: "AddcCC", Op: "addc.cc", Slots: s(both), Args: binary(T0), Min: v(1, 2), Eff: ReadCC | WriteCC},
		Row{Go: "SubCC", Op: "sub.cc", Slots: s(both), Args: binary(T0), Min: v(3, 0), Eff: WriteCC},
		Row{Go: "Subc", Op: "subc", Slots: s(both), Args: binary(T0), Min: v(3, 0), Eff: ReadCC},
		Row{Go: "SubcCC", Op: "subc.cc", Slots: s(both), Args: binary(T0), Min: v(3, 0), Eff: ReadCC | WriteCC},
		Row{Go: "MadCC", Op: "mad", Slots: s(named(a("lo.cc").named("Lo"), a("hi.cc").named("Hi")), both), Args: ternary(T0), Min: v(3, 0), Eff: WriteCC},
		Row{Go: "Madc", Op: "madc", Slots: s(named(a("lo", "hi")), both), Args: ternary(T0), Min: v(3, 0), Eff: ReadCC},
		Row{Go: "MadcCC", Op: "madc", Slots: s(named(a("lo.cc").named("Lo"), a("hi.cc").named("Hi")), both), Args: ternary(T0), Min: v(3, 0),
			Eff: ReadCC | WriteCC},
	)
}

func floatRows() []Row {
	f32, f64 := types(F32), types(F64)
	xorsign := opt(a("xorsign.abs").since(7, 2).sm(86))
	rnd := named(rounds)
	approx := func(name, op string) Row {
		return Row{Go: name, Op: op, Slots: s(fixed("approx"), ftz, types(F32)), Args: unary(T0), Min: v(1, 4)}
	}
	return section("Floating-Point Instructions",
		Row{Go: "Add", Op: "add", Slots: s(optRound, ftz, sat, f32), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Add", Op: "add", Slots: s(optRound, f64), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Sub", Op: "sub", Slots: s(optRound, ftz, sat, f32), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Sub", Op: "sub", Slots: s(optRound, f64), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Mul", Op: "mul", Slots: s(optRound, ftz, sat, f32), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Mul", Op: "mul", Slots: s(optRound, f64), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Fma", Op: "fma", Slots: s(rnd, ftz, sat, f32), Args: ternary(T0), Min: v(2, 0)},
		Row{Go: "Fma", Op: "fma", Slots: s(rnd, f64), Args: ternary(T0), Min: v(1, 4)},
		Row{Go: "Div", Op: "div", Slots: s(named(a("approx", "full")), ftz, f32), Args: binary(T0), Min: v(1, 4)},
		Row{Go: "Div", Op: "div", Slots: s(rnd, ftz, f32), Args: binary(T0), Min: v(1, 4)},
		Row{Go: "Div", Op: "div", Slots: s(rnd, f64), Args: binary(T0), Min: v(1, 4)},
		Row{Go: "Min", Op: "min", Slots: s(ftz, nan, xorsign, f32), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Max", Op: "max", Slots: s(ftz, nan, xorsign, f32), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Min", Op: "min", Slots: s(f64), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Max", Op: "max", Slots: s(f64), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Abs", Op: "abs", Slots: s(ftz, f32), Args: unary(T0), Min: v(1, 0)},
		Row{Go: "Abs", Op: "abs", Slots: s(f64), Args: unary(T0), Min: v(1, 0)},
		Row{Go: "Neg", Op: "neg", Slots: s(ftz, f32), Args: unary(T0), Min: v(1, 0)},
		Row{Go: "Neg", Op: "neg", Slots: s(f64), Args: unary(T0), Min: v(1, 0)},
		Row{Go: "RcpApprox", Op: "rcp.approx", Slots: s(ftz, f32), Args: unary(T0), Min: v(1, 4)},
		Row{Go: "Rcp", Op: "rcp", Slots: s(rnd, ftz, f32), Args: unary(T0), Min: v(1, 4)},
		Row{Go: "Rcp", Op: "rcp", Slots: s(rnd, f64), Args: unary(T0), Min: v(1, 4)},
		Row{Go: "SqrtApprox", Op: "sqrt.approx", Slots: s(ftz, f32), Args: unary(T0), Min: v(1, 4)},
		Row{Go: "Sqrt", Op: "sqrt", Slots: s(rnd, ftz, f32), Args: unary(T0), Min: v(1, 4)},
		Row{Go: "Sqrt", Op: "sqrt", Slots: s(rnd, f64), Args: unary(T0), Min: v(1, 4)},
		approx("RsqrtApprox", "rsqrt"), approx("SinApprox", "sin"), approx("CosApprox", "cos"),
		approx("Lg2Approx", "lg2"), approx("Ex2Approx", "ex2"),
		Row{Go: "TanhApprox", Op: "tanh.approx", Slots: s(f32), Args: unary(T0), Min: v(7, 0), Req: sm(75)},
		Row{Go: "Copysign", Op: "copysign", Slots: s(types(F32, F64)), Args: binary(T0), Min: v(2, 0)},
		Row{Go: "Testp", Op: "testp", Slots: s(named(a("finite", "infinite", "number", "notanumber", "normal", "subnormal")),
			types(F32, F64)), Args: o(dst("p", b(Pred)), src("a", T0)), Min: v(2, 0)},
	)
}

func halfRows() []Row {
	relu := opt(a("relu").since(7, 0).sm(80))
	f16 := named(ty(F16, F16x2))
	bf16 := named(ty(BF16, BF16x2))
	pair := types(F32x2)
	return section("Half Precision Floating-Point Instructions",
		Row{Go: "FmaRn", Op: "fma.rn", Slots: s(ftz, sat, f16), Args: ternary(T0), Min: v(4, 2), Req: sm(53)},
		Row{Go: "FmaRn", Op: "fma.rn", Slots: s(relu, bf16), Args: ternary(T0), Min: v(7, 0), Req: sm(80)},
		Row{Go: "AddRn", Op: "add.rn", Slots: s(ftz, sat, f16), Args: binary(T0), Min: v(4, 2), Req: sm(53)},
		Row{Go: "AddRn", Op: "add.rn", Slots: s(bf16), Args: binary(T0), Min: v(7, 8), Req: sm(90)},
		Row{Go: "MulRn", Op: "mul.rn", Slots: s(ftz, sat, f16), Args: binary(T0), Min: v(4, 2), Req: sm(53)},
		Row{Go: "MulRn", Op: "mul.rn", Slots: s(bf16), Args: binary(T0), Min: v(7, 8), Req: sm(90)},
		Row{Go: "Max", Op: "max", Slots: s(ftz, nan, f16), Args: binary(T0), Min: v(7, 0), Req: sm(80)},
		Row{Go: "Max", Op: "max", Slots: s(nan, bf16), Args: binary(T0), Min: v(7, 0), Req: sm(80)},
		Row{Go: "Min", Op: "min", Slots: s(ftz, nan, f16), Args: binary(T0), Min: v(7, 0), Req: sm(80)},
		Row{Go: "Min", Op: "min", Slots: s(nan, bf16), Args: binary(T0), Min: v(7, 0), Req: sm(80)},
		// Two single-precision floats in a 64-bit register.
		Row{Go: "Add", Op: "add", Slots: s(optRound, ftz, pair), Args: binary(T0), Min: v(8, 6), Req: sm(100)},
		Row{Go: "Mul", Op: "mul", Slots: s(optRound, ftz, pair), Args: binary(T0), Min: v(8, 6), Req: sm(100)},
		Row{Go: "Fma", Op: "fma", Slots: s(named(rounds), ftz, pair), Args: ternary(T0), Min: v(8, 6), Req: sm(100)},
	)
}

func compareRows() []Row {
	signed := a("eq", "ne", "lt", "le", "gt", "ge")
	unsigned := signed.and(a("lo", "ls", "hi", "hs"))
	float := signed.and(a("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"))
	bits := a("eq", "ne")
	groups := []struct {
		cmp   alts
		ftz   bool
		types Slot
	}{
		{bits, false, types(B16, B32, B64)},
		{signed, false, types(S16, S32, S64)},
		{unsigned, false, types(U16, U32, U64)},
		{float, true, types(F32)},
		{float, false, types(F64)},
	}
	var rows []Row
	for _, g := range groups {
		cmp, mods := enum("Cmp", g.cmp), s(g.types)
		if g.ftz {
			mods = s(ftz, g.types)
		}
		ab := o(src("a", T0), src("b", T0))
		p, pq := o(dst("p", b(Pred))), o(dst("p", b(Pred)), dst("q", b(Pred)).bar())
		c := src("c", b(Pred)).negatable()
		combine := named(a("and", "or", "xor"))
		rows = append(rows,
			Row{Go: "Setp", Op: "setp", Slots: join(s(cmp), mods), Args: join(p, ab), Min: v(1, 0)},
			Row{Go: "Setp2", Op: "setp", Slots: join(s(cmp), mods), Args: join(pq, ab), Min: v(1, 0)},
			Row{Go: "Setp", Op: "setp", Slots: join(s(cmp, combine), mods), Args: join(p, ab, o(c)), Min: v(1, 0)},
		)
	}
	rows = append(rows,
		Row{Go: "Selp", Op: "selp", Slots: s(types(B16, B32, B64, F32, F64)),
			Args: o(dst("d", T0), src("a", T0), src("b", T0), src("c", b(Pred))), Min: v(1, 0)},
	)
	return section("Comparison and Selection Instructions", rows...)
}

// join concatenates without sharing.
func join[T any](parts ...[]T) []T {
	var out []T
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func logicRows() []Row {
	bits := types(Pred, B16, B32, B64)
	shift := o(dst("d", T0), src("a", T0), src("b", b(U32)))
	return section("Logic and Shift Instructions",
		Row{Go: "And", Op: "and", Slots: s(bits), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Or", Op: "or", Slots: s(bits), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Xor", Op: "xor", Slots: s(bits), Args: binary(T0), Min: v(1, 0)},
		Row{Go: "Not", Op: "not", Slots: s(bits), Args: unary(T0), Min: v(1, 0)},
		Row{Go: "Lop3", Op: "lop3", Slots: s(types(B32)),
			Args: join(ternary(T0), o(imm("immLut", 0, 255))), Min: v(4, 3), Req: sm(50)},
		Row{Go: "Shf", Op: "shf", Slots: s(named(a("l", "r")), named(a("clamp", "wrap")), types(B32)),
			Args: o(dst("d", T0), src("a", T0), src("b", T0), src("c", b(U32))), Min: v(3, 1), Req: sm(32)},
		Row{Go: "Shl", Op: "shl", Slots: s(types(B16, B32, B64)), Args: shift, Min: v(1, 0)},
		Row{Go: "Shr", Op: "shr", Slots: s(types(B16, B32, B64, U16, U32, U64, S16, S32, S64)), Args: shift, Min: v(1, 0)},
		Row{Go: "Prmt", Op: "prmt", Slots: s(types(B32), opt(a("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"))),
			Args: o(dst("d", T0), src("a", T0), src("b", T0), src("c", b(U32))), Min: v(2, 0)},
	)
}
