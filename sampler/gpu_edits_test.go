//go:build !fsgen_nocuda

package sampler

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// distinctIDs draws n different ids.
func distinctIDs(rng *rand.Rand, n, vocab int) (ids []int32) {
	seen := map[int32]bool{}
	for len(ids) < n {
		if id := int32(rng.IntN(vocab)); !seen[id] {
			seen[id], ids = true, append(ids, id)
		}
	}
	return ids
}

// editedRows gives rows lists of a size, or none of them; every third row has an allowed list.
func editedRows(rng *rand.Rand, c ir.Chain, n, vocab int) (r Rows) {
	size := func() int { return []int{0, 1, 20, 300, 5000}[rng.IntN(5)] }
	for i := range n {
		r.Seeds, r.Positions = append(r.Seeds, rng.Uint64()), append(r.Positions, rng.Uint64())
		r.Temperature = append(r.Temperature, []float32{0, 0.5, 1, 2}[rng.IntN(4)])
		var bias []ir.TokenBias
		var counts []ir.TokenCount
		for _, id := range distinctIDs(rng, size(), vocab) {
			bias = append(bias, ir.TokenBias{ID: id, Value: float32(rng.NormFloat64() * 4)})
		}
		for _, id := range distinctIDs(rng, size(), vocab) {
			counts = append(counts, ir.TokenCount{ID: id, Count: uint32(rng.IntN(4)) | uint32(rng.IntN(2))<<31})
		}
		if c.Bias == ir.BiasSparse {
			r.BiasLists = append(r.BiasLists, bias)
		}
		if c.Penalties {
			r.CountLists, r.Repetition = append(r.CountLists, counts), append(r.Repetition, []float32{1, 1.3, 0.7}[i%3])
			r.Frequency, r.Presence = append(r.Frequency, float32(i%2)/4), append(r.Presence, float32(i%4)/2)
		}
		if c.IDs {
			var allow []int32
			if i%3 == 2 {
				allow = append([]int32{}, distinctIDs(rng, size(), vocab)...)
			}
			r.AllowIDs, r.BanIDs = append(r.AllowIDs, allow), append(r.BanIDs, distinctIDs(rng, size(), vocab))
		}
	}
	return r
}

// Rows of every edit on a vocabulary of full size: what the GPU samples is what the reference does.
func TestGPUEdits(t *testing.T) {
	dev := gpu(t)
	rng := rand.New(rand.NewPCG(21, 22))
	const vocab, hidden = 151936, 64
	source := Matrix{Data: normals(rng, vocab*hidden, 2/math.Sqrt(hidden)), Hidden: hidden}
	for i, x := range []struct {
		chain string
		spec  Spec
	}{
		{"bias=sparse,penalties,ids,temperature", Spec{}},
		{"bias=sparse,penalties,bias-last,ids,temperature", Spec{LogProb: ir.RawLogProb}},
		{"softcap=5,bias=sparse,penalties,ids,temperature", Spec{LogProb: ir.ProcessedLogProb, LogSumExp: true}},
		{"penalties,temperature", Spec{Sampler: ir.Grouped}},
		{"bias=sparse,penalties,ids,temperature", Spec{Truncation: ir.Truncation{TopK: true, TopP: true}}},
	} {
		spec := x.spec
		var err error
		spec.Chain, err = ir.ParseChain(x.chain)
		require.NoError(t, err)
		n := []int{3, 16, 64, 40, 64}[i]
		spec.MaxBatch, spec.Score = n, true
		rows := editedRows(rng, spec.Chain, n, vocab)
		if spec.Truncation.Any() {
			rows.TopK, rows.TopP = []int32{40}, []float32{0.9}
		}
		if i == 3 { // counts of all tokens
			rows.Counts = make([]uint32, n*vocab)
			for b, list := range rows.CountLists {
				for _, e := range list {
					rows.Counts[b*vocab+int(e.ID)] = e.Count
				}
			}
			rows.CountLists = nil
		}
		h := normals(rng, n*hidden, 1)
		got := sampleFiltered(t, dev, source, vocab, hidden, Packed, spec, h, rows)
		cpu, err := Open(CPU)
		require.NoError(t, err)
		want := sampleFiltered(t, cpu, source, vocab, hidden, RowMajor, spec, h, rows)
		require.NoError(t, cpu.Close())
		require.Equal(t, want.Status, got.Status, x.chain)
		require.Equal(t, want.Tokens, got.Tokens, x.chain)
		for b, p := range want.LogProbs {
			if want.Status[b] == ir.StatusOK {
				require.InDelta(t, p, got.LogProbs[b], 1e-3, "%s row %d", x.chain, b)
			}
		}
	}
}

// editedContender is a launch of a plan whose rows have lists of some size: biases, counts and banned ids.
func editedContender(t *testing.T, dev *Device, head *Head, hidden uint64, batch, size int, name string) *contender {
	spec := Spec{Chain: ir.Chain{Temperature: true, Bias: ir.BiasSparse, Penalties: true, IDs: true}, MaxBatch: batch}
	return timedArgs(t, dev, head, spec, name, hidden, batch, func(a *DeviceArgs) {
		rng := rand.New(rand.NewPCG(4, uint64(size)))
		var spans, pairs, ids []uint32
		for i := range batch {
			spans = append(spans, uint32(i*size), uint32(size))
			list := distinctIDs(rng, size, head.shape.Vocab)
			slices.Sort(list)
			for _, id := range list {
				pairs, ids = append(pairs, uint32(id), 1), append(ids, uint32(id))
			}
		}
		if size == 0 {
			return
		}
		at := upload(t, dev, spans)
		a.BiasLists = DeviceLists{Spans: at, Entries: upload(t, dev, pairs), Count: batch * size}
		a.CountLists, a.BanIDs = a.BiasLists, DeviceLists{Spans: at, Entries: upload(t, dev, ids), Count: batch * size}
		a.Presence, a.OnePresence = upload(t, dev, []float32{0.5}), true
	})
}

// TestGPUEditsCostNothingUnused holds launches of kernels with every edit, whose rows have none, to what a kernel without takes; and
// tells what 256 edits a row of each kind take.
func TestGPUEditsCostNothingUnused(t *testing.T) {
	if os.Getenv("FSGEN_TIME") == "" {
		t.Skip("set FSGEN_TIME=1 to time")
	}
	dev := gpu(t)
	head, hidden := timedHead(t, dev, 256)
	for _, batch := range []int{1, 16, 64, 256} {
		list := []*contender{
			timedPlan(t, dev, head, Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: batch}, "plain", hidden, batch),
			editedContender(t, dev, head, hidden, batch, 0, "no edits"),
			editedContender(t, dev, head, hidden, batch, 256, "256 edits"),
		}
		runTimed(t, dev, list)
		list[1].holdTo(t, list[0], mostOverPlain)
		list[2].holdTo(t, list[0], math.Inf(1)) // told, not held
	}
}
