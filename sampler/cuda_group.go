//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/nccl"
	"github.com/fsgen/fsgen/internal/rendezvous"
	"github.com/fsgen/fsgen/ir"
)

func init() {
	openCUDAGroup = newCUDAGroup
	countGPUs = func() (int, error) {
		drv, err := driver.Open()
		if err != nil {
			return 0, err
		}
		return drv.Count()
	}
}

// cudaGroup is the ranks of this process, on GPUs, among those of a group.
type cudaGroup struct {
	cfg       GroupConfig
	ranks     []*cudaRank
	meet      *rendezvous.Group // nil where all ranks are in this process
	transport Transport
	why       string
	space     arenaSpace
}

// cudaRank is a rank of this process.
type cudaRank struct {
	rank  int
	dev   *cudaDevice
	share int // ranks of the group on its GPU
	arena arena
	// reach is where the arenas of all ranks are for this rank's device; shared is what was mapped for that.
	reach  []driver.DevicePtr
	shared []*driver.SharedBuffer
	comm   *nccl.Comm
}

// arena is the memory that other ranks store to: every plan has its inbox there, at the same place on all ranks.
type arena struct {
	ptr    driver.DevicePtr
	buf    *driver.Buffer       // of one process
	shared *driver.SharedBuffer // of several
}

func (a *arena) close() error {
	switch {
	case a.buf != nil:
		return a.buf.Close()
	case a.shared != nil:
		return a.shared.Close()
	}
	return nil
}

// arenaSpace deals out an arena. All ranks of a group ask in the same order, and so get the same places. Plans and launchers are closed
// whenever their owners like, also while another plan is made.
type arenaSpace struct {
	size  int
	mu    sync.Mutex // of what is taken
	taken []arenaPart
}

type arenaPart struct{ at, size int }

// place finds the first place that is free, and ahead of which part that is taken it lies. The lock is held.
func (s *arenaSpace) place(size int) (at, i int, ok bool) {
	for ; i < len(s.taken) && s.taken[i].at-at < size; i++ {
		at = s.taken[i].at + s.taken[i].size
	}
	return at, i, at+size <= s.size
}

// take takes the first place that is free. The lock is held.
func (s *arenaSpace) take(size int) (int, error) {
	at, i, ok := s.place(size)
	if !ok {
		return 0, &RoomError{Bytes: size, Room: s.size, Others: len(s.taken)}
	}
	s.taken = slices.Insert(s.taken, i, arenaPart{at, size})
	return at, nil
}

// takeRows takes what a number of rows needs. Where that is more than there is, the error says how many would do.
func (s *arenaSpace) takeRows(rows int, size func(rows int) int) (at int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err = s.take(size(rows))
	var room *RoomError
	if !errors.As(err, &room) {
		return at, err
	}
	room.MaxBatch = recordStep * sort.Search(rows/recordStep, func(n int) bool {
		_, _, ok := s.place(size(recordStep * (n + 1)))
		return !ok
	})
	return 0, room
}

func (s *arenaSpace) free(at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = slices.DeleteFunc(s.taken, func(p arenaPart) bool { return p.at == at })
}

