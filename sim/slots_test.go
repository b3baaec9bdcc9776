package sim_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/arch"
	"github.com/fsgen/fsgen/ir"
	"github.com/fsgen/fsgen/reference"
)

// slotted gives a problem's parameters to its rows by slots: some have a slot to themselves, some share one, and some slots are
// nobody's.
func (p *problem) slotted() {
	r := &p.req
	p.comp.Slots, r.Computation.Slots, r.SlotCount = true, true, r.Batch
	for row := range r.Batch {
		r.Slots = append(r.Slots, int32((row*7+3)%max(1, r.Batch-r.Batch/4)))
	}
}

// Rows take their parameters from their slots. A slot that is none makes its row fail, with nothing read out of place, and no
// other row.
func TestSlots(t *testing.T) {
	for _, c := range []groupedCase{
		{arch.SM90, "m128n32k64s3c2", "bias=rows,mask,temperature", 500, 72, 40, 4},
		{arch.SM90, "m64n16k64s3c1", "temperature", 300, 64, 20, 3},
		{arch.SM100, "m128n32k64s3c2", "bias=rows,mask,temperature", 500, 72, 40, 4},
		{arch.SM100, "m128n16k64s4c1", "bias,mask", 300, 64, 20, 3},
	} {
		for _, sampler := range []ir.Sampler{ir.Gumbel, ir.Grouped, ir.Greedy} {
			if raceEnabled && sampler != ir.Gumbel {
				continue
			}
			comp := chain(t, c.chain)
			comp.Sampler, comp.LogProb, comp.Slots = sampler, ir.ProcessedLogProb, true
			comp = comp.Normalize()
			p := newProblem(comp, c.vocab, c.hidden, c.batch, 5)
			p.slotted()
			want, err := reference.Sample(context.Background(), &p.req)
			require.NoError(t, err)
			bad := map[int]int32{0: -1, 3: int32(c.batch), 7: math.MaxInt32, 8: math.MinInt32}
			for row, slot := range bad {
				p.req.Slots[row] = slot
			}
			a := mustEmit(t, comp, c.tile, c.arch)
			rep, b := runKernel(t, string(a.PTX), a.Manifest, p, c.ctas, 11)
			require.NoError(t, rep.Err())
			tokens, status, scores, logProbs := ints(b.tokens), ints(b.status), float32s(b.scores), float32s(b.logProbs)
			for row := range c.batch {
				if _, is := bad[row]; is {
					require.Equal(t, ir.StatusBadParameter, ir.Status(status[row]), "%+v: row %d", c, row)
					require.EqualValues(t, ir.NoToken, tokens[row])
					require.True(t, math.IsNaN(scores[row]) && math.IsNaN(logProbs[row]))
					continue
				}
				require.Equal(t, want.Status[row], ir.Status(status[row]), "%+v: row %d", c, row)
				require.Equal(t, want.Tokens[row], tokens[row], "%+v: row %d", c, row)
				near(t, float64(want.Scores[row]), scores[row], "score of row %d", row)
				near(t, float64(want.LogProbs[row]), logProbs[row], "log-probability of row %d", row)
			}
		}
	}
}
