//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
)

func smokePhilox(c [4]uint32, k0, k1 uint32) [4]uint32 {
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, c[0])
		h1, l1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{h1 ^ c[1] ^ k0, l1, h0 ^ c[3] ^ k1, l0}
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return c
}

func TestGPUSmoke(t *testing.T) {
	dev := gpu(t)
	noise := ir.Noise()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 8, 9, 16, 17, 64, 100, 128, 250, 256, 300} {
		v, d := 5000, 192
		w, h := normals(rng, v*d, 0.2), normals(rng, n*d, 1)
		head, err := dev.LoadHead(context.Background(), Weights{Source: Matrix{Data: w, Hidden: d}, Vocab: v, Hidden: d})
		require.NoError(t, err)
		for _, s := range []ir.Sampler{ir.Greedy, ir.Gumbel} {
			plan, err := head.Plan(context.Background(), Spec{Sampler: s, Score: true, MaxBatch: n})
			require.NoError(t, err)
			seeds := make([]uint64, n)
			for i := range seeds {
				seeds[i] = rng.Uint64()
			}
			rows := Rows{}
			if s == ir.Gumbel {
				rows = Rows{Seeds: seeds, Positions: []uint64{7}}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			res, err := plan.Sample(ctx, h, rows)
			cancel()
			require.NoError(t, err)
			full, err := head.Plan(context.Background(), Spec{Sampler: s, Score: true, MaxBatch: n, Exhaustive: true})
			require.NoError(t, err)
			res2, err := full.Sample(context.Background(), h, rows)
			require.NoError(t, err)
			require.Equal(t, res2.Tokens, res.Tokens)
			require.Equal(t, res2.Scores, res.Scores)
			require.NoError(t, full.Close())
			bad := 0
			for b := range n {
				best, tok := float32(-1e30), int32(-1)
				st := smokePhilox([4]uint32{7, 0, 0, 0}, uint32(seeds[b]), uint32(seeds[b]>>32))
				for i := range v {
					y := float32(0)
					for j := range d {
						y += model.BF16(w[i*d+j]).Float32() * model.BF16(h[b*d+j]).Float32()
					}
					if s == ir.Gumbel {
						x := smokePhilox([4]uint32{uint32(i &^ 8), st[0], st[1], st[2]}, 0x243F6A88, 0x85A308D3)
						o := (i >> 3 & 1) * 2
						y += ir.Eval(noise, ir.Values{U: map[ir.Input]uint32{ir.InLow: x[o], ir.InHigh: x[o+1]}})
					}
					if y > best {
						best, tok = y, int32(i)
					}
				}
				if tok != res.Tokens[b] || res.Status[b] != 0 {
					bad++
					t.Logf("%s B=%d row %d: got %d (%v) score %v, want %d score %v", s, n, b, res.Tokens[b], res.Status[b], res.Scores[b], tok, best)
				}
				if b > 20 {
					break
				}
			}
			t.Logf("%s B=%d: %d bad, kernel %s", s, n, bad, res.Kernel)
			require.NoError(t, plan.Close())
		}
		require.NoError(t, head.Close())
	}
}
