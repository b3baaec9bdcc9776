package sim_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sim"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// plainRow is what a row must come to, in float64 and from docs/noise.md alone: nothing here is shared with what emits.
type plainRow struct {
	token      int32
	status     ir.Status
	score, lse float64
}

// philoxWords is Philox4x32-10.
func philoxWords(c [4]uint32, k [2]uint32) [4]uint32 {
	for range 10 {
		p0, p1 := 0xD2511F53*uint64(c[0]), 0xCD9E8D57*uint64(c[2])
		c = [4]uint32{uint32(p1>>32) ^ c[1] ^ k[0], uint32(p1), uint32(p0>>32) ^ c[3] ^ k[1], uint32(p0)}
		k[0], k[1] = k[0]+0x9E3779B9, k[1]+0xBB67AE85
	}
	return c
}

// exponentialOf is e(x).
func exponentialOf(high, low uint32) float64 {
	x := uint64(high)<<32 | uint64(low)
	if x < 1<<63 {
		return -math.Log1p(-(math.Ldexp(float64(x), -64) + math.Ldexp(1, -65)))
	}
	return -math.Log(math.Ldexp(float64(^x), -64) + math.Ldexp(1, -65))
}

// plainLogits are a row's transformed logits, -inf where masked, accumulated in float32 as kernels do.
func (p *problem) plainLogits(row int) []float64 {
	r, d, c := &p.req, p.shape.Hidden, p.comp.Chain
	bf := func(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }
	out := make([]float64, p.shape.Vocab)
	for v := range out {
		var y float32
		for k := range d {
			y += bf(r.H[row*d+k]) * bf(r.W[v*d+k])
		}
		z := float64(y)
		if c.Scale != 0 {
			z *= float64(c.Scale)
		}
		if c.Softcap != 0 {
			z = float64(c.Softcap) * math.Tanh(z/float64(c.Softcap))
		}
		if c.Bias != ir.BiasNone {
			z += float64(r.Bias[row*r.BiasStride+v])
		}
		if c.Mask && r.Mask[row*r.MaskStride+v/32]>>(v%32)&1 == 0 {
			z = math.Inf(-1)
		}
		out[v] = z
	}
	return out
}

// grouped computes a row as the grouped sampler must.
func (p *problem) grouped(row int) plainRow {
	z, t := p.plainLogits(row), 1.0
	if p.comp.Chain.Temperature {
		t = float64(p.req.Temperature[row])
	}
	if out, done := refusedRow(z, t); done {
		return out
	}
	out := plainRow{token: -1, score: math.Inf(-1), lse: plainLogSumExp(z, t)}
	pos, seed := p.req.Positions[row], p.req.Seeds[row]
	s := philoxWords([4]uint32{uint32(pos), uint32(pos >> 32), p.req.Draw, p.req.StreamTag}, [2]uint32{uint32(seed), uint32(seed >> 32)})
	draw := func(counter uint32) [4]uint32 {
		return philoxWords([4]uint32{counter, s[0], s[1], s[2]}, [2]uint32{0x243F6A88, 0x85A308D3})
	}
	alpha, tau := 1.0, t
	if t > 1 {
		alpha, tau = 1/t, 1
	}
	for first := 0; first < len(z); first += 16 {
		block := z[first:min(first+16, len(z))]
		top := math.Inf(-1)
		for _, x := range block {
			top = max(top, alpha*x)
		}
		if math.IsInf(top, -1) {
			continue
		}
		mass, best, token := 0.0, math.Inf(-1), -1
		for i, x := range block {
			a, id := alpha*x, uint32(first+i)
			w := draw(id &^ 8)
			g := -math.Log(exponentialOf(w[1], w[0]))
			if id&8 != 0 {
				g = -math.Log(exponentialOf(w[3], w[2]))
			}
			switch {
			case a == top:
				mass++
			case tau > 0:
				mass += math.Exp((a - top) / tau)
			}
			if s := a + tau*g; s > best {
				best, token = s, int(id)
			}
		}
		w := draw(1<<31 | uint32(first/16))
		if s := top + tau*(math.Log(mass)-math.Log(exponentialOf(w[1], w[0]))); s > out.score {
			out.score, out.token = s, int32(token)
		}
	}
	if t > 0 && t < 1 {
		out.score /= t
	}
	return out
}

// refusedRow is a row that has no token.
func refusedRow(z []float64, t float64) (out plainRow, done bool) {
	out = plainRow{token: -1, score: math.NaN(), lse: math.NaN()}
	if !(t >= 0) || math.IsInf(t, 0) {
		out.status = ir.StatusBadTemperature
		return out, true
	}
	out.status = ir.StatusEmpty
	for _, x := range z {
		if math.IsNaN(x) {
			out.status = ir.StatusNaN
			return out, true
		}
		if !math.IsInf(x, -1) {
			out.status = ir.StatusOK
		}
	}
	return out, out.status != ir.StatusOK
}

