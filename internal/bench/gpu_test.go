//go:build !fsgen_nocuda

package bench

import (
	"bytes"
	"github.com/fsgen/fsgen/internal/closing"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// gpu opens the first GPU, or skips with the reason; with FSGEN_REQUIRE_GPU set it fails instead.
func gpu(t *testing.T) *sampler.Device {
	t.Helper()
	dev, err := sampler.Open(sampler.CUDA)
	if err != nil {
		if os.Getenv("FSGEN_REQUIRE_GPU") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}

// TestGPUBench times a small head of odd sizes and looks for sense in every number.
func TestGPUBench(t *testing.T) {
	dev := gpu(t)
	for _, c := range []ir.Computation{plain, {Sampler: ir.Greedy, Chain: ir.Chain{Softcap: 30, Bias: ir.BiasMatrix, Mask: true}}} {
		cfg := small()
		cfg.Shape = ir.Shape{Vocab: 20003, Hidden: 520}
		cfg.Batches, cfg.Computation = []int{1, 17, 300}, c
		rep, err := Run(t.Context(), dev, cfg)
		require.NoError(t, err)
		for _, s := range rep.Skipped {
			t.Logf("%s was skipped: %s", s.Contender, s.Why)
		}
		for _, x := range rep.Results {
			assert.Len(t, x.Times, cfg.Method.Replays)
			for _, v := range append(slices.Clone(x.Times), x.XFloor, x.Median, x.P10, x.P90) {
				assert.True(t, v > 0 && !math.IsInf(v, 0), "%s at batch %d: %v", x.Contender, x.Batch, v)
			}
			assert.True(t, x.P10 <= x.Median && x.Median <= x.P90)
			if len(rep.Skipped) == 0 {
				assert.Positive(t, x.XCublas)
			}
		}
		assert.Len(t, rep.Results, len(cfg.Batches)*(3-min(len(rep.Skipped), 1)))
		var table bytes.Buffer
		require.NoError(t, rep.WriteTable(&table))
		t.Log("\n" + table.String())
	}
}

// TestGPUCublasGivesTheLogits compares every logit of a small problem, by every algorithm, with the sum in float64.
func TestGPUCublasGivesTheLogits(t *testing.T) {
	dev := gpu(t)
	cfg := small()
	cfg.Shape = ir.Shape{Vocab: 1003, Hidden: 68}
	r, err := openRig(t.Context(), dev, &cfg)
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.close()) }()
	b, err := r.openBLAS()
	if err != nil {
		t.Skipf("no peer: %v", err)
	}
	t.Logf("cublasLt %s, %s", b.lib.Version(), b.lib.Path())
	for _, batch := range cfg.Batches {
		var s closing.Scope
		p := &product{b: b, batch: batch}
		require.NoError(t, p.open(&s))
		for algorithm := range p.m.Algorithms() {
			_, err := p.try(t.Context(), &s, algorithm)
			require.NoError(t, err)
			for row := range batch {
				for token := range cfg.Shape.Vocab {
					if token%7 != 0 && token < cfg.Shape.Vocab-3 { // each is a copy from the device
						continue
					}
					got, err := p.read(row, token)
					require.NoError(t, err)
					want := r.data.logit(row, token)
					assert.InDelta(t, want, value(got), 0.01*(1+math.Abs(want)), "algorithm %d, row %d, token %d", algorithm, row, token)
				}
			}
		}
		require.NoError(t, r.stream.Synchronize(t.Context()))
		require.NoError(t, s.CloseAll())
	}
}

// value is a bf16 number.
func value(bits uint16) float64 { return float64(math.Float32frombits(uint32(bits) << 16)) }
