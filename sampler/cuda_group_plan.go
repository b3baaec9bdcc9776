//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/rendezvous"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/templates"
)

// rankChannel is what one launcher of a rank exchanges records by. Its launches, on every rank, are ordered one after the other, and
// are the same ones.
type rankChannel struct {
	rank, world, rows int
	facts             bool
	exchanges         bool
	// own is memory of the rank alone: its table, or, where the kernel leaves records, these and those of all.
	own   *driver.Buffer
	inbox int // where the rank's inbox begins in its arena; -1 for none
}

// table is where the rank's table lies.
func (c *rankChannel) table() driver.DevicePtr { return c.own.Ptr() }

// records is where the rank leaves its records, behind its table if it has one; gathered is where those of all ranks come.
func (c *rankChannel) records() driver.DevicePtr {
	if c.exchanges {
		return c.own.Ptr() + driver.DevicePtr(aligned(manifest.PeerTableBytes(c.world)))
	}
	return c.own.Ptr()
}

func (c *rankChannel) gathered() driver.DevicePtr {
	return c.own.Ptr() + driver.DevicePtr(aligned(c.bytes()))
}

// bytes is the size of one rank's records.
func (c *rankChannel) bytes() int { return manifest.RecordBytes(c.facts, c.rows) }

// newChannels makes a channel for each rank of this process. All processes do it together: when it returns, inboxes are empty.
func (g *cudaGroup) newChannels(ctx context.Context, m *manifest.Kernel, rows int) (all []*rankChannel, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, g.closeChannels(all))
			all = nil // a place that is freed again may be another's by then
		}
	}()
	at, size := -1, func(rows int) int { return m.InboxBytes(rows, g.cfg.World) }
	if g.transport == TransportPeer {
		if at, err = g.space.takeRows(rows, size); err != nil {
			return nil, err
		}
	}
	for i, r := range g.ranks {
		c := &rankChannel{rank: r.rank, world: g.cfg.World, rows: rows, facts: m.Facts, exchanges: at >= 0, inbox: at}
		if i > 0 {
			c.inbox = -1 // the place is freed once
		}
		all = append(all, c)
		if err := r.fill(c, at, size(rows), m.ReportStart(rows, g.cfg.World), g.cfg.Timeout); err != nil {
			return all, err
		}
	}
	return all, g.barrier(ctx, g.joinTimeout())
}

// fill makes the memory of a channel, whose inbox has what is reported from reports on.
func (r *cudaRank) fill(c *rankChannel, at, size, reports int, timeout time.Duration) (err error) {
	if at < 0 {
		c.own, err = r.dev.ctx.Alloc(uint64(aligned(c.bytes()) + c.world*c.bytes()))
		return err
	}
	if err := r.dev.ctx.CopyToDevice(r.arena.ptr+driver.DevicePtr(at), make([]byte, size)); err != nil {
		return err
	}
	if c.own, err = r.dev.ctx.Alloc(uint64(aligned(manifest.PeerTableBytes(c.world)) + c.bytes())); err != nil {
		return err
	}
	t := manifest.PeerTable{World: c.world, Rank: c.rank, Rows: c.rows, Timeout: uint64(timeout.Nanoseconds()), Reports: reports}
	for _, arena := range r.reach {
		t.Inboxes = append(t.Inboxes, uint64(arena)+uint64(at))
	}
	return c.own.Upload(0, t.Encode())
}

func (g *cudaGroup) closeChannels(all []*rankChannel) error {
	var errs []error
	for _, c := range all {
		if c.inbox >= 0 {
			g.space.free(c.inbox)
		}
		if c.own != nil {
			errs = append(errs, c.own.Close())
		}
	}
	return errors.Join(errs...)
}

// cudaGroupPlan is the plans of the ranks of this process, with what one call at a time needs.
type cudaGroupPlan struct {
	group    *cudaGroup
	spec     Spec
	parts    []*cudaPlan
	channels []*rankChannel
	slots    []*slot
	staging  []byte // records of all ranks, for the way over the host
}

