package tune

import (
	"context"

	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// Tuner makes the jobs of a device. They share what no head's shape has a part in: the reference's answers to the small
// problems, and which candidates have given them. Its jobs are for one goroutine at a time.
type Tuner struct {
	dev     *sampler.Device
	oracles map[question]*oracle
	passed  map[trial]bool
}

// question is a small problem.
type question struct {
	computation ir.Computation // normalized
	rows        int
}

// trial is a candidate before a small problem: one kernel, since a kernel has its shape as parameters.
type trial struct {
	question
	layout    sampler.Layout
	candidate autotune.Candidate
}

// New makes a Tuner. What it remembers ends with it.
func New(dev *sampler.Device) *Tuner {
	return &Tuner{dev: dev, oracles: map[question]*oracle{}, passed: map[trial]bool{}}
}

// oracle asks the reference, once for each question.
func (t *Tuner) oracle(ctx context.Context, q question) (*oracle, error) {
	if o := t.oracles[q]; o != nil {
		return o, nil
	}
	o, err := newOracle(ctx, q.computation, q.rows)
	if err == nil {
		t.oracles[q] = o
	}
	return o, err
}
