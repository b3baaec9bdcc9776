package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/fsgen/fsgen/autotune"
)

// tuneRun is a run of tune: it prints each bucket as it is found.
type tuneRun struct {
	e      *env
	store  *autotune.Store
	export string
	found  []*autotune.Entry // of the buckets that are kept

	line   *statusLine
	width  int  // of the column of models
	total  int  // buckets
	failed int  // buckets without a candidate
	wrong  bool // some candidate gave wrong tokens
	waited bool
	err    error // of printing
}

func (r *tuneRun) run(ctx context.Context, jobs []autotune.Job, o autotune.Options) error {
	r.line = r.e.status()
	defer r.line.clear()
	for _, j := range jobs {
		r.total += len(j.Buckets)
		r.width = max(r.width, len(j.Name))
	}
	o.Progress, o.Finished = r.progress, r.finished
	err := autotune.Run(ctx, jobs, o)
	r.line.clear()
	return r.outcome(ctx, err)
}

// outcome exports what was found, however the run ended, and says how that was.
func (r *tuneRun) outcome(ctx context.Context, err error) error {
	if r.export != "" && len(r.found) > 0 {
		if err := exportTunings(r.export, r.found); err != nil {
			return err
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("interrupted: %d of %d buckets are kept%s", len(r.found), r.total, r.resume())
	case err != nil:
		return err
	case r.wrong:
		return errVerify
	case r.failed > 0:
		return fmt.Errorf("%d of %d buckets have no candidate that runs", r.failed, r.total)
	}
	return r.err
}

// resume says how to go on; a run that keeps its results in a table alone starts again.
func (r *tuneRun) resume() string {
	if !r.store.Enabled() {
		return ", in " + r.export
	}
	return "; the same command without --force goes on from there"
}

// progress shows what the run is at, where somebody looks. A wait for another process is told everywhere.
func (r *tuneRun) progress(p autotune.Progress) {
	if p.Doing == autotune.Waiting && !r.e.terminal && !r.waited {
		r.waited = true
		r.e.note("%s", p.Doing)
	}
	text := fmt.Sprintf("%s, %d of %d buckets done: %s", p.Job, p.Done, p.Total, p.Doing)
	if p.Bucket > 0 {
		text += fmt.Sprintf(" for batch %d", p.Bucket)
	}
	if p.Left >= 0 {
		text += fmt.Sprintf(", %v left", p.Left.Round(time.Second))
	}
	r.line.set(text)
}

// finished prints a bucket and notes what did not pass.
func (r *tuneRun) finished(o autotune.Outcome) {
	r.line.clear()
	var rejected []autotune.Measurement
	if o.Search != nil {
		rejected = o.Search.Rejected()
	}
	for _, m := range rejected {
		r.wrong = r.wrong || errors.Is(m.Err, autotune.ErrTokens)
		r.e.note("%s, batch %d: %s was rejected: %s", o.Job, o.Key.Batch, m.Candidate, trimmed(m.Err))
	}
	if o.Err != nil {
		r.failed++
		r.e.note("%s, batch %d: no candidate is left", o.Job, o.Key.Batch)
		return
	}
	r.found = append(r.found, o.Entry)
	if err := r.print(o, rejected); r.err == nil {
		r.err = err
	}
}

// print gives a bucket's entry; the gain is the share of the default tile's time that is saved, the rank the winner's in the
// model of costs.
func (r *tuneRun) print(o autotune.Outcome, rejected []autotune.Measurement) error {
	x := o.Entry
	if r.e.json {
		return json.NewEncoder(r.e.stdout).Encode(tunedBucket{o.Job, o.Reused, x, o.Rank, o.Tiles, timings(o.Search), rejections(rejected)})
	}
	if len(r.found) == 1 {
		fmt.Fprintf(r.e.stdout, "%-*s  BATCH  %-26s  %11s  %11s  %7s  %8s\n", r.width, "MODEL", "CANDIDATE", "TIME", "DEFAULT", "GAIN", "RANK")
	}
	plain, gain := "-", "-"
	if x.Default > 0 {
		plain, gain = fmt.Sprintf("%.2f us", x.Default), fmt.Sprintf("%.1f%%", 100*(1-x.Microseconds/x.Default))
	}
	note := ""
	if o.Reused {
		note = "  (kept from before)"
	}
	_, err := fmt.Fprintf(r.e.stdout, "%-*s  %5d  %-26s  %8.2f us  %11s  %7s  %8s%s\n", r.width, o.Job, x.Batch, x.Candidate, x.Microseconds, plain, gain, rank(o), note)
	return err
}

// rank is the winner's place in the model, as in "2 of 24".
func rank(o autotune.Outcome) string {
	if o.Rank == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", o.Rank, o.Tiles)
}

// tunedBucket is a bucket as JSON: its entry, and how it came about.
type tunedBucket struct {
	Model  string `json:"model"`
	Reused bool   `json:"reused"`
	*autotune.Entry
	Rank     int         `json:"model_rank"` // of the winner, from 1 on
	Tiles    int         `json:"model_tiles"`
	Measured []timing    `json:"measured,omitempty"`
	Rejected []rejection `json:"rejected,omitempty"`
}

// timing is what a candidate took in the last round that it was in.
type timing struct {
	Candidate    string  `json:"candidate"`
	Microseconds float64 `json:"microseconds"`
	Round        int     `json:"round"`
}

func timings(r *autotune.Result) (out []timing) {
	if r == nil {
		return nil
	}
	for _, m := range r.Measured {
		if m.Round > 0 {
			out = append(out, timing{m.Candidate.String(), math.Round(m.Microseconds*1000) / 1000, m.Round})
		}
	}
	return out
}

type rejection struct {
	Candidate string `json:"rejected"`
	Reason    string `json:"reason"`
}

func rejections(list []autotune.Measurement) (out []rejection) {
	for _, m := range list {
		out = append(out, rejection{m.Candidate.String(), trimmed(m.Err)})
	}
	return out
}

// readTable reads a table to add to; a file that is not there is an empty one.
func readTable(path string) (*autotune.Table, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &autotune.Table{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--export: %w", err)
	}
	if len(data) == 0 { // as mktemp makes one
		return &autotune.Table{}, nil
	}
	t, err := autotune.ParseTable(data)
	if err != nil {
		return nil, fmt.Errorf("--export: %s is no table of this fsgen: %s", path, reason(err))
	}
	return t, nil
}

// exportTunings adds entries to a table, as it stands now: another run may have added to it since this one began.
func exportTunings(path string, entries []*autotune.Entry) error {
	t, err := readTable(path)
	if err != nil {
		return err
	}
	for _, x := range entries {
		t.Set(x)
	}
	if err := writeFiles([]file{{path, t.Encode()}}); err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	return nil
}

// listTunings prints the entries of the machine's store, whatever GPU and version they are of.
func listTunings(e *env, f *pflag.FlagSet, args []string) error {
	if len(args) > 1 {
		return usagef("tune ls: unexpected argument %q", args[1])
	}
	var extra []string
	f.Visit(func(x *pflag.Flag) {
		if x.Name != "json" {
			extra = append(extra, "--"+x.Name)
		}
	})
	if len(extra) > 0 {
		return usagef("tune ls: takes no %s", strings.Join(extra, ", "))
	}
	kernels, err := openCache()
	if err != nil {
		return err
	}
	store := autotune.OpenStore(kernels, func(s string) { e.note("%s", s) })
	if !store.Enabled() {
		e.note("the tuning store is off (FSGEN_CACHE_DIR)")
	}
	list, err := store.List()
	if err != nil {
		return err
	}
	return printTunings(e, list)
}

func printTunings(e *env, list []*autotune.Entry) error {
	if e.json {
		return printLines(e, list)
	}
	if len(list) == 0 {
		e.note("no tunings are kept")
		return nil
	}
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "GPU\tDRIVER\tFSGEN\tVOCAB\tHIDDEN\tWEIGHTS\tSAMPLER\tTRANSFORM\tBATCH\tCANDIDATE\tTIME")
	for _, x := range list {
		kind := x.Sampler
		if x.Score {
			kind += ", score"
		}
		if x.LogSumExp {
			kind += ", logsumexp"
		}
		fmt.Fprintf(w, "%s, %d SMs\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%d\t%s\t%.2f us\n", x.Name, x.Multiprocessors, x.Driver, x.Generator, x.Vocab, x.Hidden,
			x.Weights, kind, x.Transform, x.Batch, x.Candidate, x.Microseconds)
	}
	return w.Flush()
}
