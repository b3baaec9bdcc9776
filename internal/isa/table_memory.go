package isa

// Scopes and semantics of the memory consistency model.
var (
	scopes = a("cta").and(a("cluster").since(7, 8).sm(90), a("gpu", "sys"))

	loadOrder  = a("volatile").eff(Keep).and(a("relaxed", "acquire").cross(scopes).since(6, 0).sm(70).eff(Keep))
	storeOrder = a("volatile").and(a("relaxed", "release").cross(scopes).since(6, 0).sm(70))

	cacheHint = opt(a("L2::cache_hint").since(7, 4).sm(80).hide()) // CacheHint brings it
	evictL1   = a("L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate").since(7, 4).sm(70)
	prefetch  = opt(a("L2::64B").named("L2Prefetch64B").sm(75).since(7, 4), a("L2::128B").named("L2Prefetch128B").sm(75).since(7, 4),
		a("L2::256B").named("L2Prefetch256B").sm(80).since(7, 4))
	policy = src("cache-policy", b(U64)).noImm().when("L2::cache_hint")
)

// memSpace describes a state space of ld and st.
type memSpace struct {
	space Space
	text  alts
}

func memSpaces() []memSpace {
	return []memSpace{
		{Generic, a("").since(2, 0)}, {Global, a("global")},
		{Shared, a("shared").and(a("shared::cta").since(7, 8).sm(30).hide())},
		{SharedCluster, a("shared::cluster").since(7, 8).sm(90)},
		{Local, a("local")}, {Const, a("const")}, {Param, a("param")},
	}
}

// memTypes lists, for scalars and for vectors of two and four, the types that have constructors and those that are only read.
func memTypes(vec int) Slot {
	switch vec {
	case 1:
		return named(ty(U8, S8, U16, S16, B16, B32, B64, F32, F64), ty(B8, U32, S32, U64, S64).hide())
	case 2:
		return named(ty(B16, B32, B64, F32, F64), ty(B8, U8, S8, U16, S16, U32, S32, U64, S64).hide())
	default:
		return named(ty(B16, B32, F32), ty(B8, U8, S8, U16, S16, U32, S32).hide())
	}
}

var vecAlts = map[int]alts{1: a("").n(1).named(""), 2: a("v2").n(2), 4: a("v4").n(4)}

func memoryRows() []Row {
	var rows []Row
	for _, m := range memSpaces() {
		for _, vec := range []int{1, 2, 4} {
			rows = append(rows, loadRow(m, vec))
		}
	}
	for _, m := range memSpaces() {
		if m.space == Const || m.space == Param {
			continue
		}
		for _, vec := range []int{1, 2, 4} {
			rows = append(rows, storeRow(m, vec))
		}
	}
	for _, vec := range []int{1, 2, 4} {
		rows = append(rows, loadNcRow(vec))
	}
	return section("Data Movement and Conversion Instructions", append(rows, cacheRows()...)...)
}

// spaceSlot is the slot of a single state space.
func (m memSpace) spaceSlot() Slot { return named(m.text.in(m.space)) }

// vector makes one register or a vector of an operand.
func vector(x Arg, vec int) Arg {
	if vec > 1 {
		return x.vec(vec)
	}
	return x.wider()
}

func loadRow(m memSpace, vec int) Row {
	r := Row{Go: "Ld", Op: "ld", Min: v(1, 0), Eff: Load,
		Args: o(vector(dst("d", T0), vec), addr("a", NoSpace))}
	vecSlot, tail := named(vecAlts[vec]), memTypes(vec)
	switch m.space {
	case Generic, Global:
		cop := opt(a("ca", "cg", "cs", "cv", "lu"))
		r.Slots = s(opt(loadOrder), m.spaceSlot(), cop, opt(evictL1), cacheHint, prefetch, vecSlot, tail)
		r.Excl = [][2]int{{0, 2}, {2, 3}}
		r.Args = append(r.Args, policy)
	case Shared, SharedCluster:
		r.Slots = s(opt(loadOrder), m.spaceSlot(), vecSlot, tail)
	default:
		r.Slots = s(m.spaceSlot(), vecSlot, tail)
	}
	return r
}

func storeRow(m memSpace, vec int) Row {
	r := Row{Go: "St", Op: "st", Min: v(1, 0), Eff: Store,
		Args: o(addr("a", NoSpace), vector(src("b", T0), vec))}
	vecSlot, tail := named(vecAlts[vec]), memTypes(vec)
	switch m.space {
	case Generic, Global:
		cop := opt(a("wb", "cg", "cs", "wt"))
		r.Slots = s(opt(storeOrder), m.spaceSlot(), cop, opt(evictL1), cacheHint, vecSlot, tail)
		r.Excl = [][2]int{{0, 2}, {2, 3}}
		r.Args = append(r.Args, policy)
	case Shared, SharedCluster:
		r.Slots = s(opt(storeOrder), m.spaceSlot(), vecSlot, tail)
	default:
		r.Slots = s(m.spaceSlot(), vecSlot, tail)
	}
	return r
}

func loadNcRow(vec int) Row {
	cop := opt(a("ca", "cg", "cs"))
	return Row{Go: "LdGlobalNc", Op: "ld.global", Min: v(3, 1), Req: sm(32), Eff: Load,
		Slots: s(cop, fixed("nc"), opt(evictL1), cacheHint, prefetch, named(vecAlts[vec]), memTypes(vec)),
		Excl:  [][2]int{{0, 2}},
		Args:  o(vector(dst("d", T0), vec), addr("a", Global), policy)}
}

