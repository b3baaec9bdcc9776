//go:build !fsgen_nocuda

package sampler

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/ir"
)

// TestGPUListedLogProbs holds lists over a whole vocabulary to the CPU's, from both layouts of the weights; ids out of range, which no
// host has checked, give NaN.
func TestGPUListedLogProbs(t *testing.T) {
	dev := gpu(t)
	const v, d, n, length = 151936, 512, 9, 20
	rng := rand.New(rand.NewPCG(21, 2))
	p := &problem{v: v, d: d, n: n, w: normals(rng, v*d, 4/math.Sqrt(d)), h: normals(rng, n*d, 1)}
	p.rows = Rows{Positions: []uint64{5}, Temperature: []float32{0, .3, .7, .9, 1, 1, 1.3, 2, 40}}
	for range n {
		p.rows.Seeds, p.rows.ListIDs = append(p.rows.Seeds, rng.Uint64()), append(p.rows.ListIDs, nil)
		for range length {
			p.rows.ListIDs[len(p.rows.Seeds)-1] = append(p.rows.ListIDs[len(p.rows.Seeds)-1], int32(rng.IntN(v)))
		}
	}
	cpu, err := Open(CPU)
	require.NoError(t, err)
	for _, mode := range []ir.LogProb{ir.RawLogProb, ir.TemperatureLogProb, ir.ProcessedLogProb} {
		spec := Spec{Chain: ir.Chain{Temperature: true}, LogProb: mode, ListLogProbs: true, MaxBatch: n}
		want := p.sampleLists(t, cpu, RowMajor, spec)
		for _, layout := range []Layout{RowMajor, Packed} {
			got := p.sampleLists(t, dev, layout, spec)
			require.Equal(t, want.Tokens, got.Tokens)
			for b, list := range want.ListLogProbs {
				for i, x := range list {
					nearLogProb(t, x, got.ListLogProbs[b][i], 1e-4, "%s, %s: row %d", mode, layout, b)
				}
			}
		}
	}
}

func (p *problem) sampleLists(t *testing.T, dev *Device, layout Layout, spec Spec) *Result {
	head, err := dev.LoadHead(t.Context(), Weights{Source: Matrix{Data: p.w, Hidden: p.d}, Vocab: p.v, Hidden: p.d, Layout: layout})
	require.NoError(t, err)
	defer head.Close()
	plan, err := head.Plan(t.Context(), spec)
	require.NoError(t, err)
	defer plan.Close()
	res, err := plan.Sample(t.Context(), p.h, p.rows)
	require.NoError(t, err)
	return res
}

// mostForLists is what a launch that lists 20 ids a row may take over one of the plain kernel.
const mostForLists = 1.05

// TestGPUListsCostLittle times lists up to 64 rows.
func TestGPUListsCostLittle(t *testing.T) {
	if os.Getenv("FSGEN_TIME") == "" {
		t.Skip("set FSGEN_TIME=1 to time")
	}
	timedOverPlain(t, mostForLists, func(batch int) []Spec {
		return []Spec{{LogProb: ir.RawLogProb, ListLogProbs: true}, {LogProb: ir.ProcessedLogProb, ListLogProbs: true}}
	})
}

// listArgs adds 20 ids a row to the arguments of a launch.
func listArgs(t *testing.T, dev *Device, args *DeviceArgs, vocab int) {
	const length = 20
	ids := make([]int32, length*args.Batch)
	for i := range ids {
		ids[i] = rand.Int32N(int32(vocab))
	}
	args.ListIDs, args.ListLogProbs = upload(t, dev, ids), upload(t, dev, make([]float32, len(ids)))
	args.ListLength, args.ListStride = length, length
}

// TestGPUListsInAGraph: a captured launch follows the ids in memory.
func TestGPUListsInAGraph(t *testing.T) {
	dev := gpu(t)
	rng := rand.New(rand.NewPCG(15, 4))
	p := newProblem(rng, 3000, 64, 13)
	spec := Spec{Chain: ir.Chain{Temperature: true}, LogProb: ir.ProcessedLogProb, ListLogProbs: true}
	l := newLaunchedSpec(t, dev, p, spec)
	listArgs(t, dev, l.args, p.v)
	l.args.Draw, l.args.StreamTag = p.rows.Draw, p.rows.StreamTag
	graph, err := l.stream.Capture(func() error { return l.launcher.Launch(l.stream.Handle(), l.args) })
	require.NoError(t, err)
	defer graph.Close()
	exec, err := graph.Instantiate()
	require.NoError(t, err)
	defer exec.Close()
	cpu, err := Open(CPU)
	require.NoError(t, err)
	for range 5 {
		q := *p
		var flat []int32
		q.rows.ListIDs = nil
		for range p.n {
			var ids []int32
			for range l.args.ListLength {
				ids = append(ids, rng.Int32N(int32(p.v)))
			}
			q.rows.ListIDs, flat = append(q.rows.ListIDs, ids), append(flat, ids...)
		}
		head, err := cpu.LoadHead(t.Context(), Weights{Source: Matrix{Data: p.w, Hidden: p.d}, Vocab: p.v, Hidden: p.d})
		require.NoError(t, err)
		plan, err := head.Plan(t.Context(), spec)
		require.NoError(t, err)
		rows := q.rows
		rows.Bias, rows.Mask = nil, nil
		want, err := plan.Sample(t.Context(), p.h, rows)
		require.NoError(t, err)
		flat[3], flat[25] = -1, int32(p.v)
		require.NoError(t, l.ctx.CopyToDevice(driver.DevicePtr(l.args.ListIDs), asBytes(flat)))
		require.NoError(t, exec.Launch(l.stream))
		require.NoError(t, l.stream.Synchronize(context.Background()))
		got := make([]float32, len(flat))
		require.NoError(t, l.ctx.CopyFromDevice(asBytes(got), driver.DevicePtr(l.args.ListLogProbs)))
		for i, x := range got {
			if i == 3 || i == 25 {
				require.True(t, math.IsNaN(float64(x)))
				continue
			}
			nearLogProb(t, want.ListLogProbs[i/l.args.ListLength][i%l.args.ListLength], x, 1e-3, "place %d", i)
		}
	}
}
