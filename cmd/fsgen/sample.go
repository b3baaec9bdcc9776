package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

var sampleCommand = &command{
	name: "sample", args: "[--model DIR | --weights FILE.safetensors[:TENSOR]] --hidden FILE.npy",
	short: "sample one token for each hidden state",
	examples: `  fsgen sample                                   tokens from a small embedded head
  fsgen sample --model qwen3/ --hidden h.npy --temperature 0.8 --seed 42 --position 7
  fsgen sample --weights w.safetensors:lm_head.weight --hidden h.npy --greedy --device cpu --json
`,
	setup: setupSample,
}

// sampling is what sample was asked for.
type sampling struct {
	source
	temperature, seed, position, mask, bias string
	scale, softcap                          float32
	greedy, score                           bool
	draw, tag                               uint32
	device, kernel, tile                    string

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
	f.Float32Var(&o.scale, "scale", 0, "multiply the logits (the model's own if absent)")
	f.Float32Var(&o.softcap, "softcap", 0, "cap the logits at c tanh(y/c) (the model's own if absent)")
	f.BoolVar(&o.greedy, "greedy", false, "take the largest logit, without noise")
	f.BoolVar(&o.score, "score", false, "report the winning scores (with --json)")
	f.Uint32Var(&o.draw, "draw", 0, "index among independent draws of one row and position")
	f.Uint32Var(&o.tag, "stream-tag", 0, "keeps uses of one seed and position apart")
	f.StringVar(&o.device, "device", sampler.Auto, "auto, cpu, cuda, cuda:N or sim:ARCH")
	f.StringVar(&o.kernel, "kernel", "", "FILE.ptx: run this emitted kernel, by the manifest beside it")
	f.StringVar(&o.tile, "tile", "", "tile, as in m192n16k64s8c1, instead of the default")
	return o.run
}

func (o *sampling) run(ctx context.Context, e *env, args []string) error {
	if err := noArgs("sample", args); err != nil {
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
	dev, err := openDevice(e, o.device)
	if err != nil {
		return err
	}
	defer dev.Close()
	res, err := sampleOn(ctx, dev, in, spec, rows)
	if err != nil {
		return err
	}
	return o.print(e, dev, spec, res)
}

// openDevice opens a device and says what auto chose.
func openDevice(e *env, name string) (*sampler.Device, error) {
	dev, err := sampler.Open(name)
	if err != nil {
		return nil, err
	}
	if name == sampler.Auto {
		info := dev.Info()
		if info.Fallback != nil {
			e.note("device cpu: %v", oneLine(info.Fallback))
		} else {
			e.note("device %s (%s)", info.Name, info.Product)
		}
	}
	return dev, nil
}

func sampleOn(ctx context.Context, dev *sampler.Device, in *opened, spec sampler.Spec, rows sampler.Rows) (*sampler.Result, error) {
	head, err := dev.LoadHead(ctx, sampler.Weights{Source: in.weights, Vocab: in.vocab, Hidden: in.width})
	if err != nil {
		return nil, err
	}
	defer head.Close()
	plan, err := head.Plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	return plan.Sample(ctx, in.hidden, rows)
}

// inputs turns flags into what the plan computes and the rows' parameters.
func (o *sampling) inputs(e *env, in *opened) (spec sampler.Spec, rows sampler.Rows, err error) {
	spec = sampler.Spec{Score: o.score, MaxBatch: max(in.rows, 1), Chain: ir.Chain{Scale: o.scale, Softcap: o.softcap}}
	if o.greedy {
		spec.Sampler = ir.Greedy
	}
	spec.Chain = withOwn(e, spec.Chain, in.own)
	if spec.Tile, err = parseTile(o.tile); err != nil {
		return spec, rows, err
	}
	if err := spec.Chain.Validate(); err != nil {
		return spec, rows, usagef("%v", err)
	}
	for _, set := range []func(*env, *opened, *sampler.Spec, *sampler.Rows) error{o.setNoise, o.setTemperature, o.setBias, o.setMask, o.setKernel} {
		if err := set(e, in, &spec, &rows); err != nil {
			return spec, rows, err
		}
	}
	return spec, rows, nil
}

// setKernel takes the computation from an emitted kernel, where no flag says otherwise.
func (o *sampling) setKernel(_ *env, _ *opened, spec *sampler.Spec, rows *sampler.Rows) error {
	if o.kernel == "" {
		return nil
	}
	if o.tile != "" {
		return usagef("--kernel and --tile exclude each other: the kernel has its tile")
	}
	a, err := readArtifact(o.kernel)
	if err != nil {
		return err
	}
	chain, err := ir.ParseChain(a.Manifest.Transform)
	if err != nil {
		return fmt.Errorf("%s: %w", o.kernel, err)
	}
	spec.Artifact = a
	if !o.changed("scale") {
		spec.Chain.Scale = chain.Scale
	}
	if !o.changed("softcap") {
		spec.Chain.Softcap = chain.Softcap
	}
	if !o.changed("temperature") && !chain.Temperature {
		spec.Chain.Temperature, rows.Temperature = false, nil
	}
	return nil
}

// readArtifact reads FILE.ptx and the manifest beside it.
func readArtifact(path string) (*gen.Artifact, error) {
	base, ok := strings.CutSuffix(path, ".ptx")
	if !ok {
		return nil, usagef("--kernel: %q: want a .ptx file", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := os.ReadFile(base + ".json")
	if err != nil {
		return nil, fmt.Errorf("the kernel's manifest: %w", err)
	}
	a, err := gen.LoadArtifact(text, m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// report is what sample prints as JSON.
type report struct {
	Tokens []int32     `json:"tokens"`
	Status []ir.Status `json:"status"`
	Scores []any       `json:"scores,omitempty"`
	Seeds  []uint64    `json:"seeds,omitempty"`
	Device string      `json:"device"`
	GPU    string      `json:"gpu,omitempty"`
	RNG    string      `json:"rng,omitempty"`
	Kernel string      `json:"kernel,omitempty"`
	// Transform and Sampler say what was computed.
	Transform string `json:"transform"`
	Sampler   string `json:"sampler"`
}

func (o *sampling) print(e *env, dev *sampler.Device, spec sampler.Spec, res *sampler.Result) error {
	if !e.json {
		for i, t := range res.Tokens {
			fmt.Fprintln(e.stdout, t)
			if res.Status[i] != ir.StatusOK {
				e.note("row %d has no token: %s", i, res.Status[i])
			}
		}
		return nil
	}
	info := dev.Info()
	r := report{Tokens: res.Tokens, Status: res.Status, Seeds: res.Seeds, Device: info.Name, Kernel: res.Kernel,
		Transform: spec.Computation().Normalize().Chain.String(), Sampler: spec.Sampler.String()}
	if info.Driver != "" {
		r.GPU = info.Product
	}
	if spec.Sampler == ir.Gumbel {
		r.RNG = ir.NoiseName
	}
	if o.score {
		for i, s := range res.Scores {
			if res.Status[i] == ir.StatusOK {
				r.Scores = append(r.Scores, s)
			} else {
				r.Scores = append(r.Scores, nil) // JSON has no NaN
			}
		}
	}
	return json.NewEncoder(e.stdout).Encode(r)
}
