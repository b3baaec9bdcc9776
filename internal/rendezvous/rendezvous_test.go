//go:build linux

package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// clean checks at the end of a test that no goroutine and no descriptor is left.
func clean(t *testing.T) {
	t.Helper()
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(3 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // a goroutine that has done its work may not have left yet
		}
		if runtime.NumGoroutine() > goroutines {
			stacks := make([]byte, 1<<16)
			t.Errorf("goroutines are left:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
		assert.Equal(t, files, openFiles(t), "descriptors are left")
	})
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// config is a rank of a group of the test's own, in one of the two kinds of place.
func config(t *testing.T, rank, world int) Config {
	name := strings.Map(func(r rune) rune {
		if r == '/' {
			return '.'
		}
		return r
	}, t.Name())
	return Config{Group: fmt.Sprintf("%.40s-%d", name, os.Getpid()), Rank: rank, World: world, Timeout: 10 * time.Second,
		Blob: fmt.Appendf(nil, "blob of %d", rank)}
}

// everyone runs a function for each rank at once.
func everyone(world int, f func(rank int)) {
	var wg sync.WaitGroup
	for rank := range world {
		wg.Go(func() { f(rank) })
	}
	wg.Wait()
}

// join makes a group of as many goroutines; change may alter each one's configuration.
func join(t *testing.T, world int, change func(*Config)) []*Group {
	t.Helper()
	groups := make([]*Group, world)
	everyone(world, func(rank int) {
		cfg := config(t, rank, world)
		if change != nil {
			change(&cfg)
		}
		g, err := Join(t.Context(), cfg)
		assert.NoError(t, err, "rank %d", rank)
		groups[rank] = g
	})
	require.False(t, t.Failed())
	t.Cleanup(func() {
		for _, g := range groups {
			assert.NoError(t, g.Close())
		}
	})
	return groups
}

// memory is a file that nobody else has.
func memory(t *testing.T, text string) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "memory")
	_, err = f.WriteString(text)
	require.NoError(t, err)
	return f
}

func contents(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1000))
	require.NoError(t, err)
	return string(b)
}

func TestAllGetWhatAllBrought(t *testing.T) {
	clean(t)
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "sockets")} {
		const world = 5
		groups := join(t, world, func(c *Config) {
			c.Dir = dir
			if c.Rank != 3 { // brings none
				c.Files = []*os.File{memory(t, fmt.Sprint("a", c.Rank)), memory(t, fmt.Sprint("b", c.Rank))}
				t.Cleanup(func() { closeFiles(c.Files) })
			}
		})
		for rank, g := range groups {
			assert.Equal(t, [2]int{rank, world}, [2]int{g.Rank(), g.World()})
			for from, m := range g.Members() {
				assert.Equal(t, fmt.Sprintf("blob of %d", from), string(m.Blob))
				if from == 3 || from == rank {
					assert.Empty(t, m.Files)
					continue
				}
				require.Len(t, m.Files, 2)
				assert.Equal(t, fmt.Sprint("a", from), contents(t, m.Files[0])[:2], "before what others write behind it")
				assert.Equal(t, fmt.Sprint("b", from), contents(t, m.Files[1]))
				_, err := m.Files[0].WriteAt([]byte{byte('A' + rank)}, int64(2+rank))
				require.NoError(t, err, "the file itself, not a copy")
			}
			if rank == 0 {
				assert.Equal(t, os.Getpid(), g.Members()[4].PID)
			}
		}
		assert.Equal(t, "a0\x00BCDE", contents(t, groups[1].Members()[0].Files[0]))
		require.NoError(t, groups[1].Members()[0].Files[0].Close(), "which Close then leaves alone")
		for _, g := range groups {
			require.NoError(t, g.Close())
		}
		if dir != "" {
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Empty(t, left, "no socket is left")
		}
	}
}

