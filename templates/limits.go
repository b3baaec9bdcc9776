package templates

import (
	"math"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/tiling"
)

// A block's noise is bounded by one code for all its tokens (ir.NoiseCode), so that what a row's threshold asks of a score it asks of the
// block's logits: to pass a limit, worked out once for 16 tokens. A logit is then compared in one instruction instead of four.

// limited reports whether logits are compared with limits.
func (c *samplers) limited() bool { return c.plan.Limited() && !c.options.Exhaustive }

// storeLimits works out the limits of a warp's blocks of the tile, a word's columns a lane at a time.
func (c *consumer) storeLimits() {
	f, l := c.f, c.layout
	c.eachWord("limit_word", "limits_known", func(word ptx.B32) {
		_, column := c.wordPlace(l, word, imm(f, 0), imm(f, 0))
		codes, packed := c.wordAddress(word), f.B32("code_word")
		f.LdSharedB32(packed, codes.Off(c.plan.Storage.Codes))
		records, limits := c.at(column, 16), make([]ptx.F32, len(l.offsets))
		for i, offset := range l.offsets {
			record := c.loadRecord(records.Off(c.plan.Storage.Rows + 16*offset))
			limits[i] = c.limit(record, codeValue(f, packed, i))
		}
		f.StSharedV4F32(c.limitAddress(word).Off(c.plan.Storage.Limits), limits)
	})
	f.BarWarpSync(ptx.Imm(fullWarp))
}

// limitAddress is the address register of the limits of one of the warp's words, short of the storage's offset: limits lie as codes do, but
// wider.
func (c *samplers) limitAddress(word ptx.B32) ptx.B32 {
	f, base, at := c.f, c.f.B32(), c.f.B32("limit_addr")
	f.SubU32(base, c.codes, c.smem)
	f.MadLoU32(base, base, ptx.Imm(tiling.LimitWordBytes/wordBytes), c.smem)
	f.MadLoU32(at, word, ptx.Imm(tiling.LimitWordBytes), base)
	return at
}

// limit is a logit that does not reach the row's threshold with the noise of a code: NaN, which every logit passes, if none is known. What
// Base and Bound make of it is held against the threshold, so that rounding cannot make it too high (ir.Limit).
func (c *samplers) limit(r rowRecord, code ptx.F32) ptx.F32 {
	f, zero, limit := c.f, c.f.F32("zero"), c.f.F32("limit")
	f.MovF32(zero, ptx.F32Imm(0))
	known := lower(f, c.limits, inputs{f: map[ir.Input]ptx.F32{ir.InThreshold: r.threshold, ir.InAlpha: r.alpha, ir.InTau: r.tau, ir.InCode: code}})
	in, nan, below := newInputs(known), f.F32(), f.Pred("below")
	in.f[ir.InAlpha], in.f[ir.InPad] = r.alpha, zero
	e := scanned{element: element{code: code}, record: r}
	f.SetpF32(ptx.LT, below, c.bounded(&e, lower(f, c.base, in)), r.threshold)
	f.MovF32(nan, ptx.F32Imm(math.NaN()))
	f.SelpF32(limit, known, nan, below)
	return limit
}

// passLimits sets the bits of the groups in which a logit of the thread passes its limit.
func (c *consumer) passLimits(groups ptx.B32, passes ptx.Pred) {
	f := c.f
	c.eachOwnWord(func(g int, at func(byte int) ptx.SharedAddr, z []ptx.F32) {
		limits := f.NewF32s("limits", perGroup/2)
		f.LdSharedV4F32(limits, at(0))
		for i, limit := range limits {
			top, token := f.F32("top"), firstToken(i)
			f.MaxF32(top, z[token], z[token+2], ptx.NaN)
			if i == 0 {
				f.SetpF32(ptx.GTU, passes, top, limit)
			} else {
				f.SetpOrF32(ptx.GTU, passes, top, limit, passes)
			}
		}
		f.OrB32(groups, groups, ptx.Imm(1<<g)).If(passes)
	})
}
