package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// Draws with replacement (docs/draws.md, section 2). The row's tokens stand in the order of their scores, two a lane of one warp, with
// the sums of their weights up to each: a draw has a point below the weight of all tokens, and repeats the first token seen whose sum
// lies above its point.
//
// The first pass knows the weight of all only as a sum in float32. So each sum is a share of it, with the least and the largest that it
// may be, and a draw is decided where both say the same. A row with one that is not takes a pass more that
// adds up all weights, in integers, and ahead of it another that finds its largest logit, of which weights are multiples, unless the
// first pass has found that (peaks.go).

// What lies behind the resolving kernel's other shared memory: keys of the tokens in order, random bits, and sums, 8 bytes for each draw
// that a row may have.
const (
	resolveOrder = resolveShared + iota*8*manifest.RowPivots
	resolveBits
	resolveLeast
	resolveMost
	repeatShared
)

// repeatParams is what it takes.
type repeatParams struct {
	seeds, positions   ptx.Param
	seedStride, stride ptx.Param
	draw, tag          ptx.Param
	seed, position     []ptx.B32 // words of the row's
	mass               []ptx.F32 // loadMass; nil like the seed and the position where they are loaded as they are wanted
	order              ptx.B64   // address of the row's tokens in order: keys of their logits, and behind them of their scores
	best               ptx.B64   // key of the first one's score, where it does not stand there
	apart              bool      // it does not
}

// orderScores is where the keys of the scores begin.
const orderScores = 8 * manifest.RowPivots

// lanesOrder is how many of the tokens a lane has.
const lanesOrder = manifest.RowPivots / warpSize

// beginRepeats declares and loads the parameters.
func (r *resolver) beginRepeats() {
	f, s, p := r.f, &r.sig, &r.draws.repeats
	p.seeds, p.seedStride = s.rows(ParamSeeds, "u64", ParamSeedStride)
	p.positions, p.stride = s.rows(ParamPositions, "u64", ParamPositionStride)
	p.draw, p.tag = s.scalar(ParamDraw), s.scalar(ParamStreamTag)
	if r.further {
		p.order = r.pivots
	}
	if r.further && !r.readsMass() && !r.c.RepeatsOfSecond() {
		r.masses = f.B64("mass")
		f.MadWideU32(r.masses, r.row, ptx.Imm(8), loadPointer(f, s.pointer(ParamMasses, "f32", "batch x 2", "scratch"), "masses"))
	}
	if r.further {
		return
	}
	p.order = f.B64("order")
	f.MadWideU32(p.order, r.row, ptx.Imm(8*pivotWords(r.c)*manifest.RowPivots), loadPointer(f, s.pointer(ParamPivots, "u64", pivotShape(r.c), "scratch"), "pivots"))
	r.fetchRepeats()
}

// fetchRepeats loads, while the list is on its way, what is wanted once it is in order: each load would be a wait of its own then.
func (r *resolver) fetchRepeats() {
	p := &r.draws.repeats
	p.mass = r.loadMass()
	p.seed, p.position = r.loadSeed()
}

// loadMass loads a reference and the sum above it of the weights of all tokens, in float32: of rows that have one, which draw several.
func (r *resolver) loadMass() []ptx.F32 {
	f, mass, has := r.f, r.f.NewF32s("mass", 2), r.f.Pred("has_mass")
	for _, word := range mass {
		f.MovF32(word, ptx.F32Imm(0))
	}
	f.SetpU32(ptx.GT, has, r.draws.n, ptx.Imm(1))
	f.SetpAndF32(ptx.GT, has, r.temperature, ptx.F32Imm(0), has)
	f.LdGlobalV2F32(mass, r.repeatedMass()).If(has)
	return mass
}

// loadSeed loads the row's seed and position; of a row without a slot it loads none.
func (r *resolver) loadSeed() (seed, position []ptx.B32) {
	f, p := r.f, &r.draws.repeats
	seed, position = f.NewB32s("seed", 2), f.NewB32s("position", 2)
	r.slot.loadV2B32(f, seed, loadPointer(f, p.seeds, "seeds"), loadU32(f, p.seedStride, "seed_stride"))
	r.slot.loadV2B32(f, position, loadPointer(f, p.positions, "positions"), loadU32(f, p.stride, "position_stride"))
	return seed, position
}

