package sampler

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
)

// cpuDevice is the reference sampler as a device.
type cpuDevice struct {
	fallback error
}

func newCPU(fallback error) backend { return &cpuDevice{fallback} }

func (d *cpuDevice) info() Info {
	return Info{Name: CPU, Product: fmt.Sprintf("%s, %d threads", runtime.GOARCH, runtime.GOMAXPROCS(0)), Fallback: d.fallback}
}

func (d *cpuDevice) healthy() error { return nil }
func (d *cpuDevice) close() error   { return nil }

func (d *cpuDevice) loadHead(ctx context.Context, w Weights) (headBackend, error) {
	h := &cpuHead{ld: w.Hidden, shape: ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden}}
	if m, ok := w.Source.(Matrix); ok && m.Stride >= m.Hidden {
		h.w, h.ld = m.Data, m.Stride
		return h, nil
	}
	w.Layout = RowMajor // whatever was asked for
	var err error
	h.w, err = readRows(ctx, w, h.ld)
	return h, err
}

// cpuHead is an LM head in memory.
type cpuHead struct {
	w     []uint16
	ld    int
	shape ir.Shape
	span  *ir.Span // of a shard; nil for all of the vocabulary
}

// shard makes the head one of some ids of a vocabulary.
func (h *cpuHead) shard(vocab int, span ir.Span) { h.shape.Vocab, h.span = vocab, &span }

func (h *cpuHead) close() error { return nil }

func (h *cpuHead) plan(_ context.Context, spec Spec) (planBackend, error) {
	if spec.Artifact != nil {
		return nil, refuse("artifact", errors.New("an emitted kernel needs a GPU; this is the cpu device"))
	}
	if err := spec.knownTile(); err != nil {
		return nil, err
	}
	return &cpuPlan{h, spec}, nil
}

type cpuPlan struct {
	head *cpuHead
	spec Spec
}

func (p *cpuPlan) kernels() []string { return []string{"reference"} }
func (p *cpuPlan) close() error      { return nil }

func (p *cpuPlan) sample(ctx context.Context, b *batch) (*Result, error) {
	res, err := reference.Sample(ctx, b.request(p.spec, p.head.w, p.head.ld))
	if err != nil {
		return nil, err
	}
	out := &Result{Tokens: res.Tokens, Status: res.Status, Kernel: "reference", LogSumExp: res.LogSumExp,
		Draws: res.Draws, DrawScores: res.DrawScores, LogProbs: res.LogProbs, Ranks: res.Ranks,
		TopIDs: res.TopIDs, TopLogProbs: res.TopLogProbs, ListLogProbs: res.Listed}
	if p.spec.Score {
		out.Scores = res.Scores
	}
	return out, nil
}

// request is the batch as the reference takes it.
func (b *batch) request(spec Spec, w []uint16, ld int) *reference.Request {
	p := &b.params
	return &reference.Request{
		H: b.hidden, W: w, LDW: ld, Batch: b.rows, Shape: b.shape, Computation: spec.Computation().Normalize(),
		Seeds: b.seeds, Positions: b.pos, Draw: b.draw, StreamTag: b.tag,
		Temperature: b.temp, Bias: b.bias, BiasStride: b.biasRow,
		Mask: b.mask, MaskStride: b.maskRow, MaskWords: b.words, NoSkip: spec.Exhaustive,
		Slots: p.Slots, SlotCount: p.SlotCount, TopK: p.TopK, TopP: p.TopP, MinP: p.MinP,
		Repetition: p.Repetition, Frequency: p.Frequency, Presence: p.Presence,
		Counts: p.Counts, CountStride: p.CountStride, CountLists: p.CountLists, BiasLists: p.BiasLists,
		AllowIDs: p.AllowIDs, BanIDs: p.BanIDs, DrawCounts: p.DrawCounts, ListIDs: p.ListIDs,
	}
}
