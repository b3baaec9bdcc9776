package autotune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fsgen/fsgen/internal/cache"
)

// tuned runs jobs and returns what became of their buckets.
func tuned(ctx context.Context, o Options, jobs ...Job) ([]Outcome, error) {
	var list []Outcome
	o.GPU = "GPU-1"
	o.Finished = func(x Outcome) { list = append(list, x) }
	err := Run(ctx, jobs, o)
	return list, err
}

func TestRunKeepsWhatItFinds(t *testing.T) {
	s, _ := storeIn(t, t.TempDir())
	b := &bench{}
	list, err := tuned(t.Context(), Options{Store: s}, b.job(t, 8, 16, 64))
	require.NoError(t, err)
	require.Len(t, list, 3)
	for _, o := range list {
		assert.False(t, o.Reused)
		assert.Equal(t, o.Entry, s.Get(o.Entry.Key))
		assert.Equal(t, o.Search.Winner().Candidate.String(), o.Entry.Candidate)
		assert.Positive(t, o.Entry.Default)
	}
	assert.Equal(t, 1, b.opened, "the buckets of a job share the weights")
	assert.EqualValues(t, 0, b.active.Load(), "the Runner is closed")

	again, err := tuned(t.Context(), Options{Store: s}, b.job(t, 8, 16, 64))
	require.NoError(t, err)
	for i, o := range again {
		assert.True(t, o.Reused)
		assert.Equal(t, list[i].Entry, o.Entry)
	}
	assert.Equal(t, 1, b.opened, "nothing is loaded for nothing")

	_, err = tuned(t.Context(), Options{Store: s, Force: true}, b.job(t, 8, 16, 64))
	require.NoError(t, err)
	assert.Equal(t, map[int]int{8: 2, 16: 2, 64: 2}, b.searched)
}

func TestRunWithoutAStore(t *testing.T) {
	b := &bench{}
	list, err := tuned(t.Context(), Options{}, b.job(t, 8))
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.NotNil(t, list[0].Entry)
}

