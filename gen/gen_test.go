package gen

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// Kernels depend on the computation and the tile alone: two models of other shapes get the same bytes.
func TestKernelsDoNotDependOnTheShape(t *testing.T) {
	_, err := presetCorpus() // compares every kernel with the first of its name
	require.NoError(t, err)
	small, large := request(16, "temperature"), request(16, "temperature")
	small.Shape, large.Shape = ir.Shape{Vocab: 1, Hidden: 1}, ir.Shape{Vocab: ir.MaxVocab, Hidden: 1 << 20}
	c, err := emit([]Request{small, large})
	require.NoError(t, err)
	require.Len(t, c, 1)
}

func TestEntriesNameKernels(t *testing.T) {
	texts := map[string]string{}
	all := everything(t)
	for _, chain := range []string{"scale=1e20", "scale=1e-20", "scale=-2", "scale=2", "softcap=1e20", "softcap=1e-20", "softcap=1.5", "softcap=15"} {
		a, err := Emit(Request{Arch: arch.SM90, Computation: computation(ir.Gumbel, chain, false), Shape: ir.Shape{Vocab: 8, Hidden: 8}, Batch: 1})
		require.NoError(t, err)
		all = append(all, variant{Artifact: a})
	}
	for _, v := range all {
		old, ok := texts[v.Name()]
		require.True(t, !ok || old == string(v.PTX), "two kernels are called %s", v.Name())
		texts[v.Name()] = string(v.PTX)
	}
}

// Printing and parsing are inverse, and what was parsed verifies too.
func TestRoundTripThroughText(t *testing.T) {
	for _, v := range everything(t) {
		m, err := v.parse()
		require.NoError(t, err, v.name())
		require.True(t, m.String() == string(v.PTX), "%s: the text changes", v.name())
		require.NoError(t, ptx.Verify(m), v.name())
	}
}

func TestManifestAgreesWithThePTX(t *testing.T) {
	for _, v := range everything(t) {
		m, err := v.parse()
		require.NoError(t, err)
		stages := append([]*manifest.Kernel{v.Manifest}, stageKernels(v.Manifest)...)
		require.Len(t, m.Entries(), len(stages), v.name())
		for _, k := range stages {
			agrees(t, v, m, k)
		}
		sum := sha256.Sum256(v.PTX)
		require.Equal(t, hex.EncodeToString(sum[:]), v.Manifest.PTXSHA256)
	}
}

// stageKernels are the stages of a kernel.
func stageKernels(m *manifest.Kernel) (all []*manifest.Kernel) {
	for kind := range manifest.StageKinds {
		if s := m.KernelOf(kind); s != nil {
			all = append(all, s)
		}
	}
	return all
}

// agrees compares what a manifest says of a kernel with the kernel.
func agrees(t *testing.T, v variant, m *ptx.Module, k *manifest.Kernel) {
	entry := m.Func(k.Entry)
	require.NotNil(t, entry, v.name())
	require.Equal(t, m.Target, k.Target)
	require.Equal(t, m.Version(), k.PTXVersion)
	require.Equal(t, entry.ReqThreads, k.Launch.Block)
	if cluster := entry.ReqCluster; cluster != [3]int{} {
		require.Equal(t, cluster, k.Launch.Cluster)
	} else {
		require.Equal(t, [3]int{1, 1, 1}, k.Launch.Cluster)
	}
	require.Len(t, entry.Params, len(k.Params), v.name())
	for i, p := range entry.Params {
		want := k.Params[i]
		require.Equal(t, [3]any{p.Name, p.Offset, p.Size()}, [3]any{want.Name, want.Offset, want.Size}, v.name())
		require.Equal(t, map[manifest.Kind]int{manifest.Pointer: 8, manifest.Scalar: 4, manifest.TensorMap: 64,
			manifest.TensorMapPointer: 8}[want.Kind], p.Alignment())
	}
}

