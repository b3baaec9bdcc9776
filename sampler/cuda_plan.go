//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/driver"
)

// cudaPlan holds the kernels of a plan, narrowest first, and a pool of slots that calls take turns with.
type cudaPlan struct {
	head    *cudaHead
	spec    Spec
	list    []*cudaKernel
	widths  tileWidths  // of the list
	further *cudaKernel // of the passes after the first; nil where there are none
	ranks   *cudaKernel // of the pass that counts, likewise
	share   int         // ranks that share the GPU, each with a part of its multiprocessors; 0 where there is none but this plan

	mu    sync.Mutex
	idle  []*slot
	drain sync.WaitGroup // slots whose work runs on after a cancelled call
}

func newCUDAPlan(ctx context.Context, h *cudaHead, spec Spec, buckets []bucket) (*cudaPlan, error) {
	p := &cudaPlan{head: h, spec: spec, widths: widthsOf(buckets), list: make([]*cudaKernel, len(buckets))}
	group, ctx := errgroup.WithContext(ctx)
	for i, b := range buckets {
		group.Go(func() (err error) {
			p.list[i], err = h.loadKernel(ctx, b, spec.SerialLaunch)
			return err
		})
	}
	further, err := spec.further(buckets)
	if err == nil && further != nil {
		group.Go(func() (err error) {
			p.further, err = h.loadKernel(ctx, *further, spec.SerialLaunch)
			return err
		})
	}
	ranks, failed := spec.ranks(buckets)
	if failed == nil && ranks != nil {
		group.Go(func() (err error) {
			p.ranks, err = h.loadKernel(ctx, *ranks, spec.SerialLaunch)
			return err
		})
	}
	if err := errors.Join(err, failed, group.Wait()); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// partialsBytes is the scratch that launches of any of the kernels need for a number of rows, on all CTAs that fit.
func (p *cudaPlan) partialsBytes(rows int) (bytes int) {
	for _, k := range p.list { // further passes add nothing up
		bytes = max(bytes, k.Manifest.PartialsBytes(rows, k.Resident()))
	}
	return bytes
}

// keeps reports whether kernels leave an array for a stage.
func (p *cudaPlan) keeps(array string) bool {
	return slices.ContainsFunc(p.list, func(k *cudaKernel) bool { return k.Manifest.Param(array) != nil })
}

func (p *cudaPlan) kernels() []string {
	var names []string
	for _, k := range p.list {
		names = append(names, k.Manifest.Entry)
	}
	return names
}

func (p *cudaPlan) close() error {
	p.drain.Wait()
	var errs []error
	for _, s := range p.idle {
		errs = append(errs, s.close())
	}
	for _, k := range append(p.list[:len(p.list):len(p.list)], p.further, p.ranks) {
		if k != nil {
			errs = append(errs, k.close())
		}
	}
	return errors.Join(errs...)
}

// take returns an idle slot, or a new one.
func (p *cudaPlan) take() (*slot, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	return p.newSlot()
}

func (p *cudaPlan) give(s *slot) {
	p.mu.Lock()
	p.idle = append(p.idle, s)
	p.mu.Unlock()
}

func (p *cudaPlan) sample(ctx context.Context, b *batch) (*Result, error) {
	if p.spec.Chain.Edits() {
		b.edited = b.edits()
	}
	s, err := p.take()
	if err != nil {
		return nil, err
	}
	l, err := s.enqueue(b)
	if err != nil {
		s.close() // whatever it enqueued ends first: freeing waits for the device
		return nil, err
	}
	res, err := s.finish(ctx, b, l)
	if err != nil {
		if ctx.Err() == nil {
			s.close()
			return nil, err
		}
		p.abandon(s)
		return nil, err
	}
	res.Kernel = p.list[p.widths.choose(b.rows)].Manifest.Entry
	p.give(s)
	return res, nil
}

// abandon lets the work of a cancelled call end before its slot is used again.
func (p *cudaPlan) abandon(s *slot) {
	p.drain.Go(func() {
		if s.stream.Synchronize(context.Background()) == nil {
			p.give(s)
		} else {
			s.close()
		}
	})
}

func (d *cudaDevice) sms() int {
	n, err := d.dev.Attribute(driver.Multiprocessors)
	if err != nil {
		return 0
	}
	return n
}
