package verify

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// mostJobs bounds how many checks run at a time, unless more are asked for: each has its own weights, on the host and on the GPU.
const mostJobs = 8

// jobs is how many checks run at a time. On a GPU most of a check's time is the compiler's and the reference's, of which each has a
// thread or a few; elsewhere one check keeps all processors busy. Ranks take one check at a time: of two launches that wait for their
// peers each may hold the GPU that the other's peer needs.
func (r *run) jobs() int {
	switch {
	case r.ranks:
		return 1
	case r.o.Jobs > 0:
		return r.o.Jobs
	case r.gpu:
		return min(max(runtime.GOMAXPROCS(0)/2, 1), mostJobs)
	}
	return 1
}

// errGone is of a function that ended its goroutine instead of returning, as a test's failure does.
var errGone = errors.New("verify: a check did not return")

// inOrder has f make the results 0 to n-1, a number of them at a time, and hands each to done, in order, from the caller's goroutine.
// An error of done's ends it, and so does the context: what was made by then, without a gap, is handed on. It returns when nothing runs
// any more.
func inOrder[T any](ctx context.Context, n, jobs int, f func(ctx context.Context, i int) T, done func(T) error) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	line := newLine[T](n)
	for range min(jobs, n) {
		group.Go(func() {
			for i, more := line.take(); more && ctx.Err() == nil; i, more = line.take() {
				line.make(ctx, i, f)
			}
		})
	}
	for i := range n {
		res, ready := line.wait(ctx, i)
		if !res.whole {
			if !ready || ctx.Err() != nil {
				return ctx.Err()
			}
			return errGone
		}
		if err := done(res.value); err != nil {
			return err
		}
	}
	return nil
}

// line is the results that inOrder waits for.
type line[T any] struct {
	next    atomic.Int64
	results []chan result[T]
}

// result is whole if it was made before the context ended.
type result[T any] struct {
	value T
	whole bool
}

func newLine[T any](n int) *line[T] {
	l := &line[T]{results: make([]chan result[T], n)}
	for i := range l.results {
		l.results[i] = make(chan result[T], 1)
	}
	return l
}

// take is the next that is to be made.
func (l *line[T]) take() (i int, more bool) {
	i = int(l.next.Add(1)) - 1
	return i, i < len(l.results)
}

func (l *line[T]) make(ctx context.Context, i int, f func(ctx context.Context, i int) T) {
	var res result[T]
	defer func() { l.results[i] <- res }()
	value := f(ctx, i)
	res = result[T]{value, ctx.Err() == nil}
}

// wait returns a result once it is made; once the context has ended, only if it is there.
func (l *line[T]) wait(ctx context.Context, i int) (res result[T], ready bool) {
	select {
	case res = <-l.results[i]:
		return res, true
	case <-ctx.Done():
	}
	select {
	case res = <-l.results[i]:
		return res, true
	default:
		return res, false
	}
}
