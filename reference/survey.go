package reference

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fsgen/fsgen/ir"
)

// Whatever needs more of a row than its two best tokens is computed plainly: all of its logits, sorted.

// surveyed reports whether the computation asks for that.
func (r *Request) surveyed() bool {
	c := r.Computation
	return c.Truncation.Any() || c.Draws != ir.SingleDraw || c.LogProb != ir.NoLogProb
}

// surveyRows is how many rows' logits are in memory at once, computed from one reading of the weights.
const surveyRows = 16

func (r *Request) survey(ctx context.Context) (*Result, error) {
	res := newResult(r.Batch)
	res.makeRoom(r)
	hidden := r.widen()
	for first := 0; first < r.Batch; first += surveyRows {
		n := min(surveyRows, r.Batch-first)
		logits := r.logitsOf(ctx, hidden, first, n)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		inParallel(n, func(i int) { r.surveyRow(res, first+i, logits[i]) })
	}
	return res, nil
}

// makeRoom makes the arrays that the computation asks for.
func (res *Result) makeRoom(r *Request) {
	c := r.Computation
	if c.LogSumExp {
		res.LogSumExp, res.sums = make([]float32, r.Batch), make([]rowSum, r.Batch)
	}
	if c.Draws != ir.SingleDraw {
		res.Draws = filled(r.Batch*c.MaxDraws, int32(ir.NoToken))
	}
	if c.Draws == ir.WithoutReplacement {
		res.DrawScores = filled(r.Batch*c.MaxDraws, float32(math.NaN()))
	}
	if c.LogProb != ir.NoLogProb {
		res.LogProbs = filled(r.Batch, float32(math.NaN()))
	}
	if c.Rank {
		res.Ranks = make([]int32, r.Batch)
	}
	if c.TopN > 0 {
		res.TopIDs, res.TopLogProbs = filled(r.Batch*c.TopN, int32(ir.NoToken)), filled(r.Batch*c.TopN, float32(math.NaN()))
	}
	if c.Listed {
		res.Listed = make([][]float32, r.Batch)
		for b := range res.Listed {
			res.Listed[b] = filled(len(ofSlot(r.ListIDs, r.slot(b))), float32(math.NaN()))
		}
	}
}

func filled[T any](n int, x T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = x
	}
	return out
}

// inParallel runs do(0) to do(n-1) on all cores.
func inParallel(n int, do func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	group.Wait()
}

// logitsOf returns the raw logits of n rows.
func (r *Request) logitsOf(ctx context.Context, hidden []float32, first, n int) [][]float32 {
	out := make([][]float32, n)
	if r.Logits != nil {
		for i := range out {
			out[i] = r.logits(first + i)
		}
		return out
	}
	for i := range out {
		out[i] = make([]float32, r.Shape.Vocab)
	}
	chunk, d := r.chunk(), r.Shape.Hidden
	inParallel((r.Shape.Vocab+chunk-1)/chunk, func(i int) {
		if ctx.Err() == nil {
			r.multiply(out, hidden[first*d:], i*chunk, min((i+1)*chunk, r.Shape.Vocab))
		}
	})
	return out
}

// rawLogits returns those of one row.
func (r *Request) rawLogits(b int) []float32 {
	return r.logitsOf(context.Background(), r.widen(), b, 1)[0]
}

// multiply fills in the logits of tokens first to last-1, for every row.
func (r *Request) multiply(logits [][]float32, hidden []float32, first, last int) {
	d := r.Shape.Hidden
	t := newTile(d)
	var y [tileTokens]float32
	for v := first; v < last; v += tileTokens {
		n := min(tileTokens, last-v)
		t.load(r, v, n)
		for b := range logits {
			t.dot(hidden[b*d:][:d], &y)
			copy(logits[b][v:v+n], y[:])
		}
	}
}

// surveyRow computes one row from its raw logits.
func (r *Request) surveyRow(res *Result, b int, y []float32) {
	c, w := r.Computation.Normalize(), r.row(b)
	won, all := w.best(y, r.chunk())
	var kept []candidate
	if won.first.id >= 0 && !won.nan {
		z := w.candidates(y)
		if kept = w.truncate(c.Truncation, z, len(y)); len(kept) < len(z) {
			w.restrict(kept, len(y))
			won, _ = w.best(y, r.chunk())
		}
	}
	res.set(b, &w, won)
	res.setMass(b, &w, all)
	if res.Status[b] != ir.StatusOK {
		return
	}
	if c.Draws != ir.SingleDraw {
		w.draw(c, kept, len(y), res.Draws[b*c.MaxDraws:][:w.draws], res.scoresOf(b, c))
	}
	if c.LogProb != ir.NoLogProb {
		r.setLogProbs(res, b, w.distribution(c.LogProb, y, kept))
	}
}

// best scans a whole row, its mass chunk by chunk as Sample does.
func (w *row) best(y []float32, chunk int) (won best, all mass) {
	won = newBest()
	for first := 0; first < len(y); first += chunk {
		w.scan(&won, first, y[first:min(first+chunk, len(y))])
		all.merge(won.mass)
		won.mass = mass{}
	}
	return won, all
}

// candidates are the allowed tokens above -inf with their z, in order.
func (w *row) candidates(y []float32) (list []candidate) {
	for v, l := range y {
		if !w.allowed(v) {
			continue
		}
		if z := w.transform(l, v); z > negInf {
			list = append(list, candidate{z, int32(v)})
		}
	}
	return ranked(list)
}

// restrict allows the tokens kept and no other.
func (w *row) restrict(kept []candidate, vocab int) {
	w.mask, w.masked = newIDSet(vocab), true
	for _, c := range kept {
		w.mask.add(int(c.id))
	}
}
