package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// group is what a thread compares at a time: tokens of a few rows, which are columns of the tile.
type group struct {
	columns  ptx.B32 // the thread's first column
	id       ptx.B32 // the thread's first token
	elements int
	place    func(i int) int // columns of an element past the first
	gather   func(g *group, i int) element
	// first is the group's first column past those of columns, codes the bytes of codes before its own.
	first, codes int
	// bare leaves out what a row gives its tokens: bias and mask.
	bare bool
	// last is set in the last group of a tile; nil where there is one group only.
	last *ptx.Pred
}

// element is one row of a group with the thread's tokens for it.
type element struct {
	offset int // columns past the group's first of this thread
	tokens []candidate
	// code bounds the noise of all the tokens, which are of one block; it is not set without noise. place is that of the
	// block's first token; it is set where noise is drawn token by token.
	code  ptx.F32
	place ptx.B32
}

// candidate is a token that a thread holds against a row's best.
type candidate struct {
	in    inputs
	pad   ptx.F32 // 0, or -inf for an id past the vocabulary
	below int     // ids past the thread's first
}

func newInputs(logit ptx.F32) inputs {
	return inputs{f: map[ir.Input]ptx.F32{ir.InLogit: logit}, u: map[ir.Input]ptx.B32{}, p: map[ir.Input]ptx.Pred{}}
}

// scanned is an element after its tokens' scores without noise are known.
type scanned struct {
	element
	record rowRecord
	bases  []ptx.F32
}

// compare holds a group against the rows' bests. Only a bound of an element's scores is compared; where any in the warp
// reaches the row's threshold, the tokens that do so each wait in the warp's queue to be scored in full, 32 at a time.
func (c *samplers) compare(g group) {
	if c.c.Sampler == ir.Grouped {
		c.compareBlocks(g)
		return
	}
	f := c.f
	hit, elements := f.Pred("hit"), c.scanOnce(g)
	c.reaches(hit, elements, c.topReaches(g))
	c.drain(g, hit, elements)
}

// scanOnce is the scan of a group that the epilogue enters once a tile, so that its tokens are added up there too.
func (c *samplers) scanOnce(g group) []scanned {
	elements := c.scan(g)
	if c.summing() && !c.sums.apart {
		c.addUp(g, c.summed(elements))
	}
	return elements
}

// reaches sets hit if any of the elements may reach its row's threshold, or the bound of its likeliest tokens (topReaches).
func (c *samplers) reaches(hit ptx.Pred, elements []scanned, tops []ptx.F32) {
	for i := range elements {
		e := &elements[i]
		c.either(hit, c.bounded(e, c.top(e)), e.record.threshold, i == 0)
		c.eitherTop(hit, e, tops, i)
	}
}

// scan computes the scores of a group without noise.
func (c *samplers) scan(g group) []scanned { return c.scanBy(g, c.base) }

// scanBy computes what a graph makes of a group's tokens.
func (c *samplers) scanBy(g group, graph *ir.Graph) []scanned {
	return c.scanOf(g, graph, c.records(&g))
}

// scanOf is scanBy with the records of the elements' rows.
func (c *samplers) scanOf(g group, graph *ir.Graph, record func(i int) rowRecord) (elements []scanned) {
	for i := range g.elements {
		e := scanned{element: g.gather(&g, i), record: record(i)}
		for _, t := range e.tokens {
			t.in.f[ir.InAlpha], t.in.f[ir.InPad] = e.record.alpha, t.pad
			e.bases = append(e.bases, lower(c.f, graph, t.in))
		}
		elements = append(elements, e)
	}
	return elements
}

// records loads the record of an element's row when it is asked for.
func (c *samplers) records(g *group) func(i int) rowRecord {
	at := c.at(g.columns, 16)
	return func(i int) rowRecord {
		return c.loadRecord(at.Off(c.plan.Storage.Rows + 16*(g.first+g.place(i))))
	}
}

// top is the largest of an element's scores without noise, or NaN.
func (c *samplers) top(e *scanned) ptx.F32 {
	top := e.bases[0]
	for _, base := range e.bases[1:] {
		larger := c.f.F32("top")
		c.f.MaxF32(larger, top, base, ptx.NaN)
		top = larger
	}
	return top
}

// bounded returns the bound of a score without noise, under the row's cap.
func (c *samplers) bounded(e *scanned, base ptx.F32) ptx.F32 {
	in := inputs{f: map[ir.Input]ptx.F32{ir.InBase: base, ir.InTau: e.record.tau, ir.InCode: e.code}}
	bound := c.f.F32("bound")
	c.f.MinF32(bound, lower(c.f, c.bound, in), e.record.cap)
	return bound
}

// either sets p, or leaves it set, unless a < b: a NaN of either sets it.
func (c *samplers) either(p ptx.Pred, a, b ptx.F32, first bool) {
	if first {
		c.f.SetpF32(ptx.GEU, p, a, b)
	} else {
		c.f.SetpOrF32(ptx.GEU, p, a, b, p)
	}
}

// guardedLoad loads a float where the predicate holds, else gives 0.
func (c *samplers) guardedLoad(addr ptx.GlobalAddr, p ptx.Pred, name string) ptx.F32 {
	r := c.f.F32(name)
	c.f.MovF32(r, ptx.F32Imm(0))
	c.f.LdGlobalF32(r, addr).If(p)
	return r
}
