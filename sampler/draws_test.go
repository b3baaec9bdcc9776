//go:build !race

// The race detector takes minutes over what lies in the simulator, which its own tests cover.

package sampler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/tiling"
)

// drawing is a head and rows that draw several tokens.
type drawing struct {
	vocab, rows int
	spread      float64 // of the logits; 0 for logits that are all equal
	chain       string
	most        int // tokens of a row
}

var drawings = []drawing{
	{300, 7, 0.2, "none", 64}, {450, 12, 3, "bias=rows,mask,temperature", 16},
	{3, 6, 1, "mask,temperature", 8}, {1, 3, 0, "temperature", 2}, {300, 9, 0, "temperature", 5},
}

// problem makes the head, its hidden states and the rows' parameters.
func (d drawing) problem(t *testing.T, rng *rand.Rand, kind ir.Draws) (sampler.Weights, sampler.Spec, []uint16, sampler.Rows) {
	const hidden = 16
	chain, err := ir.ParseChain(d.chain)
	require.NoError(t, err)
	w, h := make([]uint16, d.vocab*hidden), make([]uint16, d.rows*hidden)
	for i := range w {
		w[i] = bf16(rng.NormFloat64() * d.spread)
	}
	for i := range h {
		h[i] = bf16(rng.NormFloat64())
	}
	r, words := sampler.Rows{}, (d.vocab+31)/32
	for b := range d.rows {
		r.Seeds, r.Positions = append(r.Seeds, rng.Uint64()), append(r.Positions, rng.Uint64())
		r.DrawCounts = append(r.DrawCounts, []int32{int32(d.most), 1, 2, int32(1 + rng.IntN(d.most))}[b%4])
		if chain.Temperature {
			r.Temperature = append(r.Temperature, []float32{1, 0, 0.3, 3, 0.01}[b%5])
		}
		if chain.Mask {
			r.Mask = append(r.Mask, maskRow(rng, words, d.vocab, []int{0, 1, int(r.DrawCounts[b]) - 1, d.vocab}[b%4])...)
		}
		if chain.Bias == ir.BiasMatrix {
			for range d.vocab {
				r.Bias = append(r.Bias, float32(rng.NormFloat64()))
			}
		}
	}
	if chain.Bias == ir.BiasMatrix && d.rows > 11 { // rows that allow all tokens and draw several
		r.Bias[7*d.vocab+d.vocab/2] = float32(math.NaN())
		r.Bias[11*d.vocab+9] = float32(math.Inf(1))
		r.DrawCounts[7], r.DrawCounts[11] = 5, 5
	}
	spec := sampler.Spec{Chain: chain, Draws: kind, MaxDraws: d.most, Score: true, MaxBatch: d.rows}
	return sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: d.vocab, Hidden: hidden}, spec, h, r
}

// maskRow allows about so many tokens: less where one comes twice.
func maskRow(rng *rand.Rand, words, vocab, allowed int) []uint32 {
	row := make([]uint32, words)
	for i := range allowed {
		v := rng.IntN(vocab)
		if allowed == vocab {
			v = i
		}
		row[v>>5] |= 1 << (v & 31)
	}
	return row
}

var drawKinds = []ir.Draws{ir.WithoutReplacement, ir.WithReplacement}

// What kernels draw is what the reference draws: rows of one token and of many, greedy ones, and those that have fewer tokens.
func TestDrawsOnSimulators(t *testing.T) {
	for i, d := range drawings {
		for _, kind := range drawKinds {
			w, spec, h, rows := d.problem(t, rand.New(rand.NewPCG(uint64(i), 11)), kind)
			want := sampler.SampleOne(t, "cpu", w, spec, h, rows)
			for j, device := range []string{"sim:sm_90", "sim:sm_100"} {
				if i > 1 && (i+j+int(kind))%2 == 0 { // small ones on one each
					continue
				}
				t.Run(fmt.Sprint(device, kind, d.vocab), func(t *testing.T) {
					requireDraws(t, want, sampler.SampleOne(t, device, w, spec, h, rows))
				})
			}
		}
	}
}

