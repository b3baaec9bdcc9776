package tune

import (
	"context"
	"errors"
	"fmt"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/tiling"
)

// runner is an autotune.Runner on a device.
type runner struct {
	tuner       *Tuner
	dev         *sampler.Device
	arch        arch.Arch
	computation ir.Computation // normalized
	shape       ir.Shape
	layout      sampler.Layout
	part        int             // multiprocessors that launches take, 0 for all
	small       *sampler.Head   // of smallShape
	heads       []*sampler.Head // of the shape, copies of one another
	watch       stopwatch       // nil on devices that have no time to measure
	at          *contest
	// sample runs a plan; tests plant faults here.
	sample func(ctx context.Context, p *sampler.Plan, in *inputs) (*sampler.Result, error)
}

// stopwatch times plans.
type stopwatch interface {
	// copies says how many heads of a size in bytes launches have to take turns with, so that no launch finds the weights
	// of the one before in the GPU's cache: in a model, the other layers have been there meanwhile.
	copies(bytes uint64) int
	// time times candidates, each given by its plans, one for each copy of the head: times[i][pass], in microseconds a
	// launch. What the launches wrote must be want.
	time(ctx context.Context, c *contest, plans [][]*sampler.Plan, passes int) (times [][]float64, err error)
	// forget gives back what the last contest took.
	forget() error
	close() error
}

// contest is the candidates of one batch size.
type contest struct {
	batch  int
	oracle *oracle
	in     *inputs
	want   *sampler.Result // of the default tile, for in
	launch float64         // microseconds that a launch of the default tile is expected to take
	plans  map[autotune.Candidate][]*sampler.Plan
}

