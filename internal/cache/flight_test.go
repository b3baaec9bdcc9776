//go:build unix

package cache

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func constant(s string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(s), nil }
}

func TestOneBuildForManyGoroutines(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "off"} {
		c := Open(Options{Dir: dir})
		var builds atomic.Int64
		release := make(chan struct{})
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				got, err := c.GetOrMake(t.Context(), "k", func(context.Context) ([]byte, error) {
					builds.Add(1)
					<-release
					return []byte("v"), nil
				})
				assert.NoError(t, err)
				assert.Equal(t, "v", string(got))
			})
		}
		waitFor(t, func() bool { return waiters(c, "k") == 64 })
		close(release)
		wg.Wait()
		assert.EqualValues(t, 1, builds.Load(), dir)
	}
}

func waiters(c *Cache, key string) int {
	c.flights.mu.Lock()
	defer c.flights.mu.Unlock()
	if f := c.flights.key[key]; f != nil {
		return f.waiters
	}
	return 0
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), "timed out")
	}
}

func TestBuildErrorIsNotKept(t *testing.T) {
	c, _ := newCache(t, 0)
	boom := errors.New("boom")
	_, err := c.GetOrMake(t.Context(), "k", func(context.Context) ([]byte, error) { return nil, boom })
	assert.ErrorIs(t, err, boom)
	got, err := c.GetOrMake(t.Context(), "k", constant("v"))
	require.NoError(t, err)
	assert.Equal(t, "v", string(got))
}

// TestFirstCallerGivesUp holds that the build goes on for the others.
func TestFirstCallerGivesUp(t *testing.T) {
	c, _ := newCache(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	build := func(ctx context.Context) ([]byte, error) {
		select {
		case <-release:
			return []byte("v"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	first := make(chan error)
	go func() { _, err := c.GetOrMake(ctx, "k", build); first <- err }()
	waitFor(t, func() bool { return waiters(c, "k") == 1 })
	second := make(chan string)
	go func() { v, _ := c.GetOrMake(t.Context(), "k", build); second <- string(v) }()
	waitFor(t, func() bool { return waiters(c, "k") == 2 })
	cancel()
	assert.ErrorIs(t, <-first, context.Canceled)
	close(release)
	assert.Equal(t, "v", <-second)
}

// TestLastCallerGivesUp holds that the build is cancelled then, and that a newcomer gets a new one.
func TestLastCallerGivesUp(t *testing.T) {
	c, _ := newCache(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan error, 1)
	done := make(chan error)
	go func() {
		_, err := c.GetOrMake(ctx, "k", func(ctx context.Context) ([]byte, error) {
			close(begun)
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		})
		done <- err
	}()
	<-begun // else it may find what the newcomer has made
	cancel()
	assert.ErrorIs(t, <-done, context.Canceled)
	got, err := c.GetOrMake(t.Context(), "k", constant("v"))
	require.NoError(t, err)
	assert.Equal(t, "v", string(got))
	assert.ErrorIs(t, <-ended, context.Canceled)

	_, err = c.GetOrMake(ctx, "other", nil)
	assert.ErrorIs(t, err, context.Canceled, "an ended context starts nothing")
}

func TestPanicAndGoexitReachTheCaller(t *testing.T) {
	c, _ := newCache(t, 0)
	defer func() {
		assert.Contains(t, recover(), "BUG: oh")
		_, err := c.GetOrMake(t.Context(), "k", func(context.Context) ([]byte, error) { runtime.Goexit(); return nil, nil })
		assert.ErrorIs(t, err, errGoexit)
		got, err := c.GetOrMake(t.Context(), "k", constant("v"))
		assert.NoError(t, err)
		assert.Equal(t, "v", string(got))
	}()
	_, _ = c.GetOrMake(t.Context(), "k", func(context.Context) ([]byte, error) { panic("BUG: oh") })
}
