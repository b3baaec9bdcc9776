//go:build !fsgen_nocuda

package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/closing"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// heads make an LM head of the rig's weights, by layout. A layout that the sampler lacks has no entry.
var heads = map[string]func(ctx context.Context, r *rig) (*sampler.Head, error){
	RowMajor: func(_ context.Context, r *rig) (*sampler.Head, error) {
		return r.dev.WrapHead(r.deviceWeights(sampler.RowMajor))
	},
	Packed: func(_ context.Context, r *rig) (*sampler.Head, error) {
		return r.dev.WrapHead(r.deviceWeights(sampler.Packed))
	},
}

func (r *rig) deviceWeights(layout sampler.Layout) sampler.DeviceWeights {
	return sampler.DeviceWeights{Ptr: uint64(r.weights.Ptr()), LD: r.ld, Vocab: r.cfg.Shape.Vocab, Hidden: r.cfg.Shape.Hidden, Layout: layout}
}

// supported says whether the sampler has a layout of weights.
func supported(layout string) error {
	if heads[layout] == nil {
		return fmt.Errorf("weights: fsgen has no kernels for %s weights yet", layout)
	}
	return nil
}

// layoutPlan is a plan over the weights in a layout, for every batch size of the run, as a server would have it.
type layoutPlan struct {
	name, launch string
	plan         *sampler.Plan
}

// plans makes the plans of every layout, one for each way of launching, and takes the cold start of each layout's.
func (r *rig) plans(ctx context.Context, rep *Report) (out []layoutPlan, err error) {
	for i, layout := range r.cfg.Layouts {
		r.cfg.progress(i, len(r.cfg.Layouts), "preparing kernels")
		head, err := heads[layout](ctx, r)
		if err != nil {
			return nil, err
		}
		r.Keep(head)
		name := "fsgen-" + layout
		for _, launch := range r.cfg.Launches {
			plan, err := head.Plan(ctx, r.spec(launch))
			if err != nil {
				return nil, err
			}
			r.Keep(plan)
			out = append(out, layoutPlan{name, launch, plan})
		}
		if err := rep.coldStart(ctx, name, head, r.spec(Overlap)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *rig) spec(launch string) sampler.Spec {
	c := r.computation()
	return sampler.Spec{Chain: c.Chain, Sampler: c.Sampler, Truncation: c.Truncation, LogSumExp: c.LogSumExp, LogProb: c.LogProb, MaxBatch: slices.Max(r.cfg.Batches), SerialLaunch: launch == Serial}
}

// sampling is the contender of one plan at one batch size.
type sampling struct {
	Contender
	r              *rig
	batch          int
	launcher       *sampler.Launcher
	args           sampler.DeviceArgs
	tokens, status *driver.Buffer
	// Not looked at.
	lse, logProbs, passes *driver.Buffer
	want                  []int32 // the tokens of the same inputs through Plan.Sample
}

// fsgen makes a contender of a plan, once its tokens have been looked at. Call check again when it has been timed.
func (r *rig) fsgen(ctx context.Context, s *closing.Scope, p layoutPlan, batch int) (*sampling, error) {
	x := &sampling{r: r, batch: batch}
	if err := x.open(s, p.plan); err != nil {
		return nil, err
	}
	kernel, err := x.sample(ctx, p.plan)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{x.poison, x.launch, func() error { return x.check(ctx) }} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	x.Contender, err = r.graph(s, p.name, kernel, x.launch)
	x.Launch = p.launch
	return x, err
}

// sample takes the tokens of the sampler's own way of a call, and the name of the kernel that it takes.
func (x *sampling) sample(ctx context.Context, plan *sampler.Plan) (kernel string, err error) {
	hidden := make([]uint16, x.batch*x.r.cfg.Shape.Hidden)
	if err := x.r.data.hidden.ReadRows(ctx, hidden, 0, x.batch); err != nil {
		return "", err
	}
	res, err := plan.Sample(ctx, hidden, first(x.r.rows, x.r.computation(), x.r.cfg.Shape, x.batch))
	if err != nil {
		return "", err
	}
	x.want = res.Tokens
	return res.Kernel, nil
}

// open allocates the launcher and the outputs, and lays out the arguments.
func (x *sampling) open(s *closing.Scope, plan *sampler.Plan) (err error) {
	r := x.r
	if x.launcher, err = plan.NewLauncher(x.batch); err != nil {
		return err
	}
	s.Keep(x.launcher)
	for _, buf := range []**driver.Buffer{&x.tokens, &x.status, &x.lse, &x.logProbs, &x.passes} {
		if *buf, err = alloc(r.ctx, s, 4*uint64(x.batch)); err != nil {
			return err
		}
	}
	in, c, words := r.inputs, r.computation(), maskWords(r.cfg.Shape)
	x.args = sampler.DeviceArgs{Batch: x.batch, Hidden: in.hidden, HiddenLD: r.ld, Seeds: in.seeds, Positions: in.positions, OnePosition: true,
		Temperature: in.temperature, Bias: in.bias, Mask: in.mask, Tokens: uint64(x.tokens.Ptr()), Status: uint64(x.status.Ptr()), LogSumExp: uint64(x.lse.Ptr()),
		LogProbs: uint64(x.logProbs.Ptr()), TopK: in.topK, TopP: in.topP, MinP: in.minP, Passes: uint64(x.passes.Ptr())}
	if c.Chain.Bias == ir.BiasMatrix {
		x.args.BiasStride = r.cfg.Shape.Vocab
	}
	if c.Chain.Mask {
		x.args.MaskStride, x.args.MaskWords = words, words
	}
	return nil
}

func (x *sampling) launch() error { return x.launcher.Launch(x.r.stream.Handle(), &x.args) }

// poison fills the outputs with what no kernel writes.
func (x *sampling) poison() error {
	bad := int32(poison)
	for _, buf := range []*driver.Buffer{x.tokens, x.status} {
		if err := x.r.stream.MemsetD32(buf.Ptr(), uint32(bad), uint64(x.batch)); err != nil {
			return err
		}
	}
	return nil
}

// check waits for what was launched and holds its outputs to being samples, and those of the same inputs.
func (x *sampling) check(ctx context.Context) error {
	if err := x.r.stream.Synchronize(ctx); err != nil {
		return err
	}
	tokens, status := make([]int32, x.batch), make([]int32, x.batch)
	if err := x.tokens.Download(bytesOf(tokens), 0); err != nil {
		return err
	}
	if err := x.status.Download(bytesOf(status), 0); err != nil {
		return err
	}
	if err := checkTokens(tokens, status, x.r.cfg.Shape.Vocab); err != nil {
		return err
	}
	return sameTokens(x.want, tokens)
}
