package sampler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sim"
	"github.com/fsgen/fsgen/templates"

	"github.com/fsgen/fsgen/ir"
)

// simGroup is ranks on the simulator: grids side by side, whose stores to one another's memory travel.
type simGroup struct {
	dev       *simDevice
	device    string
	world     int
	transport Transport
	why       string // it is that transport
	// lost says whose stores to whom get lost, late how many turns each rank comes late, absent which ranks do not come: for tests.
	lost   func(from, to int) bool
	late   func(rank int) int
	absent func(rank int) bool
	// patience is how many instructions a rank waits for the others.
	patience uint64
	planning sync.Mutex // of ranks, which share what the device has parsed
}

func newSimGroup(cfg GroupConfig) (groupBackend, error) {
	if err := oneProcess(cfg, cfg.Devices[0]); err != nil {
		return nil, err
	}
	_, name, _ := strings.Cut(cfg.Devices[0], ":")
	b, err := newSim(name)
	if err != nil {
		return nil, refuse("group devices", fmt.Errorf("sampler: device %s: %w", cfg.Devices[0], err))
	}
	g := &simGroup{dev: b.(*simDevice), device: cfg.Devices[0], world: cfg.World, transport: cfg.Transport, why: reasonAsked, patience: 1 << 26}
	switch cfg.Transport {
	case "":
		g.transport, g.why = TransportPeer, "simulated ranks reach one another's memory"
	case TransportNCCL:
		return nil, refuse("group transport", &TransportError{TransportNCCL, errors.New("simulators have no NCCL")})
	}
	return g, nil
}

func (g *simGroup) info() GroupInfo {
	info := GroupInfo{World: g.world, Arch: g.dev.arch.Name, Transport: g.transport, Why: g.why}
	for range g.world {
		info.Devices = append(info.Devices, g.device)
	}
	return info
}

func (g *simGroup) healthy() error { return nil }
func (g *simGroup) close() error   { return nil }

func (g *simGroup) loadHead(ctx context.Context, w Weights, spans []ir.Span) (groupHeadBackend, error) {
	h := &simGroupHead{group: g, work: ShardShape(ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden}, spans), layout: w.Layout}
	if err := shardsFitMemory(w, spans, alignedLD(w.Hidden)); err != nil {
		return nil, err
	}
	for _, span := range spans {
		part, err := loadShard(ctx, g.dev, w, span)
		if err != nil {
			return nil, err
		}
		h.parts = append(h.parts, part.(*simHead))
	}
	return h, nil
}

type simGroupHead struct {
	group  *simGroup
	parts  []*simHead
	work   ir.Shape // of the largest shard
	layout Layout
}

func (h *simGroupHead) close() error { return nil }

func (h *simGroupHead) plan(ctx context.Context, spec Spec) (groupPlanBackend, error) {
	p := &simGroupPlan{group: h.group, spec: spec, rows: recordRows(spec.MaxBatch)}
	if spec.shard = ir.ShardExchange; h.group.transport != TransportPeer {
		spec.shard = ir.ShardRecords
	}
	err := templates.Supports(spec.Computation())
	if err != nil {
		return nil, err
	}
	if spec.chosen, err = spec.chooseForRanks(h.group.dev.arch, h.work, h.layout, nil); err != nil {
		return nil, err
	}
	h.group.planning.Lock()
	defer h.group.planning.Unlock()
	h.group.dev.parsed = map[string]*sim.Program{}
	defer func() { h.group.dev.parsed = nil }()
	for _, part := range h.parts {
		b, err := part.plan(ctx, spec)
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, b.(*simPlan))
	}
	m := p.parts[0].buckets[0].Artifact.Manifest
	// A simulator knows of every byte whether it was written, which is another byte; and zeros are written to them.
	bytes := int64(2*len(p.parts)+1) * int64(m.InboxBytes(p.rows, len(p.parts)))
	if err := memoryHolds("size of the simulated ranks' inboxes, for max batch rows each", bytes); err != nil {
		return nil, err
	}
	p.facts = m.Facts
	p.connect()
	return p, nil
}

type simGroupPlan struct {
	group   *simGroup
	spec    Spec
	parts   []*simPlan
	rows    int // that records have room for
	facts   bool
	tables  []*sim.Block
	inboxes []*sim.Block
}

