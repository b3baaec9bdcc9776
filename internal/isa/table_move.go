package isa

func moveRows() []Row {
	hidden := ty(U16, S16, U32, S32, U64, S64).hide()
	pack := func(whole, part Type, n int) []Row {
		return []Row{
			{Go: "MovPack", Op: "mov", Slots: s(types(whole)), Args: o(dst("d", T0), src("a", b(part)).vec(n).flat()), Min: v(1, 0)},
			{Go: "MovUnpack", Op: "mov", Slots: s(types(whole)), Args: o(dst("d", b(part)).vec(n).flat(), src("a", T0).noImm()),
				Min: v(1, 0)},
		}
	}
	rows := []Row{
		{Go: "Mov", Op: "mov", Slots: s(named(ty(Pred, B16, B32, B64, F32, F64), hidden)),
			Args: o(dst("d", T0), src("a", T0).special()), Min: v(1, 0)},
		{Go: "MovVar", Op: "mov", Slots: s(named(ty(B32, B64), ty(U32, U64).hide())),
			Args: o(dst("d", T0), Arg{Name: "a", Role: VarRef}), Min: v(1, 0)},
	}
	rows = append(rows, pack(B32, B16, 2)...)
	rows = append(rows, pack(B64, B32, 2)...)
	for i, quad := range pack(B64, B16, 4) {
		quad.Go = []string{"MovPack4", "MovUnpack4"}[i]
		rows = append(rows, quad)
	}
	spaces := named(a("global", "shared", "local", "const").since(2, 0), a("shared::cluster").since(7, 8).sm(90),
		a("shared::cta").since(7, 8).sm(30).hide(), a("param").since(7, 7).sm(70))
	rows = append(rows,
		Row{Go: "Cvta", Op: "cvta", Slots: s(spaces, types(U64)), Args: unary(T0), Min: v(2, 0)},
		Row{Go: "CvtaTo", Op: "cvta.to", Slots: s(spaces, types(U64)), Args: unary(T0), Min: v(2, 0)},
		Row{Go: "Isspacep", Op: "isspacep", Slots: s(named(a("global", "shared", "local"), a("const").since(3, 1),
			a("shared::cluster").since(7, 8).sm(90), a("param").since(7, 7).sm(70))),
			Args: o(dst("p", b(Pred)), src("a", b(U64)).noImm()), Min: v(2, 0)},
	)
	return section("Data Movement and Conversion Instructions", rows...)
}

// convertRows holds cvt. Its operands may sit in registers wider than the type.
func convertRows() []Row {
	ints := ty(U8, S8, U16, S16, U32, S32, U64, S64)
	wide := ty(U16, S16, U32, S32, U64, S64)
	args := o(dst("d", T0).wider(), src("a", T1).wider().noImm())
	relu := opt(a("relu").since(7, 0).sm(80))
	satf := opt(a("satfinite").since(8, 1).sm(80))
	two := func(t Type) []Arg { return o(dst("d", T0), src("a", b(t)), src("b", b(t))) }
	row := func(slots ...Slot) Row { return Row{Go: "Cvt", Op: "cvt", Slots: slots, Args: args, Min: v(1, 0)} }
	rows := []Row{
		row(named(ints), named(ints)),
		row(named(intRounds), ftz, sat, named(wide), types(F32)),
		row(named(intRounds), sat, named(wide), types(F64)),
		row(named(rounds), sat, types(F32, F64), named(wide)),
		row(named(rounds), ftz, sat, types(F32), types(F64)),
		row(ftz, sat, types(F64), types(F32)),
		row(named(intRounds), ftz, sat, types(F32), types(F32)),
		row(named(intRounds), sat, types(F64), types(F64)),
		row(named(a("rn", "rz")), ftz, sat, types(F16), types(F32)),
		row(ftz, types(F32), types(F16)),
		{Go: "Cvt", Op: "cvt", Slots: s(named(a("rn", "rz")), relu, types(BF16), types(F32)), Args: args, Min: v(7, 0), Req: sm(80)},
		{Go: "Cvt", Op: "cvt", Slots: s(types(F32), types(BF16)), Args: args, Min: v(7, 1), Req: sm(80)},
		{Go: "Cvt", Op: "cvt", Slots: s(named(a("rn", "rz")), relu, satf, types(F16x2, BF16x2), fixed("f32")), Args: two(F32),
			Min: v(7, 0), Req: sm(80)},
		{Go: "CvtRn", Op: "cvt.rn.satfinite", Slots: s(opt(a("relu")), types(E4M3x2, E5M2x2), fixed("f32")), Args: two(F32),
			Min: v(7, 8), Req: sm(89)},
		{Go: "CvtRna", Op: "cvt.rna", Slots: s(types(TF32), types(F32)), Args: args, Min: v(7, 0), Req: sm(80)},
	}
	rows = append(saturating(ints, args), rows...)
	// The last slot names the source, whose type the operands fix themselves.
	for _, i := range []int{len(rows) - 3, len(rows) - 2} {
		last := &rows[i].Slots[len(rows[i].Slots)-1]
		last.Alts = alts(last.Alts).named("F32")
	}
	return section("Data Movement and Conversion Instructions", rows...)
}

// saturating lists cvt.sat between integers: only where the destination cannot hold every value of the source.
func saturating(ints alts, args []Arg) []Row {
	var rows []Row
	for _, d := range ints {
		var from alts
		for _, x := range ints {
			if clamps(d.Type, x.Type) {
				from = append(from, x)
			}
		}
		rows = append(rows, Row{Go: "CvtSat", Op: "cvt.sat", Slots: s(named(alts{d}), named(from)), Args: args, Min: v(1, 0)})
	}
	return rows
}

func clamps(d, from Type) bool {
	switch {
	case d.Kind() == from.Kind():
		return from.Bits() > d.Bits()
	case d.Kind() == KindSigned:
		return from.Bits() >= d.Bits()
	default:
		return true
	}
}
