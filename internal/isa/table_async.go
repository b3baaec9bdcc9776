package isa

import "github.com/fsgen/fsgen/arch"

// Modifiers of the bulk copies.
var (
	multicast = opt(a("multicast::cluster").hide()) // Multicast brings it
	ctaMask   = src("ctaMask", b(U16)).when("multicast::cluster")
	complete  = fixed("mbarrier::complete_tx::bytes")
)

func asyncCopyRows() []Row {
	line := prefetch
	to := named(a("shared").in(Shared).named(""), a("shared::cta").in(Shared).since(7, 8).hide())
	rest := o(src("src-size", b(U32)).optional(), policy)
	return section("Asynchronous Data Movement Instructions",
		Row{Go: "CpAsyncCA", Op: "cp.async.ca", Slots: s(to, fixed("global"), cacheHint, line), Min: v(7, 0), Req: sm(80), Eff: Load | Store | Async,
			Args: join(o(addr("dst", Shared), addr("src", Global), one("cp-size", 4, 8, 16)), rest)},
		Row{Go: "CpAsyncCG", Op: "cp.async.cg", Slots: s(to, fixed("global"), cacheHint, line), Min: v(7, 0), Req: sm(80), Eff: Load | Store | Async,
			Args: join(o(addr("dst", Shared), addr("src", Global), one("cp-size", 16)), rest)},
		Row{Go: "CpAsyncCommitGroup", Op: "cp.async.commit_group", Min: v(7, 0), Req: sm(80), Eff: Async},
		Row{Go: "CpAsyncWaitGroup", Op: "cp.async.wait_group", Args: o(imm("n", 0, 1<<31-1)), Min: v(7, 0), Req: sm(80), Eff: Fence},
		Row{Go: "CpAsyncWaitAll", Op: "cp.async.wait_all", Min: v(7, 0), Req: sm(80), Eff: Fence},
		Row{Go: "CpAsyncMbarrierArrive", Op: "cp.async.mbarrier.arrive", Slots: s(opt(a("noinc")), to, fixed("b64")), Args: o(addr("addr", Shared)),
			Min: v(7, 0), Req: sm(80), Eff: Barrier | Async},
	)
}

