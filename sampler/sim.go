package sampler

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/autotune"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sim"
	"github.com/fsgen/fsgen/templates"
)

// simDevice runs emitted kernels on the simulator: a GPU that is not at hand, slowly, with every fault reported.
type simDevice struct {
	arch arch.Arch
	runs atomic.Uint64 // numbers the runs: each explores another order of threads
	// parsed are the programs of a group whose ranks are being planned, which have the same ones; nil for none to keep.
	parsed map[string]*sim.Program
}

// load makes a program of a kernel.
func (d *simDevice) load(ptx []byte, m *manifest.Kernel) (*sim.Program, error) {
	key := m.PTXSHA256 + " " + m.Entry
	if p := d.parsed[key]; p != nil {
		return p, nil
	}
	p, err := sim.Load(string(ptx), m)
	if err == nil && d.parsed != nil {
		d.parsed[key] = p
	}
	return p, err
}

// simCTAs is the size of the simulated GPU: few CTAs, so that a small problem still has several waves.
const simCTAs = 4

func newSim(name string) (backend, error) {
	a, err := arch.Lookup(name)
	if err != nil {
		return nil, err
	}
	return &simDevice{arch: a}, nil
}

func (d *simDevice) info() Info {
	return Info{Name: "sim:" + d.arch.Name, Product: "simulator of " + d.arch.Name, Arch: d.arch.Name}
}

func (d *simDevice) healthy() error { return nil }
func (d *simDevice) close() error   { return nil }

func (d *simDevice) loadHead(ctx context.Context, w Weights) (headBackend, error) {
	ld := alignedLD(w.Hidden)
	rows, err := readRows(ctx, w, ld)
	if err != nil {
		return nil, err
	}
	if w.Layout == Packed {
		rows = packRows(rows, w.Vocab, w.Hidden, ld)
	}
	return &simHead{dev: d, shape: ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden}, ld: ld, layout: w.Layout, weights: rows}, nil
}

// simHead is an LM head as a GPU would hold it: rows ld values apart.
type simHead struct {
	dev     *simDevice
	shape   ir.Shape
	ld      int
	layout  Layout
	weights []uint16
	span    *ir.Span // of a shard; nil for all of the vocabulary
}

// shard makes the head one of some ids of a vocabulary.
func (h *simHead) shard(vocab int, span ir.Span) { h.shape.Vocab, h.span = vocab, &span }

func (h *simHead) close() error { return nil }

func (h *simHead) plan(_ context.Context, spec Spec) (planBackend, error) {
	buckets, err := spec.buckets(h.dev.arch, workOf(h.shape, h.span), h.layout, nil)
	if err != nil {
		return nil, err
	}
	p := &simPlan{head: h, spec: spec, buckets: buckets, widths: widthsOf(buckets)}
	for _, b := range buckets {
		a := b.Artifact
		if a.Manifest.Arch != h.dev.arch.Name {
			return nil, &InputError{"artifact", "the simulated architecture is " + h.dev.arch.Name, a.Manifest.Arch}
		}
		program, stages, err := h.dev.loadAll(a)
		if err != nil {
			return nil, err
		}
		p.programs, p.stages = append(p.programs, program), append(p.stages, stages)
	}
	if p.ranksBucket, err = spec.ranks(buckets); err == nil && p.ranksBucket != nil {
		p.ranks, p.ranksStages, err = h.dev.loadAll(p.ranksBucket.Artifact)
	}
	if err != nil {
		return nil, err
	}
	if p.furtherBucket, err = spec.further(buckets); err == nil && p.furtherBucket != nil {
		p.further, p.furtherStages, err = h.dev.loadAll(p.furtherBucket.Artifact)
	}
	return p, err
}

// simStages are the stages of a kernel, nil those that it has not.
type simStages [manifest.StageKinds]*sim.Program

// loadAll makes programs of a kernel and its stages.
func (d *simDevice) loadAll(a *gen.Artifact) (program *sim.Program, stages simStages, err error) {
	if program, err = d.load(a.PTX, a.Manifest); err != nil {
		return nil, stages, err
	}
	for kind := range manifest.StageKinds {
		if m := a.Manifest.KernelOf(kind); m != nil {
			if stages[kind], err = d.load(a.PTX, m); err != nil {
				return nil, stages, err
			}
		}
	}
	return program, stages, nil
}

