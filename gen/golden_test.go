package gen

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/internal/golden"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
)

// TestGolden holds a handful of kernels against testdata, so that no change to emitted code goes unseen. Between them they
// have every part of the skeletons: one group of columns and many, one CTA and a cluster, even registers and shares, and
// every transform; blocks scored as a whole, sums in the epilogue and in a pass of their own, and log-probabilities of what is
// compared and of what is not, slots, rows that are narrowed, rows that draw several tokens, rows whose single logits are changed,
// what is reported beside tokens, and all of these of one row, of which two distributions are added up.
func TestGolden(t *testing.T) {
	greedy := request(1, "none")
	greedy.Computation.Sampler = ir.Greedy
	greedy100, gumbel100 := request(16, "none"), request(128, "bias=rows,mask,temperature")
	greedy100.Computation.Sampler = ir.Greedy
	greedy100.Arch, gumbel100.Arch = arch.SM100, arch.SM100
	grouped, grouped100, lse := request(64, "temperature"), request(32, "bias,mask,temperature"), request(64, "temperature")
	grouped.Computation.Sampler, grouped100.Computation.Sampler = ir.Grouped, ir.Grouped
	grouped.Computation.Score, grouped.Options.Weights = true, manifest.Packed
	grouped100.Arch, grouped100.Computation.LogSumExp = arch.SM100, true
	lse.Computation.LogSumExp = true
	raw, processed := request(64, "bias,temperature"), request(32, "mask,temperature")
	raw.Computation.LogProb = ir.RawLogProb
	processed.Arch, processed.Computation.Sampler, processed.Computation.LogProb = arch.SM100, ir.Grouped, ir.ProcessedLogProb
	processed.Computation.Slots = true
	narrow, narrow100 := request(8, "temperature"), request(16, "mask,temperature")
	narrow.Computation.Truncation = ir.Truncation{TopK: true, TopP: true}
	narrow100.Arch, narrow100.Computation.Truncation = arch.SM100, ir.Truncation{MinP: true, TemperatureLast: true}
	drawn, drawn100 := request(8, "temperature"), request(16, "mask,temperature")
	drawn.Computation.Draws, drawn.Computation.MaxDraws = ir.WithReplacement, ir.MaxDraws
	drawn100.Arch, drawn100.Computation.Draws, drawn100.Computation.MaxDraws = arch.SM100, ir.WithoutReplacement, ir.MaxDraws
	edited, edited100 := request(8, "bias=sparse,penalties,ids,temperature"), request(32, "softcap=30,bias=sparse,penalties,bias-last,ids,mask,temperature")
	edited100.Arch, edited100.Computation.LogProb, edited100.Computation.Slots = arch.SM100, ir.RawLogProb, true
	reports, reports100 := request(64, "bias,temperature"), request(16, "mask,temperature")
	reports.Computation.LogProb, reports.Computation.Listed, reports.Computation.TopN, reports.Options.Weights = ir.RawLogProb, true, 20, manifest.Packed
	reports100.Arch, reports100.Computation.LogProb, reports100.Computation.TopN, reports100.Computation.Rank = arch.SM100, ir.ProcessedLogProb, 5, true
	all, all100 := request(8, "temperature"), request(16, "mask,temperature")
	all.Computation.Truncation, all.Computation.Draws, all.Computation.MaxDraws = narrow.Computation.Truncation, ir.WithReplacement, ir.MaxDraws
	all.Computation.LogProb, all.Computation.TopN, all.Computation.Listed = ir.RawLogProb, 5, true
	all100.Arch, all100.Computation.Truncation, all100.Computation.LogProb = arch.SM100, ir.Truncation{TopP: true, MinP: true, TemperatureLast: true}, ir.ProcessedLogProb
	all100.Computation.LogSumExp, all100.Computation.TopN, all100.Computation.Rank, all100.Options.Further = true, 5, true, true
	ranks := request(64, "mask")
	ranks.Computation, ranks.Options.Ranks = ir.Computation{Chain: ranks.Computation.Chain, Sampler: ir.Greedy}, true
	exchange, shard100 := request(16, "temperature"), request(32, "temperature")
	exchange.Computation.Shard, exchange.Computation.LogProb, exchange.Options.Weights = ir.ShardExchange, ir.RawLogProb, manifest.Packed
	shard100.Arch, shard100.Computation.Shard, shard100.Computation.Sampler, shard100.Computation.LogSumExp = arch.SM100, ir.ShardRecords, ir.Grouped, true
	exchange100, exchangedRanks := request(16, "temperature"), ranks
	exchange100.Arch, exchange100.Computation.Shard, exchange100.Computation.LogProb = arch.SM100, ir.ShardExchange, ir.ProcessedLogProb
	exchange100.Computation.TopN, exchange100.Computation.Listed, exchange100.Computation.Rank = 5, true, true
	exchangedRanks.Computation.Shard = ir.ShardExchange
	files := map[string][]byte{}
	for _, r := range []Request{
		exchange,
		exchange100,
		exchangedRanks,
		shard100,
		reports,
		reports100,
		all,
		all100,
		ranks,
		greedy,
		request(16, "temperature"),
		request(128, "bias,mask,temperature"),
		longest(),
		greedy100,
		gumbel100,
		grouped,
		grouped100,
		lse,
		raw,
		processed,
		narrow,
		narrow100,
		drawn,
		drawn100,
		edited,
		edited100,
	} {
		a, err := Emit(r)
		require.NoError(t, err)
		files[a.Name()+".ptx"] = a.PTX
		files[a.Name()+".json"] = a.Manifest.Encode()
	}
	golden.Dir(t, "testdata", files, "*.ptx", "*.json")
}
