package autotune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/fsgen/fsgen/internal/cache"
)

// Store keeps what a machine measured. It is a cache of its own in a directory beside the compiled kernels, since it has
// their needs (entries under a checksum that appear by rename, damaged ones that are misses, warned of once) but not
// their fate: an entry of 500 bytes takes seconds to measure and goes neither for want of room nor with the kernels that
// `fsgen cache rm` removes. A nil Store is one that is switched off.
type Store struct {
	dir  string // "" where the store is switched off
	warn func(string)

	mu    sync.Mutex
	cache *cache.Cache // nil until the directory is there
}

// storeDir is the store's directory within that of the compiled kernels.
const storeDir = "tune"

// OpenStore opens the store that lies beside a cache of compiled kernels, and is off where that is. Warnings go to warn, a
// line each, or to standard error if it is nil. Nothing is created before there is something to keep.
func OpenStore(kernels *cache.Cache, warn func(string)) *Store {
	if warn == nil {
		warn = func(s string) { fmt.Fprintln(os.Stderr, "fsgen: "+s) }
	}
	s := &Store{warn: warn}
	if kernels.Enabled() {
		s.dir = filepath.Join(kernels.Dir(), storeDir)
	}
	return s
}

// Enabled reports whether the store keeps anything.
func (s *Store) Enabled() bool { return s != nil && s.dir != "" }

// Dir returns the store's directory, or "" if it is off.
func (s *Store) Dir() string {
	if s == nil {
		return ""
	}
	return s.dir
}

// open returns the entries' cache, or nil where there is none: the store is off, or nothing was ever kept and create is
// false.
func (s *Store) open(create bool) *cache.Cache {
	if !s.Enabled() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache == nil {
		if _, err := os.Stat(s.dir); err != nil && !create {
			return nil
		}
		s.cache = cache.Open(cache.Options{Dir: s.dir, Limit: -1, Name: "tuning store", Warn: s.warn})
	}
	return s.cache
}

// Get returns the entry of a key, or nil. A damaged entry, or one of another schema or key under this name, is a miss.
func (s *Store) Get(k Key) *Entry {
	c := s.open(false)
	if c == nil {
		return nil
	}
	data, ok := c.Get(k.name())
	if !ok {
		return nil
	}
	e, err := decodeEntry(data)
	if err == nil && e.Key == k {
		return e
	}
	if err == nil {
		err = errors.New("autotune: it holds another key")
	}
	s.warn(fmt.Sprintf("tuning store: %s: %s; it counts as missing", k.name(), strings.TrimPrefix(err.Error(), "autotune: ")))
	_, _ = c.Remove(k.name()) // so that it is warned of once
	return nil
}

// ErrStoreOff is what writing to a store gives that is switched off, or that has no directory it can write to.
var ErrStoreOff = errors.New("autotune: the tuning store is off, or cannot be written to (" + cache.EnvDir + ")")

// Put keeps an entry.
func (s *Store) Put(e *Entry) error {
	if err := e.validate(); err != nil {
		return err
	}
	c := s.open(true)
	if c == nil || !c.Enabled() {
		return ErrStoreOff
	}
	if err := c.Put(e.name(), canonical(e)); err != nil {
		return fmt.Errorf("autotune: %w", err)
	}
	return nil
}

// List returns every entry that can be read, of whatever GPU, driver and generator, in the order of a table.
func (s *Store) List() ([]*Entry, error) {
	c := s.open(false)
	if c == nil {
		return nil, nil
	}
	files, err := c.List()
	if err != nil {
		return nil, err
	}
	var list []*Entry
	for _, f := range files {
		if data, ok := c.Get(f.Key); ok {
			if e, err := decodeEntry(data); err == nil {
				list = append(list, e)
			}
		}
	}
	sortEntries(list)
	return list, nil
}

// Lock waits until no other process, and no other goroutine, measures on a GPU, which its UUID or another name without
// slashes identifies: measurements that overlap are worthless. busy, where not nil, is called if there is a wait. The lock
// is advisory, goes with the process, and excludes those who use the same store. A store that is off locks nothing.
func (s *Store) Lock(ctx context.Context, gpu string, busy func()) (unlock func(), err error) {
	if !s.Enabled() {
		return func() {}, nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("autotune: %w", err)
	}
	return lockFile(ctx, filepath.Join(s.dir, "gpu-"+gpu+".lock"), busy)
}

// patience is how long a lock may take before it counts as a wait.
const patience = 100 * time.Millisecond

// lockFile locks a file. The system's call cannot be given up, so a goroutine makes it; a lock that comes after ctx has
// ended is let go at once.
func lockFile(ctx context.Context, path string, busy func()) (unlock func(), err error) {
	type answer struct {
		unlock func()
		err    error
	}
	got := make(chan answer, 1)
	go func() {
		unlock, err := lockedfile.MutexAt(path).Lock()
		got <- answer{unlock, err}
	}()
	wait := time.NewTimer(patience)
	defer wait.Stop()
	for {
		select {
		case a := <-got:
			if a.err != nil {
				return nil, fmt.Errorf("autotune: %w", a.err)
			}
			return a.unlock, nil
		case <-wait.C:
			if busy != nil {
				busy()
			}
		case <-ctx.Done():
			go func() {
				if a := <-got; a.err == nil {
					a.unlock()
				}
			}()
			return nil, ctx.Err()
		}
	}
}
