package templates

import (
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// shares says how the vocabulary is cut into groups of tiles: the first `whole` have tiles of M rows, of those behind them some have
// tall tiles, a step more than low rows, and the others low ones.
type shares struct {
	whole, behind ptx.B32
}

// lowBits hold the low rows in shares.behind, below the number of tall groups; no tile has more than 256.
const lowBits = 9

// ends takes apart what comes behind the whole groups.
func (k *skeleton) ends(p shares) (many, low ptx.B32) {
	f := k.f
	many, low = f.B32("tall_groups"), f.B32("low_rows")
	f.ShrU32(many, p.behind, ptx.Imm(lowBits))
	f.AndB32(low, p.behind, ptx.Imm(1<<lowBits-1))
	return many, low
}

// deal is what there is to do.
type deal struct {
	work, groups ptx.B32
	parts        shares
}

// keepDeal has a thread leave it in shared memory: samplers have no registers to keep it in.
func (k *skeleton) keepDeal() {
	k.f.StSharedV4B32(k.smem.Off(k.plan.Storage.Deal), []ptx.B32{k.work, k.groups, k.parts.whole, k.parts.behind})
}

// recallDeal reads it.
func (k *skeleton) recallDeal() deal {
	f := k.f
	d := deal{f.B32("work"), f.B32("groups"), shares{f.B32("whole_groups"), f.B32("behind_whole")}}
	f.LdSharedV4B32([]ptx.B32{d.work, d.groups, d.parts.whole, d.parts.behind}, k.smem.Off(k.plan.Storage.Deal))
	return d
}

// down is the tiles of a group: one for each CTA of the cluster, or one that it has in common.
func (k *skeleton) down() int {
	if k.t.Split {
		return 1
	}
	return k.t.Cluster
}

// rowStep is what a tile's rows are a multiple of: a word of a mask, for each CTA that copies a part of them.
func rowStep(t tiling.Tile) int {
	if t.Split {
		return maskWord * t.Cluster
	}
	return maskWord
}

// maskWord is the tokens of a word of a mask.
const maskWord = 32

// copyRows is the rows of a box of weights. Taller boxes are a little faster, but what a low tile's last one has too many is read for
// nothing: the last turns of 192 rows have 96, or not many more (rest).
func copyRows(t tiling.Tile) int {
	if t.Split || t.M%(2*productRows) != 0 {
		return maskWord
	}
	return productRows
}

// share cuts the vocabulary, or the shard of it. Where the grid takes it once, every CTA gets as many rows as any other: tiles of M rows in
// all turns but the last one or two, and of about the same height, a step apart, in those. So all CTAs end together, no multiprocessor
// streams alone at the end, and a grid that follows finds all of them free at the same time.
//
// Products past the rows of a tile read what an earlier stage left in the ring. So the ring is filled with M rows a stage
// when it is new, which takes an item of as many stages; where there is none, all tiles have M rows.
func (k *skeleton) share(columns ptx.B32) {
	f := k.f
	k.parts, k.groups = shares{f.B32("whole_groups"), f.B32("behind_whole")}, k.ceilDiv(k.dealt, k.t.M*k.down(), "groups")
	f.MovB32(k.parts.whole, k.groups)
	f.MovB32(k.parts.behind, ptx.Imm(0))
	even, shared := f.Pred("even"), f.Label("shared")
	f.SetpU32(ptx.GE, even, k.ksteps, ptx.Imm(k.t.Stages))
	f.SetpAndU32(ptx.EQ, even, columns, ptx.Imm(1), even)
	if k.sharded() { // one of no ids has no heights
		f.SetpAndU32(ptx.NE, even, k.dealt, ptx.Imm(0), even)
	}
	f.Bra(shared).IfNot(even)
	k.dealRest()
	f.Place(shared)
}

// dealRest deals out what whole turns leave: so many tiles get low rows each, and what then is left goes to the first of them, a
// step each. Where it makes no more than one step, the others get nothing.
func (k *skeleton) dealRest() {
	f, p, step := k.f, k.parts, rowStep(k.t)
	rest, tiles, groups := k.rest()
	many, low, left, some := f.B32("tall_groups"), f.B32("low_rows"), f.B32("rows_left"), f.Pred("some_low")
	f.DivU32(low, rest, tiles)
	divideBy(f, low, low, step)
	f.MulLoU32(low, low, ptx.Imm(step))
	f.MulLoU32(left, tiles, low)
	f.SubU32(left, rest, left)
	f.AddU32(many, left, ptx.Imm(step*k.down()-1))
	divideBy(f, many, many, step*k.down())
	f.MadLoU32(p.behind, many, ptx.Imm(1<<lowBits), low)
	f.SetpU32(ptx.NE, some, low, ptx.Imm(0))
	f.SelpB32(groups, groups, many, some)
	f.AddU32(k.groups, p.whole, groups)
}

// rest finds the whole groups, and what they leave: the rows, and the tiles and groups that share them. These are the last turn's, or
// the last two's where those of the last would have less than half of M rows, since so low a stage keeps few bytes under way.
func (k *skeleton) rest() (rows, tiles, groups ptx.B32) {
	f, p, group := k.f, k.parts, k.t.M*k.down()
	before, half, short := f.B32("turns_before"), f.B32("half_turn"), f.Pred("short_turn")
	rows, tiles, groups = f.B32("rest_rows"), f.B32("rest_tiles"), f.B32("rest_groups")
	f.SubU32(before, k.groups, ptx.Imm(1))
	f.DivU32(before, before, k.stride)
	f.MulLoU32(half, k.stride, ptx.Imm(group/2))
	f.MovB32(groups, k.stride)
	f.MulLoU32(p.whole, before, k.stride)
	f.MulLoU32(rows, p.whole, ptx.Imm(group))
	f.SubU32(rows, k.dealt, rows)
	f.SetpU32(ptx.LT, short, rows, half)
	f.SetpAndU32(ptx.NE, short, before, ptx.Imm(0), short)
	f.SubU32(p.whole, p.whole, k.stride).If(short)
	f.MadLoU32(rows, k.stride, ptx.Imm(group), rows).If(short)
	f.AddU32(groups, k.stride, k.stride).If(short)
	f.MulLoU32(tiles, groups, ptx.Imm(k.down()))
	return rows, tiles, groups
}

// item splits an item's number into its column tile and, in this CTA, its first weights row and their number.
func (k *skeleton) item(n ptx.B32, d deal) (column, row, rows ptx.B32) {
	f, p := k.f, d.parts
	column, row, rows = f.B32("column"), f.B32("row"), f.B32("rows")
	group, before := k.columnOf(n, d.groups, column), f.B32()
	behind, isLow, done := f.Pred("behind_whole"), f.Pred("low_tile"), f.Label("item_known")
	f.MovB32(rows, ptx.Imm(k.t.M))
	f.MovB32(row, ptx.Imm(0))
	f.SetpU32(ptx.GE, behind, group, p.whole)
	f.Bra(done).IfNot(behind)
	many, low := k.ends(p)
	f.MulLoU32(row, p.whole, ptx.Imm(k.t.M*k.down()))
	f.SubU32(group, group, p.whole)
	f.AddU32(rows, low, ptx.Imm(rowStep(k.t)))
	f.SetpU32(ptx.GE, isLow, group, many)
	f.MulLoU32(before, rows, ptx.Imm(k.down()))
	f.MadLoU32(row, before, many, row).If(isLow)
	f.SubU32(group, group, many).If(isLow)
	f.MovB32(rows, low).If(isLow)
	f.Place(done)
	switch {
	case k.t.Split:
		f.MadLoU32(column, column, ptx.Imm(k.t.Cluster), k.rank)
	case k.t.Cluster > 1:
		f.MadLoU32(group, group, ptx.Imm(k.t.Cluster), k.rank)
	}
	f.MadLoU32(row, group, rows, row)
	return column, row, rows
}

// columnOf finds an item's column tile, and returns its group. Most launches have one column tile, and no use for the division.
func (k *skeleton) columnOf(n, groups, column ptx.B32) (group ptx.B32) {
	f := k.f
	group = f.B32("group")
	before, one, found := f.B32(), f.Pred("first_column"), f.Label("column_found")
	f.MovB32(column, ptx.Imm(0))
	f.MovB32(group, n)
	f.SetpU32(ptx.LT, one, n, groups)
	f.Bra(found).If(one)
	f.DivU32(column, n, groups)
	f.MulLoU32(before, column, groups)
	f.SubU32(group, n, before)
	f.Place(found)
	return group
}
