//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/templates"
)

// slot is what one call of Sample needs to itself: a stream, a launcher, device memory for the arguments and results,
// and pinned memory to copy through.
type slot struct {
	plan   *cudaPlan
	stream *driver.Stream
	launch *Launcher
	dev    *driver.Buffer
	host   *driver.HostBuffer
}

func (p *cudaPlan) newSlot() (*slot, error) { return p.newRankSlot(nil) }

// newRankSlot is newSlot of a rank, whose launches use a channel.
func (p *cudaPlan) newRankSlot(c *rankChannel) (*slot, error) {
	s := &slot{plan: p}
	var err error
	if s.stream, err = p.head.dev.ctx.NewStream(); err != nil {
		return nil, err
	}
	if s.launch, err = p.newRankLauncher(max(p.spec.MaxBatch, 1), c); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *slot) close() error {
	var errs []error
	if s.stream != nil {
		errs = append(errs, s.stream.Close())
	}
	if s.launch != nil {
		errs = append(errs, s.launch.Close())
	}
	if s.dev != nil {
		errs = append(errs, s.dev.Close())
	}
	if s.host != nil {
		errs = append(errs, s.host.Close())
	}
	return errors.Join(errs...)
}

// layout places the arguments and results of a call in one block of memory, on the host and on the device alike: inputs
// first, so that one copy each way does.
type layout struct {
	hidden, slots, seeds, pos, temp, bias, mask int // offsets of inputs, in bytes
	topK, topP, minP, drawCounts, listIDs       int
	edits                                       []int // of what changes single logits, in the order of edits.arrays
	inputs                                      int   // size of the inputs
	tokens, status, scores, lse, logProbs       int   // offsets of results
	passes, draws, drawScores, listed           int
	topIDs, topLogProbs, ranks                  int
	total                                       int
	lists                                       idLists
}

func (b *batch) layout(ld, mostDraws int) layout {
	var l layout
	end := 0
	place := func(bytes int) int {
		at := end
		end = (end + bytes + 255) &^ 255
		return at
	}
	l.hidden = place(2 * ld * b.rows)
	l.slots = place(4 * len(b.params.Slots))
	l.seeds, l.pos = place(8*len(b.seeds)), place(8*len(b.pos))
	l.temp, l.bias, l.mask = place(4*len(b.temp)), place(4*len(b.bias)), place(4*len(b.mask))
	p := &b.params
	l.topK, l.topP, l.minP = place(4*len(p.TopK)), place(4*len(p.TopP)), place(4*len(p.MinP))
	l.drawCounts = place(4 * len(b.drawCounts))
	for _, a := range b.edited.arrays(p) {
		l.edits = append(l.edits, place(len(a.data)))
	}
	l.lists = b.idLists()
	l.listIDs = place(4 * len(l.lists.ids))
	l.inputs = end
	for _, at := range []*int{&l.tokens, &l.status, &l.scores, &l.lse, &l.logProbs, &l.passes, &l.ranks} {
		*at = place(4 * b.rows)
	}
	l.draws, l.drawScores = place(4*b.rows*mostDraws), place(4*b.rows*mostDraws)
	l.topIDs, l.topLogProbs = place(4*b.rows*b.topN), place(4*b.rows*b.topN)
	l.listed = place(4 * b.rows * l.lists.length)
	l.total = end
	return l
}

// reserve makes the slot's memory hold a layout and the workspace the rows.
func (s *slot) reserve(l layout, rows int) error {
	for _, r := range s.launch.laid {
		r.stored.forget() // the slot's last call has ended
	}
	if err := s.launch.grow(rows); err != nil {
		return err
	}
	if s.dev != nil && s.dev.Size() >= uint64(l.total) {
		return nil
	}
	ctx := s.plan.head.dev.ctx
	dev, err := ctx.Alloc(uint64(l.total))
	if err != nil {
		return err
	}
	host, err := ctx.AllocHost(l.total)
	if err != nil {
		dev.Close()
		return err
	}
	if s.dev != nil {
		s.dev.Close()
		s.host.Close()
	}
	s.dev, s.host = dev, host
	return nil
}

// enqueue lays the call out, stages the inputs, launches, and copies the results back, all in the slot's stream.
func (s *slot) enqueue(b *batch) (layout, error) {
	l, err := s.bring(b)
	if err != nil {
		return l, err
	}
	if err := s.launch.passes(s.stream.Handle(), s.args(b, l, alignedLD(b.shape.Hidden)), true, s.firstFurther()); err != nil {
		return l, err
	}
	return l, s.fetch(l)
}