func plainLogSumExp(z []float64, t float64) float64 {
	if t == 0 {
		t = 1
	}
	top, sum := math.Inf(-1), 0.0
	for _, x := range z {
		top = max(top, x)
	}
	if math.IsInf(top, 1) {
		return top
	}
	for _, x := range z {
		sum += math.Exp((x - top) / t)
	}
	return top/t + math.Log(sum)
}

func float32s(b *sim.Block) []float64 {
	var out []float64
	for _, x := range ints(b) {
		out = append(out, float64(math.Float32frombits(uint32(x))))
	}
	return out
}

// near wants equal numbers of any kind, or finite ones as near as float32 sums and logarithms come.
func near(t testing.TB, want, got float64, msg string, args ...any) {
	t.Helper()
	want = float64(float32(want))
	if math.IsNaN(want) || math.IsInf(want, 0) {
		require.True(t, want == got || math.IsNaN(want) && math.IsNaN(got), append([]any{"want %v, got %v: " + msg, want, got}, args...)...)
		return
	}
	require.InDelta(t, want, got, 4e-6*(1+math.Abs(want)), append([]any{msg}, args...)...)
}

// strange makes rows of every kind, as far as the chain and the batch have a place for them: ties, T of 0 and of no use, rows
// without an allowed token, NaN and +inf, both also where the mask hides them.
func (p *problem) strange() {
	r, d, c, v := &p.req, p.shape.Hidden, p.comp.Chain, p.shape.Vocab
	at := func(row, token int) *float32 { return &r.Bias[row*r.BiasStride+token] }
	allow := func(row, token int, yes bool) {
		if w := &r.Mask[row*r.MaskStride+token/32]; yes {
			*w |= 1 << (token % 32)
		} else {
			*w &^= 1 << (token % 32)
		}
	}
	for row := range r.Batch {
		kind := row % 12
		if c.Temperature {
			r.Temperature[row] = [12]float32{1, 0, 0, 0.7, 1.5, 0, 1, 1e-40, 40, -1, float32(math.NaN()), 0.01}[kind]
		}
		if kind == 2 || kind == 3 || kind == 4 { // every logit is the same
			clear(r.H[row*d : (row+1)*d])
			if c.Bias == ir.BiasMatrix {
				clear(r.Bias[row*r.BiasStride:][:v])
			}
		}
		if c.Bias == ir.BiasMatrix && c.Mask {
			switch kind {
			case 5, 6: // the lowest id with +inf
				for _, token := range []int{v - 1, v / 2, v/2 + 1} {
					*at(row, token) = float32(math.Inf(1))
					allow(row, token, true)
				}
				allow(row, v/2, false)
			case 7:
				*at(row, v-1) = float32(math.NaN())
				allow(row, v-1, row >= 12)
			}
		}
		if c.Mask && kind == 8 {
			clear(r.Mask[row*r.MaskStride:][:r.MaskWords])
			if row >= 12 {
				allow(row, v-1, true)
			}
		}
		if c.Softcap == 0 && kind == 0 && row >= 12 {
			r.H[row*d] = 0x7F80 // all logits are infinite, those past the vocabulary NaN
		}
	}
}

type groupedCase struct {
	arch                 arch.Arch
	tile, chain          string
	vocab, hidden, batch int
	ctas                 int
}

var groupedCases = []groupedCase{
	{arch.SM90, "m192n8k64s8c1", "none", 200, 64, 1, 1},
	{arch.SM90, "m64n8k64s12c1", "mask,temperature", 130, 72, 30, 2},
	{arch.SM90, "m192n16k64s8c1", "temperature", 1000, 72, 16, 3},
	{arch.SM90, "m128n16k64s2c1", "scale=0.5,softcap=30,bias=rows,mask,temperature", 145, 8, 40, 2},
	{arch.SM90, "m192n32k64s6c2", "bias,temperature", 500, 72, 40, 2},
	{arch.SM90, "m128n64k64s4c1", "temperature", 617, 200, 40, 4},
	{arch.SM90, "m192n64k64s4c1", "bias=rows,mask,temperature", 600, 72, 40, 2},
	{arch.SM90, "m128n256k64s3c2", "temperature", 300, 64, 100, 2},
	{arch.SM90, "m192n96k64s4c2b", "bias=rows,mask,temperature", 400, 72, 220, 2},
	{arch.SM100, "m128n16k64s12c1", "none", 200, 64, 1, 1},
	{arch.SM100, "m128n16k64s4c1", "temperature", 1000, 72, 16, 3},
	{arch.SM100, "m128n32k64s8c2", "mask,temperature", 500, 72, 30, 4},
	{arch.SM100, "m128n64k64s3c1", "scale=0.5,softcap=30,bias=rows,mask,temperature", 617, 200, 40, 2},
	{arch.SM100, "m128n96k64s6c2", "bias=rows,mask,temperature", 300, 64, 97, 2},
	{arch.SM100, "m128n256k64s3c2", "bias,temperature", 300, 64, 100, 2},
}