func newCUDAGroup(ctx context.Context, cfg GroupConfig) (_ groupBackend, _ otherProcesses, err error) {
	g := &cudaGroup{cfg: cfg, space: arenaSpace{size: cfg.ExchangeBytes}}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.free())
		}
	}()
	if err := g.openDevices(); err != nil {
		return nil, nil, err
	}
	if cfg.World == len(cfg.Devices) {
		err = g.connectHere(ctx)
	} else {
		err = g.connectProcesses(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	if g.meet == nil {
		return g, nil, nil
	}
	return g, g, nil
}

func (g *cudaGroup) openDevices() error {
	for i, name := range g.cfg.Devices {
		if name != CUDA && !strings.HasPrefix(name, CUDA+":") {
			return &InputError{"group devices", "want all of one kind: the first is a GPU", fmt.Sprintf("%q", name)}
		}
		dev, err := Open(name)
		if err != nil {
			return err
		}
		g.ranks = append(g.ranks, &cudaRank{rank: g.cfg.Rank + i, dev: dev.b.(*cudaDevice)})
	}
	for _, r := range g.ranks {
		for _, other := range g.ranks {
			if r.dev.dev.UUID() == other.dev.dev.UUID() {
				r.share++
			}
		}
	}
	return nil
}

func (g *cudaGroup) name() string { return g.cfg.Name }

// tell is one gather, for which ranks may come as late as to the meeting: they read heads of their own.
func (g *cudaGroup) tell(ctx context.Context, text []byte) ([][]byte, error) {
	ctx, stop := context.WithTimeout(ctx, g.joinTimeout())
	defer stop()
	return g.meet.AllGather(ctx, text)
}

// seeds are drawn by rank 0 for all.
func (g *cudaGroup) seeds(ctx context.Context, n int) ([]uint64, error) {
	ctx, stop := context.WithTimeout(ctx, g.cfg.Timeout)
	defer stop()
	data, err := g.meet.Decide(ctx, func() ([]byte, error) { return encodeSeeds(osSeeds(n)), nil })
	if err != nil {
		return nil, fmt.Errorf("sampler: seeds of all ranks: %w", err)
	}
	return decodeSeeds(data, n)
}

func (g *cudaGroup) info() GroupInfo {
	info := GroupInfo{World: g.cfg.World, Arch: g.ranks[0].dev.arch.Name, Transport: g.transport, Why: g.why}
	for _, r := range g.ranks {
		info.Devices = append(info.Devices, r.dev.name)
	}
	return info
}

func (g *cudaGroup) healthy() error {
	var errs []error
	for _, r := range g.ranks {
		errs = append(errs, r.dev.healthy())
	}
	return errors.Join(errs...)
}

// close ends the group: nobody takes memory away that another may still use.
func (g *cudaGroup) close() error {
	if g.meet == nil || g.meet.Err() != nil {
		return g.free()
	}
	ctx, stop := context.WithTimeout(context.Background(), g.cfg.Timeout)
	defer stop()
	return errors.Join(g.meet.Barrier(ctx), g.free())
}

func (g *cudaGroup) free() error {
	var errs []error
	for _, r := range g.ranks {
		if r.comm != nil {
			errs = append(errs, r.dev.ctx.Do(r.comm.Abort))
		}
		for _, b := range r.shared {
			errs = append(errs, b.Close())
		}
		errs = append(errs, r.arena.close())
	}
	if g.meet != nil {
		errs = append(errs, g.meet.Close())
	}
	for _, r := range g.ranks {
		errs = append(errs, r.dev.close())
	}
	g.ranks, g.meet = nil, nil
	return errors.Join(errs...)
}

func (g *cudaGroup) loadHead(ctx context.Context, w Weights, spans []ir.Span) (groupHeadBackend, error) {
	h := &cudaGroupHead{group: g, work: ShardShape(ir.Shape{Vocab: w.Vocab, Hidden: w.Hidden}, spans), layout: w.Layout}
	for _, r := range g.ranks {
		part, err := loadShard(ctx, r.dev, w, spans[r.rank])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("rank %d: %w", r.rank, err), h.close())
		}
		h.parts = append(h.parts, part.(*cudaHead))
	}
	return h, nil
}

// cudaGroupHead is the shards of the ranks of this process.
type cudaGroupHead struct {
	group  *cudaGroup
	parts  []*cudaHead
	work   ir.Shape // of the largest shard of all ranks
	layout Layout
}

func (h *cudaGroupHead) close() error {
	var errs []error
	for _, p := range h.parts {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// joinTimeout is how long steps that all processes take together may last.
func (g *cudaGroup) joinTimeout() time.Duration {
	if g.cfg.JoinTimeout > 0 {
		return g.cfg.JoinTimeout
	}
	return rendezvous.DefaultTimeout
}

// barrier waits for the other processes.
func (g *cudaGroup) barrier(ctx context.Context, timeout time.Duration) error {
	if g.meet == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	return g.meet.Barrier(ctx)
}

// closeFiles closes what has been sent.
func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
