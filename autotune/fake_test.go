package autotune

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/tiling"
)

// fake is a GPU whose candidates take known times, with or without noise.
type fake struct {
	// true times of candidates in microseconds; others take slowest
	times map[Candidate]float64
	// noise is the relative standard deviation of a time, drift that of what all times of a pass share
	noise, drift float64
	rng          *rand.Rand
	wrong        map[Candidate]error
	// before runs ahead of every call, with the call's number from 1 on; it may cancel or fail.
	before func(call int) error

	calls    int
	verified []Candidate
	timed    map[Candidate]int // passes
	batches  []int
	closed   bool
}

const slowest = 1000

func (f *fake) enter(ctx context.Context) error {
	f.calls++
	if f.before != nil {
		if err := f.before(f.calls); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *fake) Verify(ctx context.Context, c Candidate, batch int) error {
	if err := f.enter(ctx); err != nil {
		return err
	}
	f.verified = append(f.verified, c)
	return f.wrong[c]
}

func (f *fake) Time(ctx context.Context, list []Candidate, batch, passes int) ([][]float64, error) {
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	if f.timed == nil {
		f.timed = map[Candidate]int{}
	}
	f.batches = append(f.batches, batch)
	times := make([][]float64, len(list))
	for range passes {
		shared := 1 + f.drift*f.normal()
		for i, c := range list {
			f.timed[c]++
			times[i] = append(times[i], f.truth(c)*shared*(1+f.noise*f.normal()))
		}
	}
	return times, nil
}

func (f *fake) truth(c Candidate) float64 {
	if t, ok := f.times[c]; ok {
		return t
	}
	return slowest
}

// normal draws noise, one pass in twenty slowed down by something else on the machine.
func (f *fake) normal() float64 {
	if f.rng == nil {
		return 0
	}
	x := f.rng.NormFloat64()
	if f.rng.IntN(20) == 0 {
		x += 5
	}
	return max(min(x, 8), -4)
}

func (f *fake) Close() error {
	f.closed = true
	return nil
}

// listed makes candidates of the times given, named by their place, and their fake.
func listed(times ...float64) ([]Candidate, *fake) {
	f := &fake{times: map[Candidate]float64{}}
	var list []Candidate
	for i, t := range times {
		c := Candidate{Tile: tiling.Tile{M: 128, N: 16, K: 64, Stages: 4, Cluster: 1}, CTAs: i + 1}
		list = append(list, c)
		f.times[c] = t
	}
	return list, f
}

var h200 = GPU{Name: "NVIDIA H200", Multiprocessors: 132, Driver: "13.0 (580.159.04)"}

// bucketOf is a bucket of a small head with its real candidates.
func bucketOf(t testing.TB, batch int) Bucket {
	t.Helper()
	r := gen.Request{Arch: arch.SM90, Shape: ir.Shape{Vocab: 32000, Hidden: 1024}, Batch: batch,
		Computation: ir.Computation{Chain: ir.Chain{Temperature: true}}}
	list := Candidates(r)
	require.Greater(t, len(list), 3)
	return Bucket{NewKey(h200, "rowmajor", r), r, list}
}

// bench makes jobs whose Runners count what is measured, and that no two measure at once.
type bench struct {
	mu       sync.Mutex
	active   atomic.Int32
	overlaps atomic.Int32
	searched map[int]int // by batch
	opened   int
	before   func(call int) error
	wrong    map[Candidate]error
	calls    int
}

func (b *bench) job(t testing.TB, batches ...int) Job {
	j := Job{Name: "small", Bytes: 1 << 20, Open: func(context.Context) (ClosableRunner, error) {
		b.mu.Lock()
		b.opened++
		b.mu.Unlock()
		if b.active.Add(1) > 1 {
			b.overlaps.Add(1)
		}
		return &benchRunner{b: b}, nil
	}}
	for _, n := range batches {
		j.Buckets = append(j.Buckets, bucketOf(t, n))
	}
	return j
}

type benchRunner struct {
	fake
	b    *bench
	last int
}

func (r *benchRunner) Verify(ctx context.Context, c Candidate, batch int) error {
	if err := r.count(batch); err != nil {
		return err
	}
	r.b.mu.Lock()
	r.wrong = r.b.wrong
	r.b.mu.Unlock()
	return r.fake.Verify(ctx, c, batch)
}

func (r *benchRunner) Time(ctx context.Context, list []Candidate, batch, passes int) ([][]float64, error) {
	if err := r.count(batch); err != nil {
		return nil, err
	}
	r.times = map[Candidate]float64{}
	for i, c := range list {
		r.times[c] = 100 + float64((i*7+batch)%11)
	}
	return r.fake.Time(ctx, list, batch, passes)
}

// count notes a call, and a search at the first call of a batch size.
func (r *benchRunner) count(batch int) error {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if r.last != batch {
		if r.b.searched == nil {
			r.b.searched = map[int]int{}
		}
		r.b.searched[batch]++
		r.last = batch
	}
	r.b.calls++
	if r.b.before != nil {
		return r.b.before(r.b.calls)
	}
	return nil
}

func (r *benchRunner) Close() error {
	r.b.active.Add(-1)
	return nil
}

func wrongTokens(row int) error { return fmt.Errorf("row %d: %w", row, ErrTokens) }
