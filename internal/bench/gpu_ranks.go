//go:build !fsgen_nocuda

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/closing"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

const (
	rankLaunches = 20                     // of one graph
	settling     = 500 * time.Millisecond // GPUs that were idle take a quarter of a second to run at full speed
)

// lane is one rank's launches, on a stream of its device.
type lane struct {
	ctx    *driver.Context
	stream *driver.Stream
	graph  *driver.GraphExec
	end    *driver.Event
}

// rankHeads are the head as each contender has it.
type rankHeads struct {
	whole  *sampler.Head
	shard  *sampler.Head // the first rank's alone; nil where ranks share a GPU, which it would then have to itself
	shared *sampler.GroupHead
}

// RunRanks times ranks on GPUs, all in this process, against the first one's GPU alone, with all of the head and with its shard.
func RunRanks(ctx context.Context, cfg RanksConfig) (rep *RanksReport, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	var s closing.Scope
	defer func() { err = errors.Join(err, s.CloseAll()) }()
	group, err := sampler.OpenGroup(ctx, cfg.Group)
	if err != nil {
		return nil, err
	}
	s.Keep(group)
	rep = &RanksReport{Schema: 1, Devices: group.Info().Devices, Transport: group.Info().Transport, Shape: cfg.Shape}
	heads, err := loadRankHeads(ctx, &s, cfg.Shape, group, rep.Devices)
	if err != nil {
		return nil, err
	}
	for i, batch := range cfg.Batches {
		if cfg.Progress != nil {
			cfg.Progress(i, len(cfg.Batches))
		}
		t, err := timeRanks(ctx, cfg, heads, rep.Devices, batch)
		if err != nil {
			return nil, fmt.Errorf("batch %d: %w", batch, err)
		}
		rep.Times = append(rep.Times, t)
	}
	return rep, nil
}

func loadRankHeads(ctx context.Context, s *closing.Scope, shape ir.Shape, group *sampler.Group, devices []string) (h rankHeads, err error) {
	w := sampler.Weights{Source: newData(shape).weights, Vocab: shape.Vocab, Hidden: shape.Hidden, Layout: sampler.Packed}
	dev, err := sampler.Open(devices[0])
	if err != nil {
		return h, err
	}
	s.Keep(dev)
	if h.whole, err = dev.LoadHead(ctx, w); err != nil {
		return h, err
	}
	s.Keep(h.whole)
	if h.shared, err = group.LoadHead(ctx, w, nil); err != nil {
		return h, err
	}
	s.Keep(h.shared)
	if len(devices) > 1 && !slices.Contains(devices[1:], devices[0]) {
		w.Vocab = ir.EvenSpans(shape.Vocab, len(devices))[0].Count
		if h.shard, err = dev.LoadHead(ctx, w); err != nil {
			return h, err
		}
		s.Keep(h.shard)
	}
	return h, nil
}

// timeRanks times one batch size.
func timeRanks(ctx context.Context, cfg RanksConfig, heads rankHeads, devices []string, batch int) (t RanksTime, err error) {
	var s closing.Scope
	defer func() { err = errors.Join(err, s.CloseAll()) }()
	c := cfg.Computation
	spec := sampler.Spec{Chain: c.Chain, Sampler: c.Sampler, LogSumExp: c.LogSumExp, LogProb: c.LogProb, MaxBatch: batch}
	all, err := heads.shared.Plan(ctx, spec)
	if err != nil {
		return t, err
	}
	s.Keep(all)
	launchers, err := all.NewLaunchers(ctx)
	if err != nil {
		return t, err
	}
	ranks, err := newLanes(&s, cfg, devices, launchers, batch)
	if err != nil {
		return t, err
	}
	kinds := [][]*lane{ranks}
	for _, head := range []*sampler.Head{heads.whole, heads.shard} {
		if head == nil {
			continue
		}
		alone, err := aloneLanes(ctx, &s, cfg, head, spec, devices[0])
		if err != nil {
			return t, err
		}
		kinds = append(kinds, alone)
	}
	times, err := inTurns(ctx, cfg.Replays, kinds)
	if err != nil {
		return t, err
	}
	t = RanksTime{Batch: batch, Ranks: times[0], One: times[1]}
	if len(times) > 2 {
		t.Shard = times[2]
	}
	return t, nil
}

// aloneLanes are the launches of a head that has a GPU to itself.
func aloneLanes(ctx context.Context, s *closing.Scope, cfg RanksConfig, head *sampler.Head, spec sampler.Spec, device string) ([]*lane, error) {
	plan, err := head.Plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	s.Keep(plan)
	l, err := plan.NewLauncher(spec.MaxBatch)
	if err != nil {
		return nil, err
	}
	return newLanes(s, cfg, []string{device}, []*sampler.Launcher{l}, spec.MaxBatch)
}

