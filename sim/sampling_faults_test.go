package sim_test

// every plants a fault at all matches of its pattern.
const every = -1

// samplingFaults are planted where tokens are sampled. The text is that of both architectures: registers whose numbers differ
// are matched by their names, and a few by either number.
//
// Some faults of this part cannot be seen and are not here, since they only cost time: rows that are settled but not capped,
// or open past the batch, are scored in vain, and their keys go nowhere; fewer floors, a best that is not adopted or a group
// that is flushed too soon lets more tokens be scored; the key's comparison with nothing left of the grid (no_next) repeats
// what the columns' says already. So does the test for NaN where a key is made: a NaN that was computed has the bits that
// the key of a failed row has. And tcgen05.wait::ld is the warp's: it needs no barrier before one lane gives back what all read;
// that barrier serves for the codes of the tile after as well.
var samplingFaults = []fault{
	// The noise's codes.
	{"codes read before the other lanes have drawn them", `codes_drawn:\s*bar.warp.sync +0xffffffff;`, `codes_drawn:`, 0},
	{"half of the codes not drawn", `setp.ge.u32 +%past_1, %word, 8;`, `setp.ge.u32 %past_1, %word, 4;`, 0},
	{"codes of tokens, not of a block", `or.b32 +%block, %warp_block, %r\d+;`, `mov.b32 %block, %warp_block;`, 0},
	{"codes of one row for four", `(ld.shared.v4.b32 +\{%noise_[123]_0[^\[]*\[%r105)\+\d+`, `$1+40960`, every},
	{"codes in another order", `(prmt.b32 +%codes_3, %codes_1, %codes_2), 21520`, `$1, 4180`, 0},
	{"places of first tokens in another order", `(prmt.b32 +%codes_6, %codes_4, %codes_5), 21520`, `$1, 4180`, 0},
	{"codes of two octaves too much", `sub.u32 +(%code\w*), 635, `, `sub.u32 $1, 627, `, every},
	{"the floor for a bound", `0fC199E0D1`, `0fC19E7744`, every},

	// Floors.
	{"the bound for a floor", `0fC19E7744`, `0fC199E0D1`, every},
	{"floors of codes that have none", `0f43040000`, `0f43000000`, every},
	{"floors of tokens that are not first", `setp.eq.and.u32 +(%is_first\w*), %byte\w*, %place_in_block\w*, %coded\w*;`, `setp.eq.u32 $1, %lane, %lane;`, every},
	{"a floor of -inf", `setp.gt.and.f32 +(%known\w*),`, `setp.ge.and.f32 $1,`, every},
	{"a floor that beats its score", `mov.b32 +(%r\d+), 0;(\s*selp.b32 +%r\d+, %r\d+, 0, %known)`, `mov.b32 $1, -1;$2`, every},
	{"a floor of the row beside", `add.u32 +%column_2, %columns_1, 0;`, `add.u32 %column_2, %columns_1, 1;`, 0},

	// Rows.
	{"alpha and tau swapped", `(st.shared.v4.f32 +\[%r\d+\+41984\], \{)%alpha, %tau,`, `$1%tau, %alpha,`, 0},
	{"a row's key not emptied", `st.shared.v2.b32 +\[%r\d+\+42496\][^;]*;`, ``, 0},
	{"an open row is capped", `@%open mov.b32 +%cap, 0x7fffffff;`, ``, 0},
	{"an open row starts at +inf", `@%open mov.b32 +%threshold, 0x7fffffff;`, ``, 0},
	{"a row past the batch is prepared", `setp.ge.u32 +%idle,`, `setp.gt.u32 %idle,`, 0},
	{"bound with the record of the row beside", `(\{%record_4_0[^\[]*\[%r375|\{%record_16_0[^\[]*\[%r525)\+41984`, `$1+42000`, 0},
	{"score with the record of the row beside", `(\{%record_8_0[^\[]*\[%r394|\{%record_32_0[^\[]*\[%r564)\+41984`, `$1+42000`, 0},
	{"a threshold above the row's best", `(?s)(.*)(mov.b32 +%threshold_\d+, )(%r\d+);(\s*mov.b32 +%r\d+, 0xffffffff;)`, "${1}add.u32 $3, $3, 0x400000;\n$2$3;$4", 0},
	{"thresholds of the row beside raised", `(@%raise\w* +st.relaxed.cta.shared.f32 +\[%r\d+)\+41992`, `$1+42008`, every},
	{"alpha is not 1/T", `@%above_one cvt.rn.f32.f64[^;]*;`, ``, 0},
	{"1/T after one step", `(@%above_one cvt.rn.f32.f64 +%alpha), %fd11;`, `$1, %fd3;`, 0},
	{"tau stays T above one", `@%above_one mov.f32 +%tau, 0f3F800000;`, ``, 0},
	{"a negative T passes", `(setp.ge.u32 +%not_plain, %r\d+), 0x7f800000`, `$1, 0xff800000`, 0},
	{"the best of the row beside adopted", `(@%row_active ld.relaxed.gpu.global.b64 +%global_best, \[%best_addr)\]`, `$1+8]`, 0},
	{"a best published as that of the row beside", `(@%p0 red.relaxed.gpu.global.max.u64 +\[%best_addr)\]`, `$1+8]`, 0},

	// Who becomes a candidate.
	{"NaN reaches no threshold", `setp.geu(\.or)?\.f32`, `setp.ge$1.f32`, every},
	{"comparison of a group inverted", `setp.geu.f32 +%hit,`, `setp.lt.f32 %hit,`, 0},
	{"a group goes by its last row", `setp.geu.or.f32 +(%hit, %bound_\d+, %record_\d+_2), %hit;`, `setp.geu.f32 $1;`, every},
	{"comparison of a token inverted", `setp.geu.f32 +(%reaches\w*),`, `setp.lt.f32 $1,`, every},
	{"candidates of half the warp", `(redux.sync.or.b32 +%pending, %hits), 0xffffffff;`, `$1, 0xffff;`, 0},
	{"each lane goes by its own hit", `vote.sync.any.pred +%any, %hit, 0xffffffff;`, `and.pred %any, %hit, %hit;`, 0},
	{"mask bit of another token", `(and.b32 +%r\d+, %candidate1), 31;`, `$1, 15;`, 0},
	{"a candidate of the first columns", `add.u32 +(%column_\d+), %column_\d+, %columns_2;`, ``, 0},
	{"a candidate of the first tile", `add.u32 +(%token(?:_1)?), %token(?:_1)?, %token(?:_low)?;`, ``, 0},

	// The queue.
	{"entries on top of one another", `(mad.lo.u32 +%entry, %r\d+), 16,`, `$1, 8,`, 0},
	{"entries not counted", `add.u32 +%waiting, %waiting, %lanes;`, ``, 0},
	{"lanes queue at the same place", `and.b32 +(%r\d+), %r\d+, %lanes;`, `mov.b32 $1, 0;`, 0},
	{"lanes queue as far apart as their bits", `popc.b32 +(%r\d+), %r\d+;(\s*add.u32 +%r\d+, %r\d+, %waiting)`, `$2`, 0},
	{"every lane queues", `@%mine st.shared.v4`, `st.shared.v4`, 0},
	{"more queue than there is room for", `@%more_2 mov.b32 +%need, 32;`, `@%more_2 mov.b32 %need, 96;`, 0},
	{"what waits at the end is not scored", `selp.b32 +%need, 1, 32,`, `selp.b32 %need, 32, 32,`, every},
	{"what waits is not scored where the last group has no hit", `selp.b32 +%need, 1, 32, %rows_end_1`, `selp.b32 %need, 32, 32, %rows_end_1`, 0},
	{"rows end at the last tile of the grid alone", `(setp.ne.or.u32 +%final_tile), %next_column,`, `$1, %rows_of,`, 0},
	{"rows end before their last tile", `setp.ne.or.u32 +%final_tile,`, `setp.eq.or.u32 %final_tile,`, 0},
	{"rows end one tile too late", `div.u32 +%next_column, (%item_\d), %groups;`, "sub.u32 %next_column, $1, %stride;\ndiv.u32 %next_column, %next_column, %groups;", 0},
	{"queue read before the other lanes have written it", `(mov.b32 +%candidate3, 0;\s*)bar.warp.sync +0xffffffff;`, `$1`, 0},
	{"queue written while other lanes read it", `(@%has_candidate ld.shared.v4[^;]*;\s*)bar.warp.sync +0xffffffff;`, `$1`, 0},
	{"candidates that were taken still wait", `sub.u32 +%waiting, %waiting, %taken;`, ``, 0},
	{"the oldest candidates are taken", `add.u32 +%entry_1, %waiting, %lane;`, `mov.b32 %entry_1, %lane;`, 0},
	{"the last lane takes no candidate", `setp.lt.u32 +%has_candidate, %lane, %taken;`, `setp.lt.u32 %has_candidate, %lane, 31;`, 0},

	// Scores and keys.
	{"noise of another row", `(ld.shared.v4.b32 +\{%noise_4_0[^\[]*\[%r\d+)\+40960`, `$1+40976`, 0},
	{"block's noise of another row", `(ld.shared.v4.b32 +\{%noise_5_0[^\[]*\[%r\d+)\+40960`, `$1+40976`, 0},
	{"block's noise from a token's counter", `or.b32 +%block_1, %block_1, %r\d+;`, ``, 0},
	{"pair of another distance", `(and.b32 +%r\d+, %candidate1), 8;`, `$1, 16;`, 0},
	{"noise of the pair's other token", `selp.b32 +%high_10, %high_9, %high_8,`, `selp.b32 %high_10, %high_8, %high_9,`, 0},
	{"place of the first token has a bit too many", `shr.u32 +%first_5, (%r\d+), 28;`, `shr.u32 %first_5, $1, 27;`, 0},
	{"the first token adds noise of its own", `selp.f32 +(%f\d+), %f\d+, (%f\d+), %is_first_(?:8|16);`, `mov.f32 $1, $2;`, 0},
	{"least of a block not divided", `0f3D800000`, `0f3F800000`, 0},
	{"smaller keys win", `(?s)(.*setp).gt.u64`, `$1.lt.u64`, 0},
	{"ids not complemented", `not.b32 +(%r\d+), %candidate1;`, `mov.b32 $1, %candidate1;`, 0},
	{"NaN gives another status", `selp.b32 +(%r\d+), 2, (%r\d+, %is_nan)`, `selp.b32 $1, 3, $2`, 0},
	{"-inf is a score", `setp.gt.and.u32 +(%counts, %r\d+, 0x7fffff)`, `setp.ge.and.u32 $1`, 0},
	{"scores not divided by T", `@%below_one mov.f32 +%threshold_\d+, %quotient;`, ``, 0},
}

