package templates

import (
	"math/bits"

	"github.com/fsgen/fsgen/ptx"
)

// What the sum of a row's powers, in float32, may be off what the weights of all its tokens add up to. In units of 2^-24, half a place of
// a float32, and each at its worst in the same direction for all tokens:
//
//   - An exponent is a difference times a scale that is rounded itself: 3 ln 2 for each octave that a token lies from its CTA's reference,
//     and once more for each by which that is moved to the row's. A reference lies no more than ir.SumLimit below a token, so that these
//     are 2 ir.SumLimit octaves and those from the token to the row's largest, which are 15.2 in the mean of the weights where a million
//     tokens lie as deep as makes the most of them. That is 165.
//   - A power is off by 2.8 (ex2.approx, 2^-22.5), and the weight that it stands for by 1.4. It is moved four times, by another power and
//     a product. That is 20.
//   - Of additions each is off by 1: 17 of a tile's lanes, of sets of warps, and of lanes that join CTAs. Those from tile to tile are
//     counted, and so are those from CTA to CTA, of which a quarter come one after the other (rowLanes).
//
// So fineMargin, 320 of these, holds for fineAdditions of the last kind, and massMargin for as many as there are vocabularies for.
const (
	massMargin    = 0x1p-14
	fineMargin    = 0x1.4p-16
	fineAdditions = 112
)

// noteRounding makes the sum of a row negative if more than fineAdditions have gone into it, or nobody has counted them: for the kernel that
// draws with replacement (roundingOf), and where nothing else reads it.
func (c *samplers) noteRounding(sum ptx.F32) ptx.F32 {
	if !c.whole.FindsPeaks() {
		return sum
	}
	f, noted := c.f, c.f.F32("noted_sum")
	f.NegF32(noted, sum)
	if c.sharded() {
		return noted
	}
	room, additions, fine := f.B32("additions_left"), f.B32("tile_additions"), f.Pred("is_fine")
	f.MovB32(room, ptx.NctaidX)
	f.ShrU32(room, room, ptx.Imm(bits.TrailingZeros(uint(rowLanes))))
	f.MinU32(room, room, ptx.Imm(fineAdditions))
	f.SubU32(room, ptx.Imm(fineAdditions), room)
	_, stride := c.clusters() // each takes every stride-th group of tiles
	f.MulLoU32(room, room, stride)
	f.MulLoU32(additions, c.recallDeal().groups, ptx.Imm(c.additionsOfTurn()))
	f.SetpU32(ptx.LE, fine, additions, room)
	f.SelpF32(noted, sum, noted, fine)
	return noted
}

// additionsOfTurn is how often, at the most, a turn of a CTA adds to a column's sum of a warp: one for each 64 rows, of which the turns of
// two warpgroups are shared out between them.
func (c *skeleton) additionsOfTurn() int {
	if !c.t.PingPong {
		return 1
	}
	return (c.t.M/productRows + 1) / 2
}

// roundingOf takes a sum apart that noteRounding has made, and returns the part by which shares of it may be off.
func (r *resolver) roundingOf(noted ptx.F32) (sum ptx.F32, rounding ptx.SrcF32) {
	if !r.c.FindsPeaks() {
		return noted, ptx.F32Imm(shareMargin)
	}
	f, coarse, part := r.f, r.f.Pred("is_coarse"), r.f.F32("rounding")
	sum = f.F32("mass")
	f.SetpF32(ptx.LT, coarse, noted, ptx.F32Imm(0))
	f.AbsF32(sum, noted)
	f.SelpF32(part, ptx.F32Imm(shareMargin), ptx.F32Imm(fineShareMargin), coarse)
	return sum, part
}
