package sampler

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

func cpuPlanFor(t *testing.T, v, d int, spec Spec) *Plan {
	t.Helper()
	dev, err := Open(CPU)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	w := make([]uint16, v*d)
	for i := range w {
		w[i] = uint16(rng.Uint32N(0x4000)) | uint16(rng.Uint32N(2))<<15
	}
	head, err := dev.LoadHead(context.Background(), Weights{Source: Matrix{Data: w, Hidden: d}, Vocab: v, Hidden: d})
	require.NoError(t, err)
	plan, err := head.Plan(context.Background(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { plan.Close(); head.Close(); dev.Close() })
	return plan
}

func TestRowsAreChecked(t *testing.T) {
	full := cpuPlanFor(t, 40, 8, Spec{Chain: ir.Chain{Temperature: true, Mask: true, Bias: ir.BiasMatrix}})
	bare := cpuPlanFor(t, 40, 8, Spec{})
	greedy := cpuPlanFor(t, 40, 8, Spec{Sampler: ir.Greedy})
	ok := Rows{Seeds: []uint64{1}, Positions: []uint64{2}, Temperature: []float32{1, 0}, Bias: make([]float32, 80), Mask: []uint32{7, 0, 9, 1}}
	change := func(f func(*Rows)) Rows { r := ok; f(&r); return r }
	h := make([]uint16, 16)
	_, err := full.Sample(t.Context(), h, ok)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		plan *Plan
		rows Rows
	}{
		"no position":         {full, change(func(r *Rows) { r.Positions = nil })},
		"three seeds":         {full, change(func(r *Rows) { r.Seeds = []uint64{1, 2, 3} })},
		"negative T":          {full, change(func(r *Rows) { r.Temperature = []float32{1, -1} })},
		"no temperature":      {full, change(func(r *Rows) { r.Temperature = nil })},
		"short bias":          {full, change(func(r *Rows) { r.Bias = r.Bias[:79] })},
		"bias stride":         {full, change(func(r *Rows) { r.BiasStride = 39 })},
		"mask width":          {full, change(func(r *Rows) { r.Mask = r.Mask[:3] })},
		"negative mask words": {full, change(func(r *Rows) { r.MaskWords = -1 })},
		"unseeded length":     {full, change(func(r *Rows) { r.Unseeded = []bool{true} })},
		"seeds missing":       {full, change(func(r *Rows) { r.Seeds, r.Unseeded = nil, []bool{true, false} })},
		"idle temperature":    {bare, Rows{Temperature: []float32{1}}},
		"idle bias":           {bare, Rows{Bias: []float32{1}}},
		"idle mask":           {bare, Rows{Mask: []uint32{1}}},
		"greedy seed":         {greedy, Rows{Seeds: []uint64{1}, Positions: []uint64{1}}},
	} {
		_, err := c.plan.Sample(t.Context(), h, c.rows)
		var input *InputError
		require.ErrorAs(t, err, &input, name)
	}
	_, err = bare.Sample(t.Context(), make([]uint16, 9), Rows{})
	require.Error(t, err, "not a whole row")
}

func TestEmptyBatchIsNoWork(t *testing.T) {
	res, err := cpuPlanFor(t, 40, 8, Spec{}).Sample(t.Context(), nil, Rows{})
	require.NoError(t, err)
	require.Empty(t, res.Tokens)
}

