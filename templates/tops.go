package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// The likeliest tokens of every row, in the pass that samples it. A token is listed where it reaches the row's bound, which n tokens
// reach, by the marks that lists have (collect.go): but marks and bounds are whole keys here, a logit and an id, so that equal logits
// keep no bound low, and rows are sampled as ever. To the scan a token is a hit where its score may reach the row's threshold, or
// its logit the bound's; what waits then is listed and scored alike. Another kernel sorts what is listed (tops_stage.go).
//
// What is compared in the scan is the score without noise that is at hand, against the bound's times alpha: rounding keeps the order.
// Where the mode is of other logits than those that are sampled, it is these (apart).

// topGraphs are what it takes.
type topGraphs struct {
	logit *ir.Graph // of the mode
	base  *ir.Graph // the same of a token that counts, else -inf
}

func newTopGraphs(c ir.Computation) topGraphs {
	s := c.Summed()
	s.Chain.Temperature, s.Sampler = false, ir.Greedy
	return topGraphs{ir.Logit(s), ir.Base(s)}
}

// tops reports whether the kernel lists the likeliest tokens.
func (c *skeleton) tops() bool { return c.c.TopN > 0 && !c.options.Further }

// topsApart reports whether they are by other logits than are sampled.
func (c *skeleton) topsApart() bool {
	s := c.c.Summed().Chain
	return s.Bias != c.c.Chain.Bias || s.Mask != c.c.Chain.Mask
}

// addTops declares what the likeliest tokens are listed in.
func (s *params) addTops(c ir.Computation) {
	if c.TopN == 0 {
		return
	}
	s.topParams = s.topLists()
	s.topPass = s.scalar(ParamTopPass)
	if !c.Collects() {
		s.arrivals = s.pointer(ParamArrivals, "u32", "1", "workspace")
	}
}

// topParams are what both kernels work in.
type topParams struct {
	topMarks, topBounds, topCounts, topFloors, topKeys ptx.Param
	topPass                                            ptx.Param
}

func (s *signature) topLists() topParams {
	return topParams{topMarks: s.pointer(ParamTopMarks, "u64", "batch x 64", "workspace"), topBounds: s.pointer(ParamTopBounds, "u64", "batch", "workspace"),
		topCounts: s.pointer(ParamTopCounts, "u32", "batch", "workspace"), topFloors: s.pointer(ParamTopFloors, "u64", "batch", "scratch"),
		topKeys: s.pointer(ParamTopKeys, "u64", "batch x 8192", "scratch")}
}

const (
	// topMarksLane are the marks of a row that a lane holds.
	topMarksLane = manifest.RowTopMarks / warpSize
	// noTop is the bound of a row that lists nothing, above every key.
	noTop = -1
	// boundBytes is a bound.
	boundBytes = 8
)

// beginTops prepares what a thread keeps.
func (c *samplers) beginTops(warp ptx.B32) {
	f := c.f
	if c.collecting() {
		return // which prepares as much
	}
	c.served, c.early, c.lists = f.B32("served"), f.B32("early"), f.Pred("any_list")
	f.MovB32(c.early, ptx.Imm(1))
	f.SetpB32(ptx.EQ, c.lists, c.lane, c.lane)
	c.spreadService(warp)
}

// firstTop is what the bound of a row starts as: none, in a further pass over the same row what the pass before came to, and for a row
// that is not open one that nothing reaches.
func (c *samplers) firstTop(row ptx.B32, bound ptx.B64, open ptx.Pred) {
	f, again := c.f, c.f.Pred("further_pass")
	f.MovB64(bound, ptx.Imm(0)).If(open)
	f.SetpAndU32(ptx.NE, again, loadU32(f, c.sig.topPass, "top_pass"), ptx.Imm(0), open)
	addr := f.B64()
	f.MadWideU32(addr, row, ptx.Imm(boundBytes), loadPointer(f, c.sig.topFloors, "top_floors"))
	f.LdGlobalB64(bound, addr).If(again)
}