type simPlan struct {
	head     *simHead
	spec     Spec
	buckets  []bucket
	widths   tileWidths
	programs []*sim.Program
	stages   []simStages // by kernel

	ranksBucket, furtherBucket *bucket // of ranks and of further passes; nil for none
	ranks, further             *sim.Program
	ranksStages, furtherStages simStages
}

func (p *simPlan) close() error { return nil }

func (p *simPlan) kernels() []string {
	var names []string
	for _, b := range p.buckets {
		names = append(names, b.Artifact.Name())
	}
	return names
}

func (p *simPlan) sample(ctx context.Context, b *batch) (*Result, error) {
	i, mem := p.layOut(sim.NewMemory(), b)
	m := p.buckets[i].Artifact.Manifest
	passes, err := p.listTops(ctx, i, mem, b)
	if err != nil {
		return nil, err
	}
	if p.ranks != nil {
		mem.launch.CTAs = p.gridOf(p.ranksBucket, b.rows)
		if err := mem.run(ctx, p.ranks); err != nil {
			return nil, err
		}
	}
	if mem.lists.length > 0 {
		if err := p.runStage(ctx, i, manifest.ListedStage, mem, b); err != nil {
			return nil, err
		}
	}
	if err := mem.complete(p.spec); err != nil {
		return nil, fmt.Errorf("simulator (order %d): kernel %s: %w", mem.launch.Seed, m.Entry, err)
	}
	res := mem.result(b, p.spec)
	res.Kernel = m.Entry
	if res.Passes == nil {
		res.Passes = p.spec.passesOver(b.rows, passes)
	}
	return res, nil
}

// layOut chooses the kernel of a call, and lays its memory out.
func (p *simPlan) layOut(memory *sim.Memory, b *batch) (i int, mem *simMemory) {
	i = p.widths.choose(b.rows)
	m := p.buckets[i].Artifact.Manifest
	mem = newSimMemoryIn(memory, p, b)
	mem.launch.CTAs = autotune.Grid(m.Launch.Grid, workOf(p.head.shape, p.head.span).Vocab, b.rows, max(simCTAs, m.Launch.Cluster[0]), p.buckets[i].CTAs)
	mem.launch.Seed = p.head.dev.runs.Add(1)
	if n := m.PartialsBytes(b.rows, mem.launch.CTAs); n > 0 {
		mem.launch.Pointers[templates.ParamPartials] = memory.Alloc("partial sums", n).Addr
	}
	return i, mem
}

// listTops samples, and runs the stage that sorts the likeliest tokens, until it has them of every row.
func (p *simPlan) listTops(ctx context.Context, i int, mem *simMemory, b *batch) (passes int, err error) {
	ctas := mem.launch.CTAs
	for passes = 1; ; passes++ {
		mem.launch.CTAs, mem.launch.Scalars[templates.ParamTopPass] = ctas, uint32(passes-1)
		if err := p.decide(ctx, i, mem, b); err != nil || p.stages[i][manifest.TopStage] == nil {
			return passes, err
		}
		if err := p.runStage(ctx, i, manifest.TopStage, mem, b); err != nil {
			return passes, err
		}
		if passes == b.mostPasses() || !undecidedTops(mem.ints(mem.topIDs, mem.topIDs.Size()/4)) {
			return passes, nil
		}
	}
}

// decide runs the kernel, the stage that draws from its lists, and further passes.
func (p *simPlan) decide(ctx context.Context, i int, mem *simMemory, b *batch) error {
	if err := mem.run(ctx, p.programs[i]); err != nil {
		return err
	}
	if err := p.runStage(ctx, i, manifest.ResolveStage, mem, b); err != nil {
		return err
	}
	return p.makeFurtherPasses(ctx, mem, b)
}

// runStage runs a stage of a kernel, if it has it.
func (p *simPlan) runStage(ctx context.Context, i int, kind manifest.StageKind, mem *simMemory, b *batch) error {
	stage := p.stages[i][kind]
	if stage == nil {
		return nil
	}
	mem.launch.CTAs = mem.stageCTAs(kind, b.rows)
	return mem.run(ctx, stage)
}

