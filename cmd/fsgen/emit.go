package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/ptxas"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

var emitCommand = &command{
	name: "emit", args: "(--model NAME|DIR | --vocab V --hidden D) -o DIR|-",
	short: "write kernels as PTX with a manifest",
	examples: `  fsgen emit --arch sm_90 --model qwen3-8b --batch 1,16,64 --transform temperature -o kernels/
  fsgen emit --arch sm_90 --vocab 32000 --hidden 4096 --batch 8 -o -
  fsgen emit --arch sm_90,sm_100 --model qwen3-8b --batch 16 --tensormap global --format ptx,json,h,go -o kernels/
`,
	setup: setupEmit,
}

// emission is what emit was asked for.
type emission struct {
	target
	computed
	archs, batch, weights, tensorMap, tile, format, out, shard string
	score, slots, further, listed, rank                        bool
	topLogProbs                                                int
}

func setupEmit(f *pflag.FlagSet) func(context.Context, *env, []string) error {
	var o emission
	listVar(f, &o.archs, "arch", "sm_90", "architectures, as in sm_90,sm_100")
	o.target.flags(f)
	listVar(f, &o.batch, "batch", "1", "batch sizes to choose tiles for, as in 1,16,64")
	o.computed.flags(f, "scale=F, softcap=F, bias, bias=rows, bias=sparse, penalties, bias-last, ids, mask, temperature, or none", truncationUsage)
	f.StringVar(&o.weights, "weights", string(manifest.RowMajor), "layout of the weights: rowmajor or packed")
	f.StringVar(&o.tensorMap, "tensormap", string(templates.ByParam),
		"tensor maps by value among the parameters (param), or pointers to them in global memory (global)")
	f.BoolVar(&o.score, "score", false, "write the winning scores too")
	f.IntVar(&o.topLogProbs, "top-logprobs", 0, fmt.Sprintf("find that many likeliest tokens too, up to %d, by a second kernel (needs --logprobs)", ir.MaxTopN))
	f.BoolVar(&o.listed, "logprob-ids", false, "give the log-probabilities of lists of ids too, by a second kernel (needs --logprobs)")
	f.BoolVar(&o.rank, "rank", false, "leave what the ranks of the tokens take, and write beside each kernel that which counts them (needs --logprobs)")
	o.drawsFlag(f)
	f.BoolVar(&o.slots, "slots", false, "rows take their parameters from the places that an array of slots names")
	f.BoolVar(&o.further, "further", false, "write beside each kernel that of its further passes (needs --truncation or --draws)")
	f.StringVar(&o.shard, "shard", "", "have a part of the vocabulary: exchange (ranks join what they found by themselves) or records (a second kernel joins them)")
	f.StringVar(&o.tile, "tile", "", "tile, as in m192n16k64s8c1, instead of the default for the batch size")
	listVar(f, &o.format, "format", "ptx,json", "files to write: ptx, json, h (C header), go (package)")
	f.StringVarP(&o.out, "output", "o", "", "directory to write to, or - to print the PTX (or the one format that --format names)")
	return o.run
}

func (o *emission) run(ctx context.Context, e *env, args []string) error {
	if err := noArgs("emit", args); err != nil {
		return err
	}
	formats, err := parseFormats(o.format)
	if err != nil {
		return err
	}
	if err := o.checkOutput(e, formats); err != nil {
		return err
	}
	artifacts, err := o.artifacts(e)
	if err != nil {
		return err
	}
	if o.out == "-" && len(artifacts) > 1 {
		return usagef("emit: -o - takes one kernel; these are %d: name a directory", len(artifacts))
	}
	addAllResources(ctx, e, artifacts)
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.out == "-" {
		return printOne(e, artifacts[0], formats)
	}
	return writeArtifacts(e, o.out, artifacts, formats)
}

// checkOutput refuses what standard output cannot take.
func (o *emission) checkOutput(e *env, formats []string) error {
	switch {
	case o.out == "":
		return usagef("emit: want -o DIR, or -o - for standard output")
	case o.out == "-" && e.json:
		return usagef("emit: -o - and --json exclude each other: both print (--format json -o - prints the manifest)")
	case o.out == "-" && len(formats) > 1 && o.changed("format"):
		return usagef("emit: -o - takes one format; --format is %q", o.format)
	}
	return nil
}

