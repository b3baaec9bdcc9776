package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
)

// Where two distributions are added up (ir.Computation.SecondSum) the second has pairs of its own in shared memory, scales, partial sums
// behind those of the first, and a pass of its own over a tile, behind that of the first: what a thread keeps is the same. If it is a
// mass alone, of which top-p and repeated draws are shares, tiles none of whose rows want it make no such pass.

// second is the samplers as they add up the second distribution; nil where there is none.
func (c *samplers) second() *samplers {
	whole, ok := c.whole.SecondSum()
	if !ok || !c.summing() {
		return nil
	}
	k, plan, sig, s := *c.skeleton, *c.plan, *c.sig, *c
	plan.Storage.Sums, plan.Storage.Scales = plan.Storage.SecondSums, plan.Storage.SecondScales
	sig.masses = sig.secondMasses
	k.behind = partialBytes(c.whole)
	k.plan, k.sig, k.whole, k.c = &plan, &sig, whole, whole
	k.c.Chain = c.c.Chain
	k.sum = newSumGraphs(k.c, k.addedUp())
	s.skeleton = &k
	return &s
}

// eachSecond runs body with the second distribution, if there is one.
func (c *samplers) eachSecond(body func(s *samplers)) {
	if s := c.second(); s != nil {
		body(s)
	}
}

// partialBytes is what a CTA leaves of a row in the first distribution, rounded up to a multiple of 8.
func partialBytes(c ir.Computation) int {
	return (manifest.PartialBytes(c.LogProb != ir.NoLogProb) + 7) &^ 7
}

// tellsLogSum reports whether the log-sum-exp is that of the distribution at hand.
func (c *skeleton) tellsLogSum() bool {
	second, ok := c.whole.SecondSum()
	return c.c.LogSumExp && !(ok && second.LogSumExp && c.behind == 0)
}

// secondScale is a row's scale in the second distribution.
func (c *samplers) secondScale(row ptx.B32, p *preparedRow, open ptx.Pred) {
	c.eachSecond(func(s *samplers) {
		if s.scaledSums() {
			_, scale := s.sumConstants(row)
			c.f.MovF32(p.secondScale, scale).If(open)
		}
	})
}

// storeSecond empties a row's pairs of the second distribution.
func (c *samplers) storeSecond(inTile ptx.B32, p preparedRow) {
	c.eachSecond(func(s *samplers) {
		if s.scaledSums() {
			c.f.StSharedF32(c.at(inTile, sumBytes).Off(s.plan.Storage.Scales), p.secondScale)
		}
		s.emptySums(inTile)
	})
}

// sumSecond adds up a tile in the second distribution.
func (c *consumer) sumSecond(t tiles) {
	c.eachSecond(func(s *samplers) {
		own := *c
		own.samplers = s
		s.whereAdding(func() {
			if len(c.acc) > perGroup {
				own.sumGroups(t)
				return
			}
			only := own.groupOf(t.at(0), c.acc, c.colInN, c.codeAddress())
			own.addUpAll(only, own.scanSums(only))
		})
	})
}

func (c *tensorSampler) sumSecond(t *laneTile, buffer ptx.B32) {
	c.eachSecond(func(s *samplers) {
		own := *c
		own.samplers = s
		s.whereAdding(func() { own.sumGroups(t, buffer) })
	})
}

// readsSecond reports whether the kernel that draws from lists has a use for the rows' sums in the second distribution.
func (r *resolver) readsSecond() bool {
	return r.c.NucleusOfSecond() && !r.further || r.c.RepeatsOfSecond()
}

// nucleusMass is where the sums lie that top-p takes its share of, repeatedMass those of repeated draws.
func (r *resolver) nucleusMass() (masses ptx.B64, tempered bool) {
	if r.c.NucleusOfSecond() {
		second, _ := r.c.SecondSum()
		return r.secondMasses, tellsTempered(second)
	}
	return r.masses, tellsTempered(r.c)
}

func (r *resolver) repeatedMass() ptx.B64 {
	if r.c.RepeatsOfSecond() {
		return r.secondMasses
	}
	return r.masses
}
