package verify

import (
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// plantedHidden is the hidden size of planted heads.
const plantedHidden = 64

var one = bf16(1)

// plant is a problem of one row for each list of levels, which become the row's logits, rounded to bf16: H[b] is the unit
// vector e_b and column b of W holds the levels. One product is not 0, so the logits are exact in any order of summation,
// and what differs is the sampler. Up to 64 rows; all lists have one length.
func plant(spec sampler.Spec, levels ...[]float32) *problem {
	return plantIn(plantedHidden, spec, levels...)
}

// plantOne is plant for one row in fewer columns, which the CPU gets through sooner.
func plantOne(spec sampler.Spec, levels []float32) *problem { return plantIn(8, spec, levels) }

func plantIn(hidden int, spec sampler.Spec, levels ...[]float32) *problem {
	vocab := len(levels[0])
	pr := &problem{
		shape: ir.Shape{Vocab: vocab, Hidden: hidden}, spec: spec, batch: len(levels),
		w: make([]uint16, vocab*hidden), hidden: make([]uint16, len(levels)*hidden),
	}
	for b, row := range levels {
		pr.hidden[b*hidden+b] = one
		for v, l := range row {
			pr.w[v*hidden+b] = bf16(l)
		}
	}
	if spec.Sampler.Random() {
		pr.rows.Seeds, pr.rows.Positions = make([]uint64, pr.batch), []uint64{1}
		for b := range pr.rows.Seeds {
			pr.rows.Seeds[b] = 1000 + uint64(b)
		}
	}
	return pr
}

// repeat is the problem's first row n times; seeds differ.
func (pr *problem) repeat(n int) *problem {
	out := pr.pick(make([]int, n))
	if pr.spec.Sampler.Random() {
		out.rows.Seeds = make([]uint64, n)
		for b := range out.rows.Seeds {
			out.rows.Seeds[b] = 1000 + uint64(b)
		}
	}
	return out
}

// at gives rows temperatures.
func (pr *problem) at(t ...float32) *problem {
	pr.rows.Temperature = t
	return pr
}

// biased gives the rows biases of their own.
func (pr *problem) biased(rows ...[]float32) *problem {
	pr.rows.Bias = slices.Concat(rows...)
	return pr
}

// allow gives the rows masks that let only the ids through.
func (pr *problem) allow(rows ...[]int) *problem {
	words := pr.maskWords()
	pr.rows.Mask = make([]uint32, words*len(rows))
	for b, ids := range rows {
		for _, v := range ids {
			pr.rows.Mask[b*words+v>>5] |= 1 << (v & 31)
		}
	}
	return pr
}

// zeros is a flat row; with puts a value at some places of it.
func zeros(n int) []float32 { return make([]float32, n) }

func with(row []float32, value float32, at ...int) []float32 {
	row = slices.Clone(row)
	for _, v := range at {
		row[v] = value
	}
	return row
}

// every is all ids below n but some.
func every(n int, but ...int) []int {
	return slices.DeleteFunc(span(0, n), func(v int) bool { return slices.Contains(but, v) })
}

// sameRows compares rows of two results bit for bit: slot j of got with slot idx[j] of base.
func sameRows(got, base *sampler.Result, idx []int) error {
	for j, b := range idx {
		if err := sameRow(got, j, base, b); err != nil {
			return err
		}
	}
	return nil
}