// bring lays the call out and stages the inputs.
func (s *slot) bring(b *batch) (layout, error) {
	ld := alignedLD(b.shape.Hidden)
	l := b.layout(ld, s.plan.spec.MaxDraws)
	if err := s.reserve(l, b.rows); err != nil {
		return l, err
	}
	s.stage(b, l, ld)
	return l, s.stream.CopyToDevice(s.dev.Ptr(), s.host, 0, l.inputs)
}

// firstFurther is how many further passes are enqueued behind a first: what reports of rows has to know their tokens, and does so
// behind as many as a launch makes. Elsewhere a call looks first.
func (s *slot) firstFurther() int {
	if s.plan.spec.reports() && s.plan.further != nil {
		return s.plan.spec.furtherPasses()
	}
	return 0
}

func (s *slot) fetch(l layout) error {
	return s.stream.CopyFromDevice(s.host, l.tokens, l.total-l.tokens, s.dev.Ptr()+driver.DevicePtr(l.tokens))
}

// finish waits for the results, and makes further passes while rows are undecided. Where stages have reported of them already, it
// begins again, with so many that they are not.
func (s *slot) finish(ctx context.Context, b *batch, l layout) (*Result, error) {
	enough := s.firstFurther()
	for pass := 1; ; pass++ {
		if err := s.stream.Synchronize(ctx); err != nil {
			return nil, err
		}
		res := s.result(b, l)
		args, tops := s.args(b, l, alignedLD(b.shape.Hidden)), undecidedTops(res.TopIDs)
		open := s.plan.further != nil && slices.Contains(res.Status, ir.StatusUndecided)
		if args.TopPass = pass; !tops && !open || pass == b.mostPasses() || open && enough >= b.mostPasses() {
			if res.Passes == nil {
				res.Passes = s.plan.spec.passesOver(b.rows, pass)
			}
			return res, nil
		}
		again, further := tops, 1
		switch {
		case s.plan.spec.reports():
			if again, further = true, enough; open {
				enough = 2*enough + surveyPasses
				further, args.TopPass = enough, 0
			}
		case tops: // the kernel itself goes on
			further = 0
		}
		if err := s.launch.passes(s.stream.Handle(), args, again, further); err != nil {
			return nil, err
		}
		if err := s.fetch(l); err != nil {
			return nil, err
		}
	}
}

func (s *slot) stage(b *batch, l layout, ld int) {
	mem := s.host.Bytes()
	for row := range b.rows {
		at := l.hidden + 2*ld*row
		copy(mem[at:], asBytes(b.hidden[row*b.shape.Hidden:(row+1)*b.shape.Hidden]))
		clear(mem[at+2*b.shape.Hidden : at+2*ld])
	}
	copy(mem[l.slots:], asBytes(b.params.Slots))
	copy(mem[l.seeds:], asBytes(b.seeds))
	copy(mem[l.pos:], asBytes(b.pos))
	copy(mem[l.temp:], asBytes(b.temp))
	copy(mem[l.bias:], asBytes(b.bias))
	copy(mem[l.mask:], asBytes(b.mask))
	copy(mem[l.topK:], asBytes(b.params.TopK))
	copy(mem[l.topP:], asBytes(b.params.TopP))
	copy(mem[l.minP:], asBytes(b.params.MinP))
	copy(mem[l.drawCounts:], asBytes(b.drawCounts))
	for i, a := range b.edited.arrays(&b.params) {
		copy(mem[l.edits[i]:], a.data)
	}
	copy(mem[l.listIDs:], asBytes(l.lists.ids))
}