func bulkCopyRows() []Row {
	cluster := named(a("shared::cluster").in(SharedCluster))
	own := named(a("shared::cta").in(Shared).since(8, 6))
	size := src("size", b(U32)).mult(16)
	const moves = Load | Store | Async | Proxy
	dims := counts(a("1d").n(1), a("2d").n(2), a("3d").n(3), a("4d").n(4), a("5d").n(5))
	tile := opt(a("tile"))
	group := opt(a("cta_group::1", "cta_group::2").since(8, 6).req(fam100))
	tensor := Arg{Name: "tensorMap", Role: Tensor, Type: b(S32), Space: Generic, Len: 1, LenSlot: 1}
	rows := []Row{
		{Go: "CpAsyncBulk", Op: "cp.async.bulk", Eff: moves, Min: v(8, 0), Req: sm(90),
			Slots: s(cluster, named(a("global")), complete, multicast, cacheHint),
			Args:  o(addr("dstMem", NoSpace), addr("srcMem", Global), size, addr("mbar", Shared), ctaMask, policy)},
		{Go: "CpAsyncBulk", Op: "cp.async.bulk", Eff: moves, Min: v(8, 0), Req: sm(90),
			Slots: s(own, named(a("global")), complete, cacheHint),
			Args:  o(addr("dstMem", NoSpace), addr("srcMem", Global), size, addr("mbar", Shared), policy)},
		{Go: "CpAsyncBulk", Op: "cp.async.bulk", Eff: moves, Min: v(8, 0), Req: sm(90),
			Slots: s(named(a("shared::cluster")), named(a("shared::cta")), complete),
			Args:  o(addr("dstMem", SharedCluster), addr("srcMem", Shared), size, addr("mbar", SharedCluster))},
		{Go: "CpAsyncBulk", Op: "cp.async.bulk", Eff: moves, Min: v(8, 0), Req: sm(90),
			Slots: s(named(a("global")), named(a("shared::cta")), fixed("bulk_group"), cacheHint),
			Args:  o(addr("dstMem", Global), addr("srcMem", Shared), size, policy)},
		{Go: "CpAsyncBulkPrefetchL2Global", Op: "cp.async.bulk.prefetch.L2.global", Slots: s(cacheHint), Eff: Async | Keep,
			Args: o(addr("srcMem", Global), size, policy), Min: v(8, 0), Req: sm(90)},
		{Go: "CpAsyncBulkTensor", Op: "cp.async.bulk.tensor", Eff: moves, Min: v(8, 0), Req: sm(90),
			Slots: s(dims, cluster, named(a("global")), tile, complete, multicast, group, cacheHint),
			Args:  o(addr("dstMem", NoSpace), tensor, addr("mbar", Shared), ctaMask, policy)},
		{Go: "CpAsyncBulkTensor", Op: "cp.async.bulk.tensor", Eff: moves, Min: v(8, 0), Req: sm(90),
			Slots: s(dims, own, named(a("global")), tile, complete, group, cacheHint),
			Args:  o(addr("dstMem", NoSpace), tensor, addr("mbar", Shared), policy)},
		{Go: "CpAsyncBulkTensor", Op: "cp.async.bulk.tensor", Eff: moves, Min: v(8, 0), Req: sm(90),
			Slots: s(dims, named(a("global")), named(a("shared::cta")), tile, fixed("bulk_group"), cacheHint),
			Args:  o(tensor, addr("srcMem", Shared), policy)},
		{Go: "CpAsyncBulkPrefetchTensor", Op: "cp.async.bulk.prefetch.tensor", Eff: Async | Keep, Min: v(8, 0), Req: sm(90),
			Slots: s(dims, fixed("L2"), fixed("global"), tile, cacheHint), Args: o(tensor, policy)},
		{Go: "CpAsyncBulkCommitGroup", Op: "cp.async.bulk.commit_group", Min: v(8, 0), Req: sm(90), Eff: Async},
		{Go: "CpAsyncBulkWaitGroup", Op: "cp.async.bulk.wait_group", Slots: s(opt(a("read").named("ReadDone"))), Args: o(imm("N", 0, 1<<31-1)),
			Min: v(8, 0), Req: sm(90), Eff: Fence},
	}
	return section("Asynchronous Data Movement Instructions", append(rows, bulkReduceRows()...)...)
}

func bulkReduceRows() []Row {
	reduce := func(op Slot, t Slot) Row {
		return Row{Go: "CpReduceAsyncBulk", Op: "cp.reduce.async.bulk", Eff: Load | Store | Async | Proxy, Min: v(8, 0), Req: sm(90),
			Slots: s(named(a("global")), named(a("shared::cta")), fixed("bulk_group"), cacheHint, op, t),
			Args:  o(addr("dstMem", Global), addr("srcMem", Shared), src("size", b(U32)).mult(16), policy)}
	}
	return []Row{
		reduce(named(a("add")), types(U32, S32, U64, F32, F64)),
		reduce(named(a("min", "max")), types(U32, S32, U64, S64)),
	}
}

