package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Entry describes one entry of a cache.
type Entry struct {
	Key string `json:"key"`
	// Size is the size of the entry's file in bytes.
	Size int64 `json:"size"`
	// Used is when the entry was last written or read.
	Used time.Time `json:"used"`
}

// List returns the entries, the most recently used first. Files that are not entries are left out.
func (c *Cache) List() ([]Entry, error) {
	if c.dir == "" {
		return nil, nil
	}
	files, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, f := range files {
		key, ok := strings.CutSuffix(f.Name(), suffix)
		if !ok || checkKey(key) != nil || !f.Type().IsRegular() {
			continue
		}
		if info, err := f.Info(); err == nil { // else: another process has just removed it
			list = append(list, Entry{Key: key, Size: info.Size(), Used: info.ModTime()})
		}
	}
	slices.SortFunc(list, func(a, b Entry) int {
		if n := b.Used.Compare(a.Used); n != 0 {
			return n
		}
		return strings.Compare(a.Key, b.Key)
	})
	return list, nil
}

// Size returns the total size of the entries in bytes.
func (c *Cache) Size() (int64, error) {
	list, err := c.List()
	return total(list), err
}

// Remove deletes the entries whose key begins with prefix, all of them for "", and returns what went. Temporary
// files that a dead process left go too.
func (c *Cache) Remove(prefix string) ([]Entry, error) {
	list, err := c.List()
	if err != nil || c.dir == "" {
		return nil, err
	}
	c.sweep(tempAge)
	list = slices.DeleteFunc(list, func(e Entry) bool { return !strings.HasPrefix(e.Key, prefix) })
	return c.remove(list)
}

// Trim deletes the least recently used entries until the total size is at most limit, and returns what went.
func (c *Cache) Trim(limit int64) ([]Entry, error) { return c.trim(limit, "") }

// trim is Trim that spares one entry: the one just written is not the victim of its own writing.
func (c *Cache) trim(limit int64, spare string) ([]Entry, error) {
	list, err := c.List()
	if err != nil {
		return nil, err
	}
	size := total(list)
	var victims []Entry
	for _, e := range slices.Backward(list) {
		if size <= limit {
			break
		}
		if e.Key != spare {
			victims, size = append(victims, e), size-e.Size
		}
	}
	return c.remove(victims)
}

func (c *Cache) remove(list []Entry) (gone []Entry, err error) {
	for _, e := range list {
		rmErr := os.Remove(filepath.Join(c.dir, e.Key+suffix))
		switch {
		case rmErr == nil:
			gone = append(gone, e)
		case !errors.Is(rmErr, fs.ErrNotExist): // another process may have been first
			err = errors.Join(err, rmErr)
		}
	}
	return gone, err
}

func total(list []Entry) (n int64) {
	for _, e := range list {
		n += e.Size
	}
	return n
}
