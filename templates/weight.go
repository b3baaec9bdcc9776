package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// weigher computes weights of tokens (ir.Weight, docs/truncation.md): operations that are exact or correctly rounded, so that
// they are the reference's to the last bit.
type weigher struct {
	f      *ptx.Func
	power  *ir.Graph
	top    ptx.F32 // the row's largest logit
	scale  ptx.F32 // log2(e) over the temperature
	length ptx.B32 // bits of the vocabulary size
	most   ptx.B64 // weight of the likeliest token
}

// The least temperature in a scale, and the octaves from which on every weight is 0 (ir.WeightScale, ir.Weight).
const (
	minWeightTemperature = 0x1p-126
	minOctaves           = -64
	weightBits           = 62
)

func newWeigher(f *ptx.Func, top, temperature ptx.F32, vocab ptx.B32) *weigher {
	w := &weigher{f: f, power: ir.Power2(), top: top, scale: f.F32("weight_scale"), length: f.B32("vocab_bits"), most: f.B64("max_weight")}
	t, cold, inverse := f.F32("weight_temperature"), f.Pred("cold"), f.F32()
	f.SetpF32(ptx.EQ, cold, temperature, ptx.F32Imm(0))
	f.SelpF32(t, ptx.F32Imm(1), temperature, cold)
	boundTemperature(f, t)
	f.CvtRnF32F64(inverse, reciprocal(f, widen(f, t)))
	f.MulF32(w.scale, inverse, ptx.F32Imm(log2e), ptx.RN)
	w.measure(vocab)
	return w
}

// boundTemperature holds a temperature to the least that it may be in weights, and that of a row that fails to a number.
func boundTemperature(f *ptx.Func, t ptx.F32) {
	f.MaxF32(t, t, ptx.F32Imm(minWeightTemperature))
	f.MinF32(t, t, ptx.F32Imm(ir.MaxTemperature))
}

// measure sets what depends on the size of the vocabulary.
func (w *weigher) measure(vocab ptx.B32) {
	f, place := w.f, w.f.B32()
	f.ClzB32(w.length, vocab)
	f.SubU32(w.length, ptx.Imm(32), w.length)
	f.SubU32(place, ptx.Imm(weightBits), w.length)
	f.MovB64(w.most, ptx.Imm(1))
	f.ShlB64(w.most, w.most, place)
}

// log2e is log2(e) in float32.
const log2e = 1.44269502162933349609375

// of is the weight of a token with logit z, at most the top.
func (w *weigher) of(z ptx.F32) ptx.B64 {
	f := w.f
	minusTop, x, n, fraction := f.F32(), f.F32("octaves"), f.F32(), f.F32("fraction")
	f.NegF32(minusTop, w.top)
	f.AddF32(x, z, minusTop, ptx.RN)
	f.MulF32(x, x, w.scale, ptx.RN)
	counts, equal := f.Pred("counts"), f.Pred("is_top")
	f.SetpF32(ptx.GT, counts, x, ptx.F32Imm(minOctaves)) // false for NaN
	f.SelpF32(x, x, ptx.F32Imm(0), counts)
	f.CvtRniF32F32(n, x)
	f.SubF32(fraction, x, n, ptx.RN)
	y := lower(f, w.power, inputs{f: map[ir.Input]ptx.F32{ir.InFraction: fraction}})
	scaled, bits, whole, m, shift, half, weight := f.F32(), f.B32(), f.B32(), f.B64(), f.B32("shift"), f.B64(), f.B64("weight")
	f.MulF32(scaled, y, ptx.F32Imm(1<<30), ptx.RN)
	f.CvtRziU32F32(bits, scaled)
	f.MovPackB64(m, imm(f, 0), bits)
	f.CvtRziS32F32(whole, n)
	f.SubU32(shift, w.length, whole)
	less := f.B32()
	f.SubU32(less, shift, ptx.Imm(1))
	f.MovB64(half, ptx.Imm(1))
	f.ShlB64(half, half, less)
	f.AddU64(m, m, half)
	f.ShrU64(weight, m, shift) // 0 from 64 on
	f.SelpB64(weight, weight, ptx.Imm(0), counts)
	f.SetpF32(ptx.EQ, equal, z, w.top)
	f.SelpB64(weight, w.most, weight, equal)
	return weight
}

// nucleusTarget is ir.NucleusTarget: the weight that the prefix of top-p has to reach.
func (w *weigher) nucleusTarget(total ptx.B64, p ptx.F32) ptx.B64 {
	f := w.f
	scaled, share, tail, more := f.F32(), f.B64(), f.B64("tail"), f.B64()
	f.MulF32(scaled, p, ptx.F32Imm(1<<32), ptx.RN)
	f.CvtRziU64F32(share, scaled)
	f.MovB64(tail, ptx.Imm(1<<32))
	f.SubU64(tail, tail, share)
	f.ShrU64(more, tail, ptx.Imm(20))
	f.AddU64(tail, tail, more)
	f.AddU64(tail, tail, ptx.Imm(1<<7))
	high, low, dropped, target, none := f.B64(), f.B64(), f.B64("dropped"), f.B64("target"), f.Pred("all_dropped")
	f.MulHiU64(high, tail, total)
	f.MulLoU64(low, tail, total)
	f.ShlB64(high, high, ptx.Imm(32))
	f.ShrU64(low, low, ptx.Imm(32))
	f.OrB64(dropped, high, low)
	f.SubU64(target, total, dropped)
	f.SetpU64(ptx.GE, none, dropped, total)
	f.MovB64(target, ptx.Imm(1)).If(none)
	return target
}

// minPThreshold is ir.MinPThreshold: the least weight that min-p keeps.
func (w *weigher) minPThreshold(p ptx.F32) ptx.B64 {
	f := w.f
	most, x, least, back, cut := f.F32(), f.F32(), f.B64("least_weight"), f.F32(), f.Pred("cut_off")
	f.CvtRnF32U64(most, w.most) // a power of two
	f.MulF32(x, p, most, ptx.RN)
	f.CvtRziU64F32(least, x)
	f.CvtRnF32U64(back, least)
	f.SetpF32(ptx.LT, cut, back, x)
	f.AddU64(least, least, ptx.Imm(1)).If(cut)
	return least
}
