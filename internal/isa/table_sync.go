package isa

func flowRows() []Row {
	uni := opt(a("uni"))
	return section("Control Flow Instructions",
		Row{Go: "Bra", Op: "bra", Slots: s(uni), Args: o(label("tgt")), Min: v(1, 0), Eff: Jump | End},
		Row{Go: "BrxIdx", Op: "brx.idx", Slots: s(uni), Args: o(src("index", b(U32)).noImm(), Arg{Name: "tlist", Role: TableRef}),
			Min: v(6, 0), Req: sm(30), Eff: Jump | End},
		Row{Go: "Call", Op: "call", Slots: s(uni), Args: o(Arg{Name: "func", Role: FuncRef}), Min: v(1, 0), Eff: Jump | Keep},
		Row{Go: "Ret", Op: "ret", Slots: s(uni), Min: v(1, 0), Eff: End},
		Row{Go: "Exit", Op: "exit", Min: v(1, 0), Eff: End},
		Row{Go: "Trap", Op: "trap", Min: v(1, 0), Eff: End},
		Row{Go: "Brkpt", Op: "brkpt", Min: v(1, 0), Eff: Keep},
	)
}

func barrierRows() []Row {
	id, n := src("a", b(U32)), src("b", b(U32)).mult(32)
	cta := opt(a("cta").since(7, 8))
	aligned := opt(a("aligned").eff(Converge))
	c := src("c", b(Pred)).negatable()
	rows := []Row{
		{Go: "BarSync", Op: "bar", Slots: s(cta, fixed("sync")), Args: o(id, n.optional()), Min: v(1, 0), Eff: Barrier | Fence | Converge},
		{Go: "BarArrive", Op: "bar", Slots: s(cta, fixed("arrive")), Args: o(id, n), Min: v(2, 0), Eff: Barrier | Fence | Converge},
		{Go: "BarRedPopc", Op: "bar", Slots: s(cta, fixed("red.popc"), types(U32)), Args: o(dst("d", T0), id, n.optional(), c), Min: v(2, 0), Eff: Barrier | Fence | Converge},
		{Go: "BarRed", Op: "bar", Slots: s(cta, fixed("red"), named(a("and", "or")), types(Pred)), Args: o(dst("p", T0), id, n.optional(), c), Min: v(2, 0), Eff: Barrier | Fence | Converge},
		{Go: "BarrierSync", Op: "barrier", Slots: s(cta, fixed("sync"), aligned), Args: o(id, n.optional()), Min: v(6, 0), Req: sm(30), Eff: Barrier | Fence},
		{Go: "BarrierArrive", Op: "barrier", Slots: s(cta, fixed("arrive"), aligned), Args: o(id, n), Min: v(6, 0), Req: sm(30), Eff: Barrier | Fence},
		{Go: "BarWarpSync", Op: "bar.warp.sync", Args: o(src("membermask", b(U32))), Min: v(6, 0), Req: sm(30), Eff: Barrier | Fence},
		{Go: "BarrierClusterArrive", Op: "barrier.cluster.arrive", Slots: s(opt(a("release", "relaxed").since(8, 0)), aligned), Min: v(7, 8), Req: sm(90), Eff: Barrier | Fence},
		{Go: "BarrierClusterWait", Op: "barrier.cluster.wait", Slots: s(opt(a("acquire").since(8, 0)), aligned), Min: v(7, 8), Req: sm(90), Eff: Barrier | Fence},
	}
	return section("Parallel Synchronization and Communication Instructions", rows...)
}

