//go:build unix

package cache

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// warnings collects what a cache warns of.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (w *warnings) add(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, s)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines = nil
	return lines
}

func newCache(t *testing.T, limit int64) (*Cache, *warnings) {
	t.Helper()
	w := &warnings{}
	return Open(Options{Dir: t.TempDir(), Limit: limit, Warn: w.add}), w
}

func TestPutThenGet(t *testing.T) {
	c, w := newCache(t, 0)
	for _, data := range [][]byte{nil, {7}, bytes.Repeat([]byte("kernel"), 100_000)} {
		_, ok := c.Get("k1")
		if c.Stats().Writes == 0 {
			assert.False(t, ok)
		}
		require.NoError(t, c.Put("k1", data))
		got, ok := c.Get("k1")
		require.True(t, ok)
		assert.Equal(t, string(data), string(got))
	}
	assert.Equal(t, Stats{Hits: 5, Misses: 1, Writes: 3}, c.Stats())
	assert.Empty(t, w.take())
}

func TestKeys(t *testing.T) {
	c, _ := newCache(t, 0)
	for _, key := range []string{"", "A", "../x", "a/b", ".x", "-x", "a b", strings.Repeat("a", 201), "ü"} {
		var bad *KeyError
		assert.ErrorAs(t, c.Put(key, nil), &bad, "%q", key)
		_, err := c.GetOrMake(t.Context(), key, nil)
		assert.ErrorAs(t, err, &bad, "%q", key)
		_, ok := c.Get(key)
		assert.False(t, ok)
	}
	assert.NoError(t, c.Put("cubin-0a.sm_90", nil))
}

func TestLocate(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/x")
	t.Setenv(EnvDir, "")
	for _, c := range []struct{ option, env, want string }{
		{"", "", "/x/fsgen/v1"},
		{"", "off", ""},
		{"off", "/y", ""},
		{"", "/y", "/y"},
		{"/z", "/y", "/z"},
	} {
		t.Setenv(EnvDir, c.env)
		dir, err := locate(c.option)
		assert.NoError(t, err)
		assert.Equal(t, c.want, dir, "%+v", c)
	}
}

func TestNoHomeDisablesWithOneWarning(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", EnvDir} {
		t.Setenv(name, "")
	}
	w := &warnings{}
	c := Open(Options{Warn: w.add})
	assert.False(t, c.Enabled())
	assert.Len(t, w.take(), 1)
	assertUsableWhenOff(t, c)
	assert.Empty(t, w.take())
}

func TestUnusableDirectoryDisablesWithOneWarning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	w := &warnings{}
	c := Open(Options{Dir: filepath.Join(file, "sub"), Warn: w.add})
	assert.False(t, c.Enabled())
	require.Len(t, w.lines, 1)
	assert.Contains(t, w.lines[0], "no kernel cache")
	assert.Contains(t, w.lines[0], EnvDir)
	assertUsableWhenOff(t, c)
}

func TestOffIsSilent(t *testing.T) {
	w := &warnings{}
	c := Open(Options{Dir: "off", Warn: w.add})
	assertUsableWhenOff(t, c)
	assert.Empty(t, w.take())
}

func assertUsableWhenOff(t *testing.T, c *Cache) {
	t.Helper()
	assert.NoError(t, c.Put("k", []byte("x")))
	_, ok := c.Get("k")
	assert.False(t, ok)
	list, err := c.List()
	assert.NoError(t, err)
	assert.Empty(t, list)
	_, err = c.Remove("")
	assert.NoError(t, err)
	_, err = c.Trim(0)
	assert.NoError(t, err)
	assert.Empty(t, c.Dir())
}

