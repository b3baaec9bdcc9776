package reference

// lanes is how many tokens' logits are accumulated at once, each in its own float32, in ascending k.
const lanes = 8

// panel holds the weights of lanes tokens in float32, transposed: panel[k][i] is W[first+i, k].
type panel [][lanes]float32

// tileTokens is how many tokens go through all rows at once: two panels, and one block of the noise.
const tileTokens = 2 * lanes

// tile is the weights of 16 neighbouring tokens.
type tile [2]panel

func newTile(hidden int) *tile { return &tile{make(panel, hidden), make(panel, hidden)} }

// load fills the tile with n tokens from first on.
func (t *tile) load(r *Request, first, n int) {
	for i, p := range t {
		if have := n - i*lanes; have >= lanes {
			p.loadAll(r, first+i*lanes)
		} else {
			p.loadSome(r, first+i*lanes, have)
		}
	}
}

// loadAll fills a panel, line by line: eight streams read and one written.
func (p panel) loadAll(r *Request, first int) {
	n := len(p)
	var w [lanes][]uint16
	for i := range w {
		w[i] = r.weights(first + i)
	}
	w0, w1, w2, w3 := w[0][:n], w[1][:n], w[2][:n], w[3][:n]
	w4, w5, w6, w7 := w[4][:n], w[5][:n], w[6][:n], w[7][:n]
	for k := range p {
		q := &p[k]
		q[0], q[1], q[2], q[3] = bf16(w0[k]), bf16(w1[k]), bf16(w2[k]), bf16(w3[k])
		q[4], q[5], q[6], q[7] = bf16(w4[k]), bf16(w5[k]), bf16(w6[k]), bf16(w7[k])
	}
}

// loadSome fills the first n lanes, none where n is below 0. Nobody reads the logits of the others.
func (p panel) loadSome(r *Request, first, n int) {
	for i := range max(n, 0) {
		for k, x := range r.weights(first + i) {
			p[k][i] = bf16(x)
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
