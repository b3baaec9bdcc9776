package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// Philox4x32 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): multipliers and Weyl
// constants, and the fixed key of the per-token call (design section 3: the first digits of pi).
const (
	philoxM0     uint32 = 0xD2511F53
	philoxM1     uint32 = 0xCD9E8D57
	philoxW0     uint32 = 0x9E3779B9
	philoxW1     uint32 = 0xBB67AE85
	philoxRounds        = 10
	tokenKey0    uint32 = 0x243F6A88
	tokenKey1    uint32 = 0x85A308D3
)

// tokenKey returns the keys of a round of the per-token call, which are constants.
func tokenKey(round int) (k0, k1 ptx.Imm) {
	r := uint32(round)
	return ptx.Imm(tokenKey0 + r*philoxW0), ptx.Imm(tokenKey1 + r*philoxW1)
}

// mulHiLo multiplies by a constant to 64 bits.
func mulHiLo(f *ptx.Func, a ptx.Src32, m uint32) (hi, lo ptx.B32) {
	wide := f.B64()
	hi, lo = f.B32(), f.B32()
	f.MulWideU32(wide, a, ptx.Imm(m))
	f.MovUnpackB64(lo, hi, wide)
	return hi, lo
}

// xor returns a ^ b ^ c.
func xor(f *ptx.Func, a, b, c ptx.SrcBits32) ptx.B32 {
	d := f.B32()
	f.Lop3B32(d, a, b, c, xor3)
	return d
}

// philoxRound emits one round.
func philoxRound(f *ptx.Func, c [4]ptx.B32, k0, k1 ptx.SrcBits32) [4]ptx.B32 {
	hi0, lo0 := mulHiLo(f, c[0], philoxM0)
	hi1, lo1 := mulHiLo(f, c[2], philoxM1)
	return [4]ptx.B32{xor(f, hi1, c[1], k0), lo1, xor(f, hi0, c[3], k1), lo0}
}

// rowNoise are the words of one row that the per-token calls share. Of the first two rounds of
// philox(counter = (pair, s0, s1, s2)), half depends on the row alone and half on the pair alone: what is left for every
// element is one product.
type rowNoise struct {
	s2, p, q, r ptx.B32
}

// rowState emits the row's call, (s0, s1, s2, _) = philox(counter = (position, draw, tag), key = seed), and the row's
// share of rounds 0 and 1.
func rowState(f *ptx.Func, counter [4]ptx.B32, key [2]ptx.B32) rowNoise {
	c := counter
	k0, k1 := key[0], key[1]
	for round := range philoxRounds {
		if round > 0 {
			n0, n1 := f.B32(), f.B32()
			f.AddU32(n0, k0, ptx.Imm(philoxW0))
			f.AddU32(n1, k1, ptx.Imm(philoxW1))
			k0, k1 = n0, n1
		}
		c = philoxRound(f, c, k0, k1)
	}
	s0, s1, s2 := c[0], c[1], c[2]

	// Round 0 turns (pair, s0, s1, s2) into (hi1^s0^k0, lo1, hi0^s2^k1, lo0) with hi1:lo1 = M1 s1 and hi0:lo0 = M0 pair.
	k0a, k1a := tokenKey(0)
	hi1, lo1 := mulHiLo(f, s1, philoxM1)
	c0 := xor(f, hi1, s0, k0a)
	n := rowNoise{s2: f.B32()}
	f.XorB32(n.s2, s2, k1a)
	// Round 1 of (c0, lo1, c2, lo0): M0 c0 is the row's.
	k0b, k1b := tokenKey(1)
	hi, lo := mulHiLo(f, c0, philoxM0)
	n.p, n.q, n.r = f.B32(), f.B32(), lo
	f.XorB32(n.p, lo1, k0b)
	f.XorB32(n.q, hi, k1b)
	return n
}

// blockBit tells the counters of blocks from those of tokens (docs/noise.md).
const blockBit = 1 << 31

// pairNoise are the words of one pair of tokens, or of one block of them, that all rows share: M0 times the counter.
type pairNoise struct {
	hi, lo ptx.B32
}

func pairState(f *ptx.Func, pair ptx.B32) pairNoise {
	hi, lo := mulHiLo(f, pair, philoxM0)
	return pairNoise{hi, lo}
}