func (p *simGroupPlan) close() error { return nil }

func (p *simGroupPlan) kernels() (names []string) {
	for _, part := range p.parts {
		names = append(names, part.kernels()...)
	}
	return names
}

// connect lays out what ranks keep between calls: tables and inboxes.
func (p *simGroupPlan) connect() {
	p.inboxes, p.tables = nil, nil
	mem, world := sim.NewSharedMemory(), len(p.parts)
	zeros := make([]byte, p.parts[0].buckets[0].Artifact.Manifest.InboxBytes(p.rows, world))
	for rank := range world {
		inbox := mem.Put(fmt.Sprintf("inbox of rank %d", rank), zeros)
		table := mem.Alloc(fmt.Sprintf("table of rank %d", rank), manifest.PeerTableBytes(world))
		inbox.Owner, table.Owner = rank+1, rank+1
		p.inboxes, p.tables = append(p.inboxes, inbox), append(p.tables, table)
	}
	for rank, table := range p.tables {
		t := manifest.PeerTable{World: world, Rank: rank, Timeout: p.group.patience, Rows: p.rows, Reports: p.parts[0].buckets[0].Artifact.Manifest.ReportStart(p.rows, world)}
		for _, inbox := range p.inboxes {
			t.Inboxes = append(t.Inboxes, inbox.Addr)
		}
		table.Write(0, t.Encode())
	}
}

func (p *simGroupPlan) sample(ctx context.Context, b *batch) ([]*Result, error) {
	if p.group.transport != TransportPeer {
		return p.gather(ctx, b)
	}
	all, err := p.run(ctx, []*batch{b})
	if len(all) == 0 {
		return nil, err
	}
	return all[0], err
}

// run makes some calls, one behind the other on every rank: a rank may be at a later one than others are. It returns the results of each
// call by the ranks that came.
func (p *simGroupPlan) run(ctx context.Context, batches []*batch) ([][]*Result, error) {
	memory := sim.NewMemory()
	for rank := range p.parts {
		memory.Adopt(p.inboxes[rank])
		memory.Adopt(p.tables[rank])
	}
	ranks, mems := make([]sim.Rank, len(p.parts)), make([][]*simMemory, len(p.parts))
	for rank := range p.parts {
		r := &ranks[rank]
		if p.group.late != nil {
			r.Late = p.group.late(rank)
		}
		r.Absent = p.group.absent != nil && p.group.absent(rank)
		for _, b := range batches {
			launches, mem := p.launches(memory, rank, b)
			r.Launches, mems[rank] = append(r.Launches, launches...), append(mems[rank], mem)
		}
	}
	reports, err := p.runRanks(ctx, memory, ranks)
	if err != nil {
		return nil, err
	}
	passes := 1
	if len(batches) == 1 {
		if passes, err = p.finish(ctx, memory, mems, batches[0], reports); err != nil {
			return nil, err
		}
	}
	out := make([][]*Result, len(batches))
	for rank, list := range reports {
		each := len(list) / len(batches) // launches of a call
		for i := range batches {
			if each == 0 {
				continue
			}
			res, failed := p.result(rank, list[i*each:(i+1)*each], mems[rank][i], batches[i])
			if res != nil && res.Passes == nil {
				res.Passes = p.spec.passesOver(batches[i].rows, passes)
			}
			err, out[i] = errors.Join(err, failed), append(out[i], res)
		}
	}
	return out, err
}

func (p *simGroupPlan) runRanks(ctx context.Context, memory *sim.Memory, ranks []sim.Rank) ([][]*sim.Report, error) {
	return sim.RunGroup(ctx, memory, ranks, sim.GroupOptions{Seed: p.group.dev.runs.Add(1), Lost: p.group.lost})
}