func TestUnseededRowsDiffer(t *testing.T) {
	plan := cpuPlanFor(t, 40, 8, Spec{})
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[uint64]bool{}
	for range 8 {
		wg.Go(func() {
			for range 200 {
				res, err := plan.Sample(context.Background(), make([]uint16, 5*8), Rows{})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, s := range res.Seeds {
					if seen[s] {
						t.Errorf("seed %d twice", s)
					}
					seen[s] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 8000)
}

func TestSeededRowIgnoresItsNeighbour(t *testing.T) {
	plan := cpuPlanFor(t, 4000, 8, Spec{})
	h := make([]uint16, 2*8)
	alone, err := plan.Sample(t.Context(), h, Rows{Seeds: []uint64{42, 7}, Positions: []uint64{3}})
	require.NoError(t, err)
	for range 10 {
		res, err := plan.Sample(t.Context(), h, Rows{Seeds: []uint64{42, 0}, Positions: []uint64{3}, Unseeded: []bool{false, true}})
		require.NoError(t, err)
		require.Equal(t, alone.Tokens[0], res.Tokens[0])
		require.Equal(t, uint64(42), res.Seeds[0])
	}
}

func TestClosed(t *testing.T) {
	plan := cpuPlanFor(t, 40, 8, Spec{})
	require.NoError(t, plan.Close())
	require.NoError(t, plan.Close())
	_, err := plan.Sample(t.Context(), make([]uint16, 8), Rows{})
	require.ErrorIs(t, err, ErrClosed)
}

// What is closed says so ahead of anything that is wrong with the call.
func TestClosedComesFirst(t *testing.T) {
	w := Weights{Source: Matrix{Data: make([]uint16, 40*8), Hidden: 8}, Vocab: 40, Hidden: 8}
	for _, name := range []string{CPU, "sim:sm_90"} {
		dev, err := Open(name)
		require.NoError(t, err)
		head, err := dev.LoadHead(t.Context(), w)
		require.NoError(t, err)
		plan, err := head.Plan(t.Context(), Spec{})
		require.NoError(t, err)
		g, err := OpenGroup(t.Context(), GroupConfig{Devices: []string{name, name}})
		require.NoError(t, err)
		groupHead, err := g.LoadHead(t.Context(), w, nil)
		require.NoError(t, err)
		groupPlan, err := groupHead.Plan(t.Context(), Spec{})
		require.NoError(t, err)
		for _, c := range []interface{ Close() error }{plan, head, dev, groupPlan, groupHead, g} {
			require.NoError(t, c.Close())
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for what, call := range map[string]func() error{
			"bad hidden states":        func() error { _, err := plan.Sample(cancelled, make([]uint16, 7), Rows{}); return err },
			"a bad spec":               func() error { _, err := head.Plan(cancelled, Spec{MaxBatch: -1}); return err },
			"no weights":               func() error { _, err := dev.LoadHead(cancelled, Weights{}); return err },
			"ranks: bad hidden states": func() error { _, err := groupPlan.Sample(cancelled, make([]uint16, 7), Rows{}); return err },
			"ranks: a bad spec":        func() error { _, err := groupHead.Plan(cancelled, Spec{MaxBatch: -1}); return err },
			"ranks: no weights":        func() error { _, err := g.LoadHead(cancelled, Weights{}, nil); return err },
		} {
			require.ErrorIs(t, call(), ErrClosed, "%s on %s", what, name)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := cpuPlanFor(t, 40, 8, Spec{}).Sample(ctx, make([]uint16, 8), Rows{})
	require.ErrorIs(t, err, context.Canceled)
}

// A context that was cancelled before loads no head and makes no plan, on any device.
func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := Weights{Source: Matrix{Data: make([]uint16, 8*8), Hidden: 8}, Vocab: 8, Hidden: 8}
	for _, name := range []string{CPU, "sim:sm_90"} {
		dev, err := Open(name)
		require.NoError(t, err)
		_, err = dev.LoadHead(ctx, w)
		require.ErrorIs(t, err, context.Canceled)
		head, err := dev.LoadHead(t.Context(), w)
		require.NoError(t, err)
		_, err = head.Plan(ctx, Spec{})
		require.ErrorIs(t, err, context.Canceled)
	}
}

// Stream tags that are nobody's are refused: 4 to 15, and those from 2^31 on.
func TestReservedStreamTags(t *testing.T) {
	plan := cpuPlanFor(t, 8, 8, Spec{})
	for tag, valid := range map[uint32]bool{0: true, 3: true, 4: false, 15: false, 16: true, 1<<31 - 1: true, 1 << 31: false, 1<<32 - 1: false} {
		_, err := plan.Sample(t.Context(), make([]uint16, 8), Rows{Seeds: []uint64{1}, Positions: []uint64{2}, StreamTag: tag})
		if valid {
			require.NoError(t, err)
			continue
		}
		var bad *InputError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "stream tag", bad.Field)
	}
}

func TestOpenNames(t *testing.T) {
	for _, bad := range []string{"", "gpu", "cuda:x", "cuda:-1", "cpu:0"} {
		_, err := Open(bad)
		require.Error(t, err, bad)
	}
	dev, err := Open(Auto)
	require.NoError(t, err)
	require.NotEmpty(t, dev.Info().Name)
	require.NoError(t, dev.Close())
	_, err = dev.LoadHead(t.Context(), Weights{Source: Matrix{}, Vocab: 1, Hidden: 1})
	require.ErrorIs(t, err, ErrClosed)
}