func TestAloneOpensNothing(t *testing.T) {
	clean(t)
	cfg := config(t, 0, 1)
	cfg.Dir = "/nowhere/at/all"
	before := openFiles(t)
	g, err := Join(t.Context(), cfg)
	require.NoError(t, err)
	assert.Equal(t, before, openFiles(t))
	assert.Equal(t, "blob of 0", string(g.Members()[0].Blob))
	require.NoError(t, g.Barrier(t.Context()))
	all, err := g.AllGather(t.Context(), []byte("x"))
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte("x")}, all)
	all[0], err = g.Decide(t.Context(), func() ([]byte, error) { return []byte("y"), nil })
	require.NoError(t, err)
	assert.Equal(t, "y", string(all[0]))
	require.NoError(t, g.Close())
	assert.ErrorIs(t, g.Barrier(t.Context()), ErrClosed)
}

// Ranks that hurry must not meet what belongs to another operation, and each sees all.
func TestOperations(t *testing.T) {
	clean(t)
	const world, rounds = 4, 50
	groups := join(t, world, nil)
	boom := errors.New("no tile fits")
	everyone(world, func(rank int) {
		g := groups[rank]
		for i := range rounds {
			if (i+rank)%7 == 0 {
				time.Sleep(time.Millisecond)
			}
			all, err := g.AllGather(t.Context(), fmt.Appendf(nil, "%d of %d", i, rank))
			if !assert.NoError(t, err) {
				return
			}
			for from, b := range all {
				assert.Equal(t, fmt.Sprintf("%d of %d", i, from), string(b))
			}
			assert.NoError(t, g.Barrier(t.Context()))
			var decide func() ([]byte, error)
			if rank == 0 {
				decide = func() ([]byte, error) { return fmt.Appendf(nil, "choice %d", i), nil }
			}
			choice, err := g.Decide(t.Context(), decide)
			assert.NoError(t, err)
			assert.Equal(t, fmt.Sprintf("choice %d", i), string(choice))
		}
		_, err := g.Decide(t.Context(), func() ([]byte, error) { return nil, boom })
		if rank == 0 {
			assert.Equal(t, boom, err)
		} else {
			assert.EqualError(t, err, "rendezvous: group "+g.cfg.Group+": rank 0 could not decide: no tile fits")
		}
		big := make([]byte, MaxBlob)
		big[MaxBlob-1] = byte(rank)
		all, err := g.AllGather(t.Context(), big)
		assert.NoError(t, err, "and the group lives on")
		assert.Equal(t, byte(world-1), all[world-1][MaxBlob-1])
		empty, err := g.Decide(t.Context(), func() ([]byte, error) { return nil, nil })
		assert.NoError(t, err)
		assert.Empty(t, empty)
		_, err = g.AllGather(t.Context(), make([]byte, MaxBlob+1))
		assert.ErrorAs(t, err, new(*ConfigError))
		// The first to be through leaves at once: the others have been through the barrier all the same.
		assert.NoError(t, g.Barrier(t.Context()))
		assert.NoError(t, g.Close())
	})
}

func TestTimeoutNamesTheMissing(t *testing.T) {
	clean(t)
	everyone(5, func(rank int) {
		if rank == 1 || rank == 3 {
			return
		}
		cfg := config(t, rank, 5)
		cfg.Timeout = 300 * time.Millisecond
		if rank == 4 {
			cfg.Timeout = time.Minute // hears of it from rank 0
		}
		start := time.Now()
		_, err := Join(t.Context(), cfg)
		var missing *MissingError
		if assert.ErrorAs(t, err, &missing, "rank %d", rank) {
			assert.Equal(t, []int{1, 3}, missing.Missing, "rank %d", rank)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, "ranks 1, 3 of 5 did not come to the join: context deadline exceeded")
		}
		assert.Less(t, time.Since(start), 5*time.Second)
	})
}

func TestNobodyListens(t *testing.T) {
	clean(t)
	for _, dir := range []string{"", t.TempDir()} {
		cfg := config(t, 1, 2)
		cfg.Dir, cfg.Timeout = dir, 50*time.Millisecond
		_, err := Join(t.Context(), cfg)
		var missing *MissingError
		require.ErrorAs(t, err, &missing)
		assert.Equal(t, []int{0}, missing.Missing)
		assert.ErrorContains(t, err, "rank 0 of 2 did not come")
	}
}