func mbarrierRows() []Row {
	here := named(a("shared").in(Shared).named(""), a("shared::cta").in(Shared).since(7, 8).hide())
	cluster := named(a("shared::cluster").in(SharedCluster))
	b64 := fixed("b64")
	near := a("cta").and(a("cluster").sm(90))
	release := opt(a("release").cross(near).since(8, 0), a("relaxed").cross(near).since(8, 6).sm(90))
	acquire := opt(a("acquire").cross(near).since(8, 0), a("relaxed").cross(near).since(8, 6).sm(90))
	relaxed := opt(a("relaxed").cross(near).since(8, 0))
	ownRelease := opt(a("release.cta").since(8, 0))
	bar, state := addr("addr", NoSpace), dst("state", b(U64))
	many := src("count", b(U32)).optional().since(90, v(7, 8)) // ptxas asks sm_90 for a count without .noComplete
	count, tx := src("count", b(U32)), src("txCount", b(U32))
	rows := []Row{
		{Go: "MbarrierInit", Op: "mbarrier.init", Slots: s(here, b64), Args: o(bar, count), Min: v(7, 0), Req: sm(80), Eff: Store},
		{Go: "MbarrierInval", Op: "mbarrier.inval", Slots: s(here, b64), Args: o(bar), Min: v(7, 0), Req: sm(80), Eff: Store},
		{Go: "MbarrierExpectTx", Op: "mbarrier.expect_tx", Slots: s(relaxed, here, b64), Args: o(bar, tx), Min: v(8, 0), Req: sm(90)},
		{Go: "MbarrierExpectTx", Op: "mbarrier.expect_tx", Slots: s(relaxed, cluster, b64), Args: o(bar, tx), Min: v(8, 0), Req: sm(90)},
		{Go: "MbarrierCompleteTx", Op: "mbarrier.complete_tx", Slots: s(relaxed, here, b64), Args: o(bar, tx), Min: v(8, 0), Req: sm(90)},
		{Go: "MbarrierCompleteTx", Op: "mbarrier.complete_tx", Slots: s(relaxed, cluster, b64), Args: o(bar, tx), Min: v(8, 0), Req: sm(90)},
	}
	for _, op := range []struct {
		name, text string
		sink       arch.Version
	}{{"MbarrierArrive", "mbarrier.arrive", v(7, 1)}, {"MbarrierArriveDrop", "mbarrier.arrive_drop", v(7, 0)}} {
		rows = append(rows,
			Row{Go: op.name, Op: op.text, Slots: s(release, here, b64), Args: o(sink("_"), bar, many), Min: op.sink, Req: sm(80)},
			Row{Go: op.name, Op: op.text, Slots: s(release, cluster, b64), Args: o(sink("_"), bar, many), Min: v(8, 0), Req: sm(90)},
			Row{Go: op.name + "State", Op: op.text, Slots: s(release, here, b64), Args: o(state, bar, many), Min: v(7, 0), Req: sm(80)},
			Row{Go: op.name + "NoComplete", Op: op.text + ".noComplete", Slots: s(ownRelease, here, b64), Args: o(state, bar, count), Min: v(7, 0), Req: sm(80)},
			Row{Go: op.name + "ExpectTx", Op: op.text + ".expect_tx", Slots: s(release, here, b64), Args: o(sink("_"), bar, tx), Min: v(8, 0), Req: sm(90)},
			Row{Go: op.name + "ExpectTx", Op: op.text + ".expect_tx", Slots: s(release, cluster, b64), Args: o(sink("_"), bar, tx), Min: v(8, 0), Req: sm(90)},
			Row{Go: op.name + "ExpectTxState", Op: op.text + ".expect_tx", Slots: s(release, here, b64), Args: o(state, bar, tx), Min: v(8, 0), Req: sm(90)},
		)
	}
	for i := range rows[2:] {
		rows[2+i].Eff |= Barrier
	}
	p := dst("waitComplete", b(Pred))
	st, parity := src("state", b(U64)).noImm(), src("phaseParity", b(U32))
	hint := src("suspendTimeHint", b(U32)).optional()
	rows = append(rows,
		Row{Go: "MbarrierTestWait", Op: "mbarrier.test_wait", Slots: s(acquire, here, b64), Args: o(p, bar, st), Min: v(7, 0), Req: sm(80), Eff: Barrier},
		Row{Go: "MbarrierTestWaitParity", Op: "mbarrier.test_wait.parity", Slots: s(acquire, here, b64), Args: o(p, bar, parity), Min: v(7, 1), Req: sm(80), Eff: Barrier},
		Row{Go: "MbarrierTryWait", Op: "mbarrier.try_wait", Slots: s(acquire, here, b64), Args: o(p, bar, st, hint), Min: v(7, 8), Req: sm(90), Eff: Barrier},
		Row{Go: "MbarrierTryWaitParity", Op: "mbarrier.try_wait.parity", Slots: s(acquire, here, b64), Args: o(p, bar, parity, hint), Min: v(7, 8), Req: sm(90), Eff: Barrier},
		Row{Go: "MbarrierPendingCount", Op: "mbarrier.pending_count.b64", Args: o(dst("count", b(U32)), st), Min: v(7, 0), Req: sm(80)},
	)
	return section("Parallel Synchronization and Communication Instructions: mbarrier", rows...)
}
