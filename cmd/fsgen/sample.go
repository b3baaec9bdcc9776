package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sampler"
)

var sampleCommand = &command{
	name: "sample", args: "[--model DIR | --weights FILE.safetensors[:TENSOR]] --hidden FILE.npy",
	short: "sample one token for each hidden state",
	examples: `  fsgen sample                                   # tokens from a small embedded head
  fsgen sample --model qwen3/ --hidden h.npy --temperature 0.8 --seed 42 --position 7
  fsgen sample --weights w.safetensors:lm_head.weight --hidden h.npy --greedy --device cpu --json
  fsgen sample --sampler grouped --logsumexp     # the distribution of gumbel by another path, with log-sum-exps
  fsgen sample --device cpu --top-k 40 --top-p 0.9 --logprobs processed --top-logprobs 5 --json
  fsgen sample --tp 4 --device cuda:0            # four ranks, each with a part of the vocabulary and of the GPU
  fsgen sample --device cpu --draws 8 --without-replacement --ban-ids 0,1
`,
	setup: setupSample,
}

// sampling is what sample was asked for.
type sampling struct {
	source
	rowParams
	ranks
	temperature, seed, position, mask, bias string
	scale, softcap                          float32
	greedy, score, logSumExp                bool
	sampler                                 string
	draw, tag                               uint32
	device, kernel, further, tile, layout   string

	changed func(string) bool
}

func setupSample(f *pflag.FlagSet) func(context.Context, *env, []string) error {
	o := &sampling{changed: f.Changed}
	o.source.flags(f)
	f.StringVar(&o.temperature, "temperature", "1", "temperature, or FILE.npy with one a row; 0 is greedy for its row")
	f.StringVar(&o.seed, "seed", "", "64-bit seed, or FILE.npy with one a row (drawn if absent)")
	f.StringVar(&o.position, "position", "", "64-bit position of the token in its sequence, or FILE.npy; a seed needs it")
	f.StringVar(&o.mask, "mask", "", "FILE.npy: uint32 words, 1 = allowed ([words] or [B, words]), or booleans ([V] or [B, V])")
	f.StringVar(&o.bias, "bias", "", "FILE.npy: float32 [V] or [B, V], added to the logits")
	f.Float32Var(&o.scale, "scale", 0, "multiply the logits (the model's own factor, or the kernel's, if absent)")
	f.Float32Var(&o.softcap, "softcap", 0, "cap the logits at c tanh(y/c) (the model's own, or the kernel's, if absent; 0 for none)")
	f.StringVar(&o.sampler, "sampler", "gumbel", samplerUsage)
	f.BoolVar(&o.greedy, "greedy", false, "take the largest logit, without noise: --sampler greedy")
	f.BoolVar(&o.score, "score", false, "report the winning scores (needs --json)")
	f.BoolVar(&o.logSumExp, "logsumexp", false, "report the log-sum-exp of z/T of every row, after its token")
	o.rowParams.flags(f)
	o.ranks.flags(f, true)
	f.Uint32Var(&o.draw, "draw", 0, "index among independent draws of one row and position")
	f.Uint32Var(&o.tag, "stream-tag", 0, "keeps uses of one seed and position apart")
	f.StringVar(&o.device, "device", sampler.Auto, "auto, cpu, cuda, cuda:N or sim:ARCH")
	f.StringVar(&o.layout, "layout", string(manifest.RowMajor), "layout of the weights on the device: rowmajor, or packed, which is faster")
	f.StringVar(&o.kernel, "kernel", "", "FILE.ptx: run this emitted kernel, by the manifest beside it")
	f.StringVar(&o.further, "further", "", "FILE.ptx: make further passes with this emitted kernel (needs --kernel)")
	f.StringVar(&o.tile, "tile", "", "tile of the GPU's kernel, as in m192n16k64s8c1, instead of the default")
	return o.run
}

func (o *sampling) run(ctx context.Context, e *env, args []string) error {
	if err := noArgs("sample", args); err != nil {
		return err
	}
	if err := o.checkFlags(e); err != nil {
		return err
	}
	in, err := o.source.open(ctx, e)
	if err != nil {
		return err
	}
	defer in.close()
	spec, rows, err := o.inputs(e, in)
	if err != nil {
		return err
	}
	if o.ranks.n > 0 {
		return o.runOnRanks(ctx, e, in, spec, rows)
	}
	dev, err := openDevice(e, o.device)
	if err != nil {
		return err
	}
	defer dev.Close()
	res, err := o.sampleOn(ctx, e, dev, in, spec, rows)
	if err != nil {
		return err
	}
	return o.print(e, dev.Info(), spec, res)
}

