package sim_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/ir"
)

// plainLogProb is the log-probability of a row's token in a mode, from the row's definition alone.
func (p *problem) plainLogProb(row int, token int32) float64 {
	if token < 0 {
		return math.NaN()
	}
	model, t := *p, 1.0
	if p.comp.LogProb != ir.ProcessedLogProb {
		model.comp.Chain.Bias, model.comp.Chain.Mask = ir.BiasNone, false
	}
	if p.comp.Chain.Temperature && p.comp.LogProb != ir.RawLogProb && p.req.Temperature[row] != 0 {
		t = float64(p.req.Temperature[row])
	}
	z, top, infinite, sum := model.plainLogits(row), math.Inf(-1), 0.0, 0.0
	for i, x := range z {
		if math.IsNaN(x) {
			z[i] = math.Inf(-1) // of a token that is not allowed
		}
		top = max(top, z[i])
		if math.IsInf(x, 1) {
			infinite++
		}
	}
	switch {
	case math.IsInf(z[token], 1):
		return -math.Log(infinite)
	case infinite > 0:
		return math.Inf(-1)
	}
	for _, x := range z {
		sum += math.Exp((x - top) / t)
	}
	return min(0, (z[token]-top)/t-math.Log(sum))
}

// Every mode gives what the plain computation gives, on every kind of row, whatever ran at the same time, and the same tokens,
// statuses and scores as without.
func TestLogProbs(t *testing.T) {
	for i, c := range lseCases {
		if raceEnabled && i%5 != 0 || c.vocab*c.batch > 20000 { // the large ones are the log-sum-exp's
			continue
		}
		sampler, mode := []ir.Sampler{ir.Gumbel, ir.Greedy, ir.Grouped}[i%3], ir.RawLogProb+ir.LogProb((i+i/3)%3)
		t.Run(fmt.Sprintf("%s_%s_%s_%s_%s", c.arch.Name, c.tile, sampler, c.chain, mode), func(t *testing.T) {
			comp := chain(t, c.chain)
			comp.Sampler = sampler
			comp = comp.Normalize()
			p := newProblem(comp, c.vocab, c.hidden, c.batch, 5)
			p.strange()
			plain := mustEmit(t, comp, c.tile, c.arch)
			p.comp.LogProb, comp.LogProb = mode, mode
			a := mustEmit(t, comp, c.tile, c.arch)
			_, without := runKernel(t, string(plain.PTX), plain.Manifest, p, c.ctas, 11)
			rep, b := runKernel(t, string(a.PTX), a.Manifest, p, c.ctas, 12)
			require.NoError(t, rep.Err())
			require.Equal(t, ints(without.tokens), ints(b.tokens))
			require.Equal(t, ints(without.status), ints(b.status))
			require.Equal(t, ints(without.scores), ints(b.scores))
			for row, got := range float32s(b.logProbs) {
				near(t, p.plainLogProb(row, ints(b.tokens)[row]), got, "log-probability of row %d", row)
			}
			_, again := runKernel(t, string(a.PTX), a.Manifest, p, c.ctas, 13)
			require.Equal(t, ints(b.logProbs), ints(again.logProbs), "the same bits on every run")
		})
	}
}
