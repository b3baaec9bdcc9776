package reference

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fsgen/fsgen/ir"
)

// randomRequest has logits of standard deviation about 2.
func randomRequest(batch, vocab, hidden int) *Request {
	rng := rand.New(rand.NewPCG(1, 2))
	r := &Request{
		Batch: batch, Shape: ir.Shape{Vocab: vocab, Hidden: hidden}, Seeds: make([]uint64, batch), Positions: []uint64{7},
		H: make([]uint16, batch*hidden), W: make([]uint16, vocab*hidden),
	}
	for i := range r.Seeds {
		r.Seeds[i] = rng.Uint64()
	}
	for i := range r.H {
		r.H[i] = uint16(0x3f00 + rng.Uint32N(0x100) + rng.Uint32N(2)<<15) // 1/2 to 2
	}
	for i := range r.W {
		r.W[i] = uint16(0x3c80 + rng.Uint32N(0x100) + rng.Uint32N(2)<<15) // 1/64 to 1/16
	}
	return r
}

func BenchmarkSample(b *testing.B) {
	for _, c := range []struct{ batch, vocab, hidden int }{{1, 152064, 4096}, {8, 152064, 4096}, {300, 8192, 4096}, {300, 8192, 64}} {
		b.Run(fmt.Sprintf("B%d_V%d_D%d", c.batch, c.vocab, c.hidden), func(b *testing.B) {
			r := randomRequest(c.batch, c.vocab, c.hidden)
			for b.Loop() {
				if _, err := Sample(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(c.batch*c.vocab*c.hidden)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gmac/s")
		})
	}
}

func BenchmarkUniformRow(b *testing.B) {
	const vocab = 151936
	r := &Request{Batch: 1, Shape: ir.Shape{Vocab: vocab}, Logits: make([]float32, vocab), Seeds: []uint64{1}, Positions: []uint64{0}}
	for b.Loop() {
		r.Positions[0]++
		if _, err := Sample(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPair(b *testing.B) {
	r := Row(1, 2, 3, 4)
	var sum uint64
	for i := 0; b.Loop(); i++ {
		x, y := r.Pair(i)
		sum += x ^ y
	}
	if sum == 0 {
		b.Fatal()
	}
}