// finish makes of a call what follows from what came of its first pass, and adds to the reports: further passes, what is reported of
// rows, and first passes once more until the likeliest tokens are known, as many as it says.
func (p *simGroupPlan) finish(ctx context.Context, memory *sim.Memory, mems [][]*simMemory, b *batch, reports [][]*sim.Report) (passes int, err error) {
	for passes = 1; ; passes++ {
		if err := p.makeFurtherPasses(ctx, memory, mems, b, reports); err != nil {
			return passes, err
		}
		if p.spec.reports() { // else with the first pass
			err := p.runAll(ctx, memory, reports, func(rank int) []sim.RankLaunch { return p.reportLaunches(rank, mems[rank][0], b) })
			if err != nil {
				return passes, err
			}
		}
		come := slices.IndexFunc(reports, func(r []*sim.Report) bool { return len(r) > 0 })
		if come < 0 || passes == b.mostPasses() {
			return passes, nil
		}
		if mem := mems[come][0]; mem.topIDs == nil || !undecidedTops(mem.ints(mem.topIDs, mem.topIDs.Size()/4)) {
			return passes, nil
		}
		err := p.runAll(ctx, memory, reports, func(rank int) []sim.RankLaunch {
			mem := mems[rank][0]
			mem.launch.Scalars[templates.ParamTopPass] = uint32(passes)
			return p.passLaunches(memory, rank, mem, b)
		})
		if err != nil {
			return passes, err
		}
	}
}

// runAll makes launches on all ranks that have come, and adds to the reports.
func (p *simGroupPlan) runAll(ctx context.Context, memory *sim.Memory, reports [][]*sim.Report, launches func(rank int) []sim.RankLaunch) error {
	ranks := make([]sim.Rank, len(p.parts))
	for rank := range ranks {
		if ranks[rank].Absent = len(reports[rank]) == 0; !ranks[rank].Absent {
			ranks[rank].Launches = launches(rank)
		}
	}
	more, err := p.runRanks(ctx, memory, ranks)
	if err != nil {
		return err
	}
	for rank := range reports {
		reports[rank] = append(reports[rank], more[rank]...)
	}
	return nil
}

