// Package cache keeps compiled kernels on disk, so that the next process need not compile them again; and, under a name and
// in a directory of their own, other things that take long to make.
//
// A cache is never needed for a correct result, and so it never fails a caller for its own reasons: a directory
// that cannot be used turns the cache off with one warning, and an entry that is not exactly what was written is a
// miss. Entries carry a checksum and their key, and appear by rename, so processes may share a directory freely:
// whoever loses a race compiles once more than needed.
package cache

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// EnvDir names the environment variable that holds the cache directory; the value "off" disables the cache.
const EnvDir = "FSGEN_CACHE_DIR"

// DefaultLimit is the total size in bytes above which the least recently used entries go.
const DefaultLimit = 512 << 20

// Options says where a cache lives. The zero value is what users get.
type Options struct {
	// Dir is the directory; "" takes it from the environment (see [EnvDir]) or the user's cache directory, and
	// "off" disables the cache.
	Dir string
	// Limit is the largest total size in bytes; 0 means DefaultLimit, less than 0 no limit.
	Limit int64
	// Name is what warnings call the cache; "" means "kernel cache".
	Name string
	// Warn receives warnings, one line each without a newline; nil writes them to standard error.
	Warn func(string)
}

// Cache is a directory of entries. All methods may be called from any goroutine, on a disabled cache too.
type Cache struct {
	dir   string // "" when disabled
	limit int64
	name  string
	warn  func(string)

	warned  sync.Map // what has been warned of: a path, or "write"
	swept   sync.Once
	flights flights
	hits    atomic.Int64
	misses  atomic.Int64
	bad     atomic.Int64
	writes  atomic.Int64
}

// Stats counts what a Cache did since it was opened.
type Stats struct {
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
	// Bad counts the misses whose entry was there but damaged.
	Bad    int64 `json:"bad"`
	Writes int64 `json:"writes"`
}

// Open opens a cache. It never fails: a cache that cannot be had is disabled, after one warning.
func Open(o Options) *Cache {
	c := &Cache{limit: o.Limit, name: cmp.Or(o.Name, "kernel cache"), warn: o.Warn}
	if c.limit == 0 {
		c.limit = DefaultLimit
	}
	if c.warn == nil {
		c.warn = func(s string) { fmt.Fprintln(os.Stderr, "fsgen: "+s) }
	}
	dir, err := locate(o.Dir)
	if err == nil && dir != "" {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		c.warn(fmt.Sprintf("no %s: %v (set %s to a directory, or to off)", c.name, err, EnvDir))
		return c
	}
	c.dir = dir
	return c
}

// locate returns the absolute cache directory, or "" if the cache is switched off.
func locate(dir string) (string, error) {
	if dir == "" {
		dir = os.Getenv(EnvDir)
	}
	switch dir {
	case "off":
		return "", nil
	case "":
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		return filepath.Join(user, "fsgen", "v1"), nil
	}
	return filepath.Abs(dir)
}

// Dir returns the directory, or "" if the cache is disabled.
func (c *Cache) Dir() string { return c.dir }

// Enabled reports whether the cache keeps anything.
func (c *Cache) Enabled() bool { return c.dir != "" }

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	return Stats{Hits: c.hits.Load(), Misses: c.misses.Load(), Bad: c.bad.Load(), Writes: c.writes.Load()}
}

// warnOnce warns of a thing the first time that it is met.
func (c *Cache) warnOnce(what, format string, args ...any) {
	if _, seen := c.warned.LoadOrStore(what, true); !seen {
		c.warn(fmt.Sprintf(format, args...))
	}
}

// KeyError says that a key cannot name an entry: keys are 1 to 200 of a-z, 0-9, '-', '_' and '.', and begin with a
// letter or digit.
type KeyError struct{ Key string }

func (e *KeyError) Error() string {
	return fmt.Sprintf("cache: bad key %q: want up to 200 of a-z, 0-9, '-', '_', '.', beginning with a letter or digit", e.Key)
}

// checkKey holds keys to names that every file system stores as they are, in one letter case.
func checkKey(key string) error {
	if len(key) == 0 || len(key) > 200 {
		return &KeyError{key}
	}
	for i, r := range []byte(key) {
		alnum := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		if !alnum && (i == 0 || r != '-' && r != '_' && r != '.') {
			return &KeyError{key}
		}
	}
	return nil
}

// errBad marks an entry that is there but must not be used.
var errBad = errors.New("bad entry")