// orderRepeats leaves the row's tokens in order, here and where later passes find them: of those listed the ones that are kept, if not
// nil.
func (r *resolver) orderRepeats(kept func(e entry) ptx.Pred) {
	f, d := r.f, &r.draws
	last, edge, at, zero := f.B32(), f.B64("least_drawn"), f.B64(), f.B64()
	f.SubU32(last, d.drawn, ptx.Imm(1))
	f.LdSharedB64(edge, r.keyAddr(last))
	behind := f.Pred("behind_drawn")
	f.SetpU32(ptx.LT, behind, r.tid, ptx.Imm(manifest.RowPivots))
	f.SetpAndU32(ptx.GE, behind, r.tid, d.drawn, behind)
	f.MadWideU32(at, r.tid, ptx.Imm(8), d.repeats.order)
	f.MovB64(zero, ptx.Imm(0))
	f.StGlobalB64(at, zero).If(behind)
	f.StGlobalB64(at.Off(orderScores), zero).If(behind)
	f.StSharedB64(r.orderPlace(r.tid), zero).If(behind)
	r.eachEntry("order_drawn", r.stored, func(e entry) {
		past, drawn := f.Label("drawn_ordered"), f.Pred("is_drawn")
		key := r.scoreKeyOf(e)
		f.SetpU64(ptx.GE, drawn, key, edge)
		if kept != nil {
			f.AndPred(drawn, drawn, kept(e))
		}
		f.Bra(past).IfNot(drawn)
		at, place := r.placeOf(key), f.B64()
		f.MadWideU32(place, at, ptx.Imm(8), d.repeats.order)
		f.StSharedB64(r.orderPlace(at), e.key)
		f.StGlobalB64(place, e.key)
		f.StGlobalB64(place.Off(orderScores), key)
		f.Place(past)
	})
	r.sync()
}

// orderPlace is the place of the i-th token's key in shared memory.
func (r *resolver) orderPlace(i ptx.B32) ptx.SharedAddr {
	at := r.f.B32()
	r.f.MadLoU32(at, i, ptx.Imm(8), r.smem)
	return at.Off(resolveOrder)
}

// placeOf is the place of a key that is among the first ones sorted.
func (r *resolver) placeOf(key ptx.B64) ptx.B32 {
	f := r.f
	at, other, before := f.B32("place"), f.B64(), f.Pred("before")
	f.MovB32(at, ptx.Imm(0))
	loop, found := f.Here("seek_place"), f.Label("place_found")
	f.LdSharedB64(other, r.keyAddr(at))
	f.SetpU64(ptx.GT, before, other, key)
	f.Bra(found).IfNot(before)
	f.AddU32(at, at, ptx.Imm(1))
	f.Bra(loop)
	f.Place(found)
	return at
}

// weighRepeats is what further passes do for rows that know their order.
func (r *resolver) weighRepeats() {
	f, listing, p, zero, always := r.f, r.f.Label("draws_again"), r.f.Pred("mode"), r.f.B64(), r.f.Pred("always")
	f.SetpU32(ptx.EQ, p, r.state.mode, ptx.Imm(passDraw))
	f.Bra(listing).If(p)
	survey := f.Label("weigh_survey")
	f.SetpU32(ptx.EQ, p, r.state.mode, ptx.Imm(passSurvey))
	f.Bra(survey).If(p)
	largest := f.B32("largest")
	f.LdSharedB32(largest, r.smem.Off(wordLargest))
	f.MovF32(r.weigh.top, scoreThreshold(f, largest))
	f.MovB64(zero, ptx.Imm(0))
	f.SetpU32(ptx.EQ, always, r.tid, r.tid)
	r.keepOpen(passSurvey, imm(f, 0), zero, always)
	f.Place(survey)
	total := r.takeBins().total
	if r.tells() {
		r.tellAgain()
	}
	r.redraw(false, func(o *order) { r.exactly(o, r.weigh, total) })
	f.Place(listing)
}

// order is the row's tokens in order, those of a lane warpSize apart.
type order struct {
	lane        ptx.B32
	ids         [lanesOrder]ptx.B32
	z           [lanesOrder]ptx.F32
	there       [lanesOrder]ptx.Pred
	least, most [lanesOrder]ptx.B64 // that the weights up to a token, it included, may add up to
	points      func(random ptx.B64) ptx.B64
	open        ptx.B32 // not 0 if the row is not decided
}

