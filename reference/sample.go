package reference

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fsgen/fsgen/ir"
)

// Sample draws one token a row. It spreads the vocabulary over GOMAXPROCS goroutines and looks at ctx between chunks;
// it holds no [Batch, Vocab] buffer. The request is checked first (Validate); a bad temperature or parameter is a row's
// status here.
func Sample(ctx context.Context, r *Request) (*Result, error) {
	if err := r.validateLayout(); err != nil {
		return nil, err
	}
	if r.surveyed() {
		return r.survey(ctx)
	}
	j := &job{req: r, ctx: ctx, hidden: r.widen(), rows: make([]row, r.Batch), chunk: r.chunk(), masses: r.masses()}
	for b := range j.rows {
		j.rows[b] = r.row(b)
	}
	all := j.run()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	res := newResult(r.Batch)
	if j.masses != nil {
		res.LogSumExp, res.sums = make([]float32, r.Batch), make([]rowSum, r.Batch)
	}
	for b := range j.rows {
		res.set(b, &j.rows[b], all[b])
		j.setLogSumExp(res, b)
	}
	return res, nil
}

// set turns a row's best into its result. A bad temperature or parameter outranks a NaN, which outranks an
// empty row.
func (res *Result) set(b int, w *row, won best) {
	status := ir.StatusOK
	switch {
	case w.badT:
		status = ir.StatusBadTemperature
	case w.badParameter:
		status = ir.StatusBadParameter
	case won.nan:
		status = ir.StatusNaN
	case won.first.id < 0:
		status = ir.StatusEmpty
	}
	res.Status[b] = status
	if status != ir.StatusOK {
		nan := float32(math.NaN())
		res.Tokens[b], res.Second[b] = ir.NoToken, ir.NoToken
		res.Scores[b], res.Best[b], res.SecondScores[b] = nan, nan, nan
		return
	}
	res.Tokens[b], res.Second[b] = won.first.id, won.second.id
	res.Best[b], res.SecondScores[b] = won.first.score, won.second.score
	res.Scores[b] = w.reported(won.first.score)
}

// job is one call of Sample.
type job struct {
	req    *Request
	ctx    context.Context
	hidden []float32
	rows   []row
	chunk  int      // tokens that a goroutine takes at once
	masses [][]mass // [chunk][row], where the log-sum-exp is asked for
	next   atomic.Int64
}

// chunkBytes is about how much of the weights, in float32, a goroutine takes at once: small beside a core's L2 cache,
// large beside the cost of taking a chunk.
const chunkBytes = 256 << 10

// chunk is a multiple of the tile, and so of the blocks of the noise. Where masses are added up chunk by chunk, it does not
// depend on the batch.
func (r *Request) chunk() int {
	perToken, least := 4*max(1, r.Shape.Hidden), tileTokens
	switch {
	case r.Computation.LogSumExp:
		least = massChunk
	case r.Logits != nil:
		perToken = 4 * max(1, r.Batch)
	}
	n := chunkBytes / perToken &^ (tileTokens - 1)
	return min(max(n, least), 4096)
}

func (j *job) run() []best {
	chunks := (j.req.span().Count + j.chunk - 1) / j.chunk
	workers := min(runtime.GOMAXPROCS(0), chunks)
	if len(j.rows) == 0 {
		workers = 0
	}
	parts := make([][]best, workers)
	var group sync.WaitGroup
	for i := range parts {
		group.Go(func() { parts[i] = j.work() })
	}
	group.Wait()
	all := bests(len(j.rows))
	for _, part := range parts {
		for b := range all {
			all[b].merge(part[b])
		}
	}
	return all
}

func bests(n int) []best {
	all := make([]best, n)
	for b := range all {
		all[b] = newBest()
	}
	return all
}

// work takes chunks of tokens until none is left or the context ends.
func (j *job) work() []best {
	out := bests(len(j.rows))
	span := j.req.span()
	t := j.newTile()
	for j.ctx.Err() == nil {
		first := span.Start + int(j.next.Add(int64(j.chunk))) - j.chunk
		if first >= span.End() {
			break
		}
		last := min(first+j.chunk, span.End())
		if j.req.Logits != nil {
			j.scanInjected(out, first, last)
		} else {
			j.scanWeights(out, t, first, last)
		}
		j.keep(out, first)
	}
	return out
}

func (j *job) scanInjected(out []best, first, last int) {
	for b := range j.rows {
		j.rows[b].scan(&out[b], first, j.req.logits(b)[first:last])
	}
}

// scanWeights takes one tile at a time through all rows, so that its weights are converted once.
func (j *job) scanWeights(out []best, t *tile, first, last int) {
	d := j.req.Shape.Hidden
	var y [tileTokens]float32
	for ; first < last; first += tileTokens {
		n := min(tileTokens, last-first)
		t.load(j.req, first, n)
		for b := range j.rows {
			t.dot(j.hidden[b*d:][:d], &y)
			j.rows[b].scan(&out[b], first, y[:n])
		}
	}
}

func (j *job) newTile() *tile {
	if j.req.Logits != nil {
		return nil
	}
	return newTile(j.req.Shape.Hidden)
}
