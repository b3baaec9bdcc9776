package reference

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// shardTables cut vocabularies as deployments do, and as none should: evenly, unevenly, in the middle of a block of the noise,
// with shards of nothing.
func shardTables(vocab int) [][]ir.Span {
	return [][]ir.Span{
		ir.EvenSpans(vocab, 2), ir.EvenSpans(vocab, 3), ir.EvenSpans(vocab, 4),
		{{Start: 0, Count: 20}, {Start: 20, Count: vocab - 20}},
		{{Start: 0, Count: 1}, {Start: 1, Count: 0}, {Start: 1, Count: vocab - 4}, {Start: vocab - 3, Count: 3}},
		{{Start: vocab, Count: 0}, {Start: 0, Count: vocab}},
	}
}

// joined is the row's best among those of all shards: the larger score, and of equals the lower id.
func joined(parts []*Result, b int) (token int32, score float32) {
	token, score = ir.NoToken, float32(math.NaN())
	for _, p := range parts {
		switch t, s := p.Tokens[b], p.Best[b]; {
		case t < 0:
		case token < 0, s > score, s == score && t < token:
			token, score = t, s
		}
	}
	return token, score
}

func bf16s(x []float32) (out []uint16) {
	for _, v := range x {
		out = append(out, toBF16(v))
	}
	return out
}

// TestShardsJoin: whatever way the vocabulary is cut, the best of the shards' bests is that of the whole, bit for bit.
func TestShardsJoin(t *testing.T) {
	const vocab, hidden, batch = 1003, 24, 9
	rng := rand.New(rand.NewPCG(7, 7))
	r := Request{H: bf16s(normals(batch*hidden, 2, 5)), W: bf16s(normals(vocab*hidden, 0.5, 6)), Batch: batch, Shape: ir.Shape{Vocab: vocab, Hidden: hidden},
		Temperature: []float32{0, 0.3, 1, 2, 0.7, 1, 1, 5, 0}, Positions: []uint64{3}, Mask: make([]uint32, (vocab+31)/32), MaskWords: (vocab + 31) / 32}
	for i := range batch {
		r.Seeds = append(r.Seeds, uint64(i))
	}
	for i := range r.Mask {
		r.Mask[i] = rng.Uint32()
	}
	for _, sampler := range []ir.Sampler{ir.Gumbel, ir.Grouped} {
		r.Computation = ir.Computation{Sampler: sampler, Chain: ir.Chain{Temperature: true, Mask: true}}
		whole, err := Sample(t.Context(), &r)
		require.NoError(t, err)
		for _, table := range shardTables(vocab) {
			if (ir.Computation{Sampler: sampler}).ValidSpans(table, vocab) != nil {
				require.Equal(t, ir.Grouped, sampler)
				continue
			}
			var parts []*Result
			for _, span := range table {
				shard := r
				shard.Computation.Shard, shard.Span, shard.W = ir.ShardRecords, span, r.W[span.Start*hidden:span.End()*hidden]
				part, err := Sample(t.Context(), &shard)
				require.NoError(t, err)
				parts = append(parts, part)
			}
			for b := range batch {
				token, score := joined(parts, b)
				require.Equal(t, whole.Tokens[b], token, "%s, %v, row %d", sampler, table, b)
				require.Equal(t, whole.Best[b], score, "%s, %v, row %d", sampler, table, b)
			}
		}
	}
}

func TestShardRefusals(t *testing.T) {
	r := Request{Batch: 0, Shape: ir.Shape{Vocab: 100, Hidden: 8}, Computation: ir.Computation{Sampler: ir.Grouped, Shard: ir.ShardRecords}, Span: ir.Span{Start: 8, Count: 8},
		W: make([]uint16, 64), Seeds: []uint64{0}, Positions: []uint64{0}}
	var span *ir.SpanError
	require.ErrorAs(t, r.Validate(), &span)
	require.Contains(t, span.Error(), "shard 0 is [8, 16): want a start that is a multiple of 16 with the grouped sampler")
	r.Computation = ir.Computation{Sampler: ir.Greedy, Shard: ir.ShardRecords, Rank: true, LogProb: ir.RawLogProb}
	r.Seeds, r.Positions = nil, nil
	require.ErrorContains(t, r.Validate(), "Span")
	r.Computation = ir.Computation{Sampler: ir.Greedy}
	require.ErrorContains(t, r.Validate(), "Span")
}
