package templates

import (
	"github.com/fsgen/fsgen/ptx"
)

// logits is how an architecture gives edits the logits of a tile. A warp has neighbouring tokens in each of its columns: a run of
// them, or several runs a product apart.
type logits struct {
	tokens int                                 // of a run
	runs   int                                 // of a column
	first  func(run ptx.B32) ptx.B32           // a run's first token
	owns   func(column ptx.B32, some ptx.Pred) // clears some for columns that other warps have
	places []ptx.B32                           // of the thread's tokens, in their run
	// change runs body with the warp's logits in a column: each thread has some, those of its places, where mine holds.
	change func(run, column ptx.B32, body func(z []ptx.F32, mine ptx.Pred))
	// drop makes the logits of up to 32 columns from a multiple of 32 on -inf: those with a bit in columns.
	drop func(run, from, columns ptx.B32)
	// all runs body with every group of the tile, and keeps the logits of the elements that it returns.
	all func(body func(g group) []element)
}

// ownColumn clears some unless a column is the warp's.
func (l *logits) ownColumn(column ptx.B32, some ptx.Pred) {
	if l.owns != nil {
		l.owns(column, some)
	}
}

// foundList is what a lane has of a column's list: where in it the first id of the run or past it stands, and the list's end.
type foundList struct {
	at, end ptx.B32
	has     ptx.Pred // an id of the run is there
	listed  ptx.Pred // the row has a list
}

// eachBlock runs body for every run of the tile's tokens and every 32 columns: a lane has one of them.
func (c *samplers) eachBlock(l *logits, body func(b *editBlock)) {
	f := c.f
	b, more := &editBlock{l: l, run: f.B32("run"), from: f.B32("from_column"), column: f.B32("lane_column")}, f.Pred("more_blocks")
	f.MovB32(b.run, ptx.Imm(0))
	nextRun := f.Here("edit_run")
	b.first = l.first(b.run)
	f.MovB32(b.from, ptx.Imm(0))
	next := f.Here("edit_columns")
	f.AddU32(b.column, b.from, c.lane)
	body(b)
	if c.t.N > warpSize {
		f.AddU32(b.from, b.from, ptx.Imm(warpSize))
		f.SetpU32(ptx.LT, more, b.from, ptx.Imm(c.t.N))
		f.Bra(next).If(more)
	}
	if l.runs > 1 {
		f.AddU32(b.run, b.run, ptx.Imm(1))
		f.SetpU32(ptx.LT, more, b.run, ptx.Imm(l.runs))
		f.Bra(nextRun).If(more)
	}
}

// editedRow finds the slot of a column's row, and whether it has one.
func (c *samplers) editedRow(column ptx.B32) (slot ptx.B32, there ptx.Pred) {
	f := c.f
	slot, there = f.B32("edit_slot"), f.Pred("has_row")
	f.MadLoU32(slot, c.column, ptx.Imm(c.t.N), column)
	f.SetpU32(ptx.LT, there, slot, c.batch)
	f.SetpAndU32(ptx.LT, there, column, ptx.Imm(c.t.N), there)
	if c.whole.Slots {
		row := rowAddr(f, c.slots, slot)
		f.MovB32(slot, imm(f, noSlot))
		f.LdGlobalB32(slot, row).If(there)
		f.SetpAndU32(ptx.LT, there, slot, c.slotCount, there)
	}
	return slot, there
}

// lowerBound moves at, in the entries before end, to the first whose id is no less than one.
func lowerBound(f *ptx.Func, entries func(at ptx.B32) ptx.B64, at, end, id ptx.B32) {
	high := f.B32("search_end")
	f.MovB32(high, end)
	search, found := f.Here("search_list"), f.Label("list_found")
	done, middle, have, below := f.Pred("searched"), f.B32("middle"), f.B32("entry_id"), f.Pred("below")
	f.SetpU32(ptx.GE, done, at, high)
	f.Bra(found).If(done)
	f.SubU32(middle, high, at)
	f.ShrU32(middle, middle, ptx.Imm(1))
	f.AddU32(middle, middle, at)
	f.LdGlobalB32(have, entries(middle))
	f.SetpU32(ptx.LT, below, have, id)
	f.AddU32(at, middle, ptx.Imm(1)).If(below)
	f.MovB32(high, middle).IfNot(below)
	f.Bra(search)
	f.Place(found)
	f.BarWarpSync(ptx.Imm(fullWarp))
}

