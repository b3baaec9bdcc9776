package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// tile is what the epilogue knows of the current tile: the thread's two tokens, the second 8 further, and their inputs.
type tile struct {
	tokenInputs
	pads []ptx.F32
}

// tiles gives the tile of one of the warpgroup's products: at is its number, or its number in a register.
type tiles struct {
	span
	at func(product int) *tile
	in func(product ptx.B32) *tile
}

// newTiles starts the loads that depend on the tile alone, before the products hide their latency; where there are several
// tiles, another warpgroup's products hide it, and each begins when it is come to.
func (c *consumer) newTiles(s span) tiles {
	if c.products() == 1 {
		t := c.newTile(s.row, s.end)
		return tiles{s, func(int) *tile { return t }, func(ptx.B32) *tile { return t }}
	}
	return tiles{
		s,
		func(product int) *tile {
			row := c.f.B32("product_row")
			c.f.AddU32(row, s.row, ptx.Imm(product*productRows))
			return c.newTile(row, s.end)
		},
		func(product ptx.B32) *tile {
			row := c.f.B32("product_row")
			c.f.MadLoU32(row, product, ptx.Imm(productRows), s.row)
			return c.newTile(row, s.end)
		},
	}
}

// newTile computes ids, and starts the loads that depend on the tile alone.
func (c *consumer) newTile(row, end ptx.B32) *tile {
	f := c.f
	t := &tile{}
	ids, valid := []ptx.B32{f.B32("token_low"), f.B32("token_high")}, []ptx.Pred{f.Pred("valid_low"), f.Pred("valid_high")}
	f.AddU32(ids[0], row, c.rowInTile)
	f.AddU32(ids[1], ids[0], ptx.Imm(8))
	for i := range ids {
		f.SetpU32(ptx.LT, valid[i], ids[i], end)
		c.notBefore(valid[i], ids[i])
		t.pads = append(t.pads, c.padOf(valid[i]))
	}
	t.tokenInputs = c.startTile(ids, valid)
	return t
}

// padOf returns what keeps a token past the vocabulary from counting: -inf, or 0.
func (c *samplers) padOf(valid ptx.Pred) ptx.F32 {
	pad, out := c.f.F32("pad"), c.f.F32()
	c.f.MovB32(out, ptx.Imm(floatMinusInf))
	c.f.SelpF32(pad, ptx.F32Imm(0), out, valid)
	return pad
}

// perGroup is the accumulators of a thread in 16 columns.
const perGroup = 8

// epilogue samples from the accumulators.
func (c *consumer) epilogue(t tiles) {
	f := c.f
	f.Comment("Epilogue: transform, bound and compare.")
	groups := len(c.acc) / perGroup
	if c.ranking() {
		c.rankTile(t, groups)
		return
	}
	if groups <= 1 {
		only := c.groupOf(t.at(0), c.acc, c.colInN, c.codeAddress())
		c.seedBests(func() { c.seed(only) })
		c.sumSecond(t)
		c.whereSurveying(func() { c.survey(only) })
		c.compare(only)
		return
	}
	all := ptx.Imm(1<<groups - 1)
	c.seedBests(func() {
		if c.floorsByLanes() {
			c.floorsOfBlocks(t.span)
			return
		}
		every := f.B32("groups")
		f.MovB32(every, all)
		c.eachGroup(t, every, "floor_group", c.seed)
	})
	hit := f.B32("groups_hit")
	f.MovB32(hit, all)
	if c.cheap() {
		c.findGroups(t, hit)
	}
	if c.summing() && c.sums.apart && !c.keepsUnedited() {
		c.whereAdding(func() { c.sumGroups(t) })
	}
	c.sumSecond(t)
	c.whereSurveying(func() {
		every := f.B32("groups")
		f.MovB32(every, all)
		c.eachGroup(t, every, "survey_group", c.survey)
	})
	c.eachGroup(t, hit, "epilogue_group", c.compare)
}

// sumGroups adds the tile up in a pass of its own.
func (c *consumer) sumGroups(t tiles) {
	if c.straightSums() {
		c.sumTile(t)
		return
	}
	every := c.f.B32("groups")
	c.f.MovB32(every, ptx.Imm(1<<(len(c.acc)/perGroup)-1))
	c.eachGroup(t, every, "sum_group", func(g group) { c.addUpAll(g, c.scanSums(g)) })
}