// makeFurtherPasses goes on while rows of a call are undecided, as they are on all ranks, and adds to the reports.
func (p *simGroupPlan) makeFurtherPasses(ctx context.Context, memory *sim.Memory, mems [][]*simMemory, b *batch, reports [][]*sim.Report) error {
	for pass := 1; pass < b.mostPasses(); pass++ {
		open := func(rank int) bool {
			mem := mems[rank][0]
			return len(reports[rank]) > 0 && p.parts[rank].further != nil && slices.Contains(mem.words(mem.status, b.rows), uint32(ir.StatusUndecided))
		}
		if !slices.ContainsFunc(p.ranks(), open) {
			return nil
		}
		err := p.runAll(ctx, memory, reports, func(rank int) []sim.RankLaunch {
			if !open(rank) {
				return nil
			}
			part, mem := p.parts[rank], mems[rank][0]
			list := []sim.RankLaunch{mem.rankLaunch(part.further, part.gridOf(part.furtherBucket, b.rows))}
			return mem.addStages(list, part.furtherStages, b.rows, manifest.GatherStage, manifest.ResolveStage)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ranks counts the ranks.
func (p *simGroupPlan) ranks() (all []int) {
	for rank := range p.parts {
		all = append(all, rank)
	}
	return all
}

func (m *simMemory) rankLaunch(program *sim.Program, ctas int) sim.RankLaunch {
	l := m.launch
	l.Scalars, l.CTAs = maps.Clone(l.Scalars), ctas
	return sim.RankLaunch{Program: program, Launch: l}
}

// addStages adds the launches of some stages of a kernel, as far as it has them.
func (m *simMemory) addStages(list []sim.RankLaunch, stages simStages, rows int, kinds ...manifest.StageKind) []sim.RankLaunch {
	for _, kind := range kinds {
		if stages[kind] != nil {
			list = append(list, m.rankLaunch(stages[kind], m.stageCTAs(kind, rows)))
		}
	}
	return list
}

// launches are those of one call of a rank: a first pass, and what is reported of its rows, unless further passes come ahead of that.
func (p *simGroupPlan) launches(memory *sim.Memory, rank int, b *batch) ([]sim.RankLaunch, *simMemory) {
	_, mem := p.parts[rank].layOut(memory, b)
	l := &mem.launch
	l.Pointers[templates.ParamPeers] = p.tables[rank].Addr
	l.Pointers[templates.ParamRecords] = memory.Alloc("records", manifest.RecordBytes(p.facts, p.rows)).Addr
	l.Scalars[templates.ParamRecordRows], l.Scalars[templates.ParamTopPass] = uint32(p.rows), 0
	return p.passLaunches(memory, rank, mem, b), mem
}

// passLaunches are those of a first pass.
func (p *simGroupPlan) passLaunches(memory *sim.Memory, rank int, mem *simMemory, b *batch) []sim.RankLaunch {
	part, i := p.parts[rank], p.parts[rank].widths.choose(b.rows)
	list := mem.addStages([]sim.RankLaunch{mem.rankLaunch(part.programs[i], mem.launch.CTAs)}, part.stages[i], b.rows, manifest.GatherStage, manifest.ResolveStage)
	if !p.spec.Computation().Collects() {
		list = append(list, p.reportLaunches(rank, mem, b)...)
	}
	return list
}

// reportLaunches are those of the stages that report of rows, and of the pass that counts.
func (p *simGroupPlan) reportLaunches(rank int, mem *simMemory, b *batch) []sim.RankLaunch {
	part, i := p.parts[rank], p.parts[rank].widths.choose(b.rows)
	list := mem.addStages(nil, part.stages[i], b.rows, manifest.TopStage, manifest.TopGatherStage, manifest.TopMergeStage)
	if mem.lists.length > 0 {
		list = mem.addStages(list, part.stages[i], b.rows, manifest.ListedStage, manifest.ListedGatherStage)
	}
	if part.ranks != nil {
		list = append(list, mem.rankLaunch(part.ranks, part.gridOf(part.ranksBucket, b.rows)))
		list = mem.addStages(list, part.ranksStages, b.rows, manifest.RanksGatherStage)
	}
	return list
}

// result reads what a rank has written.
func (p *simGroupPlan) result(rank int, reports []*sim.Report, mem *simMemory, b *batch) (*Result, error) {
	r := reports[0]
	for _, one := range reports {
		if err := one.Err(); err != nil {
			return nil, fmt.Errorf("simulator, rank %d: kernel %s: %w", rank, one.Kernel, err)
		}
	}
	if err := mem.complete(p.spec); err != nil {
		return nil, fmt.Errorf("simulator, rank %d: kernel %s: %w", rank, r.Kernel, err)
	}
	res := mem.result(b, p.spec)
	if res.Kernel = r.Kernel; failedPeers(res.Status) {
		return res, p.peerError(rank)
	}
	return res, nil
}

// peerError reads in a rank's table whom it missed.
func (p *simGroupPlan) peerError(rank int) error {
	raw := make([]byte, p.tables[rank].Size())
	p.tables[rank].Read(0, raw)
	return peerErrorOf(raw, 0)
}

// gather runs the ranks one after the other, and then has each join the records of all.
func (p *simGroupPlan) gather(ctx context.Context, b *batch) (out []*Result, err error) {
	var all []byte
	mems, chosen := make([]*simMemory, len(p.parts)), make([]int, len(p.parts))
	for rank, part := range p.parts {
		i, mem := part.layOut(sim.NewMemory(), b)
		records := mem.memory.Put("records", make([]byte, manifest.RecordBytes(p.facts, p.rows)))
		mem.launch.Pointers[templates.ParamRecords], mem.launch.Scalars[templates.ParamRecordRows] = records.Addr, uint32(p.rows)
		if err := mem.run(ctx, part.programs[i]); err != nil {
			return nil, err
		}
		raw := make([]byte, records.Size())
		records.Read(0, raw)
		all, mems[rank], chosen[rank] = append(all, raw...), mem, i
	}
	for rank, part := range p.parts {
		mem := mems[rank]
		mem.launch.Pointers[templates.ParamGathered], mem.launch.Scalars[templates.ParamWorld] = mem.memory.Put("gathered", all).Addr, uint32(len(p.parts))
		if err := part.runStage(ctx, chosen[rank], manifest.JoinStage, mem, b); err != nil {
			return nil, err
		}
		if err := mem.complete(p.spec); err != nil {
			return nil, err
		}
		res := mem.result(b, p.spec)
		res.Kernel = part.buckets[chosen[rank]].Artifact.Manifest.Entry
		out = append(out, res)
	}
	return out, nil
}