// find looks a column's list up for the ids of a run, from where the tile begins in it. Every lane has its own column.
func (c *samplers) find(b *editBlock, p listParams) foundList {
	f := c.f
	base, id, place := loadPointer(f, p.entries, "entries"), f.B32("entry_id"), f.NewB32s("list_place", 2)
	d := foundList{at: place[0], end: place[1], has: f.Pred("has_entry"), listed: f.Pred("has_list")}
	there, behind, high := f.Pred("has_column"), f.Pred("behind"), f.B32("search_end")
	f.SetpU32(ptx.LT, there, b.column, ptx.Imm(c.t.N))
	b.l.ownColumn(b.column, there)
	f.MovB32(d.at, imm(f, placeNoList))
	f.MovB32(d.end, ptx.Imm(0))
	f.LdSharedV2B32(place, c.placeAt(p, b.column)).If(there)
	f.SetpU32(ptx.NE, d.listed, d.at, imm(f, placeNoList))
	f.SetpU32(ptx.LT, d.has, d.at, d.end)
	f.MovB32(id, ptx.Imm(0))
	f.LdGlobalB32(id, entryAddr(f, base, d.at, p.words)).If(d.has)
	// Of a tile's few entries the first one is nearly always the one.
	f.SetpAndU32(ptx.LT, behind, id, b.first, d.has)
	f.AddU32(d.at, d.at, ptx.Imm(1)).If(behind)
	f.SelpB32(high, d.end, d.at, behind)
	lowerBound(f, func(at ptx.B32) ptx.B64 { return entryAddr(f, base, at, p.words) }, d.at, high, b.first)
	f.SetpAndU32(ptx.LT, behind, d.at, d.end, behind)
	f.LdGlobalB32(id, entryAddr(f, base, d.at, p.words)).If(behind)
	f.SetpAndU32(ptx.LT, d.has, d.at, d.end, d.has)
	f.SubU32(id, id, b.first)
	f.SetpAndU32(ptx.LT, d.has, id, ptx.Imm(b.l.tokens), d.has)
	return d
}

func entryAddr(f *ptx.Func, base ptx.B64, at ptx.B32, words int) ptx.B64 {
	addr := f.B64()
	f.MadWideU32(addr, at, ptx.Imm(4*words), base)
	return addr
}

// eachColumn runs body for the columns whose lanes have p, one at a time: the whole warp, with the lane's number.
func (c *samplers) eachColumn(p ptx.Pred, body func(lane ptx.B32)) {
	f := c.f
	columns, lane, none, done := f.B32("edited_columns"), f.B32("column_lane"), f.Pred("no_column"), f.Label("columns_done")
	f.VoteSyncBallotB32(columns, p, ptx.Imm(fullWarp))
	next := f.Here("edit_column")
	f.SetpU32(ptx.EQ, none, columns, ptx.Imm(0))
	f.Bra(done).If(none)
	takeLowest(f, lane, columns)
	body(lane)
	f.Bra(next)
	f.Place(done)
}

// fromLane gives the warp one lane's value.
func fromLane[T interface {
	ptx.Bits32
	ptx.SrcBits32
}](f *ptx.Func, x, d T, lane ptx.B32) T {
	f.ShflSyncIdxB32(d, x, lane, ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
	return d
}

// entries are those of one column in a run, one a lane from lane 0 on, in the order of their ids.
type entries struct {
	mask  ptx.B32 // a bit for each token of the run that has one
	value ptx.B32
}

// entriesOf loads the entries of the column of a lane.
func (c *samplers) entriesOf(l *logits, p listParams, d foundList, first, lane ptx.B32) entries {
	f := c.f
	at, end, there := f.B32("entry_at"), f.B32("entry_end"), f.Pred("has_entry")
	fromLane(f, d.at, at, lane)
	fromLane(f, d.end, end, lane)
	f.AddU32(at, at, c.lane)
	f.SetpU32(ptx.LT, there, at, end)
	f.SetpAndU32(ptx.LT, there, c.lane, ptx.Imm(l.tokens), there)
	words := f.NewB32s("entry", p.words)
	for _, w := range words {
		f.MovB32(w, ptx.Imm(0))
	}
	addr := entryAddr(f, loadPointer(f, p.entries, "entries"), at, p.words)
	if p.words == 2 {
		f.LdGlobalV2B32(words, addr).If(there)
	} else {
		f.LdGlobalB32(words[0], addr).If(there)
	}
	place, bit := f.B32("entry_place"), f.B32("entry_bit")
	f.SubU32(place, words[0], first)
	f.SetpAndU32(ptx.LT, there, place, ptx.Imm(l.tokens), there)
	f.ShlB32(bit, imm(f, 1), place)
	f.SelpB32(bit, bit, ptx.Imm(0), there)
	e := entries{mask: f.B32("entry_mask"), value: words[p.words-1]}
	f.ReduxSyncOrB32(e.mask, bit, ptx.Imm(fullWarp))
	return e
}

// has returns whether the token of a place has an entry.
func (e entries) has(f *ptx.Func, place ptx.B32) ptx.Pred {
	bit, p := f.B32(), f.Pred("has_value")
	f.ShlB32(bit, imm(f, 1), place)
	f.AndB32(bit, bit, e.mask)
	f.SetpU32(ptx.NE, p, bit, ptx.Imm(0))
	return p
}

// at returns that, and the entry's value: the whole warp asks.
func (e entries) at(f *ptx.Func, place ptx.B32) (has ptx.Pred, value ptx.B32) {
	before := f.B32()
	value = f.B32("entry_value")
	f.ShlB32(before, imm(f, 1), place)
	f.SubU32(before, before, ptx.Imm(1))
	f.AndB32(before, before, e.mask)
	f.PopcB32(before, before)
	return e.has(f, place), fromLane(f, e.value, value, before)
}
