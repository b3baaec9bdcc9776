//go:build !fsgen_nocuda

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/closing"
	"github.com/fsgen/fsgen/sampler"
)

// Run times the contenders of a configuration on a GPU. It may be cancelled between replays.
func Run(ctx context.Context, dev *sampler.Device, cfg Config) (*Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	r, err := openRig(ctx, dev, &cfg)
	if err != nil {
		return nil, err
	}
	rep, err := r.run(ctx)
	if closeErr := r.close(); err == nil { // after a failure, closing fails for the same reason
		err = closeErr
	}
	return rep, err
}

func (c *Config) progress(done, total int, what string) {
	if c.Progress != nil {
		c.Progress(done, total, what)
	}
}

// field is what contenders are made of, at any batch size.
type field struct {
	floors []Contender
	plans  []layoutPlan
	peer   *blas // nil: not asked for, or not there
}

func (r *rig) run(ctx context.Context) (*Report, error) {
	rep := &Report{Schema: Schema, Tool: "fsgen " + gen.Version, Time: time.Now().UTC().Format(time.RFC3339),
		Device: r.device, Problem: r.cfg.problem(), Method: r.cfg.Method}
	var f field
	var err error
	if f.floors, err = r.floors(); err != nil {
		return nil, fmt.Errorf("%s: %w", Floor, err)
	}
	if f.plans, err = r.plans(ctx, rep); err != nil {
		return nil, err
	}
	if len(r.cfg.Peers) > 0 { // cuBLAS is the only one
		if f.peer, err = r.openBLAS(); err != nil {
			rep.skip(Cublas, 0, err)
		}
	}
	for i := range r.cfg.Batches {
		if err := r.runBatch(ctx, rep, &f, i); err != nil {
			return nil, err
		}
	}
	return rep, nil
}

// contest is the contenders of one batch size.
type contest struct {
	closing.Scope
	batch     int
	list      []Contender
	samplings []*sampling
	say       func(done, total int, what string)
}

// runBatch times every contender at the i-th batch size.
func (r *rig) runBatch(ctx context.Context, rep *Report, f *field, i int) (err error) {
	c := &contest{batch: r.cfg.Batches[i], list: slices.Clone(f.floors)}
	c.say = func(done, total int, what string) {
		r.cfg.progress(done, total, fmt.Sprintf("batch %d of %d (B = %d): %s", i+1, len(r.cfg.Batches), c.batch, what))
	}
	defer func() {
		_ = r.stream.Synchronize(context.Background()) // what a cancelled replay left
		if closeErr := c.CloseAll(); err == nil {
			err = closeErr
		}
	}()
	if err := c.enterFsgen(ctx, r, f.plans); err != nil {
		return err
	}
	if f.peer != nil {
		if err := c.enterPeer(ctx, rep, f.peer); err != nil {
			return err
		}
	}
	series, err := Measure(ctx, c.list, r.cfg.Method, Watch{r.meter, func(done, total int) { c.say(done, total, "timing") }})
	if err != nil {
		return err
	}
	if err := c.checkAgain(ctx); err != nil {
		return err
	}
	rep.add(c.batch, c.list, series)
	return c.timeHost(ctx, rep)
}

func (c *contest) enterFsgen(ctx context.Context, r *rig, plans []layoutPlan) error {
	for i, p := range plans {
		c.say(i, len(plans), "checking tokens")
		x, err := r.fsgen(ctx, &c.Scope, p, c.batch)
		if err != nil {
			return fmt.Errorf("%s (%s) at batch %d: %w", p.name, p.launch, c.batch, err)
		}
		c.list, c.samplings = append(c.list, x.Contender), append(c.samplings, x)
	}
	return nil
}

// enterPeer goes on without a peer that does not work, unless nothing works any more.
func (c *contest) enterPeer(ctx context.Context, rep *Report, peer *blas) error {
	c.say(0, 1, "choosing cuBLAS's algorithm")
	x, err := peer.contender(ctx, &c.Scope, c.batch)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, driver.ErrPoisoned) {
		return err
	}
	if err != nil {
		rep.skip(Cublas, c.batch, err)
		return nil
	}
	c.list = append(c.list, x)
	return nil
}

// checkAgain looks at the tokens that the timed launches wrote.
func (c *contest) checkAgain(ctx context.Context) error {
	for _, x := range c.samplings {
		if err := x.check(ctx); err != nil {
			return fmt.Errorf("%s (%s) at batch %d, after it was timed: %w", x.Name, x.Launch, c.batch, err)
		}
	}
	return nil
}

// timeHost takes the host's time of our launches.
func (c *contest) timeHost(ctx context.Context, rep *Report) error {
	for i, x := range c.samplings {
		c.say(i, len(c.samplings), "timing the host")
		us, err := x.hostTime(ctx)
		if err != nil {
			return err
		}
		rep.find(c.batch, x.Name, x.Launch).Host = us
	}
	return nil
}
