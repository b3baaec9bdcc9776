package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// Where a tile begins in the lists of its rows is found once a tile, by the threads that sample it, one list each, before they wait for
// its product. Warps then look for their own ids from there.

// placeBytes is an entry, the first of the tile, and the list's end. Instead of the entry stands placeNoList for no list, and
// placeNone, with an end of 0, for one without entries in the tile.
const (
	placeBytes  = 8
	placeNoList = 0xFFFFFFFF
	placeNone   = 0xFFFFFFFE
)

// listKinds are the kinds of lists of the chain.
func (c *samplers) listKinds() []listParams { return c.sig.edits.lists(c.whole.Chain) }

// placeAt is where the place of a column's list of a kind stands.
func (c *samplers) placeAt(p listParams, column ptx.B32) ptx.SharedAddr {
	f, at, kind := c.f, c.f.B32("place_addr"), 0
	for i, l := range c.listKinds() {
		if l == p {
			kind = i
		}
	}
	f.MadLoU32(at, column, ptx.Imm(placeBytes), c.smem)
	if c.t.PingPong {
		f.MadLoU32(at, c.group, ptx.Imm(c.plan.Storage.EditBytes), at)
	}
	return at.Off(c.plan.Storage.Edits + placeBytes*c.t.N*kind)
}

// locate finds the places of all lists for a tile.
func (c *samplers) locate(s span) {
	if !c.editing() {
		return
	}
	f, skip := c.f, c.f.Label("unedited_rows")
	f.Bra(skip).IfNot(c.edited)
	f.Comment("Where the tile begins in the rows' lists.")
	c.teamSync() // all are done with those of the tile before
	end := sum(f, s.row, s.rows)
	for _, l := range c.listKinds() {
		c.eachColumnOfTeam(func(column ptx.B32) { c.locateList(l, column, s.row, end) })
	}
	f.Place(skip)
}

// eachColumnOfTeam runs body for the columns, one a thread; in the end some are past the tile. A warp's lanes stay together.
func (c *samplers) eachColumnOfTeam(body func(column ptx.B32)) {
	f := c.f
	warp, column, more := f.B32("warp_columns"), f.B32("column"), f.Pred("more_columns")
	f.SubU32(warp, c.member, c.lane)
	next, done := f.Here("locate_columns"), f.Label("columns_located")
	f.SetpU32(ptx.LT, more, warp, ptx.Imm(c.t.N))
	f.Bra(done).IfNot(more)
	f.AddU32(column, warp, c.lane)
	body(column)
	f.AddU32(warp, warp, ptx.Imm(c.plan.Pipeline.Team))
	f.Bra(next)
	f.Place(done)
}

// locateList finds the place of one list, and looks at its order.
func (c *samplers) locateList(l listParams, column, first, end ptx.B32) {
	f := c.f
	slot, there := c.editedRow(column)
	if l == c.sig.edits.counts {
		off, on := c.hasDense(), c.penaltiesOf(slot, there).on
		f.NotPred(off, off)
		f.AndPred(there, there, on)
		f.AndPred(there, there, off)
	}
	s, at, id := c.spanOf(l, slot, there), f.B32("list_at"), f.B32("entry_id")
	base := loadPointer(f, l.entries, "entries")
	f.MovB32(at, s.begin)
	lowerBound(f, func(at ptx.B32) ptx.B64 { return entryAddr(f, base, at, l.words) }, at, s.end, first)
	c.checkOrder(l, s, column, first, end)
	has, none := f.Pred("in_tile"), f.B32("no_place")
	f.SetpU32(ptx.LT, has, at, s.end)
	f.MovB32(id, ptx.Imm(0))
	f.LdGlobalB32(id, entryAddr(f, base, at, l.words)).If(has)
	f.SetpAndU32(ptx.LT, has, id, end, has)
	f.SelpB32(none, imm(f, placeNone), imm(f, placeNoList), s.listed)
	f.SelpB32(at, at, none, has)
	f.SelpB32(s.end, s.end, ptx.Imm(0), has)
	inTile := f.Pred("has_column")
	f.SetpU32(ptx.LT, inTile, column, ptx.Imm(c.t.N))
	f.StSharedV2B32(c.placeAt(l, column), []ptx.B32{at, s.end}).If(inTile)
}

// ceilDivBy is x over by, rounded up.
func (k *skeleton) ceilDivBy(x, by ptx.B32) ptx.B32 {
	d := k.f.B32()
	k.f.AddU32(d, x, by)
	k.f.SubU32(d, d, ptx.Imm(1))
	k.f.DivU32(d, d, by)
	return d
}

// checkOrder fails rows whose entries do not rise by id or leave the vocabulary. A list is looked at in parts: entry i of n with the
// tile that has token i floor(V/n).
func (c *samplers) checkOrder(l listParams, s listSpan, column, first, end ptx.B32) {
	f := c.f
	n, apart, at, stop := f.B32("entries"), f.B32("apart"), f.B32("checked"), f.B32("check_end")
	bad, done, fine := f.Pred("bad_order"), f.Pred("all_checked"), f.Label("list_checked")
	f.SubU32(n, s.end, s.begin)
	f.MaxU32(apart, n, ptx.Imm(1))
	f.DivU32(apart, c.vocab, apart) // no list has more entries than there are tokens
	f.MovB32(at, c.ceilDivBy(first, apart))
	f.MovB32(stop, c.ceilDivBy(end, apart))
	f.MinU32(stop, stop, n)
	f.SetpU32(ptx.NE, bad, n, n)
	next := f.Here("check_entry")
	f.SetpU32(ptx.GE, done, at, stop)
	f.Bra(fine).If(done)
	id, after, last := f.B32("entry_id"), f.B32("next_id"), f.Pred("last_entry")
	addr := entryAddr(f, loadPointer(f, l.entries, "entries"), sum(f, s.begin, at), l.words)
	f.AddU32(at, at, ptx.Imm(1))
	f.SetpU32(ptx.GE, last, at, n)
	f.LdGlobalB32(id, addr)
	f.MovB32(after, c.vocab)
	f.LdGlobalB32(after, addr.Off(4*l.words)).IfNot(last)
	f.SetpOrU32(ptx.GE, bad, id, after, bad)
	f.Bra(next)
	f.Place(fine)
	f.BarWarpSync(ptx.Imm(fullWarp))
	c.failWhere(bad, column, ir.StatusBadParameter)
}

// failWhere fails the rows of the lanes' columns.
func (c *samplers) failWhere(bad ptx.Pred, column ptx.B32, status ir.Status) {
	f := c.f
	any, none, key, place := f.Pred("any_failed"), f.Label("none_failed"), f.B64("key"), f.B32()
	f.VoteSyncAnyPred(any, bad, ptx.Imm(fullWarp))
	f.Bra(none).IfNot(any)
	f.MovPackB64(key, imm(f, int64(status)), imm(f, keyFailed))
	f.SelpB64(key, key, ptx.Imm(0), bad)
	f.MinU32(place, column, ptx.Imm(c.t.N-1))
	c.commit(place, key)
	f.Place(none)
}
