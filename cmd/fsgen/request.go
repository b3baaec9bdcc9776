package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/model"
	"github.com/fsgen/fsgen/tiling"
)

// target is the model that kernels are emitted for: a preset, a checkpoint, or bare sizes.
type target struct {
	model         string
	vocab, hidden int

	changed func(string) bool // whether a flag was given
}

func (t *target) flags(f *pflag.FlagSet) {
	t.changed = f.Changed
	f.StringVar(&t.model, "model", "", "preset (fsgen models) or directory of a Hugging Face checkpoint")
	f.IntVar(&t.vocab, "vocab", 0, "vocabulary size, instead of a model")
	f.IntVar(&t.hidden, "hidden", 0, "hidden size, instead of a model")
}

// resolve returns the shape and what the model itself does to its logits.
func (t *target) resolve() (shape ir.Shape, own ir.Chain, err error) {
	sized := t.changed("vocab") || t.changed("hidden")
	switch {
	case t.model != "" && sized:
		return shape, own, usagef("--model and --vocab or --hidden exclude each other")
	case t.model != "":
		return resolveModel(t.model)
	case !t.changed("vocab") || !t.changed("hidden"):
		return shape, own, usagef("want --model, or --vocab and --hidden")
	}
	shape = ir.Shape{Vocab: t.vocab, Hidden: t.hidden}
	if err := shape.Validate(); err != nil {
		return shape, own, usagef("--vocab, --hidden: %s", reason(err))
	}
	return shape, own, nil
}

func resolveModel(name string) (ir.Shape, ir.Chain, error) {
	if isDir(name) {
		c, err := model.ReadConfig(name)
		if err != nil {
			return ir.Shape{}, ir.Chain{}, err
		}
		return ir.Shape{Vocab: c.VocabSize, Hidden: c.HiddenSize}, ownChain(c.Scale, c.Softcap), nil
	}
	if isFile(name) {
		return ir.Shape{}, ir.Chain{}, usagef("--model: %s is a file: want a preset (fsgen models lists them) or a directory", name)
	}
	p, err := lookupModel(name)
	if err != nil {
		return ir.Shape{}, ir.Chain{}, usagef("--model: %v", err)
	}
	return ir.Shape{Vocab: p.V, Hidden: p.D}, ownChain(p.Scale, p.Softcap), nil
}

// lookupModel finds a preset, or says where the known names are.
func lookupModel(name string) (model.Preset, error) {
	p, err := model.Lookup(name)
	var unknown *model.UnknownModelError
	if errors.As(err, &unknown) && len(unknown.Suggestions) == 0 {
		err = usagef("%v: fsgen models lists those that are known", err)
	}
	return p, err
}

// Flags of more than one command.
const (
	samplerUsage    = "gumbel, grouped (blocks of 16 tokens, then a token: the same distribution) or greedy"
	logProbsUsage   = "write the tokens' log-probabilities: raw (the model's), temperature, or processed (what is drawn from)"
	chainUsage      = "transform chain, as for emit"
	truncationUsage = "rows narrow the tokens that may be drawn: some of top-k, top-p and min-p, and temperature-last (filters see T = 1)"
	logSumExpUsage  = "write the log-sum-exp of z/T of every row too"
)

// computed is what the kernels of a command compute.
type computed struct {
	transform, sampler, logProbs, truncation, draws string
	logSumExp                                       bool
}

// flags defines those of every such command.
func (o *computed) flags(f *pflag.FlagSet, transformUsage, truncationUsage string) {
	listVar(f, &o.transform, "transform", "temperature", transformUsage)
	f.StringVar(&o.sampler, "sampler", "gumbel", samplerUsage)
	f.BoolVar(&o.logSumExp, "logsumexp", false, logSumExpUsage)
	f.StringVar(&o.logProbs, "logprobs", "", logProbsUsage)
	listVar(f, &o.truncation, "truncation", "", truncationUsage)
}