func TestJoinIsCancelled(t *testing.T) {
	clean(t)
	for rank := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		cfg := config(t, rank, 3)
		cfg.Dir = t.TempDir()
		_, err := Join(ctx, cfg)
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
	}
}

// A rank that gives up while others still wait is not mistaken for one that never came.
func TestRankLeavesTheMeeting(t *testing.T) {
	clean(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	everyone(3, func(rank int) {
		if rank == 2 {
			return
		}
		mine := t.Context()
		if rank == 1 {
			mine = ctx
		}
		_, err := Join(mine, config(t, rank, 3))
		var left *LeftError
		if rank == 0 && assert.ErrorAs(t, err, &left) {
			assert.Equal(t, 1, left.Rank)
		}
		if rank == 1 {
			assert.ErrorIs(t, err, context.Canceled)
		}
	})
}

func TestOperationIsCancelled(t *testing.T) {
	clean(t)
	groups := join(t, 4, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	everyone(4, func(rank int) {
		if rank == 2 {
			return
		}
		mine := t.Context()
		if rank == 1 {
			mine = ctx
		}
		err := groups[rank].Barrier(mine)
		if rank == 1 {
			var missing *MissingError
			if assert.ErrorAs(t, err, &missing) {
				assert.Equal(t, []int{2}, missing.Missing)
				assert.Equal(t, "barrier", missing.Op)
			}
			return
		}
		var left *LeftError
		if assert.ErrorAs(t, err, &left, "rank %d", rank) {
			assert.Equal(t, 1, left.Rank)
		}
	})
	<-groups[2].Done()
	assert.ErrorContains(t, groups[2].Err(), "rank 1 has closed the group")
	_, err := groups[2].AllGather(t.Context(), nil)
	assert.Equal(t, groups[2].Err(), err)
}

func TestEveryRankHearsOfOneThatLeaves(t *testing.T) {
	clean(t)
	for leaver := range 3 {
		groups := join(t, 3, nil)
		require.NoError(t, groups[leaver].Err())
		require.NoError(t, groups[leaver].Close())
		for rank, g := range groups {
			<-g.Done()
			if rank == leaver {
				assert.ErrorIs(t, g.Err(), ErrClosed)
				continue
			}
			var left *LeftError
			require.ErrorAs(t, g.Err(), &left)
			assert.Equal(t, leaver, left.Rank)
		}
		for _, g := range groups {
			require.NoError(t, g.Close())
		}
	}
}

// A connection that ends without a word is a death; with something unread at the other end the kernel calls it a reset.
func TestLostRank(t *testing.T) {
	clean(t)
	for dead := 1; dead < 3; dead++ { // processes_test.go kills rank 0 too
		groups := join(t, 3, nil)
		start := time.Now()
		require.NoError(t, groups[dead].conns[0].Close())
		for rank, g := range groups {
			if rank == dead {
				continue
			}
			var lost *LostError
			require.ErrorAs(t, g.Barrier(t.Context()), &lost)
			assert.Equal(t, dead, lost.Rank)
			assert.Equal(t, os.Getpid(), lost.PID)
			assert.ErrorContains(t, lost, fmt.Sprintf("rank %d (process %d) is gone", dead, os.Getpid()))
		}
		assert.Less(t, time.Since(start), 2*time.Second)
		for _, g := range groups {
			require.NoError(t, g.Close())
		}
	}
}

// A rank that exits as soon as it hears that another died is not what the rest lose.
func TestLostRankIsNamedByThoseWhoExit(t *testing.T) {
	clean(t)
	for range 200 {
		groups := join(t, 3, nil)
		require.NoError(t, groups[1].conns[0].Close())
		<-groups[0].Done()
		_ = groups[0].conns[2].Close() // as the end of the process does
		var lost *LostError
		require.ErrorAs(t, groups[2].Barrier(t.Context()), &lost)
		require.Equal(t, 1, lost.Rank)
		for _, g := range groups {
			require.NoError(t, g.Close())
		}
	}
}

func TestRanksThatDoNotAgree(t *testing.T) {
	clean(t)
	for what, change := range map[string]func(*Config){
		"world size": func(c *Config) { c.World = 4 },
		"process":    func(c *Config) { c.Rank = 1 },
	} {
		everyone(3, func(rank int) {
			cfg := config(t, rank, 3)
			if rank == 2 {
				time.Sleep(100 * time.Millisecond) // so that rank 1 has come before all end
				change(&cfg)
			}
			_, err := Join(t.Context(), cfg)
			var mismatch *MismatchError
			if assert.ErrorAs(t, err, &mismatch, "rank %d", rank) {
				assert.Equal(t, what, mismatch.What)
			}
		})
	}
	groups := join(t, 2, nil)
	everyone(2, func(rank int) {
		var err error
		if rank == 0 {
			err = groups[0].Barrier(t.Context())
		} else {
			_, err = groups[1].AllGather(t.Context(), nil)
		}
		var mismatch *MismatchError
		if assert.ErrorAs(t, err, &mismatch) {
			assert.Equal(t, "operation", mismatch.What)
		}
	})
}

func TestTwoListeners(t *testing.T) {
	clean(t)
	for _, dir := range []string{"", t.TempDir()} {
		ctx, cancel := context.WithCancel(t.Context())
		cfg := config(t, 0, 2)
		cfg.Dir = dir
		l, err := listen(&cfg)
		require.NoError(t, err)
		_, err = Join(ctx, cfg)
		assert.ErrorAs(t, err, new(*MismatchError))
		assert.ErrorContains(t, err, "one that is waiting already")
		require.NoError(t, l.Close())
		cancel()
	}
}

// A socket that a killed process has left is replaced, and a dialer that finds it waits for the next.
func TestAbandonedSocket(t *testing.T) {
	clean(t)
	cfg := config(t, 0, 2)
	cfg.Dir = t.TempDir()
	l, err := listen(&cfg)
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	join(t, 2, func(c *Config) {
		c.Dir = cfg.Dir
		if c.Rank == 0 {
			time.Sleep(30 * time.Millisecond)
		}
	})
}

// A file of the user's with the name of a socket is no socket that was left behind.
func TestFilesAreNotSockets(t *testing.T) {
	clean(t)
	cfg := config(t, 0, 2)
	cfg.Dir = t.TempDir()
	addr, err := cfg.address()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(addr.Name, []byte("notes"), 0o600))
	_, err = Join(t.Context(), cfg)
	require.EqualError(t, err, "rendezvous: "+addr.Name+" is there, and no socket")
	text, err := os.ReadFile(addr.Name)
	require.NoError(t, err)
	require.Equal(t, "notes", string(text))
}

func TestFoldersOfOthersAreRefused(t *testing.T) {
	clean(t)
	open := t.TempDir()
	require.NoError(t, os.Chmod(open, 0o777))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(t.TempDir(), link))
	for _, dir := range []string{open, link} {
		for rank := range 2 {
			cfg := config(t, rank, 2)
			cfg.Dir = dir
			_, err := Join(t.Context(), cfg)
			assert.ErrorAs(t, err, new(*ConfigError), dir)
			assert.ErrorContains(t, err, "that nobody else may write to")
		}
	}
	cfg := config(t, 0, 2)
	cfg.Dir = filepath.Join(open, strings.Repeat("long/", 30))
	_, err := Join(t.Context(), cfg)
	assert.ErrorContains(t, err, "want at most 107")
	cfg.Dir = filepath.Join(os.Args[0], "below a file")
	_, err = Join(t.Context(), cfg)
	assert.Error(t, err)
}

