//go:build !fsgen_nocuda

package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/closing"
	"github.com/fsgen/fsgen/sampler"
)

// rankLaunches is the launches of one graph.
const rankLaunches = 20

// lane is one rank's launches, on a stream of its device.
type lane struct {
	ctx    *driver.Context
	stream *driver.Stream
	graph  *driver.GraphExec
	end    *driver.Event
}

// RunRanks times ranks on GPUs, all in this process, against the first one's GPU alone.
func RunRanks(ctx context.Context, cfg RanksConfig) (rep *RanksReport, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	var s closing.Scope
	defer func() { err = errors.Join(err, s.CloseAll()) }()
	weights := newData(cfg.Shape).weights
	w := sampler.Weights{Source: weights, Vocab: cfg.Shape.Vocab, Hidden: cfg.Shape.Hidden, Layout: sampler.Packed}
	group, err := sampler.OpenGroup(ctx, cfg.Group)
	if err != nil {
		return nil, err
	}
	s.Keep(group)
	rep = &RanksReport{Schema: 1, Devices: group.Info().Devices, Transport: group.Info().Transport, Shape: cfg.Shape}
	dev, err := sampler.Open(cfg.Group.Devices[0])
	if err != nil {
		return nil, err
	}
	s.Keep(dev)
	whole, err := dev.LoadHead(ctx, w)
	if err != nil {
		return nil, err
	}
	s.Keep(whole)
	shared, err := group.LoadHead(ctx, w, nil)
	if err != nil {
		return nil, err
	}
	s.Keep(shared)
	for i, batch := range cfg.Batches {
		if cfg.Progress != nil {
			cfg.Progress(i, len(cfg.Batches))
		}
		t, err := timeRanks(ctx, cfg, whole, shared, rep.Devices, batch)
		if err != nil {
			return nil, fmt.Errorf("batch %d: %w", batch, err)
		}
		rep.Times = append(rep.Times, t)
	}
	return rep, nil
}

// timeRanks times one batch size.
func timeRanks(ctx context.Context, cfg RanksConfig, whole *sampler.Head, shared *sampler.GroupHead, devices []string, batch int) (t RanksTime, err error) {
	var s closing.Scope
	defer func() { err = errors.Join(err, s.CloseAll()) }()
	c := cfg.Computation
	spec := sampler.Spec{Chain: c.Chain, Sampler: c.Sampler, LogSumExp: c.LogSumExp, LogProb: c.LogProb, MaxBatch: batch}
	one, err := whole.Plan(ctx, spec)
	if err != nil {
		return t, err
	}
	s.Keep(one)
	all, err := shared.Plan(ctx, spec)
	if err != nil {
		return t, err
	}
	s.Keep(all)
	l, err := one.NewLauncher(batch)
	if err != nil {
		return t, err
	}
	launchers, err := all.NewLaunchers(ctx)
	if err != nil {
		return t, errors.Join(err, l.Close())
	}
	alone, err := newLanes(&s, cfg, devices[:1], []*sampler.Launcher{l}, batch)
	if err != nil {
		return t, err
	}
	ranks, err := newLanes(&s, cfg, devices, launchers, batch)
	if err != nil {
		return t, err
	}
	t.Batch = batch
	t.One, t.Ranks, err = inTurns(ctx, cfg.Replays, alone, ranks)
	return t, err
}

// inTurns replays the lanes of both kinds in turns, and returns the medians.
func inTurns(ctx context.Context, replays int, a, b []*lane) (ta, tb float64, err error) {
	var as, bs []float64
	for round := range replays + 3 {
		x, err := replay(ctx, a)
		if err != nil {
			return 0, 0, err
		}
		y, err := replay(ctx, b)
		if err != nil {
			return 0, 0, err
		}
		if round >= 3 { // clocks settle before anything counts
			as, bs = append(as, x), append(bs, y)
		}
	}
	return median(as), median(bs), nil
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
