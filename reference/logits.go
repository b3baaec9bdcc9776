package reference

// lanes is how many tokens' logits are accumulated at once, each in its own float32, in ascending k.
const lanes = 8

// panel holds the weights of lanes tokens in float32, transposed: panel[k][i] is W[first+i, k]. Tokens that are not
// there are zero.
type panel [][lanes]float32

// tileTokens is how many tokens go through all rows at once: two panels, and all tokens of eight Philox calls.
const tileTokens = 2 * lanes

// tile is the weights of 16 neighbouring tokens.
type tile [2]panel

func newTile(hidden int) *tile { return &tile{make(panel, hidden), make(panel, hidden)} }

// load fills the tile with n tokens from first on.
func (t *tile) load(r *Request, first, n int) {
	if n < tileTokens {
		clear(t[0])
		clear(t[1])
	}
	for i := range n {
		p, lane := t[i/lanes], i%lanes
		w := r.weights(first + i)
		p = p[:len(w)]
		for k, x := range w {
			p[k][lane] = bf16(x)
		}
	}
}

// dot computes the tile's logits for one hidden state.
func (t *tile) dot(h []float32, y *[tileTokens]float32) {
	low, high := t[0].dot(h), t[1].dot(h)
	copy(y[:lanes], low[:])
	copy(y[lanes:], high[:])
}

// dot adds up the lanes' logits for one hidden state. The product of two bf16 is exact in float32.
func (p panel) dot(h []float32) [lanes]float32 {
	var a0, a1, a2, a3, a4, a5, a6, a7 float32
	p = p[:len(h)]
	for k, x := range h {
		w := &p[k]
		a0 += float32(x * w[0])
		a1 += float32(x * w[1])
		a2 += float32(x * w[2])
		a3 += float32(x * w[3])
		a4 += float32(x * w[4])
		a5 += float32(x * w[5])
		a6 += float32(x * w[6])
		a7 += float32(x * w[7])
	}
	return [lanes]float32{a0, a1, a2, a3, a4, a5, a6, a7}
}

// widen converts the hidden states to float32, rows one after the other.
func (r *Request) widen() []float32 {
	if r.Logits != nil {
		return nil
	}
	out := make([]float32, 0, r.Batch*r.Shape.Hidden)
	for b := range r.Batch {
		for _, x := range r.hidden(b) {
			out = append(out, bf16(x))
		}
	}
	return out
}
