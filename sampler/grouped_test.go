package sampler

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
)

// onDevice samples a head of random weights on a device.
func onDevice(t *testing.T, name string, layout Layout, spec Spec) *Result {
	t.Helper()
	const v, d, n = 900, 72, 21
	dev, err := Open(name)
	require.NoError(t, err)
	defer dev.Close()
	rng := rand.New(rand.NewPCG(3, 5))
	w, h := make([]uint16, v*d), make([]uint16, n*d)
	for _, x := range [][]uint16{w, h} {
		for i := range x {
			x[i] = uint16(0x3e00+rng.Uint32N(0x100)) | uint16(rng.Uint32N(2))<<15
		}
	}
	head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: w, Hidden: d}, Vocab: v, Hidden: d, Layout: layout})
	require.NoError(t, err)
	defer head.Close()
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	defer plan.Close()
	rows := Rows{Temperature: []float32{0.9}}
	if spec.Sampler.Random() {
		rows.Seeds, rows.Positions = make([]uint64, n), []uint64{4}
		for i := range rows.Seeds {
			rows.Seeds[i] = uint64(i)
		}
	}
	res, err := plan.Sample(t.Context(), h, rows)
	require.NoError(t, err)
	return res
}

// Every sampler gives the same tokens on every device that is at hand, and sums that agree; outputs are there where the spec
// asks, and only there.
func TestSamplersOnEveryDevice(t *testing.T) {
	for _, s := range []ir.Sampler{ir.Gumbel, ir.Grouped, ir.Greedy} {
		spec := Spec{Chain: ir.Chain{Temperature: true}, Sampler: s, LogSumExp: true, Score: s == ir.Grouped}
		want := onDevice(t, CPU, RowMajor, spec)
		require.Len(t, want.LogSumExp, len(want.Tokens))
		require.Equal(t, s.Random(), want.Seeds != nil)
		for _, name := range []string{"sim:sm_90", "sim:sm_100"} {
			got := onDevice(t, name, Packed, spec)
			require.Equal(t, want.Tokens, got.Tokens, "%s on %s", s, name)
			require.Equal(t, want.Scores == nil, got.Scores == nil)
			for b, x := range want.LogSumExp {
				require.InDelta(t, x, got.LogSumExp[b], 1e-4)
			}
		}
		spec.LogSumExp = false
		for _, name := range []string{CPU, "sim:sm_90"} {
			bare := onDevice(t, name, RowMajor, spec)
			require.Nil(t, bare.LogSumExp)
			require.Equal(t, want.Tokens, bare.Tokens)
		}
	}
}

// An emitted kernel must be of the spec's sampler and write what it asks for; what it writes besides is left.
func TestArtifactsFitTheSpec(t *testing.T) {
	emit := func(c ir.Computation) *gen.Artifact {
		c.Chain.Temperature = true
		a, err := gen.Emit(gen.Request{Arch: arch.SM90, Computation: c, Shape: ir.Shape{Vocab: 900, Hidden: 72}, Batch: 21})
		require.NoError(t, err)
		return a
	}
	plain, sums := emit(ir.Computation{}), emit(ir.Computation{Sampler: ir.Grouped, LogSumExp: true})
	for what, spec := range map[string]Spec{
		"log-sum-exp":  {Artifact: plain, LogSumExp: true},
		"grouped":      {Artifact: plain, Sampler: ir.Grouped},
		"wants scores": {Artifact: sums, Sampler: ir.Grouped, Score: true},
		"gumbel":       {Artifact: sums},
	} {
		spec.Chain.Temperature = true
		var input *InputError
		require.ErrorAs(t, spec.validate(), &input, what)
		require.ErrorContains(t, input, what)
	}
	spec := Spec{Artifact: sums, Sampler: ir.Grouped, Chain: ir.Chain{Temperature: true}}
	res := onDevice(t, "sim:sm_90", RowMajor, spec)
	require.Nil(t, res.LogSumExp)
	spec.Artifact = nil
	require.Equal(t, onDevice(t, CPU, RowMajor, spec).Tokens, res.Tokens)
}

// A row without a token has no log-sum-exp, whatever the device.
func TestSumsOfFailedRows(t *testing.T) {
	plan := cpuPlanFor(t, 40, 8, Spec{Chain: ir.Chain{Mask: true}, Sampler: ir.Grouped, LogSumExp: true})
	res, err := plan.Sample(t.Context(), make([]uint16, 16), Rows{Seeds: []uint64{1}, Positions: []uint64{1}, Mask: []uint32{0, 0, 6, 0}})
	require.NoError(t, err)
	require.Equal(t, []ir.Status{ir.StatusEmpty, ir.StatusOK}, res.Status)
	require.True(t, math.IsNaN(float64(res.LogSumExp[0])))
	require.InDelta(t, math.Ln2, res.LogSumExp[1], 1e-6)
}