func requireDraws(t *testing.T, want, got *sampler.Result) {
	t.Helper()
	require.Equal(t, want.Status, got.Status)
	require.Equal(t, want.Draws, got.Draws)
	require.Equal(t, want.Tokens, got.Tokens)
	for b, s := range got.Scores {
		if want.Scores[b] != s { // infinities are what they are
			require.InDelta(t, want.Scores[b], s, 1e-4*(1+math.Abs(float64(s))))
		}
	}
	require.Equal(t, want.DrawScores == nil, got.DrawScores == nil)
	for i, s := range got.DrawScores {
		if want.DrawScores[i] != s {
			require.InDelta(t, want.DrawScores[i], s, 1e-4*(1+math.Abs(float64(s))))
		}
	}
}

// Every way to walk the vocabulary draws the same: warpgroups that take turns, clusters that share rows or weights, several columns.
func TestDrawsOfTiles(t *testing.T) {
	d := drawing{520, 33, 1, "temperature", 6}
	for i, kind := range drawKinds {
		w, spec, h, rows := d.problem(t, rand.New(rand.NewPCG(7, 8)), kind)
		want := sampler.SampleOne(t, "cpu", w, spec, h, rows)
		for device, tiles := range map[string][]string{"sim:sm_90": {"m128n32k64s5c2bp", "m192n64k64s6c1p"}, "sim:sm_100": {"m128n64k64s4c2", "m128n32k64s5c1"}} {
			tile, err := tiling.ParseTile(tiles[i])
			require.NoError(t, err)
			spec.Tile = tile
			requireDraws(t, want, sampler.SampleOne(t, device, w, spec, h, rows))
		}
	}
}

// A row draws the same alone and among others, and fewer draws are the first of more.
func TestDrawsOfRowsAlone(t *testing.T) {
	d := drawing{200, 4, 1, "temperature", 12}
	for i, kind := range drawKinds {
		w, spec, h, rows := d.problem(t, rand.New(rand.NewPCG(3, 4)), kind)
		device := []string{"sim:sm_90", "sim:sm_100"}[i]
		all := sampler.SampleOne(t, device, w, spec, h, rows)
		hidden := len(h) / d.rows
		for _, b := range []int{0, 3} {
			one := sampler.Rows{Seeds: rows.Seeds[b:][:1], Positions: rows.Positions[b:][:1], Temperature: rows.Temperature[b:][:1], DrawCounts: []int32{5}}
			got := sampler.SampleOne(t, device, w, spec, h[b*hidden:][:hidden], one)
			n := min(5, int(rows.DrawCounts[b]))
			require.Equal(t, all.Draws[b*d.most:][:n], got.Draws[:n], "row %d, %s", b, kind)
		}
	}
}

// Lists that overflow, of logits that are all equal, go on in further passes; so do rows whose sum in float32 leaves a draw open, or is
// none, since logits are infinite.
func TestDrawsInFurtherPasses(t *testing.T) {
	inf := float32(math.Inf(1))
	for i, c := range []struct {
		drawing
		kind   ir.Draws
		t      float32
		boost  float32 // of all tokens but each 32nd
		passes int32   // of a row
	}{
		{drawing{8700, 1, 0, "temperature", 24}, ir.WithoutReplacement, 0, 0, 2},
		{drawing{8700, 1, 0, "bias,temperature", 64}, ir.WithReplacement, 1, inf, 4}, // infinite, and more than a list holds
		{drawing{200, 32, 0.5, "temperature", 64}, ir.WithReplacement, 0.7, 0, 2},    // whose largest logits the first pass has found
		{drawing{300, 16, 500, "temperature", 64}, ir.WithReplacement, 1500, 0, 2},
	} {
		w, spec, h, rows := c.problem(t, rand.New(rand.NewPCG(5, 6)), c.kind)
		rows.DrawCounts = []int32{int32(c.most)}
		if spec.Chain.Temperature {
			rows.Temperature = []float32{c.t}
		}
		if spec.Chain.Bias == ir.BiasVector {
			rows.Bias = make([]float32, c.vocab)
			for v := range rows.Bias {
				if v%32 > 0 {
					rows.Bias[v] = c.boost
				}
			}
		}
		want := sampler.SampleOne(t, "cpu", w, spec, h, rows)
		got := sampler.SampleOne(t, []string{"sim:sm_90", "sim:sm_100"}[i%2], w, spec, h, rows)
		requireDraws(t, want, got)
		require.Equal(t, c.passes, slices.Max(got.Passes), "%v %s", c.drawing, c.kind)
	}
}
