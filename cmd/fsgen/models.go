package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/model"
)

var modelsCommand = &command{
	name: "models", args: "[NAME]", short: "list the models that are known by name",
	examples: "  fsgen models\n  fsgen models qwen3-8b\n  fsgen models Qwen/Qwen3-8B --json\n",
	setup:    func(*pflag.FlagSet) func(context.Context, *env, []string) error { return runModels },
}

func runModels(_ context.Context, e *env, args []string) error {
	list := model.All()
	if len(args) > 1 {
		return usagef("models: unexpected argument %q", args[1])
	}
	if len(args) == 1 {
		p, err := lookupModel(args[0])
		if err != nil {
			return usagef("models: %v", err)
		}
		list = []model.Preset{p}
	}
	if e.json {
		return modelsJSON(e, list)
	}
	if len(args) == 1 {
		return modelDetails(e, list[0])
	}
	return modelsTable(e, list)
}

func modelsJSON(e *env, list []model.Preset) error {
	var lines []map[string]any
	for _, p := range list {
		lines = append(lines, map[string]any{"name": p.Name, "vocab": p.V, "hidden": p.D, "tied": p.Tied, "scale": p.Scale,
			"softcap": p.Softcap, "repositories": p.Repos, "note": p.Note})
	}
	return printLines(e, lines)
}

func modelsTable(e *env, list []model.Preset) error {
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tVOCAB\tHIDDEN\tTIED\tLOGITS\tREPOSITORY")
	for _, p := range list {
		repo := ""
		if len(p.Repos) > 0 {
			repo = p.Repos[0]
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%v\t%s\t%s\n", p.Name, p.V, p.D, p.Tied, logitsNote(p), repo)
	}
	return w.Flush()
}

// modelDetails prints all that is known of one model.
func modelDetails(e *env, p model.Preset) error {
	weights := "a matrix of their own"
	if p.Tied {
		weights = "the token embedding"
	}
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "name\t%s\nvocabulary\t%d\nhidden size\t%d\n", p.Name, p.V, p.D)
	fmt.Fprintf(w, "weights\t%s, %.2f GB in bf16\nlogits\t%s\n", weights, 2*float64(p.V)*float64(p.D)/1e9, logitsNote(p))
	for i, r := range p.Repos {
		fmt.Fprintf(w, "%s\t%s\n", map[bool]string{true: "repositories"}[i == 0], r)
	}
	if p.Note != "" {
		fmt.Fprintf(w, "note\t%s\n", p.Note)
	}
	return w.Flush()
}

// logitsNote says what a model does to its logits.
func logitsNote(p model.Preset) string {
	var notes []string
	if p.Scale != 1 && p.Scale != 0 {
		notes = append(notes, fmt.Sprintf("scale=%v", p.Scale))
	}
	if p.Softcap != 0 {
		notes = append(notes, fmt.Sprintf("softcap=%v", p.Softcap))
	}
	if len(notes) == 0 {
		return "-"
	}
	return strings.Join(notes, ",")
}
