package disasm_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/gen"
	"github.com/fsgen/fsgen/internal/disasm"
	"github.com/fsgen/fsgen/internal/ptxas"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/tiling"
)

// machine is what the main loop of an architecture's kernels is made of.
type machine struct {
	arch          arch.Arch
	mma           string // the tensor core's instruction
	wait, release string // a stage is full; a stage is empty again
	// shape is the modifier that names the product, where SASS has one.
	shape func(t tiling.Tile) string
}

var machines = []machine{
	{arch.SM90, "HGMMA", "SYNCS.PHASECHK", "SYNCS.ARRIVE", func(t tiling.Tile) string { return fmt.Sprintf("64x%dx16", t.N) }},
	{arch.SM100, "UTCHMMA", "SYNCS.PHASECHK", "UTCBAR", func(tiling.Tile) string { return "" }},
}

// check holds the code of a kernel of a tile to what its design promises.
func (m machine) check(p *disasm.Program, t tiling.Tile) error {
	for _, local := range []string{"LDL", "STL"} {
		if at := p.Indices(local); len(at) > 0 {
			return fmt.Errorf("local memory: %s", p.Instrs[at[0]])
		}
	}
	loops, err := p.MainLoops(m.mma, m.wait)
	if err != nil {
		return err
	}
	for _, main := range loops {
		if !slices.ContainsFunc(p.Indices(m.release), main.Has) {
			return fmt.Errorf("the main loop has no %s", m.release)
		}
	}
	want := 1
	if t.PingPong { // one for each number of 64 rows that a warpgroup may have of a tile
		want = t.M / 64
	}
	if len(loops) != want {
		return fmt.Errorf("%d main loops: want %d", len(loops), want)
	}
	products := p.Indices(m.mma)
	if n := len(products); n%(t.K/16) != 0 {
		return fmt.Errorf("%d products a turn of the main loop: want a multiple of %d, one for each 16 of K = %d", n, t.K/16, t.K)
	}
	shape := m.mma
	if s := m.shape(t); s != "" {
		shape += "." + s
	}
	if x := p.Instrs[products[0]]; !x.Is(shape) {
		return fmt.Errorf("%s: want %s", x, shape)
	}
	return nil
}

// TestTensorCoresInMainLoop reads the machine code of kernels of every width.
func TestTensorCoresInMainLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("assembles kernels for seconds: not under -short")
	}
	assembler, tool := ptxas.ForTest(t), disasm.ForTest(t)
	dir := t.TempDir()
	var g errgroup.Group
	g.SetLimit(2)
	for _, m := range machines {
		kernels := everyWidth(t, m.arch)
		t.Logf("%d kernels of %s", len(kernels), m.arch.Name)
		for _, k := range kernels {
			g.Go(func() error {
				assert.NoError(t, m.read(t.Context(), assembler, tool, k, filepath.Join(dir, k.Name()+".cubin")), k.Name())
				return nil
			})
		}
	}
	_ = g.Wait()
}

// everyWidth emits kernels of each tile width, alone and in clusters of two, with scores: token by token with every transform,
// and by blocks with sums in a pass of their own.
func everyWidth(t *testing.T, a arch.Arch) (out []*gen.Artifact) {
	all, err := ir.ParseChain("scale=0.5,softcap=30,bias=rows,mask,temperature")
	require.NoError(t, err)
	out = ofEveryWidth(t, a, ir.Computation{Chain: all, Score: true})
	warm := ir.Computation{Chain: ir.Chain{Temperature: true}, Sampler: ir.Grouped, Score: true, LogSumExp: true}
	return append(out, ofEveryWidth(t, a, warm)...)
}

func ofEveryWidth(t *testing.T, a arch.Arch, c ir.Computation) (out []*gen.Artifact) {
	for _, n := range tiling.Widths(a, 1024) {
		usual, err := tiling.Default(a, c, tiling.Work{Batch: n})
		require.NoError(t, err)
		require.Equal(t, n, usual.Tile.Width())
		plans, _ := tiling.Candidates(a, c, n)
		for _, p := range plans {
			if p.Tile.Width() != n || p.Tile.M != usual.Tile.M {
				continue
			}
			k, err := gen.Emit(gen.Request{Arch: a, Computation: c, Shape: ir.Shape{Vocab: 151936, Hidden: 4096}, Tile: p.Tile})
			require.NoError(t, err)
			out = append(out, k)
		}
	}
	return out
}

func (m machine) read(ctx context.Context, assembler ptxas.Tool, tool disasm.Tool, k *gen.Artifact, cubin string) error {
	if _, err := assembler.Assemble(ctx, string(k.PTX), k.Manifest.Target, ptxas.Options{Cubin: cubin}); err != nil {
		return err
	}
	p, err := tool.Disassemble(ctx, cubin)
	if err != nil {
		return err
	}
	mt := k.Manifest.Tile
	return m.check(p, tiling.Tile{M: mt.M, N: mt.N, K: mt.K, Stages: mt.Stages, Cluster: mt.Cluster, Split: mt.Split, PingPong: mt.PingPong})
}