// TestInterruptedRunGoesOn cuts runs short at every call and holds that each finished bucket is measured once over all
// runs, but for the one that was under way.
func TestInterruptedRunGoesOn(t *testing.T) {
	s, _ := storeIn(t, t.TempDir())
	b := &bench{}
	j := b.job(t, 8, 16, 32)
	finished := 0
	for call := 5; ; call += 9 {
		ctx, cancel := context.WithCancel(t.Context())
		start := b.calls
		b.before = func(n int) error {
			if n == start+call {
				cancel()
			}
			return nil
		}
		list, err := tuned(ctx, Options{Store: s}, j)
		cancel()
		if err == nil {
			assert.Len(t, list, 3)
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		kept, err := s.List()
		require.NoError(t, err)
		assert.GreaterOrEqual(t, len(kept), finished)
		assert.Len(t, kept, len(list), "what is finished is kept")
		finished = len(kept)
		assert.EqualValues(t, 0, b.active.Load(), "the Runner is closed")
	}
	assert.Positive(t, finished, "some run was cut short after a bucket")
	unlock, err := s.Lock(t.Context(), "GPU-1", func() { t.Error("a run left its lock") })
	require.NoError(t, err)
	unlock()
}

func TestChangedKernelIsMeasuredAgain(t *testing.T) {
	s, _ := storeIn(t, t.TempDir())
	b := &bench{}
	j := b.job(t, 8, 16)
	_, err := tuned(t.Context(), Options{Store: s}, j)
	require.NoError(t, err)
	e := *s.Get(j.Buckets[0].Key)
	e.PTXSHA256 = strings.Repeat("0", 64)
	require.NoError(t, s.Put(&e))
	list, err := tuned(t.Context(), Options{Store: s}, j)
	require.NoError(t, err)
	assert.False(t, list[0].Reused)
	assert.True(t, list[1].Reused)
	assert.Equal(t, map[int]int{8: 2, 16: 1}, b.searched)
}

func TestBucketWithoutCandidateDoesNotEndTheRun(t *testing.T) {
	s, _ := storeIn(t, t.TempDir())
	b := &bench{wrong: map[Candidate]error{}}
	j := b.job(t, 8, 256)
	for _, c := range j.Buckets[0].Candidates {
		b.wrong[c] = wrongTokens(1)
	}
	list, err := tuned(t.Context(), Options{Store: s}, j)
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.ErrorIs(t, list[0].Err, ErrNoCandidate)
	assert.Nil(t, list[0].Entry)
	assert.Len(t, list[0].Search.Rejected(), len(j.Buckets[0].Candidates))
	assert.NoError(t, list[1].Err)
}

func TestFailingGPUEndsTheRun(t *testing.T) {
	boom := errors.New("an illegal memory access was encountered")
	s, _ := storeIn(t, t.TempDir())
	b := &bench{before: func(n int) error {
		if n > 30 {
			return boom
		}
		return nil
	}}
	_, err := tuned(t.Context(), Options{Store: s}, b.job(t, 8, 16, 32, 64))
	assert.ErrorIs(t, err, boom)
	assert.ErrorContains(t, err, "small, batch ")

	j := b.job(t, 8)
	j.Open = func(context.Context) (ClosableRunner, error) { return (*benchRunner)(nil), boom }
	_, err = tuned(t.Context(), Options{Store: s, Force: true}, j)
	assert.ErrorIs(t, err, boom)
}

// TestGoroutinesTuneAtOnce lets runs with stores of their own meet in one directory.
func TestGoroutinesTuneAtOnce(t *testing.T) {
	dir, b := t.TempDir(), &bench{}
	var wg sync.WaitGroup
	for range 4 {
		s, _ := storeIn(t, dir)
		wg.Go(func() {
			list, err := tuned(t.Context(), Options{Store: s}, b.job(t, 8, 16), b.job(t, 32))
			assert.NoError(t, err)
			assert.Len(t, list, 3)
		})
	}
	wg.Wait()
	assert.Equal(t, map[int]int{8: 1, 16: 1, 32: 1}, b.searched, "each is measured once")
	assert.Zero(t, b.overlaps.Load(), "no two measure at once")
}

func TestProgressForetellsTheTimeLeft(t *testing.T) {
	s, _ := storeIn(t, t.TempDir())
	b := &bench{}
	var list []Progress
	start := time.Now()
	_, err := tuned(t.Context(), Options{Store: s, Progress: func(p Progress) { list = append(list, p) }}, b.job(t, 8, 16), b.job(t, 32))
	require.NoError(t, err)
	took := time.Since(start)
	require.NotEmpty(t, list)
	first, last := list[0], list[len(list)-1]
	assert.Equal(t, Progress{Job: "small", Bucket: 8, Doing: "loading weights", Total: 3, Left: -1}, first)
	assert.Equal(t, 32, last.Bucket)
	assert.Equal(t, "timing", last.Doing)
	assert.Equal(t, 2, last.Done)
	assert.LessOrEqual(t, last.Left, 2*took)
	doing := map[string]bool{}
	for _, p := range list {
		doing[p.Doing] = true
	}
	assert.Equal(t, map[string]bool{"loading weights": true, "verifying": true, "timing": true}, doing)
}

// TestMeter drives the prediction by a clock of its own.
func TestMeter(t *testing.T) {
	var now time.Time
	var at Progress
	m := newMeter(func(p Progress) { at = p })
	m.now = func() time.Time { return now }
	work := func(s stage, n int, took time.Duration) {
		done := m.begin(s, n)
		now = now.Add(took)
		done()
	}
	m.expect(verifying, 4)
	m.expect(timing, 2*plannedPasses(2, firstPasses))
	m.enter("job", 8, 2)
	m.say("")
	assert.Equal(t, time.Duration(-1), at.Left, "nothing is known yet")
	work(verifying, 1, time.Second)
	work(verifying, 1, time.Second)
	assert.Equal(t, time.Duration(-1), at.Left, "the pace of timing is not known")
	work(timing, 10, 100*time.Millisecond)
	m.say("")
	ahead := 2*plannedPasses(2, firstPasses) - 10
	assert.Equal(t, 2*time.Second+time.Duration(ahead)*10*time.Millisecond, at.Left)
	m.plan(timing, 30) // the bucket needs 30 more
	m.say("")
	assert.Equal(t, 2*time.Second+time.Duration(plannedPasses(2, firstPasses)+30)*10*time.Millisecond, at.Left)
	m.leave() // without having needed them
	m.say("")
	assert.Equal(t, 2*time.Second+time.Duration(plannedPasses(2, firstPasses))*10*time.Millisecond, at.Left)
	m.enter("job", 16, 2)
	m.leave()
	m.say("")
	assert.Equal(t, time.Duration(0), at.Left)
	assert.Equal(t, 2, at.Done)
	m.enter("job", 32, 0) // one that nobody expected
	m.leave()
	m.say("")
	assert.Equal(t, time.Duration(0), at.Left)
}

// childEnv tells the test binary to act as one of two processes that tune: "DIR LOG".
const childEnv = "FSGEN_AUTOTUNE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := strings.Fields(os.Getenv(childEnv)); len(role) == 2 {
		os.Exit(child(role[0], role[1]))
	}
	os.Exit(m.Run())
}