// drawsFlag defines the kind of draws, for commands that know of them.
func (o *computed) drawsFlag(f *pflag.FlagSet) {
	f.StringVar(&o.draws, "draws", "", "rows may draw several tokens: with-replacement or without-replacement")
}

// computation is what these name, without what a model does to its logits.
func (o *computed) computation() (c ir.Computation, err error) {
	if c.Chain, err = ir.ParseChain(o.transform); err != nil {
		return c, usagef("--transform: %s", reason(err))
	}
	if c.Sampler, err = parseSampler(o.sampler); err != nil {
		return c, err
	}
	if c.LogProb, err = parseLogProbs(o.logProbs); err != nil {
		return c, err
	}
	if c.Truncation, err = parseTruncation(o.truncation); err != nil {
		return c, err
	}
	c.LogSumExp = o.logSumExp
	c.Draws, c.MaxDraws, err = parseDraws(o.draws)
	return c, err
}

// parseSampler reads --sampler.
func parseSampler(name string) (ir.Sampler, error) {
	kind, err := ir.ParseSampler(name)
	if err != nil {
		return 0, usagef("--sampler: %s", reason(err))
	}
	return kind, nil
}

// parseLogProbs reads --logprobs.
func parseLogProbs(name string) (ir.LogProb, error) {
	mode, err := ir.ParseLogProb(name)
	if err != nil {
		return 0, usagef("--logprobs: %s", reason(err))
	}
	return mode, nil
}

// parseTruncation reads --truncation.
func parseTruncation(list string) (ir.Truncation, error) {
	t, err := ir.ParseTruncation(list)
	if err != nil {
		return t, usagef("--truncation: %s", reason(err))
	}
	return t, nil
}

// parseDraws reads the kind of draws of a kernel. How many tokens a row draws is a parameter of its launch.
func parseDraws(name string) (kind ir.Draws, most int, err error) {
	if kind, err = ir.ParseDraws(name); err != nil {
		return kind, 0, usagef("--draws: %s", reason(err))
	}
	if kind != ir.SingleDraw {
		most = ir.MaxDraws
	}
	return kind, most, nil
}

// ownChain is what a model's configuration does to its logits.
func ownChain(scale, softcap float64) ir.Chain {
	c := ir.Chain{Softcap: float32(softcap)}
	if scale != 1 {
		c.Scale = float32(scale)
	}
	return c
}

// withOwn adds a model's own scale and soft-cap to a chain that does not name them.
func withOwn(e *env, c, own ir.Chain) ir.Chain {
	if c.Scale == 0 && own.Scale != 0 {
		c.Scale = own.Scale
		e.note("the model scales its logits by %v: added to the transform", own.Scale)
	}
	if c.Softcap == 0 && own.Softcap != 0 {
		c.Softcap = own.Softcap
		e.note("the model caps its logits at %v: added to the transform", own.Softcap)
	}
	return c
}

func parseTile(s string) (tiling.Tile, error) {
	if s == "" {
		return tiling.Tile{}, nil
	}
	t, err := tiling.ParseTile(s)
	if err != nil {
		return t, usagef("--tile: %s", reason(err))
	}
	return t, nil
}

// tileError turns the rejection of a tile that was asked for into a mistake in the command line.
func tileError(asked, arch string, err error) error {
	var reject *tiling.Reject
	if asked != "" && errors.As(err, &reject) {
		return usagef("--tile: %s on %s: %s", reject.Tile, arch, reject.Reason)
	}
	return err
}

// maxBatch bounds what a batch size may be on a command line, far above what any kernel is made for.
const maxBatch = 1 << 20

func parseBatches(s string) ([]int, error) {
	var out []int
	for _, item := range strings.Split(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || n < 1 || n > maxBatch {
			return nil, usagef("--batch: %q: want numbers from 1 to %d, as in 1,16,64", item, maxBatch)
		}
		out = append(out, n)
	}
	return out, nil
}