// artifacts emits every kernel that was asked for; those that come out the same for several batch sizes once.
func (o *emission) artifacts(e *env) ([]*gen.Artifact, error) {
	shape, own, err := o.resolve()
	if err != nil {
		return nil, err
	}
	reqs, err := o.requests(e, shape, own)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var out []*gen.Artifact
	for _, r := range reqs {
		a, err := gen.Emit(r)
		if err != nil {
			return nil, tileError(o.tile, r.Arch.Name, err)
		}
		if !seen[a.Name()] {
			seen[a.Name()] = true
			out = append(out, a)
		}
	}
	return out, nil
}

func (o *emission) requests(e *env, shape ir.Shape, own ir.Chain) ([]gen.Request, error) {
	batches, err := parseBatches(o.batch)
	if err != nil {
		return nil, err
	}
	tile, err := parseTile(o.tile)
	if err != nil {
		return nil, err
	}
	options, err := o.options()
	if err != nil {
		return nil, err
	}
	archs, err := parseArchs(o.archs)
	if err != nil {
		return nil, err
	}
	c, err := o.computation(e, own)
	if err != nil {
		return nil, err
	}
	var out []gen.Request
	for _, a := range archs {
		for _, b := range batches {
			r := gen.Request{Arch: a, Computation: c, Shape: shape, Batch: b, Tile: tile, Options: options}
			out = append(out, r)
			if o.rank {
				counting := r
				counting.Computation, counting.Options.Ranks = c.Normalize().RankPass(), true
				out = append(out, counting)
			}
			if r.Options.Further = true; o.further {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// computation is what the kernels compute, with what the model does to its logits.
func (o *emission) computation(e *env, own ir.Chain) (ir.Computation, error) {
	c, err := o.computed.computation()
	if err != nil {
		return c, err
	}
	if err := o.checkReports(c.LogProb); err != nil {
		return c, err
	}
	if c.Shard, err = ir.ParseShard(o.shard); err != nil {
		return c, usagef("--shard: %s", reason(err))
	}
	c.Chain, c.Score, c.TopN, c.Listed, c.Rank, c.Slots = withOwn(e, c.Chain, own), o.score, o.topLogProbs, o.listed, o.rank, o.slots
	if err := c.Validate(); err != nil {
		return c, usagef("emit: %s", reason(err))
	}
	if o.further && !c.Collects() {
		return c, usagef("--further needs --truncation or --draws: other kernels make one pass")
	}
	return c, nil
}

// checkReports holds what is asked for beside the tokens' log-probabilities to a mode, and to what there can be.
func (o *emission) checkReports(mode ir.LogProb) error {
	switch {
	case o.topLogProbs < 0 || o.topLogProbs > ir.MaxTopN:
		return usagef("--top-logprobs is %d: want 0 to %d", o.topLogProbs, ir.MaxTopN)
	case o.listed && mode == ir.NoLogProb:
		return usagef("--logprob-ids needs --logprobs: of which distribution")
	case o.rank && mode == ir.NoLogProb:
		return usagef("--rank needs --logprobs: of which distribution")
	case o.topLogProbs > 0 && mode == ir.NoLogProb:
		return usagef("--top-logprobs needs --logprobs: of which distribution")
	}
	return nil
}

func (o *emission) options() (out templates.Options, err error) {
	if out.Weights, err = manifest.ParseLayout(o.weights); err != nil {
		return out, usagef("--weights: %v", err)
	}
	if out.TensorMaps, err = templates.ParseTensorMaps(o.tensorMap); err != nil {
		return out, usagef("--tensormap: %v", err)
	}
	return out, nil
}

func parseArchs(s string) ([]arch.Arch, error) {
	var out []arch.Arch
	for _, name := range strings.Split(s, ",") {
		a, err := arch.Lookup(strings.TrimSpace(name))
		if err != nil {
			return nil, usagef("--arch: %s", reason(err))
		}
		out = append(out, a)
	}
	return out, nil
}

// formats are the files that can be written of a kernel, in the order of writing.
var formats = []string{"ptx", "json", "h", "go"}

// parseFormats gives the formats in the order of writing, each once.
func parseFormats(s string) ([]string, error) {
	var asked []string
	for f := range strings.SplitSeq(s, ",") {
		f = strings.TrimSpace(f)
		if !slices.Contains(formats, f) {
			return nil, usagef("--format: %q: want some of ptx, json, h and go, as in ptx,json", f)
		}
		asked = append(asked, f)
	}
	slices.SortFunc(asked, func(a, b string) int { return slices.Index(formats, a) - slices.Index(formats, b) })
	return slices.Compact(asked), nil
}

// encode gives a kernel in a format.
func encode(a *gen.Artifact, format string) ([]byte, error) {
	switch format {
	case "json":
		return a.Manifest.Encode(), nil
	case "h":
		text, err := gen.Header(a)
		return text, formatError(err)
	case "go":
		text, err := gen.GoPackage(a, a.Name())
		return text, formatError(err)
	}
	return a.PTX, nil
}

// formatError makes usage errors of formats that do not take a kernel.
func formatError(err error) error {
	var bad *gen.RequestError
	if errors.As(err, &bad) {
		return usagef("--format: %s", bad.Rule)
	}
	return err
}

func printOne(e *env, a *gen.Artifact, asked []string) error {
	text, err := encode(a, asked[0])
	if err != nil {
		return err
	}
	_, err = e.stdout.Write(text)
	return err
}

// addAllResources records what ptxas says of every kernel, where it is at hand; each takes it a second. One that was named and
// is none, or that refuses kernels, is said, and is no failure.
func addAllResources(ctx context.Context, e *env, artifacts []*gen.Artifact) {
	tool, err := ptxas.Find()
	if err == nil {
		_, err = tool.Version(ctx)
	}
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, ptxas.ErrNotFound) {
			e.note("%s: no resource counts in the manifest", oneLine(err))
		}
		return
	}
	line := e.status()
	defer line.clear()
	failed := 0
	for i, a := range artifacts {
		line.set(fmt.Sprintf("assembling kernel %d of %d", i+1, len(artifacts)))
		if refused := addResources(ctx, tool, a); refused != nil {
			failed, err = failed+1, cmp.Or(err, refused)
		}
	}
	if err != nil && ctx.Err() == nil {
		e.note("%s: no resource counts in %d of %d manifests", oneLine(err), failed, len(artifacts))
	}
}

func addResources(ctx context.Context, tool ptxas.Tool, a *gen.Artifact) error {
	res, err := tool.Assemble(ctx, string(a.PTX), a.Manifest.Target, ptxas.Options{})
	if err != nil {
		return err
	}
	k := res.Kernel(a.Manifest.Entry)
	if k == nil {
		return fmt.Errorf("%s says nothing of %s", tool.Path, a.Manifest.Entry)
	}
	a.Manifest.Resources = &manifest.Resources{Registers: k.Registers, SpillBytes: k.SpillStores + k.SpillLoads, LocalBytes: k.Stack,
		SharedBytes: k.Shared}
	return nil
}

// writeArtifacts writes all files or, if one cannot be written, none.
func writeArtifacts(e *env, dir string, artifacts []*gen.Artifact, formats []string) error {
	if err := makeDir("--output", dir); err != nil {
		return err
	}
	var files []file
	for _, a := range artifacts {
		for _, format := range formats {
			text, err := encode(a, format)
			if err != nil {
				return err
			}
			path := artifactPath(dir, a, format)
			if err := makeDir("--output", filepath.Dir(path)); err != nil {
				return err
			}
			files = append(files, file{path, text})
		}
	}
	if err := writeFiles(files); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	for _, a := range artifacts {
		if err := printArtifact(e, dir, a, formats); err != nil {
			return err
		}
	}
	return nil
}

// artifactPath is a file beside the others; a Go package has a directory to itself.
func artifactPath(dir string, a *gen.Artifact, format string) string {
	if format == "go" {
		return filepath.Join(dir, a.Name(), "kernel.go")
	}
	return filepath.Join(dir, a.Name()+"."+format)
}

// printArtifact says what was written.
func printArtifact(e *env, dir string, a *gen.Artifact, formats []string) error {
	files := map[string]string{}
	for _, format := range formats {
		files[format] = artifactPath(dir, a, format)
		if !e.json {
			fmt.Fprintln(e.stdout, files[format])
		}
	}
	if !e.json {
		return nil
	}
	m := a.Manifest
	return json.NewEncoder(e.stdout).Encode(map[string]any{"entry": a.Name(), "arch": m.Arch, "target": m.Target, "tile": m.Tile.Name,
		"ptx_version": m.PTXVersion, "files": files, "ptx_sha256": m.PTXSHA256})
}
