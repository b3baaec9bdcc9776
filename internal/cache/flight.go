package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// flights joins concurrent requests for one key. Unlike x/sync/singleflight it cancels the work once the last
// caller has given up, and never because the first one has.
type flights struct {
	mu  sync.Mutex
	key map[string]*flight
}

type flight struct {
	waiters  int // guarded by flights.mu
	cancel   context.CancelFunc
	done     chan struct{} // closed once the fields below are set
	data     []byte
	err      error
	panicked string // the panic of the work, with its stack
}

// errGoexit is what callers get if the work ended its goroutine.
var errGoexit = errors.New("cache: the function that makes an entry called runtime.Goexit")

// do returns the result of work for key, run once for all who ask meanwhile.
func (g *flights) do(ctx context.Context, key string, work func(context.Context) ([]byte, error)) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := g.join(ctx, key, work)
	select {
	case <-f.done:
		g.leave(key, f)
		if f.panicked != "" {
			panic(f.panicked)
		}
		return f.data, f.err
	case <-ctx.Done():
		g.leave(key, f)
		return nil, ctx.Err()
	}
}

// join adds the caller to the flight for key, starting one if there is none.
func (g *flights) join(ctx context.Context, key string, work func(context.Context) ([]byte, error)) *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.key[key]
	if f == nil {
		workCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &flight{cancel: cancel, done: make(chan struct{}), err: errGoexit}
		if g.key == nil {
			g.key = map[string]*flight{}
		}
		g.key[key] = f
		go g.run(workCtx, key, f, work)
	}
	f.waiters++
	return f
}

func (g *flights) run(ctx context.Context, key string, f *flight, work func(context.Context) ([]byte, error)) {
	defer func() {
		if p := recover(); p != nil {
			f.panicked = fmt.Sprintf("%v\n\n%s", p, debug.Stack())
		}
		g.mu.Lock()
		if g.key[key] == f {
			delete(g.key, key)
		}
		g.mu.Unlock()
		close(f.done)
	}()
	f.data, f.err = work(ctx)
}

// leave drops the caller from a flight. With the last one the work is cancelled and its place freed, so that a
// newcomer starts afresh instead of inheriting a cancellation.
func (g *flights) leave(key string, f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.waiters--; f.waiters > 0 {
		return
	}
	f.cancel()
	if g.key[key] == f {
		delete(g.key, key)
	}
}

// GetOrMake returns the entry of key, or else what build makes, which is then stored. Goroutines that ask for one
// key at a time share one build. A caller whose context ends returns at once; the build's own context ends when no
// caller is left. An error of build is returned and not kept; the data is shared, so no caller may change it.
func (c *Cache) GetOrMake(ctx context.Context, key string, build func(context.Context) ([]byte, error)) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return c.flights.do(ctx, key, func(ctx context.Context) ([]byte, error) {
		if data, ok := c.Get(key); ok {
			return data, nil
		}
		data, err := build(ctx)
		if err != nil {
			return nil, err
		}
		_ = c.Put(key, data) // warned of; the caller has its data all the same
		return data, nil
	})
}
