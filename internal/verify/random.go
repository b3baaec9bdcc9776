package verify

import (
	"math"
	"math/rand/v2"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// logitSD is the standard deviation of random logits: large enough for clear winners, small enough for many candidates.
const logitSD = 2.5

// normals returns n bf16 values drawn from N(0, sd^2).
func normals(rng *rand.Rand, n int, sd float64) []uint16 {
	out := make([]uint16, n)
	for i := range out {
		out[i] = bf16(float32(rng.NormFloat64() * sd))
	}
	return out
}

// weights are random weights whose logits have logitSD under hidden states from N(0, 1).
func (p *probe) weights(vocab, hidden int) []uint16 {
	return normals(p.rng, vocab*hidden, logitSD/math.Sqrt(float64(hidden)))
}

// temperatures are what random rows are given.
var temperatures = []float32{0, 1e-5, 0.7, 1, 3}

// random is a problem with random hidden states and parameters; of the parameters there is one for all rows where shared
// is set.
func (p *probe) random(w []uint16, shape ir.Shape, batch int, spec sampler.Spec, shared bool) *problem {
	pr := &problem{shape: shape, spec: spec, w: w, batch: batch, hidden: normals(p.rng, batch*shape.Hidden, 1)}
	n := batch
	if shared {
		n = 1
	}
	p.keys(pr, n)
	p.slots(pr)
	c := spec.Chain
	if c.Temperature {
		pr.rows.Temperature = make([]float32, n)
		for i := range pr.rows.Temperature {
			pr.rows.Temperature[i] = temperatures[p.rng.IntN(len(temperatures))]
		}
	}
	p.filters(pr, n)
	switch c.Bias {
	case ir.BiasVector:
		pr.rows.Bias = p.floats(shape.Vocab)
	case ir.BiasMatrix:
		pr.rows.Bias = p.floats(batch * shape.Vocab)
	}
	if c.Mask {
		p.masks(pr, n)
	}
	p.edits(pr, n)
	p.lists(pr, n)
	return pr
}

// slots has the rows of a plan with slots take each its own set of parameters or another's, in no order.
func (p *probe) slots(pr *problem) {
	if !pr.spec.Slots {
		return
	}
	pr.rows.SlotCount = pr.batch
	for range pr.batch {
		pr.rows.Slots = append(pr.rows.Slots, int32(p.rng.IntN(pr.batch)))
	}
}

// keys gives n rows seeds and positions, and the call its draw and tag.
func (p *probe) keys(pr *problem, n int) {
	if !pr.spec.Sampler.Random() {
		return
	}
	pr.rows.Seeds, pr.rows.Positions = make([]uint64, n), make([]uint64, n)
	for i := range n {
		pr.rows.Seeds[i], pr.rows.Positions[i] = p.rng.Uint64(), p.rng.Uint64()>>p.rng.IntN(64)
	}
	pr.rows.Draw, pr.rows.StreamTag = p.rng.Uint32()>>p.rng.IntN(32), p.rng.Uint32()>>p.rng.IntN(32)
	if ir.ValidStreamTag(pr.rows.StreamTag) != nil && !p.anyTag {
		pr.rows.StreamTag = ir.StreamUser + pr.rows.StreamTag>>1&0xFFFFFF
	}
}

func (p *probe) floats(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(p.rng.NormFloat64())
	}
	return out
}

// masks gives n rows masks of which one in three is narrower than the vocabulary, at densities from few to all.
func (p *probe) masks(pr *problem, n int) {
	words := (pr.shape.Vocab + 31) / 32
	if p.rng.IntN(3) == 0 {
		words = 1 + p.rng.IntN(words)
		pr.rows.MaskWords = words
	}
	mask := make([]uint32, 0, n*words)
	for range n {
		density := p.rng.IntN(4)
		for range words {
			m := p.rng.Uint32()
			switch density {
			case 0:
				m &= p.rng.Uint32() & p.rng.Uint32()
			case 1:
				m |= p.rng.Uint32()
			case 2:
				m = ^uint32(0)
			}
			mask = append(mask, m)
		}
	}
	pr.rows.Mask = mask
}
