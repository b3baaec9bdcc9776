package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/internal/bench"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
	"github.com/fsgen/fsgen/sampler"
)

var benchCommand = &command{
	name: "bench", args: "(--model NAME|DIR | --vocab V --hidden D)",
	short: "time kernels against the memory floor and cuBLAS, on a GPU",
	examples: `  fsgen bench --model qwen3-8b
  fsgen bench --model llama3-70b --batch 16,64 --out llama3-70b.json
  fsgen bench --model qwen3-8b --tp 2            # ranks on two GPUs, or on two halves of one, against one GPU
  fsgen bench --vocab 151936 --hidden 4096 --sampler greedy --format gobench > new.txt
`,
	setup: setupBench,
}

// benching is what bench was asked for.
type benching struct {
	target
	ranks
	computed
	batch, peers, weights, device, format, out, launch string
	replays                                            int
}

func setupBench(f *pflag.FlagSet) func(context.Context, *env, []string) error {
	var o benching
	o.target.flags(f)
	o.ranks.flags(f, false)
	listVar(f, &o.batch, "batch", "1,8,16,32,64,128,256", "batch sizes")
	listVar(f, &o.peers, "peers", "cublas", "what to run beside fsgen: cublas (the logits alone), or none")
	o.computed.flags(f, chainUsage, fmt.Sprintf("%s; timed at k = %d, p = %v, min-p = %v", truncationUsage, bench.TopK, bench.TopP, bench.MinP))
	listVar(f, &o.weights, "weights", bench.RowMajor, "layouts of the weights, each timed: "+strings.Join(bench.LayoutNames, ", "))
	f.StringVar(&o.launch, "launch", "both", "how to launch kernels of ours: overlap (beside the end of the one before, as plans do), serial, or both")
	f.StringVar(&o.device, "device", "cuda", "cuda or cuda:N")
	f.IntVar(&o.replays, "replays", bench.DefaultMethod.Replays, "timed replays of each contender, an odd number of 9 or more")
	f.StringVar(&o.format, "format", "table", "what to print: table, or gobench for benchstat")
	f.StringVar(&o.out, "out", "", "FILE to keep the data in too, as JSON")
	return o.run
}

func (o *benching) run(ctx context.Context, e *env, args []string) error {
	if err := noArgs("bench", args); err != nil {
		return err
	}
	if err := o.checkFlags(e); err != nil {
		return err
	}
	cfg, err := o.config(e)
	if err != nil {
		return err
	}
	if o.ranks.n > 0 {
		return o.runRanks(ctx, e, cfg)
	}
	rep, err := o.measure(ctx, e, cfg)
	if err != nil {
		return err
	}
	for _, s := range rep.Skipped {
		e.note("%s was skipped: %s", s.Contender, withoutPackage(s.Why))
	}
	return o.print(e, rep)
}

// runRanks times ranks against one GPU.
func (o *benching) runRanks(ctx context.Context, e *env, cfg bench.Config) error {
	devices, _, err := sampler.GroupDevices(o.device, o.ranks.n)
	if err != nil {
		return groupError(err)
	}
	line := e.status()
	ranks := bench.RanksConfig{Shape: cfg.Shape, Computation: cfg.Computation, Batches: cfg.Batches, Replays: o.replays,
		Group:    sampler.GroupConfig{Devices: devices, Transport: sampler.Transport(o.transport)},
		Progress: func(done, total int) { line.set(fmt.Sprintf("batch size %d of %d", done+1, total)) }}
	if err := ranks.Check(); err != nil {
		return usagef("%s", reason(err))
	}
	e.release()
	rep, err := bench.RunRanks(ctx, ranks)
	line.clear()
	switch {
	case err != nil:
		return groupError(err)
	case e.json:
		return rep.WriteJSON(e.stdout)
	}
	return rep.WriteTable(e.stdout)
}

// launchWays are what --launch takes.
var launchWays = map[string][]string{"both": bench.LaunchNames, bench.Overlap: {bench.Overlap}, bench.Serial: {bench.Serial}}

var gpuNames = regexp.MustCompile(`^cuda(:[0-9]{1,6})?$`)

func (o *benching) checkFlags(e *env) error {
	if err := o.ranks.check(); err != nil {
		return err
	}
	switch {
	case o.ranks.n > 0 && (o.out != "" || o.format != "table" || o.changed("peers") && o.peers != "none"):
		return usagef("bench: --tp prints a table or JSON, of ranks and one GPU: it takes no --out, --format or --peers")
	case !gpuNames.MatchString(o.device):
		return usagef("--device: %q: want cuda or cuda:N, since there is nothing to time elsewhere", o.device)
	case launchWays[o.launch] == nil:
		return usagef("--launch: %q: want overlap, serial or both", o.launch)
	case o.format != "table" && o.format != "gobench":
		return usagef("--format: %q: want table or gobench", o.format)
	case e.json && o.changed("format"):
		return usagef("bench: --json and --format exclude each other")
	case o.out != "" && isDir(o.out):
		return usagef("--out: %s is a directory: want a file", o.out)
	case o.out != "" && !isDir(filepath.Dir(o.out)): // found out now, not after the run
		return fmt.Errorf("--out: there is no directory %s", filepath.Dir(o.out))
	}
	return nil
}

func (o *benching) config(e *env) (bench.Config, error) {
	cfg := bench.Config{Layouts: strings.Split(o.weights, ","), Method: bench.DefaultMethod}
	cfg.Method.Replays = o.replays
	cfg.Launches = launchWays[o.launch]
	if o.peers != "none" {
		cfg.Peers = strings.Split(o.peers, ",")
	}
	shape, own, err := o.resolve()
	if err != nil {
		return cfg, err
	}
	cfg.Shape, cfg.Model = shape, o.name(shape)
	if cfg.Computation, err = o.computation(); err != nil {
		return cfg, err
	}
	cfg.Computation.Chain = withOwn(e, cfg.Computation.Chain, own)
	if cfg.Batches, err = parseBatches(o.batch); err != nil {
		return cfg, err
	}
	if err := cfg.Check(); err != nil {
		return cfg, usagef("bench: %s", reason(err))
	}
	return cfg, nil
}

var unfitForNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// name is what the shape is filed under: the preset's name, the checkpoint's directory, or the sizes.
func (o *benching) name(shape ir.Shape) string {
	switch {
	case o.model == "":
		return fmt.Sprintf("v%dd%d", shape.Vocab, shape.Hidden)
	case isDir(o.model):
		if path, err := filepath.Abs(o.model); err == nil {
			return unfitForNames.ReplaceAllString(filepath.Base(path), "-")
		}
	}
	if p, err := model.Lookup(o.model); err == nil {
		return p.Name
	}
	return unfitForNames.ReplaceAllString(o.model, "-")
}

func (o *benching) measure(ctx context.Context, e *env, cfg bench.Config) (*bench.Report, error) {
	dev, err := openDevice(e, o.device)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	e.release()
	line := e.status()
	defer line.clear()
	cfg.Progress = func(done, total int, what string) { line.set(fmt.Sprintf("%s, %d%%", what, 100*done/max(total, 1))) }
	return bench.Run(ctx, dev, cfg)
}

func (o *benching) print(e *env, rep *bench.Report) error {
	data, err := rep.Encode()
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := writeFiles([]file{{o.out, data}}); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	switch {
	case e.json:
		_, err = e.stdout.Write(data)
		return err
	case o.format == "gobench":
		return rep.WriteGoBench(e.stdout)
	}
	return rep.WriteTable(e.stdout)
}