func TestConfigsAreChecked(t *testing.T) {
	clean(t)
	for _, cfg := range []Config{
		{}, {Group: "a/b", World: 1}, {Group: strings.Repeat("a", 65), World: 1}, {Group: "a"}, {Group: "a", World: MaxWorld + 1},
		{Group: "a", World: 2, Rank: 2}, {Group: "a", World: 2, Rank: -1}, {Group: "a", World: 2, Blob: make([]byte, MaxBlob+1)},
		{Group: "a", World: 2, Files: make([]*os.File, MaxFiles+1)}, {Group: "a", World: 2, Timeout: -1},
	} {
		_, err := Join(t.Context(), cfg)
		assert.ErrorAs(t, err, new(*ConfigError), "%+v", cfg)
	}
	gone := memory(t, "")
	require.NoError(t, gone.Close())
	everyone(2, func(rank int) {
		cfg := config(t, rank, 2)
		if rank == 0 {
			cfg.Files = []*os.File{gone}
		}
		_, err := Join(t.Context(), cfg)
		if rank == 0 {
			assert.ErrorContains(t, err, "file 0: ")
		} else {
			assert.Error(t, err)
		}
	})
}

// visitor connects to a group that is being met, as a process with anything in mind would.
func visitor(t *testing.T, cfg Config) *conn {
	t.Helper()
	c, err := dial(t.Context(), &cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (c *conn) raw(t *testing.T, b []byte, files ...*os.File) {
	t.Helper()
	var rights []byte
	for _, f := range files {
		rights = append(rights, unix.UnixRights(int(f.Fd()))...)
	}
	if len(files) > 1 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err := c.WriteMsgUnix(b, rights, nil)
	if err != nil && !hungUp(err) {
		t.Error(err)
	}
}

// Whoever does not speak the protocol is left standing, its descriptors are closed, and the group meets all the same.
func TestHostileVisitors(t *testing.T) {
	clean(t)
	f := memory(t, "")
	defer f.Close()
	cfg := config(t, 1, 2)
	var host *Group
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		host, err = Join(t.Context(), config(t, 0, 2))
		assert.NoError(t, err)
	})
	greeting := message{kind: kindHello, rank: 1, note: noted(hello{cfg.Group, 2})}
	whole := greeting.encode()
	strange := greeting
	strange.rank = 7
	garbled := greeting
	garbled.note = []byte("{")
	member := greeting
	member.kind = kindMember
	many := make([]*os.File, 40)
	for i := range many {
		many[i] = f
	}
	for _, send := range []func(c *conn){
		func(c *conn) { c.raw(t, []byte("GET / HTTP/1.1\r\n\r\n")) },
		func(c *conn) { c.raw(t, whole[:20], f) },
		func(c *conn) { c.raw(t, whole, f) },                             // one descriptor, none announced
		func(c *conn) { c.raw(t, whole, many...) },                       // more than fit
		func(c *conn) { c.raw(t, append(whole, make([]byte, 9)...), f) }, // longer than it says
		func(c *conn) { c.raw(t, make([]byte, maxMessage+100), f) },
		func(c *conn) { c.raw(t, strange.encode()) },
		func(c *conn) { c.raw(t, garbled.encode()) },
		func(c *conn) { c.raw(t, member.encode()) },
		func(c *conn) { _ = c.Close() },
	} {
		send(visitor(t, cfg))
	}
	g, err := Join(t.Context(), cfg)
	require.NoError(t, err)
	wg.Wait()
	assert.NoError(t, g.Close())
	assert.NoError(t, host.Close())
}

