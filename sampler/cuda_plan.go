//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/gen"
)

// cudaPlan holds the kernels of a plan, narrowest first, and a pool of slots that calls take turns with.
type cudaPlan struct {
	head *cudaHead
	spec Spec
	list []*cudaKernel

	mu    sync.Mutex
	idle  []*slot
	drain sync.WaitGroup // slots whose work runs on after a cancelled call
}

func newCUDAPlan(ctx context.Context, h *cudaHead, spec Spec, artifacts []*gen.Artifact) (*cudaPlan, error) {
	p := &cudaPlan{head: h, spec: spec, list: make([]*cudaKernel, len(artifacts))}
	group, ctx := errgroup.WithContext(ctx)
	for i, a := range artifacts {
		group.Go(func() (err error) {
			p.list[i], err = h.dev.loadKernel(ctx, a)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// choose returns the narrowest kernel that takes a batch in one column tile, or the widest. Any would give the same
// tokens.
func (p *cudaPlan) choose(batch int) int {
	for i, k := range p.list {
		if batch <= k.m.Tile.N {
			return i
		}
	}
	return len(p.list) - 1
}

func (p *cudaPlan) kernels() []string {
	var names []string
	for _, k := range p.list {
		names = append(names, k.m.Entry)
	}
	return names
}

func (p *cudaPlan) close() error {
	p.drain.Wait()
	var errs []error
	for _, s := range p.idle {
		errs = append(errs, s.close())
	}
	for _, k := range p.list {
		if k != nil {
			errs = append(errs, k.mod.Close())
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
	s, err := p.take()
	if err != nil {
		return nil, err
	}
	if err := s.enqueue(b); err != nil {
		s.close() // whatever it enqueued ends first: freeing waits for the device
		return nil, err
	}
	if err := s.stream.Synchronize(ctx); err != nil {
		if ctx.Err() == nil {
			s.close()
			return nil, err
		}
		p.abandon(s)
		return nil, err
	}
	res := s.result(b)
	res.Kernel = p.list[p.choose(b.rows)].m.Entry
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

func archCapability(d *cudaDevice) arch.ComputeCapability { return d.dev.ComputeCapability() }

func (d *cudaDevice) sms() int {
	n, err := d.dev.Attribute(driver.Multiprocessors)
	if err != nil {
		return 0
	}
	return n
}
