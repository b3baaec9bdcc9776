package templates

import (
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// How the resolving kernel brings the likeliest tokens of a list into their order.

// entry is a listed token.
type entry struct {
	z, score ptx.F32
	key      ptx.B64 // of its logit, as keys of scores are
	id, last ptx.B32
}

func (r *resolver) entry(i ptx.B32) entry { return r.asEntry(r.loadEntry(i)) }

func (r *resolver) loadEntry(i ptx.B32) []ptx.B32 {
	f := r.f
	words, addr := f.NewB32s("entry", 4), f.B64()
	f.MadWideU32(addr, i, ptx.Imm(manifest.CandidateBytes), r.entries)
	f.LdGlobalV4B32(words, addr)
	return words
}

func (r *resolver) asEntry(words []ptx.B32) entry {
	f := r.f
	e := entry{z: f.F32("z"), score: f.F32("score"), key: f.B64("key"), id: words[1], last: words[3]}
	f.MovB32(e.z, words[0])
	f.MovB32(e.score, words[2])
	rankKey(f, e.key, e.z, e.id)
	return e
}

// keyAddr is the address of the i-th key.
func (r *resolver) keyAddr(i ptx.B32) ptx.SharedAddr {
	at := r.f.B32()
	r.f.MadLoU32(at, i, ptx.Imm(8), r.smem)
	return at.Off(resolveKeys)
}

// load brings the keys of the likeliest tokens to shared memory: of those that reach the bound all, or where the row has a k,
// those above the edge of a bin of logits that at least k of them reach.
func (r *resolver) load(edge ptx.B32) {
	f := r.f
	r.eachEntry("load_key", r.count, func(e entry) {
		there, past, at := f.Pred("reaches_edge"), f.Label("key_loaded"), f.B32()
		f.SetpU32(ptx.GE, there, r.high(e.key), edge)
		f.Bra(past).IfNot(there)
		f.AtomSharedAddU32(at, r.smem.Off(wordListed), ptx.Imm(1), ptx.RelaxedCTA)
		f.StSharedB64(r.keyAddr(at), e.key)
		f.Place(past)
	})
	r.sync()
	r.fill()
	r.all = f.Pred("all_listed")
	f.SetpU32(ptx.EQ, r.all, r.bound, ptx.Imm(0))
}

// fill counts the keys that were loaded, fills up with 0 to the size that is sorted, and empties what ranks are counted in.
func (r *resolver) fill() {
	f := r.f
	r.listed = f.B32("listed")
	f.LdSharedB32(r.listed, r.smem.Off(wordListed))
	zero, rest := f.B64(), f.B32("rest")
	f.MovB64(zero, ptx.Imm(0))
	size, _ := r.sortedSize()
	f.SubU32(rest, size, r.listed)
	r.strided("fill_key", rest, func(i ptx.B32) {
		at := f.B32()
		f.AddU32(at, i, r.listed)
		f.StSharedB64(r.keyAddr(at), zero)
	})
	f.StSharedB32(r.rankAddr(r.tid), ptx.Imm(0))
	r.sync()
}

func (r *resolver) high(key ptx.B64) ptx.B32 {
	low, high := r.f.B32(), r.f.B32()
	r.f.MovUnpackB64(low, high, key)
	return high
}

// resolveBins are the bins of logits, one a thread.
const (
	resolveBins = resolveThreads
	binBits     = threadBits
)

// edge is the lower edge of the highest bin that, with those above, has as many tokens as the row's k asks for; the row's bound
// without a k.
func (r *resolver) edge() ptx.B32 {
	f := r.f
	if !r.c.Truncation.TopK {
		return r.bound
	}
	mine := f.B32("own_bin")
	f.MadLoU32(mine, r.tid, ptx.Imm(4), r.smem)
	f.StSharedB32(mine.Off(resolveSums), ptx.Imm(0))
	most, width, shift, first := f.B32("largest"), f.B32(), f.B32("bin_shift"), r.isThread(0)
	f.LdSharedB32(most, r.smem.Off(wordLargest))
	f.StSharedB32(r.smem.Off(wordEdge), r.bound).If(first)
	f.SubU32(width, most, r.bound)
	f.ClzB32(shift, width)
	f.SubU32(shift, ptx.Imm(32), shift)
	f.MaxU32(shift, shift, ptx.Imm(binBits))
	f.SubU32(shift, shift, ptx.Imm(binBits))
	r.sync()
	r.eachEntry("count_bin", r.stored, func(e entry) {
		bin, there, old := f.B32("bin"), f.Pred("reaches_bound"), f.B32()
		high := r.high(e.key)
		f.SetpU32(ptx.GE, there, high, r.bound)
		f.SubU32(bin, high, r.bound)
		f.ShrU32(bin, bin, shift)
		f.MadLoU32(bin, bin, ptx.Imm(4), r.smem)
		f.AtomSharedAddU32(old, bin.Off(resolveSums), ptx.Imm(1), ptx.RelaxedCTA).If(there)
	})
	r.sync()
	r.findEdge(mine, shift)
	edge := f.B32("edge")
	f.LdSharedB32(edge, r.smem.Off(wordEdge))
	return edge
}

// findEdge has the thread of the bin write its edge. Thread t looks at the bin that lies t below the highest, so that a sum over
// threads is one over bins from the top.
func (r *resolver) findEdge(mine, shift ptx.B32) {
	f := r.f
	bin, count, wide := f.B32("bin"), f.B32(), f.B64("bin_count")
	f.SubU32(bin, ptx.Imm(resolveBins-1), r.tid)
	f.MadLoU32(count, bin, ptx.Imm(4), r.smem)
	f.LdSharedB32(count, count.Off(resolveSums))
	f.CvtU64U32(wide, count)
	r.sync()
	s := r.scan(wide)
	k, here, edge := f.B64(), f.Pred("is_edge"), f.B32()
	f.CvtU64U32(k, r.filter.k)
	f.SetpU64(ptx.LT, here, s.before, k)
	f.SetpAndU64(ptx.GE, here, s.after, k, here)
	f.ShlB32(edge, bin, shift)
	f.AddU32(edge, edge, r.bound)
	f.StSharedB32(r.smem.Off(wordEdge), edge).If(here)
	r.sync()
}

// leastSorted is the fewest keys that are sorted: so many that each thread compares rankedAtOnce of them (rankShare). mostRanked is the most
// that are sorted by rank.
const (
	leastSorted  = 64
	mostRanked   = resolveThreads / 2 // of as many keys as threads, comparing all with all takes longer than a bitonic sort
	rankedAtOnce = leastSorted * leastSorted / resolveThreads
)

// sortedSize is the least power of two that is not below the tokens listed, nor below leastSorted, and its bit.
func (r *resolver) sortedSize() (size, bit ptx.B32) {
	f, less := r.f, r.f.B32()
	size, bit = f.B32("sorted_size"), f.B32("sorted_bits")
	f.MaxU32(less, r.listed, ptx.Imm(leastSorted))
	f.SubU32(less, less, ptx.Imm(1))
	f.ClzB32(bit, less)
	f.SubU32(bit, ptx.Imm(32), bit)
	f.MovB32(size, ptx.Imm(1))
	f.ShlB32(size, size, bit)
	return size, bit
}

// sort brings the keys into their order, the largest first. There is none twice.
func (r *resolver) sort() {
	f, many, few, sorted := r.f, r.f.Pred("many_keys"), r.f.Label("rank_keys"), r.f.Label("keys_sorted")
	size, bit := r.sortedSize()
	f.SetpU32(ptx.GT, many, size, ptx.Imm(mostRanked))
	f.Bra(few).IfNot(many)
	r.sortBitonic(size)
	f.Bra(sorted)
	f.Place(few)
	r.sortByRank(size, bit)
	f.Place(sorted)
}

// sortByRank sorts keys of which there are fewer than threads: each goes to the place that as many are larger as come before it.
// The threads of a key share the others out among themselves. That is two barriers, where a bitonic sort has 21 for 64 keys.
func (r *resolver) sortByRank(size, bit ptx.B32) {
	f := r.f
	own, key, rank, mask := f.B32("own_key"), f.B64("key"), f.B32("rank"), f.B32()
	f.SubU32(mask, size, ptx.Imm(1))
	f.AndB32(own, r.tid, mask)
	f.LdSharedB64(key, r.keyAddr(own))
	f.MovB32(rank, ptx.Imm(0))
	r.rankShare(bit, func(other ptx.B64) {
		larger := f.Pred("is_larger")
		f.SetpU64(ptx.GT, larger, other, key)
		f.AddU32(rank, rank, ptx.Imm(1)).If(larger)
	})
	f.RedSharedAddU32(r.rankAddr(own), rank, ptx.RelaxedCTA)
	r.sync()
	there, at := f.Pred("has_key"), f.B32("place")
	f.SetpU32(ptx.LT, there, r.tid, r.listed) // of these own is the thread's number
	f.LdSharedB32(at, r.rankAddr(r.tid))
	f.StSharedB64(r.keyAddr(at), key).If(there)
	r.sync()
}

// rankShare runs body for the keys that a thread compares: of size keys, which size/resolveThreads of the threads have as theirs, so
// many in a row.
func (r *resolver) rankShare(bit ptx.B32, body func(other ptx.B64)) {
	f := r.f
	span, part, at, end, more := f.B32("rank_span"), f.B32("rank_part"), f.B32("compared"), f.B32("compared_end"), f.Pred("more")
	f.ShlB32(span, bit, ptx.Imm(1))
	f.SubU32(span, span, ptx.Imm(threadBits))
	f.ShrU32(part, r.tid, bit)
	f.ShlB32(at, part, span)
	f.MovB32(end, ptx.Imm(8))
	f.ShlB32(end, end, span)
	f.MadLoU32(at, at, ptx.Imm(8), r.smem)
	f.AddU32(end, end, at)
	loop := f.Here("compare_keys")
	for i := 0; i < rankedAtOnce; i += 2 {
		pair := []ptx.B64{f.B64(), f.B64()}
		f.LdSharedV2B64(pair, at.Off(resolveKeys+8*i))
		body(pair[0])
		body(pair[1])
	}
	f.AddU32(at, at, ptx.Imm(8*rankedAtOnce))
	f.SetpU32(ptx.LT, more, at, end)
	f.Bra(loop).If(more)
}

// rankAddr is where the rank of the i-th key is counted.
func (r *resolver) rankAddr(i ptx.B32) ptx.SharedAddr {
	at := r.f.B32()
	r.f.MadLoU32(at, i, ptx.Imm(4), r.smem)
	return at.Off(resolveSums)
}

// sortBitonic is a bitonic sort.
func (r *resolver) sortBitonic(size ptx.B32) {
	f := r.f
	run, step, half := f.B32("run"), f.B32("distance"), f.B32("pairs")
	sorted, merged, more := f.Label("sorted"), f.Label("merged"), f.Pred("more")
	f.ShrU32(half, size, ptx.Imm(1))
	f.MovB32(run, ptx.Imm(2))
	runs := f.Here("sort_run")
	f.SetpU32(ptx.LE, more, run, size)
	f.Bra(sorted).IfNot(more)
	f.ShrU32(step, run, ptx.Imm(1))
	steps := f.Here("sort_step")
	f.SetpU32(ptx.NE, more, step, ptx.Imm(0))
	f.Bra(merged).IfNot(more)
	r.strided("sort_pair", half, func(i ptx.B32) { r.sortPair(i, step, run) })
	r.sync()
	f.ShrU32(step, step, ptx.Imm(1))
	f.Bra(steps)
	f.Place(merged)
	f.ShlB32(run, run, ptx.Imm(1))
	f.Bra(runs)
	f.Place(sorted)
}

// sortPair orders the i-th pair of keys that lie a step apart: falling in every other run.
func (r *resolver) sortPair(i, step, run ptx.B32) {
	f := r.f
	a, b, mask, place := f.B32(), f.B32(), f.B32(), f.B32()
	f.SubU32(mask, step, ptx.Imm(1))
	f.AndB32(place, i, mask)
	f.SubU32(a, i, place)
	f.ShlB32(a, a, ptx.Imm(1))
	f.AddU32(a, a, place)
	f.AddU32(b, a, step)
	x, y, low, high := f.B64(), f.B64(), f.B64(), f.B64()
	f.LdSharedB64(x, r.keyAddr(a))
	f.LdSharedB64(y, r.keyAddr(b))
	f.MinU64(low, x, y)
	f.MaxU64(high, x, y)
	bit, rising := f.B32(), f.Pred("rising")
	f.AndB32(bit, a, run)
	f.SetpU32(ptx.NE, rising, bit, ptx.Imm(0))
	f.SelpB64(x, low, high, rising)
	f.SelpB64(y, high, low, rising)
	f.StSharedB64(r.keyAddr(a), x)
	f.StSharedB64(r.keyAddr(b), y)
}

// keyLogit is the logit of the i-th key.
func (r *resolver) keyLogit(i ptx.B32) ptx.F32 {
	f := r.f
	key, low, high := f.B64(), f.B32(), f.B32()
	f.LdSharedB64(key, r.keyAddr(i))
	f.MovUnpackB64(low, high, key)
	return scoreThreshold(f, high)
}