func TestAnotherVersion(t *testing.T) {
	clean(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := Join(t.Context(), config(t, 0, 2))
		assert.ErrorContains(t, err, "a visitor has protocol version 9, where others have 1")
	})
	b := (&message{kind: kindHello}).encode()
	b[4] = 9
	c := visitor(t, config(t, 1, 2))
	c.raw(t, b)
	m, _, err := c.receive()
	require.NoError(t, err)
	assert.Equal(t, kindEnd, m.kind, "it hears why")
	wg.Wait()
}

// A rank that has been let in and then talks nonsense ends the group with an error, whoever hears it.
func TestHostileRanks(t *testing.T) {
	clean(t)
	for name, b := range map[string][]byte{
		"garbage":           []byte("garbage"),
		"in another's name": (&message{kind: kindGather, rank: 0}).encode(),
		"far ahead":         (&message{kind: kindGather, rank: 1, seq: 1 << 40}).encode(),
		"a member":          (&message{kind: kindMember, rank: 1}).encode(),
		"a garbled end":     (&message{kind: kindEnd, rank: 1}).encode(),
		"hello again":       (&message{kind: kindHello, rank: 1, note: noted(hello{"x", 3})}).encode(),
	} {
		groups := join(t, 3, nil)
		groups[1].conns[0].raw(t, b)
		for rank := range 3 {
			<-groups[rank].Done()
			assert.ErrorAs(t, groups[rank].Err(), new(*ProtocolError), "%s, rank %d", name, rank)
		}
		for _, g := range groups {
			require.NoError(t, g.Close())
		}
	}
	groups := join(t, 2, nil)
	twice := (&message{kind: kindGather, op: opBarrier, rank: 1}).encode()
	groups[1].conns[0].raw(t, twice)
	groups[1].conns[0].raw(t, twice)
	<-groups[0].Done()
	assert.ErrorContains(t, groups[0].Err(), "rank 1 gives to operation 0 twice")
}