// inTurns replays the lanes of each kind in turns, and returns their medians. Nothing counts before the clocks have settled.
func inTurns(ctx context.Context, replays int, kinds [][]*lane) ([]float64, error) {
	times := make([][]float64, len(kinds))
	for begin := time.Now(); len(times[0]) < replays; {
		counts := time.Since(begin) >= settling
		for i, lanes := range kinds {
			micros, err := replay(ctx, lanes)
			if err != nil {
				return nil, err
			}
			if counts {
				times[i] = append(times[i], micros)
			}
		}
	}
	medians := make([]float64, len(kinds))
	for i, some := range times {
		medians[i] = median(some)
	}
	return medians, nil
}

// replay launches all lanes' graphs at once, and returns the microseconds of a launch until the last lane is done.
func replay(ctx context.Context, lanes []*lane) (micros float64, err error) {
	first := lanes[0]
	start, err := first.ctx.NewEvent(true)
	if err != nil {
		return 0, err
	}
	defer start.Close()
	stop, err := first.ctx.NewEvent(true)
	if err != nil {
		return 0, err
	}
	defer stop.Close()
	err = start.Record(first.stream)
	for _, l := range lanes[1:] {
		err = errors.Join(err, l.stream.Wait(start))
	}
	for _, l := range lanes {
		err = errors.Join(err, l.graph.Launch(l.stream))
	}
	for _, l := range lanes[1:] {
		err = errors.Join(err, l.end.Record(l.stream), first.stream.Wait(l.end))
	}
	if err = errors.Join(err, stop.Record(first.stream), first.stream.Synchronize(ctx)); err != nil {
		return 0, err
	}
	d, err := driver.Elapsed(start, stop)
	return float64(d.Nanoseconds()) / 1e3 / rankLaunches, err
}

// newLanes captures the launches of every rank.
func newLanes(s *closing.Scope, cfg RanksConfig, devices []string, launchers []*sampler.Launcher, batch int) (all []*lane, err error) {
	for _, l := range launchers {
		s.Keep(l)
	}
	hidden := make([]uint16, batch*cfg.Shape.Hidden)
	if err := newData(cfg.Shape).hidden.ReadRows(context.Background(), hidden, 0, batch); err != nil {
		return nil, err
	}
	for i, l := range launchers {
		x, err := newLane(s, devices[i])
		if err != nil {
			return nil, err
		}
		args, err := laneArgs(s, x.ctx, hidden, batch)
		if err != nil {
			return nil, err
		}
		if err := x.capture(s, l, args); err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

func newLane(s *closing.Scope, device string) (*lane, error) {
	ordinal, err := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(device, sampler.CUDA), ":"))
	if err != nil {
		return nil, fmt.Errorf("device %s: want a GPU", device)
	}
	drv, err := driver.Open()
	if err != nil {
		return nil, err
	}
	dev, err := drv.Device(ordinal)
	if err != nil {
		return nil, err
	}
	x := &lane{}
	if x.ctx, err = dev.Context(); err != nil {
		return nil, err
	}
	s.Keep(x.ctx)
	if x.stream, err = x.ctx.NewStream(); err != nil {
		return nil, err
	}
	s.Keep(x.stream)
	if x.end, err = x.ctx.NewEvent(false); err != nil {
		return nil, err
	}
	s.Keep(x.end)
	return x, nil
}

func (x *lane) capture(s *closing.Scope, l *sampler.Launcher, args *sampler.DeviceArgs) error {
	g, err := x.stream.Capture(func() error {
		for range rankLaunches {
			if err := l.Launch(x.stream.Handle(), args); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.Keep(g)
	if x.graph, err = g.Instantiate(); err != nil {
		return err
	}
	s.Keep(x.graph)
	return nil
}

// laneArgs uploads the inputs of a rank, and makes room for its results.
func laneArgs(s *closing.Scope, ctx *driver.Context, hidden []uint16, batch int) (*sampler.DeviceArgs, error) {
	args := &sampler.DeviceArgs{Batch: batch, OneTemperature: true, OnePosition: true}
	seeds := make([]uint64, batch)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	for _, in := range []struct {
		at   *uint64
		data []byte
	}{
		{&args.Hidden, bytesOf(hidden)}, {&args.Seeds, bytesOf(seeds)}, {&args.Positions, bytesOf([]uint64{1})}, {&args.Temperature, bytesOf([]float32{1})},
		{&args.Tokens, make([]byte, 4*batch)}, {&args.Status, make([]byte, 4*batch)}, {&args.LogSumExp, make([]byte, 4*batch)}, {&args.LogProbs, make([]byte, 4*batch)},
	} {
		buf, err := alloc(ctx, s, uint64(max(len(in.data), 16)))
		if err != nil {
			return nil, err
		}
		if err := buf.Upload(0, in.data); err != nil {
			return nil, err
		}
		*in.at = uint64(buf.Ptr())
	}
	return args, nil
}