func (t *Tuner) newRunner(ctx context.Context, cfg Config, watch stopwatch) (*runner, error) {
	a, err := arch.Lookup(t.dev.Info().Arch)
	if err != nil {
		return nil, err
	}
	r := &runner{tuner: t, dev: t.dev, arch: a, computation: cfg.Computation.Normalize(), shape: cfg.Shape, layout: cfg.Layout, part: cfg.Multiprocessors, watch: watch, sample: sampleOnce}
	if err := r.load(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func sampleOnce(ctx context.Context, p *sampler.Plan, in *inputs) (*sampler.Result, error) {
	return p.Sample(ctx, in.hidden, in.rows)
}

func (r *runner) load(ctx context.Context) (err error) {
	small := sampler.Weights{Source: smallWeights(), Vocab: smallShape.Vocab, Hidden: smallShape.Hidden, Layout: r.layout}
	if r.small, err = r.dev.LoadHead(ctx, small); err != nil {
		return err
	}
	copies, weights := 1, newWeights(r.shape.Hidden, poolValues)
	if r.watch != nil {
		copies = r.watch.copies(weightBytes(r.shape))
	}
	for range copies {
		h, err := r.dev.LoadHead(ctx, sampler.Weights{Source: weights, Vocab: r.shape.Vocab, Hidden: r.shape.Hidden, Layout: r.layout})
		if err != nil {
			return err
		}
		r.heads = append(r.heads, h)
	}
	return nil
}

func weightBytes(s ir.Shape) uint64 { return 2 * uint64(s.Vocab) * uint64(s.Hidden) }

func (r *runner) spec(c autotune.Candidate) sampler.Spec {
	k := r.computation
	s := sampler.Spec{Chain: k.Chain, Sampler: k.Sampler, Score: k.Score, LogSumExp: k.LogSumExp, MaxBatch: r.batch(), Tile: c.Tile, CTAs: c.CTAs}
	if r.part > 0 { // as launches of ranks side by side are (sampler.OpenGroup)
		s.SerialLaunch = true
		if s.CTAs == 0 {
			s.CTAs = r.part
		}
	}
	return s
}

func (r *runner) batch() int {
	if r.at == nil {
		return 0
	}
	return r.at.batch
}

// enter prepares a batch size: what the reference and the default tile say.
func (r *runner) enter(ctx context.Context, batch int) error {
	if r.batch() == batch {
		return nil
	}
	if err := r.leave(); err != nil {
		return err
	}
	o, err := r.tuner.oracle(ctx, r.question(batch))
	if err != nil {
		return err
	}
	first, err := tiling.Default(r.arch, r.computation, r.work(batch))
	if err != nil {
		return err
	}
	r.at = &contest{batch: batch, oracle: o, in: newInputs(r.computation, r.shape, batch), launch: first.Cost(r.work(batch)).Total,
		plans: map[autotune.Candidate][]*sampler.Plan{}}
	if r.at.want, err = r.run(ctx, r.heads[0], autotune.Candidate{Tile: first.Tile}, r.at.in); err != nil {
		err = fmt.Errorf("the default tile %s: %w", first.Tile, errors.Join(err, r.leave()))
	}
	return err
}

// question is the small problem of a batch size, of whose last column tile it fills a part.
func (r *runner) question(batch int) question { return question{r.computation, max(1, batch-3)} }

func (r *runner) work(batch int) tiling.Work {
	return tiling.Work{Shape: r.shape, Batch: batch, Packed: r.layout == sampler.Packed}
}

// leave gives back what the batch size under way took.
func (r *runner) leave() error {
	var errs []error
	if r.watch != nil {
		errs = append(errs, r.watch.forget())
	}
	if r.at != nil {
		for _, plans := range r.at.plans {
			for _, p := range plans {
				errs = append(errs, p.Close())
			}
		}
	}
	r.at = nil
	return errors.Join(errs...)
}

// run samples inputs by a candidate once, with a plan of its own.
func (r *runner) run(ctx context.Context, h *sampler.Head, c autotune.Candidate, in *inputs) (*sampler.Result, error) {
	p, err := h.Plan(ctx, r.spec(c))
	if err != nil {
		return nil, err
	}
	res, err := r.sample(ctx, p, in)
	return res, errors.Join(err, p.Close())
}

// Verify implements autotune.Runner: the candidate's tokens are the reference's on a small problem, and the default
// tile's on the shape itself, which is too large for the reference.
func (r *runner) Verify(ctx context.Context, c autotune.Candidate, batch int) error {
	err := r.verify(ctx, c, batch)
	if err != nil && r.dev.Healthy() != nil {
		return fmt.Errorf("%w: %w", autotune.ErrGPU, err)
	}
	return err
}

func (r *runner) verify(ctx context.Context, c autotune.Candidate, batch int) error {
	if err := r.enter(ctx, batch); err != nil {
		return err
	}
	if err := r.verifySmall(ctx, c); err != nil {
		return err
	}
	plans, err := r.plansOf(ctx, c)
	if err != nil {
		return err
	}
	got, err := r.sample(ctx, plans[0], r.at.in)
	if err != nil {
		return err
	}
	return same(r.at.want, got)
}

// verifySmall holds a candidate to the reference, unless the same kernel has passed before another head.
func (r *runner) verifySmall(ctx context.Context, c autotune.Candidate) error {
	x := trial{r.question(r.at.batch), r.layout, c}
	if r.tuner.passed[x] {
		return nil
	}
	got, err := r.run(ctx, r.small, c, r.at.oracle.in)
	if err != nil {
		return err
	}
	if err := r.at.oracle.judge(got); err != nil {
		return err
	}
	r.tuner.passed[x] = true
	return nil
}

// plansOf returns a candidate's plans, one for each copy of the head.
func (r *runner) plansOf(ctx context.Context, c autotune.Candidate) ([]*sampler.Plan, error) {
	for len(r.at.plans[c]) < len(r.heads) {
		p, err := r.heads[len(r.at.plans[c])].Plan(ctx, r.spec(c))
		if err != nil {
			return nil, err
		}
		r.at.plans[c] = append(r.at.plans[c], p)
	}
	return r.at.plans[c], nil
}

// Time implements autotune.Runner.
func (r *runner) Time(ctx context.Context, list []autotune.Candidate, batch, passes int) ([][]float64, error) {
	if r.watch == nil {
		return nil, fmt.Errorf("device %s: nothing to time", r.dev.Info().Name)
	}
	if err := r.enter(ctx, batch); err != nil {
		return nil, err
	}
	var plans [][]*sampler.Plan
	for _, c := range list {
		p, err := r.plansOf(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c, err)
		}
		plans = append(plans, p)
	}
	return r.watch.time(ctx, r.at, plans, passes)
}

// Close gives everything back.
func (r *runner) Close() error {
	errs := []error{r.leave()}
	for _, h := range r.heads {
		errs = append(errs, h.Close())
	}
	if r.small != nil {
		errs = append(errs, r.small.Close())
	}
	if r.watch != nil {
		errs = append(errs, r.watch.close())
	}
	return errors.Join(errs...)
}
