package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/cache"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
)

// fakeRunner times candidates by their place in the list: the second is the fastest.
type fakeRunner struct {
	wrong  map[int]error // by batch: every candidate after the first
	before func(batch int)
}

func (f *fakeRunner) Verify(ctx context.Context, c autotune.Candidate, batch int) error {
	if f.before != nil {
		f.before(batch)
	}
	if c.CTAs == 0 || f.wrong[batch] == nil {
		return ctx.Err()
	}
	return f.wrong[batch]
}

func (f *fakeRunner) Time(ctx context.Context, list []autotune.Candidate, _, passes int) ([][]float64, error) {
	times := make([][]float64, len(list))
	for i, c := range list {
		us := map[int]float64{0: 200, 120: 160}[c.CTAs]
		for range passes {
			times[i] = append(times[i], us)
		}
	}
	return times, ctx.Err()
}

func (f *fakeRunner) Close() error { return nil }

// fakeJob is a job with two candidates a bucket: the default tile under the rule and with 120 CTAs.
func fakeJob(t *testing.T, f *fakeRunner, batches ...int) autotune.Job {
	t.Helper()
	j := autotune.Job{Name: "small", Open: func(context.Context) (autotune.ClosableRunner, error) { return f, nil }}
	gpu := autotune.GPU{Name: "NVIDIA Test", Multiprocessors: 132, Driver: "13.0"}
	for _, n := range batches {
		r := gen.Request{Arch: arch.SM90, Shape: ir.Shape{Vocab: 1000, Hidden: 64}, Batch: n}
		list := autotune.Candidates(r)[:1]
		list = append(list, autotune.Candidate{Tile: list[0].Tile, CTAs: 120})
		j.Buckets = append(j.Buckets, autotune.Bucket{Key: autotune.NewKey(gpu, "rowmajor", r), Request: r, Candidates: list})
	}
	return j
}

// tuneIn runs tune's later half in the test's process: everything but the GPU.
func tuneIn(t *testing.T, ctx context.Context, e *env, flags []string, jobs ...autotune.Job) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	e.stdout, e.stderr = &out, &errs
	var o tuning
	set := pflag.NewFlagSet("tune", pflag.ContinueOnError)
	set.StringVar(&o.export, "export", "", "")
	set.BoolVar(&o.force, "force", false, "")
	require.NoError(t, set.Parse(flags))
	r, err := o.newRun(e)
	require.NoError(t, err)
	e.release()
	err = r.run(ctx, jobs, autotune.Options{Store: r.store, GPU: "GPU-1", Force: o.force})
	return out.String(), errs.String(), err
}

func TestTunePrintsAndKeeps(t *testing.T) {
	t.Setenv(cache.EnvDir, t.TempDir())
	out, errs, err := tuneIn(t, t.Context(), &env{}, nil, fakeJob(t, &fakeRunner{}, 8, 256))
	require.NoError(t, err)
	assert.Empty(t, errs)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	require.Len(t, lines, 3)
	assert.Regexp(t, `^MODEL  BATCH  CANDIDATE +TIME +DEFAULT +GAIN +RANK$`, lines[0])
	assert.Regexp(t, `^small      8  m128n8k64s\d+c1@120 +160.00 us +200.00 us +20.0% +[1-9]\d* of 15$`, lines[1])
	assert.Regexp(t, `^small    256  m128n128k64s\d+c2bp@120 +160.00 us`, lines[2])

	code, listed, _ := runIn(t.Context(), "tune", "ls")
	assert.Equal(t, exitOK, code)
	assert.Regexp(t, `(?m)^NVIDIA Test, 132 SMs +13.0 +\S+ +1000 +64 +rowmajor +gumbel +none +8 +m128n8k64s\d+c1@120 +160.00 us$`, listed)
	_, asJSON, _ := runIn(t.Context(), "tune", "ls", "--json")
	assert.Equal(t, 2, strings.Count(asJSON, "\n"))

	out, _, err = tuneIn(t, t.Context(), &env{json: true}, nil, fakeJob(t, &fakeRunner{}, 8, 64))
	require.NoError(t, err)
	var first, second map[string]any
	dec := json.NewDecoder(strings.NewReader(out))
	require.NoError(t, dec.Decode(&first))
	require.NoError(t, dec.Decode(&second))
	assert.Equal(t, []any{"small", true, 8.0, 160.0, 200.0}, []any{first["model"], first["reused"], first["batch"], first["microseconds"], first["default_microseconds"]})
	assert.Equal(t, 15.0, first["model_tiles"])
	assert.GreaterOrEqual(t, first["model_rank"], 1.0)
	assert.NotContains(t, first, "measured", "nothing was")
	assert.Len(t, second["measured"], 2)
	assert.Regexp(t, `"measured":\[\{"candidate":"m192n64k64s6c1p","microseconds":200,"round":[1-9]\},`, out)
	assert.Equal(t, []any{false, 64.0}, []any{second["reused"], second["batch"]})
	assert.NotContains(t, first, "rejected")
}

