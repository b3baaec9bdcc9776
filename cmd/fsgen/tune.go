package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/internal/bench"
	"github.com/fsgen/fsgen/internal/tune"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/model"
	"github.com/fsgen/fsgen/sampler"
)

var tuneCommand = &command{
	name: "tune", args: "(--model NAME|DIR|all | --vocab V --hidden D) | ls",
	short: "find the fastest tile for each batch size of a model, on a GPU",
	examples: `  fsgen tune --model qwen3-8b
  fsgen tune --model qwen3-8b --batch 1,16,64 --transform bias,mask,temperature
  fsgen tune --model all --export h200.json
  fsgen tune --model qwen3-8b --tp 4             # for each of four ranks, as sample --tp 4 has them
  fsgen tune ls
`,
	setup: setupTune,
}

// allModels is the name of every preset together.
const allModels = "all"

// tuning is what tune was asked for.
type tuning struct {
	target
	computed
	batch, weights, device, export string
	score, force, exhaustive       bool
	tp                             int
}

func setupTune(f *pflag.FlagSet) func(context.Context, *env, []string) error {
	var o tuning
	o.target.flags(f)
	f.Lookup("model").Usage = "preset (fsgen models), directory of a Hugging Face checkpoint, or all: every preset"
	listVar(f, &o.batch, "batch", "", "batch sizes to tune for, as in 1,16,64 (all of them if left out)")
	listVar(f, &o.transform, "transform", "temperature", chainUsage)
	f.StringVar(&o.sampler, "sampler", "gumbel", samplerUsage)
	f.BoolVar(&o.score, "score", false, "tune the kernels that write the winning scores too")
	f.BoolVar(&o.logSumExp, "logsumexp", false, "tune the kernels that write the log-sum-exp too")
	f.StringVar(&o.weights, "weights", bench.RowMajor, "layout of the weights")
	f.StringVar(&o.device, "device", "cuda", "cuda or cuda:N")
	f.IntVar(&o.tp, "tp", 0, "tune for that many ranks that share the vocabulary: the largest shard, on what rank 0 has of its GPU")
	f.BoolVar(&o.force, "force", false, "measure what has been measured before, too")
	f.BoolVar(&o.exhaustive, "exhaustive", false, "measure every tile, not only those that the model of costs puts near its first")
	f.StringVar(&o.export, "export", "", "FILE with a table to add what was found to")
	return func(ctx context.Context, e *env, args []string) error {
		if len(args) > 0 && args[0] == "ls" {
			return listTunings(e, f, args)
		}
		if err := noArgs("tune", args); err != nil {
			return err
		}
		return o.run(ctx, e)
	}
}

func (o *tuning) run(ctx context.Context, e *env) error {
	configs, err := o.configs(e)
	if err != nil {
		return err
	}
	r, err := o.newRun(e)
	if err != nil {
		return err
	}
	device, ranks, err := o.place()
	if err != nil {
		return err
	}
	dev, err := openDevice(e, device)
	if err != nil {
		return err
	}
	defer dev.Close()
	e.release()
	if configs, err = shardsOf(configs, dev, o.tp, ranks); err != nil {
		return err
	}
	tuner := tune.New(dev)
	var jobs []autotune.Job
	for _, c := range configs {
		j, err := tuner.Job(c)
		if err != nil {
			return err
		}
		jobs = append(jobs, j)
	}
	return r.run(ctx, jobs, autotune.Options{Store: r.store, GPU: dev.Info().UUID, Force: o.force})
}

// place names the device that is tuned, that of rank 0 where there are ranks, and says how many of these it has.
func (o *tuning) place() (device string, ranks int, err error) {
	if o.tp == 0 {
		return o.device, 1, nil
	}
	all, _, err := sampler.GroupDevices(o.device, o.tp)
	if err != nil {
		return "", 0, groupError(err)
	}
	for _, d := range all {
		if d == all[0] {
			ranks++
		}
	}
	return all[0], ranks, nil
}

