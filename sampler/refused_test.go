package sampler

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/tiling"
)

// What no device can do is an *InputError on each, in the words of the package that knows.
func TestBadInputIsTyped(t *testing.T) {
	for _, name := range []string{CPU, "sim:sm_90", "sim:sm_100"} {
		dev, err := Open(name)
		require.NoError(t, err)
		defer dev.Close()
		for want, w := range map[string]Weights{
			"ir: vocabulary size is 0: want 1 to 2147483647":  {Hidden: 8},
			"ir: vocabulary size is -1: want 1 to 2147483647": {Vocab: -1, Hidden: 8},
			"ir: hidden size is 1048577: want 1 to 1048576":   {Vocab: 8, Hidden: 1<<20 + 1},
			"sampler: weights layout is \"x\": want rowmajor": {Vocab: 8, Hidden: 8, Layout: "x"},
		} {
			w.Source = Matrix{Data: make([]uint16, 64), Hidden: 8}
			_, err := dev.LoadHead(t.Context(), w)
			requireRefused(t, err, want)
		}
		head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, 64), Hidden: 8}, Vocab: 8, Hidden: 8})
		require.NoError(t, err)
		for want, spec := range map[string]Spec{
			"ir: unknown sampler 9":                          {Sampler: 9},
			"ir: softcap is -1":                              {Chain: ir.Chain{Softcap: -1}},
			"ir: unknown kind of draws 7":                    {Draws: 7},
			"ir: draws of a row are at most 65":              {Draws: ir.WithReplacement, MaxDraws: 65},
			"ir: unknown mode of log-probabilities 9":        {LogProb: 9},
			"sampler: max batch is -1: want 0 to 2147483647": {MaxBatch: -1},
			"sampler: CTAs is 3: want 0":                     {CTAs: 3},
			"sampler: tuning is 99: want Tuned":              {Tuning: 99},
			"sampler: tuning is -1: want Tuned":              {Tuning: -1},
			"sampler: plan: tiling: tile m3n0k0s0c0: M ":     {Tile: tiling.Tile{M: 3}},
		} {
			_, err := head.Plan(t.Context(), spec)
			requireRefused(t, err, want)
		}
	}
	for _, name := range []string{"", "gpu", "cuda:-1", "sim:sm_80"} {
		_, err := Open(name)
		requireRefused(t, err, "sampler: ")
	}
}

func requireRefused(t *testing.T, err error, want string) {
	t.Helper()
	var input *InputError
	require.ErrorAs(t, err, &input, want)
	require.True(t, strings.HasPrefix(err.Error(), want), "%v: want %s", err, want)
	require.NotEmpty(t, input.Field)
	require.NotEmpty(t, input.Rule)
}

// The CPU takes the tiles of any architecture.
func TestCPUIgnoresTilesThatThereAre(t *testing.T) {
	for _, name := range []string{"m192n32k64s7c1", "m128n64k64s4c2"} {
		tile, err := tiling.ParseTile(name)
		require.NoError(t, err)
		cpuPlanFor(t, 40, 8, Spec{Tile: tile})
	}
}

func TestClosedDevicesAreNotHealthy(t *testing.T) {
	for _, name := range []string{CPU, "sim:sm_90"} {
		dev, err := Open(name)
		require.NoError(t, err)
		require.NoError(t, dev.Healthy())
		require.NoError(t, dev.Close())
		require.ErrorIs(t, dev.Healthy(), ErrClosed)
		g, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{name, name}})
		require.NoError(t, err)
		require.NoError(t, g.Healthy())
		closedGroup(t, g)
	}
}

// closedGroup closes a group ahead of its head and plan: these say so, and it still says what it was.
func closedGroup(t *testing.T, g *Group) {
	head, err := g.LoadHead(t.Context(), Weights{Source: Matrix{Data: make([]uint16, 40*8), Hidden: 8}, Vocab: 40, Hidden: 8}, nil)
	require.NoError(t, err)
	plan, err := head.Plan(t.Context(), Spec{})
	require.NoError(t, err)
	info := g.Info()
	require.Len(t, info.Devices, 2)
	require.NoError(t, g.Close())
	require.Equal(t, info, g.Info())
	require.ErrorIs(t, g.Healthy(), ErrClosed)
	_, err = head.Plan(t.Context(), Spec{})
	require.ErrorIs(t, err, ErrClosed)
	_, err = plan.Sample(t.Context(), make([]uint16, 8), Rows{})
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, plan.Agree(t.Context(), make([]uint16, 8), Rows{}), ErrClosed)
	require.NoError(t, errors.Join(plan.Close(), head.Close()))
}

// How many values there may be is said of one row and of none too.
func TestCountsOfValuesAreSaid(t *testing.T) {
	plan := cpuPlanFor(t, 40, 8, Spec{Chain: ir.Chain{Mask: true}})
	for rows, want := range []string{"want 1 value, or none for no rows", "want 1 value", "want 1 or 2 values"} {
		_, err := plan.Sample(t.Context(), make([]uint16, 8*rows), Rows{Seeds: make([]uint64, 3), Positions: []uint64{0}, Mask: make([]uint32, 2)})
		require.EqualError(t, err, "sampler: seeds is 3 values: "+want)
	}
	_, err := plan.Sample(t.Context(), make([]uint16, 8), Rows{Mask: make([]uint32, 3)})
	require.EqualError(t, err, "sampler: mask is 3 words: want 1 row of 2 words")
}