// stageCTAs is the grid of a stage. Those that wait for other ranks must be there at once.
func (m *simMemory) stageCTAs(kind manifest.StageKind, rows int) int {
	switch {
	case kind == manifest.ListedStage:
		return min(rows*m.lists.length, simCTAs)
	case kind.Waits() || kind == manifest.JoinStage:
		return min(rows, simCTAs)
	}
	return rows
}

// makeFurtherPasses goes on while rows are undecided.
func (p *simPlan) makeFurtherPasses(ctx context.Context, mem *simMemory, b *batch) error {
	for pass := 1; p.further != nil && pass < b.mostPasses() && slices.Contains(mem.words(mem.status, b.rows), uint32(ir.StatusUndecided)); pass++ {
		mem.launch.CTAs = p.gridOf(p.furtherBucket, b.rows)
		if err := mem.run(ctx, p.further); err != nil {
			return err
		}
		mem.launch.CTAs = b.rows
		if err := mem.run(ctx, p.furtherStages[manifest.ResolveStage]); err != nil {
			return err
		}
	}
	return nil
}

// gridOf is the grid of a pass of another kernel than the buckets'.
func (p *simPlan) gridOf(k *bucket, rows int) int {
	m := k.Artifact.Manifest
	return autotune.Grid(m.Launch.Grid, workOf(p.head.shape, p.head.span).Vocab, rows, max(simCTAs, m.Launch.Cluster[0]), 0)
}

// run runs a kernel on a call's memory.
func (m *simMemory) run(ctx context.Context, p *sim.Program) error {
	report, err := p.Run(ctx, m.memory, m.launch)
	if err != nil {
		return err
	}
	if err := report.Err(); err != nil {
		return fmt.Errorf("simulator (order %d): %w", m.launch.Seed, err)
	}
	return nil
}

// simMemory is one call's memory and launch.
type simMemory struct {
	memory                      *sim.Memory
	launch                      sim.Launch
	tokens, status, scores, lse *sim.Block
	states, open, bins, passes  *sim.Block // of further passes
	marks, counts               *sim.Block
	arrivals, peaks             *sim.Block // workspaces of kernels that collect
	logProbs                    *sim.Block
	draws, drawScores           *sim.Block // nil for single draws
	lists                       idLists
	listLogProbs                *sim.Block // nil unless lists are asked for
	ranks                       *sim.Block
	topIDs, topLogProbs         *sim.Block // nil unless the likeliest tokens are asked for
	topSpace                    []*sim.Block
}

func newSimMemory(p *simPlan, b *batch) *simMemory { return newSimMemoryIn(sim.NewMemory(), p, b) }

