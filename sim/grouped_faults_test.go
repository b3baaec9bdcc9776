package sim_test

import (
	"math"
	"testing"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
)

// groupedFaults are planted where blocks are scored as a whole. The text is that of both architectures.
//
// What only costs time cannot be seen and is not here: blocks that are scored although no bound let them reach, a race that is
// run in vain, a key that every lane of a block commits.
var groupedFaults = []fault{
	{"a floor for a block of 16 equals", `0fC1B4A587`, `0fC19E7744`, every},
	{"NaN reaches no threshold", `setp.geu(\.or|\.and)?\.f32`, `setp.ge$1.f32`, every},
	{"comparison of a block inverted", `setp.geu.and.f32 +(%counts\w*,)`, `setp.lt.and.f32 $1`, 0},
	{"hits of half the warp", `(redux.sync.or.b32 +%pending, %hits), 0xffffffff;`, `$1, 0xffff;`, 0},
	{"ballot of half the warp", `(vote.sync.ballot.b32 +%lanes, %mine), 0xffffffff;`, `$1, 0xffff;`, 0},
	{"bits of another element", `shr.u32 +(%r\d+), %hits, %pending_index;`, `mov.b32 $1, %hits;`, 0},
	{"scores of another element", `(element_1:\s*mov.f32 +%base0, )%f\d+;`, `${1}%base0;`, 0},
	{"column of another element", `(element_1:(?s).*?mov.b32 +%column_\d+, )1;`, `${1}0;`, 0},
	{"record of the row beside", `(ld.relaxed.cta.shared.v4.f32 +\{%record_(?:8|32)_0[^\[]*\[%r\d+)\+62464`, `$1+62480`, 0},
	{"block's noise of another row", `(ld.shared.v4.b32 +\{%noise_4_0[^\[]*\[%r\d+)\+61440`, `$1+61456`, 0},
	{"tokens' noise of another row", `(ld.shared.v4.b32 +\{%noise_5_0[^\[]*\[%r\d+)\+61440`, `$1+61456`, 0},
	{"block's noise from a token's counter", `or.b32 +%block_1, %block_1, %r\d+;`, ``, 0},
	{"tokens past the vocabulary count", `selp.f32 +(%base(?:_1)?), (%base[01]), %f\d+, %valid(?:_1)?;`, `mov.f32 $1, $2;`, every},
	{"the largest token adds what is computed", `selp.f32 +(%f\d+), (%f\d+), 0f3F800000, %p\d+;`, `mov.f32 $1, $2;`, every},
	{"tokens add nothing to the largest", `selp.f32 +(%f\d+), %f\d+, 0f3F800000, (%p\d+);`, `selp.f32 $1, 0f00000000, 0f3F800000, $2;`, every},
	{"1/tau of another octave", `(mul.rn.f32 +%f\d+, %f\d+, )0f5F800000;`, `${1}0f5F000000;`, every},
	{"winner among the blocks of the warp", `and.b32 +%lanes_1, %lanes_1, %members;`, ``, 0},
	{"members of the warp's first block", `(shl.b32 +%members, %r\d+), %r\d+;`, `$1, 0;`, 0},
	{"the race without its noise", `(?s)(.*fma.rn.f32 +%f\d+, %record_\d+_1, )%f\d+(, %base(?:_1)?;)`, `${1}0f00000000$2`, 0},
	{"ids of the block before", `(and.b32 +%block_first, %token(?:_low)?), 0xfffffff0;`, `$1, 0xffffffe0;`, 0},
	{"smaller keys win", `(?s)(.*setp).gt.u64`, `$1.lt.u64`, 0},
	{"NaN gives another status", `selp.b32 +(%r\d+), 2, (%r\d+, %is_nan)`, `selp.b32 $1, 3, $2`, 0},
}

