//go:build !fsgen_nocuda

package tune

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/bench"
	"github.com/fsgen/fsgen/internal/closing"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// gpuWatch times launches between events of the device's primary context, which the sampler uses too.
type gpuWatch struct {
	closing.Scope
	gpu        *driver.Device
	ctx        *driver.Context
	stream     *driver.Stream
	start, end *driver.Event
	shape      ir.Shape
	chain      ir.Chain
	at         *track
}

// track is a contest's part on the device: the inputs, and a lane for each candidate, by its first plan.
type track struct {
	closing.Scope
	contest  *contest
	launches int                // in one replay
	args     sampler.DeviceArgs // without outputs
	lanes    map[*sampler.Plan]*lane
	warm     bool
}

// lane is one candidate: a graph of launches that take turns with the copies of the head.
type lane struct {
	bench.Contender
	tokens, status *driver.Buffer
}

// replayTime is about how long a replay should take: long beside the half microsecond in which events count.
const replayTime = 5 * time.Millisecond

// openStopwatch opens a stopwatch on a GPU.
func openStopwatch(dev *sampler.Device, c ir.Computation, shape ir.Shape) (stopwatch, error) {
	w := &gpuWatch{shape: shape, chain: c.Normalize().Chain}
	if err := w.open(dev); err != nil {
		return nil, errors.Join(err, w.Scope.CloseAll())
	}
	return w, nil
}

// replayLength counts the launches of a replay from the microseconds that one is expected to take, in whole turns of the copies.
func (w *gpuWatch) replayLength(launch float64) int {
	n, turn := min(max(int(float64(replayTime.Microseconds())/launch), 5), 100), w.copies(weightBytes(w.shape))
	return (n + turn - 1) / turn * turn
}

func (w *gpuWatch) open(dev *sampler.Device) error {
	ordinal, err := strconv.Atoi(strings.TrimPrefix(dev.Info().Name, sampler.CUDA+":"))
	if err != nil {
		return fmt.Errorf("device %s: want a GPU", dev.Info().Name)
	}
	drv, err := driver.Open()
	if err != nil {
		return err
	}
	if w.gpu, err = drv.Device(ordinal); err != nil {
		return err
	}
	if w.ctx, err = w.gpu.Context(); err != nil {
		return err
	}
	w.Keep(w.ctx)
	if w.stream, err = w.ctx.NewStream(); err != nil {
		return err
	}
	w.Keep(w.stream)
	for _, e := range []**driver.Event{&w.start, &w.end} {
		if *e, err = w.ctx.NewEvent(true); err != nil {
			return err
		}
		w.Keep(*e)
	}
	return nil
}

// copies asks for four times the cache of weights in all: a cache does not drop the oldest lines in order, so that a
// little more than its size would still find some.
func (w *gpuWatch) copies(bytes uint64) int {
	l2, err := w.gpu.Attribute(driver.L2Bytes)
	if err != nil || bytes == 0 {
		return 1
	}
	return int(min(max((4*uint64(l2)+bytes-1)/bytes, 1), 16))
}

func (w *gpuWatch) time(ctx context.Context, c *contest, plans [][]*sampler.Plan, passes int) ([][]float64, error) {
	if err := w.enter(c); err != nil {
		return nil, err
	}
	var list []bench.Contender
	for _, p := range plans {
		l, err := w.lane(p)
		if err != nil {
			return nil, err
		}
		list = append(list, l.Contender)
	}
	method := bench.Method{Launches: w.at.launches, Replays: passes, WarmUps: 1}
	if !w.at.warm { // clocks settle before anything counts
		method.WarmUps, w.at.warm = 3, true
	}
	series, err := bench.Measure(ctx, list, method, bench.Watch{})
	if err != nil {
		return nil, err
	}
	times := make([][]float64, len(series))
	for i, s := range series {
		times[i] = s.Times
		if err := w.at.lanes[plans[i][0]].check(c.want); err != nil {
			return nil, fmt.Errorf("%s, after it was timed: %w", list[i].Name, err)
		}
	}
	return times, nil
}

// enter uploads a contest's inputs.
func (w *gpuWatch) enter(c *contest) error {
	if w.at != nil && w.at.contest == c {
		return nil
	}
	if err := w.forget(); err != nil {
		return err
	}
	w.at = &track{contest: c, launches: w.replayLength(c.launch), lanes: map[*sampler.Plan]*lane{}, args: sampler.DeviceArgs{Batch: c.batch, OnePosition: true}}
	in, a, words := c.in, &w.at.args, maskWords(w.shape)
	a.HiddenLD = (w.shape.Hidden + 7) / 8 * 8
	if w.chain.Bias == ir.BiasMatrix {
		a.BiasStride = w.shape.Vocab
	}
	if w.chain.Mask {
		a.MaskStride, a.MaskWords = words, words
	}
	for _, x := range []struct {
		to    *uint64
		bytes []byte
	}{
		{&a.Hidden, bytesOf(padded(in.hidden, w.shape.Hidden, a.HiddenLD))}, {&a.Seeds, bytesOf(in.rows.Seeds)},
		{&a.Positions, bytesOf(in.rows.Positions)}, {&a.Temperature, bytesOf(in.rows.Temperature)},
		{&a.Bias, bytesOf(in.rows.Bias)}, {&a.Mask, bytesOf(in.rows.Mask)},
	} {
		buf, err := w.alloc(len(x.bytes))
		if err != nil {
			return err
		}
		if err := buf.Upload(0, x.bytes); err != nil {
			return err
		}
		*x.to = uint64(buf.Ptr())
	}
	return nil
}