// shardsOf makes configurations those of the largest shard of some ranks, as many of which share the device.
func shardsOf(configs []tune.Config, dev *sampler.Device, ranks, sharing int) ([]tune.Config, error) {
	if ranks == 0 {
		return configs, nil
	}
	gpu, ok := dev.GPU()
	if !ok {
		return nil, fmt.Errorf("device %s: nothing to tune: want a GPU", dev.Info().Name)
	}
	var out []tune.Config
	for _, c := range configs {
		c.Name = fmt.Sprintf("%s, 1 of %d ranks", c.Name, ranks)
		c.Shape = sampler.ShardShape(c.Shape, ir.EvenSpans(c.Shape.Vocab, ranks))
		if sharing > 1 {
			c.Multiprocessors = max(gpu.Multiprocessors/sharing, 1)
		}
		out = append(out, c)
	}
	return out, nil
}

// configs lists what to tune, before any device is needed.
func (o *tuning) configs(e *env) ([]tune.Config, error) {
	base, err := o.base()
	if err != nil {
		return nil, err
	}
	if o.model == allModels {
		if o.changed("vocab") || o.changed("hidden") {
			return nil, usagef("--model and --vocab or --hidden exclude each other")
		}
		return everyModel(base), nil
	}
	shape, own, err := o.resolve()
	if err != nil {
		return nil, err
	}
	base.Name, base.Shape = (&benching{target: o.target}).name(shape), shape
	base.Computation.Chain = withOwn(e, base.Computation.Chain, own)
	return []tune.Config{base}, base.Computation.Validate()
}

// base is what all models have in common.
func (o *tuning) base() (c tune.Config, err error) {
	if !gpuNames.MatchString(o.device) {
		return c, usagef("--device: %q: want cuda or cuda:N, since there is nothing to tune elsewhere", o.device)
	}
	if o.changed("tp") {
		if err := checkRanks(o.tp); err != nil {
			return c, err
		}
	}
	if c.Computation, err = o.computation(); err != nil {
		return c, err
	}
	layout, err := manifest.ParseLayout(o.weights)
	if err != nil {
		return c, usagef("--weights: %v", err)
	}
	if o.changed("batch") {
		if c.Batches, err = parseBatches(o.batch); err != nil {
			return c, err
		}
	}
	c.Computation.Score, c.Layout = o.score, layout
	c.Exhaustive = o.exhaustive
	return c, nil
}

// everyModel lists the presets, those that share a shape and a transform once.
func everyModel(base tune.Config) []tune.Config {
	type head struct {
		shape ir.Shape
		chain ir.Chain
	}
	var seen []head
	var out []tune.Config
	for _, p := range model.All() {
		c := base
		c.Name, c.Shape = p.Name, ir.Shape{Vocab: p.V, Hidden: p.D}
		c.Computation.Chain = withOwn(&env{}, base.Computation.Chain, ownChain(p.Scale, p.Softcap)) // without its notes
		if h := (head{c.Shape, c.Computation.Normalize().Chain}); !slices.Contains(seen, h) {
			seen = append(seen, h)
			out = append(out, c)
		}
	}
	return out
}

// newRun opens the store and the table to export to: what cannot be kept is said before anything is measured.
func (o *tuning) newRun(e *env) (*tuneRun, error) {
	kernels, err := openCache()
	if err != nil {
		return nil, err
	}
	r := &tuneRun{e: e, store: autotune.OpenStore(kernels, func(s string) { e.note("%s", s) }), export: o.export}
	if !r.store.Enabled() && o.export == "" {
		return nil, errors.New("the tuning store is off (FSGEN_CACHE_DIR), so nothing would be kept: name a file with --export")
	}
	if o.export == "" {
		return r, nil
	}
	if isDir(o.export) {
		return nil, usagef("--export: %s is a directory: want a file", o.export)
	}
	if dir := filepath.Dir(o.export); !isDir(dir) {
		return nil, fmt.Errorf("--export: there is no directory %s", dir)
	}
	_, err = readTable(o.export)
	return r, err
}