// newSimMemoryIn lays a call out in a memory that others may have calls in.
func newSimMemoryIn(mem *sim.Memory, p *simPlan, b *batch) *simMemory {
	n := b.rows
	m := &simMemory{memory: mem, tokens: mem.Alloc("tokens", 4*n), status: mem.Alloc("status", 4*n), scores: mem.Alloc("scores", 4*n),
		lse: mem.Alloc("lse", 4*n), ranks: mem.Alloc("ranks", 4*n), logProbs: mem.Alloc("logprob", 4*n)}
	put := func(name string, data []byte) uint64 { return mem.Put(name, data).Addr }
	h := p.head
	tensor := func(name string, data []uint16, rows int) sim.Tensor {
		return sim.Tensor{Addr: put(name, asBytes(data)), Rows: rows, Cols: h.shape.Hidden, Stride: 2 * h.ld}
	}
	m.launch.Tensors = map[string]sim.Tensor{
		templates.ParamHidden: tensor("hidden", pad(make([]uint16, n*h.ld), b.hidden, h.shape.Hidden, h.ld), n),
	}
	m.launch.Pointers = map[string]uint64{
		templates.ParamSlots: put("slots", asBytes(b.params.Slots)), templates.ParamSeeds: put("seeds", asBytes(b.seeds)), templates.ParamPositions: put("positions", asBytes(b.pos)),
		templates.ParamTemperature: put("temperature", asBytes(b.temp)), templates.ParamBias: put("bias", asBytes(b.bias)),
		templates.ParamMask: put("mask", asBytes(b.mask)), templates.ParamTokens: m.tokens.Addr, templates.ParamStatus: m.status.Addr,
		templates.ParamScores: m.scores.Addr, templates.ParamLogSumExp: m.lse.Addr,
		templates.ParamLogProb: m.logProbs.Addr, templates.ParamKeys: put("keys", make([]byte, 8*n)),
		templates.ParamTicket: put("ticket", make([]byte, 4)), templates.ParamMasses: mem.Alloc(templates.ParamMasses, 8*n).Addr,
		templates.ParamRanks: m.ranks.Addr, templates.ParamRankKeys: mem.Alloc(templates.ParamRankKeys, 8*n).Addr,
		templates.ParamKept: mem.Alloc(templates.ParamKept, n*manifest.KeptBytes).Addr,
	}
	if p.spec.Computation().Collects() {
		m.addCollection(b, put)
	}
	if p.spec.Draws != ir.SingleDraw {
		m.addDraws(b, p.spec, put)
	}
	if p.spec.ListLogProbs {
		m.addLists(b, put)
	}
	if p.spec.TopN > 0 {
		m.addTops(n, p.spec.TopN)
	}
	if h.layout == Packed {
		at := put("weights", asBytes(h.weights))
		m.launch.Pointers[templates.ParamPackedWeights] = at
		m.launch.Tensors[templates.ParamPackedMap] = sim.Tensor{Addr: at, Cols: manifest.PackedCols, Stride: manifest.PackedRowBytes,
			Rows: (2*len(h.weights) - manifest.PackedTail) / manifest.PackedRowBytes}
	} else {
		m.launch.Tensors[templates.ParamWeights] = tensor("weights", h.weights, len(h.weights)/h.ld)
		m.launch.Pointers[templates.ParamWeightRows] = m.launch.Tensors[templates.ParamWeights].Addr
	}
	m.launch.Pointers[templates.ParamHiddenRows] = m.launch.Tensors[templates.ParamHidden].Addr
	m.launch.Scalars = map[string]uint32{
		templates.ParamVocab: uint32(h.shape.Vocab), templates.ParamHiddenSize: uint32(h.shape.Hidden), templates.ParamBatch: uint32(n),
		templates.ParamSlotCount:  uint32(b.params.SlotCount),
		templates.ParamSeedStride: perRow(len(b.seeds)), templates.ParamPositionStride: perRow(len(b.pos)),
		templates.ParamTemperatureStride: perRow(len(b.temp)), templates.ParamDraw: b.draw, templates.ParamStreamTag: b.tag,
		templates.ParamTopKStride: perRow(len(b.params.TopK)), templates.ParamTopPStride: perRow(len(b.params.TopP)),
		templates.ParamMinPStride: perRow(len(b.params.MinP)), templates.ParamDrawCountStride: perRow(len(b.drawCounts)),
		templates.ParamMaxDraws:     uint32(p.spec.MaxDraws),
		templates.ParamWeightStride: uint32(h.ld), templates.ParamHiddenStride: uint32(h.ld),
		templates.ParamListStride: uint32(m.lists.stride), templates.ParamListLength: uint32(m.lists.length),
		templates.ParamBiasStride: uint32(b.biasRow), templates.ParamMaskStride: uint32(b.maskRow), templates.ParamMaskWords: uint32(b.words),
	}
	if h.span != nil {
		m.launch.Scalars[templates.ParamShardStart], m.launch.Scalars[templates.ParamShardCount] = uint32(h.span.Start), uint32(h.span.Count)
	}
	if p.spec.Chain.Edits() {
		m.addEdits(b, put)
	}
	return m
}

// addDraws adds how many tokens rows draw, and where these go.
func (m *simMemory) addDraws(b *batch, spec Spec, put func(name string, data []byte) uint64) {
	n := 4 * b.rows * spec.MaxDraws
	m.draws, m.drawScores = m.memory.Alloc("draws", n), m.memory.Alloc("draw scores", n)
	p := m.launch.Pointers
	p[templates.ParamDrawCounts] = put("draw counts", asBytes(b.drawCounts))
	p[templates.ParamDraws], p[templates.ParamDrawScores] = m.draws.Addr, m.drawScores.Addr
}

