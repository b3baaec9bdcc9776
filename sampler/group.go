package sampler

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsgen/fsgen/ir"
)

// Transport is how the ranks of a group bring their records together.
type Transport string

// The transports, best first.
const (
	// TransportNone is that of a group of one rank, which has nothing to exchange.
	TransportNone Transport = "none"
	// TransportPeer: each rank's kernel stores its records to the memory of the others' devices, and waits for theirs, all in the one
	// launch.
	TransportPeer Transport = "peer"
	// TransportNCCL: NCCL gathers the records on the stream, and a second kernel joins them.
	TransportNCCL Transport = "nccl"
	// TransportHost: records go through the host's memory, and back to a second kernel.
	TransportHost Transport = "host"
)

// reasonAsked is why a transport was chosen where the caller did.
const reasonAsked = "asked for"

// DefaultPeerTimeout is how long ranks wait for one another in a call.
const DefaultPeerTimeout = 10 * time.Second

// DefaultExchangeBytes is what ranks store to one another in.
const DefaultExchangeBytes = 64 << 20

// GroupConfig says which ranks share a vocabulary.
type GroupConfig struct {
	// Devices are those of the ranks of this process, by rank, as Open takes them ("auto" for one rank alone; GroupDevices gives
	// those of several). One that comes several times is several ranks
	// (virtual ranks), each with a part of its multiprocessors. All are GPUs, or all simulators of one architecture, or all "cpu".
	Devices []string
	// World is the ranks of all processes, Rank the first of this one's, where there are others: each has one rank then. 0 means
	// that Devices are all there are. Name (1 to 64 letters, digits, dots, underscores and hyphens) tells the group from others of the user
	// on the host, and Dir is where its processes meet ("": a name without a file); JoinTimeout is how long they wait to meet (0: a minute).
	World, Rank int
	Name, Dir   string
	JoinTimeout time.Duration
	// Timeout bounds how long a rank waits for the others in a call; 0 is DefaultPeerTimeout.
	Timeout time.Duration
	// ExchangeBytes is the memory of each rank that the others store to, for all plans of the group: 0 is DefaultExchangeBytes. A plan of 8
	// ranks and 256 rows takes 100 KB of it; with ranks, top or listed log-probabilities 1.6 MB, with truncation or several draws, whose lists of tokens travel, 150 MB.
	ExchangeBytes int
	// Transport asks for one instead of the best that works; it is an error if that does not. One rank has nothing to exchange.
	Transport Transport
}

// Group is ranks that share vocabularies: each has some ids of a head, and all come to the same tokens, those that one device with all
// of the head would come to. All processes of a group make the same calls in the same order.
type Group struct {
	b      groupBackend
	open   lifetime
	about  GroupInfo
	world  int
	others otherProcesses // nil where all ranks are in this process
}

// GroupInfo describes an open group.
type GroupInfo struct {
	World     int
	Devices   []string // of this process
	Arch      string   // whose kernels run there; empty for the CPU
	Transport Transport
	// Why says how the transport was chosen.
	Why string
}

// groupBackend is a kind of devices under the API.
type groupBackend interface {
	info() GroupInfo
	loadHead(ctx context.Context, w Weights, spans []ir.Span) (groupHeadBackend, error)
	healthy() error
	close() error
}

type groupHeadBackend interface {
	plan(ctx context.Context, spec Spec) (groupPlanBackend, error)
	close() error
}

type groupPlanBackend interface {
	// sample returns what every rank of this process has come to.
	sample(ctx context.Context, b *batch) ([]*Result, error)
	kernels() []string
	close() error
}

// openCUDAGroup is set by the CUDA backend, where it is built in.
var openCUDAGroup func(ctx context.Context, cfg GroupConfig) (groupBackend, otherProcesses, error)

// leastExchangeBytes has room for what tries peers, of as many ranks as there may be.
const leastExchangeBytes = 2 << 20

func (c *GroupConfig) validate() error {
	switch {
	case len(c.Devices) == 0:
		return &InputError{"group devices", "want one for each rank of this process", nil}
	case c.World < 0 || c.World == 0 && c.Rank != 0:
		return &InputError{"group world", "want how many ranks there are, where one is named, or 0 and rank 0", c.World}
	case c.World == 0:
		c.World = len(c.Devices)
	case c.Rank < 0 || c.Rank >= c.World:
		return &InputError{"group rank", fmt.Sprintf("want 0 to %d", c.World-1), c.Rank}
	case c.World > len(c.Devices) && len(c.Devices) != 1:
		return &InputError{"group devices", "want one rank in each process, or all in this one", len(c.Devices)}
	case c.World < len(c.Devices):
		return &InputError{"group world", fmt.Sprintf("want 0, or %d or more", len(c.Devices)), c.World}
	}
	if c.World > maxRanks {
		return &InputError{"group world", fmt.Sprintf("want at most %d", maxRanks), c.World}
	}
	if c.World > len(c.Devices) {
		if err := CheckGroupName(c.Name); err != nil {
			return err
		}
	}
	if c.ExchangeBytes < 0 || int64(c.ExchangeBytes) > 1<<36 {
		return &InputError{"group exchange bytes", "want 0 to 64 GiB", c.ExchangeBytes}
	}
	if c.ExchangeBytes == 0 {
		c.ExchangeBytes = DefaultExchangeBytes
	}
	c.ExchangeBytes = max(c.ExchangeBytes, leastExchangeBytes)
	if c.Timeout < 0 || c.JoinTimeout < 0 {
		return &InputError{"group timeout", "want 0 or more", min(c.Timeout, c.JoinTimeout)}
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultPeerTimeout
	}
	return CheckTransport(c.Transport)
}

