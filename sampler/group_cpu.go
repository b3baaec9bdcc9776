package sampler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/templates"
)

// cpuGroup is ranks of the reference in one process: each scans its ids, and the best of their bests is the token.
type cpuGroup struct{ world int }

func newCPUGroup(cfg GroupConfig) (groupBackend, error) {
	if err := oneProcess(cfg, CPU); err != nil {
		return nil, err
	}
	if t := cfg.Transport; t != "" && t != TransportHost {
		return nil, refuse("group transport", &TransportError{t, errors.New("the cpu's ranks are in one memory: host is theirs")})
	}
	return &cpuGroup{cfg.World}, nil
}

// oneProcess holds a group to ranks of one device, all in this process.
func oneProcess(cfg GroupConfig, device string) error {
	if cfg.World != len(cfg.Devices) {
		return &InputError{"group processes", "ranks in processes of their own need GPUs", device}
	}
	for _, d := range cfg.Devices {
		if d != device {
			return &InputError{"group devices", "want all of one kind: the first is " + device, fmt.Sprintf("%q", d)}
		}
	}
	return nil
}

func (g *cpuGroup) info() GroupInfo {
	devices := make([]string, g.world)
	for i := range devices {
		devices[i] = CPU
	}
	return GroupInfo{World: g.world, Devices: devices, Transport: TransportHost, Why: "the cpu's ranks are in one memory"}
}

func (g *cpuGroup) healthy() error { return nil }
func (g *cpuGroup) close() error   { return nil }

func (g *cpuGroup) loadHead(ctx context.Context, w Weights, spans []ir.Span) (groupHeadBackend, error) {
	h := &cpuGroupHead{}
	w.Layout = RowMajor // whatever the layout, the cpu keeps rows
	if err := shardsFitMemory(w, spans, w.Hidden); err != nil {
		return nil, err
	}
	for _, span := range spans {
		part, err := loadShard(ctx, &cpuDevice{}, w, span)
		if err != nil {
			return nil, err
		}
		h.parts = append(h.parts, part.(*cpuHead))
	}
	return h, nil
}

// cpuRanksLack is what ranks of the reference do not do: they join a token, its score and the log-sum-exp.
var cpuRanksLack = []ir.Feature{ir.FeatureTopK, ir.FeatureTopP, ir.FeatureMinP, ir.FeatureDraws, ir.FeatureLogProb}

type cpuGroupHead struct{ parts []*cpuHead }

func (h *cpuGroupHead) close() error { return nil }

func (h *cpuGroupHead) plan(_ context.Context, spec Spec) (groupPlanBackend, error) {
	spec.shard = ir.ShardRecords
	c := spec.Computation()
	for _, f := range c.Features() {
		if slices.Contains(cpuRanksLack, f) {
			return nil, &templates.UnsupportedError{Feature: f}
		}
	}
	if err := templates.Supports(c); err != nil { // what kernels' ranks do not do either
		return nil, err
	}
	if err := spec.knownTile(); err != nil {
		return nil, err
	}
	return &cpuGroupPlan{h.parts, spec}, nil
}

type cpuGroupPlan struct {
	parts []*cpuHead
	spec  Spec
}

func (p *cpuGroupPlan) kernels() []string { return []string{"reference"} }
func (p *cpuGroupPlan) close() error      { return nil }

func (p *cpuGroupPlan) sample(ctx context.Context, b *batch) ([]*Result, error) {
	var parts []*reference.Result
	for rank, h := range p.parts {
		req := b.request(p.spec, h.w, h.ld)
		req.Span = *h.span
		part, err := reference.Sample(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", rank, err)
		}
		parts = append(parts, part)
	}
	res := &Result{Kernel: "reference"}
	for row := range b.rows {
		p.join(res, parts, row)
	}
	return []*Result{res}, nil
}

// join joins a row's results: a failure of any rank fails it, as the largest status; else the best token is the row's.
func (p *cpuGroupPlan) join(res *Result, parts []*reference.Result, row int) {
	token, status, score, best := int32(ir.NoToken), ir.StatusEmpty, float32(math.NaN()), float32(math.Inf(-1))
	for _, part := range parts {
		switch s := part.Status[row]; {
		case s > ir.StatusEmpty:
			status = max(status, s)
		case s == ir.StatusOK:
			if token == ir.NoToken || part.Best[row] > best {
				token, best, score = part.Tokens[row], part.Best[row], part.Scores[row]
			}
		}
	}
	switch {
	case status > ir.StatusEmpty:
		token, score = ir.NoToken, float32(math.NaN())
	case token != ir.NoToken:
		status = ir.StatusOK
	}
	res.Tokens, res.Status = append(res.Tokens, token), append(res.Status, status)
	if p.spec.Score {
		res.Scores = append(res.Scores, score)
	}
	if p.spec.LogSumExp {
		lse := float32(math.NaN())
		if status == ir.StatusOK {
			lse = reference.JoinLogSumExps(parts, row)
		}
		res.LogSumExp = append(res.LogSumExp, lse)
	}
}
