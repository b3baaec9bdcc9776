// Command ranks samples with ranks that share the vocabulary, as an engine with tensor parallelism does: one process a rank, which find
// each other by a name, or all in one process. Every rank prints the tokens of all rows, and they are those of one device:
//
//	go run ./examples/inputs DIR
//	go run ./examples/go/ranks -in DIR -ranks 2 -devices cuda:0,cuda:1              in one process
//	go run ./examples/go/ranks -in DIR -ranks 2 -devices cuda:0,cuda:1 -processes   one process a rank; cuda:0 alone makes virtual ranks
//	go run ./examples/go/ranks -in DIR -ranks 2 -devices cpu
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/sampler"
)

// config is what the command line says.
type config struct {
	in, name     string
	ranks, rank  int
	devices      []string
	processes    bool
	one          bool // this process is one rank of several
	errorsToward io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "ranks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	c := config{errorsToward: errs}
	f := flag.NewFlagSet("ranks", flag.ContinueOnError)
	f.StringVar(&c.in, "in", "", "folder that examples/inputs has written")
	f.IntVar(&c.ranks, "ranks", 2, "how many ranks share the vocabulary")
	devices := f.String("devices", sampler.Auto, "their devices, which they take in turn; auto is the GPUs that there are")
	f.BoolVar(&c.processes, "processes", false, "start a process for each rank")
	f.IntVar(&c.rank, "rank", -1, "be that rank, the others being processes of their own")
	f.StringVar(&c.name, "name", "", "name by which the processes find each other")
	if err := f.Parse(args); err != nil {
		return err
	}
	c.devices, c.one = strings.Split(*devices, ","), c.rank >= 0
	if c.in == "" || c.ranks < 1 || c.rank >= c.ranks || c.one && c.name == "" {
		return errors.New("want -in DIR, -ranks of 1 or more, and -name beside a -rank below -ranks")
	}
	if err := c.spread(); err != nil {
		return err
	}
	if c.processes {
		return c.start(ctx, out)
	}
	tokens, err := c.sample(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(map[string]any{"tokens": tokens})
}

// spread names the device of each rank.
func (c *config) spread() (err error) {
	if len(c.devices) == 1 {
		var fallback error // to the CPU, whose ranks are all in one process
		c.devices, fallback, err = sampler.GroupDevices(c.devices[0], c.ranks)
		if err == nil && (c.processes || c.one) {
			err = fallback
		}
		return err
	}
	given := c.devices
	c.devices = nil
	for rank := range c.ranks {
		c.devices = append(c.devices, given[rank%len(given)])
	}
	return nil
}

// start runs a process for each rank, and prints the tokens on which all of them agree.
func (c *config) start(ctx context.Context, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	said := make([]bytes.Buffer, c.ranks)
	all, ctx := errgroup.WithContext(ctx)
	for rank := range c.ranks {
		cmd := exec.CommandContext(ctx, self, "-in", c.in, "-ranks", fmt.Sprint(c.ranks), "-devices", strings.Join(c.devices, ","),
			"-rank", fmt.Sprint(rank), "-name", fmt.Sprintf("ranks-%d", os.Getpid()))
		cmd.Stdout, cmd.Stderr = &said[rank], c.errorsToward
		all.Go(func() error {
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for rank := range said {
		if !bytes.Equal(said[0].Bytes(), said[rank].Bytes()) {
			return fmt.Errorf("rank %d has %s, and rank 0 %s", rank, &said[rank], &said[0])
		}
	}
	_, err = said[0].WriteTo(out)
	return err
}

// sample opens the group, of which this process has one rank or all, and samples once.
func (c *config) sample(ctx context.Context) ([]int32, error) {
	p, err := read(c.in)
	if err != nil {
		return nil, err
	}
	cfg := sampler.GroupConfig{Devices: c.devices}
	if c.one {
		cfg = sampler.GroupConfig{Devices: c.devices[c.rank : c.rank+1], World: c.ranks, Rank: c.rank, Name: c.name}
	}
	g, err := sampler.OpenGroup(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	head, err := g.LoadHead(ctx, sampler.Weights{Source: sampler.Matrix{Data: p.weights, Hidden: p.width}, Vocab: p.vocab, Hidden: p.width}, nil)
	if err != nil {
		return nil, err
	}
	defer head.Close()
	plan, err := head.Plan(ctx, sampler.Spec{Chain: ir.Chain{Temperature: true}, MaxBatch: p.batch})
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	res, err := plan.Sample(ctx, p.states, p.rows)
	if err != nil {
		return nil, err
	}
	return res.Tokens, nil
}

// problem is what examples/inputs writes.
type problem struct {
	vocab, width, batch int
	weights, states     []uint16
	rows                sampler.Rows
}

func read(dir string) (p problem, err error) {
	shape, err := os.ReadFile(filepath.Join(dir, "shape.txt"))
	if err != nil {
		return p, err
	}
	if _, err := fmt.Sscan(string(shape), &p.vocab, &p.width, &p.batch); err != nil {
		return p, fmt.Errorf("shape.txt: %w", err)
	}
	p.weights, p.states = make([]uint16, p.vocab*p.width), make([]uint16, p.batch*p.width)
	p.rows = sampler.Rows{Seeds: make([]uint64, p.batch), Positions: make([]uint64, p.batch), Temperature: make([]float32, p.batch)}
	return p, errors.Join(values(dir, "weights", p.weights), values(dir, "hidden", p.states), values(dir, "seed", p.rows.Seeds),
		values(dir, "position", p.rows.Positions), values(dir, "temperature", p.rows.Temperature))
}

// values reads a file of as many values as there is room for.
func values[T uint16 | uint64 | float32](dir, name string, v []T) error {
	data, err := os.ReadFile(filepath.Join(dir, name+".bin"))
	if err == nil && len(data) != binary.Size(v) {
		err = fmt.Errorf("%s.bin: %d bytes, want %d", name, len(data), binary.Size(v))
	}
	if err == nil {
		_, err = binary.Decode(data, binary.LittleEndian, v)
	}
	return err
}
