package sampler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// filterRows makes rows of every kind of filter, on and off.
func filterRows(rng *rand.Rand, t ir.Truncation, n, vocab int, tempered bool) sampler.Rows {
	pick := func(xs ...float32) float32 { return xs[rng.IntN(len(xs))] }
	r := sampler.Rows{}
	for range n {
		r.Seeds, r.Positions = append(r.Seeds, rng.Uint64()), append(r.Positions, rng.Uint64())
		if tempered {
			r.Temperature = append(r.Temperature, pick(0, 0.3, 0.7, 1, 1.3, 3))
		}
		if t.TopK {
			r.TopK = append(r.TopK, int32(pick(-1, 0, 1, 2, 5, 20, 40, float32(vocab-1), float32(vocab), float32(vocab+7))))
		}
		if t.TopP {
			r.TopP = append(r.TopP, pick(0, 1e-30, 0.1, 0.5, 0.9, 0.95, 0.9999999, 1, 2))
		}
		if t.MinP {
			r.MinP = append(r.MinP, pick(0, 1e-30, 0.01, 0.1, 0.5, 1))
		}
	}
	return r
}

func TestTruncationOnSimulators(t *testing.T) {
	for i, tr := range []ir.Truncation{
		{TopK: true}, {TopP: true}, {MinP: true}, {TopK: true, TopP: true}, {TopK: true, TopP: true, MinP: true, TemperatureLast: true}, {TopP: true, MinP: true},
	} {
		for _, device := range []string{"sim:sm_90", "sim:sm_100"} {
			t.Run(fmt.Sprint(device, tr.Items()), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(i), 7))
				vocab, hidden, n := 300+rng.IntN(400), 24, 5+rng.IntN(12)
				w, h := make([]uint16, vocab*hidden), make([]uint16, n*hidden)
				spread := float32(math.Exp(rng.Float64()*3 - 2))
				for i := range w {
					w[i] = uint16(math.Float32bits(float32(rng.NormFloat64())*spread) >> 16)
				}
				for i := range h {
					h[i] = uint16(math.Float32bits(float32(rng.NormFloat64())) >> 16)
				}
				rows := filterRows(rng, tr, n, vocab, i%2 == 0)
				spec := sampler.Spec{Chain: ir.Chain{Temperature: i%2 == 0}, Truncation: tr, Score: true, MaxBatch: n}
				var want *sampler.Result
				for _, name := range []string{"cpu", device} {
					dev, err := sampler.Open(name)
					require.NoError(t, err)
					head, err := dev.LoadHead(t.Context(), sampler.Weights{Source: sampler.Matrix{Data: w, Hidden: hidden}, Vocab: vocab, Hidden: hidden})
					require.NoError(t, err)
					plan, err := head.Plan(t.Context(), spec)
					require.NoError(t, err)
					res, err := plan.Sample(t.Context(), h, rows)
					require.NoError(t, err)
					if want == nil {
						want = res
						continue
					}
					t.Log(res.Kernel, vocab, n, spread)
					for b := range n {
						if res.Tokens[b] != want.Tokens[b] || res.Status[b] != want.Status[b] {
							t.Errorf("row %d: token %d %s, want %d %s; k %v p %v m %v T %v", b, res.Tokens[b], res.Status[b], want.Tokens[b], want.Status[b], at(rows.TopK, b), at(rows.TopP, b), at(rows.MinP, b), at(rows.Temperature, b))
						}
					}
				}
			})
		}
	}
}

func at[T any](xs []T, i int) any {
	if i < len(xs) {
		return xs[i]
	}
	return nil
}
