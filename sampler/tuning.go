package sampler

import (
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/templates"
	"github.com/fsgen/fsgen/tiling"
)

// Tuning says where the tiles of a plan come from. Either way a plan only looks them up, and the tokens are the same.
type Tuning int

const (
	// Tuned takes what `fsgen tune` found on this machine, else the table for the GPU that ships with fsgen, else the default
	// tile: for each bucket of batch sizes by itself.
	Tuned Tuning = iota
	// Untuned takes the default tiles.
	Untuned
)

// tuner looks up what was measured for a GPU. A nil tuner knows nothing.
type tuner struct {
	gpu   autotune.GPU
	store *autotune.Store
	table func() *autotune.Table
}

// choose emits the kernel of a bucket; r.Batch is the bucket.
func (t *tuner) choose(r gen.Request) (autotune.Choice, error) {
	if t == nil {
		return autotune.Source{}.Choose(autotune.Key{}, r)
	}
	return autotune.Source{Store: t.store, Table: t.table()}.Choose(autotune.NewKey(t.gpu, string(r.Options.Layout()), r), r)
}

// GPU returns what tunings of the device are filed under; ok is false for a device that has nothing to tune.
func (d *Device) GPU() (gpu autotune.GPU, ok bool) {
	b, ok := d.b.(interface{ tuner() *tuner })
	if !ok {
		return gpu, false
	}
	return b.tuner().gpu, true
}

// bucket is the kernel that serves the batch sizes up to a width.
type bucket struct {
	width int
	autotune.Choice
}

// buckets lists the kernels of a plan, narrowest first: one for each width up to the one that holds MaxBatch.
func (s Spec) buckets(a arch.Arch, shape ir.Shape, layout Layout, t *tuner) ([]bucket, error) {
	if err := templates.Supports(s.Computation()); err != nil {
		return nil, err
	}
	if s.Artifact != nil {
		if have := s.Artifact.Manifest.Tile.Weights; have != layout {
			return nil, &InputError{"artifact", fmt.Sprintf("the head's weights are %s", layout), have}
		}
		return []bucket{{s.Artifact.Manifest.Tile.Width(), autotune.Choice{Artifact: s.Artifact}}}, nil
	}
	r := s.request(a, shape, layout, s.Tile)
	if s.Tile != (tiling.Tile{}) {
		k, err := gen.Emit(r)
		return []bucket{{s.Tile.Width(), autotune.Choice{Artifact: k, CTAs: s.CTAs}}}, refuseTile(err)
	}
	if s.chosen != nil && s.chosen.Arch == a.Name {
		return s.chosen.buckets(r, tiling.Widths(a, s.MaxBatch))
	}
	if s.untuned() {
		t = nil
	}
	return t.chooseAll(r, tiling.Widths(a, s.MaxBatch))
}

// untuned reports whether a plan takes the default tiles. An exhaustive kernel is not the one that was measured.
func (s Spec) untuned() bool { return s.Tuning == Untuned || s.Exhaustive }

// refuseTile makes an *InputError of a tile that an architecture has not.
func refuseTile(err error) error {
	var reject *tiling.Reject
	if errors.As(err, &reject) {
		return refuse("tile", err)
	}
	return err
}

// knownTile refuses a tile that no architecture has, where there are no tiles.
func (s Spec) knownTile() error {
	if s.Tile == (tiling.Tile{}) {
		return nil
	}
	var errs []error
	for _, a := range arch.All() {
		_, err := tiling.NewPlan(a, s.Tile, ir.Computation{})
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return refuseTile(errs[0])
}

// request asks for the kernel of a tile, or, if that is zero, of the batch that is filled in later.
func (s Spec) request(a arch.Arch, shape ir.Shape, layout Layout, tile tiling.Tile) gen.Request {
	return gen.Request{Arch: a, Computation: s.Computation(), Shape: shape, Tile: tile, Options: templates.Options{Exhaustive: s.Exhaustive, Weights: layout}}
}

// chooseAll emits the kernels of all buckets side by side: each takes milliseconds, and a plan from the kernel cache not
// much more than that.
func (t *tuner) chooseAll(r gen.Request, widths []int) ([]bucket, error) {
	out := make([]bucket, len(widths))
	var group errgroup.Group
	for i, n := range widths {
		r := r
		r.Batch = n
		group.Go(func() error {
			c, err := t.choose(r)
			out[i] = bucket{n, c}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