// tokenState is the per-token call short of its last round: enough for the high words of both tokens by two short
// products, and for the low words if they turn out to be needed.
type tokenState struct {
	c [4]ptx.B32
}

// tokenRounds runs the per-token call up to its last round.
func tokenRounds(f *ptx.Func, row rowNoise, pair pairNoise) tokenState {
	c2 := f.B32()
	f.XorB32(c2, pair.hi, row.s2)
	hi, lo := mulHiLo(f, c2, philoxM1)
	c := [4]ptx.B32{f.B32(), lo, f.B32(), row.r}
	f.XorB32(c[0], hi, row.p)
	f.XorB32(c[2], row.q, pair.lo)
	for round := 2; round < philoxRounds-1; round++ {
		k0, k1 := tokenKey(round)
		c = philoxRound(f, c, k0, k1)
	}
	return tokenState{c}
}

// high returns words 1 and 3 of the call: the high halves of the bits of the pair's token with bit 3 clear and of the
// one with it set.
func (s tokenState) high(f *ptx.Func) [2]ptx.B32 {
	w := [2]ptx.B32{f.B32("high"), f.B32("high")}
	f.MulLoU32(w[0], s.c[2], imm32(philoxM1))
	f.MulLoU32(w[1], s.c[0], imm32(philoxM0))
	return w
}

// low returns words 0 and 2, the low halves.
func (s tokenState) low(f *ptx.Func) [2]ptx.B32 {
	k0, k1 := tokenKey(philoxRounds - 1)
	hi0, hi1 := f.B32(), f.B32()
	f.MulHiU32(hi0, s.c[0], imm32(philoxM0))
	f.MulHiU32(hi1, s.c[2], imm32(philoxM1))
	return [2]ptx.B32{xor(f, hi1, s.c[1], k0), xor(f, hi0, s.c[3], k1)}
}

// first returns the place of the block's first token, the top of word 2 of a block's call.
func (s tokenState) first(f *ptx.Func) ptx.B32 {
	_, k1 := tokenKey(philoxRounds - 1)
	hi0, place := f.B32(), f.B32("first")
	f.MulHiU32(hi0, s.c[0], imm32(philoxM0))
	f.ShrU32(place, xor(f, hi0, s.c[3], k1), ptx.Imm(28))
	return place
}

func imm32(x uint32) ptx.Imm { return ptx.Imm(x) }

// codeOf returns the code of a high word (ir.NoiseCode).
func codeOf(f *ptx.Func, high ptx.B32) ptx.B32 {
	x, code := f.F32(), f.B32("code")
	f.CvtRzF32U32(x, high)
	f.MovB32(code, x)
	f.ShrU32(code, code, ptx.Imm(ir.CodeMantissa))
	f.SubU32(code, ptx.Imm(ir.CodeTop), code)
	f.MinU32(code, code, ptx.Imm(ir.CodeLargest))
	return code
}

// byteOf returns the i-th byte of a word.
func byteOf(f *ptx.Func, word ptx.B32, i int) ptx.B32 {
	d := f.B32("byte")
	f.PrmtB32(d, word, ptx.Imm(0), ptx.Imm(0x4440|int64(i)))
	return d
}

// packCodes puts up to four codes into the bytes of a word, the first lowest.
func packCodes(f *ptx.Func, codes []ptx.B32) ptx.B32 {
	pair := func(a, b ptx.B32, selector int64) ptx.B32 {
		d := f.B32("codes")
		f.PrmtB32(d, a, b, ptx.Imm(selector))
		return d
	}
	low := pair(codes[0], codes[1], 0x1140) // the upper bytes of a code are zero
	if len(codes) == 2 {
		return low
	}
	return pair(low, pair(codes[2], codes[3], 0x1140), 0x5410)
}

// codeValue returns the float that stands for the i-th code of a word (ir.CodeValue).
func codeValue(f *ptx.Func, word ptx.B32, i int) ptx.F32 {
	bits, x := f.B32(), f.F32("code_value")
	f.PrmtB32(bits, word, ptx.Imm(ir.CodeFloat), ptx.Imm(0x7044|int64(i)<<8))
	f.MovB32(x, bits)
	return x
}