// The grouped sampler gives the tokens and scores of the plain computation, on every kind of row.
func TestGroupedEqualsPlainComputation(t *testing.T) {
	for i, c := range groupedCases {
		if raceEnabled && i%3 != 0 {
			continue
		}
		t.Run(c.arch.Name+"_"+c.tile+"_"+c.chain, func(t *testing.T) {
			comp := chain(t, c.chain)
			comp.Sampler = ir.Grouped
			p := newProblem(comp, c.vocab, c.hidden, c.batch, 5)
			p.strange()
			a := mustEmit(t, comp, c.tile, c.arch)
			rep, b := runKernel(t, string(a.PTX), a.Manifest, p, c.ctas, 11)
			require.NoError(t, rep.Err())
			samePlainRows(t, p, b)
			tile, err := tiling.ParseTile(c.tile)
			require.NoError(t, err)
			full, err := gen.Emit(gen.Request{Arch: c.arch, Computation: comp, Shape: p.shape, Tile: tile, Options: templates.Options{Exhaustive: true}})
			require.NoError(t, err)
			_, all := runKernel(t, string(full.PTX), full.Manifest, p, c.ctas, 12)
			require.Equal(t, ints(all.tokens), ints(b.tokens), "what is skipped never wins")
			require.Equal(t, ints(all.scores), ints(b.scores))
		})
	}
}

func samePlainRows(t testing.TB, p *problem, b *bench) {
	t.Helper()
	tokens, status, scores := ints(b.tokens), ints(b.status), float32s(b.scores)
	kinds := map[ir.Status]int{}
	for row := range p.req.Batch {
		want := p.grouped(row)
		kinds[want.status]++
		require.Equal(t, want.status, ir.Status(status[row]), "row %d", row)
		near(t, want.score, scores[row], "score of row %d", row)
		require.Equal(t, want.token, tokens[row], "row %d", row)
	}
	t.Logf("rows by status: %v", kinds)
}

// lseCases have clusters without a tile of some rows, and column tiles that begin in the middle of the grid.
var lseCases = append(groupedCases[:len(groupedCases):len(groupedCases)], []groupedCase{
	{arch.SM90, "m64n8k64s4c1", "temperature", 60, 64, 20, 2},
	{arch.SM90, "m64n16k64s4c2", "temperature", 200, 64, 100, 6},
	{arch.SM90, "m64n16k64s3c2b", "mask,temperature", 200, 64, 100, 6},
	{arch.SM90, "m64n8k64s4c1", "temperature", 600, 64, 16, 40},
	{arch.SM100, "m128n16k64s4c2", "temperature", 400, 64, 70, 6},
}...)

// Every sampler gives the log-sum-exp of the plain computation, whatever ran at the same time, and with it the tokens and
// scores that it gives without.
func TestLogSumExp(t *testing.T) {
	for i, c := range lseCases {
		if raceEnabled && i%3 != 0 {
			continue
		}
		sampler := []ir.Sampler{ir.Grouped, ir.Gumbel, ir.Greedy}[i%3]
		t.Run(fmt.Sprintf("%s_%s_%s_%s", c.arch.Name, c.tile, sampler, c.chain), func(t *testing.T) {
			comp := chain(t, c.chain)
			comp.Sampler = sampler
			comp = comp.Normalize()
			p := newProblem(comp, c.vocab, c.hidden, c.batch, 5)
			p.strange()
			plain := mustEmit(t, comp, c.tile, c.arch)
			comp.LogSumExp = true
			a := mustEmit(t, comp, c.tile, c.arch)
			_, without := runKernel(t, string(plain.PTX), plain.Manifest, p, c.ctas, 11)
			rep, b := runKernel(t, string(a.PTX), a.Manifest, p, c.ctas, 12)
			require.NoError(t, rep.Err())
			require.Equal(t, ints(without.tokens), ints(b.tokens))
			require.Equal(t, ints(without.status), ints(b.status))
			require.Equal(t, ints(without.scores), ints(b.scores))
			for row, got := range float32s(b.lse) {
				near(t, p.grouped(row).lse, got, "log-sum-exp of row %d", row)
			}
			_, again := runKernel(t, string(a.PTX), a.Manifest, p, c.ctas, 13)
			require.Equal(t, ints(b.lse), ints(again.lse), "the same bits on every run")
			for k := range c.hidden { // a row that fails, and has every reference looked at again, changes no other
				p.req.H[k] = 0x7FC0
			}
			_, beside := runKernel(t, string(a.PTX), a.Manifest, p, c.ctas, 14)
			require.Equal(t, ir.StatusNaN, ir.Status(ints(beside.status)[0]))
			for _, pair := range [][2]*sim.Block{{b.lse, beside.lse}, {b.scores, beside.scores}, {b.tokens, beside.tokens}} {
				require.Equal(t, ints(pair[0])[1:], ints(pair[1])[1:])
			}
		})
	}
}
