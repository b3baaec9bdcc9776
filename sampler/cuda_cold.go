//go:build !fsgen_nocuda

package sampler

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/cache"
	"github.com/fsgen/fsgen/tiling"
)

// ColdStart is how long kernels take until they can be launched.
type ColdStart struct {
	// Kernel is the entry of one, or says of how many.
	Kernel string
	// Whole says that it is compiled as a whole program: its image stands in the driver's cache, not in fsgen's.
	Whole bool
	// Emit is the time from the request to verified PTX.
	Emit time.Duration
	// PTX is the time from there to a loaded kernel with every cache empty, Cached that with what this left in them.
	PTX, Cached time.Duration
}

// ColdStart measures how long the kernels of a plan take to be ready: each by itself, narrowest first, and all of them as
// Plan makes them. Their PTX gets a comment that no cache has met, fsgen's or the driver's; a folder that is gone afterwards
// stands in for fsgen's.
func (h *Head) ColdStart(ctx context.Context, spec Spec) (kernels []ColdStart, plan ColdStart, err error) {
	if err := h.open.enter(); err != nil {
		return nil, plan, err
	}
	defer h.open.leave()
	b, ok := h.b.(*cudaHead)
	if !ok {
		return nil, plan, &InputError{"device", "cold starts are those of a cuda device", nil}
	}
	if err := spec.validate(); err != nil {
		return nil, plan, err
	}
	dir, err := os.MkdirTemp("", "fsgen-cold-")
	if err != nil {
		return nil, plan, err
	}
	defer os.RemoveAll(dir)
	dev, own := *b.dev, *b // the same, but for the cache
	dev.cache, own.dev = cache.Open(cache.Options{Dir: dir}), &dev
	return own.coldStart(ctx, spec)
}

func (h *cudaHead) coldStart(ctx context.Context, spec Spec) (kernels []ColdStart, plan ColdStart, err error) {
	begin := time.Now()
	buckets, err := spec.buckets(h.dev.arch, h.shape, h.layout, h.dev.tunings)
	if err != nil {
		return nil, plan, err
	}
	plan = ColdStart{Kernel: fmt.Sprintf("all %d", len(buckets)), Emit: time.Since(begin)}
	for _, b := range buckets {
		c, err := h.coldKernel(ctx, spec, b)
		if err != nil {
			return nil, plan, fmt.Errorf("%s: %w", b.Artifact.Name(), err)
		}
		kernels = append(kernels, c)
		plan.Whole = plan.Whole || c.Whole
	}
	plan.PTX, plan.Cached, err = h.coldLoad(ctx, spec, buckets)
	return kernels, plan, err
}

func (h *cudaHead) coldKernel(ctx context.Context, spec Spec, b bucket) (c ColdStart, err error) {
	c = ColdStart{Kernel: b.Artifact.Name(), Whole: wholeProgram(b.Artifact.PTX)}
	if spec.Artifact == nil {
		tile, err := tiling.ParseTile(b.Artifact.Manifest.Tile.Name)
		if err != nil {
			return c, err
		}
		begin := time.Now()
		if _, err := gen.Emit(spec.request(h.dev.arch, h.shape, h.layout, tile)); err != nil {
			return c, err
		}
		c.Emit = time.Since(begin)
	}
	c.PTX, c.Cached, err = h.coldLoad(ctx, spec, []bucket{b})
	return c, err
}

// coldLoad loads kernels that nobody has seen before, and once more.
func (h *cudaHead) coldLoad(ctx context.Context, spec Spec, buckets []bucket) (ptx, cached time.Duration, err error) {
	var fresh []bucket
	for _, b := range buckets {
		b.Artifact = unseen(b.Artifact)
		fresh = append(fresh, b)
	}
	for _, took := range []*time.Duration{&ptx, &cached} {
		begin := time.Now()
		p, err := newCUDAPlan(ctx, h, spec, fresh)
		if err != nil {
			return ptx, cached, err
		}
		*took = time.Since(begin)
		if err := p.close(); err != nil {
			return ptx, cached, err
		}
	}
	return ptx, cached, nil
}

// unseen is a kernel in other words: its PTX with a comment.
func unseen(a *gen.Artifact) *gen.Artifact {
	text := fmt.Appendf(bytes.Clone(a.PTX), "// %016x%016x\n", rand.Uint64(), rand.Uint64())
	m, sum := *a.Manifest, sha256.Sum256(text)
	m.PTXSHA256 = hex.EncodeToString(sum[:])
	return &gen.Artifact{PTX: text, Manifest: &m}
}