// redraw draws with replacement, by one warp, and ends; another has drawn the random bits meanwhile. bound sets the sums of the weights,
// and what makes a point of random bits. ordered says that this kernel has just brought the tokens into their order.
func (r *resolver) redraw(ordered bool, bound func(o *order)) {
	f := r.f
	p, first := f.Pred("role"), f.Label("draw_points")
	f.SetpU32(ptx.LT, p, r.tid, ptx.Imm(warpSize))
	f.Bra(first).If(p)
	f.SetpU32(ptx.GE, p, r.tid, ptx.Imm(2*warpSize))
	f.Bra(r.labels.done).If(p)
	r.drawBits()
	r.meet()
	f.Bra(r.labels.done)
	f.Place(first)
	o := r.loadOrder(ordered)
	bound(o)
	r.closeOrder(o)
	r.meet()
	picks := r.pick(o)
	open, zero := f.Pred("not_decided"), f.B64()
	f.SetpU32(ptx.NE, open, o.open, ptx.Imm(0))
	f.MovB64(zero, ptx.Imm(0))
	r.keepOpen(r.weighByPeak(), imm(f, 0), zero, open)
	r.writePicks(o, picks, ordered)
}

// meet has the two warps that draw wait for each other.
func (r *resolver) meet() { r.f.BarSync(ptx.Imm(1), ptx.Threads(ptx.Imm(2*warpSize))) }

// loadOrder loads a lane's tokens.
func (r *resolver) loadOrder(ordered bool) *order {
	f := r.f
	o := &order{lane: r.tid, open: f.B32("undecided")}
	f.MovB32(o.open, ptx.Imm(0))
	at := f.B64()
	f.MadWideU32(at, o.lane, ptx.Imm(8), r.draws.repeats.order)
	for i := range lanesOrder {
		key, low, high := f.B64("order_key"), f.B32(), f.B32()
		if ordered {
			f.LdSharedB64(key, r.ownPlace(o).Off(resolveOrder+8*warpSize*i))
		} else {
			f.LdGlobalB64(key, at.Off(8*warpSize*i))
		}
		f.MovUnpackB64(low, high, key)
		o.ids[i], o.there[i], o.z[i] = f.B32("order_token"), f.Pred("is_there"), scoreThreshold(f, high)
		f.NotB32(o.ids[i], low)
		f.SetpU64(ptx.NE, o.there[i], key, ptx.Imm(0))
		o.least[i], o.most[i] = f.B64("least_sum"), f.B64("most_sum")
	}
	return o
}

// ownPlace is where a lane's first 8 bytes lie in an array of shared memory.
func (r *resolver) ownPlace(o *order) ptx.B32 {
	at := r.f.B32()
	r.f.MadLoU32(at, o.lane, ptx.Imm(8), r.smem)
	return at
}

