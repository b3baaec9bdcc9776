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
	"unsafe"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/internal/closing"
	"github.com/fsgen/fsgen/internal/nvml"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// closer makes a function an io.Closer.
type closer func() error

func (f closer) Close() error { return f() }

// rig is a GPU with the inputs of every contender in its memory, and a stopwatch.
type rig struct {
	closing.Scope
	cfg    *Config
	dev    *sampler.Device
	gpu    *driver.Device
	ctx    *driver.Context
	stream *driver.Stream
	start  *driver.Event
	end    *driver.Event
	meter  func() (nvml.Reading, bool)
	device Device

	data    *data
	ld      int // of weights and hidden states, in values
	rows    sampler.Rows
	weights *driver.Buffer
	inputs  inputs
}

// inputs are the device addresses of the rows' inputs; 0 is what the computation has no use for.
type inputs struct{ hidden, seeds, positions, temperature, bias, mask, topK, topP, minP uint64 }

// openRig prepares a device. The context is the primary one, which the sampler and libcublasLt use too.
func openRig(ctx context.Context, dev *sampler.Device, cfg *Config) (*rig, error) {
	r := &rig{cfg: cfg, dev: dev, data: newData(cfg.Shape), ld: (cfg.Shape.Hidden + 7) / 8 * 8}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) open(ctx context.Context) (err error) {
	ordinal, err := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(r.dev.Info().Name, sampler.CUDA), ":"))
	if err != nil {
		return fmt.Errorf("device %s: want a GPU", r.dev.Info().Name)
	}
	drv, err := driver.Open()
	if err != nil {
		return err
	}
	if r.gpu, err = drv.Device(ordinal); err != nil {
		return err
	}
	if r.ctx, err = r.gpu.Context(); err != nil {
		return err
	}
	r.Keep(r.ctx)
	if r.stream, err = r.ctx.NewStream(); err != nil {
		return err
	}
	r.Keep(r.stream)
	for _, e := range []**driver.Event{&r.start, &r.end} {
		if *e, err = r.ctx.NewEvent(true); err != nil {
			return err
		}
		r.Keep(*e)
	}
	r.device = Device{Name: r.gpu.Name(), Driver: strings.TrimSuffix(fmt.Sprintf("CUDA %s, release %s", drv.Version(), drv.Release()), ", release ")}
	r.watch()
	return r.fill(ctx)
}

// watch finds the GPU's clocks; without the library the report has none.
func (r *rig) watch() {
	lib, err := nvml.Open()
	if err != nil {
		return
	}
	r.Keep(lib)
	d, err := lib.Device(fmt.Sprint(r.gpu.UUID()))
	if err != nil {
		return
	}
	r.device.PowerLimit = d.PowerLimit()
	r.meter = func() (nvml.Reading, bool) {
		reading, err := d.Read()
		return reading, err == nil
	}
}

// fill uploads weights, hidden states and parameters.
func (r *rig) fill(ctx context.Context) (err error) {
	most := slices.Max(r.cfg.Batches)
	if r.weights, err = r.upload(ctx, "loading weights", r.data.weights, r.cfg.Shape.Vocab); err != nil {
		return err
	}
	hidden, err := r.upload(ctx, "loading hidden states", r.data.hidden, most)
	if err != nil {
		return err
	}
	r.inputs.hidden = uint64(hidden.Ptr())
	c := r.cfg.Computation.Normalize()
	r.rows = rowsOf(c, r.cfg.Shape, most)
	for _, x := range []struct {
		to    *uint64
		bytes []byte
	}{{&r.inputs.seeds, bytesOf(r.rows.Seeds)}, {&r.inputs.positions, bytesOf(r.rows.Positions)}, {&r.inputs.temperature, bytesOf(r.rows.Temperature)},
		{&r.inputs.bias, bytesOf(r.rows.Bias)}, {&r.inputs.mask, bytesOf(r.rows.Mask)},
		{&r.inputs.topK, bytesOf(r.rows.TopK)}, {&r.inputs.topP, bytesOf(r.rows.TopP)}, {&r.inputs.minP, bytesOf(r.rows.MinP)}} {
		if len(x.bytes) == 0 {
			continue
		}
		buf, err := alloc(r.ctx, &r.Scope, uint64(len(x.bytes)))
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

// chunkBytes is how much of a matrix is laid out at a time.
const chunkBytes = 32 << 20

// upload makes a matrix of rows ld values apart in the device's memory, and zeros up to a whole block of the floor's.
func (r *rig) upload(ctx context.Context, what string, m matrix, rows int) (*driver.Buffer, error) {
	size := uint64(rows) * uint64(r.ld) * 2
	buf, err := alloc(r.ctx, &r.Scope, roundUp(size))
	if err != nil {
		return nil, err
	}
	if err := buf.Upload(size, make([]byte, roundUp(size)-size)); err != nil {
		return nil, err
	}
	chunk := make([]uint16, max(1, min(rows, chunkBytes/(2*r.ld)))*r.ld)
	for from := 0; from < rows; from += len(chunk) / r.ld {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.cfg.progress(from, rows, what)
		n := min(len(chunk)/r.ld, rows-from)
		for i := range n {
			copy(chunk[i*r.ld:], m.row(from+i))
		}
		if err := buf.Upload(uint64(from)*uint64(r.ld)*2, bytesOf(chunk[:n*r.ld])); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

func alloc(ctx *driver.Context, s *closing.Scope, size uint64) (*driver.Buffer, error) {
	buf, err := ctx.Alloc(size)
	if err != nil {
		return nil, err
	}
	s.Keep(buf)
	return buf, nil
}

// graph makes a contender of a launch: a graph of as many of them as a replay has.
func (r *rig) graph(s *closing.Scope, name, kernel string, launch func() error) (Contender, error) {
	g, err := r.stream.Capture(func() error {
		for range r.cfg.Method.Launches {
			if err := launch(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Contender{}, err
	}
	defer g.Close()
	exec, err := g.Instantiate()
	if err != nil {
		return Contender{}, err
	}
	s.Keep(exec)
	return Contender{Name: name, Kernel: kernel, Replay: func(ctx context.Context, during func()) (time.Duration, error) {
		return r.replay(ctx, exec, during)
	}}, nil
}

// replay times a graph between two events.
func (r *rig) replay(ctx context.Context, exec *driver.GraphExec, during func()) (time.Duration, error) {
	if err := r.start.Record(r.stream); err != nil {
		return 0, err
	}
	if err := exec.Launch(r.stream); err != nil {
		return 0, err
	}
	if err := r.end.Record(r.stream); err != nil {
		return 0, err
	}
	during()
	if err := r.end.Synchronize(ctx); err != nil {
		return 0, err
	}
	return driver.Elapsed(r.start, r.end)
}

// close waits for what a cancelled run left on the device, and gives everything back.
func (r *rig) close() error {
	if r.ctx != nil {
		_ = r.ctx.Synchronize() // a fault there has been met already, by what was timed
	}
	return r.Scope.CloseAll()
}

// bytesOf views a slice of numbers as bytes.
func bytesOf[T uint16 | uint32 | uint64 | int32 | float32](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

func (r *rig) computation() ir.Computation { return r.cfg.Computation.Normalize() }
