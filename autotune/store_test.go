package autotune

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/cache"
)

// lines collects warnings.
type lines struct {
	mu   sync.Mutex
	list []string
}

func (l *lines) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, s)
}

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

// storeIn opens the store of a cache directory as a new process would.
func storeIn(t testing.TB, dir string) (*Store, *lines) {
	t.Helper()
	w := &lines{}
	return OpenStore(cache.Open(cache.Options{Dir: dir, Warn: func(s string) { t.Error(s) }}), w.add), w
}

// entryOf is a current entry of a bucket.
func entryOf(t testing.TB, b Bucket) *Entry {
	t.Helper()
	e, err := newEntry(b.Key, b.Request, &Result{Best: 1, Measured: []Measurement{
		{Candidate: b.Candidates[0], Microseconds: 120.0004}, {Candidate: b.Candidates[1], Microseconds: 100.12345, Spread: 0.3}}})
	require.NoError(t, err)
	return e
}

func TestStoreKeepsEntries(t *testing.T) {
	dir := t.TempDir()
	s, w := storeIn(t, dir)
	b := bucketOf(t, 16)
	assert.Nil(t, s.Get(b.Key))
	list, err := s.List()
	require.NoError(t, err)
	assert.Empty(t, list)
	assert.NoDirExists(t, s.Dir(), "asking creates nothing")

	e := entryOf(t, b)
	assert.Equal(t, b.Candidates[1].String(), e.Candidate)
	assert.Equal(t, []float64{100.123, 0.3, 120}, []float64{e.Microseconds, e.Spread, e.Default})
	require.NoError(t, s.Put(e))
	again, _ := storeIn(t, dir)
	assert.Equal(t, e, again.Get(b.Key))
	other := bucketOf(t, 32)
	require.NoError(t, again.Put(entryOf(t, other)))
	list, err = s.List()
	require.NoError(t, err)
	assert.Equal(t, []*Entry{e, entryOf(t, other)}, list)
	assert.Empty(t, w.take())

	e.Microseconds = 90
	require.NoError(t, s.Put(e))
	assert.Equal(t, 90.0, again.Get(b.Key).Microseconds, "a new measurement replaces the old")
	e.PTXSHA256 = "none"
	assert.Error(t, s.Put(e), "nothing goes in that would not come out")
}

// TestEveryFieldOfTheKeyCounts changes each field of a key in turn: none may find the other's entry.
func TestEveryFieldOfTheKeyCounts(t *testing.T) {
	s, w := storeIn(t, t.TempDir())
	b := bucketOf(t, 16)
	require.NoError(t, s.Put(entryOf(t, b)))
	changed := 0
	var each func(v reflect.Value, whole *Key)
	each = func(v reflect.Value, whole *Key) {
		for i := range v.NumField() {
			f := v.Field(i)
			saved := f.Interface()
			switch f.Kind() {
			case reflect.Struct:
				each(f, whole)
				continue
			case reflect.String:
				f.SetString(f.String() + "x")
			case reflect.Int:
				f.SetInt(f.Int() + 1)
			case reflect.Bool:
				f.SetBool(!f.Bool())
			default:
				t.Fatalf("a field of kind %s", f.Kind())
			}
			assert.Nil(t, s.Get(*whole), v.Type().Field(i).Name)
			changed++
			f.Set(reflect.ValueOf(saved))
		}
	}
	k := b.Key
	each(reflect.ValueOf(&k).Elem(), &k)
	assert.Equal(t, 13, changed)
	assert.NotNil(t, s.Get(k))
	assert.Empty(t, w.take(), "a foreign entry is no fault")
}

// TestDamagedEntriesAreMisses damages an entry in every way; each is a miss, warned of once, and can be written again.
func TestDamagedEntriesAreMisses(t *testing.T) {
	b := bucketOf(t, 16)
	file := func(s *Store, k Key) string { return filepath.Join(s.Dir(), k.name()+".fsgen") }
	raw := func(change func(text string) string) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) { // the cache's checksum is right: the damage is in the JSON
			text := change(string(canonical(entryOf(t, b))))
			require.NoError(t, s.open(true).Put(b.Key.name(), []byte(text)))
		}
	}
	replace := func(old, new string) func(*testing.T, *Store) {
		return raw(func(text string) string {
			require.Contains(t, text, old)
			return strings.Replace(text, old, new, 1)
		})
	}
	for name, damage := range map[string]func(*testing.T, *Store){
		"truncated": func(t *testing.T, s *Store) { require.NoError(t, os.Truncate(file(s, b.Key), 100)) },
		"empty":     func(t *testing.T, s *Store) { require.NoError(t, os.Truncate(file(s, b.Key), 0)) },
		"flipped": func(t *testing.T, s *Store) {
			data, err := os.ReadFile(file(s, b.Key))
			require.NoError(t, err)
			data[len(data)-20] ^= 1
			require.NoError(t, os.WriteFile(file(s, b.Key), data, 0o600))
		},
		"moved": func(t *testing.T, s *Store) {
			other := bucketOf(t, 32)
			require.NoError(t, s.Put(entryOf(t, other)))
			require.NoError(t, os.Rename(file(s, other.Key), file(s, b.Key)))
		},
		"old schema":    replace(`"schema":1`, `"schema":0`),
		"new schema":    replace(`"schema":1`, `"schema":2`),
		"other key":     replace(`"batch":16`, `"batch":32`),
		"unknown field": replace(`"schema":1`, `"schema":1,"speed":9`),
		"bad tile":      replace(`"candidate":"m`, `"candidate":"x`),
		"bad hash":      replace(`"ptx_sha256":"`, `"ptx_sha256":"00`),
		"no time":       replace(`"microseconds":100.123`, `"microseconds":0`),
		"negative time": replace(`"microseconds":100.123`, `"microseconds":-5`),
		"no JSON":       raw(func(string) string { return "tile" }),
		"two values":    raw(func(text string) string { return text + "{}" }),
	} {
		t.Run(name, func(t *testing.T) {
			s, w := storeIn(t, t.TempDir())
			require.NoError(t, s.Put(entryOf(t, b)))
			damage(t, s)
			for range 3 {
				assert.Nil(t, s.Get(b.Key))
			}
			warned := w.take()
			require.Len(t, warned, 1)
			assert.Contains(t, warned[0], "tuning store: ")
			assert.Contains(t, warned[0], b.Key.name())
			require.NoError(t, s.Put(entryOf(t, b)))
			assert.NotNil(t, s.Get(b.Key))
			assert.Empty(t, w.take())
		})
	}
}

