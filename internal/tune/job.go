package tune

import (
	"context"
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// Config says what to tune.
type Config struct {
	// Name is for people.
	Name        string
	Shape       ir.Shape
	Computation ir.Computation
	// Layout is that of the weights, row-major if empty.
	Layout sampler.Layout
	// Batches are batch sizes; the buckets that serve them are tuned. None means all buckets.
	Batches []int
	// Multiprocessors is how many of the GPU's launches take, one CTA each, as those of a rank do that shares the GPU with others; 0 for all.
	Multiprocessors int
	// Exhaustive measures every candidate, not only those of autotune.Shortlist.
	Exhaustive bool
}

// widest is a batch size that the widest bucket serves; it serves all larger ones too.
const widest = 256

// Buckets lists the buckets that serve some batch sizes, narrowest first; of none, all.
func Buckets(a arch.Arch, batches []int) []int {
	all := tiling.Widths(a, widest)
	if len(batches) == 0 {
		return all
	}
	var out []int
	for _, b := range batches {
		i, _ := slices.BinarySearch(all, b)
		out = append(out, all[min(i, len(all)-1)])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Job makes the job of tuning a head on the device, which must be a GPU.
func (t *Tuner) Job(cfg Config) (autotune.Job, error) {
	gpu, ok := t.dev.GPU()
	if !ok {
		return autotune.Job{}, fmt.Errorf("device %s: nothing to tune: want a GPU", t.dev.Info().Name)
	}
	if n := cfg.Multiprocessors; n < 0 || n > gpu.Multiprocessors {
		return autotune.Job{}, fmt.Errorf("device %s has %d multiprocessors: want at most as many, not %d", t.dev.Info().Name, gpu.Multiprocessors, n)
	} else if n > 0 {
		gpu.Multiprocessors = n
	}
	a, err := arch.Lookup(t.dev.Info().Arch)
	if err != nil {
		return autotune.Job{}, err
	}
	j := autotune.Job{Name: cfg.Name, Bytes: int(weightBytes(cfg.Shape)), Open: func(ctx context.Context) (autotune.ClosableRunner, error) {
		return t.open(ctx, cfg)
	}}
	for _, n := range Buckets(a, cfg.Batches) {
		r := gen.Request{Arch: a, Computation: cfg.Computation.Normalize(), Shape: cfg.Shape, Batch: n,
			Options: templates.Options{Weights: cfg.Layout}}
		list := autotune.Shortlist
		if cfg.Exhaustive {
			list = autotune.Candidates
		}
		j.Buckets = append(j.Buckets, autotune.Bucket{Key: autotune.NewKey(gpu, string(r.Options.Layout()), r), Request: r, Candidates: list(r)})
	}
	return j, nil
}

func (t *Tuner) open(ctx context.Context, cfg Config) (autotune.ClosableRunner, error) {
	w, err := openStopwatch(t.dev, cfg.Computation, cfg.Shape)
	if err != nil {
		return nil, err
	}
	r, err := t.newRunner(ctx, cfg, w)
	if err != nil {
		return nil, err
	}
	return r, nil
}