func cacheRows() []Row {
	primary := a("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged")
	secondary := a("L2::evict_first", "L2::evict_unchanged")
	var fractional []Row
	for _, p := range primary {
		fractional = append(fractional, Row{Go: "CreatepolicyFractional" + p.GoID, Op: "createpolicy.fractional." + p.Text,
			Slots: s(opt(secondary), fixed("b64")),
			Args:  o(dst("cache-policy", b(U64)), src("fraction", b(F32)).optional()), Min: v(7, 4), Req: sm(80)})
	}
	return append(fractional,
		Row{Go: "Prefetch", Op: "prefetch", Slots: s(named(a("global").in(Global), a("local").in(Local), a("").in(Generic).named("")),
			named(a("L1", "L2"))), Args: o(addr("a", NoSpace)), Min: v(2, 0), Eff: Keep},
		Row{Go: "PrefetchGlobal", Op: "prefetch.global", Slots: s(named(a("L2::evict_last", "L2::evict_normal"))),
			Args: o(addr("a", Global)), Min: v(7, 4), Req: sm(80), Eff: Keep},
		Row{Go: "PrefetchuL1", Op: "prefetchu.L1", Args: o(addr("a", Generic)), Min: v(2, 0), Eff: Keep},
		Row{Go: "PrefetchTensormap", Op: "prefetch.tensormap", Args: o(addr("a", Generic)), Min: v(8, 0), Req: sm(90), Eff: Keep},
		Row{Go: "PrefetchParamTensormap", Op: "prefetch.param.tensormap", Args: o(addr("a", Param)), Min: v(8, 0), Req: sm(90), Eff: Keep},
		Row{Go: "DiscardGlobalL2", Op: "discard.global.L2", Args: o(addr("a", Global), one("size", 128)), Min: v(7, 4), Req: sm(80), Eff: Store},
		Row{Go: "Mapa", Op: "mapa.shared::cluster", Slots: s(types(U32, U64)),
			Args: o(dst("d", T0), src("a", T0).noImm(), src("b", b(U32))), Min: v(7, 8), Req: sm(90)},
		Row{Go: "MapaGeneric", Op: "mapa", Slots: s(types(U64)),
			Args: o(dst("d", T0), src("a", T0).noImm(), src("b", b(U32))), Min: v(7, 8), Req: sm(90)},
		Row{Go: "Getctarank", Op: "getctarank.shared::cluster", Slots: s(types(U32, U64)),
			Args: o(dst("d", b(U32)), src("a", T0).noImm()), Min: v(7, 8), Req: sm(90)},
		Row{Go: "GetctarankGeneric", Op: "getctarank", Slots: s(types(U64)),
			Args: o(dst("d", b(U32)), src("a", T0).noImm()), Min: v(7, 8), Req: sm(90)},
	)
}

func atomicRows() []Row {
	order := opt(a("relaxed", "acquire", "release", "acq_rel").cross(scopes).since(6, 0).sm(70), scopes.since(5, 0).sm(60))
	redOrder := opt(a("relaxed", "release").cross(scopes).since(6, 0).sm(70), scopes.since(5, 0).sm(60))
	groups := []struct {
		op    Slot
		types Slot
	}{
		{named(a("and", "or", "xor")), named(ty(B32), ty(B64).since(3, 1).sm(32))},
		{named(a("add")), named(ty(U32, S32, U64), ty(F32).since(2, 0), ty(F64).since(5, 0).sm(60))},
		{named(a("min", "max")), named(ty(U32, S32), ty(U64, S64).since(3, 1).sm(32))},
		{named(a("inc", "dec")), types(U32)},
	}
	bits, exch, cas := types(B32, B64), named(a("exch")), named(a("cas"))
	var rows []Row
	for _, w := range atomicSpaces() {
		d, at, value := dst("d", T0), addr("a", NoSpace), src("b", T0)
		row := func(name, op string, order, do, types Slot, args ...Arg) Row {
			r := Row{Go: name, Op: op, Slots: s(order, w.spaces, do, types), Args: args, Min: v(1, 2), Eff: Atomic}
			if w.hint {
				r.Slots, r.Args = s(order, w.spaces, do, cacheHint, types), append(args, policy)
			}
			return r
		}
		for _, g := range groups {
			rows = append(rows, row("Atom", "atom", order, g.op, g.types, d, at, value), row("Red", "red", redOrder, g.op, g.types, at, value))
		}
		rows = append(rows, row("Atom", "atom", order, exch, bits, d, at, value))
	}
	all := named(atomicSpaces()[0].spaces.Alts, atomicSpaces()[1].spaces.Alts)
	rows = append(rows, Row{Go: "Atom", Op: "atom", Slots: s(order, all, cas, bits), Min: v(1, 2), Eff: Atomic,
		Args: o(dst("d", T0), addr("a", NoSpace), src("b", T0), src("c", T0))})
	return section("Parallel Synchronization and Communication Instructions", rows...)
}

type atomicSpace struct {
	spaces Slot
	hint   bool // takes an L2 cache policy
}

func atomicSpaces() []atomicSpace {
	return []atomicSpace{
		{named(a("").in(Generic).since(2, 0).named(""), a("global").in(Global)), true},
		{named(a("shared").in(Shared), a("shared::cta").in(Shared).since(7, 8).sm(30).hide(),
			a("shared::cluster").in(SharedCluster).since(7, 8).sm(90)), false},
	}
}