func (s *slot) args(b *batch, l layout, ld int) *DeviceArgs {
	at := func(offset int) uint64 { return uint64(s.dev.Ptr()) + uint64(offset) }
	args := &DeviceArgs{
		Batch: b.rows, Hidden: at(l.hidden), HiddenLD: ld,
		Slots: at(l.slots), SlotCount: b.params.SlotCount,
		Seeds: at(l.seeds), OneSeed: len(b.seeds) == 1, Positions: at(l.pos), OnePosition: len(b.pos) == 1,
		Draw: b.draw, StreamTag: b.tag,
		Temperature: at(l.temp), OneTemperature: len(b.temp) == 1,
		Bias: at(l.bias), BiasStride: b.biasRow,
		Mask: at(l.mask), MaskStride: b.maskRow, MaskWords: b.words,
		TopK: at(l.topK), OneTopK: len(b.params.TopK) == 1, TopP: at(l.topP), OneTopP: len(b.params.TopP) == 1,
		MinP: at(l.minP), OneMinP: len(b.params.MinP) == 1,
		DrawCounts: at(l.drawCounts), OneDrawCount: len(b.drawCounts) == 1,
		Tokens: at(l.tokens), Status: at(l.status), Scores: at(l.scores), LogSumExp: at(l.lse), LogProbs: at(l.logProbs), Passes: at(l.passes),
		Draws: at(l.draws), DrawScores: at(l.drawScores),
		TopIDs: at(l.topIDs), TopLogProbs: at(l.topLogProbs),
		ListIDs: at(l.listIDs), ListLogProbs: at(l.listed), ListLength: l.lists.length, ListStride: l.lists.stride,
	}
	if s.plan.spec.Rank {
		args.Ranks = at(l.ranks)
	}
	args.addEdits(b, l, at)
	return args
}

// addEdits fills in where what changes single logits lies, as far as there is any.
func (a *DeviceArgs) addEdits(b *batch, l layout, at func(offset int) uint64) {
	e, p, places := &b.edited, &b.params, map[string]uint64{}
	for i, array := range e.arrays(p) {
		if len(array.data) > 0 {
			places[array.param] = at(l.edits[i])
		}
	}
	lists := func(x *packedLists, spans, entries string) DeviceLists {
		return DeviceLists{Spans: places[spans], One: len(x.spans) == 2, Entries: places[entries], Count: x.count}
	}
	a.BiasLists = lists(&e.bias, templates.ParamBiasSpans, templates.ParamBiasEntries)
	a.CountLists = lists(&e.counts, templates.ParamCountSpans, templates.ParamCountEntries)
	a.AllowIDs = lists(&e.allow, templates.ParamAllowSpans, templates.ParamAllowIDs)
	a.BanIDs = lists(&e.ban, templates.ParamBanSpans, templates.ParamBanIDs)
	a.Repetition, a.OneRepetition = places[templates.ParamRepetition], len(p.Repetition) == 1
	a.Frequency, a.OneFrequency = places[templates.ParamFrequency], len(p.Frequency) == 1
	a.Presence, a.OnePresence = places[templates.ParamPresence], len(p.Presence) == 1
	a.TokenCounts, a.TokenCountStride = places[templates.ParamTokenCounts], p.CountStride
}

// result reads the results out of the staging memory.
func (s *slot) result(b *batch, l layout) *Result {
	mem, spec := s.host.Bytes(), s.plan.spec
	words := func(at, n int) []uint32 {
		out := make([]uint32, n)
		for i := range out {
			out[i] = binary.LittleEndian.Uint32(mem[at+4*i:])
		}
		return out
	}
	ints := func(at, n int) (out []int32) {
		for _, x := range words(at, n) {
			out = append(out, int32(x))
		}
		return out
	}
	floats := func(at, n int) (out []float32) {
		for _, x := range words(at, n) {
			out = append(out, math.Float32frombits(x))
		}
		return out
	}
	res := &Result{Tokens: ints(l.tokens, b.rows)}
	for _, x := range words(l.status, b.rows) {
		res.Status = append(res.Status, ir.Status(x))
	}
	if spec.Score {
		res.Scores = floats(l.scores, b.rows)
	}
	if spec.LogSumExp {
		res.LogSumExp = floats(l.lse, b.rows)
	}
	if spec.Computation().Collects() {
		res.Passes = ints(l.passes, b.rows)
	}
	if spec.Draws != ir.SingleDraw {
		res.Draws = ints(l.draws, b.rows*spec.MaxDraws)
	}
	if spec.Draws == ir.WithoutReplacement {
		res.DrawScores = floats(l.drawScores, b.rows*spec.MaxDraws)
	}
	if spec.LogProb != ir.NoLogProb {
		res.LogProbs = floats(l.logProbs, b.rows)
	}
	if spec.Rank {
		res.Ranks = ints(l.ranks, b.rows)
	}
	if spec.TopN > 0 {
		res.TopIDs, res.TopLogProbs = ints(l.topIDs, b.rows*spec.TopN), floats(l.topLogProbs, b.rows*spec.TopN)
	}
	if spec.ListLogProbs {
		res.ListLogProbs = b.listed(floats(l.listed, b.rows*l.lists.length), l.lists.length)
	}
	return res
}
