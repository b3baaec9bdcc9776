package templates

import "github.com/fsgen/fsgen/ptx"

// sharedBest is one row's best as a thread exchanges it with the other CTAs. The exchange only raises thresholds sooner:
// a key that misses it is joined with the rest in the end all the same.
//
// Without it, a CTA that sees a dozen tiles beats its own best in most groups of every one of them; with it, hardly ever
// after the first. A best from elsewhere is a key of the same row, so that it may stand in shared memory like any other.
type sharedBest struct {
	active       ptx.Pred // the row exists
	local, addr  ptx.B64  // key in shared memory when the tile began; its global address
	global       ptx.B64
	localAddress ptx.B32
	record       ptx.B32
}

// publishBests sends the keys found so far to global memory, one or two rows a thread.
func (c *samplers) publishBests() []sharedBest {
	if c.ranking() {
		return nil
	}
	f := c.f
	f.Comment("Exchange bests with the other CTAs: they only filter.")
	threads := c.plan.Pipeline.Team
	var bests []sharedBest
	for first := 0; first < c.t.N; first += threads {
		b := sharedBest{f.Pred("row_active"), f.B64("local_best"), f.B64("best_addr"), f.B64("global_best"), ptx.B32{}, ptx.B32{}}
		inTile, row := f.B32("row_in_tile"), f.B32("batch_row")
		f.AddU32(inTile, c.member, ptx.Imm(first))
		f.SetpU32(ptx.LT, b.active, inTile, ptx.Imm(c.t.N))
		f.MadLoU32(row, c.column, ptx.Imm(c.t.N), inTile)
		f.SetpAndU32(ptx.LT, b.active, row, c.batch, b.active)
		b.localAddress, b.record = c.at(inTile, 8), c.at(inTile, 16)
		f.MadWideU32(b.addr, row, ptx.Imm(8), c.keys)
		f.MovB64(b.local, ptx.Imm(0))
		f.LdSharedB64(b.local, b.localAddress.Off(c.plan.Storage.Keys), ptx.RelaxedCTA).If(b.active)
		some := f.Pred()
		f.SetpU64(ptx.NE, some, b.local, ptx.Imm(0))
		f.RedGlobalMaxU64(b.addr, b.local, ptx.RelaxedGPU).If(some)
		bests = append(bests, b)
	}
	return bests
}

// fetchBests starts the loads of the bests of all CTAs.
func (c *samplers) fetchBests(bests []sharedBest) {
	for _, b := range bests {
		c.f.MovB64(b.global, ptx.Imm(0))
		c.f.LdGlobalB64(b.global, b.addr, ptx.RelaxedGPU).If(b.active)
	}
}

// adoptBests raises the keys in shared memory to them, and the rows' thresholds.
func (c *samplers) adoptBests(bests []sharedBest) {
	for _, b := range bests {
		raise, low, high := c.f.Pred("raise"), c.f.B32(), c.f.B32()
		c.f.SetpU64(ptx.GT, raise, b.global, b.local)
		c.f.RedSharedMaxU64(b.localAddress.Off(c.plan.Storage.Keys), b.global, ptx.RelaxedCTA).If(raise)
		c.f.MovUnpackB64(low, high, b.global)
		c.raise(b.record, high, raise)
	}
}