// storeTop stores a row's bound as it starts.
func (c *samplers) storeTop(inTile ptx.B32, bound ptx.B64, alpha ptx.F32) {
	c.f.StSharedB64(c.at(inTile, boundBytes).Off(c.plan.Storage.Tops), bound)
	c.f.StSharedF32(c.at(inTile, 4).Off(c.plan.Storage.Reaches), c.reachOf(bound, alpha))
}

// reachOf is what a token is compared with for a bound: the least finite number for none, NaN for the bound that nothing reaches.
func (c *samplers) reachOf(bound ptx.B64, alpha ptx.F32) ptx.F32 {
	f := c.f
	low, high, none, reach := f.B32(), f.B32(), f.Pred("no_bound"), f.F32("reach")
	f.MovUnpackB64(low, high, bound)
	f.SetpU32(ptx.EQ, none, high, ptx.Imm(keyEmpty))
	f.MovF32(reach, scoreThreshold(f, high))
	if !c.topsApart() && c.c.Sampler.Random() && c.c.RowScales() {
		f.MulF32(reach, reach, alpha, ptx.RN)
	}
	f.MovB32(reach, ptx.Imm(floatLeast)).If(none)
	return reach
}

// topBound loads the bound of a column of the tile.
func (c *samplers) topBound(column ptx.B32) ptx.B64 {
	bound := c.f.B64("top_bound")
	c.f.LdSharedB64(bound, c.at(column, boundBytes).Off(c.plan.Storage.Tops), ptx.RelaxedCTA)
	return bound
}

// topReaches loads what the tokens of a group's elements are compared with, nil where none are listed. It is loaded where it is wanted:
// registers are few.
func (c *samplers) topReaches(g group) []ptx.F32 {
	if !c.tops() {
		return nil
	}
	return c.columnValues(g, c.at(g.columns, 4), c.plan.Storage.Reaches, true, ptx.RelaxedCTA)
}

// topOf is what is compared of the i-th token of an element.
func (c *samplers) topOf(e *scanned, i int) ptx.F32 {
	if c.topsApart() {
		return lower(c.f, c.likeliest.base, e.tokens[i].in)
	}
	return e.bases[i]
}

// eitherTop sets hit, or leaves it set, if any token of the i-th element reaches its row's bound.
func (c *samplers) eitherTop(hit ptx.Pred, e *scanned, reaches []ptx.F32, i int) {
	if reaches == nil {
		return
	}
	var tops []ptx.F32
	for j := range e.bases {
		tops = append(tops, c.topOf(e, j))
	}
	largest := joined(c.f, "top", tops, c.larger) // of a NaN and a number the number
	c.f.SetpOrF32(ptx.GE, hit, largest, reaches[i], hit)
}

// eitherTopOf is eitherTop for the element's token j.
func (c *samplers) eitherTopOf(hit ptx.Pred, e *scanned, reaches []ptx.F32, i, j int) {
	if reaches != nil {
		c.f.SetpOrF32(ptx.GE, hit, c.topOf(e, j), reaches[i], hit)
	}
}