func warpRows() []Row {
	mask := src("membermask", b(U32))
	modes := named(a("up", "down", "bfly", "idx"))
	shfl := o(src("a", b(B32)), src("b", b(U32)), src("c", b(U32)), mask)
	const eff = Barrier
	return section("Parallel Synchronization and Communication Instructions",
		Row{Go: "ShflSync", Op: "shfl.sync", Slots: s(modes, types(B32)), Args: join(o(dst("d", T0)), shfl), Min: v(6, 0), Req: sm(30), Eff: eff},
		Row{Go: "ShflSyncPred", Op: "shfl.sync", Slots: s(modes, types(B32)), Args: join(o(dst("d", T0), dst("p", b(Pred)).bar()), shfl), Min: v(6, 0), Req: sm(30), Eff: eff},
		Row{Go: "VoteSync", Op: "vote.sync", Slots: s(named(a("all", "any", "uni")), types(Pred)), Args: o(dst("d", T0), src("a", b(Pred)).negatable(), mask), Min: v(6, 0), Req: sm(30), Eff: eff},
		Row{Go: "VoteSyncBallot", Op: "vote.sync.ballot", Slots: s(types(B32)), Args: o(dst("d", T0), src("a", b(Pred)).negatable(), mask), Min: v(6, 0), Req: sm(30), Eff: eff},
		Row{Go: "MatchAnySync", Op: "match.any.sync", Slots: s(types(B32, B64)), Args: o(dst("d", b(U32)), src("a", T0), mask), Min: v(6, 0), Req: sm(70), Eff: eff},
		Row{Go: "MatchAllSync", Op: "match.all.sync", Slots: s(types(B32, B64)), Args: o(dst("d", b(U32)), dst("p", b(Pred)).bar(), src("a", T0), mask), Min: v(6, 0), Req: sm(70), Eff: eff},
		Row{Go: "Activemask", Op: "activemask", Slots: s(types(B32)), Args: o(dst("d", T0)), Min: v(6, 2), Req: sm(30), Eff: Keep},
		Row{Go: "ElectSync", Op: "elect.sync", Args: o(sink("_"), dst("p", b(Pred)).bar(), mask), Min: v(8, 0), Req: sm(90), Eff: eff},
		Row{Go: "ElectSyncLeader", Op: "elect.sync", Args: o(dst("d", b(B32)), dst("p", b(Pred)).bar(), mask), Min: v(8, 0), Req: sm(90), Eff: eff},
		Row{Go: "ReduxSync", Op: "redux.sync", Slots: s(named(a("add", "min", "max")), types(U32, S32)), Args: o(dst("dst", T0), src("src", T0), mask), Min: v(7, 0), Req: sm(80), Eff: eff},
		Row{Go: "ReduxSync", Op: "redux.sync", Slots: s(named(a("and", "or", "xor")), types(B32)), Args: o(dst("dst", T0), src("src", T0), mask), Min: v(7, 0), Req: sm(80), Eff: eff},
		Row{Go: "ReduxSync", Op: "redux.sync", Slots: s(named(a("min", "max")), opt(a("abs")), opt(a("NaN")), types(F32)), Args: o(dst("dst", T0), src("src", T0), mask), Min: v(8, 6), Req: fam100, Eff: eff},
	)
}

func fenceRows() []Row {
	scoped := a("cta").and(a("cluster").since(7, 8).sm(90), a("gpu", "sys"))
	return section("Parallel Synchronization and Communication Instructions: fence",
		Row{Go: "Membar", Op: "membar", Slots: s(named(a("cta"), a("gl"), a("sys").since(2, 0))), Min: v(1, 4), Eff: Fence},
		Row{Go: "Fence", Op: "fence", Slots: s(named(a("sc", "acq_rel"), a("acquire", "release").since(8, 6).sm(90)), named(scoped)), Min: v(6, 0), Req: sm(70), Eff: Fence},
		Row{Go: "FenceProxyAlias", Op: "fence.proxy.alias", Min: v(7, 5), Req: sm(70), Eff: Fence},
		Row{Go: "FenceProxyAsync", Op: "fence.proxy.async", Slots: s(opt(a("global", "shared::cta", "shared::cluster"))), Min: v(8, 0), Req: sm(90), Eff: Fence | Proxy},
		Row{Go: "FenceProxyTensormapGenericRelease", Op: "fence.proxy.tensormap::generic.release", Slots: s(named(scoped)), Min: v(8, 3), Req: sm(90), Eff: Fence | Proxy},
		Row{Go: "FenceProxyTensormapGenericAcquire", Op: "fence.proxy.tensormap::generic.acquire", Slots: s(named(scoped)),
			Args: o(addr("addr", Generic), one("size", 128)), Min: v(8, 3), Req: sm(90), Eff: Fence | Proxy},
		Row{Go: "FenceMbarrierInitReleaseCluster", Op: "fence.mbarrier_init.release.cluster", Min: v(8, 0), Req: sm(90), Eff: Fence},
	)
}

func miscRows() []Row {
	return section("Miscellaneous Instructions",
		Row{Go: "Nanosleep", Op: "nanosleep", Slots: s(types(U32)), Args: o(src("t", T0)), Min: v(6, 3), Req: sm(70), Eff: Keep},
		Row{Go: "Setmaxnreg", Op: "setmaxnreg", Slots: s(named(a("inc", "dec")), fixed("sync.aligned.u32")), Min: v(8, 0), Req: any90a,
			Args: o(Arg{Name: "imm-reg-count", Role: Immediate, Type: b(U32), Lo: 24, Hi: 256, Mult: 8}), Eff: Keep | Converge},
		Row{Go: "GriddepcontrolWait", Op: "griddepcontrol.wait", Min: v(7, 8), Req: sm(90), Eff: Barrier | Fence},
		Row{Go: "GriddepcontrolLaunchDependents", Op: "griddepcontrol.launch_dependents", Min: v(7, 8), Req: sm(90), Eff: Barrier},
	)
}
