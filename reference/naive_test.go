package reference

import (
	"math"
	"slices"

	"github.com/fsgen/fsgen/ir"
)

// naive is one row of the definition as a plain loop: no blocks, no panels, no skipping, no merging.
func naive(r *Request, b int) (token int32, score float32) {
	token, score = ir.NoToken, negInf
	t := naiveTemperature(r, b)
	if r.Computation.Sampler == ir.Grouped && t != 0 {
		return naiveGrouped(r, b, t)
	}
	for v := range r.Shape.Vocab {
		if !naiveAllowed(r, b, v) {
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

func naiveTemperature(r *Request, b int) float32 {
	if r.Computation.Chain.Temperature && r.Computation.Sampler != ir.Greedy {
		return r.Temperature[b%len(r.Temperature)]
	}
	return 1
}

func naiveAllowed(r *Request, b, v int) bool {
	if r.Computation.Chain.IDs {
		allow := r.AllowIDs[b%len(r.AllowIDs)]
		if allow != nil && !slices.Contains(allow, int32(v)) || slices.Contains(r.BanIDs[b%len(r.BanIDs)], int32(v)) {
			return false
		}
	}
	return !r.Computation.Chain.Mask || v/32 < r.MaskWords && r.Mask[b*r.MaskStride+v/32]&(1<<(v%32)) != 0
}

// naiveGrouped is one row of the grouped sampler: every block's mass, then every block's token.
func naiveGrouped(r *Request, b int, t float32) (token int32, score float32) {
	token, score = ir.NoToken, negInf
	alpha, tau := min(1, 1/t), min(1, t)
	for first := 0; first < r.Shape.Vocab; first += 16 {
		top, mass, inside, best := math.Inf(-1), 0.0, int32(ir.NoToken), negInf
		for _, sums := range []bool{false, true} { // the top, then the mass and the race
			for v := first; v < min(first+16, r.Shape.Vocab); v++ {
				a := float64(float32(naiveLogit(r, b, v) * alpha))
				switch {
				case !naiveAllowed(r, b, v) || math.IsInf(a, -1):
				case !sums:
					top = max(top, a)
				default:
					mass += math.Exp((a - top) / float64(tau))
					k := naiveBits(r, b, uint32(v&^8))
					if s := fma32(tau, float32(-math.Log(naiveExponential(k[v>>2&2], k[v>>2&2+1]))), float32(a)); s > best {
						inside, best = int32(v), s
					}
				}
			}
		}
		k := naiveBits(r, b, 1<<31+uint32(first>>4))
		if s := fma32(tau, float32(math.Log(mass)-math.Log(naiveExponential(k[0], k[1]))), float32(top)); mass > 0 && s > score {
			token, score = inside, s
		}
	}
	return token, score
}

// naiveLogSumExp is the sum as it stands in the definition.
func naiveLogSumExp(r *Request, b int) float64 {
	t := naiveTemperature(r, b)
	if t == 0 {
		t = 1
	}
	top, sum := math.Inf(-1), 0.0
	for _, sums := range []bool{false, true} {
		for v := range r.Shape.Vocab {
			x := float64(naiveLogit(r, b, v)) / float64(t)
			switch {
			case !naiveAllowed(r, b, v):
			case sums:
				sum += math.Exp(x - top)
			default:
				top = max(top, x)
			}
		}
	}
	return top + math.Log(sum)
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
	if !c.BiasLast {
		y += naiveBias(r, b, v)
	}
	if c.Penalties {
		y = naivePenalized(r, b, v, y)
	}
	if c.BiasLast {
		y += naiveBias(r, b, v)
	}
	return y
}

func naiveBias(r *Request, b, v int) float32 {
	switch r.Computation.Chain.Bias {
	case ir.BiasNone:
		return 0
	case ir.BiasSparse:
		for _, e := range r.BiasLists[b%len(r.BiasLists)] {
			if int(e.ID) == v {
				return e.Value
			}
		}
		return 0
	}
	return r.Bias[b*r.BiasStride+v]
}

func naivePenalized(r *Request, b, v int, z float32) float32 {
	count := r.Counts[b*r.CountStride+v]
	times := count % (1 << 31)
	if count != 0 {
		z *= map[bool]float32{true: 1 / r.Repetition[0], false: r.Repetition[0]}[z > 0]
	}
	z = fma32(-r.Frequency[0], float32(times), z)
	if times != 0 {
		z -= r.Presence[0]
	}
	return z
}

// naiveNoise spells out docs/noise.md.
func naiveNoise(r *Request, b, v int) float64 {
	if r.Noise != nil {
		return float64(r.Noise[b*r.Shape.Vocab+v])
	}
	k := naiveBits(r, b, 1<<31+uint32(v>>4))
	e := naiveExponential(k[0], k[1]) / 16
	if uint32(v&15) != k[2]>>28 {
		w := naiveBits(r, b, uint32(v&^8))
		if v&8 == 0 {
			e += naiveExponential(w[0], w[1])
		} else {
			e += naiveExponential(w[2], w[3])
		}
	}
	return -math.Log(e)
}

// naiveBits is the Philox call of a counter in row b.
func naiveBits(r *Request, b int, counter uint32) [4]uint32 {
	seed, position := r.Seeds[b%len(r.Seeds)], r.Positions[b%len(r.Positions)]
	s := Philox([4]uint32{uint32(position), uint32(position >> 32), r.Draw, r.StreamTag}, [2]uint32{uint32(seed), uint32(seed >> 32)})
	return Philox([4]uint32{counter, s[0], s[1], s[2]}, [2]uint32{0x243F6A88, 0x85A308D3})
}

func naiveExponential(low, high uint32) float64 {
	x := uint64(high)<<32 + uint64(low)
	if x>>63 == 0 {
		return -math.Log1p(-(float64(x) + 0.5) / (1 << 64))
	}
	return -math.Log((float64(^x) + 0.5) / (1 << 64))
}
