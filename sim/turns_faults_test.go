package sim_test

// turnsFaults are planted where two warpgroups take turns, and where tiles have fewer rows than the ring has room for.
//
// What only costs time cannot be seen and is not here: a turn that is handed over late, tiles of very different heights, low ones
// copied as tall ones.
var turnsFaults = []fault{
	{"no wait for the turn", `@!%ready_1 bra +wait_turn;`, ``, 0},
	{"both warpgroups have the first turn", `shr.u32 +%turn_phase, %turn, 1;`, "sub.u32 %turn_phase, %turn, 1;\nshr.u32 %turn_phase, %turn_phase, 1;", 0},
	{"nobody has the first turn", `not.b32 +%turn_phase, %turn_phase;`, ``, 0},
	{"phase of the turns never flips", `shr.u32 +%turn_phase, %turn, 1;`, `xor.b32 %turn_phase, %warpgroup, 0;`, 0},
	{"the turn is never handed over", `@%leader_2 mbarrier.arrive.shared.b64 _, \[%turn_barrier_1\+\d+\];`, ``, 0},
	{"the turn is handed over to oneself", `xor.b32 +%other_group, %warpgroup, 1;`, `mov.b32 %other_group, %warpgroup;`, 0},
	{"the turn is handed over by every lane", `@%leader_2 (mbarrier.arrive.shared.b64 _, \[%turn_barrier_1)`, `$1`, 0},
	{"stages of the other's tile not passed", `add.u32 +%stage_1, %stage_1, %ksteps;`, ``, 0},
	{"phase kept in passing the other's tile", `xor.b32 +%phase_1, %phase_1, %ring_turns;`, ``, 0},
	{"every item is everybody's", `setp.eq.u32 +%my_turn, %turn_of, %warpgroup;`, `setp.eq.u32 %my_turn, %lane, %lane;`, 0},
	{"every item is the first warpgroup's", `and.b32 +%turn_of, %turn, 1;`, `mov.b32 %turn_of, 0;`, 0},
	{"both teams at one barrier", `add.u32 +%team_barrier, %warpgroup, 2;`, `mov.b32 %team_barrier, 2;`, every},
	{"second product of the first's rows", `(add.u64 +%rd\d+, %\w+), 512;`, `$1, 0;`, 0},
	{"second product's noise is the first's", `mad.lo.u32 +%block, (%r\d+), 4, %block;`, `mad.lo.u32 %block, $1, 0, %block;`, 0},
	{"second product's tokens are the first's", `mad.lo.u32 +%product_row(_1)?, %product(?:_1)?, 64, %row_2;`, `mov.b32 %product_row$1, %row_2;`, every},
	{"second product left out", `setp.le.u32 +%fewer, %rows_2, 64;`, `setp.le.u32 %fewer, %rows_2, 128;`, 0},
	{"low tiles taken for tall ones", `@%low_tile_2 mov.b32 +%rows_2, %low_rows_3;`, ``, 0},
	{"low tiles counted from the first tile behind whole ones", `@%low_tile_2 sub.u32 +%group_2, %group_2, %tall_groups_3;`, ``, 0},
	{"tall tiles copied as low ones", `(add.u32 +%rows_1, %low_rows_2), 32;`, `$1, 0;`, 0},
	{"tall tiles a step too high", `(add.u32 +%rows_2, %low_rows_3), 32;`, `$1, 64;`, 0},
	{"tiles behind whole ones counted from the first", `sub.u32 +%group_2, %group_2, %whole_groups_1;`, ``, 0},
	{"two turns with the rest of one", `@%short_turn mad.lo.u32 +%rest_rows, %stride, 128, %rest_rows;`, ``, 0},
	{"a rest of two turns in one", `@%short_turn add.u32 +%rest_groups, %stride, %stride;`, ``, 0},
	{"the last group is nobody's", `(add.u32 +%groups, %whole_groups, %rest_groups;)`, "$1\nsub.u32 %groups, %groups, 1;", 0},
	{"what samplers are told of the shares is of another launch", `st.shared.v4.b32 +(\[%smem\+\d+\]), \{%work, %groups, %whole_groups, %behind_whole\};`, `st.shared.v4.b32 $1, {%work, %groups, %whole_groups, %work};`, 0},
	{"weights of the first stages copied twice", `@%weights_started bra +\w+;`, ``, 0},
	{"a stage more is primed than there are", `min.u32 +%primed, %ksteps, 4;`, `min.u32 %primed, %ksteps, 5;`, 0},
	{"waiting candidates of the last tile are forgotten", `mad.lo.u32 +%item_2, %item_2, %stride_2, %first_2;`, `mov.b32 %item_2, 0;`, 0},
}