// listTop lists a token that reaches its row's bound, and raises its mark.
func (c *samplers) listTop(column, id ptx.B32, in inputs, valid ptx.Pred) {
	if !c.tops() {
		return
	}
	f, key, z, listed := c.f, c.f.B64("top_key"), lower(c.f, c.likeliest.logit, in), c.f.Pred("listed")
	f.SetpAndF32(ptx.GT, listed, z, ptx.F32Imm(math.Inf(-1)), valid) // false for NaN
	if c.c.Summed().Chain.Mask {
		f.AndPred(listed, listed, in.p[ir.InAllowed])
	}
	rankKey(f, key, z, id)
	f.SetpAndU64(ptx.GE, listed, key, c.topBound(column), listed)
	row, at, count, addr, room, index := c.batchRow(column), f.B32("list_place"), f.B64(), f.B64("key_addr"), f.Pred("room"), f.B32()
	f.MovB32(at, ptx.Imm(0))
	f.MadWideU32(count, row, ptx.Imm(4), loadPointer(f, c.sig.topCounts, "top_counts"))
	f.AtomGlobalAddU32(at, count, ptx.Imm(1), ptx.RelaxedGPU).If(listed)
	f.SetpAndU32(ptx.LT, room, at, ptx.Imm(manifest.RowTopKeys), listed)
	f.MadLoU32(index, row, ptx.Imm(manifest.RowTopKeys), at)
	f.MadWideU32(addr, index, ptx.Imm(8), loadPointer(f, c.sig.topKeys, "top_keys"))
	f.StGlobalB64(addr, key).If(room)
	c.markTop(row, id, key, listed)
}

// markTop raises the mark of a token's block to a key, where p holds.
func (c *samplers) markTop(row, id ptx.B32, key ptx.B64, p ptx.Pred) {
	f := c.f
	hash, slot, addr := f.B32(), f.B32("mark"), f.B64("mark_addr")
	f.ShrU32(hash, id, ptx.Imm(blockShift))
	f.MulLoU32(hash, hash, imm(f, markFactor))
	f.MulHiU32(slot, hash, ptx.Imm(manifest.RowTopMarks))
	f.MadLoU32(slot, row, ptx.Imm(manifest.RowTopMarks), slot)
	f.MadWideU32(addr, slot, ptx.Imm(8), loadPointer(f, c.sig.topMarks, "top_marks"))
	f.RedGlobalMaxU64(addr, key, ptx.RelaxedGPU).If(p)
}

// markTops marks the largest logits of a group's blocks in the rows' first tile, as of the last id that there could be. The lanes of a
// block share its columns out among themselves.
func (c *samplers) markTops(g group) {
	if !c.tops() {
		return
	}
	m, first := c.newFloorMarks(), g.id
	g.bare = c.topsApart()
	for i := range g.elements {
		c.addTop(m, g, i)
		if i+1 == g.elements || (i+1)%c.blocks.lanes() == 0 {
			f, some, key := c.f, c.f.Pred("has_top"), c.f.B64("top_key")
			f.SetpF32(ptx.GT, some, m.value, ptx.F32Imm(math.Inf(-1)))
			f.MovPackB64(key, imm(f, 0), scoreBits(f, m.value))
			c.markTop(c.batchRow(m.column), first, key, some)
			f.MovF32(m.value, ptx.F32Imm(math.Inf(-1)))
		}
	}
}

// addTop has the lanes of a block agree on the block's largest logit of element i, -inf where the row lists nothing.
func (c *samplers) addTop(m floorMarks, g group, i int) {
	f, column, lists, mine := c.f, c.f.B32("column"), c.f.Pred("lists"), c.f.Pred("own_element")
	f.AddU32(column, g.columns, ptx.Imm(g.place(i)))
	var values []ptx.F32
	for _, t := range g.gather(&g, i).tokens {
		t.in.f[ir.InPad] = t.pad
		values = append(values, lower(f, c.likeliest.base, t.in))
	}
	own, none := joined(f, "top", values, c.larger), f.F32()
	f.MovF32(none, ptx.F32Imm(math.Inf(-1)))
	f.SetpU64(ptx.NE, lists, c.topBound(column), ptx.Imm(noTop))
	f.SelpF32(own, own, none, lists)
	f.MaxF32(own, own, none) // NaN counts for nothing
	largest := c.blocks.across(f, own, c.larger)
	f.SetpU32(ptx.EQ, mine, m.place, ptx.Imm(i%c.blocks.lanes()))
	f.MovF32(m.value, largest).If(mine)
	f.MovB32(m.column, column).If(mine)
}
