package templates

import (
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// A tile that a warpgroup has to itself is added up in straight code: a column's tokens of all products are added before lanes
// join theirs, so that a third of the exchanges is left, and nothing waits for the group before. The last tile's sums are what a
// launch is longer for.

// mostStraight is the columns up to which it is: what is added up stays in registers until the references are known to hold.
const mostStraight = 64

// straightSums reports whether tiles are added up so: what takes loads, or many instructions, has no registers left for it, nor has what
// samples blocks as a whole.
func (c *consumer) straightSums() bool {
	return c.t.PingPong && c.t.N <= mostStraight && (c.cheap() || c.sumsApart()) && (!c.peaks() || c.keepsPeaks()) && c.c.Sampler != ir.Grouped
}

// columnRun is neighbouring groups of 16 columns whose columns are shared out among all lanes that have tokens of them.
type columnRun struct {
	first, groups int
	own           ptx.B32  // address of the references of the column that the lane keeps, short of the storage's offset
	keeps         ptx.Pred // it keeps one
	total         ptx.F32  // what its tokens of the tile come to
}

// sumTile adds the tile up. Where an exponent stands too far above its reference, the references are raised, group by group, and
// all is added once more: nothing has been stored.
func (c *consumer) sumTile(of tiles) {
	f := c.f
	var parts []cappedTile
	for p := range c.products() {
		parts = append(parts, c.capped(of.at(p)))
	}
	raised := f.B32("raised")
	f.MovB32(raised, ptx.Imm(0))
	runs := c.runs()
	again, settled := f.Here("add_tile"), f.Label("tile_added")
	var totals []ptx.F32
	for _, r := range runs {
		totals = append(totals, c.addRun(r, parts)...)
	}
	high := c.anyHigh(totals, raised)
	f.Bra(settled).IfNot(high)
	every := f.B32("groups")
	f.MovB32(every, ptx.Imm(1<<(len(c.acc)/perGroup)-1))
	c.eachGroup(of, every, "raise_group", func(g group) { c.raiseReferences(g, c.scanSums(g)) })
	f.MovB32(raised, ptx.Imm(1))
	f.Bra(again)
	f.Place(settled)
	for _, r := range runs {
		at := r.own.Off(c.plan.Storage.Sums + sumBytes*c.t.N)
		sum := f.F32("sum")
		f.MovF32(sum, ptx.F32Imm(0))
		f.LdSharedF32(sum, at).If(r.keeps)
		f.AddF32(sum, sum, r.total, ptx.RN)
		f.StSharedF32(at, sum).If(r.keeps)
	}
	if c.peaks() {
		c.keepPeaks(of)
	}
}

// cappedTile is a tile with the caps of its tokens' exponents. These are all that keeps out tokens past the tile: their scores need no
// pads.
type cappedTile struct {
	*tile
	caps []ptx.F32
}

func (c *consumer) capped(t *tile) cappedTile {
	out := cappedTile{t, nil}
	for _, pad := range t.pads {
		out.caps = append(out.caps, c.sumCap(pad))
	}
	bare, none := *t, c.f.F32("no_pad")
	c.f.MovF32(none, ptx.F32Imm(0))
	bare.pads = slices.Repeat([]ptx.F32{none}, len(t.pads))
	out.tile = &bare
	return out
}

// runs cuts the tile's columns into pairs of groups, in which each lane keeps one column, and what is left.
func (c *consumer) runs() (runs []*columnRun) {
	f, across := c.f, c.t.N/tiling.CodeGroup
	for first := 0; first < across; first += 2 {
		r := &columnRun{first: first, groups: min(2, across-first), own: f.B32("own"), keeps: c.sums.keeps, total: f.F32("run_total")}
		place := f.B32("own_place")
		f.MovB32(place, c.sums.row)
		if r.groups == 2 {
			r.keeps = f.Pred("keeps_pair")
			f.SetpB32(ptx.EQ, r.keeps, c.lane, c.lane)
			c.ownOfEight(place)
		}
		f.AddU32(place, place, c.sums.base)
		f.MadLoU32(r.own, c.colInN, ptx.Imm(sumBytes), place)
		f.AddU32(r.own, r.own, ptx.Imm(sumBytes*tiling.CodeGroup*first))
		runs = append(runs, r)
	}
	return runs
}

// ownOfEight sets place to 4 times the column that fold leaves a lane of eight elements: the two of every block of 8 columns.
func (c *consumer) ownOfEight(place ptx.B32) {
	f, element, odd := c.f, c.f.B32("own_element"), c.f.B32()
	f.ShrU32(element, c.lane, ptx.Imm(2))
	f.AndB32(odd, element, ptx.Imm(1))
	f.ShrU32(element, element, ptx.Imm(1))
	f.MadLoU32(element, element, ptx.Imm(8), odd)
	f.ShlB32(place, element, ptx.Imm(2))
}

// addRun adds up a run's tokens, and returns what the thread's own come to in each of its columns.
func (c *consumer) addRun(r *columnRun, parts []cappedTile) (totals []ptx.F32) {
	for a := r.first; a < r.first+r.groups; a++ {
		for _, column := range c.columnExponents(a, parts) {
			totals = append(totals, c.total(column))
		}
	}
	c.f.MovF32(r.total, c.sums.fold(c.f, c.lane, totals, c.plus))
	return totals
}

// columnExponents are the exponents of the tokens of all products in each of the thread's columns of a group of 16.
func (c *consumer) columnExponents(across int, parts []cappedTile) (columns [][]ptx.F32) {
	f, groups := c.f, c.t.N/tiling.CodeGroup
	var scales, references []ptx.F32
	var record func(i int) rowRecord
	for p, t := range parts {
		at := (p*groups + across) * perGroup
		g := c.groupOf(t.tile, c.acc[at:at+perGroup], c.colInN, c.codeAddress())
		g.first, g.codes = across*tiling.CodeGroup, (p*groups+across)*codeRun
		if p == 0 {
			scales = c.columnValues(g, c.at(g.columns, sumBytes), c.plan.Storage.Scales, c.scaledSums())
			pairs := f.B32("columns_pairs")
			f.MadLoU32(pairs, g.columns, ptx.Imm(sumBytes), c.sums.base)
			references = c.columnValues(g, pairs, c.plan.Storage.Sums, true)
			columns, record = make([][]ptx.F32, g.elements), once(c.records(&g))
		}
		for i, e := range c.scanSumsOf(g, record) {
			columns[i] = append(columns[i], c.exponents(i, e, t.caps, scales, references)...)
		}
	}
	return columns
}

// once remembers what was loaded.
func once(load func(i int) rowRecord) func(i int) rowRecord {
	loaded := map[int]rowRecord{}
	return func(i int) rowRecord {
		if _, ok := loaded[i]; !ok {
			loaded[i] = load(i)
		}
		return loaded[i]
	}
}