func TestTuneSaysWhatItKeptWhenInterrupted(t *testing.T) {
	t.Setenv(cache.EnvDir, t.TempDir())
	table := filepath.Join(t.TempDir(), "table.json")
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeRunner{before: func(batch int) {
		if batch == 32 {
			cancel()
		}
	}}
	j := fakeJob(t, f, 8, 16, 32, 64)
	out, _, err := tuneIn(t, ctx, &env{}, []string{"--export", table}, j)
	assert.EqualError(t, err, "interrupted: 2 of 4 buckets are kept; the same command without --force goes on from there")
	assert.NotErrorIs(t, err, context.Canceled, "or it would be called interrupted, and no more")
	assert.Equal(t, 3, strings.Count(out, "\n"))
	assert.Len(t, exported(t, table), 2)

	f.before = nil
	out, _, err = tuneIn(t, t.Context(), &env{}, []string{"--export", table}, j)
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(out, "(kept from before)"))
	assert.Len(t, exported(t, table), 4)

	t.Setenv(cache.EnvDir, "off")
	ctx, cancel = context.WithCancel(t.Context())
	f.before = func(batch int) {
		if batch == 32 {
			cancel()
		}
	}
	_, _, err = tuneIn(t, ctx, &env{}, []string{"--export", table}, j)
	assert.EqualError(t, err, "interrupted: 2 of 4 buckets are kept, in "+table)
}

func exported(t *testing.T, path string) []*autotune.Entry {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	table, err := autotune.ParseTable(data)
	require.NoError(t, err)
	return table.Entries()
}

func TestTuneReportsWhatItRejected(t *testing.T) {
	t.Setenv(cache.EnvDir, t.TempDir())
	f := &fakeRunner{wrong: map[int]error{8: fmt.Errorf("%w in 3 rows", autotune.ErrTokens)}}
	out, errs, err := tuneIn(t, t.Context(), &env{json: true}, nil, fakeJob(t, f, 8, 16))
	assert.ErrorIs(t, err, errVerify, "exit code 4, when all is measured")
	assert.Regexp(t, `^fsgen: small, batch 8: m128n8k64s\d+c1@120 was rejected: wrong tokens in 3 rows\n$`, errs)
	assert.Contains(t, out, `"rejected":[{"rejected":"m128n8k64s`)
	assert.Equal(t, 2, strings.Count(out, "\n"))

	f.wrong = map[int]error{8: errors.New("autotune: does not fit")} // no fault of the kernel
	_, errs, err = tuneIn(t, t.Context(), &env{}, []string{"--force"}, fakeJob(t, f, 8))
	require.NoError(t, err)
	assert.Contains(t, errs, "was rejected: does not fit\n")

	none := fakeJob(t, f, 8, 16)
	none.Buckets[0].Candidates = none.Buckets[0].Candidates[1:]
	_, errs, err = tuneIn(t, t.Context(), &env{}, []string{"--force"}, none)
	assert.EqualError(t, err, "1 of 2 buckets have no candidate that runs")
	assert.Contains(t, errs, "small, batch 8: no candidate is left\n")
}