func TestManifestDescribesTheComputation(t *testing.T) {
	for _, v := range everything(t) {
		back, err := manifest.Decode(v.Manifest.Encode())
		require.NoError(t, err, v.name())
		require.Equal(t, v.Manifest, back)

		k, c := v.Manifest, v.Computation
		if v.Options.Further { // after which the stages of the first kernel report
			c.TopN, c.Listed, c.Rank = 0, false, false
		}
		require.Equal(t, ir.Shape{Vocab: k.Problem.Vocab, Hidden: k.Problem.Hidden}, v.Shape)
		chain, err := ir.ParseChain(k.Transform)
		require.NoError(t, err)
		require.Equal(t, c.Chain, chain)
		tile, err := tiling.ParseTile(k.Tile.Name)
		require.NoError(t, err)
		require.Equal(t, tiling.Tile{M: k.Tile.M, N: k.Tile.N, K: k.Tile.K, Stages: k.Tile.Stages, Cluster: k.Tile.Cluster, Split: k.Tile.Split, PingPong: k.Tile.PingPong}, tile)
		gathers := c.Shard == ir.ShardExchange && c.Collects()
		results := !v.Options.Ranks && c.Shard != ir.ShardRecords && !gathers // which the stage that joins records writes
		// A parameter is there exactly if something asks for it.
		for param, wanted := range map[string]bool{
			"seeds": c.Sampler.Random(), "positions": c.Sampler.Random(), "temperature": c.Chain.Temperature,
			"bias": c.Chain.Bias == ir.BiasVector || c.Chain.Bias == ir.BiasMatrix, "bias_stride": c.Chain.Bias == ir.BiasMatrix, "mask": c.Chain.Mask,
			"lse": c.LogSumExp && results, "lse_partials": c.AddsUp(), "scores": c.Score && results, "tokens": results, "status": results, "hidden": true,
			"shard_start": c.Shard != ir.Whole, "shard_count": c.Shard != ir.Whole, manifest.Peers: c.Shard == ir.ShardExchange && !gathers && !v.Options.Ranks, manifest.Records: c.Shard == ir.ShardRecords || gathers,
			"weights": v.Options.Layout() == manifest.RowMajor, "packed_weights": v.Options.Layout() == manifest.Packed && !k.Tile.Split, "packed_map": v.Options.Layout() == manifest.Packed && k.Tile.Split,
			"top_k": c.Truncation.TopK, "top_p": c.Truncation.TopP, "min_p": c.Truncation.MinP,
			manifest.Marks: c.Collects(), manifest.Counts: c.Collects(), manifest.Candidates: c.Collects(),
			"draw_counts": c.Draws != ir.SingleDraw, manifest.MaxDraws: c.Draws != ir.SingleDraw,
		} {
			require.Equal(t, wanted, k.Param(param) != nil, "%s: %s", v.name(), param)
			for _, stage := range []*manifest.Kernel{k.StageKernel(), k.TopKernel(), k.ListedKernel()} {
				if stage != nil && stage.Param(param) != nil && !gathers {
					require.True(t, wanted || param == "packed_weights" && v.Options.Layout() == manifest.Packed, "%s: %s of %s", v.name(), param, stage.Entry)
				}
			}
		}
		require.Equal(t, c.Rank || v.Options.Ranks, k.Param(manifest.Ranks) != nil, v.name())
		if join := k.JoinKernel(); join != nil {
			for param, wanted := range map[string]bool{"tokens": true, "status": true, "scores": c.Score, "lse": c.LogSumExp, "logprob": c.LogProb != ir.NoLogProb, manifest.Gathered: true} {
				require.Equal(t, wanted, join.Param(param) != nil, "%s: %s", join.Entry, param)
			}
		}
		require.Equal(t, c.Shard == ir.ShardRecords, k.Join != nil)
		require.Equal(t, gathers, k.Gather != nil)
		require.Equal(t, templates.HasFacts(c) && c.Shard != ir.Whole, k.Facts)
		require.Equal(t, c.Truncation.Items(), k.Truncation)
		require.Equal(t, c.Draws.String(), v.Draws())
		require.Equal(t, c.Draws != ir.SingleDraw, v.Writes(manifest.Draws))
		require.Equal(t, c.Collects(), k.Resolve != nil)
		require.Equal(t, c.Rank || v.Options.Ranks, slices.Contains(k.Outputs, manifest.Ranks), v.name())
		require.Equal(t, c.TopN, k.TopN)
		require.Equal(t, c.TopN > 0, k.Top != nil)
		exchanges := c.Shard == ir.ShardExchange
		require.Equal(t, [4]bool{exchanges && c.TopN > 0, exchanges && c.TopN > 0, exchanges && c.Listed, exchanges && v.Options.Ranks},
			[4]bool{k.TopGather != nil, k.TopMerge != nil, k.ListedGather != nil, k.RanksGather != nil}, v.name())
		require.Equal(t, c.TopN > 0, slices.Contains(k.Outputs, manifest.TopIDs))
		require.Equal(t, c.Listed, k.Listed != nil)
		require.Equal(t, c.Listed, slices.Contains(k.Outputs, manifest.ListLogProbs))
		require.Equal(t, c.Score, slices.Contains(k.Outputs, "score"))
		require.Equal(t, c.LogSumExp, slices.Contains(k.Outputs, manifest.LogSumExp))
		require.Equal(t, c.Sampler.String(), k.Sampler)
		require.Equal(t, c.Sampler.Random(), k.RNG == ir.NoiseName)
	}
}

