package isa

import "fmt"

func matrixRows() []Row {
	nums := named(a("x1").n(1), a("x2").n(2), a("x4").n(4))
	from := named(a("shared").in(Shared).named(""), a("shared::cta").in(Shared).since(7, 8).hide())
	trans := opt(a("trans"))
	mma := func(shape string, k int, ab string, min, sm_ int) Row {
		return Row{Go: "MmaSync", Op: "mma.sync.aligned", Eff: Converge, Min: v(7, 0), Req: sm(sm_),
			Slots: s(named(a(shape).named(fmt.Sprintf("M16N8K%d", k))), fixed("row.col"), named(a("f32."+ab+"."+ab+".f32").named(goName("f32."+ab)))),
			Args:  o(dst("d", b(F32)).vec(4), src("a", b(B32)).noImm().vec(k/4), src("b", b(B32)).noImm().vec(k/8), src("c", b(F32)).noImm().vec(4))}
	}
	return section("Warp-Level Matrix Instructions",
		Row{Go: "Ldmatrix", Op: "ldmatrix.sync.aligned.m8n8", Slots: s(nums, trans, from, fixed("b16")),
			Args: o(dst("r", b(B32)).vecOf(0, 1, 1), addr("p", Shared)), Min: v(6, 5), Req: sm(75), Eff: Load | Converge},
		Row{Go: "Stmatrix", Op: "stmatrix.sync.aligned.m8n8", Slots: s(nums, trans, from, fixed("b16")),
			Args: o(addr("p", Shared), src("r", b(B32)).noImm().vecOf(0, 1, 1)), Min: v(7, 8), Req: sm(90), Eff: Store | Converge},
		mma("m16n8k16", 16, "bf16", 70, 80), mma("m16n8k16", 16, "f16", 70, 80),
		mma("m16n8k8", 8, "bf16", 70, 80),
	)
}

func wgmmaRows() []Row {
	var shapes alts
	for n := 8; n <= 256; n += 8 {
		shapes = shapes.and(a(fmt.Sprintf("m64n%dk16", n)).n(n))
	}
	shape := counted("n", shapes)
	acc := dstSrc("d", b(F32)).vecOf(0, 1, 2)
	accF16 := dstSrc("d", b(B32)).vecOf(0, 1, 4)
	scale := func(name string) Arg { return one(name, -1, 1) }
	trans := func(name string) Arg { return one(name, 0, 1) }
	descB := src("b-desc", b(U64)).noImm()
	tail := o(src("scale-d", b(Pred)), scale("imm-scale-a"), scale("imm-scale-b"))
	row := func(goName, types string, d Arg, x Arg, trans ...Arg) Row {
		return Row{Go: goName, Op: "wgmma.mma_async.sync.aligned", Slots: s(shape, fixed(types)),
			Args: join(o(d, x, descB), tail, trans), Min: v(8, 0), Req: only90a, Eff: Async | Converge | Proxy | Keep}
	}
	descA := src("a-desc", b(U64)).noImm()
	regA := src("a", b(B32)).noImm().vec(4)
	ta, tb := trans("imm-trans-a"), trans("imm-trans-b")
	return section("Asynchronous Warpgroup Level Matrix Instructions",
		row("WgmmaMmaAsyncF32BF16", "f32.bf16.bf16", acc, descA, ta, tb),
		row("WgmmaMmaAsyncF32F16", "f32.f16.f16", acc, descA, ta, tb),
		row("WgmmaMmaAsyncF16F16", "f16.f16.f16", accF16, descA, ta, tb),
		row("WgmmaMmaAsyncRegF32BF16", "f32.bf16.bf16", acc, regA, tb),
		row("WgmmaMmaAsyncRegF32F16", "f32.f16.f16", acc, regA, tb),
		row("WgmmaMmaAsyncRegF16F16", "f16.f16.f16", accF16, regA, tb),
		Row{Go: "WgmmaFence", Op: "wgmma.fence.sync.aligned", Min: v(8, 0), Req: only90a, Eff: Fence | Converge},
		Row{Go: "WgmmaCommitGroup", Op: "wgmma.commit_group.sync.aligned", Min: v(8, 0), Req: only90a, Eff: Async | Converge},
		Row{Go: "WgmmaWaitGroup", Op: "wgmma.wait_group.sync.aligned", Args: o(imm("N", 0, 7)), Min: v(8, 0), Req: only90a, Eff: Fence | Converge},
	)
}
