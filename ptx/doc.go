// Package ptx writes, reads and checks PTX, the instruction set that NVIDIA's driver compiles.
//
// # Building
//
// A [Module] holds kernels and variables. [Module.Entry] starts a kernel and returns its builder, a [*Func]: make
// registers, call constructors, place labels. One constructor for each instruction form is generated from the table in
// internal/isa; nothing about instructions is written by hand here.
//
//   - The constructor's name is the instruction's text without dots: add.s32 is AddS32, fma.rn.f32 is FmaRnF32,
//     ld.shared.v4.b32 is LdSharedV4B32, shfl.sync.bfly.b32 is ShflSyncBflyB32. Forms that share their text but differ in
//     operands carry one more word: ShflSyncPred... has the destination d|p, WgmmaMmaAsyncReg... takes A from registers,
//     MbarrierArriveState returns the state that MbarrierArrive drops, ElectSync drops the leader that ElectSyncLeader returns,
//     MovVar... takes the address of a variable, MovPack... and MovUnpack... join and split registers.
//   - Modifiers that a family always has in this package are left out of its names: .sync.aligned of wgmma, mma and tcgen05,
//     .shared of mbarrier and ldmatrix (MbarrierInit), .mbarrier::complete_tx::bytes of bulk copies, .b64 of mbarrier.
//   - Loads and stores have the types u8, s8, u16, s16, b16, b32, b64, f32, f64: an untyped 32-bit operand takes a B32 or an F32.
//   - Operands come in PTX order. A vector operand is a slice of registers.
//   - A choice that must be made but decides no operand's type leads the call: SetpS32(ptx.LT, p, a, b), WgmmaMmaAsyncF32BF16(n, ...).
//   - What may be left out follows as options, in any order: AddF32(d, a, b, ptx.RZ, ptx.FTZ),
//     LdGlobalB32(d, a, ptx.RelaxedGPU), CpAsyncBulkSharedClusterGlobal(dst, src, size, bar, ptx.CacheHint(policy)).
//   - If, IfNot and Comment chain on the instruction: f.Bra(done).If(p).Comment("last tile").
//
// Register types ([Pred], [B16], [B32], [B64], [F32], [F64]), immediates ([Imm], [F32Imm], [F64Imm]) and addresses
// ([SharedAddr], [GlobalAddr], ...) are Go types, so most mistakes do not compile. An address is a register, a variable, or
// either with Off(bytes). Special registers (TidX, CtaidX, ClusterCtarank, ...) are read by MovB32, MovB64 and MovPred only.
//
// The rest of the mistakes are collected, up to ten, and reported by [Module.Err] with the author's file and line.
//
// # Checking
//
// [Verify] sees the whole module: declarations, limits, targets and versions, registers read before any path writes them,
// control that runs off the end. A module goes out only after Verify returns nil.
//
// # Text
//
// [Module.String] prints a module; the .version is the lowest that has everything in it unless [Module.Pinned] says
// otherwise. [Parse] reads it back ([Diff] finds no difference) and accepts other spellings of the same forms. Not read:
// functions with parameters, .weak, .alias, textures, debug directives, predicates negated where the manual does not list
// it, sinks in vectors, and instructions that the table lacks.
//
// # Adding an instruction
//
// Write a row in internal/isa, run go generate ./ptx, and run the tests: ptxas judges the row's syntax, operands, minimum
// version and targets.
package ptx