// hopperSamplingFaults are those whose text is of sm_90 alone.
var hopperSamplingFaults = []fault{
	{"codes drawn over those that other lanes read", `bar.warp.sync +0xffffffff;\s*(mov.b32 +%word, %lane;)`, `$1`, 0},
	{"codes of the columns beside", `(ld.shared.v2.b32 +\{%code_words_1_0[^\[]*\[%codes_addr_2)\+41472`, `$1+41480`, 0},
	{"codes of the first warp's block", `add.u32 +%warp_block, %warp_block, %warp;`, ``, 0},
	{"codes of the first group for all", `(mad.lo.u32 +%codes_addr_2, %group_2), 32,`, `$1, 0,`, 0},
	{"the second group left out", `mov.b32 +%groups_hit, 3;`, `mov.b32 %groups_hit, 1;`, 0},
	{"accumulator of another group", `mov.f32 +%z_1_0, %acc8;`, `mov.f32 %z_1_0, %acc0;`, 0},
	{"upper token of a pair taken for the lower", `mov.b32 +%token, 8;`, `mov.b32 %token, 0;`, 0},
}

// loneRowFaults need a group that no other row has a hit in.
var loneRowFaults = []fault{
	{"NaN hidden by the pair's other token", `max.NaN.f32`, `max.f32`, every},
}