// sumFaults are planted in the log-sum-exp.
var sumFaults = []fault{
	{"references are never raised", `@!%any bra +references_hold;`, `bra references_hold;`, 0},
	{"references of +inf are infinite", `min.f32 +(%reference_1), (%f\d+), 0f7F7FFFFF;`, `mov.f32 $1, $2;`, 0},
	{"references written while others read them", `bar.warp.sync +0xffffffff;(\s*mad.lo.u32 +%own,)`, `$1`, 0},
	{"references read before they are written", `bar.warp.sync +0xffffffff;(\s*mov.b32 +%raised, 1;)`, `$1`, 0},
	{"all lanes of a column add to its sum", `@%keeps_pair st.shared.f32`, `st.shared.f32`, 0},
	{"pairs half as far apart", `(shl.b32 +%own_place, %\w+), 2;`, `$1, 1;`, 0},
	{"warps share their pairs", `(mad.lo.u32 +%pairs, %\w+), 256`, `$1, 0`, 0},
	{"sums of a set left out", `(add.rn.f32 +(%sum_\d+), %sum_\d+), %f\d+;`, `$1, 0f00000000;`, 0},
	{"pairs not emptied", `st.shared.f32 +\[%r\d+\+63488\][^;]*;`, ``, 0},
	{"T = 0 divides", `selp.f32 +%sum_tau, 0f3F800000, %tau, %cold;`, `mov.f32 %sum_tau, %tau;`, 0},
	{"scale of the row beside", `(ld.shared.f32 +%scale, \[%r\d+)\+63232`, `$1+63236`, 0},
	{"partial sums of all CTAs in one place", `mov.b32 +%cta, %ctaid.x;`, `mov.b32 %cta, 0;`, 0},
	{"partial sums of another row", `(mad.lo.u32 +%r\d+), %batch_row_1, (%ctas, %cta;)`, `$1, 0, $2`, 0},
	{"places that nobody wrote are read", `setp.lt.or.u32 +(%contributes\w*), %cluster\w*, %clusters_wrapped, %contributes\w*;`, `setp.eq.u32 $1, %lane, %lane;`, every},
	{"places past the last cluster left out", `min.u32 +%clusters_wrapped, %clusters_wrapped, %first_cluster;`, `mov.b32 %clusters_wrapped, 0;`, 0},
	{"places ahead of the first cluster alone", `min.u32 +%clusters_ahead, %clusters_ahead, %groups\w*;`, `mov.b32 %clusters_ahead, 0;`, 0},
	{"places of the first column tile alone", `(mul.lo.u32 +%first_cluster, %row_column), %groups\w*;`, `$1, 0;`, 0},
	{"a round's places from the first on", `(@%contributes_1 ld.global.v2.f32 [^\[]*\[%partial_addr_1)\+\d+`, `$1`, 0},
	{"reference not divided by T", `(fma.rn.f32 +%f\d+, %f\d+, 0f3F317218, )%quotient;`, `${1}%sum_tau_1;`, 0},
	{"log-sum-exp of rows that failed", `@!%ok st.global.f32[^;]*;`, ``, 0},
	{"log-sum-exp before the others have joined theirs", `(sums_written:\s*)bar.sync +1, \d+;`, `$1`, 0},
}

var hopperGroupedFaults = []fault{
	// Elsewhere what stands past the tile is a number, and pads keep it out.
	{"tokens past the vocabulary add up", `selp.f32 +(%sum_cap\w*), (%f\d+), %f\d+, %counts\w*;`, `mov.f32 $1, $2;`, every},
	{"sum of half the tokens", `shfl.sync.bfly.b32 +(%\w+), (%\w+), 4, 31, 0xffffffff;`, `mov.b32 $1, $2;`, 1},
	{"top of half the tokens", `shfl.sync.bfly.b32 +(%\w+), (%\w+), 4, 31, 0xffffffff;`, `mov.b32 $1, $2;`, 2},
	{"mass of half the tokens", `shfl.sync.bfly.b32 +(%\w+), (%\w+), 4, 31, 0xffffffff;`, `mov.b32 $1, $2;`, 3},
	{"race of half the tokens", `shfl.sync.bfly.b32 +(%\w+), (%\w+), 4, 31, 0xffffffff;`, `mov.b32 $1, $2;`, 4},
	{"columns exchanged", `(and.b32 +%r\d+, %lane), 16;(\s*setp.ne.u32 +%upper_half_2)`, `$1, 8;$2`, 0},
	{"upper token of a pair taken for the lower", `add.u32 +%winner, %place, 8;`, `add.u32 %winner, %place, 0;`, 0},
	{"the lower token of a pair never wins", `@%some add.u32 +%winner, %place_1, 0;`, ``, 0},
	{"both tokens of a pair draw the same", `mul.lo.u32 +%high_12, %r\d+, 0xd2511f53;`, `mov.b32 %high_12, %high_11;`, 0},
}