func TestTuneShowsProgress(t *testing.T) {
	t.Setenv(cache.EnvDir, t.TempDir())
	_, errs, err := tuneIn(t, t.Context(), &env{terminal: true}, nil, fakeJob(t, &fakeRunner{}, 8, 16))
	require.NoError(t, err)
	assert.Contains(t, errs, "\r\x1b[Ksmall, 1 of 2 buckets done: timing for batch 16, 0s left")
	assert.True(t, strings.HasSuffix(errs, "\r\x1b[K"), "the line goes")
}

// TestTuneTellsOfAWait lets a run meet another that holds the GPU.
func TestTuneTellsOfAWait(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(cache.EnvDir, dir)
	unlock, err := autotune.OpenStore(cache.Open(cache.Options{Dir: dir}), nil).Lock(t.Context(), "GPU-1", nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	stderr := writerFunc(func(p []byte) (int, error) {
		unlock()
		cancel()
		return errs.Write(p)
	})
	r, err := (&tuning{}).newRun(&env{stdout: &out, stderr: stderr, released: true})
	require.NoError(t, err)
	err = r.run(ctx, []autotune.Job{fakeJob(t, &fakeRunner{}, 8)}, autotune.Options{Store: r.store, GPU: "GPU-1"})
	assert.ErrorContains(t, err, "interrupted: 0 of 1 buckets")
	assert.Equal(t, "fsgen: waiting for another run on this GPU\n", errs.String())
}

// writerFunc makes a function an io.Writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestTuneOfAllModels(t *testing.T) {
	parse := func(args ...string) *tuning {
		var o tuning
		f := pflag.NewFlagSet("tune", pflag.ContinueOnError)
		o.target.flags(f)
		f.StringVar(&o.batch, "batch", "", "")
		o.transform, o.sampler, o.weights, o.device = "temperature", "gumbel", "rowmajor", "cuda"
		require.NoError(t, f.Parse(args))
		return &o
	}
	list, err := parse("--model", "all", "--batch", "1,64").configs(&env{})
	require.NoError(t, err)
	type head struct {
		shape ir.Shape
		chain string
	}
	tuned := map[head]bool{}
	for _, c := range list {
		h := head{c.Shape, c.Computation.Chain.String()}
		assert.False(t, tuned[h], "%s repeats a shape", c.Name)
		tuned[h] = true
		assert.Equal(t, []int{1, 64}, c.Batches)
	}
	for _, p := range model.All() {
		chain := ownChain(p.Scale, p.Softcap)
		chain.Temperature = true
		assert.True(t, tuned[head{ir.Shape{Vocab: p.V, Hidden: p.D}, chain.String()}], p.Name)
	}
	assert.Less(t, len(list), len(model.All()))

	e := &env{}
	list, err = parse("--model", "gemma2-2b").configs(e)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, "gemma2-2b", list[0].Name)
	assert.Equal(t, float32(30), list[0].Computation.Chain.Softcap)
	assert.Nil(t, list[0].Batches)
	assert.Len(t, e.held, 1, "what the model adds is told")
}

func TestTuneCompletes(t *testing.T) {
	assert.Equal(t, []string{"ls"}, complete(t, "tune", ""))
	assert.Equal(t, []string{"all"}, complete(t, "tune", "--model", "al"))
	assert.Equal(t, []string{"cuda"}, complete(t, "tune", "--device", ""))
	assert.Empty(t, complete(t, "tune", "--export", ""))
}

// A table that another run has added to since this one began keeps what that run added.
func TestExportAddsToTheTableAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.json")
	require.NoError(t, os.WriteFile(path, nil, 0o600)) // as mktemp leaves it
	all := autotune.Builtin().Entries()
	require.NoError(t, exportTunings(path, all[:1]))
	require.NoError(t, exportTunings(path, all[1:3]))
	got, err := readTable(path)
	require.NoError(t, err)
	require.Equal(t, all[:3], got.Entries())
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.ErrorContains(t, exportTunings(path, all[:1]), "no table of this fsgen")
}
