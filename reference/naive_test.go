package reference

import (
	"math"

	"github.com/fsgen/fsgen/ir"
)

// naive is one row of the definition as a plain loop: no blocks, no panels, no skipping, no merging.
func naive(r *Request, b int) (token int32, score float32) {
	token, score = ir.NoToken, negInf
	c := r.Computation.Chain
	t := float32(1)
	if c.Temperature && r.Computation.Sampler == ir.Gumbel {
		t = r.Temperature[b%len(r.Temperature)]
	}
	for v := range r.Shape.Vocab {
		if c.Mask && (v/32 >= r.MaskWords || r.Mask[b*r.MaskStride+v/32]&(1<<(v%32)) == 0) {
			continue
		}
		z := naiveLogit(r, b, v)
		s := z
		if r.Computation.Sampler == ir.Gumbel && t != 0 {
			g := float32(naiveNoise(r, b, v))
			if t > 1 {
				s = float32(float64(float32(z*(1/t))) + float64(g))
			} else {
				s = fma32(t, g, z)
			}
		}
		if s > score {
			token, score = int32(v), s
		}
	}
	return token, score
}

func naiveLogit(r *Request, b, v int) float32 {
	c := r.Computation.Chain
	var y float32
	if r.Logits != nil {
		y = r.Logits[(b*r.Shape.Vocab+v)%len(r.Logits)]
	} else {
		for k := range r.Shape.Hidden {
			y += float32(bf16(r.H[b*r.ldh()+k]) * bf16(r.W[v*r.ldw()+k]))
		}
	}
	if c.Scale != 0 {
		y *= c.Scale
	}
	if c.Softcap != 0 {
		y = float32(float64(c.Softcap) * math.Tanh(float64(y)/float64(c.Softcap)))
	}
	if c.Bias != ir.BiasNone {
		y += r.Bias[b*r.BiasStride+v]
	}
	return y
}

// naiveNoise spells out docs/noise.md.
func naiveNoise(r *Request, b, v int) float64 {
	if r.Noise != nil {
		return float64(r.Noise[b*r.Shape.Vocab+v])
	}
	seed, position := r.Seeds[b%len(r.Seeds)], r.Positions[b%len(r.Positions)]
	s := Philox([4]uint32{uint32(position), uint32(position >> 32), r.Draw, r.StreamTag}, [2]uint32{uint32(seed), uint32(seed >> 32)})
	key := [2]uint32{0x243F6A88, 0x85A308D3}
	k := Philox([4]uint32{1<<31 + uint32(v>>4), s[0], s[1], s[2]}, key)
	e := naiveExponential(k[0], k[1]) / 16
	if uint32(v&15) != k[2]>>28 {
		w := Philox([4]uint32{uint32(v &^ 8), s[0], s[1], s[2]}, key)
		if v&8 == 0 {
			e += naiveExponential(w[0], w[1])
		} else {
			e += naiveExponential(w[2], w[3])
		}
	}
	return -math.Log(e)
}

func naiveExponential(low, high uint32) float64 {
	x := uint64(high)<<32 + uint64(low)
	if x>>63 == 0 {
		return -math.Log1p(-(float64(x) + 0.5) / (1 << 64))
	}
	return -math.Log((float64(^x) + 0.5) / (1 << 64))
}