var blackwellGroupedFaults = []fault{
	{"sum of half the tokens", `shfl.sync.bfly.b32 +(%\w+), (%\w+), 1, 31, 0xffffffff;`, `mov.b32 $1, $2;`, 1},
	{"top of half the tokens", `shfl.sync.bfly.b32 +(%\w+), (%\w+), 1, 31, 0xffffffff;`, `mov.b32 $1, $2;`, 2},
	{"mass of half the tokens", `shfl.sync.bfly.b32 +(%\w+), (%\w+), 1, 31, 0xffffffff;`, `mov.b32 $1, $2;`, 3},
	{"race of half the tokens", `shfl.sync.bfly.b32 +(%\w+), (%\w+), 1, 31, 0xffffffff;`, `mov.b32 $1, $2;`, 4},
	{"upper token of a pair draws as the lower", `@%upper_token mov.b32 +%high_\d+, %high_\d+;`, ``, 0},
}

// passFaults are those of sums in a pass of their own, and of warps that see several tiles.
var passFaults = []fault{
	{"a group not added up", `mov.b32 +%groups_4, 3;`, `mov.b32 %groups_4, 1;`, 0},
	{"accumulators of another group", `(sum_group:(?s).*?mov.f32 +%z_\d+_0, )%acc8;`, `${1}%acc0;`, 0},
	{"a sum stays as its reference rises", `@%rises st.shared.f32 +\[%own\+\d+\], %f\d+;`, ``, 0},
	{"the pass left out", `sum_group:`, "bra sum_groups_done;\nsum_group:", 0},
}

// summedUnderTest is a kernel that gives the log-sum-exp, with the answer of the plain computation.
func summedUnderTest(t testing.TB, a arch.Arch, sampler ir.Sampler, tile, transforms string, vocab, hidden, batch, ctas int) *kernelUnderTest {
	comp := chain(t, transforms)
	comp.Sampler, comp.LogSumExp = sampler, true
	k := &kernelUnderTest{name: a.Name + " " + tile + " " + sampler.String(), art: frozen(t, comp, tile, a), p: newProblem(comp, vocab, hidden, batch, 3), ctas: ctas}
	k.p.strange()
	if sampler != ir.Grouped {
		k.answer(t)
	} else {
		k.want = &reference.Result{}
	}
	for row := range batch {
		want := k.p.grouped(row)
		k.lse = append(k.lse, want.lse)
		if sampler == ir.Grouped {
			k.want.Tokens = append(k.want.Tokens, want.token)
			k.want.Status = append(k.want.Status, want.status)
			k.want.Scores = append(k.want.Scores, float32(want.score))
		}
	}
	return k
}

// wrongSums reports whether a log-sum-exp is not the answer's.
func (k *kernelUnderTest) wrongSums(b *bench) bool {
	if k.lse == nil {
		return false
	}
	for row, got := range float32s(b.lse) {
		want := float64(float32(k.lse[row]))
		if want != got && !(math.Abs(got-want) <= 1e-5*(1+math.Abs(want))) && !(math.IsNaN(want) && math.IsNaN(got)) {
			return true
		}
	}
	return false
}