func TestCheckPTX(t *testing.T) {
	a, err := Emit(request(16, "none"))
	require.NoError(t, err)
	require.NoError(t, a.Manifest.CheckPTX(a.PTX))
	require.ErrorContains(t, a.Manifest.CheckPTX(append(a.PTX, '\n')), a.Manifest.PTXSHA256)
}

func request(batch int, chain string) Request {
	return Request{Arch: arch.SM90, Computation: computation(ir.Gumbel, chain, false), Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: batch}
}

func TestRequestsThatCannotBeHonoured(t *testing.T) {
	for want, change := range map[string]func(*Request){
		"gen: batch is -1":           func(r *Request) { r.Batch = -1 },
		"vocabulary size is 0":       func(r *Request) { r.Shape.Vocab = 0 },
		"hidden size is 0":           func(r *Request) { r.Shape.Hidden = 0 },
		"size is 2147483648":         func(r *Request) { r.Shape.Vocab = 1 << 31 }, // ids are 31 bits wide
		"unknown sampler 9":          func(r *Request) { r.Computation.Sampler = 9 },
		"softcap is NaN":             func(r *Request) { r.Computation.Chain.Softcap = float32(math.NaN()) },
		"scale is +Inf":              func(r *Request) { r.Computation.Chain.Scale = float32(math.Inf(1)) },
		"tile m128n24k64s4c1: N is":  func(r *Request) { r.Tile = tiling.Tile{M: 128, N: 24, K: 64, Stages: 4, Cluster: 1} },
		"tile m0n0k0s0c1: M is 64":   func(r *Request) { r.Tile = tiling.Tile{Cluster: 1} },
		"m192n256k64s3c1: needs abo": func(r *Request) { r.Tile = tiling.Tile{M: 192, N: 256, K: 64, Stages: 3, Cluster: 1} },
	} {
		r := request(16, "none")
		change(&r)
		a, err := Emit(r)
		assert.ErrorContains(t, err, want)
		assert.Nil(t, a)
	}
	_, err := Emit(request(0, "none"))
	require.NoError(t, err, "an empty batch has a kernel too")
}

// A greedy sampler has no use for the temperature: one kernel, whatever was asked.
func TestWhatChangesNothingIsDropped(t *testing.T) {
	plain, warm := request(16, "none"), request(16, "scale=1,temperature")
	plain.Computation.Sampler, warm.Computation.Sampler = ir.Greedy, ir.Greedy
	a, err := Emit(plain)
	require.NoError(t, err)
	b, err := Emit(warm)
	require.NoError(t, err)
	require.Equal(t, a, b)
}

// longest is the request with the most to emit.
func longest() Request {
	r := request(256, "scale=0.5,softcap=30,bias=rows,mask,temperature")
	r.Computation.Score = true
	return r
}

// A kernel takes a few milliseconds to emit. Fifty is the promise; the median leaves a busy machine room.
func TestEmitIsQuick(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector slows everything down")
	}
	var times []time.Duration
	for range 21 {
		start := time.Now()
		_, err := Emit(longest())
		times = append(times, time.Since(start))
		require.NoError(t, err)
	}
	slices.Sort(times)
	t.Logf("median %v of %v to %v", times[10], times[0], times[20])
	require.Less(t, times[10], 50*time.Millisecond)
}

func BenchmarkEmit(b *testing.B) {
	for _, r := range []Request{request(1, "none"), request(16, "temperature"), longest()} {
		a, err := Emit(r)
		require.NoError(b, err)
		b.Run(strings.TrimPrefix(a.Name(), "fsgen_sm_90_"), func(b *testing.B) {
			b.SetBytes(int64(len(a.PTX)))
			for b.Loop() {
				if _, err := Emit(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
