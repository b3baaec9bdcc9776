//go:build !fsgen_nocuda

package sampler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/nccl"
	"github.com/fsgen/fsgen/internal/peerprobe"
	"github.com/fsgen/fsgen/internal/rendezvous"
)

// Transports are tried from the best on. What a driver says of peers is not believed before a write to each one's memory has been
// read there; all ranks must agree on what they use.

// connectHere connects ranks that are all in this process.
func (g *cudaGroup) connectHere(ctx context.Context) error {
	for _, r := range g.ranks {
		buf, err := r.dev.ctx.Alloc(uint64(g.cfg.ExchangeBytes))
		if err != nil {
			return fmt.Errorf("rank %d: %d bytes for what ranks exchange: %w", r.rank, g.cfg.ExchangeBytes, err)
		}
		r.arena = arena{ptr: buf.Ptr(), buf: buf}
	}
	return g.choose(func(t Transport) error {
		switch t {
		case TransportPeer:
			return g.reachHere(ctx)
		case TransportNCCL:
			return g.joinNCCL(ctx)
		}
		return nil
	})
}

// reachHere lets every rank's device use the memory of the others, and tries whether it does.
func (g *cudaGroup) reachHere(ctx context.Context) error {
	for _, r := range g.ranks {
		r.reach = nil
		for _, other := range g.ranks {
			if err := r.reachOne(ctx, other); err != nil {
				return fmt.Errorf("rank %d to rank %d: %w", r.rank, other.rank, err)
			}
			r.reach = append(r.reach, other.arena.ptr)
		}
	}
	return nil
}

func (r *cudaRank) reachOne(ctx context.Context, other *cudaRank) error {
	if r.dev.dev.UUID() == other.dev.dev.UUID() {
		return nil
	}
	yes, err := r.dev.dev.CanAccessPeer(other.dev.dev)
	if err != nil {
		return err
	}
	if !yes {
		return fmt.Errorf("the driver says that %s cannot reach %s", r.dev.name, other.dev.name)
	}
	if err := r.dev.ctx.EnablePeerAccess(other.dev.ctx); err != nil {
		return err
	}
	return peerprobe.Run(ctx, peerprobe.Path{Writer: r.dev.ctx, Remote: other.arena.ptr, Owner: other.dev.ctx, Local: other.arena.ptr}, 0)
}

// choose takes the first transport that works on all ranks, and says why. Where one was asked for, only that is tried.
func (g *cudaGroup) choose(try func(Transport) error) error {
	var why []string
	for _, t := range []Transport{TransportPeer, TransportNCCL, TransportHost} {
		if g.cfg.Transport != "" && g.cfg.Transport != t {
			continue
		}
		err := g.vote(try(t))
		if err == nil {
			g.transport, g.why = t, reasonFor(t, why, g.cfg.Transport != "")
			return nil
		}
		if g.cfg.Transport != "" {
			return &TransportError{t, err}
		}
		if g.meet != nil && g.meet.Err() != nil {
			return g.meet.Err()
		}
		why = append(why, fmt.Sprintf("%s: %s", t, strings.TrimPrefix(err.Error(), string(t)+": ")))
	}
	return &TransportError{TransportHost, errors.New(strings.Join(why, "; "))}
}

func reasonFor(t Transport, why []string, asked bool) string {
	switch {
	case asked:
		return reasonAsked
	case t == TransportPeer:
		return "every rank's stores reach every other's memory"
	}
	return strings.Join(why, "; ")
}

// ballot is what a rank says of a transport.
type ballot struct {
	No string `json:"no,omitempty"` // why it does not work there
}

// vote returns the first objection of any rank.
func (g *cudaGroup) vote(mine error) error {
	if g.meet == nil {
		return mine
	}
	var b ballot
	if mine != nil {
		if b.No = mine.Error(); len(b.No) > 1000 {
			b.No = b.No[:1000]
		}
	}
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), g.joinTimeout())
	defer stop()
	all, err := g.meet.AllGather(ctx, data)
	if err != nil {
		return err
	}
	if mine != nil {
		return mine
	}
	for rank, raw := range all {
		if err := json.Unmarshal(raw, &b); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		if b.No != "" {
			return fmt.Errorf("rank %d: %s", rank, b.No)
		}
	}
	return nil
}

// introduction is what a process tells of its rank.
type introduction struct {
	UUID   driver.UUID `json:"uuid"`
	Device string      `json:"device"`
	Bytes  uint64      `json:"bytes"`             // of its arena
	No     string      `json:"no,omitempty"`      // why it shares none
	Limit  int64       `json:"timeout,omitempty"` // of calls, which must be the same
	Space  int         `json:"space"`             // GroupConfig.ExchangeBytes, likewise
	Asked  Transport   `json:"transport"`         // GroupConfig.Transport, likewise
}

// connectProcesses meets the other ranks and maps their memory.
func (g *cudaGroup) connectProcesses(ctx context.Context) error {
	r := g.ranks[0]
	var files []*os.File
	defer func() { closeFiles(files) }()
	me := introduction{UUID: r.dev.dev.UUID(), Device: r.dev.name, Limit: int64(g.cfg.Timeout), Space: g.cfg.ExchangeBytes, Asked: g.cfg.Transport}
	if err := r.shareArena(g.cfg.ExchangeBytes, &files); err != nil {
		me.No = err.Error()
	} else {
		me.Bytes = r.arena.shared.Size()
	}
	blob, err := json.Marshal(me)
	if err != nil {
		return err
	}
	g.meet, err = rendezvous.Join(ctx, rendezvous.Config{Group: g.cfg.Name, Rank: r.rank, World: g.cfg.World, Dir: g.cfg.Dir, Timeout: g.joinTimeout(), Blob: blob, Files: files})
	if err != nil {
		return err
	}
	others, err := g.introductions(me)
	if err != nil {
		return err
	}
	return g.choose(func(t Transport) error {
		switch t {
		case TransportPeer:
			return g.reachProcesses(ctx, r, others)
		case TransportNCCL:
			return g.joinNCCL(ctx)
		}
		return nil
	})
}