// sumUp makes sums of the weights of the lanes' tokens, which stand in least.
func (o *order) sumUp(f *ptx.Func) {
	zero := f.B64()
	f.MovB64(zero, ptx.Imm(0))
	for i, sum := range o.least {
		f.SelpB64(sum, sum, zero, o.there[i])
		addLanesBefore(f, sum, o.lane)
		if i == 0 {
			continue
		}
		low, high, before := f.B32(), f.B32(), f.B64()
		f.MovUnpackB64(low, high, o.least[i-1])
		f.ShflSyncIdxB32(low, low, ptx.Imm(warpSize-1), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
		f.ShflSyncIdxB32(high, high, ptx.Imm(warpSize-1), ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
		f.MovPackB64(before, low, high)
		f.AddU64(sum, sum, before)
	}
}

// exactly has the weights, and that of all tokens.
func (r *resolver) exactly(o *order, weigh *weigher, total ptx.B64) {
	f := r.f
	for i := range o.least {
		f.MovB64(o.least[i], weigh.of(o.z[i]))
	}
	o.sumUp(f)
	for i := range o.most {
		f.MovB64(o.most[i], o.least[i])
	}
	o.points = func(random ptx.B64) ptx.B64 {
		point := f.B64("point")
		f.MulHiU64(point, random, total)
		return point
	}
}

// Shares of the weight of all tokens are multiples of 2^-shareBits: of 64 of them, each cut off, the sum stays in 64 bits.
const (
	shareBits = 57
	// shareSlack is more than 64 shares are cut off by, and a point.
	shareSlack = 1 << 14
	// shareMargin is the part by which a sum of shares may be off: massMargin, half of that for its own powers, and above T = 1, where
	// scores are rounded before they are compared, 2^-22 for each unit of the reference. fineShareMargin is that of fine sums.
	shareMargin     = massMargin * 3 / 2
	fineShareMargin = fineMargin * 3 / 2
	shareOfScores   = 0x1p-22
)

// leastAndMost has the weights as shares of the sum in float32 of those of all tokens.
func (r *resolver) leastAndMost(o *order) {
	f := r.f
	pair := r.draws.repeats.mass
	if pair == nil {
		pair = r.loadMass()
	}
	reference, sane := pair[0], f.Pred("is_sane")
	mass, rounding := r.roundingOf(pair[1])
	f.SetpF32(ptx.GT, sane, mass, ptx.F32Imm(0))
	f.SetpAndF32(ptx.LT, sane, mass, ptx.F32Imm(0x1p100), sane)
	f.SetpAndF32(ptx.GE, sane, r.temperature, ptx.F32Imm(minWeightTemperature), sane)
	margin := r.shares(o, reference, mass, rounding, sane)
	o.sumUp(f)
	slack, fraction := r.shareRounding(), f.B64("margin")
	f.MulF32(margin, margin, ptx.F32Imm(0x1p63), ptx.RN)
	f.CvtRziU64F32(fraction, margin) // saturates
	f.ShlB64(fraction, fraction, ptx.Imm(1))
	for i, sum := range o.least {
		off, down, wraps, most := f.B64(), f.B64(), f.Pred("wraps"), f.B64()
		f.MulHiU64(off, sum, fraction)
		f.AddU64(off, off, slack)
		f.AddU64(o.most[i], sum, off)
		f.SetpU64(ptx.LT, wraps, o.most[i], sum)
		f.MovB64(most, ptx.Imm(-1))
		f.MovB64(o.most[i], most).If(wraps)
		f.MinU64(down, off, sum)
		f.SubU64(sum, sum, down)
	}
	f.MovB32(o.open, ptx.Imm(1)).IfNot(sane)
	f.ReduxSyncOrB32(o.open, o.open, ptx.Imm(fullWarp))
	o.points = func(random ptx.B64) ptx.B64 {
		point := f.B64("point")
		f.ShrU64(point, random, ptx.Imm(64-shareBits))
		return point
	}
}

// shares sets the lane's shares, and returns the part by which their sums may be off: so much for rounding, and above T = 1 what the
// reference adds. sane stays set where they are numbers.
func (r *resolver) shares(o *order, reference, mass ptx.F32, rounding ptx.SrcF32, sane ptx.Pred) (margin ptx.F32) {
	f := r.f
	alpha, tau, scale, wide, above := f.F32("alpha"), f.F32("tau"), f.F32("scale"), f.F64(), f.Pred("above_one")
	f.SetpF32(ptx.GT, above, r.temperature, ptx.F32Imm(1))
	f.MovF32(alpha, ptx.F32Imm(1))
	f.CvtRnF32F64(alpha, reciprocal(f, widen(f, r.temperature))).If(above)
	f.MinF32(tau, r.temperature, ptx.F32Imm(1))
	f.MulF64(wide, reciprocal(f, widen(f, tau)), ptx.F64Imm(math.Log2E), ptx.RN)
	f.CvtRnF32F64(scale, wide)
	minus := f.F32()
	f.NegF32(minus, reference)
	for i, z := range o.z {
		x, usual := f.F32("octaves"), f.F32()
		f.MulF32(x, z, alpha, ptx.RN)
		f.AddF32(x, x, minus, ptx.RN)
		f.MulF32(x, x, scale, ptx.RN)
		f.Ex2ApproxF32(x, x, ptx.FTZ)
		share := quotient(f, x, mass)
		f.SelpF32(usual, share, ptx.F32Imm(0), o.there[i])
		f.SetpAndF32(ptx.LE, sane, usual, ptx.F32Imm(1+2*shareMargin), sane) // false for NaN
		f.MulF32(share, share, ptx.F32Imm(1<<shareBits), ptx.RN)
		f.CvtRziU64F32(o.least[i], share)
	}
	margin = f.F32("share_margin")
	f.AbsF32(margin, reference)
	f.SelpF32(margin, margin, ptx.F32Imm(0), above)
	f.FmaRnF32(margin, margin, ptx.F32Imm(shareOfScores), rounding)
	return margin
}

// shareRounding is the share that the rounding of all weights to integers may be, and what shares are cut off by: half of a weight of
// 1 for each token of the vocabulary, over the weight of the likeliest, twice.
func (r *resolver) shareRounding() ptx.B64 {
	f := r.f
	slack, place := f.B64("share_slack"), f.B32()
	f.AddU32(place, r.weigh.length, r.weigh.length)
	f.MaxU32(place, place, ptx.Imm(weightBits-shareBits))
	f.SubU32(place, place, ptx.Imm(weightBits-shareBits))
	f.MovB64(slack, ptx.Imm(1))
	f.ShlB64(slack, slack, place)
	f.AddU64(slack, slack, ptx.Imm(shareSlack))
	return slack
}

// closeOrder has the last token of a row that has no more than it lists taken by whatever lies above the sums before it.
func (r *resolver) closeOrder(o *order) {
	f := r.f
	count, all := f.B32("order_length"), f.B64()
	f.MovB32(count, ptx.Imm(0))
	for _, there := range o.there {
		lanes := f.B32()
		f.VoteSyncBallotB32(lanes, there, ptx.Imm(fullWarp))
		f.PopcB32(lanes, lanes)
		f.AddU32(count, count, lanes)
	}
	whole, last, place := f.Pred("is_whole"), f.B32(), f.B32()
	f.SetpU32(ptx.LT, whole, count, r.draws.n)
	f.SubU32(last, count, ptx.Imm(1))
	f.MovB64(all, ptx.Imm(-1))
	for i := range o.least {
		is := f.Pred("is_last")
		f.AddU32(place, o.lane, ptx.Imm(warpSize*i))
		f.SetpAndU32(ptx.EQ, is, place, last, whole)
		f.MovB64(o.least[i], all).If(is)
		f.MovB64(o.most[i], all).If(is)
	}
}

// drawBits is the second warp's: it leaves the random bits of each draw in shared memory.
func (r *resolver) drawBits() {
	f, p := r.f, &r.draws.repeats
	seed, position := p.seed, p.position
	if seed == nil {
		seed, position = r.loadSeed()
	}
	noise := rowState(f, [4]ptx.B32{position[0], position[1], loadU32(f, p.draw, "draw"), loadU32(f, p.tag, "stream_tag")}, [2]ptx.B32{seed[0], seed[1]})
	lane := f.B32("lane")
	f.AndB32(lane, r.tid, ptx.Imm(warpSize-1))
	for i := range lanesOrder {
		counter, random, at := f.B32("counter"), f.B64("random"), f.B32()
		f.AddU32(counter, lane, imm(f, ir.RepeatCounter+int64(warpSize*i)+1)) // draws count from 1
		words := tokenRounds(f, noise, pairState(f, counter))
		f.MovPackB64(random, words.low(f)[0], words.high(f)[0])
		f.MadLoU32(at, lane, ptx.Imm(8), r.smem)
		f.StSharedB64(at.Off(resolveBits+8*warpSize*i), random)
	}
}

// pick returns the places in the order that the lane's draws have. A draw's own place is the first whose sum may lie above its point;
// if that has not been seen, it takes the next to be seen. The row is open if the sum may as well not lie above the point of a draw
// that takes its own.
func (r *resolver) pick(o *order) (picks [lanesOrder]ptx.B32) {
	f, own := r.f, r.ownPlace(o)
	var points [lanesOrder]ptx.B64
	var places [lanesOrder]ptx.B32
	for i := range points {
		random := f.B64("random")
		f.LdSharedB64(random, own.Off(resolveBits+8*warpSize*i))
		points[i], places[i] = o.points(random), f.B32("own_place")
		f.MovB32(places[i], ptx.Imm(manifest.RowPivots))
		f.StSharedB64(own.Off(resolveMost+8*warpSize*i), o.most[i])
		f.StSharedB64(own.Off(resolveLeast+8*warpSize*i), o.least[i])
	}
	f.BarWarpSync(ptx.Imm(fullWarp))
	r.eachDrawn("seek_own", 0, func(k ptx.B32) {
		at, most := f.B32(), f.B64("most_sum")
		f.MadLoU32(at, k, ptx.Imm(8), r.smem)
		f.LdSharedB64(most, at.Off(resolveMost))
		for i, place := range places {
			above := f.Pred("may_be")
			f.SetpU64(ptx.GT, above, most, points[i])
			f.MinU32(place, place, k).If(above)
		}
	})
	seen := r.takePlaces(o, places, &picks)
	for i, place := range places {
		at, least, takes := f.B32(), f.B64("least_sum"), f.Pred("takes_own")
		f.SetpU32(ptx.LT, takes, place, seen[i])
		f.MadLoU32(at, place, ptx.Imm(8), r.smem)
		f.MovB64(least, ptx.Imm(-1))
		f.LdSharedB64(least, at.Off(resolveLeast)).If(takes)
		f.SetpAndU64(ptx.LE, takes, least, points[i], takes)
		f.MovB32(o.open, ptx.Imm(1)).If(takes)
	}
	f.ReduxSyncOrB32(o.open, o.open, ptx.Imm(fullWarp))
	return picks
}

// eachDrawn runs body for the numbers from first on that are below the row's draws.
func (r *resolver) eachDrawn(name string, first int64, body func(k ptx.B32)) {
	f, k, past, end := r.f, r.f.B32("number"), r.f.Pred("past"), r.f.Label(name+"_end")
	f.MovB32(k, ptx.Imm(first))
	loop := f.Here(name)
	f.SetpU32(ptx.GE, past, k, r.draws.n)
	f.Bra(end).If(past)
	body(k)
	f.AddU32(k, k, ptx.Imm(1))
	f.Bra(loop)
	f.Place(end)
}

// takePlaces goes through the draws from the second on, each of which sees what those before it have, and returns how many places the
// lane's draws have seen; 0 for numbers that are no draws, and for the first, which has the first place.
func (r *resolver) takePlaces(o *order, places [lanesOrder]ptx.B32, picks *[lanesOrder]ptx.B32) (before [lanesOrder]ptx.B32) {
	f := r.f
	for i := range picks {
		picks[i], before[i] = f.B32("pick"), f.B32("seen_before")
		f.MovB32(picks[i], ptx.Imm(0))
		f.MovB32(before[i], ptx.Imm(0))
	}
	seen := f.B32("seen")
	f.MovB32(seen, ptx.Imm(1))
	r.eachDrawn("take_place", 1, func(j ptx.B32) {
		lane, place := f.B32(), f.B32("place")
		f.AndB32(lane, j, ptx.Imm(warpSize-1))
		for i, own := range places {
			from, there := f.B32(), f.Pred("in_these")
			f.ShflSyncIdxB32(from, own, lane, ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
			f.SetpU32(ptx.GE, there, j, ptx.Imm(warpSize*i))
			f.MovB32(place, from).If(there)
		}
		f.MinU32(place, place, seen)
		for i := range picks {
			number, mine := f.B32(), f.Pred("is_mine")
			f.AddU32(number, o.lane, ptx.Imm(warpSize*i))
			f.SetpU32(ptx.EQ, mine, number, j)
			f.MovB32(picks[i], place).If(mine)
			f.MovB32(before[i], seen).If(mine)
		}
		f.AddU32(place, place, ptx.Imm(1))
		f.MaxU32(seen, seen, place)
	})
	return before
}

// writePicks writes the tokens of the picks, and the first as the row's.
func (r *resolver) writePicks(o *order, picks [lanesOrder]ptx.B32, ordered bool) {
	f := r.f
	for i, pick := range picks {
		token, j, wanted := f.B32("token"), f.B32(), f.Pred("wanted")
		for k, ids := range o.ids {
			from, there := f.B32(), f.Pred("in_these")
			f.ShflSyncIdxB32(from, ids, pick, ptx.Imm(warpSize-1), ptx.Imm(fullWarp))
			f.SetpU32(ptx.GE, there, pick, ptx.Imm(warpSize*k))
			f.MovB32(token, from).If(there)
		}
		f.AddU32(j, o.lane, ptx.Imm(warpSize*i))
		f.SetpU32(ptx.LT, wanted, j, r.draws.n)
		f.StGlobalB32(rowAddr(f, r.draws.tokens, j), token).If(wanted)
	}
	if r.draws.repeats.apart {
		r.write(r.draws.repeats.best)
		return
	}
	best := f.B64("best")
	if ordered { // its key is the first that was sorted
		f.LdSharedB64(best, r.smem.Off(resolveKeys))
	} else {
		f.LdGlobalB64(best, r.draws.repeats.order.Off(orderScores))
	}
	r.write(best)
}