// A rank that is stopped and reads nothing must not hold the others for ever.
func TestRankThatReadsNothing(t *testing.T) {
	clean(t)
	cfg := config(t, 1, 2)
	var host *Group
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		host, err = Join(t.Context(), config(t, 0, 2))
		assert.NoError(t, err)
	})
	c := visitor(t, cfg)
	require.NoError(t, c.send(message{kind: kindHello, rank: 1, note: noted(hello{cfg.Group, 2})}, nil, time.Second))
	wg.Wait()
	big := make([]byte, MaxBlob)
	host.stall = 100 * time.Millisecond
	var err error
	for seq := uint64(0); err == nil && seq < 20; seq++ {
		require.NoError(t, c.send(message{kind: kindGather, op: opGather, rank: 1, seq: seq}, nil, time.Second))
		_, err = host.AllGather(t.Context(), big)
	}
	var lost *LostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, 1, lost.Rank)
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, host.Close())
}

func TestOperationsFromManyGoroutines(t *testing.T) {
	clean(t)
	groups := join(t, 2, nil)
	var wg sync.WaitGroup
	for range 8 {
		for _, g := range groups {
			wg.Go(func() {
				for range 10 {
					assert.NoError(t, g.Barrier(t.Context()))
				}
			})
		}
	}
	wg.Wait()
	for _, g := range groups {
		wg.Go(func() { assert.NoError(t, g.Close()) })
		wg.Go(func() { _ = g.Barrier(t.Context()) })
	}
	wg.Wait()
	assert.True(t, errors.Is(groups[0].Err(), ErrClosed) || errors.As(groups[0].Err(), new(*LeftError)))
}

// What rank 0 passes on and the end of a group come one after the other, so that who leaves after a barrier is not seen to leave
// before it by ranks that a slow rank 0 has not told of it yet.
func TestNothingOvertakes(t *testing.T) {
	clean(t)
	groups := join(t, 3, nil)
	groups[0].passing.Lock() // as if it were in the middle of passing something on
	var wg sync.WaitGroup
	passed := make(chan struct{})
	for _, g := range groups {
		wg.Go(func() {
			assert.NoError(t, g.Barrier(t.Context()))
			select {
			case <-passed:
			default:
				t.Error("a barrier went on meanwhile")
			}
		})
	}
	time.Sleep(30 * time.Millisecond)
	close(passed)
	groups[0].passing.Unlock()
	wg.Wait()

	groups[0].passing.Lock()
	wg.Go(func() { assert.NoError(t, groups[1].Close()) })
	require.Eventually(t, func() bool { return groups[0].Err() != nil }, 5*time.Second, time.Millisecond)
	select {
	case <-groups[0].Done():
		t.Error("the group was done before others were told")
	case <-groups[2].Done():
		t.Error("the end went on meanwhile")
	case <-time.After(30 * time.Millisecond):
	}
	groups[0].passing.Unlock()
	<-groups[2].Done()
	wg.Wait()
}
