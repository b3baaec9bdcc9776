package sim_test

// turnsFaults are planted where two warpgroups take turns, and where tiles have fewer rows than the ring has room for.
//
// What only costs time cannot be seen and is not here: a turn that is handed over late, tiles of very different heights. Nor is
// that tokens past a low tile count: row-major weights are copied 64 rows at a time, so that they are the next tile's, and right.
var turnsFaults = []fault{
	{"no wait for the turn", `@!%ready_1 bra +wait_turn;`, ``, 0},
	{"both warpgroups have the first turn", `xor.b32 +%turn_phase, %warpgroup, 1;`, `mov.b32 %turn_phase, 1;`, 0},
	{"nobody has the first turn", `xor.b32 +%turn_phase, %warpgroup, 1;`, `mov.b32 %turn_phase, 0;`, 0},
	{"phase of the turns never flips", `xor.b32 +%turn_phase, %turn_phase, 1;`, ``, 0},
	{"the turn is never handed over", `@%leader_2 mbarrier.arrive.shared.b64 _, \[%turn_barrier_1\+\d+\];`, ``, 0},
	{"the turn is handed over to oneself", `xor.b32 +%other_group, %warpgroup, 1;`, `mov.b32 %other_group, %warpgroup;`, 0},
	{"the turn is handed over by every lane", `@%leader_2 (mbarrier.arrive.shared.b64 _, \[%turn_barrier_1)`, `$1`, 0},
	{"stages of the other's tile not passed", `add.u32 +%stage_1, %stage_1, %ksteps;`, ``, 0},
	{"phase kept in passing the other's tile", `xor.b32 +%phase_1, %phase_1, %ring_turns;`, ``, 0},
	{"every item is everybody's", `setp.eq.u32 +%my_turn, %turn, %warpgroup;`, `setp.eq.u32 %my_turn, %lane, %lane;`, 0},
	{"every item is the first warpgroup's", `xor.b32 +%turn, %turn, 1;`, ``, 0},
	{"both teams at one barrier", `add.u32 +%team_barrier, %warpgroup, 2;`, `mov.b32 %team_barrier, 2;`, every},
	{"second product of the first's rows", `(add.u64 +%rd\d+, %\w+), 512;`, `$1, 0;`, 0},
	{"second product's noise is the first's", `mad.lo.u32 +%block, (%r\d+), 4, %block;`, `mad.lo.u32 %block, $1, 0, %block;`, 0},
	{"second product's tokens are the first's", `mad.lo.u32 +%product_row(_1)?, %product(?:_1)?, 64, %row_2;`, `mov.b32 %product_row$1, %row_2;`, every},
	{"second product left out", `setp.le.u32 +%fewer, %rows_2, 64;`, `setp.le.u32 %fewer, %rows_2, 128;`, 0},
	{"low tiles taken for tall ones", `@%low_tile_2 mov.b32 +%rows_2, %low_rows;`, ``, 0},
	{"low tiles counted from the first tile", `@%low_tile_2 sub.u32 +%r\d+, %r\d+, %tall_groups;`, ``, 0},
	{"low tiles copied as tall ones", `@%low_tile_1 mov.b32 +%rows_1, %low_rows;`, ``, 0},
	{"tall tiles a step too high", `(add.u32 +%tall_rows, %low_rows), 32;`, `$1, 64;`, 0},
	{"the last group is nobody's", `(@%some_low add.u32 +%groups, %tall_groups, %r\d+;)`, "$1\nsub.u32 %groups, %groups, 1;", 0},
	{"weights of the first stages copied twice", `@%weights_started bra +\w+;`, ``, 0},
	{"a stage more is primed than there are", `min.u32 +%primed, %ksteps, 4;`, `min.u32 %primed, %ksteps, 5;`, 0},
	{"waiting candidates of the last tile are forgotten", `add.u32 +%next_own_item, %item_1, %stride;`, `mov.b32 %next_own_item, 0;`, 0},
}