// runOnRanks is run where ranks share the vocabulary.
func (o *sampling) runOnRanks(ctx context.Context, e *env, in *opened, spec sampler.Spec, rows sampler.Rows) error {
	g, err := o.ranks.open(ctx, e, o.device)
	if err != nil {
		return err
	}
	res, err := o.sampleOnRanks(ctx, e, g, in, spec, rows)
	if err := errors.Join(err, g.Close()); err != nil {
		return err
	}
	return o.print(e, sampler.Info{Name: runs(g.Info().Devices)}, spec, res)
}

func (o *sampling) sampleOnRanks(ctx context.Context, e *env, g *sampler.Group, in *opened, spec sampler.Spec, rows sampler.Rows) (*sampler.Result, error) {
	line := e.status()
	defer line.clear()
	head, err := g.LoadHead(ctx, sampler.Weights{Source: in.watch(line), Vocab: in.vocab, Hidden: in.width, Layout: o.headLayout(spec)}, nil)
	if err != nil {
		return nil, err
	}
	defer head.Close()
	line.set("preparing kernels")
	plan, err := head.Plan(ctx, spec)
	if room := (*sampler.RoomError)(nil); errors.As(err, &room) && room.MaxBatch > 0 {
		spec.MaxBatch = room.MaxBatch // in pieces, then
		plan, err = head.Plan(ctx, spec)
	}
	if err != nil {
		return nil, tileError(o.tile, g.Info().Arch, err)
	}
	defer plan.Close()
	line.clear()
	e.release()
	line.set(fmt.Sprintf("sampling %d rows", in.rows))
	if err := plan.Agree(ctx, in.hidden, rows); err != nil {
		return nil, err
	}
	return plan.Sample(ctx, in.hidden, rows)
}

// checkFlags refuses what is wrong whatever the files hold.
func (o *sampling) checkFlags(e *env) error {
	switch {
	case o.changed("vocab") && o.vocab < 1:
		return usagef("--vocab is %d: want 1 or more", o.vocab)
	case o.changed("scale") && o.scale == 0:
		return usagef("--scale is 0: want another number, or leave it out")
	case o.score && !e.json:
		return usagef("--score needs --json, where the scores are printed")
	case o.greedy && o.changed("sampler") && o.sampler != ir.Greedy.String():
		return usagef("--greedy and --sampler %s exclude each other", o.sampler)
	}
	if err := ir.ValidStreamTag(o.tag); err != nil {
		return usagef("--stream-tag is %d: want %v", o.tag, err)
	}
	if _, err := parseSampler(o.sampler); err != nil {
		return err
	}
	if err := o.checkParams(e.json); err != nil {
		return err
	}
	if _, err := manifest.ParseLayout(o.layout); err != nil {
		return usagef("--layout: %v", err)
	}
	if o.kernel != "" && o.changed("layout") {
		return usagef("--kernel and --layout exclude each other: the kernel has its layout")
	}
	if err := checkDevice(o.device); err != nil {
		return err
	}
	if o.kernel != "" && o.ranks.n > 1 {
		return usagef("--kernel and --tp exclude each other: ranks make their own kernels")
	}
	if err := o.ranks.check(); err != nil {
		return err
	}
	return o.wantGPU()
}

// wantGPU keeps tiles and emitted kernels, which only a GPU has, from being ignored on the CPU.
func (o *sampling) wantGPU() error {
	flag := ""
	switch {
	case o.further != "" && o.kernel == "":
		return usagef("--further needs --kernel: the kernel of the first pass")
	case o.kernel != "" && o.tile != "":
		return usagef("--kernel and --tile exclude each other: the kernel has its tile")
	case o.kernel != "":
		flag = "--kernel"
	case o.tile != "":
		flag = "--tile"
	default:
		return nil
	}
	if o.device == sampler.CPU {
		return usagef("%s and --device cpu exclude each other: kernels and tiles are a GPU's", flag)
	}
	if o.device == sampler.Auto {
		o.device = sampler.CUDA
	}
	return nil
}

