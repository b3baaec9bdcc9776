package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// element is one row (a column of the tile) of a group of scores that a thread works on at a time, with the thread's
// tokens for it.
type element struct {
	offset int // columns past the group's first of this thread
	tokens []candidate
	// low gives the low halves of the tokens' random bits, where the high ones did not rule them out.
	low func() []ptx.B32
}

// candidate is a token that a thread scores for a row.
type candidate struct {
	in    inputs
	id    ptx.B32
	valid ptx.Pred // the id is in the vocabulary
}

func newInputs(logit ptx.F32) inputs {
	return inputs{f: map[ir.Input]ptx.F32{ir.InLogit: logit}, u: map[ir.Input]ptx.B32{}, p: map[ir.Input]ptx.Pred{}}
}

// compare holds a group of n elements against the rows' bests. Only a bound of each score is compared; where any in the
// warp reaches the row's best, the scores are computed in full. Elements stand in pairs of adjacent rows; place gives
// their offsets, gather their inputs. lanes lists the bits of the lane number that tell the lanes of one row apart,
// highest first.
func (c *samplers) compare(columns ptx.B32, n int, place func(i int) int, gather func(i int) element, lanes []int) {
	f := c.f
	keys, hit := c.at(columns, 8), f.Pred("hit")
	var elements []element
	var best []ptx.B32
	for i := range n {
		if i%2 == 0 {
			best = c.loadBests(keys, place(i))
		}
		e := gather(i)
		threshold := scoreThreshold(f, best[2*(i%2)+1])
		for j, t := range e.tokens {
			bound := lower(f, c.bound, t.in)
			c.either(hit, ptx.GEU, bound, threshold, i+j == 0)
		}
		elements = append(elements, e)
	}
	any, skip := f.Pred("any"), f.Label("no_hit")
	if c.options.Exhaustive {
		f.SetpB32(ptx.EQ, hit, c.lane, c.lane)
	}
	f.VoteSyncAnyPred(any, hit, ptx.Imm(0xFFFFFFFF))
	f.Bra(skip).IfNot(any)
	c.update(columns, elements, lanes)
	f.Place(skip)
}

// loadBests loads the keys of two adjacent rows, as words: low, high, low, high.
func (c *samplers) loadBests(keys ptx.B32, offset int) []ptx.B32 {
	words := c.f.NewB32s("best", 4)
	c.f.LdSharedV4B32(words, keys.Off(c.plan.Storage.Keys+8*offset))
	return words
}

// either sets p, or leaves it set, if a compares with b.
func (c *samplers) either(p ptx.Pred, cmp ptx.Cmp, a, b ptx.F32, first bool) {
	if first {
		c.f.SetpF32(cmp, p, a, b)
	} else {
		c.f.SetpOrF32(cmp, p, a, b, p)
	}
}

// scores computes the scores of an element in full.
func (c *samplers) scores(e element) []ptx.F32 {
	if c.c.Sampler == ir.Gumbel {
		for i, low := range e.low() {
			e.tokens[i].in.u[ir.InLow] = low
		}
	}
	var s []ptx.F32
	for _, t := range e.tokens {
		s = append(s, lower(c.f, c.score, t.in))
	}
	return s
}

// update computes the group's scores in full and joins them with the rows' keys in shared memory. The lanes that share a
// row first settle it among themselves by recursive halving: each exchange halves both the lanes of a row and the rows of
// a lane, so that one atomic a row and warp is left, however many scores beat the old key.
func (c *samplers) update(columns ptx.B32, elements []element, lanes []int) {
	f := c.f
	keys, offsets := make([]ptx.B64, len(elements)), make([]int, len(elements))
	for i, e := range elements {
		offsets[i] = e.offset
		for j, s := range c.scores(e) {
			key := scoreKey(f, s, e.tokens[j].id, e.tokens[j].valid)
			if j == 0 {
				keys[i] = key
				continue
			}
			best := f.B64()
			f.MaxU64(best, keys[i], key)
			keys[i] = best
		}
	}
	column, duplicate := f.B32("column"), 0
	f.MovB32(column, columns)
	for _, mask := range lanes {
		if len(keys) == 1 {
			f.MaxU64(keys[0], keys[0], exchange(f, keys[0], mask))
			duplicate |= mask
			continue
		}
		half := len(keys) / 2
		keys = c.halve(keys, mask, column, offsets[half]-offsets[0])
	}
	c.commit(keys[0], column, duplicate)
}

// halve keeps the half of the keys that the lane's bit names, joined with the same half of the lane across. The upper
// half's columns are step further.
func (c *samplers) halve(keys []ptx.B64, mask int, column ptx.B32, step int) []ptx.B64 {
	f := c.f
	bit, upper := f.B32(), f.Pred("upper")
	f.AndB32(bit, c.lane, ptx.Imm(mask))
	f.SetpB32(ptx.NE, upper, bit, ptx.Imm(0))
	half := len(keys) / 2
	kept := make([]ptx.B64, half)
	for i := range kept {
		sent := f.B64()
		kept[i] = f.B64()
		f.SelpB64(kept[i], keys[half+i], keys[i], upper)
		f.SelpB64(sent, keys[i], keys[half+i], upper)
		f.MaxU64(kept[i], kept[i], exchange(f, sent, mask))
	}
	f.AddU32(column, column, ptx.Imm(step)).If(upper)
	return kept
}

// commit raises a row's key, by one lane of those that hold it.
func (c *samplers) commit(key ptx.B64, column ptx.B32, duplicate int) {
	f := c.f
	addr := c.at(column, 8).Off(c.plan.Storage.Keys)
	old, bits, raise := f.B64("old"), f.B32(), f.Pred("raise")
	f.LdSharedB64(old, addr, ptx.RelaxedCTA)
	f.AndB32(bits, c.lane, ptx.Imm(duplicate))
	one := f.Pred()
	f.SetpB32(ptx.EQ, one, bits, ptx.Imm(0))
	f.SetpAndU64(ptx.GT, raise, key, old, one)
	f.RedSharedMaxU64(addr, key, ptx.RelaxedCTA).If(raise)
}

// guardedLoad loads a float where the predicate holds, else gives 0.
func (c *samplers) guardedLoad(addr ptx.GlobalAddr, p ptx.Pred, name string) ptx.F32 {
	r := c.f.F32(name)
	c.f.MovF32(r, ptx.F32Imm(0))
	c.f.LdGlobalF32(r, addr).If(p)
	return r
}
