package isa

import (
	"fmt"

	"github.com/fsgen/fsgen/arch"
)

// tcgen05Rows holds the fifth generation of tensor-core instructions: accumulators in tensor memory, operands by descriptor.
func tcgen05Rows() []Row {
	group := counted("ctaGroup", a("cta_group::1").n(1), a("cta_group::2").n(2))
	taddr := addr("taddr", TMem)
	cols := src("nCols", b(U32)).among(32, 64, 128, 256, 512)
	row := func(name, op string, eff Effect, slots []Slot, args ...Arg) Row {
		return Row{Go: "Tcgen05" + name, Op: "tcgen05." + op, Slots: slots, Args: args, Min: v(8, 6), Req: fam100, Eff: eff}
	}
	rows := []Row{
		row("Alloc", "alloc", Store|Barrier|Converge|Keep, s(group, fixed("sync.aligned.shared::cta.b32")), addr("dst", Shared), cols),
		row("Dealloc", "dealloc", Barrier|Converge|Keep, s(group, fixed("sync.aligned.b32")), src("taddr", b(U32)).noImm(), cols),
		row("RelinquishAllocPermit", "relinquish_alloc_permit", Barrier|Converge|Keep, s(group, fixed("sync.aligned"))),
		row("WaitLd", "wait::ld.sync.aligned", Fence|Converge, nil),
		row("WaitSt", "wait::st.sync.aligned", Fence|Converge, nil),
		row("FenceBeforeThreadSync", "fence::before_thread_sync", Fence, nil),
		row("FenceAfterThreadSync", "fence::after_thread_sync", Fence, nil),
		row("Commit", "commit", Barrier|Async, s(group, fixed("mbarrier::arrive::one.shared::cluster"), multicast, fixed("b64")),
			addr("mbar", SharedCluster), ctaMask.noImm()),
		row("ShiftDown", "shift", Store|Async|Keep, s(group, fixed("down")), taddr),
	}
	rows[len(rows)-1].Req = arch.Req{Special: []int{100, 103}} // in no family target
	rows = append(rows, tcgen05Copies(group, row)...)
	rows = append(rows, tcgen05Moves(row)...)
	rows = append(rows, tcgen05Mmas(group, row)...)
	return section("TensorCore 5th Generation Instructions", rows...)
}

type tcgen05Row func(name, op string, eff Effect, slots []Slot, args ...Arg) Row

func tcgen05Copies(group Slot, row tcgen05Row) []Row {
	shapes := named(a("128x256b", "4x256b", "128x128b"), a("64x128b").cross(a("warpx2::02_13", "warpx2::01_23")), a("32x128b.warpx4"))
	format := opt(a("b8x16.b6x16_p32", "b8x16.b4x16_p64"))
	return []Row{row("Cp", "cp", Load|Store|Async|Proxy, s(group, shapes, format), addr("taddr", TMem), src("s-desc", b(U64)).noImm())}
}

// tcgen05Moves lists loads and stores between tensor memory and registers. The number of registers is the repetition times what
// one repetition of the shape holds in each thread.
func tcgen05Moves(row tcgen05Row) []Row {
	taddr := addr("taddr", TMem)
	reg := func(x Arg, per int) Arg { return x.vecOf(0, per, 1) }
	var rows []Row
	for _, m := range []struct {
		shape    string
		per, max int
		split    []Arg
	}{
		{"16x64b", 1, 128, nil}, {"16x128b", 2, 64, nil}, {"16x256b", 4, 32, nil}, {"32x32b", 1, 128, nil},
		{"16x32bx2", 1, 128, o(imm("immHalfSplitoff", 0, 1<<31-1))},
	} {
		var nums alts
		for n := 1; n <= m.max; n *= 2 {
			nums = nums.and(a(fmt.Sprintf("x%d", n)).n(n))
		}
		num := counts(nums)
		ld := row("Ld"+m.shape, "ld.sync.aligned."+m.shape, Load|Async|Converge, s(num, opt(a("pack::16b")), fixed("b32")))
		ld.Args = join(o(reg(dst("r", b(B32)), m.per), taddr), m.split)
		st := row("St"+m.shape, "st.sync.aligned."+m.shape, Store|Async|Converge, s(num, opt(a("unpack::16b")), fixed("b32")))
		st.Args = join(o(taddr), m.split, o(reg(src("r", b(B32)).noImm(), m.per)))
		rows = append(rows, ld, st)
	}
	return rows
}

func tcgen05Mmas(group Slot, row tcgen05Row) []Row {
	kinds := named(a("kind::f16").named("F16"), a("kind::tf32").named("TF32"), a("kind::f8f6f4").named("F8F6F4"))
	usage := opt(a("collector::a::fill", "collector::a::use", "collector::a::lastuse", "collector::a::discard"))
	d, descA, descB := addr("d-tmem", TMem), src("a-desc", b(U64)).noImm(), src("b-desc", b(U64)).noImm()
	tail := o(src("idesc", b(U32)).noImm(), src("disable-output-lane", b(U32)).noImm().vecOf(0, 4, 1).optional(), src("enable-input-d", b(Pred)))
	const eff = Load | Store | Async | Proxy | Keep
	return []Row{
		row("Mma", "mma", eff, s(group, kinds, usage), join(o(d, descA, descB), tail)...),
		row("MmaTMem", "mma", eff, s(group, kinds, usage), join(o(d, addr("a-tmem", TMem), descB), tail)...),
	}
}