// shareArena makes the rank's memory, and the file that stands for it.
func (r *cudaRank) shareArena(size int, files *[]*os.File) error {
	b, err := r.dev.ctx.AllocShared(uint64(size))
	if err != nil {
		return err
	}
	r.arena = arena{ptr: b.Ptr(), shared: b}
	file, err := b.Export()
	if err != nil {
		return err
	}
	*files = append(*files, file)
	return nil
}

// introductions reads what all ranks have told, and counts those on this one's GPU.
func (g *cudaGroup) introductions(me introduction) (all []introduction, err error) {
	r := g.ranks[0]
	r.share = 0
	for rank, m := range g.meet.Members() {
		var i introduction
		if err := json.Unmarshal(m.Blob, &i); err != nil {
			return nil, fmt.Errorf("sampler: rank %d of group %q told nothing that can be read: %w", rank, g.cfg.Name, err)
		}
		if i.Limit != me.Limit {
			return nil, &InputError{"group timeout", fmt.Sprintf("rank %d has another", rank), g.cfg.Timeout}
		}
		if i.Space != me.Space {
			return nil, &InputError{"group exchange bytes", fmt.Sprintf("rank %d has %d", rank, i.Space), me.Space}
		}
		if i.Asked != me.Asked {
			return nil, &InputError{"group transport", fmt.Sprintf("rank %d asks for %s", rank, cmp.Or(i.Asked, "the best")), cmp.Or(me.Asked, "the best")}
		}
		if i.UUID == me.UUID {
			r.share++
		}
		all = append(all, i)
	}
	return all, nil
}

// reachProcesses maps the memory of all other ranks, and tries whether stores arrive. All ranks go through all steps, whatever they
// meet.
func (g *cudaGroup) reachProcesses(ctx context.Context, r *cudaRank, others []introduction) error {
	failed := r.mapArenas(others, g.meet.Members())
	steps := []func(peer int) error{
		func(peer int) error {
			return peerprobe.Clear(ctx, r.dev.ctx, probePlace(r.arena.ptr, peer), uint32(peer))
		},
		func(peer int) error {
			return peerprobe.Write(ctx, r.dev.ctx, probePlace(r.reach[peer], r.rank), uint32(r.rank))
		},
		func(peer int) error {
			return peerprobe.Verify(ctx, r.dev.ctx, probePlace(r.arena.ptr, peer), uint32(peer))
		},
	}
	for _, step := range steps {
		for peer := range others {
			if peer == r.rank || failed != nil {
				continue
			}
			if err := step(peer); err != nil {
				failed = fmt.Errorf("probing rank %d: %w", peer, err)
			}
		}
		if err := g.barrier(ctx, g.joinTimeout()); err != nil {
			return err
		}
	}
	return failed
}

// probePlace is where a writer's probe lies in an arena.
func probePlace(arena driver.DevicePtr, writer int) driver.DevicePtr {
	return arena + driver.DevicePtr(writer*peerprobe.Bytes)
}

func (r *cudaRank) mapArenas(others []introduction, members []rendezvous.Member) error {
	r.reach = make([]driver.DevicePtr, len(others))
	for rank, o := range others {
		switch {
		case o.No != "":
			return fmt.Errorf("rank %d shares no memory: %s", rank, o.No)
		case rank == r.rank:
			r.reach[rank] = r.arena.ptr
			continue
		case len(members[rank].Files) != 1:
			return fmt.Errorf("rank %d sent %d files", rank, len(members[rank].Files))
		}
		b, err := r.dev.ctx.ImportShared(members[rank].Files[0], o.Bytes)
		if err != nil {
			return fmt.Errorf("memory of rank %d: %w", rank, err)
		}
		r.shared, r.reach[rank] = append(r.shared, b), b.Ptr()
	}
	return nil
}

// joinNCCL makes the ranks' communicators. NCCL takes one rank a device.
func (g *cudaGroup) joinNCCL(ctx context.Context) error {
	lib, err := nccl.Open()
	for _, r := range g.ranks {
		if r.share > 1 {
			err = fmt.Errorf("%d ranks are on %s, and NCCL takes one", r.share, r.dev.name)
		}
	}
	if err := g.vote(err); err != nil { // before any waits for others inside NCCL
		return err
	}
	id, err := g.uniqueID(ctx, lib)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, g.joinTimeout())
	defer stop()
	var all errgroup.Group
	for _, r := range g.ranks {
		all.Go(func() error {
			return r.dev.ctx.Do(func() (err error) {
				r.comm, err = lib.Init(ctx, nccl.Config{World: g.cfg.World, Rank: r.rank, ID: id})
				return err
			})
		})
	}
	return all.Wait()
}

// uniqueID is rank 0's to make.
func (g *cudaGroup) uniqueID(ctx context.Context, lib *nccl.Library) (id nccl.UniqueID, err error) {
	if g.meet == nil {
		return lib.UniqueID()
	}
	data, err := g.meet.Decide(ctx, func() ([]byte, error) {
		id, err := lib.UniqueID()
		return id[:], err
	})
	if err == nil && copy(id[:], data) != len(id) {
		err = fmt.Errorf("rank 0 sent an identity of %d bytes", len(data))
	}
	return id, err
}
