package sim_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/manifest"
	"github.com/fsgen/fsgen/ptx"
	"github.com/fsgen/fsgen/reference"
	"github.com/fsgen/fsgen/sim"
	"github.com/fsgen/fsgen/templates"
)

// streamBlock is the bytes of one copy of the stream kernel.
const streamBlock = 16384

// unitKernel reads a kernel that is no sampler, with what its text says of it.
func unitKernel(t *testing.T, file, entry string, build func(arch.Arch) (*templates.Kernel, error)) (string, *ptx.Func) {
	t.Helper()
	path := "testdata/sm_90_" + file + ".ptx"
	if *freeze {
		k, err := build(arch.SM90)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(k.Module.String()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	mod, err := ptx.Parse(string(text))
	require.NoError(t, err)
	return string(text), mod.Func(entry)
}

// params describes a kernel's parameters: pointers, but for those named.
func params(f *ptx.Func, kinds map[string]manifest.Kind) []manifest.Param {
	var out []manifest.Param
	for _, v := range f.Params {
		p := manifest.Param{Name: v.Name, Offset: v.Offset, Size: v.Size(), Kind: manifest.Pointer}
		if k, ok := kinds[v.Name]; ok {
			p.Kind = k
		}
		out = append(out, p)
	}
	return out
}

// The kernel that measures the memory floor: a ring of plain bulk copies.
func TestStreamKernel(t *testing.T) {
	text, f := unitKernel(t, "stream", templates.StreamEntry, templates.Stream)
	m := &manifest.Kernel{Entry: f.Name, Arch: "sm_90", Params: params(f, map[string]manifest.Kind{"blocks": manifest.Scalar}),
		Launch: manifest.Launch{Cluster: [3]int{1, 1, 1}, Block: f.ReqThreads, SharedBytes: 12*streamBlock + 12*8}}
	p, err := sim.Load(text, m)
	require.NoError(t, err)
	const blocks = 31
	data := make([]byte, blocks*streamBlock)
	var sum uint32 // of the first words, chosen so that the kernel writes it
	for i := range blocks {
		v := rand.Uint32()
		if i == blocks-1 {
			v = sum ^ 0x5F5E1001
		}
		sum ^= v
		binary.LittleEndian.PutUint32(data[i*streamBlock:], v)
	}
	mem := sim.NewMemory()
	sink := mem.Alloc("sink", 4)
	rep, err := p.Run(context.Background(), mem, sim.Launch{CTAs: 1, Scalars: map[string]uint32{"blocks": blocks},
		Pointers: map[string]uint64{"data": mem.Put("data", data).Addr, "sink": sink.Addr}})
	require.NoError(t, err)
	require.NoError(t, rep.Err())
	require.Equal(t, []int32{0x5F5E1001}, ints(sink))
}

// The noise alone, through its unit kernel: bits equal to the reference's, values within its bound.
func TestNoiseKernel(t *testing.T) {
	text, f := unitKernel(t, "noise", templates.NoiseEntry, templates.NoiseUnit)
	m := &manifest.Kernel{Entry: f.Name, Arch: "sm_90", Launch: manifest.Launch{Cluster: [3]int{1, 1, 1}, Block: f.ReqThreads}}
	const n = 1024 // whole blocks of 16 ids
	mem := sim.NewMemory()
	bits, noise := mem.Alloc("bits", 8*n), mem.Alloc("noise", 4*n)
	l := sim.Launch{CTAs: 2, Pointers: map[string]uint64{}, Scalars: map[string]uint32{}}
	for i, v := range f.Params {
		p := manifest.Param{Name: v.Name, Offset: v.Offset, Size: v.Size(), Kind: manifest.Pointer}
		switch i {
		case 0, 1:
			l.Pointers[v.Name] = mem.Put(v.Name, bytesOf([]uint64{42})).Addr
		case 5, 6:
			l.Pointers[v.Name] = []*sim.Block{bits, noise}[i-5].Addr
		default:
			p.Kind, l.Scalars[v.Name] = manifest.Scalar, []uint32{2: 0, 3: 0, 4: n}[i]
		}
		m.Params = append(m.Params, p)
	}
	p, err := sim.Load(text, m)
	require.NoError(t, err)
	rep, err := p.Run(context.Background(), mem, l)
	require.NoError(t, err)
	require.NoError(t, rep.Err())
	row := reference.Row(42, 42, 0, 0)
	raw, words := make([]byte, 4*n), make([]byte, 8*n)
	noise.Read(0, raw)
	bits.Read(0, words)
	for i := range n {
		require.Equal(t, row.Token(i), binary.LittleEndian.Uint64(words[8*i:]), "token %d", i)
		got := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		want := row.Bits(i).Gumbel()
		require.InDelta(t, want, got, math.Ldexp(1+math.Abs(want), -20), "token %d", i)
	}
}

// A kernel is run from its text and manifest over named allocations; whatever it does wrong is in the report.
func ExampleProgram_Run() {
	text := `.version 8.0
.target sm_90a
.address_size 64
.visible .entry fill(.param .u64 out)
.reqntid 32, 1, 1
{
.reg .b32 %i;
.reg .b64 %out, %at;
ld.param.b64 %out, [out];
mov.b32 %i, %tid.x;
mad.wide.u32 %at, %i, 4, %out;
st.global.b32 [%at], %i;
ret;
}`
	m := &manifest.Kernel{Entry: "fill", Arch: "sm_90", Params: []manifest.Param{{Name: "out", Kind: manifest.Pointer, Size: 8}},
		Launch: manifest.Launch{Cluster: [3]int{1, 1, 1}, Block: [3]int{32, 1, 1}}}
	p, err := sim.Load(text, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	mem := sim.NewMemory()
	out := mem.Alloc("out", 100) // too short for 32 words
	rep, err := p.Run(context.Background(), mem, sim.Launch{CTAs: 1, Pointers: map[string]uint64{"out": out.Addr}, Seed: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rep.Err())
	// Output:
	// sim: seed 7: fill: out of bounds at line 12, CTA 0 warp 0 lane 25: 4 bytes at address 0x70000000064 is 100 bytes into "out", which has 100 [st.global.b32 [%at], %i]
}

// V=512, D=256, B=16: what a user without a GPU waits for.
func BenchmarkKernel(b *testing.B) {
	comp := chain(b, "temperature")
	for _, a := range []arch.Arch{arch.SM90, arch.SM100} {
		b.Run(a.Name, func(b *testing.B) {
			art := mustEmit(b, comp, "", a)
			p := newProblem(comp, 512, 256, 16, 1)
			for b.Loop() {
				rep, _ := runKernel(b, string(art.PTX), art.Manifest, p, 2, 1)
				require.NoError(b, rep.Err())
			}
		})
	}
}
