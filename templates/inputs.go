package templates

import (
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/ptx"
)

// tokenInputs are a thread's tokens of a tile, eight apart, and what is loaded for them once a tile.
type tokenInputs struct {
	ids   []ptx.B32
	valid []ptx.Pred // the id is in the vocabulary
	bias  []ptx.F32  // of a bias vector
	// biasAddr points into row 0 of a bias matrix, maskAddr to the mask word in row 0; hasMask says that the word exists.
	biasAddr, maskAddr ptx.B64
	hasMask            ptx.Pred
}

// startTile starts the loads that depend on the tile alone. The thread's tokens share a mask word.
func (c *samplers) startTile(ids []ptx.B32, valid []ptx.Pred) tokenInputs {
	f := c.f
	t := tokenInputs{ids: ids, valid: valid}
	if c.c.Chain.Bias != ir.BiasNone {
		t.biasAddr = f.B64("bias_addr")
		f.MadWideU32(t.biasAddr, ids[0], ptx.Imm(4), c.biasBase)
	}
	if c.c.Chain.Bias == ir.BiasVector {
		for i := range ids {
			t.bias = append(t.bias, c.guardedLoad(t.biasAddr.Off(32*i), valid[i], "bias"))
		}
	}
	if c.c.Chain.Mask {
		word := f.B32("mask_word_index")
		f.ShrU32(word, ids[0], ptx.Imm(5))
		t.hasMask, t.maskAddr = f.Pred("has_mask"), f.B64("mask_addr")
		f.SetpU32(ptx.LT, t.hasMask, word, c.maskWords)
		f.MadWideU32(t.maskAddr, word, ptx.Imm(4), c.maskBase)
	}
	return t
}

// rowInputs loads what depends on row and token: bias, and mask bits; maskBits select the tokens in their word.
func (c *samplers) rowInputs(t *tokenInputs, tokens []candidate, columns ptx.B32, offset int, maskBits []ptx.B32) {
	f := c.f
	if c.c.Chain.Bias == ir.BiasVector {
		for i := range tokens {
			tokens[i].in.f[ir.InBias] = t.bias[i]
		}
	}
	if c.c.Chain.Bias != ir.BiasMatrix && !c.c.Chain.Mask {
		return
	}
	row, active := c.parametersOf(columns, offset)
	if c.c.Chain.Bias == ir.BiasMatrix {
		addr := f.B64()
		f.MadWideU32(addr, row, c.biasStride, t.biasAddr)
		for i := range tokens {
			p := f.Pred()
			f.AndPred(p, active, t.valid[i])
			tokens[i].in.f[ir.InBias] = c.guardedLoad(addr.Off(32*i), p, "bias")
		}
	}
	if c.c.Chain.Mask {
		c.maskInputs(t, tokens, row, active, maskBits)
	}
}

func (c *samplers) maskInputs(t *tokenInputs, tokens []candidate, row ptx.B32, active ptx.Pred, maskBits []ptx.B32) {
	f := c.f
	addr, word, there := f.B64(), f.B32("mask_word"), f.Pred()
	f.MadWideU32(addr, row, c.maskStride, t.maskAddr)
	f.AndPred(there, active, t.hasMask)
	f.MovB32(word, ptx.Imm(0))
	f.LdGlobalB32(word, addr).If(there)
	for i := range tokens {
		bit, allowed := f.B32(), f.Pred("allowed")
		f.AndB32(bit, word, maskBits[i])
		f.SetpB32(ptx.NE, allowed, bit, ptx.Imm(0))
		tokens[i].in.p[ir.InAllowed] = allowed
	}
}
