package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/robustio"
)

const (
	// suffix marks entry files: the directory may be one that the user keeps other things in, which no listing
	// shows and no removal touches.
	suffix = ".fsgen"
	// tempPrefix marks files that are being written.
	tempPrefix = ".fsgen-tmp-"
	// tempAge is how old a temporary file must be before it is taken for a dead process's.
	tempAge = time.Hour
)

func (c *Cache) path(key string) string { return filepath.Join(c.dir, key+suffix) }

// Get returns the data of an entry. A damaged entry is removed where that is possible, warned of once, and a miss.
func (c *Cache) Get(key string) (data []byte, ok bool) {
	data, ok = c.lookup(key)
	if ok {
		c.hits.Add(1)
	} else {
		c.misses.Add(1)
	}
	return data, ok
}

func (c *Cache) lookup(key string) ([]byte, bool) {
	if c.dir == "" || checkKey(key) != nil {
		return nil, false
	}
	path := c.path(key)
	data, err := readEntry(path, key)
	switch {
	case err == nil:
		touch(path)
		return data, true
	case errors.Is(err, fs.ErrNotExist):
		return nil, false
	}
	c.bad.Add(1)
	c.warnOnce(path, "%s: %s: %v; it counts as missing", c.name, path, err)
	_ = os.Remove(path) // never RemoveAll: a directory in the entry's place may be anyone's
	return nil, false
}

// touch marks a file as just used, for trimming; a read-only directory does without. New files need it too: the
// system stamps them from a coarser clock, milliseconds behind.
func touch(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}

// readEntry reads a file that must be a regular one: opening a pipe would hang.
func readEntry(path, key string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: not a regular file (%v)", errBad, info.Mode().Type())
	}
	file, err := robustio.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decode(key, file)
}

// Put stores data under key. On a disabled cache it does nothing. An error means only that the entry is not kept.
func (c *Cache) Put(key string, data []byte) error {
	if err := checkKey(key); err != nil || c.dir == "" {
		return err
	}
	c.swept.Do(func() { c.sweep(tempAge) })
	temp, err := c.writeTemp(key, data)
	if err == nil {
		touch(temp)
		if err = robustio.Rename(temp, c.path(key)); err != nil {
			_ = os.Remove(temp)
		}
	}
	if err != nil {
		c.warnOnce("write", "%s: cannot keep entries: %v", c.name, err)
		return fmt.Errorf("cache: %w", err)
	}
	c.writes.Add(1)
	if c.limit >= 0 {
		_, _ = c.trim(c.limit, key)
	}
	return nil
}

// midWrite runs between the halves of a file; tests set it.
var midWrite = func() {}

// writeTemp writes an entry under a name of its own in the cache directory and returns the path. Nothing is synced:
// a file that a power cut leaves half written does not pass its checksum.
func (c *Cache) writeTemp(key string, data []byte) (path string, err error) {
	f, err := os.CreateTemp(c.dir, tempPrefix+"*")
	if err != nil {
		return "", err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	half := len(data) / 2
	for _, part := range [][]byte{encodeHeader(key, data), data[:half], data[half:]} {
		if _, err = f.Write(part); err != nil {
			return "", err
		}
		midWrite()
	}
	return f.Name(), nil
}

// sweep removes the temporary files of processes that died while they wrote.
func (c *Cache) sweep(age time.Duration) {
	files, _ := os.ReadDir(c.dir)
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), tempPrefix) {
			continue
		}
		if info, err := f.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > age {
			_ = os.Remove(filepath.Join(c.dir, f.Name()))
		}
	}
}