func TestListLeavesOutWhatIsDamaged(t *testing.T) {
	s, _ := storeIn(t, t.TempDir())
	require.NoError(t, s.Put(entryOf(t, bucketOf(t, 16))))
	require.NoError(t, s.open(true).Put("t0-old", []byte("{}")))
	list, err := s.List()
	require.NoError(t, err)
	assert.Len(t, list, 1)
}

func TestEntriesAreCanonical(t *testing.T) {
	b := bucketOf(t, 16)
	assert.Equal(t, canonical(entryOf(t, b)), canonical(entryOf(t, b)))
	back, err := decodeEntry(canonical(entryOf(t, b)))
	require.NoError(t, err)
	assert.Equal(t, string(canonical(entryOf(t, b))), string(canonical(back)))
	assert.False(t, bytes.Contains(canonical(b.Key), []byte("\n")))
}

func TestStoreThatIsOff(t *testing.T) {
	off := OpenStore(cache.Open(cache.Options{Dir: "off"}), nil)
	b := bucketOf(t, 16)
	for _, s := range []*Store{off, nil} {
		assert.False(t, s.Enabled())
		assert.Empty(t, s.Dir())
		assert.Nil(t, s.Get(b.Key))
		assert.ErrorIs(t, s.Put(entryOf(t, b)), ErrStoreOff)
		list, err := s.List()
		require.NoError(t, err)
		assert.Empty(t, list)
		unlock, err := s.Lock(t.Context(), "GPU-1", nil)
		require.NoError(t, err)
		unlock()
	}
}

func TestUnwritableStoreSaysSo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, storeDir), nil, 0o600)) // a file in the directory's place
	s, w := storeIn(t, dir)
	b := bucketOf(t, 16)
	assert.Nil(t, s.Get(b.Key))
	assert.Error(t, s.Put(entryOf(t, b)))
	_, err := s.Lock(t.Context(), "GPU-1", nil)
	assert.Error(t, err)
	assert.NotEmpty(t, w.take())
}

// TestKernelsAndTuningsDoNotMix holds that removing compiled kernels leaves the tunings, which took longer to get.
func TestKernelsAndTuningsDoNotMix(t *testing.T) {
	dir := t.TempDir()
	kernels := cache.Open(cache.Options{Dir: dir})
	require.NoError(t, kernels.Put("kernel", []byte("image")))
	s := OpenStore(kernels, nil)
	b := bucketOf(t, 16)
	require.NoError(t, s.Put(entryOf(t, b)))
	list, err := kernels.List()
	require.NoError(t, err)
	assert.Len(t, list, 1)
	_, err = kernels.Remove("")
	require.NoError(t, err)
	_, err = kernels.Trim(0)
	require.NoError(t, err)
	assert.NotNil(t, s.Get(b.Key))
}

func TestLockExcludes(t *testing.T) {
	dir := t.TempDir()
	var active, most atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		s, _ := storeIn(t, dir)
		wg.Go(func() {
			for range 5 {
				unlock, err := s.Lock(t.Context(), "GPU-1", nil)
				if !assert.NoError(t, err) {
					return
				}
				most.Store(max(most.Load(), active.Add(1)))
				time.Sleep(5 * time.Millisecond)
				active.Add(-1)
				unlock()
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, most.Load())
}

func TestLockOfAnotherGPUDoesNotWait(t *testing.T) {
	s, _ := storeIn(t, t.TempDir())
	first, err := s.Lock(t.Context(), "GPU-1", nil)
	require.NoError(t, err)
	second, err := s.Lock(t.Context(), "GPU-2", func() { t.Error("waited") })
	require.NoError(t, err)
	second()
	first()
}

func TestLockIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	s, _ := storeIn(t, dir)
	unlock, err := s.Lock(t.Context(), "GPU-1", nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = s.Lock(ctx, "GPU-1", cancel) // who waits is told
	assert.ErrorIs(t, err, context.Canceled)
	unlock()
	again, _ := storeIn(t, dir)
	unlock, err = again.Lock(t.Context(), "GPU-1", nil) // the lock that came too late was let go
	require.NoError(t, err)
	unlock()
}