// CheckTransport refuses what no group can be asked for.
func CheckTransport(t Transport) error {
	switch t {
	case "", TransportPeer, TransportNCCL, TransportHost:
		return nil
	}
	return &InputError{"group transport", "want peer, nccl or host", fmt.Sprintf("%q", t)}
}

// OpenGroup opens the devices of a group, and meets the other processes if there are any. A group of one rank is its device alone:
// it has no kernels, memory or waits of its own.
func OpenGroup(ctx context.Context, cfg GroupConfig) (*Group, error) {
	cfg.Devices = slices.Clone(cfg.Devices)
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	g := &Group{world: cfg.World}
	var err error
	switch kind, _, _ := strings.Cut(cfg.Devices[0], ":"); {
	case cfg.World == 1:
		g.b, err = newSolo(cfg)
	case kind == CPU:
		g.b, err = newCPUGroup(cfg)
	case kind == "sim":
		g.b, err = newSimGroup(cfg)
	case openCUDAGroup == nil:
		err = &NoGPUError{cfg.Devices[0], errors.New("this build has no CUDA support")}
	case kind != CUDA:
		err = unknownDevice(cfg.Devices[0])
	default:
		g.b, g.others, err = openCUDAGroup(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	g.about = g.b.info()
	g.open.begin(nil, g.b.close)
	return g, nil
}

// Info describes the group, also once it is closed.
func (g *Group) Info() GroupInfo {
	info := g.about
	info.Devices = slices.Clone(info.Devices)
	return info
}

// Healthy returns nil, or the error that made a device of this process useless; of a closed group, ErrClosed.
func (g *Group) Healthy() error { return g.open.healthy(g.b.healthy) }

// World is the number of ranks.
func (g *Group) World() int { return g.world }

// Close closes the group's heads, and releases its devices and memory. In a group of several processes it waits
// until all have come to close it, for as long as calls wait.
func (g *Group) Close() error { return g.open.close() }

// GroupHead is an LM head whose vocabulary ranks share.
type GroupHead struct {
	g     *Group
	b     groupHeadBackend
	open  lifetime
	shape ir.Shape
	spans []ir.Span
}

// LoadHead gives each rank the rows of its span: one for each rank, in order, or ir.EvenSpans where spans are nil. The source is one of
// all rows, of which those of this process's ranks are read. Spans may begin anywhere, and may be empty.
func (g *Group) LoadHead(ctx context.Context, w Weights, spans []ir.Span) (*GroupHead, error) {
	if err := g.open.enter(); err != nil {
		return nil, err
	}
	defer g.open.leave()
	if err := w.validate(); err != nil {
		return nil, err
	}
	if spans == nil {
		spans = ir.EvenSpans(w.Vocab, g.world)
	}
	if len(spans) != g.world {
		return nil, &InputError{"group spans", fmt.Sprintf("want %d, one a rank", g.world), len(spans)}
	}
	if err := (ir.Computation{Sampler: ir.Greedy}).ValidSpans(spans, w.Vocab); err != nil {
		return nil, refuse("group spans", err)
	}
	if err := g.agree(ctx, w.given(spans)); err != nil {
		return nil, err
	}
	b, err := g.b.loadHead(ctx, w, spans)
	if err != nil {
		return nil, fmt.Errorf("sampler: load head: %w", err)
	}
	h := &GroupHead{g: g, b: b, shape: ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden}, spans: slices.Clone(spans)}
	h.open.begin(&g.open, b.close)
	return h, nil
}

// Spans returns the ids that each rank has.
func (h *GroupHead) Spans() []ir.Span { return slices.Clone(h.spans) }

// Close closes the head's plans, and frees it.
func (h *GroupHead) Close() error { return h.open.close() }

// GroupPlan samples rows on all ranks of a group at once.
type GroupPlan struct {
	h    *GroupHead
	b    groupPlanBackend
	open lifetime
	spec Spec
	turn sync.Mutex // calls take turns: ranks make them in one order
}

// Plan is Head.Plan for a group. Batches of more than MaxBatch rows are sampled in pieces. Over TransportPeer ranks truncate, draw several
// tokens and report ranks, top and listed log-probabilities; over the other transports they do none of these, and on the cpu no
// log-probabilities either. A rank adds up one distribution: log-sum-exps, log-probabilities, top-p and draws with replacement go
// together where they are of the same one. What ranks do not do is an *UnsupportedError.
func (h *GroupHead) Plan(ctx context.Context, spec Spec) (*GroupPlan, error) {
	if err := h.open.enter(); err != nil {
		return nil, err
	}
	defer h.open.leave()
	if spec.MaxBatch == 0 {
		spec.MaxBatch = 64
	}
	if err := spec.validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	if err := spec.Computation().ValidSpans(h.spans, h.shape.Vocab); err != nil {
		return nil, refuse("group spans", err)
	}
	if spec.Artifact != nil && h.g.world > 1 {
		return nil, &InputError{"artifact", "plans of groups make their own kernels", spec.Artifact.Name()}
	}
	if err := h.g.agree(ctx, spec.given()); err != nil {
		return nil, err
	}
	b, err := h.b.plan(ctx, spec)
	if err != nil {
		ranks := h.g.world
		if ranks == 1 { // which is its device
			ranks = 0
		}
		return nil, planError(err, h.g.Info().Devices[0], ranks)
	}
	p := &GroupPlan{h: h, b: b, spec: spec}
	p.open.begin(&h.open, b.close)
	return p, nil
}

// Kernels names the kernels that the plan's ranks in this process choose from.
func (p *GroupPlan) Kernels() []string { return p.b.kernels() }

// Spec returns what the plan computes.
func (p *GroupPlan) Spec() Spec { return p.spec }

// Sample draws one token for each row, as Plan.Sample does; all ranks are given the same hidden states and rows. Ids are those of the
// whole vocabulary in everything that rows bring: bias, masks, lists. A rank that is not heard of in time is a *PeerError on every
// other, and the group is of no use afterwards but to be closed.
func (p *GroupPlan) Sample(ctx context.Context, hidden []uint16, rows Rows) (*Result, error) {
	if err := p.open.enter(); err != nil {
		return nil, err
	}
	defer p.open.leave()
	p.turn.Lock()
	defer p.turn.Unlock()
	b, err := p.newBatch(ctx, hidden, rows)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	res := &Result{Tokens: []int32{}, Status: []ir.Status{}}
	for _, part := range p.parts(b) {
		all, err := p.b.sample(ctx, part)
		if err != nil {
			return nil, err
		}
		if err := agree(all); err != nil {
			return nil, err
		}
		res.append(all[0])
	}
	res.complete(p.spec, b)
	return res, nil
}

// parts are a batch in pieces that records have room for. One rank has no records.
func (p *GroupPlan) parts(b *batch) (all []*batch) {
	most := p.spec.MaxBatch
	if p.h.g.world == 1 {
		most = max(b.rows, 1)
	}
	for first := 0; first < b.rows; first += most {
		all = append(all, b.part(first, min(most, b.rows-first)))
	}
	return all
}

// newBatch is newBatch with seeds that all ranks have.
func (p *GroupPlan) newBatch(ctx context.Context, hidden []uint16, rows Rows) (*batch, error) {
	b, err := newBatch(p.spec, p.h.shape, hidden, rows)
	if err != nil || p.h.g.others == nil || b.rows == 0 || b.seeds == nil || rows.Unseeded == nil && rows.Seeds != nil {
		return b, err
	}
	shared, err := p.h.g.others.seeds(ctx, len(b.seeds))
	if err != nil {
		return nil, err
	}
	for i := range b.seeds {
		if rows.Seeds == nil || rows.Unseeded[i] {
			b.seeds[i] = shared[i]
		}
	}
	return b, nil
}

// Close closes the plan's launchers, and frees it.
func (p *GroupPlan) Close() error { return p.open.close() }

// agree holds what the ranks of this process came to against one another.
func agree(all []*Result) error {
	for rank, r := range all[1:] {
		for _, x := range []struct {
			name        string
			first, mine []int32
		}{{"tokens", all[0].Tokens, r.Tokens}, {"ranks", all[0].Ranks, r.Ranks}, {"likeliest tokens", all[0].TopIDs, r.TopIDs}} {
			for i, t := range x.mine {
				if s := x.first[i]; s != t {
					return fmt.Errorf("sampler: BUG: %s, number %d: rank 0 has %d, the rank %d after it %d", x.name, i, s, rank+1, t)
				}
			}
		}
	}
	return nil
}

// encodeSeeds and decodeSeeds carry seeds between processes.
func encodeSeeds(seeds []uint64) (out []byte) {
	for _, s := range seeds {
		out = binary.LittleEndian.AppendUint64(out, s)
	}
	return out
}

func decodeSeeds(data []byte, n int) ([]uint64, error) {
	if len(data) != 8*n {
		return nil, fmt.Errorf("sampler: rank 0 drew %d seeds for a batch that wants %d here: ranks must be given the same rows", len(data)/8, n)
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
	return seeds, nil
}