// addCollection adds the parameters of truncation, and what kernels that collect tokens work in.
func (m *simMemory) addCollection(b *batch, put func(name string, data []byte) uint64) {
	n, p := b.rows, m.launch.Pointers
	p[templates.ParamTopK], p[templates.ParamTopP] = put("top-k", asBytes(b.params.TopK)), put("top-p", asBytes(b.params.TopP))
	p[templates.ParamMinP] = put("min-p", asBytes(b.params.MinP))
	m.marks, m.counts = m.memory.Put("marks", make([]byte, 4*n*manifest.RowMarks)), m.memory.Put("candidate counts", make([]byte, 4*n))
	m.arrivals, m.peaks = m.memory.Put("arrivals", make([]byte, 4)), m.memory.Put("row peaks", make([]byte, 4*n))
	p[templates.ParamPeaks] = m.peaks.Addr
	m.states, m.open = m.memory.Put("row states", make([]byte, n*manifest.StateBytes)), m.memory.Put("open rows", make([]byte, 4))
	m.bins, m.passes = m.memory.Put("row bins", make([]byte, 8*n*(manifest.RowPivots+1))), m.memory.Alloc("passes", 4*n)
	p[templates.ParamStates], p[templates.ParamOpen], p[templates.ParamBins], p[templates.ParamPasses] = m.states.Addr, m.open.Addr, m.bins.Addr, m.passes.Addr
	p[templates.ParamMarks], p[templates.ParamCounts], p[templates.ParamArrivals] = m.marks.Addr, m.counts.Addr, m.arrivals.Addr
	for _, scratch := range []struct {
		param string
		bytes int
	}{{templates.ParamSecondMasses, 8 * n}, {templates.ParamCandidates, n * manifest.RowCandidates * manifest.CandidateBytes}, {templates.ParamBounds, 4 * n}, {templates.ParamMasses, 8 * n}, {templates.ParamPivots, n * manifest.RowPivots * manifest.PivotBytes}} {
		p[scratch.param] = m.memory.Alloc(scratch.param, scratch.bytes).Addr
	}
}

// addEdits adds what single logits are changed by.
func (m *simMemory) addEdits(b *batch, put func(name string, data []byte) uint64) {
	e := b.edits()
	for _, a := range e.arrays(&b.params) {
		m.launch.Pointers[a.param] = 0
		if len(a.data) > 0 {
			m.launch.Pointers[a.param] = put(a.param, a.data)
		}
	}
	maps.Copy(m.launch.Scalars, e.scalars(&b.params))
}

// addLists adds the lists of ids, and what their stage works with.
func (m *simMemory) addLists(b *batch, put func(name string, data []byte) uint64) {
	m.lists = b.idLists()
	m.listLogProbs = m.memory.Alloc("list_logprobs", 4*b.rows*m.lists.length)
	p := m.launch.Pointers
	p[templates.ParamListIDs], p[templates.ParamListLogProbs] = put("list_ids", asBytes(m.lists.ids)), m.listLogProbs.Addr
}

// addTops adds what the likeliest tokens are listed in, and come out in.
func (m *simMemory) addTops(rows, n int) {
	p := m.launch.Pointers
	m.topIDs, m.topLogProbs = m.memory.Alloc("top_ids", 4*rows*n), m.memory.Alloc("top_logprobs", 4*rows*n)
	p[templates.ParamTopIDs], p[templates.ParamTopLogProbs] = m.topIDs.Addr, m.topLogProbs.Addr
	for _, array := range []struct {
		param string
		bytes int
	}{{templates.ParamTopMarks, 8 * manifest.RowTopMarks}, {templates.ParamTopBounds, 8}, {templates.ParamTopCounts, 4}} {
		block := m.memory.Put(array.param, make([]byte, rows*array.bytes))
		m.topSpace, p[array.param] = append(m.topSpace, block), block.Addr
	}
	m.arrivals = m.memory.Put("arrivals", make([]byte, 4))
	p[templates.ParamArrivals], p[templates.ParamTopKeys] = m.arrivals.Addr, m.memory.Alloc("top_keys", 8*rows*manifest.RowTopKeys).Addr
	p[templates.ParamTopFloors] = m.memory.Alloc("top_floors", 8*rows).Addr
	p[templates.ParamSentTopKeys] = m.memory.Alloc("sent_top_keys", 8*rows*manifest.SentTops).Addr
}

