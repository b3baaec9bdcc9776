package verify

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// TestSeveralDraws draws as the exact suite does, fewer times; a GPU's share of it is TestGPUVerify's.
func TestSeveralDraws(t *testing.T) {
	checks := only(t, device{cpu(t)}, Options{Suite: "exact", Seed: 1, Draws: 100_000}, drawsSeveral)
	require.Len(t, checks, 2)
	for _, c := range checks {
		require.True(t, c.OK, "%s: %s", c.Name, c.Detail)
		require.NotNil(t, c.Stat)
		t.Log(c.Name, c.Elapsed, c.Detail)
	}
}

// drawFaults are those that draws of a row may have.
var drawFaults = []struct {
	name   string
	device *lens
	suite  string
	check  string
}{
	{"draws past the first are shifted", drawsOf(func(d []int32) { slices.Reverse(d[1:]) }), "exact", "distinct draws of a row"},
	{"a draw is the one before", drawsOf(func(d []int32) { d[2] = d[0] }), "exact", "independent draws of a row"},
	{"the last draw is missing", drawsOf(func(d []int32) { d[len(d)-1] = ir.NoToken }), "quick", "several draws of a row"},
	{"tokens return", &lens{spec: func(s sampler.Spec) sampler.Spec {
		if s.Draws == ir.WithoutReplacement {
			s.Draws = ir.WithReplacement
		}
		return s
	}}, "exact", "distinct draws of a row"},
}

// drawsOf changes the draws of every row.
func drawsOf(change func(draws []int32)) *lens {
	return &lens{out: func(p *lensPlan, _ []uint16, _ sampler.Rows, res *sampler.Result) {
		for b := range res.Tokens {
			change(res.Draws[b*p.spec.MaxDraws:][:p.spec.MaxDraws])
		}
	}}
}

func TestPlantedFaultsOfDraws(t *testing.T) {
	for _, f := range drawFaults {
		t.Run(f.name, func(t *testing.T) {
			f.device.target = device{cpu(t)}
			fails(t, f.device, Options{Suite: f.suite, Seed: 1, Draws: 20_000}, f.check)
		})
	}
}
