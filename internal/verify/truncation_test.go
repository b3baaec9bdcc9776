package verify

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// ofTruncation picks the checks of degenerateTruncation, or of the distributions, from their suites.
func ofTruncation(items []item) func(item) bool {
	return func(it item) bool {
		return slices.ContainsFunc(items, func(x item) bool { return x.name == it.name })
	}
}

// truncates tells the checks of truncation in any suite, which the small samplers that stand in for devices know nothing of.
func truncates(it item) bool {
	return strings.Contains(it.name, "kept") || strings.Contains(it.name, "keep") || strings.Contains(it.name, "top-") || strings.Contains(it.name, "min-p")
}

// drawsSeveral tells the checks of several draws of a row, of which these know nothing either.
func drawsSeveral(it item) bool { return strings.HasSuffix(it.name, "draws of a row") }

// TestSimulatedTruncation runs the kernels of every architecture through ties, borders and filters that are off.
func TestSimulatedTruncation(t *testing.T) {
	for _, a := range arch.All() {
		t.Run(a.Name, func(t *testing.T) {
			dev, err := sampler.Open("sim:" + a.Name)
			require.NoError(t, err)
			defer dev.Close()
			checks := only(t, device{dev}, Options{Suite: "degenerate", Seed: 1}, ofTruncation(degenerateTruncation()))
			require.Len(t, checks, len(degenerateTruncation()))
			for _, c := range checks {
				require.True(t, c.OK, "%s: %s", c.Name, c.Detail)
				require.Zero(t, c.Undecided, c.Name)
				t.Log(c.Name, c.Elapsed)
			}
		})
	}
}

// TestTruncatedDistributions draws as the exact suite does, fewer times; a GPU's share of it is TestGPUVerify's.
func TestTruncatedDistributions(t *testing.T) {
	found := 0
	for _, c := range only(t, device{cpu(t)}, Options{Suite: "exact", Seed: 1, Draws: 200_000}, truncates) {
		found++
		require.True(t, c.OK, "%s: %s", c.Name, c.Detail)
		require.NotNil(t, c.Stat)
		t.Log(c.Name, c.Elapsed, c.Detail)
	}
	require.Equal(t, 2, found)
}

// The distribution that filters leave is the one that the reference draws from: the tokens that have mass are those it keeps, as
// many as it says.
func TestFilteredDistribution(t *testing.T) {
	p := &probe{run: newRun(device{cpu(t)}, Options{}), Check: &Check{}, rng: newRNG(1, "filtered")}
	for _, f := range filteredRows {
		logits, exact := p.levels(2)
		pr := f.on(plantOne(f.spec(), logits))
		kept := 0
		for _, x := range f.distribution(exact, pr.spec.Truncation.TemperatureLast) {
			if x > 0 {
				kept++
			}
		}
		least, most, err := pr.request().Kept(t.Context(), 0, 0)
		require.NoError(t, err)
		require.Equal(t, [2]int{kept, kept}, [2]int{least, most}, f.filters)
		require.Greater(t, kept, 1)
		require.Less(t, kept, smallVocab)
	}
}

// A row may be left undecided where it keeps many tokens, or where the mass of all leaves open how many; and no other.
func TestUndecidedNeedsAReason(t *testing.T) {
	spec := truncated("bias=rows,temperature", "top-k,top-p")
	wide, near, narrow := zeros(300), slices.Repeat([]float32{-inf32}, 300), zeros(300)
	near[0], near[7] = 0, 0 // half of the mass each
	narrow[5] = 9
	pr := plant(spec, zeros(300)).repeat(5).biased(wide, near, narrow, narrow, wide).at(1, 1, 1, 1, 0)
	pr.rows.TopK, pr.rows.TopP = []int32{0, 0, 0, 3, 0}, []float32{0.9, 0.5, 0.5, 0.5, 0.9}
	o, err := ask(t.Context(), pr)
	require.NoError(t, err)
	for b, allowed := range []bool{true, true, false, false, false} {
		c := &Check{}
		got := &sampler.Result{Tokens: slices.Clone(o.res.Tokens), Status: slices.Clone(o.res.Status), Scores: slices.Clone(o.res.Scores)}
		got.Tokens[b], got.Status[b], got.Scores[b] = ir.NoToken, ir.StatusUndecided, float32(math.NaN())
		err := o.judge(c, nil, got)
		if !allowed {
			require.ErrorContains(t, err, "undecided", "row %d", b)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, c.Undecided)
		got.Tokens[b] = 0
		require.ErrorContains(t, o.judge(c, nil, got), "undecided (token 0)")
	}
	plain := plant(gumbel("none"), zeros(300))
	o, err = ask(t.Context(), plain)
	require.NoError(t, err)
	got := &sampler.Result{Tokens: []int32{ir.NoToken}, Status: []ir.Status{ir.StatusUndecided}, Scores: []float32{float32(math.NaN())}}
	require.ErrorContains(t, o.judge(&Check{}, nil, got), "undecided", "a plan without filters decides")
}
