//go:build !fsgen_nocuda

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/sampler"
)

// newStepper captures graphs on a GPU; elsewhere steps are plain calls.
func newStepper(ctx context.Context, dev *sampler.Device, plan *sampler.Plan, hidden int, buckets []int) (stepper, error) {
	ordinal := 0
	if name := dev.Info().Name; !strings.HasPrefix(name, sampler.CUDA) {
		return plainStepper{plan}, nil
	} else if _, err := fmt.Sscanf(name, "cuda:%d", &ordinal); err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	g := &graphs{hidden: hidden, byBucket: map[int]*bucketGraph{}}
	if err := g.open(ordinal, plan, buckets); err != nil {
		return nil, errors.Join(err, g.close())
	}
	for _, b := range buckets {
		graph, err := g.capture(ctx, b)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("batches of %d: %w", b, err), g.close())
		}
		g.byBucket[b] = graph
	}
	return g, nil
}

// graphs are a captured graph for each bucket, all over one block of device memory and one of pinned memory.
type graphs struct {
	hidden, ld int // ld: rows of 16-byte units
	maxBatch   int
	ctx        *driver.Context
	stream     *driver.Stream
	launcher   *sampler.Launcher
	dev        *driver.Buffer
	host       *driver.HostBuffer
	byBucket   map[int]*bucketGraph
	opened     []interface{ Close() error }
}

// bucketGraph copies the inputs of a bucket's rows in, samples, and copies the tokens out.
type bucketGraph struct {
	exec *driver.GraphExec
	at   places
}

// places are offsets in the blocks of memory, in bytes.
type places struct{ hidden, seeds, positions, temperature, tokens, status, end int }

// layout places the values of a bucket's rows: inputs first, and outputs behind them.
func (g *graphs) layout(rows int) (p places) {
	end := 0
	place := func(bytes int) int {
		at := end
		end = (end + bytes + 255) &^ 255
		return at
	}
	p.hidden, p.seeds, p.positions, p.temperature = place(2*g.ld*rows), place(8*rows), place(8*rows), place(4*rows)
	p.tokens, p.status = place(4*rows), place(4*rows)
	p.end = end
	return p
}

func opened[T interface{ Close() error }](g *graphs, x T, err error) (T, error) {
	if err == nil {
		g.opened = append(g.opened, x)
	}
	return x, err
}

// open shares the device's context with the sampler: there is one for each GPU in a process.
func (g *graphs) open(ordinal int, plan *sampler.Plan, buckets []int) error {
	g.ld, g.maxBatch = (g.hidden+7)/8*8, buckets[len(buckets)-1]
	drv, err := driver.Open()
	if err != nil {
		return err
	}
	device, err := drv.Device(ordinal)
	if err != nil {
		return err
	}
	context, err := device.Context()
	if g.ctx, err = opened(g, context, err); err != nil {
		return err
	}
	stream, err := g.ctx.NewStream()
	if g.stream, err = opened(g, stream, err); err != nil {
		return err
	}
	launcher, err := plan.NewLauncher(g.maxBatch)
	if g.launcher, err = opened(g, launcher, err); err != nil {
		return err
	}
	size := g.layout(g.maxBatch).end
	dev, err := g.ctx.Alloc(uint64(size))
	if g.dev, err = opened(g, dev, err); err != nil {
		return err
	}
	host, err := g.ctx.AllocHost(size)
	if g.host, err = opened(g, host, err); err != nil {
		return err
	}
	clear(g.host.Bytes())
	return nil
}

// capture records a step of a batch size. A first launch ahead of it leaves nothing for the capture to load.
func (g *graphs) capture(ctx context.Context, rows int) (*bucketGraph, error) {
	at := g.layout(rows)
	device := func(offset int) uint64 { return uint64(g.dev.Ptr()) + uint64(offset) }
	args := &sampler.DeviceArgs{Batch: rows, Hidden: device(at.hidden), HiddenLD: g.ld, Seeds: device(at.seeds), Positions: device(at.positions),
		Temperature: device(at.temperature), Tokens: device(at.tokens), Status: device(at.status)}
	work := func() error {
		return errors.Join(
			g.stream.CopyToDevice(g.dev.Ptr(), g.host, 0, at.tokens),
			g.launcher.Launch(g.stream.Handle(), args),
			g.stream.CopyFromDevice(g.host, at.tokens, at.end-at.tokens, g.dev.Ptr()+driver.DevicePtr(at.tokens)))
	}
	if err := errors.Join(work(), g.stream.Synchronize(ctx)); err != nil {
		return nil, err
	}
	graph, err := g.stream.Capture(work)
	if err != nil {
		return nil, err
	}
	exec, err := graph.Instantiate()
	if err = errors.Join(err, graph.Close()); err != nil {
		return nil, err
	}
	g.opened = append(g.opened, exec)
	return &bucketGraph{exec, at}, nil
}

func (g *graphs) how() string { return "a captured graph for each bucket" }

// step fills in the rows and replays the bucket's graph. Rows that are not there are what the last step left: sampled, and
// nobody's.
func (g *graphs) step(ctx context.Context, bucket int, in *rows) ([]int32, error) {
	b, mem := g.byBucket[bucket], g.host.Bytes()
	le := binary.LittleEndian
	for row := range in.seeds {
		for i, x := range in.hidden[row*g.hidden : (row+1)*g.hidden] {
			le.PutUint16(mem[b.at.hidden+2*(row*g.ld+i):], x)
		}
		le.PutUint64(mem[b.at.seeds+8*row:], in.seeds[row])
		le.PutUint64(mem[b.at.positions+8*row:], in.positions[row])
		if _, err := binary.Encode(mem[b.at.temperature+4*row:], le, in.temperature[row]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(b.exec.Launch(g.stream), g.stream.Synchronize(ctx)); err != nil {
		return nil, err
	}
	tokens := make([]int32, len(in.seeds))
	for row := range tokens {
		tokens[row] = int32(le.Uint32(mem[b.at.tokens+4*row:]))
	}
	return tokens, nil
}

// close frees everything, last things first.
func (g *graphs) close() error {
	var errs []error
	for i := len(g.opened) - 1; i >= 0; i-- {
		errs = append(errs, g.opened[i].Close())
	}
	return errors.Join(errs...)
}