func (h *cudaGroupHead) plan(ctx context.Context, spec Spec) (groupPlanBackend, error) {
	p := &cudaGroupPlan{group: h.group, spec: spec}
	if spec.shard = ir.ShardExchange; h.group.transport != TransportPeer {
		spec.shard = ir.ShardRecords
	}
	if err := templates.Supports(spec.Computation()); err != nil { // on all ranks the same, whoever chooses
		return nil, err
	}
	chosen, err := h.choose(ctx, spec)
	if err != nil {
		return nil, err
	}
	for i, r := range h.group.ranks {
		own := spec
		own.chosen = chosen
		own.SerialLaunch = spec.SerialLaunch || r.share > 1 // a grid that waits early takes room that another rank needs
		part, err := h.parts[i].plan(ctx, own)
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.parts = append(p.parts, part.(*cudaPlan))
		p.parts[i].share = r.share
	}
	if err := p.open(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// choose has rank 0 choose the tiles of all ranks.
func (h *cudaGroupHead) choose(ctx context.Context, spec Spec) (*rankTiles, error) {
	g := h.group
	choose := func() (*rankTiles, error) {
		first := g.ranks[0]
		return spec.chooseForRanks(first.dev.arch, h.work, h.layout, first.dev.tunings.part(first.share))
	}
	if g.meet == nil {
		return choose()
	}
	ctx, stop := context.WithTimeout(ctx, g.joinTimeout())
	defer stop()
	data, err := g.meet.Decide(ctx, func() ([]byte, error) {
		c, err := choose()
		if err != nil {
			return nil, err
		}
		return c.encode()
	})
	if err != nil {
		return nil, fmt.Errorf("tiles of all ranks: %w", err)
	}
	return decodeTiles(data)
}

// open makes the channels of calls.
func (p *cudaGroupPlan) open(ctx context.Context) (err error) {
	m, rows := p.parts[0].list[0].Manifest, recordRows(p.spec.MaxBatch)
	if n := m.RecordBytes(rows); p.group.transport == TransportHost && p.group.meet != nil && n > rendezvous.MaxBlob {
		return &InputError{"max batch", fmt.Sprintf("records of a rank that go over the host have %d bytes at most", rendezvous.MaxBlob), fmt.Sprintf("%d, %d bytes", p.spec.MaxBatch, n)}
	}
	p.channels, err = p.group.newChannels(ctx, m, rows)
	return err
}

// openSlots makes what calls need, ahead of the first.
func (p *cudaGroupPlan) openSlots() error {
	for i := len(p.slots); i < len(p.parts); i++ {
		s, err := p.parts[i].newRankSlot(p.channels[i])
		if err != nil {
			return err
		}
		p.slots = append(p.slots, s)
	}
	return nil
}

func (p *cudaGroupPlan) kernels() (names []string) {
	for _, part := range p.parts {
		names = append(names, part.kernels()...)
	}
	return names
}

func (p *cudaGroupPlan) close() error {
	var errs []error
	for _, s := range p.slots {
		errs = append(errs, s.stream.Synchronize(context.Background()), s.close())
	}
	errs = append(errs, p.group.closeChannels(p.channels))
	for _, part := range p.parts {
		errs = append(errs, part.close())
	}
	return errors.Join(errs...)
}

// sample makes a call on all ranks of this process. Whatever waits for others is launched on all before any is waited for: nothing in
// between may wait for a device.
func (p *cudaGroupPlan) sample(ctx context.Context, b *batch) ([]*Result, error) {
	if p.spec.Chain.Edits() {
		b.edited = b.edits()
	}
	if err := p.openSlots(); err != nil {
		return nil, err
	}
	layouts := make([]layout, len(p.slots))
	for i, s := range p.slots {
		if err := s.stream.Synchronize(context.Background()); err != nil { // of a call that was cancelled
			return nil, err
		}
		var err error
		if layouts[i], err = s.bring(b); err != nil {
			return nil, err
		}
	}
	for _, s := range p.slots {
		if err := s.stream.Synchronize(ctx); err != nil {
			return nil, err
		}
	}
	for passes := 1; ; passes++ {
		out, err := p.decide(ctx, b, layouts, passes-1)
		if err != nil || out != nil && !p.spec.wantsReports() {
			return out, err
		}
		if out, err = p.report(ctx, b, layouts, passes-1); err != nil {
			return out, err
		}
		if !undecidedTops(out[0].TopIDs) || passes == b.mostPasses() {
			for _, res := range out {
				if res.Passes == nil {
					res.Passes = p.spec.passesOver(b.rows, passes)
				}
			}
			return out, nil
		}
	}
}

// decide makes passes until no row is undecided, and says what came of them; nothing yet where one pass is enough.
func (p *cudaGroupPlan) decide(ctx context.Context, b *batch, layouts []layout, topPass int) ([]*Result, error) {
	for pass := 1; ; pass++ {
		err := p.together(b, layouts, topPass, launchSteps, func(s *slot, a *DeviceArgs, step int) error {
			return s.launch.rankStep(s.stream.Handle(), a, pass == 1, step)
		})
		if err != nil {
			return nil, err
		}
		if err := p.gather(ctx, b); err != nil || p.parts[0].further == nil {
			return nil, err
		}
		out, err := p.results(ctx, b, layouts)
		if err != nil || pass == b.mostPasses() || !slices.Contains(out[0].Status, ir.StatusUndecided) {
			return out, err
		}
	}
}

// report makes the steps on all ranks that report of rows which are decided, if there are any, and says what came of the call.
func (p *cudaGroupPlan) report(ctx context.Context, b *batch, layouts []layout, topPass int) ([]*Result, error) {
	if p.spec.wantsReports() {
		err := p.together(b, layouts, topPass, reportSteps, func(s *slot, a *DeviceArgs, step int) error {
			return s.launch.reportStep(s.stream.Handle(), a, step)
		})
		if err != nil {
			return nil, err
		}
	}
	return p.results(ctx, b, layouts)
}

// together takes steps on all ranks, each on all before the next one.
func (p *cudaGroupPlan) together(b *batch, layouts []layout, topPass, steps int, take func(s *slot, a *DeviceArgs, step int) error) error {
	for step := range steps {
		for i, s := range p.slots {
			a := s.args(b, layouts[i], alignedLD(b.shape.Hidden))
			a.TopPass = topPass
			if err := take(s, a, step); err != nil {
				return err
			}
		}
	}
	return nil
}

// results copies what every rank has come to, and waits for it.
func (p *cudaGroupPlan) results(ctx context.Context, b *batch, layouts []layout) (out []*Result, err error) {
	for i, s := range p.slots {
		if err := s.fetch(layouts[i]); err != nil {
			return nil, err
		}
	}
	for i, s := range p.slots {
		if err := s.stream.Synchronize(ctx); err != nil {
			return nil, err
		}
		res := s.result(b, layouts[i])
		res.Kernel = p.parts[i].list[p.parts[i].widths.choose(b.rows)].Manifest.Entry
		if failedPeers(res.Status) {
			err = errors.Join(err, p.peerError(i))
		}
		out = append(out, res)
	}
	return out, err
}

// peerError reads in a rank's table whom it missed. The group may know why.
func (p *cudaGroupPlan) peerError(i int) error {
	table := make([]byte, manifest.PeerTableBytes(p.group.cfg.World))
	if err := p.channels[i].own.Download(table, 0); err != nil {
		return err
	}
	err := error(peerErrorOf(table, p.group.cfg.Timeout))
	if p.group.meet != nil {
		err = errors.Join(err, p.group.meet.Err())
	}
	return err
}

// gather brings the records together, and has them joined, unless the kernels do.
func (p *cudaGroupPlan) gather(ctx context.Context, b *batch) (err error) {
	switch p.group.transport {
	case TransportPeer:
		return nil
	case TransportNCCL:
		err = p.gatherByNCCL(ctx)
	default:
		err = p.gatherByHost(ctx)
	}
	if err != nil {
		return err
	}
	for i, s := range p.slots {
		k := p.parts[i].widths.choose(b.rows)
		if err := p.parts[i].list[k].launchStage(s.stream.Handle(), s.launch.laid[k], manifest.JoinStage); err != nil {
			return err
		}
	}
	return nil
}

// gatherByNCCL enqueues the gather, and waits for it as long as ranks wait for one another: NCCL itself would wait for ever.
func (p *cudaGroupPlan) gatherByNCCL(ctx context.Context) error {
	errs := make(chan error, len(p.slots))
	for i, s := range p.slots {
		go func() {
			r, c := p.group.ranks[i], p.channels[i]
			errs <- r.dev.ctx.Do(func() error {
				return r.comm.AllGather(uint64(c.records()), uint64(c.gathered()), uint64(c.bytes()), s.stream.Handle())
			})
		}()
	}
	var all []error
	for range p.slots {
		all = append(all, <-errs)
	}
	if err := errors.Join(all...); err != nil {
		return &TransportError{TransportNCCL, err}
	}
	limited, stop := context.WithTimeout(ctx, p.group.cfg.Timeout)
	defer stop()
	for i, s := range p.slots {
		err := s.stream.Synchronize(limited)
		if err == nil {
			continue
		}
		r := p.group.ranks[i]
		return &TransportError{TransportNCCL, errors.Join(err, r.dev.ctx.Do(r.comm.Abort))}
	}
	return nil
}

// gatherByHost takes the records over the host's memory.
func (p *cudaGroupPlan) gatherByHost(ctx context.Context) error {
	each := p.channels[0].bytes()
	p.staging = p.staging[:0]
	for i, s := range p.slots {
		if err := s.stream.Synchronize(ctx); err != nil {
			return err
		}
		p.staging = append(p.staging, make([]byte, each)...)
		if err := p.channels[i].own.Download(p.staging[len(p.staging)-each:], 0); err != nil {
			return err
		}
	}
	if err := p.gatherProcesses(ctx); err != nil {
		return err
	}
	for _, c := range p.channels {
		if err := c.own.Upload(uint64(c.gathered()-c.records()), p.staging); err != nil {
			return err
		}
	}
	return nil
}

// gatherProcesses fetches the records of the ranks in other processes.
func (p *cudaGroupPlan) gatherProcesses(ctx context.Context) error {
	g := p.group
	if g.meet == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, g.cfg.Timeout)
	defer stop()
	all, err := g.meet.AllGather(ctx, p.staging)
	if err != nil {
		return &TransportError{TransportHost, err}
	}
	each := len(p.staging)
	p.staging = p.staging[:0]
	for rank, part := range all {
		if len(part) != each {
			return &TransportError{TransportHost, fmt.Errorf("rank %d sent %d bytes of records, and this one has %d", rank, len(part), each)}
		}
		p.staging = append(p.staging, part...)
	}
	return nil
}

// NewLaunchers makes a launcher for each rank of this process, for batches of up to the plan's MaxBatch rows, with a channel of its
// own. All processes call it together, and make the launches of the launchers together, in one order, each on its own device, and asking for
// the same: ranks or none, lists of one length, the same TopPass. Only
// groups of GPUs with TransportPeer have them. A rank that is not heard of gives the rows of a launch the status ir.StatusPeer; which it was,
// Launcher.Peers tells.
func (p *GroupPlan) NewLaunchers(ctx context.Context) ([]*Launcher, error) {
	if err := p.open.enter(); err != nil {
		return nil, err
	}
	defer p.open.leave()
	c, ok := p.b.(*cudaGroupPlan)
	if !ok {
		return nil, &InputError{"group", "launchers are for GPUs", p.h.g.Info().Devices[0]}
	}
	if c.group.transport != TransportPeer {
		return nil, &InputError{"group", "launches that exchange need GPUs that reach one another's memory", p.h.g.Info().Transport}
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	channels, err := c.group.newChannels(ctx, c.parts[0].list[0].Manifest, recordRows(c.spec.MaxBatch))
	if err != nil {
		return nil, err
	}
	var all []*Launcher
	for i, part := range c.parts {
		l, err := part.newRankLauncher(c.spec.MaxBatch, channels[i])
		if err != nil {
			for _, l := range all {
				err = errors.Join(err, l.Close())
			}
			return nil, errors.Join(err, c.group.closeChannels(channels[i:]))
		}
		l.group = c.group
		all = append(all, l)
	}
	for _, l := range all {
		l.open.of(&p.open)
	}
	return all, nil
}

// Peers returns nil, or a *PeerError if a launch has not heard of all other ranks. Nothing may be running on the launcher.
func (l *Launcher) Peers() error {
	if l.channel == nil {
		return nil
	}
	table := make([]byte, manifest.PeerTableBytes(l.channel.world))
	if err := l.channel.own.Download(table, 0); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(table[manifest.PeerFailed:]) == 0 {
		return nil
	}
	return peerErrorOf(table, l.group.cfg.Timeout)
}
