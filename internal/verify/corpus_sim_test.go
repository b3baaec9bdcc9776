package verify

import (
	"bytes"
	"context"
	"fmt"

	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/sampler"
	"github.com/fsgen/fsgen/sim"
)

// corpusCTAs is the grid of the recorded launches: so few that small vocabularies have several waves.
const corpusCTAs = 4

// ctas is the grid of a trial on a GPU that holds a number of CTAs at once.
func (tr *trial) ctas(resident int) int {
	return tr.kernel.Manifest.Launch.Grid.CTAs(tr.pr.shape.Vocab, tr.pr.batch, resident)
}

// simulate runs a trial on the simulator, by its manifest alone. Findings are an error.
func (tr *trial) simulate(ctx context.Context) (*sampler.Result, error) {
	m := tr.kernel.Manifest
	program, err := sim.Load(string(tr.kernel.PTX), m)
	if err != nil {
		return nil, err
	}
	mem := sim.NewMemory()
	l, blocks := tr.in.launch(mem, m)
	l.CTAs, l.Seed, l.Workers = tr.ctas(corpusCTAs), corpusSeed, 1
	rep, err := program.Run(ctx, mem, l)
	if err == nil {
		err = rep.Err()
	}
	if err != nil {
		return nil, err
	}
	return tr.in.outputs(m, func(name string) []byte {
		raw := make([]byte, blocks[name].Size())
		blocks[name].Read(0, raw)
		return raw
	})
}

// launch lays the inputs out in a memory; blocks are what the pointers point to.
func (in *inputs) launch(mem *sim.Memory, m *manifest.Kernel) (l sim.Launch, blocks map[string]*sim.Block) {
	l = sim.Launch{Scalars: in.scalars, Pointers: map[string]uint64{}, Tensors: map[string]sim.Tensor{}}
	blocks = map[string]*sim.Block{}
	for _, p := range m.Params {
		switch p.Kind {
		case manifest.TensorMap:
			t := in.tensors[p.Name]
			l.Tensors[p.Name] = sim.Tensor{Addr: mem.Put(p.Name, t.data).Addr, Rows: t.rows, Cols: t.cols, Stride: t.stride}
		case manifest.Pointer:
			blocks[p.Name] = in.block(mem, p)
			l.Pointers[p.Name] = blocks[p.Name].Addr
		}
	}
	return l, blocks
}

// block makes what lies behind a pointer before a launch: inputs are read-only, so that a write is a finding.
func (in *inputs) block(mem *sim.Memory, p manifest.Param) *sim.Block {
	b := mem.Put(p.Name, in.contents(p))
	b.ReadOnly = p.Access == "read"
	return b
}

// poison fills what a kernel is to write: no token, status or score has its bits.
const poison = 0xA5

// contents is what lies behind a pointer before a launch.
func (in *inputs) contents(p manifest.Param) []byte {
	switch {
	case p.Access == "write":
		return bytes.Repeat([]byte{poison}, 4*in.rows)
	case p.Access == "workspace" && p.Shape == "batch":
		return make([]byte, 8*in.rows)
	case p.Access == "workspace":
		return make([]byte, 8)
	}
	return in.arrays[p.Name]
}

// outputs reads what a kernel wrote: every value, and the workspace zero again.
func (in *inputs) outputs(m *manifest.Kernel, read func(name string) []byte) (*sampler.Result, error) {
	raw := map[string][]byte{}
	for _, p := range m.Params {
		if p.Access == "write" || p.Access == "workspace" {
			raw[p.Name] = read(p.Name)
		}
		if p.Access == "workspace" && len(bytes.Trim(raw[p.Name], "\x00")) > 0 {
			return nil, fmt.Errorf("%s are not left zero", p.Name)
		}
		for at := 0; p.Access == "write" && at < len(raw[p.Name]); at += 4 {
			if bytes.Equal(raw[p.Name][at:at+4], bytes.Repeat([]byte{poison}, 4)) {
				return nil, fmt.Errorf("%s of row %d is not written", p.Name, at/4)
			}
		}
	}
	return in.result(raw), nil
}
