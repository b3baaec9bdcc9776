package verify

import (
	"context"
	"errors"
	"runtime"
	"sync"
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
// After an error of f's, or once the context has ended, no other is begun; what was made is handed on all the same, that of the error
// too, but not what the context cut short. It returns when nothing runs any more.
func inOrder[T any](ctx context.Context, n, jobs int, f func(ctx context.Context, i int) (T, error), done func(T)) error {
	l, ended := newLine[T](n), make(chan struct{})
	var group sync.WaitGroup
	for range min(jobs, n) {
		group.Go(func() { l.work(ctx, f) })
	}
	go func() {
		group.Wait()
		close(ended)
	}()
	whole := 0
	for i := range n {
		if res := l.wait(i, ended); res.whole {
			done(res.value)
			whole++
		}
	}
	<-ended
	if l.err == nil && whole < n {
		return ctx.Err()
	}
	return l.err
}

// line is the results that inOrder waits for.
type line[T any] struct {
	results []chan result[T]

	mu   sync.Mutex
	next int   // to be begun
	err  error // the first of f's
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

func (l *line[T]) work(ctx context.Context, f func(ctx context.Context, i int) (T, error)) {
	for i, more := l.take(ctx); more; i, more = l.take(ctx) {
		l.make(ctx, i, f)
	}
}

// take is the next that is to be made.
func (l *line[T]) take(ctx context.Context) (i int, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next - 1, l.next <= len(l.results) && l.err == nil && ctx.Err() == nil
}

func (l *line[T]) make(ctx context.Context, i int, f func(ctx context.Context, i int) (T, error)) {
	res, err := result[T]{}, errGone
	defer func() {
		l.results[i] <- res
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err == nil {
			l.err = err
		}
	}()
	res.value, err = f(ctx, i)
	res.whole = ctx.Err() == nil
}

// wait returns a result once it is made, or none if nobody makes it any more.
func (l *line[T]) wait(i int, ended <-chan struct{}) (res result[T]) {
	select {
	case res = <-l.results[i]:
	case <-ended:
		select {
		case res = <-l.results[i]:
		default:
		}
	}
	return res
}