// TestBadEntries damages an entry in every way that has been seen in the field: each is a miss, warned of once for
// the path, and rebuilt.
func TestBadEntries(t *testing.T) {
	data := bytes.Repeat([]byte{1, 2, 3}, 1000)
	write := func(f func(file []byte) []byte) func(*testing.T, *Cache, string) {
		return func(t *testing.T, _ *Cache, path string) {
			file, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, f(file), 0o600))
		}
	}
	for name, damage := range map[string]func(*testing.T, *Cache, string){
		"truncated to 0":    write(func([]byte) []byte { return nil }),
		"truncated to 1":    write(func(b []byte) []byte { return b[:1] }),
		"truncated to half": write(func(b []byte) []byte { return b[:len(b)/2] }),
		"one byte short":    write(func(b []byte) []byte { return b[:len(b)-1] }),
		"one byte long":     write(func(b []byte) []byte { return append(b, 0) }),
		"not an entry":      write(func([]byte) []byte { return bytes.Repeat([]byte("x"), 200) }),
		"newer format":      write(func(b []byte) []byte { b[8]++; return b }),
		"other kernel": func(t *testing.T, c *Cache, path string) {
			require.NoError(t, c.Put("other", []byte("other")))
			require.NoError(t, os.Rename(c.path("other"), path))
		},
		"directory": func(t *testing.T, _ *Cache, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Mkdir(path, 0o700))
		},
		"pipe": func(t *testing.T, _ *Cache, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, syscall.Mkfifo(path, 0o600))
		},
		"link to nowhere": func(t *testing.T, _ *Cache, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Symlink("/nowhere/at/all", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, w := newCache(t, 0)
			for range 2 { // the second time is not warned of
				require.NoError(t, c.Put("k", data))
				damage(t, c, c.path("k"))
				_, ok := c.Get("k")
				assert.False(t, ok)
				assert.NoFileExists(t, c.path("k"))
			}
			lines := w.take()
			require.Len(t, lines, 1)
			assert.Contains(t, lines[0], c.path("k"))
			assert.EqualValues(t, 2, c.Stats().Bad)
			require.NoError(t, c.Put("k", data))
			got, ok := c.Get("k")
			assert.True(t, ok)
			assert.Equal(t, data, got)
		})
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	key, data := "kernel", []byte("some data")
	file := append(encodeHeader(key, data), data...)
	got, err := decode(key, file)
	require.NoError(t, err)
	require.Equal(t, data, got)
	for i := range len(file) * 8 {
		file[i/8] ^= 1 << (i % 8)
		_, err := decode(key, file)
		require.ErrorIs(t, err, errBad, "bit %d", i)
		file[i/8] ^= 1 << (i % 8)
	}
	for i := range file {
		_, err := decode(key, file[:i])
		require.ErrorIs(t, err, errBad, "length %d", i)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("k", append(encodeHeader("k", []byte("data")), "data"...))
	f.Add("", []byte(entryMagic))
	f.Fuzz(func(t *testing.T, key string, file []byte) {
		data, err := decode(key, file)
		if err == nil && !bytes.Equal(append(encodeHeader(key, data), data...), file) {
			t.Fatal("accepted a file that would not have been written")
		}
	})
}

func TestDirectoryWithContentsInPlaceOfEntry(t *testing.T) {
	c, w := newCache(t, 0)
	mine := filepath.Join(c.path("k"), "mine")
	require.NoError(t, os.MkdirAll(mine, 0o700))
	for range 2 {
		got, err := c.GetOrMake(t.Context(), "k", constant("v"))
		require.NoError(t, err)
		assert.Equal(t, "v", string(got))
	}
	assert.DirExists(t, mine, "what a user keeps there is not ours to delete")
	assert.Len(t, w.take(), 2, "one for the entry, one for not keeping it")
}

