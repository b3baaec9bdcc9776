package verify

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/stats"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

func cpu(t testing.TB) *sampler.Device {
	dev, err := sampler.Open(sampler.CPU)
	require.NoError(t, err)
	return dev
}

// show logs every check of a report, and marks the failed ones as errors.
func show(t *testing.T, rep *Report) {
	t.Helper()
	for _, c := range rep.Checks {
		log := t.Logf
		if !c.OK {
			log = t.Errorf
		}
		log("ok=%v %s (%s): %d rows, %d near ties, %d undecided, %v\n%s", c.OK, c.Name, c.Case, c.Rows, c.NearTies, c.Undecided, c.Elapsed, c.Detail)
	}
}

// passes runs a suite on the CPU and wants every check to pass.
func passes(t *testing.T, name string) {
	if testing.Short() && name != "quick" {
		t.Skip("takes seconds: not under -short")
	}
	rep, err := Run(t.Context(), cpu(t), Options{Suite: name, Seed: 1})
	require.NoError(t, err)
	show(t, rep)
	require.Zero(t, rep.Failed)
	require.Equal(t, len(rep.Checks), rep.Passed)
}

func TestQuick(t *testing.T) { passes(t, "quick") }

func TestDegenerate(t *testing.T) { passes(t, "degenerate") }

func TestInvariance(t *testing.T) { passes(t, "invariance") }

// TestSameSeedSameReport: all but the times.
func TestSameSeedSameReport(t *testing.T) {
	run := func(seed uint64) (out []Check) {
		out = only(t, device{cpu(t)}, Options{Suite: "exact", Seed: seed, Draws: 20000}, func(it item) bool {
			return slices.Contains([]string{"equal logits", "rows with seeds 0, 1, 2, ...", "a masked distribution"}, it.name)
		})
		for i := range out {
			out[i].Elapsed = 0
		}
		return out
	}
	one := run(1)
	require.Equal(t, one, run(1))
	require.NotEqual(t, one, run(2))
}

func TestReportAsJSON(t *testing.T) {
	rep := &Report{Suite: "exact", Seed: math.MaxUint64}
	p := &probe{Check: &Check{Name: "impossible"}}
	require.Error(t, p.judge(stats.Never("never", 10, 1)))
	new(run).add(rep, *p.Check)
	text, err := json.Marshal(rep)
	require.NoError(t, err, "an infinite z too")
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, *rep, back)
	require.Equal(t, 1, rep.Failed)
}

func TestErrors(t *testing.T) {
	_, err := Run(t.Context(), cpu(t), Options{Suite: "quack"})
	require.ErrorContains(t, err, `"quack": want one of [quick exact degenerate invariance full]`)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	rep, err := Run(ctx, cpu(t), Options{Progress: func(done, total int, what string) {
		require.Equal(t, calls, done)
		require.Greater(t, total, done)
		require.NotEmpty(t, what)
		if calls++; calls == 3 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, rep.Checks, 2)
}

// A device that has become useless ends the run.
func TestPoisonedDeviceIsAnError(t *testing.T) {
	poisoned := errors.New("context is gone")
	dev := &lens{target: device{cpu(t)}, health: func() error { return poisoned },
		sample: func(*lensPlan, []uint16, sampler.Rows) (*sampler.Result, error) { return nil, poisoned }}
	rep, err := runOn(t.Context(), dev, Options{Suite: "quick"})
	require.ErrorIs(t, err, poisoned)
	require.Len(t, rep.Checks, 1)
	require.Contains(t, rep.Checks[0].Detail, "context is gone")
	require.Equal(t, 1, rep.Failed)
}

// A device that takes the runner-up wherever float32 cannot tell breaks no row, but the limit of near ties.
func TestTooManyNearTiesFail(t *testing.T) {
	p := &probe{run: newRun(device{cpu(t)}, Options{}), Check: &Check{}, rng: newRNG(1, "ties")}
	const v, d = 50, 64
	w := p.weights(v, d)
	copy(w[40*d:41*d], w[:d]) // one row twice
	pr := p.random(w, ir.Shape{Vocab: v, Hidden: d}, 20, greedy("none"), false)
	for b := range pr.batch {
		copy(pr.hidden[b*d:(b+1)*d], w[:d])
	}
	o, err := ask(t.Context(), pr)
	require.NoError(t, err)
	got := &sampler.Result{Tokens: make([]int32, pr.batch), Status: o.res.Status, Scores: o.res.Scores}
	for b := range got.Tokens {
		require.Zero(t, o.res.Tokens[b])
		got.Tokens[b] = 40
	}
	require.NoError(t, o.judge(p.Check, nil, got))
	require.Equal(t, 20, p.NearTies)
	c, there := nearTies([]Check{*p.Check})
	require.True(t, there)
	require.False(t, c.OK)
	c, _ = nearTies([]Check{{Rows: 5000, NearTies: 4}})
	require.True(t, c.OK)
}
