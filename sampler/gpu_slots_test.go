//go:build !fsgen_nocuda

package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/driver"
	"github.com/fsgen/fsgen/ir"
)

// TestGPUSlotsInAGraph: a captured launch follows the slots in memory, whatever stands there: rows take other parameters, and
// rows whose slot is none fail alone. Where rows are truncated, in every kernel of every pass.
func TestGPUSlotsInAGraph(t *testing.T) {
	dev := gpu(t)
	for _, spec := range []Spec{
		{Chain: ir.Chain{Temperature: true, Mask: true}, Slots: true, LogProb: ir.RawLogProb},
		{Chain: ir.Chain{Temperature: true, Mask: true}, Slots: true, Truncation: ir.Truncation{TopK: true, TopP: true}, Passes: 8},
	} {
		t.Run(spec.Truncation.String(), func(t *testing.T) { slotsInAGraph(t, dev, spec) })
	}
}

func slotsInAGraph(t *testing.T, dev *Device, spec Spec) {
	rng := rand.New(rand.NewPCG(11, 4))
	p := newProblem(rng, 3000, 64, 13)
	l := newLaunchedSpec(t, dev, p, spec)
	if spec.Truncation.Any() {
		for range p.n {
			p.rows.TopK, p.rows.TopP = append(p.rows.TopK, topKs[rng.IntN(len(topKs))]), append(p.rows.TopP, topPs[rng.IntN(len(topPs))])
		}
		l.args.TopK, l.args.TopP, l.args.Passes = upload(t, dev, p.rows.TopK), upload(t, dev, p.rows.TopP), upload(t, dev, make([]int32, p.n))
	}
	slots := make([]int32, p.n)
	l.args.Slots, l.args.SlotCount = upload(t, dev, slots), p.n
	l.args.Mask, l.args.MaskStride, l.args.MaskWords = upload(t, dev, p.rows.Mask), (p.v+31)/32, (p.v+31)/32
	l.args.Draw, l.args.StreamTag = p.rows.Draw, p.rows.StreamTag
	graph, err := l.stream.Capture(func() error { return l.launcher.Launch(l.stream.Handle(), l.args) })
	require.NoError(t, err)
	defer graph.Close()
	exec, err := graph.Instantiate()
	require.NoError(t, err)
	defer exec.Close()
	cpu, err := Open(CPU)
	require.NoError(t, err)
	for range 20 {
		for i := range slots {
			slots[i] = int32(rng.IntN(p.n))
		}
		q := *p
		q.rows.Slots, q.rows.SlotCount = slots, p.n
		want := q.sample(t, cpu, spec)
		given := slices.Clone(slots)
		bad := map[int]int32{rng.IntN(4): -1, 4 + rng.IntN(4): int32(p.n), 8 + rng.IntN(4): math.MinInt32}
		for row, slot := range bad {
			given[row] = slot
		}
		require.NoError(t, l.ctx.CopyToDevice(driver.DevicePtr(l.args.Slots), asBytes(given)))
		require.NoError(t, exec.Launch(l.stream))
		tokens, status, logProbs := l.words(t, l.args.Tokens), l.words(t, l.args.Status), l.words(t, l.args.LogProbs)
		for row := range p.n {
			if _, is := bad[row]; is {
				require.EqualValues(t, ir.StatusBadParameter, status[row])
				require.EqualValues(t, ir.NoToken, int32(tokens[row]))
				continue
			}
			require.EqualValues(t, ir.StatusOK, status[row])
			require.Equal(t, want.Tokens[row], int32(tokens[row]))
			if spec.LogProb != ir.NoLogProb {
				require.InDelta(t, want.LogProbs[row], math.Float32frombits(logProbs[row]), 1e-3)
			}
		}
	}
}