// sumUnedited adds up the logits ahead of the edits, where the log-probability is of those.
func (c *consumer) sumUnedited(t tiles) {
	switch {
	case !c.keepsUnedited() || !c.summing():
	case len(c.acc) <= perGroup:
		only := c.groupOf(t.at(0), c.acc, c.colInN, c.codeAddress())
		c.addUpAll(only, c.scanSums(only))
	default:
		c.sumGroups(t)
	}
}

// rankTile counts the tokens of a tile that are before those of the rows.
func (c *consumer) rankTile(t tiles, groups int) {
	if groups <= 1 {
		c.countAhead(c.groupOf(t.at(0), c.acc, c.colInN, c.codeAddress()))
		return
	}
	every := c.f.B32("groups")
	c.f.MovB32(every, ptx.Imm(1<<groups-1))
	c.eachGroup(t, every, "rank_group", c.countAhead)
}

// cheap reports whether a score without noise takes a handful of instructions, all from registers.
func (c *consumer) cheap() bool {
	chain := c.c.Chain
	return chain.Softcap == 0 && chain.Bias != ir.BiasMatrix && !chain.Mask && !c.options.Exhaustive
}

// findGroups sets hit to the groups in which any of the warp's tokens reaches its row's threshold: straight code over all
// accumulators, short enough for the instruction caches, in which the latencies of many groups overlap.
func (c *consumer) findGroups(of tiles, hit ptx.B32) {
	f := c.f
	mine, reaches := f.B32("groups_of_thread"), f.Pred("reaches")
	f.MovB32(mine, ptx.Imm(0))
	if c.limited() {
		c.storeLimits()
		c.passLimits(mine, reaches)
	} else {
		c.reachThresholds(of, mine, reaches)
	}
	f.ReduxSyncOrB32(hit, mine, ptx.Imm(fullWarp))
	if c.queues() { // what waits is scored with the rows' last group
		f.OrB32(hit, hit, ptx.Imm(1<<(len(c.acc)/perGroup-1))).If(c.final)
	}
}

// reachThresholds sets the bits of the groups in which a score of the thread may reach its row's threshold.
func (c *consumer) reachThresholds(of tiles, groups ptx.B32, reaches ptx.Pred) {
	f, across, codes := c.f, c.t.N/tiling.CodeGroup, c.codeAddress()
	var t *tile
	for g := range len(c.acc) / perGroup {
		if g%across == 0 {
			t = of.at(g / across)
		}
		part := c.groupOf(t, c.acc[g*perGroup:(g+1)*perGroup], c.colInN, codes)
		part.first, part.codes = g%across*tiling.CodeGroup, g*codeRun
		c.reaches(reaches, c.scan(part), c.topReaches(part))
		f.OrB32(groups, groups, ptx.Imm(1<<g)).If(reaches)
	}
}

// eachGroup runs body for those groups of 16 columns whose bits are set; it uses the bits up. Accumulators cannot be
// indexed, and one body for each would be thousands of instructions, more than the instruction caches like: groups are
// picked by an indirect branch and share one body.
func (c *consumer) eachGroup(of tiles, groups ptx.B32, name string, body func(g group)) {
	c.visitGroups(of, groups, name, body, nil)
}

// visitGroups is eachGroup, with something to do with the number and the logits of a group after body, if not nil.
func (c *consumer) visitGroups(of tiles, groups ptx.B32, name string, body func(g group), after func(at ptx.B32, z []ptx.F32)) {
	f := c.f
	at, last, none := f.B32("group"), f.Pred("last_group"), f.Pred("no_group")
	z, columns, codes := f.NewF32s("z", perGroup), f.B32("columns"), f.B32("codes_addr")
	base, done := c.codeAddress(), f.Label(name+"s_done")
	head, picked := f.Here(name), f.Label(name+"_picked")
	f.SetpU32(ptx.EQ, none, groups, ptx.Imm(0))
	f.Bra(done).If(none)
	takeLowest(f, at, groups)
	f.SetpU32(ptx.EQ, last, groups, ptx.Imm(0))
	f.MadLoU32(codes, at, ptx.Imm(codeRun), base)
	product, across := c.productOf(at)
	f.MadLoU32(columns, across, ptx.Imm(tiling.CodeGroup), c.colInN)
	c.pickGroup(at, z, picked)
	f.Place(picked)
	g := c.groupOf(of.in(product), z, columns, codes)
	g.last = &last
	body(g)
	if after != nil {
		after(at, z)
	}
	f.Bra(head)
	f.Place(done)
}

