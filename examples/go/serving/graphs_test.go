//go:build linux && (amd64 || arm64) && !fsgen_nocuda

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/cfake"
	"github.com/fsgen/fsgen/internal/dynlib"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// TestGraphsOfEveryBucket goes through the graphs on driver's stand-in for libcuda, where kernels do nothing: each bucket is
// captured once, a step replays its own with the rows that it was given, and everything is given back.
func TestGraphsOfEveryBucket(t *testing.T) {
	source, err := os.ReadFile("../../../driver/testdata/fakecuda.c")
	require.NoError(t, err)
	t.Setenv(driver.EnvLibrary, cfake.Build(t, source))
	lib, err := dynlib.Open(os.Getenv(driver.EnvLibrary))
	require.NoError(t, err)
	dev, err := sampler.Open(sampler.CUDA)
	require.NoError(t, err)
	o := options{vocab: 300, hidden: 60, maxBatch: 5}
	head, err := dev.LoadHead(t.Context(), sampler.Weights{Source: newHead(o), Vocab: o.vocab, Hidden: o.hidden})
	require.NoError(t, err)
	plan, err := head.Plan(t.Context(), sampler.Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: o.maxBatch})
	require.NoError(t, err)
	step, err := newStepper(t.Context(), dev, plan, o.hidden, bucketsFor(o.maxBatch))
	require.NoError(t, err)
	g := step.(*graphs)
	require.Len(t, g.byBucket, 4)
	for bucket, b := range g.byBucket {
		in := rows{hidden: make([]uint16, 60), seeds: []uint64{7}, positions: []uint64{uint64(bucket)}, temperature: []float32{0.5}}
		in.hidden[59] = 0xBEEF
		tokens, err := g.step(t.Context(), bucket, &in)
		require.NoError(t, err)
		require.Len(t, tokens, 1)
		mem := g.host.Bytes()
		assert.Equal(t, []byte{0xEF, 0xBE, 0, 0}, mem[b.at.hidden+2*59:][:4], "rows are filled up to 16 bytes")
		assert.EqualValues(t, 7, mem[b.at.seeds])
		assert.EqualValues(t, bucket, mem[b.at.positions])
		assert.Equal(t, []byte{0, 0, 0, 0x3F}, mem[b.at.temperature:][:4])
	}
	for _, close := range []func() error{step.close, plan.Close, head.Close, dev.Close} {
		require.NoError(t, close())
	}
	for _, name := range []string{"fake_live", "fake_bad_handles"} {
		fn, err := lib.Func(name)
		require.NoError(t, err)
		assert.Zero(t, int32(fn.Call()), name)
	}
}