// child tunes like a process of its own and writes what it measured, and from when to when, to a log.
func child(dir, log string) int {
	var t testing.T // only for bucketOf, which has nothing to say
	out, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	b := &bench{}
	j := b.job(&t, 8, 16, 32)
	open := j.Open
	j.Open = func(ctx context.Context) (ClosableRunner, error) {
		fmt.Fprintf(out, "open %d\n", os.Getpid())
		r, err := open(ctx)
		return &loggedRunner{r, out}, err
	}
	o := Options{Store: OpenStore(cache.Open(cache.Options{Dir: dir}), nil), GPU: "GPU-1"}
	o.Finished = func(x Outcome) {
		if !x.Reused {
			fmt.Fprintf(out, "measured %d\n", x.Entry.Batch)
			time.Sleep(20 * time.Millisecond)
		}
	}
	for _, err := os.Stat(filepath.Join(dir, "go")); err != nil; _, err = os.Stat(filepath.Join(dir, "go")) {
		time.Sleep(time.Millisecond) // the processes start at once
	}
	if err := Run(context.Background(), []Job{j}, o); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

type loggedRunner struct {
	ClosableRunner
	log *os.File
}

func (r *loggedRunner) Close() error {
	fmt.Fprintf(r.log, "close %d\n", os.Getpid())
	return r.ClosableRunner.Close()
}

// TestProcessesTuneAtOnce starts processes on one store, kills one while it measures, and holds that the others measure
// each bucket once, never two at a time.
func TestProcessesTuneAtOnce(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	self, err := os.Executable()
	require.NoError(t, err)
	start := func() *exec.Cmd {
		cmd := exec.Command(self, "-test.run=^$")
		cmd.Env = append(os.Environ(), childEnv+"="+dir+" "+log)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		require.NoError(t, cmd.Start())
		return cmd
	}
	victim := start()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	var text string
	require.Eventually(t, func() bool {
		data, _ := os.ReadFile(log)
		text = string(data)
		return strings.Contains(text, "measured 8\n")
	}, 20*time.Second, time.Millisecond)
	others := []*exec.Cmd{start(), start(), start()}
	require.NoError(t, victim.Process.Kill())
	assert.Error(t, victim.Wait())
	for _, cmd := range others {
		assert.NoError(t, cmd.Wait())
	}
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	checkLog(t, string(data), victim.Process.Pid)
	s, _ := storeIn(t, dir)
	list, err := s.List()
	require.NoError(t, err)
	assert.Len(t, list, 3)
}

// checkLog holds a log to one process at a time, apart from the one that was killed.
func checkLog(t *testing.T, text string, victim int) {
	measured, holder := map[string]int{}, 0
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		what, value, _ := strings.Cut(line, " ")
		pid, _ := strconv.Atoi(value)
		switch what {
		case "open":
			assert.True(t, holder == 0 || holder == victim, "two processes measure at once:\n%s", text)
			holder = pid
		case "close":
			assert.Equal(t, holder, pid, text)
			holder = 0
		case "measured":
			measured[value]++
		}
	}
	assert.Equal(t, map[string]int{"8": 1, "16": 1, "32": 1}, measured, text)
}