// productOf splits the number of a group: its product, and its number in that.
func (c *consumer) productOf(group ptx.B32) (product, across ptx.B32) {
	if c.products() == 1 {
		return ptx.B32{}, group
	}
	f, before := c.f, c.f.B32()
	product, across = f.B32("product"), f.B32("group_across")
	divideBy(f, product, group, c.t.N/tiling.CodeGroup)
	f.MulLoU32(before, product, ptx.Imm(c.t.N/tiling.CodeGroup))
	f.SubU32(across, group, before)
	return product, across
}

// pickGroup moves the accumulators of a group to z.
func (c *consumer) pickGroup(group ptx.B32, z []ptx.F32, body *ptx.Label) {
	f := c.f
	var labels []*ptx.Label
	for range len(c.acc) / perGroup {
		labels = append(labels, f.Label("pick"))
	}
	f.BrxIdx(group, f.Branchtargets("picks", labels...))
	for g, label := range labels {
		f.Place(label)
		for i := range z {
			f.MovF32(z[i], c.acc[g*perGroup+i])
		}
		if g < len(labels)-1 {
			f.Bra(body)
		}
	}
}

// codeRun is the bytes of the codes of one group.
const codeRun = wordBytes * groupWords

// codeAddress is the address register of the thread's words in the first group, short of the storage's offset.
func (c *consumer) codeAddress() ptx.B32 {
	addr := c.f.B32("codes_addr")
	c.f.AndB32(addr, c.lane, ptx.Imm(groupWords-1))
	c.f.MadLoU32(addr, addr, ptx.Imm(wordBytes), c.codes)
	return addr
}

// groupOf is blocks of 8 columns: z holds, for each, the two tokens' logits in two adjacent columns.
func (c *consumer) groupOf(t *tile, z []ptx.F32, columns, codes ptx.B32) group {
	f := c.f
	g := group{columns: columns, id: t.ids[0], elements: len(z) / 2}
	g.place = func(i int) int { return 8*(i/2) + i%2 }
	var words []ptx.B32
	g.gather = func(g *group, i int) element {
		if c.c.Sampler.Random() && i == 0 && !g.bare {
			words = f.NewB32s("code_words", 2)
			f.LdSharedV2B32(words, codes.Off(c.plan.Storage.Codes+g.codes))
		}
		at := firstToken(i)
		e := element{offset: g.place(i), tokens: []candidate{
			{in: newInputs(z[at]), pad: t.pads[0]}, {in: newInputs(z[at+2]), pad: t.pads[1], below: 8}}}
		if g.bare {
			return e
		}
		c.rowInputs(&t.tokenInputs, e.tokens, columns, g.place(i), c.maskBit[:])
		if c.c.Sampler.Random() {
			e.code = codeValue(f, words[0], i)
			e.place = c.placeOf(words[1], i)
		}
		return e
	}
	return g
}

// beginSums finds the warp's pairs. A group that is entered only where it has a hit is added up elsewhere, and so are one whose rows
// may be listed, and scores that the comparison has no use for: for both there are not registers enough.
func (c *consumer) beginSums() {
	elements := min(len(c.acc), perGroup) / 2
	c.sums.apart = (c.cheap() || c.collecting() || c.editing() || c.sumsApart()) && len(c.acc) > perGroup || c.keepsUnedited()
	set := c.f.B32("sum_set")
	c.f.ShrU32(set, c.thread, ptx.Imm(5))
	c.samplers.beginSums(set, elements, func(element ptx.B32) ptx.B32 {
		if elements == 2 {
			return element
		}
		// Elements are the two columns of each block of 8.
		f := c.f
		place, odd := f.B32(), f.B32()
		f.ShrU32(place, element, ptx.Imm(1))
		f.AndB32(odd, element, ptx.Imm(1))
		f.MadLoU32(place, place, ptx.Imm(8), odd)
		return place
	})
}
