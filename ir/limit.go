package ir

// LogitLimits reports whether Base, behind the edits, is no more than the logit times a positive number: then what a score of a block has
// to reach is a limit of the block's logits, which is worked out once for all its tokens (Limit). A mask is not in it: where few
// tokens are allowed, most of the others would pass.
func (c Computation) LogitLimits() bool {
	ch := c.Normalize().Chain.Unedited()
	positive := !(ch.Scale < 0)
	ch.Scale, ch.Temperature = 0, false
	return c.Sampler.Random() && c.TopN == 0 && positive && ch == Chain{}
}

// limitSlack is by how much of themselves a limit's terms are lowered, for what rounding may have raised it.
const limitSlack = 1.0 / (1 << 20)

// Limit is the graph of a logit that does not reach InThreshold with the noise of InCode, for LogitLimits: the threshold less the bound
// of the noise, over alpha, and a little less. It proves nothing by itself, since it is rounded and its reciprocal is approximate:
// where Bound of the limit's own Base is below the threshold, no logit reaches it that does not pass the limit, for both are monotone.
// The slack is there so that it nearly always is.
func Limit(c Computation) *Graph {
	c = c.Normalize()
	b := newBuilder()
	threshold, noise := b.input(InThreshold), b.boundOf(c, noiseCeiling, b.f(0))
	less := b.op(OpMul, b.op(OpCopysign, b.f(limitSlack), threshold), b.f(-1))
	limit := b.op(OpMul, threshold, b.op(OpAdd, b.f(1), less)) // infinite for a settled row's threshold
	limit = b.op(OpFma, noise, b.f(-1-limitSlack), limit)
	if c.RowScales() {
		limit = b.op(OpMul, limit, b.op(OpRcp, b.input(InAlpha)))
	}
	if scale := c.Chain.Unedited().Scale; scale != 0 {
		limit = b.op(OpMul, limit, b.f(1/scale))
	}
	return Optimize(b.finish(limit))
}