// deviceNames is what --device takes.
var deviceNames = regexp.MustCompile(`^(auto|cpu|cuda(:[0-9]{1,6})?|sim:[a-z0-9_]+)$`)

func checkDevice(name string) error {
	if !deviceNames.MatchString(name) {
		return usagef("--device: unknown device %q: want auto, cpu, cuda, cuda:N or sim:ARCH", name)
	}
	return nil
}

// openDevice opens a device and says what auto chose.
func openDevice(e *env, name string) (*sampler.Device, error) {
	dev, err := sampler.Open(name)
	var noGPU *sampler.NoGPUError
	if err != nil && !errors.As(err, &noGPU) {
		return nil, usagef("--device: %s", reason(err))
	}
	if err != nil {
		return nil, err
	}
	if name == sampler.Auto {
		info := dev.Info()
		if info.Fallback != nil {
			e.note("device cpu: %s", trimmed(info.Fallback))
		} else {
			e.note("device %s (%s)", info.Name, info.Product)
		}
	}
	return dev, nil
}

// headLayout is the layout that the kernel wants, or that was asked for.
func (o *sampling) headLayout(spec sampler.Spec) sampler.Layout {
	if spec.Artifact != nil {
		return spec.Artifact.Manifest.Tile.Weights
	}
	return sampler.Layout(o.layout)
}

// kernelOf is the file of the kernel that a plan refuses.
func (o *sampling) kernelOf(err error) string {
	if bad := (*sampler.InputError)(nil); errors.As(err, &bad) && bad.Field == "further artifact" {
		return o.further
	}
	return o.kernel
}

func (o *sampling) sampleOn(ctx context.Context, e *env, dev *sampler.Device, in *opened, spec sampler.Spec, rows sampler.Rows) (*sampler.Result, error) {
	if a, info := spec.Artifact, dev.Info(); a != nil && a.Manifest.Arch != info.Arch {
		return nil, fmt.Errorf("%s is a kernel for %s: device %s runs those for %s", o.kernel, a.Manifest.Arch, info.Name, info.Arch)
	}
	line := e.status()
	defer line.clear()
	head, err := dev.LoadHead(ctx, sampler.Weights{Source: in.watch(line), Vocab: in.vocab, Hidden: in.width, Layout: o.headLayout(spec)})
	if err != nil {
		return nil, err
	}
	defer head.Close()
	line.set("preparing kernels")
	plan, err := head.Plan(ctx, spec)
	if err != nil {
		if o.kernel != "" {
			return nil, fmt.Errorf("%s: %w", o.kernelOf(err), err)
		}
		return nil, tileError(o.tile, dev.Info().Arch, err)
	}
	defer plan.Close()
	line.clear()
	e.release()
	line.set(fmt.Sprintf("sampling %d rows", in.rows))
	return plan.Sample(ctx, in.hidden, rows)
}

// kind is the sampler that --sampler or --greedy names.
func (o *sampling) kind() (ir.Sampler, error) {
	if o.greedy {
		return ir.Greedy, nil
	}
	return parseSampler(o.sampler)
}

// inputs turns flags into what the plan computes and the rows' parameters.
func (o *sampling) inputs(e *env, in *opened) (spec sampler.Spec, rows sampler.Rows, err error) {
	spec = sampler.Spec{Score: o.score, LogSumExp: o.logSumExp, MaxBatch: max(in.rows, 1), Chain: ir.Chain{Scale: o.scale, Softcap: o.softcap}}
	if spec.Sampler, err = o.kind(); err != nil {
		return spec, rows, err
	}
	if o.changed("softcap") && o.softcap == 0 {
		in.own.Softcap = 0
	}
	spec.Chain = withOwn(e, spec.Chain, in.own)
	if spec.Tile, err = parseTile(o.tile); err != nil {
		return spec, rows, err
	}
	if err := spec.Chain.Validate(); err != nil {
		return spec, rows, usagef("--%s", reason(err))
	}
	for _, set := range []func(*env, *opened, *sampler.Spec, *sampler.Rows) error{
		o.setNoise, o.setTemperature, o.setBias, o.setMask, o.setTruncation, o.setPenalties, o.setLists, o.setReports, o.setKernel,
	} {
		if err := set(e, in, &spec, &rows); err != nil {
			return spec, rows, err
		}
	}
	if err := spec.Computation().Validate(); err != nil {
		return spec, rows, usagef("%s", reason(err))
	}
	return spec, rows, nil
}
