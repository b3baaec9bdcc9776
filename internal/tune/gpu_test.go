//go:build !fsgen_nocuda

package tune

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/cache"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// gpu opens the first GPU, with a cache directory of the test's own, or skips with the reason; with FSGEN_REQUIRE_GPU set
// it fails instead.
func gpu(t *testing.T) (*sampler.Device, *autotune.Store) {
	t.Helper()
	t.Setenv(cache.EnvDir, t.TempDir())
	dev, err := sampler.Open(sampler.CUDA)
	if err != nil {
		if os.Getenv("FSGEN_REQUIRE_GPU") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev, autotune.OpenStore(cache.Open(cache.Options{}), func(s string) { t.Error(s) })
}

// smallHead is a head that is measured in seconds, and that the GPU's cache would hold if copies did not take turns.
var smallHead = ir.Shape{Vocab: 32000, Hidden: 1024}

// tuneOn runs a job and returns what became of its buckets, none of whose candidates may be wrong.
func tuneOn(t *testing.T, j autotune.Job, o autotune.Options) []autotune.Outcome {
	t.Helper()
	var list []autotune.Outcome
	o.Finished = func(x autotune.Outcome) { list = append(list, x) }
	require.NoError(t, autotune.Run(t.Context(), []autotune.Job{j}, o))
	for _, x := range list {
		require.NoError(t, x.Err)
		if x.Search == nil {
			continue
		}
		for _, m := range x.Search.Rejected() {
			require.NotErrorIs(t, m.Err, autotune.ErrTokens, "%s", m.Candidate)
			t.Logf("rejected: %s: %v", m.Candidate, m.Err)
		}
		for _, m := range x.Search.Measured {
			t.Logf("batch %3d %-26s %8.2f us +- %5.2f, round %d", x.Entry.Batch, m.Candidate, m.Microseconds, m.Spread, m.Round)
		}
	}
	return list
}

// TestGPUTuneTwice holds that two runs of tuning pick candidates whose times agree within 2%, measured in turn.
func TestGPUTuneTwice(t *testing.T) {
	dev, store := gpu(t)
	cfg := Config{Name: "small", Shape: smallHead, Computation: tempered, Layout: "rowmajor", Batches: []int{1, 16, 64, 256}}
	j, err := New(dev).Job(cfg)
	require.NoError(t, err)
	first := tuneOn(t, j, autotune.Options{Store: store, GPU: dev.Info().UUID})
	second := tuneOn(t, j, autotune.Options{Store: store, GPU: dev.Info().UUID, Force: true})
	require.Len(t, second, len(first))
	r, err := j.Open(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for i := range first {
		a, b := pick(t, first[i]), pick(t, second[i])
		t.Logf("batch %d: %s %.2f us, then %s %.2f us", first[i].Entry.Batch, a, first[i].Entry.Microseconds, b, second[i].Entry.Microseconds)
		times, err := r.Time(t.Context(), []autotune.Candidate{a, b}, first[i].Entry.Batch, 41)
		require.NoError(t, err)
		assert.InEpsilon(t, middle(times[0]), middle(times[1]), 0.02, "%s against %s", a, b)
	}
	again := tuneOn(t, j, autotune.Options{Store: store, GPU: dev.Info().UUID})
	for i, x := range again {
		assert.True(t, x.Reused)
		assert.Equal(t, second[i].Entry, x.Entry)
	}
}

// TestGPUDefaultIsNearTheBest measures every candidate of a head for which the default tile depends on the model of costs,
// and holds the default to within 3% of the best, and the best to be one that a search by the model would have measured.
func TestGPUDefaultIsNearTheBest(t *testing.T) {
	dev, store := gpu(t)
	cfg := Config{Name: "small", Shape: smallHead, Computation: tempered, Layout: "packed", Batches: []int{16, 64, 128, 256}, Exhaustive: true}
	j, err := New(dev).Job(cfg)
	require.NoError(t, err)
	for i, x := range tuneOn(t, j, autotune.Options{Store: store, GPU: dev.Info().UUID}) {
		assert.LessOrEqual(t, x.Entry.Default, 1.03*x.Entry.Microseconds, "batch %d: %s won, rank %d of %d", x.Entry.Batch, x.Entry.Candidate, x.Rank, x.Tiles)
		assert.Contains(t, autotune.Shortlist(j.Buckets[i].Request), pick(t, x), "batch %d", x.Entry.Batch)
	}
}

func pick(t *testing.T, x autotune.Outcome) autotune.Candidate {
	t.Helper()
	c, err := autotune.ParseCandidate(x.Entry.Candidate)
	require.NoError(t, err)
	return c
}

func middle(x []float64) float64 { return slices.Sorted(slices.Values(x))[len(x)/2] }

// TestGPUTunePlansTakeEntries holds that plans made afterwards run the tuned candidates, with the tokens of the default.
func TestGPUTunePlansTakeEntries(t *testing.T) {
	dev, store := gpu(t)
	j, err := New(dev).Job(Config{Name: "small", Shape: smallHead, Computation: tempered, Layout: "rowmajor", Batches: []int{8, 64}})
	require.NoError(t, err)
	list := tuneOn(t, j, autotune.Options{Store: store, GPU: dev.Info().UUID})
	entry := *list[1].Entry // another tile than the default, whatever won
	for _, c := range j.Buckets[1].Candidates[1:] {
		if c.Tile.M != 192 {
			entry.Candidate, entry.PTXSHA256 = c.String(), shaOf(t, j.Buckets[1], c)
			break
		}
	}
	require.NoError(t, store.Put(&entry))

	head, err := dev.LoadHead(t.Context(), sampler.Weights{Source: newWeights(smallHead.Hidden, poolValues), Vocab: smallHead.Vocab, Hidden: smallHead.Hidden})
	require.NoError(t, err)
	defer head.Close()
	spec := sampler.Spec{Chain: tempered.Chain, MaxBatch: 64}
	tuned, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	defer tuned.Close()
	spec.Tuning = sampler.Untuned
	plain, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	defer plain.Close()
	c, err := autotune.ParseCandidate(entry.Candidate)
	require.NoError(t, err)
	assert.Contains(t, tuned.Kernels()[3], c.Tile.String())
	assert.NotContains(t, plain.Kernels()[3], c.Tile.String())
	for batch := 1; batch <= 64; batch += 9 {
		in := newInputs(tempered, smallHead, batch)
		want, err := sampleOnce(t.Context(), plain, in)
		require.NoError(t, err)
		got, err := sampleOnce(t.Context(), tuned, in)
		require.NoError(t, err)
		assert.NoError(t, same(want, got), "batch %d", batch)
	}
}

func shaOf(t *testing.T, b autotune.Bucket, c autotune.Candidate) string {
	t.Helper()
	r := b.Request
	r.Tile = c.Tile
	a, err := gen.Emit(r)
	require.NoError(t, err)
	return a.Manifest.PTXSHA256
}

// TestGPUTuneCandidatesGiveTheSameTokens verifies every candidate of every bucket for a computation with all transforms,
// under grids of odd sizes too.
func TestGPUTuneCandidatesGiveTheSameTokens(t *testing.T) {
	dev, _ := gpu(t)
	all := ir.Computation{Chain: ir.Chain{Scale: 0.5, Softcap: 30, Bias: ir.BiasMatrix, Mask: true, Temperature: true}, Score: true}
	j, err := New(dev).Job(Config{Name: "small", Shape: ir.Shape{Vocab: 20003, Hidden: 520}, Computation: all, Layout: "rowmajor", Exhaustive: true})
	require.NoError(t, err)
	r, err := j.Open(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, b := range j.Buckets {
		for _, c := range b.Candidates {
			assert.NoError(t, r.Verify(t.Context(), c, b.Key.Batch), "%s at batch %d", c, b.Key.Batch)
			c.CTAs = 1 + rng.IntN(140)
			assert.NoError(t, r.Verify(t.Context(), c, b.Key.Batch), "%s at batch %d", c, b.Key.Batch)
		}
	}
}

// TestGPUTuneCancelled cuts a run short while it times, and goes on with the same device.
func TestGPUTuneCancelled(t *testing.T) {
	dev, store := gpu(t)
	j, err := New(dev).Job(Config{Name: "small", Shape: smallHead, Computation: tempered, Layout: "rowmajor", Batches: []int{8, 16}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	o := autotune.Options{Store: store, GPU: dev.Info().UUID, Progress: func(p autotune.Progress) {
		if p.Doing == "timing" && p.Bucket == 16 {
			cancel()
		}
	}}
	require.ErrorIs(t, autotune.Run(ctx, []autotune.Job{j}, o), context.Canceled)
	require.NoError(t, dev.Healthy())
	list := tuneOn(t, j, autotune.Options{Store: store, GPU: dev.Info().UUID})
	assert.True(t, list[0].Reused)
	assert.False(t, list[1].Reused)
}