// TestAsUser runs the permission tests as an ordinary user, since root reads everything.
func TestAsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Run("here", testPermissions)
		return
	}
	dir, err := os.MkdirTemp("", "fsgen-cache-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	exe, err := os.ReadFile(self(t))
	require.NoError(t, err)
	copied := filepath.Join(dir, "cache.test")
	require.NoError(t, os.WriteFile(copied, exe, 0o755))
	cmd := exec.Command(copied, "-test.run=^TestAsUser$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "GOCOVERDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestAsUser/here")
}

func testPermissions(t *testing.T) {
	c, w := newCache(t, 0)
	require.NoError(t, c.Put("k", []byte("v")))
	require.NoError(t, c.Put("unreadable", []byte("v")))
	require.NoError(t, os.Chmod(c.path("unreadable"), 0))
	got, err := c.GetOrMake(t.Context(), "unreadable", constant("rebuilt"))
	require.NoError(t, err)
	assert.Equal(t, "rebuilt", string(got))
	got, ok := c.Get("unreadable")
	assert.True(t, ok)
	assert.Equal(t, "rebuilt", string(got))
	assert.Len(t, w.take(), 1)

	// A directory that turned read-only serves what it has, and says once that it keeps nothing new.
	require.NoError(t, os.Chmod(c.Dir(), 0o500))
	defer func() { _ = os.Chmod(c.Dir(), 0o700) }()
	for _, key := range []string{"new1", "new2"} {
		got, err := c.GetOrMake(t.Context(), key, constant(key))
		require.NoError(t, err)
		assert.Equal(t, key, string(got))
	}
	_, ok = c.Get("k")
	assert.True(t, ok)
	assert.Len(t, w.take(), 1)

	// A directory that cannot be made leaves the cache off.
	w2 := &warnings{}
	assert.False(t, Open(Options{Dir: filepath.Join(c.Dir(), "sub"), Warn: w2.add}).Enabled())
	assert.Len(t, w2.take(), 1)
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return exe
}

func TestListRemoveTrim(t *testing.T) {
	c, _ := newCache(t, -1)
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir(), "notes.txt"), []byte("mine"), 0o600))
	for i, key := range []string{"a1", "a2", "b1", "b2"} {
		require.NoError(t, c.Put(key, make([]byte, 1000)))
		age(t, c, key, time.Duration(10-i)*time.Hour)
	}
	_, ok := c.Get("a1") // now the most recently used
	require.True(t, ok)
	assert.Equal(t, []string{"a1", "b2", "b1", "a2"}, keys(c.List()))
	size, err := c.Size()
	require.NoError(t, err)
	each := size / 4
	assert.Equal(t, each*4, size)

	assert.Equal(t, []string{"a2"}, keys(c.Trim(each*3)))
	assert.Equal(t, []string{"b1", "b2"}, keys(c.Remove("b")), "in no order that matters")
	assert.Equal(t, []string{"a1"}, keys(c.Remove("")))
	assert.FileExists(t, filepath.Join(c.Dir(), "notes.txt"))
	assert.Empty(t, keys(c.List()))
}

func keys(list []Entry, err error) []string {
	var names []string
	for _, e := range list {
		names = append(names, e.Key)
	}
	if len(names) == 2 && names[0] > names[1] {
		names[0], names[1] = names[1], names[0]
	}
	if err != nil {
		names = append(names, err.Error())
	}
	return names
}

func age(t *testing.T, c *Cache, key string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	require.NoError(t, os.Chtimes(c.path(key), then, then))
}

func TestLimitEvictsLeastRecentlyUsed(t *testing.T) {
	c, _ := newCache(t, 3500)
	for i, key := range []string{"k0", "k1", "k2"} {
		require.NoError(t, c.Put(key, make([]byte, 1000)))
		age(t, c, key, time.Duration(5-i)*time.Hour)
	}
	_, ok := c.Get("k0")
	require.True(t, ok)
	require.NoError(t, c.Put("k3", make([]byte, 1000)))
	assert.Equal(t, []string{"k3", "k0", "k2"}, keys(c.List()))
	require.NoError(t, c.Put("huge", make([]byte, 10_000)))
	assert.Equal(t, []string{"huge"}, keys(c.List()), "the entry just written stays")
}

func TestSweepOfOldTempFiles(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, tempPrefix+"1"), filepath.Join(dir, tempPrefix+"2")
	for _, f := range []string{old, fresh} {
		require.NoError(t, os.WriteFile(f, []byte("half"), 0o600))
	}
	then := time.Now().Add(-2 * tempAge)
	require.NoError(t, os.Chtimes(old, then, then))
	c := Open(Options{Dir: dir})
	require.NoError(t, c.Put("k", nil))
	assert.NoFileExists(t, old)
	assert.FileExists(t, fresh, "its writer may be alive")
	assert.Equal(t, []string{"k"}, keys(c.List()))
}