// searchFaults are planted where a cheap epilogue looks for the groups that it has to enter.
var searchFaults = []fault{
	{"a group not entered", `(@%reaches or.b32 +%groups_of_thread, %groups_of_thread), 2;`, `$1, 1;`, 0},
	{"a group of codes beside", `(%codes_addr_2)\+200736\]`, `$1+200768]`, 0},
	{"each lane enters its own groups", `redux.sync.or.b32 +%groups_hit, %groups_of_thread, 0xffffffff;`, `mov.b32 %groups_hit, %groups_of_thread;`, 0},
	{"what waits at the end is not scored", `@%final_tile or.b32 +%groups_hit, %groups_hit, \w+;`, ``, 0},
	{"the last group entered is not the last", `setp.eq.u32 +%last_group_1, %groups_hit, 0;`, `setp.ne.u32 %last_group_1, %groups_hit, %groups_hit;`, 0},
	{"bounds too low", `0fC199E0D1`, `0fC19E7744`, every},
}

// blackwellSamplingFaults are those whose text is of sm_100 alone.
var blackwellSamplingFaults = []fault{
	{"codes of the columns beside", `(ld.shared.v4.b32 +\{%code_words_2_0[^\[]*\[%codes_addr_1)\+41472`, `$1+41488`, 0},
	{"codes of the warp's first block for both", `(mad.lo.u32 +%block_in_warp, %block_in_warp), 32,`, `$1, 0,`, 0},
	{"the warp's second block drawn as the first", `add.u32 +%block, %block, %r\d+;`, ``, 0},
	{"codes of the first warp's blocks", `(mad.lo.u32 +%warp_block), %quarter,`, `$1, 0,`, 0},
	{"codes of columns two apart", `(mad.lo.u32 +%first_column_1, %first_column_1), 4,`, `$1, 2,`, 0},
	{"all warps sample the first columns", `mul.lo.u32 +%first_column, %first_column, 16;`, `mul.lo.u32 %first_column, %first_column, 0;`, 0},
	{"codes run ahead of the columns", `(add.u32 +%tensor_column_1, %tensor_column_1), %first_column;`, `$1, 0;`, 0},
}
