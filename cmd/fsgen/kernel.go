package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sampler"
)

// setKernel takes the computation from an emitted kernel, where neither a flag nor the model says otherwise.
func (o *sampling) setKernel(e *env, in *opened, spec *sampler.Spec, rows *sampler.Rows) error {
	if o.kernel == "" {
		return nil
	}
	a, err := readArtifact("--kernel", o.kernel)
	if err != nil {
		return err
	}
	chain, err := ir.ParseChain(a.Manifest.Transform)
	if err != nil {
		return fmt.Errorf("%s: %s", manifestPath(o.kernel), reason(err))
	}
	spec.Artifact = a
	if a.Manifest.Param(manifest.Slots) != nil { // each row has its own
		spec.Slots, rows.SlotCount = true, in.rows
		for row := range in.rows {
			rows.Slots = append(rows.Slots, int32(row))
		}
	}
	o.takeOwn(e, in, spec, chain)
	if !o.changed("temperature") && !chain.Temperature {
		spec.Chain.Temperature, rows.Temperature = false, nil
	}
	if err := o.checkKernel(a, spec); err != nil || o.further == "" {
		return err
	}
	spec.Further, err = readArtifact("--further", o.further)
	return err
}

// takeOwn takes the scale and the soft-cap that the kernel was emitted with, where neither a flag nor the model says otherwise, and says so.
func (o *sampling) takeOwn(e *env, in *opened, spec *sampler.Spec, kernel ir.Chain) {
	var does []string
	if !o.changed("scale") && in.own.Scale == 0 && kernel.Scale != 0 {
		spec.Chain.Scale = kernel.Scale
		does = append(does, fmt.Sprintf("scales logits by %v", kernel.Scale))
	}
	if !o.changed("softcap") && in.own.Softcap == 0 && kernel.Softcap != 0 {
		spec.Chain.Softcap = kernel.Softcap
		does = append(does, fmt.Sprintf("caps logits at %v", kernel.Softcap))
	}
	if len(does) > 0 {
		e.note("the kernel %s: it was emitted so", strings.Join(does, " and "))
	}
}

// checkKernel compares what the kernel computes with what flags and model ask for.
func (o *sampling) checkKernel(a *gen.Artifact, spec *sampler.Spec) error {
	m, want := a.Manifest, spec.Computation().Normalize()
	if m.Sampler != want.Sampler.String() || m.Transform != want.Chain.String() {
		return fmt.Errorf("%s computes %s with transform %s, and this call is for %s with %s, by its flags, the model, and what holds without them "+
			"(--sampler gumbel, --temperature 1)", o.kernel, m.Sampler, m.Transform, want.Sampler, want.Chain)
	}
	if got := a.Truncation(); got != want.Truncation.String() {
		return fmt.Errorf("%s has truncation %s: the flags give %s (--top-k 0, --top-p 1 and --min-p 0 turn a filter off that the kernel has)", o.kernel,
			got, want.Truncation)
	}
	if got := a.Draws(); got != want.Draws.String() {
		return fmt.Errorf("%s has draws %s: the flags give %s (--draws, --without-replacement)", o.kernel, got, want.Draws)
	}
	if o.score && !a.Writes("score") {
		return fmt.Errorf("%s writes no scores, which --score asks for: emit it with --score", o.kernel)
	}
	if o.logSumExp && !a.Writes(manifest.LogSumExp) {
		return fmt.Errorf("%s writes no log-sum-exp, which --logsumexp asks for: emit it with --logsumexp", o.kernel)
	}
	if mode := o.logProbs; mode != "" && mode != m.LogProbMode {
		return fmt.Errorf("%s writes no %s log-probabilities, which --logprobs asks for: emit it with --logprobs %s", o.kernel, mode, mode)
	}
	if spec.TopN > 0 && spec.TopN != m.TopN {
		return fmt.Errorf("%s finds %d likeliest tokens of a row, and --top-logprobs asks for %d", o.kernel, m.TopN, spec.TopN)
	}
	if spec.ListLogProbs && !a.Writes(manifest.ListLogProbs) {
		return fmt.Errorf("%s gives no log-probabilities of lists, which --logprob-ids asks for: emit it with --logprob-ids", o.kernel)
	}
	return nil
}

func manifestPath(kernel string) string { return strings.TrimSuffix(kernel, ".ptx") + ".json" }

// readArtifact reads FILE.ptx and the manifest beside it, for a flag.
func readArtifact(flag, path string) (*gen.Artifact, error) {
	if !strings.HasSuffix(path, ".ptx") {
		return nil, usagef("%s: %q: want a .ptx file", flag, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	m, err := os.ReadFile(manifestPath(path))
	if err != nil {
		return nil, fmt.Errorf("%s: the manifest beside the kernel: %w", flag, err)
	}
	a, err := gen.LoadArtifact(text, m)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %s", path, manifestPath(path), reason(err))
	}
	return a, nil
}
