package sim_test

import (
	"testing"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
)

// limitFaults are planted where logits are compared with limits.
//
// What only costs time is not here: a limit that is too low, or that the check against the threshold throws away.
var limitFaults = []fault{
	{"limits without the noise, which nobody checks", `fma.rn.f32 +(%f\d+), %f\d+, 0fBF800008, (%f\d+);((?s).*?)selp.f32 +%limit, (%f\d+), %f\d+, %below;`, "mov.f32 $1, $2;${3}mov.f32 %limit, $4;", 0},
	{"limits of another row's threshold, which nobody checks", `mul.rn.f32 +(%f\d+), %record_5_2, (%f\d+);((?s).*?)selp.f32 +%limit_1, (%f\d+), %f\d+, %below_1;`, "mul.rn.f32 $1, %record_4_2, $2;${3}mov.f32 %limit_1, $4;", 0},
	{"the noise of one column for two", `(prmt.b32 +%r\d+, %code_word, 0x43000000), 28996;`, `$1, 28740;`, 0},
	{"the codes of other columns", `ld.shared.b32 +%code_word, \[%code_addr_\d+\+(\d+)\];`, `ld.shared.b32 %code_word, [%codes+$1];`, 0},
	{"the records of other columns", `mad.lo.u32 +(%r\d+), %first_column_\d+, 16, %smem;(\s*ld.relaxed.cta.shared.v4.f32 \{%record_4_0)`, `mov.b32 $1, %smem;$2`, 0},
	{"a second product's limits are the first's", `mad.lo.u32 +%limit_addr_2, (%word_\d), 16,`, "and.b32 $1, $1, 15;\nmad.lo.u32 %limit_addr_2, $1, 16,", 0},
	{"all warps' limits in one place", `sub.u32 +(%r\d+), %codes, %smem;`, `mov.b32 $1, 0;`, every},
	{"limits read before they are known", `(limits_known:\s*)bar.warp.sync +0xffffffff;`, `$1`, 0},
	{"a lane reads the first lane's limits", `(and.b32 +%r\d+, %lane), 3;(\s*sub.u32 +%r\d+, %codes, %smem;\s*mad.lo.u32 +%r\d+, %r\d+, 2, %smem;\s*mad.lo.u32 +%limit_addr_3)`, `$1, 0;$2`, 0},
	{"a block's second token is not compared", `max.NaN.f32 +(%top\w*), (%acc\d+), %acc\d+;`, `max.NaN.f32 $1, $2, $2;`, every},
	{"a token in the second column is not compared", `setp.gtu.or.f32 +%reaches, (%top\w*), (%limits\w*1), %reaches;`, ``, every},
	{"first tokens read before they are there", `bar.warp.sync +0xffffffff;(\s*mov.b32 +%word\w*, %lane;\s*floor_word:)`, `$1`, 0},
	{"floors of the tokens beside the first ones", `and.b32 +%row_in_block, %row_in_tile, 15;`, "xor.b32 %row_in_block, %row_in_tile, 1;\nand.b32 %row_in_block, %row_in_block, 15;", 0},
	{"first tokens in the upper half of a block left out", `add.u32 +%row_in_block_1, %row_in_block, 8;`, `mov.b32 %row_in_block_1, %row_in_block;`, 0},
	{"floors of the row beside", `add.u32 +%floor_column_1, (%first_column_\d+), 1;`, `mov.b32 %floor_column_1, $1;`, 0},
	{"floors as high as the bounds", `(fma.rn.f32 +%f\d+, %f\d+, 0f3E317218), 0fC19E\w{4};`, `$1, 0fC199E0D1;`, every},
}

// nanLimitFaults need a token whose logits are no numbers, in all rows.
var nanLimitFaults = []fault{
	{"NaN passes no limit", `setp.gtu(.f32|.or.f32)( +%reaches, %top\w*, %limits)`, `setp.gt$1$2`, every},
}

// meanFloorFaults are planted where blocks that are scored as a whole give floors by their means.
var meanFloorFaults = []fault{
	{"means read before they are there", `bar.warp.sync +0xffffffff;(\s*mov.b32 +%word\w*, %lane;\s*floor_word:)`, `$1`, 0},
	{"sums for means", `mul.rn.f32 +(%block_mean\w*), (%\w+), 0f3D800000;`, `mov.f32 $1, $2;`, every},
	{"a lane's own tokens for the block's", `mul.rn.f32 +(%block_mean)(\w*), %\w+, 0f3D800000;`, `mul.rn.f32 $1$2, %block_sum$2, 0f3F000000;`, every},
	{"means of the row beside", `add.u32 +%floor_column_1, (%first_column_\d+), 1;`, `mov.b32 %floor_column_1, $1;`, 0},
	{"floors 1.8 too high", `(fma.rn.f32 +%f\d+, %f\d+, 0f3E317218), 0fC19E\w{4};`, `$1, 0fC1900000;`, every},
	{"means put where another lane's are", `(setp.lt.u32 +%is_first, %lane), 4;`, `$1, 8;`, 0},
}

// limitUnderTest is a kernel that compares logits with limits; of so many tokens few groups have one that passes.
func limitUnderTest(t testing.TB, sampler ir.Sampler, tile string, nan bool) *kernelUnderTest {
	const vocab, hidden = 3000, 72
	comp := chain(t, "temperature")
	comp.Sampler = sampler
	k := &kernelUnderTest{name: arch.SM90.Name + " " + tile + " " + sampler.String(), art: frozen(t, comp, tile, arch.SM90), p: newProblem(comp, vocab, hidden, 60, 3), ctas: 2}
	if nan {
		k.p.req.W[(vocab-20)*hidden] = 0x7FC0
	}
	k.answer(t)
	return k
}