// complete reports results that the kernel has not written.
func (m *simMemory) complete(spec Spec) error {
	for _, out := range []struct {
		*sim.Block
		asked bool
	}{{m.tokens, true}, {m.status, true}, {m.scores, spec.Score}, {m.lse, spec.LogSumExp},
		{m.logProbs, spec.LogProb != ir.NoLogProb}, {m.draws, spec.Draws != ir.SingleDraw}, {m.drawScores, spec.Draws == ir.WithoutReplacement},
		{m.listLogProbs, m.lists.length > 0}, {m.ranks, spec.Rank}, {m.topIDs, m.topIDs != nil}, {m.topLogProbs, m.topIDs != nil}} {
		if out.asked && !out.Written() {
			return fmt.Errorf("not all of %s is written", out.Name)
		}
	}
	spaces := append(m.topSpace, m.marks, m.counts, m.arrivals, m.bins, m.peaks)
	if !slices.Contains(m.words(m.status, m.status.Size()/4), uint32(ir.StatusUndecided)) {
		spaces = append(spaces, m.open) // rows that stay undecided are open until their next first pass
	}
	for _, space := range spaces {
		if space == nil {
			continue
		}
		raw := make([]byte, space.Size())
		space.Read(0, raw)
		if slices.ContainsFunc(raw, func(x byte) bool { return x != 0 }) {
			return fmt.Errorf("%s are left behind", space.Name)
		}
	}
	return nil
}

// perRow is the stride of n values: 0 for one that serves every row.
func perRow(n int) uint32 {
	if n == 1 {
		return 0
	}
	return 1
}

func (m *simMemory) result(b *batch, spec Spec) *Result {
	res := &Result{}
	for _, t := range m.words(m.tokens, b.rows) {
		res.Tokens = append(res.Tokens, int32(t))
	}
	for _, s := range m.words(m.status, b.rows) {
		res.Status = append(res.Status, ir.Status(s))
	}
	if spec.Score {
		res.Scores = m.floats(m.scores, b.rows)
	}
	if spec.LogSumExp {
		res.LogSumExp = m.floats(m.lse, b.rows)
	}
	if spec.LogProb != ir.NoLogProb {
		res.LogProbs = m.floats(m.logProbs, b.rows)
	}
	if spec.Draws != ir.SingleDraw {
		for _, t := range m.words(m.draws, b.rows*spec.MaxDraws) {
			res.Draws = append(res.Draws, int32(t))
		}
	}
	if spec.Draws == ir.WithoutReplacement {
		res.DrawScores = m.floats(m.drawScores, b.rows*spec.MaxDraws)
	}
	if spec.Rank {
		res.Ranks = m.ints(m.ranks, b.rows)
	}
	if spec.TopN > 0 {
		res.TopIDs, res.TopLogProbs = m.ints(m.topIDs, b.rows*spec.TopN), m.floats(m.topLogProbs, b.rows*spec.TopN)
	}
	if spec.ListLogProbs {
		res.ListLogProbs = b.listed(m.floats(m.listLogProbs, b.rows*m.lists.length), m.lists.length)
	}
	if m.passes != nil {
		for _, n := range m.words(m.passes, b.rows) {
			res.Passes = append(res.Passes, int32(n))
		}
	}
	return res
}

// words reads n words that a kernel has written.
func (m *simMemory) words(block *sim.Block, n int) []uint32 {
	raw, out := make([]byte, 4*n), make([]uint32, n)
	block.Read(0, raw)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return out
}

func (m *simMemory) ints(block *sim.Block, n int) (out []int32) {
	for _, x := range m.words(block, n) {
		out = append(out, int32(x))
	}
	return out
}

func (m *simMemory) floats(block *sim.Block, rows int) (out []float32) {
	for _, x := range m.words(block, rows) {
		out = append(out, math.Float32frombits(x))
	}
	return out
}
