package templates

import (
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// shares says how the vocabulary is cut into groups of tiles: the first `many` have tiles of `tall` rows, the others of `low`.
type shares struct {
	many, tall, low ptx.B32
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

// copyRows is the rows of one copy of row-major weights.
func copyRows(t tiling.Tile) int {
	if t.Split {
		return maskWord
	}
	return productRows
}

// share cuts the vocabulary, or the shard of it. Where the grid takes it once, every CTA gets as many rows as any other: in as few turns as
// tiles of M rows would need, but of about the same height, tall or low, a step apart. So all CTAs end together, no
// multiprocessor streams alone at the end, and a grid that follows finds all of them free at the same time.
//
// Products past the rows of a tile read what an earlier stage left in the ring. So the ring is filled with M rows a stage
// when it is new, which takes an item of as many stages; where there is none, all tiles have M rows.
func (k *skeleton) share(columns ptx.B32) {
	f, group := k.f, k.t.M*k.down()
	p := shares{f.B32("tall_groups"), f.B32("tall_rows"), f.B32("low_rows")}
	k.parts, k.groups = p, k.ceilDiv(k.dealt, group, "groups")
	f.MovB32(p.many, k.groups)
	f.MovB32(p.tall, ptx.Imm(k.t.M))
	f.MovB32(p.low, ptx.Imm(k.t.M))
	even, shared := f.Pred("even"), f.Label("shared")
	f.SetpU32(ptx.GE, even, k.ksteps, ptx.Imm(k.t.Stages))
	f.SetpAndU32(ptx.EQ, even, columns, ptx.Imm(1), even)
	if k.sharded() { // one of no ids has no heights
		f.SetpAndU32(ptx.NE, even, k.dealt, ptx.Imm(0), even)
	}
	f.Bra(shared).IfNot(even)
	k.heights()
	k.countGroups()
	f.Place(shared)
}

// heights finds the rows of tall and low tiles and the number of tall groups: with t turns of s tiles each, V rows are s t
// low of them and what is left by whole turns of one step more.
func (k *skeleton) heights() {
	f, p, step := k.f, k.parts, rowStep(k.t)
	turns, tiles, slots, left := k.ceilDivBy(k.groups, k.stride), f.B32("tiles_of_turn"), f.B32("slots"), f.B32("rows_left")
	f.MulLoU32(tiles, k.stride, ptx.Imm(k.down()))
	f.MulLoU32(slots, tiles, turns)
	f.DivU32(p.low, k.dealt, slots)
	divideBy(f, p.low, p.low, step)
	f.MulLoU32(p.low, p.low, ptx.Imm(step))
	f.AddU32(p.tall, p.low, ptx.Imm(step))
	f.MulLoU32(left, slots, p.low)
	f.SubU32(left, k.dealt, left)
	f.MulLoU32(tiles, tiles, ptx.Imm(step))
	f.MulLoU32(p.many, k.ceilDivBy(left, tiles), k.stride)
}

// countGroups counts the groups that the heights make.
func (k *skeleton) countGroups() {
	f, p := k.f, k.parts
	rows, rest, all, some, counted := f.B32("group_rows"), f.B32("rows_left"), f.Pred("all_tall"), f.Pred("some_low"), f.Label("counted")
	f.MulLoU32(rows, p.tall, ptx.Imm(k.down()))
	f.MovB32(k.groups, k.ceilDivBy(k.dealt, rows))
	f.SetpU32(ptx.LE, all, k.groups, p.many)
	f.Bra(counted).If(all)
	f.MulLoU32(rest, rows, p.many)
	f.SubU32(rest, k.dealt, rest)
	f.MulLoU32(rows, p.low, ptx.Imm(k.down()))
	f.SetpU32(ptx.NE, some, p.low, ptx.Imm(0))
	f.AddU32(k.groups, p.many, k.ceilDivBy(rest, rows)).If(some)
	f.Place(counted)
}

func (k *skeleton) ceilDivBy(x, by ptx.B32) ptx.B32 {
	d := k.f.B32()
	k.f.AddU32(d, x, by)
	k.f.SubU32(d, d, ptx.Imm(1))
	k.f.DivU32(d, d, by)
	return d
}

// item splits an item's number into its column tile and, in this CTA, its first weights row and their number.
func (k *skeleton) item(n ptx.B32) (column, row, rows ptx.B32) {
	f, p := k.f, k.parts
	column, row, rows = f.B32("column"), f.B32("row"), f.B32("rows")
	group, before, low := f.B32(), f.B32(), f.Pred("low_tile")
	f.DivU32(column, n, k.groups)
	f.MulLoU32(before, column, k.groups)
	f.SubU32(group, n, before)
	f.MovB32(rows, p.tall)
	f.MovB32(row, ptx.Imm(0))
	f.SetpU32(ptx.GE, low, group, p.many)
	f.MulLoU32(before, p.tall, ptx.Imm(k.down()))
	f.MulLoU32(row, before, p.many).If(low)
	f.SubU32(group, group, p.many).If(low)
	f.MovB32(rows, p.low).If(low)
	switch {
	case k.t.Split:
		f.MadLoU32(column, column, ptx.Imm(k.t.Cluster), k.rank)
	case k.t.Cluster > 1:
		f.MadLoU32(group, group, ptx.Imm(k.t.Cluster), k.rank)
	}
	f.MadLoU32(row, group, rows, row)
	return column, row, rows
}