// alloc allocates memory for the contest.
func (w *gpuWatch) alloc(bytes int) (*driver.Buffer, error) {
	buf, err := w.ctx.Alloc(uint64(bytes))
	if err == nil {
		w.at.Keep(buf)
	}
	return buf, err
}

// lane makes a candidate's lane, or finds it.
func (w *gpuWatch) lane(plans []*sampler.Plan) (*lane, error) {
	if l := w.at.lanes[plans[0]]; l != nil {
		return l, nil
	}
	l, args := &lane{}, w.at.args
	if err := w.outputs(l, &args); err != nil {
		return nil, err
	}
	var launchers []*sampler.Launcher
	for _, p := range plans {
		launcher, err := p.NewLauncher(args.Batch)
		if err != nil {
			return nil, err
		}
		w.at.Keep(launcher)
		launchers = append(launchers, launcher)
	}
	exec, err := w.capture(launchers, &args)
	if err != nil {
		return nil, err
	}
	l.Contender = bench.Contender{Name: plans[0].Kernels()[0], Replay: func(ctx context.Context, _ func()) (time.Duration, error) {
		return w.replay(ctx, exec)
	}}
	w.at.lanes[plans[0]] = l
	return l, nil
}

// outputs allocates what a lane's launches write.
func (w *gpuWatch) outputs(l *lane, args *sampler.DeviceArgs) error {
	var scores, lse *driver.Buffer // not looked at
	for _, x := range []struct {
		buf **driver.Buffer
		to  *uint64
	}{{&l.tokens, &args.Tokens}, {&l.status, &args.Status}, {&scores, &args.Scores}, {&lse, &args.LogSumExp}} {
		var err error
		if *x.buf, err = w.alloc(4 * args.Batch); err != nil {
			return err
		}
		*x.to = uint64((*x.buf).Ptr())
	}
	return nil
}

// capture records a replay's launches.
func (w *gpuWatch) capture(launchers []*sampler.Launcher, args *sampler.DeviceArgs) (*driver.GraphExec, error) {
	g, err := w.stream.Capture(func() error {
		for i := range w.at.launches {
			if err := launchers[i%len(launchers)].Launch(w.stream.Handle(), args); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer g.Close()
	exec, err := g.Instantiate()
	if err == nil {
		w.at.Keep(exec)
	}
	return exec, err
}

func (w *gpuWatch) replay(ctx context.Context, exec *driver.GraphExec) (time.Duration, error) {
	if err := w.start.Record(w.stream); err != nil {
		return 0, err
	}
	if err := exec.Launch(w.stream); err != nil {
		return 0, err
	}
	if err := w.end.Record(w.stream); err != nil {
		return 0, err
	}
	if err := w.end.Synchronize(ctx); err != nil {
		return 0, err
	}
	return driver.Elapsed(w.start, w.end)
}

// check holds what the timed launches wrote to what they should have.
func (l *lane) check(want *sampler.Result) error {
	got := &sampler.Result{Tokens: make([]int32, len(want.Tokens)), Status: make([]ir.Status, len(want.Status))}
	if err := l.tokens.Download(bytesOf(got.Tokens), 0); err != nil {
		return err
	}
	if err := l.status.Download(bytesOf(got.Status), 0); err != nil {
		return err
	}
	return same(&sampler.Result{Tokens: want.Tokens, Status: want.Status}, got)
}

func (w *gpuWatch) forget() error {
	if w.at == nil {
		return nil
	}
	_ = w.ctx.Synchronize() // what a cancelled replay left; a fault there has been met already
	err := w.at.CloseAll()
	w.at = nil
	return err
}

func (w *gpuWatch) close() error { return errors.Join(w.forget(), w.Scope.CloseAll()) }

// padded copies rows of n values to rows of ld values.
func padded(src []uint16, n, ld int) []uint16 {
	if n == ld {
		return src
	}
	out := make([]uint16, len(src)/n*ld)
	for i := range len(src) / n {
		copy(out[i*ld:], src[i*n:(i+1)*n])
	}
	return out
}

// bytesOf views a slice of numbers as bytes.
func bytesOf[T uint16 | uint32 | uint64 | ~int32 | float32](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}
